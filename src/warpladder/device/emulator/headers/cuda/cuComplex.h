// Complex numbers of float and double, as NVIDIA's header of this name has them.
#pragma once
#include "../emulator.h"

#define CU_COMPLEX_H_ 1
using cuFloatComplex = float2;
using cuDoubleComplex = double2;
using cuComplex = float2;
// Names of one precision: F stands for float and f at the end, and the other for double and nothing.
#define EMU_COMPLEX(C, T, f, fma, make)                                                              \
    inline T cuCreal##f(C z) { return z.x; }                                                         \
    inline T cuCimag##f(C z) { return z.y; }                                                         \
    inline C make(T x, T y) { return C{x, y}; }                                                      \
    inline C cuConj##f(C z) { return C{z.x, -z.y}; }                                                 \
    inline C cuCadd##f(C a, C b) { return C{a.x + b.x, a.y + b.y}; }                                 \
    inline C cuCsub##f(C a, C b) { return C{a.x - b.x, a.y - b.y}; }                                 \
    inline C cuCmul##f(C a, C b) { return C{a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }         \
    inline C cuCdiv##f(C a, C b) {                                                                   \
        T s = T(1) / (fabs(b.x) + fabs(b.y)), ax = a.x * s, ay = a.y * s, bx = b.x * s, by = b.y * s; \
        T all = T(1) / (bx * bx + by * by);                                                          \
        return C{(ax * bx + ay * by) * all, (ay * bx - ax * by) * all};                              \
    }                                                                                                \
    inline T cuCabs##f(C z) { return T(hypot(z.x, z.y)); }               \
    inline C cuCfma##f(C a, C b, C c) {                                                              \
        return C{fma(-a.y, b.y, fma(a.x, b.x, c.x)), fma(a.y, b.x, fma(a.x, b.y, c.y))}; }
EMU_COMPLEX(cuFloatComplex, float, f, fmaf, make_cuFloatComplex)
EMU_COMPLEX(cuDoubleComplex, double, , fma, make_cuDoubleComplex)
#undef EMU_COMPLEX
inline cuComplex make_cuComplex(float x, float y) { return {x, y}; }
inline cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex z) { return {float(z.x), float(z.y)}; }
inline cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex z) { return {double(z.x), double(z.y)}; }
