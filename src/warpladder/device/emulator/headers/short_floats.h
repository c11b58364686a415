// The other functions of __half, __nv_bfloat16 and their pairs: conversions that round, comparisons, functions of a
// number.
#pragma once
#include "bfloat16.h"
#include "rounding.h"
#include "special.h"

namespace emu {

// The 16-bit number for x, rounded down (-1), up (1) or to zero (0).
template <class H, class X> H narrowed(X x, int mode) {
    H near = H(float(x));
    long double exact = x, found = float(near);
    if (!(found != exact)) return near;  // NaN too
    bool down = mode < 0 || (mode == 0 && exact > 0);
    if (down == (found < exact)) return near;
    bool away = (found < 0) == down;  // the next number has a larger absolute value
    if (float(near) == 0) return near.bits = (unsigned short)(down ? 0x8001 : 1), near;
    return near.bits = (unsigned short)(near.bits + (away ? 1 : -1)), near;
}
// An integer of a 16-bit number; NaN gives 0.
template <class I> I whole_of(float x) {
    if (x != x) return 0;
    if constexpr (sizeof(I) >= 4) return saturated<I>(x);
    constexpr float least = float(std::numeric_limits<I>::min()), most = float(std::numeric_limits<I>::max());
    return I(x < least ? least : x > most ? most : x);
}
template <class H> H within_one(H x) { return float(x) > 1 ? H(1.0f) : float(x) > 0 ? x : H(0.0f); }
template <class H> H above_zero(H x) { return float(x) != float(x) || float(x) > 0 ? x : H(0.0f); }

}  // namespace emu

#define EMU_SHORT_FUNCTION(T, T2, name, value) \
    inline T h##name(T a) { float x = float(a); return T(value); } \
    inline T2 h2##name(T2 a) { return {h##name(a.x), h##name(a.y)}; }
#define EMU_SHORT_PAIR(T, T2, name, value) \
    inline T2 name(T2 a) { return {value(a.x), value(a.y)}; }
#define EMU_SHORT_PAIRS(T, T2, name, value) \
    inline T2 name(T2 a, T2 b) { return {value(a.x, b.x), value(a.y, b.y)}; }
