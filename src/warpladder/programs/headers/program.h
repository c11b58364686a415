// Host and device code of a program as one C++: what nvcc declares without an include. The emulator declares the
// device's part; macros of it that would change host code are replaced.
#pragma once
#define lerp std_lerp  // programs define a function of this name, which <math.h> would have too
#include <algorithm>
#include <cassert>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#undef lerp
#include "emulator.h"
#include "simd.h"

#undef printf        // the C library's, for the host and for kernels
#undef clock
#undef malloc  // programs/rewrite.py replaces it in device functions
#undef free
#undef fmaxf
#undef fminf
#undef umax
#undef umin
#undef __CUDA_ARCH__
#define __CUDA_ARCH__ EMU_ARCH
#define __NVCC__ 1
#define EMU_PROGRAM 1
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 4
#define __CUDA_RUNTIME_H__ 1
#define __DRIVER_TYPES_H__ 1

// Templates, next to which a program may have functions of these names.
template <class A, class B> unsigned umin(A a, B b) { return unsigned(a) < unsigned(b) ? unsigned(a) : unsigned(b); }
template <class A, class B> unsigned umax(A a, B b) { return unsigned(a) < unsigned(b) ? unsigned(b) : unsigned(a); }

#include "types.h"
#include "api.h"
#include "launch.h"
#include "mipmaps.h"
#include "graphs.h"
#include "graph_memory.h"
#include "more.h"
#include "clusters.h"

// Variables with __managed__ stand together: their addresses are the device's too.
#undef __managed__
#define __managed__ __attribute__((section("emu_managed")))
extern "C" {
extern char __start_emu_managed[] __attribute__((weak, visibility("hidden")));
extern char __stop_emu_managed[] __attribute__((weak, visibility("hidden")));
}
inline const bool emu_managed_noted = [] {
    if (__start_emu_managed) emu_note_symbol(__start_emu_managed, size_t(__stop_emu_managed - __start_emu_managed));
    return true;
}();
