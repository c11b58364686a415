// CUDA C++ for a CPU's compiler: all declarations that NVRTC has without an include, but those of simd.h.
#pragma once
// Without the special functions of C++17, which no GPU has: instances of their templates, made for every kernel anew,
// take most of the time that a small kernel takes to compile.
#define lerp std_lerp  // which kernels define, and which <math.h> would have too
#include <cstddef>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <bit>
#include <limits>
#include <type_traits>
#include <utility>
#undef lerp

#define __CUDA_EMU__ 1
#define __CUDACC__ 1
#define __CUDA_ARCH__ 900

#include "interface.h"
#include "arithmetic.h"
#include "special.h"
#include "rounding.h"
#include "bits.h"
#include "builtins.h"
#include "shared.h"
#include "barriers.h"
#include "warp.h"
#include "atomics.h"
#include "memory.h"
#include "half.h"
#include "bfloat16.h"
#include "short_floats.h"
#include "matrix.h"
#include "async.h"
#include "bulk.h"
#include "ptx.h"
#include "kernels.h"