// Comparison of two numbers, of pairs (as 1 and 0, as one bool, as masks), and that of numbers of which one may be NaN.
#define EMU_SHORT_COMPARED(T, T2, name, operation) \
    inline bool __h##name##u(T a, T b) { return float(a) != float(a) || float(b) != float(b) || a operation b; } \
    inline T2 __h##name##2(T2 a, T2 b) { return {T(float(a.x operation b.x)), T(float(a.y operation b.y))}; } \
    inline T2 __h##name##u2(T2 a, T2 b) { \
        return {T(float(__h##name##u(a.x, b.x))), T(float(__h##name##u(a.y, b.y)))}; } \
    inline bool __hb##name##2(T2 a, T2 b) { return a.x operation b.x && a.y operation b.y; } \
    inline bool __hb##name##u2(T2 a, T2 b) { return __h##name##u(a.x, b.x) && __h##name##u(a.y, b.y); } \
    inline unsigned __h##name##2_mask(T2 a, T2 b) { \
        return (a.x operation b.x ? 0xffffu : 0u) | (a.y operation b.y ? 0xffff0000u : 0u); } \
    inline unsigned __h##name##u2_mask(T2 a, T2 b) { \
        return (__h##name##u(a.x, b.x) ? 0xffffu : 0u) | (__h##name##u(a.y, b.y) ? 0xffff0000u : 0u); }
#define EMU_SHORT_CALCULATED(T, T2, name, operation) \
    inline T __h##name##_rn(T a, T b) { return a operation b; } \
    inline T __h##name##_sat(T a, T b) { return emu::within_one(a operation b); } \
    EMU_SHORT_PAIRS(T, T2, __h##name##2_rn, __h##name##_rn) \
    EMU_SHORT_PAIRS(T, T2, __h##name##2_sat, __h##name##_sat)
// Conversions from and to an integer I, of the given name: templates, so that only those that a kernel uses have
// instances.
#define EMU_SHORT_INTEGER(T, s, I, name) \
    template <int = 0> T __##name##2##s##_rd(I x) { return emu::narrowed<T>(x, -1); } \
    template <int = 0> T __##name##2##s##_ru(I x) { return emu::narrowed<T>(x, 1); } \
    template <int = 0> T __##name##2##s##_rz(I x) { return emu::narrowed<T>(x, 0); } \
    template <int = 0> I __##s##2##name##_rn(T x) { return emu::whole_of<I>(nearbyintf(float(x))); } \
    template <int = 0> I __##s##2##name##_rd(T x) { return emu::whole_of<I>(floorf(float(x))); } \
    template <int = 0> I __##s##2##name##_ru(T x) { return emu::whole_of<I>(ceilf(float(x))); }
#define EMU_SHORT_NEAREST(T, s, I, name) \
    inline T __##name##2##s##_rn(I x) { return T(float(x)); }
#define EMU_SHORT_TRUNCATED(T, s, I, name) \
    template <int = 0> I __##s##2##name##_rz(T x) { return emu::whole_of<I>(truncf(float(x))); }
#define EMU_SHORT_MORE(T, T2, s, s2) \
    EMU_SHORT_FUNCTION(T, T2, ceil, ceilf(x)) EMU_SHORT_FUNCTION(T, T2, floor, floorf(x)) \
    EMU_SHORT_FUNCTION(T, T2, trunc, truncf(x)) EMU_SHORT_FUNCTION(T, T2, rint, nearbyintf(x)) \
    EMU_SHORT_FUNCTION(T, T2, sin, sinf(x)) EMU_SHORT_FUNCTION(T, T2, cos, cosf(x)) \
    EMU_SHORT_FUNCTION(T, T2, tanh, tanhf(x)) EMU_SHORT_FUNCTION(T, T2, tanh_approx, tanhf(x)) \
    EMU_SHORT_FUNCTION(T, T2, exp2, exp2f(x)) EMU_SHORT_FUNCTION(T, T2, exp10, exp10f(x)) \
    EMU_SHORT_FUNCTION(T, T2, log2, log2f(x)) EMU_SHORT_FUNCTION(T, T2, log10, log10f(x)) \
    EMU_SHORT_FUNCTION(T, T2, rcp, 1 / x) \
    EMU_SHORT_PAIR(T, T2, h2exp, hexp) EMU_SHORT_PAIR(T, T2, h2log, hlog) EMU_SHORT_PAIR(T, T2, h2sqrt, hsqrt) \
    EMU_SHORT_PAIR(T, T2, h2rsqrt, hrsqrt) EMU_SHORT_PAIR(T, T2, __habs2, __habs) \
    EMU_SHORT_PAIR(T, T2, __hneg2, __hneg) \
    inline bool __hge(T a, T b) { return a >= b; } \
    inline bool __hle(T a, T b) { return a <= b; } \
    inline bool __hne(T a, T b) { return a < b || a > b; } \
    inline int __hisinf(T a) { return isinf(float(a)) ? (float(a) < 0 ? -1 : 1) : 0; } \
    inline T2 __hisnan2(T2 a) { return {T(float(__hisnan(a.x))), T(float(__hisnan(a.y)))}; } \
    EMU_SHORT_COMPARED(T, T2, eq, ==) EMU_SHORT_COMPARED(T, T2, lt, <) EMU_SHORT_COMPARED(T, T2, le, <=) \
    EMU_SHORT_COMPARED(T, T2, gt, >) EMU_SHORT_COMPARED(T, T2, ge, >=) \
    inline bool __hneu(T a, T b) { return a != b; } \
    inline T2 __hne2(T2 a, T2 b) { return {T(float(__hne(a.x, b.x))), T(float(__hne(a.y, b.y)))}; } \
    inline T2 __hneu2(T2 a, T2 b) { return {T(float(a.x != b.x)), T(float(a.y != b.y))}; } \
    inline bool __hbne2(T2 a, T2 b) { return __hne(a.x, b.x) && __hne(a.y, b.y); } \
    inline bool __hbneu2(T2 a, T2 b) { return a.x != b.x && a.y != b.y; } \
    inline unsigned __hne2_mask(T2 a, T2 b) { \
        return (__hne(a.x, b.x) ? 0xffffu : 0u) | (__hne(a.y, b.y) ? 0xffff0000u : 0u); } \
    inline unsigned __hneu2_mask(T2 a, T2 b) { return (a.x != b.x ? 0xffffu : 0u) | (a.y != b.y ? 0xffff0000u : 0u); } \
    EMU_SHORT_CALCULATED(T, T2, add, +) EMU_SHORT_CALCULATED(T, T2, sub, -) EMU_SHORT_CALCULATED(T, T2, mul, *) \
    inline T __hfma_sat(T a, T b, T c) { return emu::within_one(__hfma(a, b, c)); } \
    inline T __hfma_relu(T a, T b, T c) { return emu::above_zero(__hfma(a, b, c)); } \
    inline T2 __hfma2_sat(T2 a, T2 b, T2 c) { return {__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)}; } \
    inline T2 __hfma2_relu(T2 a, T2 b, T2 c) { return {__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)}; } \
    inline T2 __hcmadd(T2 a, T2 b, T2 c) { \
        return {__hfma(-a.y, b.y, __hfma(a.x, b.x, c.x)), __hfma(a.y, b.x, __hfma(a.x, b.y, c.y))}; } \
    inline T __hmax_nan(T a, T b) { return float(a) != float(a) || float(b) != float(b) ? T(NAN) : __hmax(a, b); } \
    inline T __hmin_nan(T a, T b) { return float(a) != float(a) || float(b) != float(b) ? T(NAN) : __hmin(a, b); } \
    EMU_SHORT_PAIRS(T, T2, __hmax2, __hmax) EMU_SHORT_PAIRS(T, T2, __hmin2, __hmin) \
    EMU_SHORT_PAIRS(T, T2, __hmax2_nan, __hmax_nan) EMU_SHORT_PAIRS(T, T2, __hmin2_nan, __hmin_nan) \
    EMU_SHORT_PAIRS(T, T2, __h2div, __hdiv) \
    inline T2 operator/(T2 a, T2 b) { return __h2div(a, b); } \
    inline T2 operator-(T2 a) { return __hneg2(a); } \
    inline T2& operator+=(T2& a, T2 b) { return a = a + b; } \
    inline T2& operator-=(T2& a, T2 b) { return a = a - b; } \
    inline T2& operator*=(T2& a, T2 b) { return a = a * b; } \
    inline T2& operator/=(T2& a, T2 b) { return a = a / b; } \
    inline bool operator==(T2 a, T2 b) { return __hbeq2(a, b); } \
    inline bool operator!=(T2 a, T2 b) { return __hbneu2(a, b); } \
    inline bool operator<(T2 a, T2 b) { return __hblt2(a, b); } \
    inline bool operator>(T2 a, T2 b) { return __hbgt2(a, b); } \
    inline bool operator<=(T2 a, T2 b) { return __hble2(a, b); } \
    inline bool operator>=(T2 a, T2 b) { return __hbge2(a, b); } \
    inline T2 __lowhigh2highlow(T2 a) { return {a.y, a.x}; } \
    inline T2 __low2##s2(T2 a) { return {a.x, a.x}; } \
    inline T2 __high2##s2(T2 a) { return {a.y, a.y}; } \
    inline T2 __lows2##s2(T2 a, T2 b) { return {a.x, b.x}; } \
    inline T2 __highs2##s2(T2 a, T2 b) { return {a.y, b.y}; } \
    inline T __float2##s##_rd(float x) { return emu::narrowed<T>(x, -1); } \
    inline T __float2##s##_ru(float x) { return emu::narrowed<T>(x, 1); } \
    inline T __float2##s##_rz(float x) { return emu::narrowed<T>(x, 0); } \
    inline T __short_as_##s(short x) { return __builtin_bit_cast(T, x); } \
    EMU_SHORT_INTEGER(T, s, int, int) EMU_SHORT_INTEGER(T, s, unsigned, uint) EMU_SHORT_INTEGER(T, s, short, short) \
    EMU_SHORT_INTEGER(T, s, unsigned short, ushort) EMU_SHORT_INTEGER(T, s, long long, ll) \
    EMU_SHORT_INTEGER(T, s, unsigned long long, ull) \
    EMU_SHORT_NEAREST(T, s, unsigned, uint) EMU_SHORT_NEAREST(T, s, short, short) \
    EMU_SHORT_NEAREST(T, s, unsigned short, ushort) EMU_SHORT_NEAREST(T, s, long long, ll) \
    EMU_SHORT_NEAREST(T, s, unsigned long long, ull) \
    EMU_SHORT_TRUNCATED(T, s, unsigned, uint) EMU_SHORT_TRUNCATED(T, s, short, short) \
    EMU_SHORT_TRUNCATED(T, s, unsigned short, ushort) EMU_SHORT_TRUNCATED(T, s, long long, ll) \
    EMU_SHORT_TRUNCATED(T, s, unsigned long long, ull) EMU_SHORT_TRUNCATED(T, s, signed char, char) \
    EMU_SHORT_TRUNCATED(T, s, unsigned char, uchar)
EMU_SHORT_MORE(__half, __half2, half, half2)
EMU_SHORT_MORE(__nv_bfloat16, __nv_bfloat162, bfloat16, bfloat162)
EMU_SHORT_NEAREST(__nv_bfloat16, bfloat16, int, int)
EMU_SHORT_TRUNCATED(__nv_bfloat16, bfloat16, int, int)
inline short __bfloat16_as_short(__nv_bfloat16 x) { return short(x.bits); }
#undef EMU_SHORT_FUNCTION
#undef EMU_SHORT_PAIR
#undef EMU_SHORT_PAIRS
#undef EMU_SHORT_COMPARED
#undef EMU_SHORT_CALCULATED
#undef EMU_SHORT_INTEGER
#undef EMU_SHORT_NEAREST
#undef EMU_SHORT_TRUNCATED
#undef EMU_SHORT_MORE
