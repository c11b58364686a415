// Arithmetic and conversions that round down (rd), up (ru) or to zero (rz).
#pragma once
#include "arithmetic.h"

EMU_EXPORT float emu_round_float(int mode, char operation, float a, float b, float c);
EMU_EXPORT double emu_round_double(int mode, char operation, double a, double b, double c);
EMU_EXPORT float emu_narrow(int mode, double a);

#define EMU_ROUNDED(F, T, m, round, way, mode)                                                                \
    inline T __##F##add_##way(T a, T b) { return round(mode, '+', a, b, 0); }                                 \
    inline T __##F##sub_##way(T a, T b) { return round(mode, '-', a, b, 0); }                                 \
    inline T __##F##mul_##way(T a, T b) { return round(mode, '*', a, b, 0); }                                 \
    inline T __##F##div_##way(T a, T b) { return round(mode, '/', a, b, 0); }                                 \
    inline T __##F##rcp_##way(T a) { return round(mode, '/', 1, a, 0); }                                      \
    inline T __##F##sqrt_##way(T a) { return round(mode, 'r', a, 0, 0); }                                     \
    inline T __##m##_##way(T a, T b, T c) { return round(mode, 'f', a, b, c); }
#define EMU_ROUNDED_BOTH(way, mode)                                 \
    EMU_ROUNDED(f, float, fmaf, emu_round_float, way, mode)         \
    EMU_ROUNDED(d, double, fma, emu_round_double, way, mode)        \
    inline float __double2float_##way(double x) { return emu_narrow(mode, x); } \
    inline float __int2float_##way(int x) { return emu_narrow(mode, x); }       \
    inline float __uint2float_##way(unsigned x) { return emu_narrow(mode, x); }
// Two floats at a time.
#define EMU_PAIRED(way)                                                                                       \
    inline float2 __fadd2_##way(float2 a, float2 b) { return {__fadd_##way(a.x, b.x), __fadd_##way(a.y, b.y)}; } \
    inline float2 __fmul2_##way(float2 a, float2 b) { return {__fmul_##way(a.x, b.x), __fmul_##way(a.y, b.y)}; } \
    inline float2 __ffma2_##way(float2 a, float2 b, float2 c) {                                               \
        return {__fmaf_##way(a.x, b.x, c.x), __fmaf_##way(a.y, b.y, c.y)}; }                                  \
    inline float __fmaf_ieee_##way(float a, float b, float c) { return __fmaf_##way(a, b, c); }
EMU_ROUNDED_BOTH(rd, -1)
EMU_ROUNDED_BOTH(ru, 1)
EMU_ROUNDED_BOTH(rz, 0)
EMU_PAIRED(rn)
EMU_PAIRED(rd)
EMU_PAIRED(ru)
EMU_PAIRED(rz)
#undef EMU_PAIRED
#undef EMU_ROUNDED_BOTH
#undef EMU_ROUNDED
