// Qualifiers, built-in variables, clocks, traps and printf.
#pragma once
#include <cstdio>
#include <ctime>

#include "interface.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __forceinline__ inline __attribute__((always_inline))
// __noinline__ is replaced in the text of kernels: <memory> uses the word.
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))

#ifdef EMU_CHECK
#define threadIdx (emu_thread_index())
#define blockIdx (emu_block_index())
#define blockDim (emu_block_size())
#define gridDim (emu_grid_size())
#else  // functions: a program may have macros with the names of members
#define EMU_PLACE(name, place) \
    __attribute__((always_inline)) inline decltype(auto) name() { return (emu::current->place); }
EMU_PLACE(emu_thread_place, index)
EMU_PLACE(emu_block_place, block->index)
EMU_PLACE(emu_block_sides, block->size)
EMU_PLACE(emu_grid_sides, block->grid)
#undef EMU_PLACE
#define threadIdx (emu_thread_place())
#define blockIdx (emu_block_place())
#define blockDim (emu_block_sides())
#define gridDim (emu_grid_sides())
#endif
constexpr int warpSize = 32;

inline long long clock64() { return emu_clock(); }
#define clock() clock_t(emu_clock())  // <ctime> declares the host's, which has the same type
inline unsigned long long globaltimer() { return (unsigned long long)emu_clock(); }
inline void __nanosleep(unsigned) { emu_sleep(); }

[[noreturn]] inline void emu_trap_here(EMU_HERE) { emu_trap("__trap() was called", file, line); }
#define __trap() emu_trap_here()
#define __brkpt() ((void)0)
#define __prof_trigger(number) ((void)0)
// Counters of performance, which no tool sets here.
inline unsigned __pm0() { return 0; }
inline unsigned __pm1() { return 0; }
inline unsigned __pm2() { return 0; }
inline unsigned __pm3() { return 0; }
#define __builtin_assume(condition) ((void)0)
#define __assume(condition) ((void)0)
#include "cuda/assert.h"
#define printf emu_printf
