// __half and __half2: 16 bits in memory, arithmetic in float, rounded to nearest even as by a GPU's instructions.
#pragma once
#include <type_traits>

#include "bits.h"

namespace emu {

inline unsigned short half_bits(float x) {
    uint32_t f = __builtin_bit_cast(uint32_t, x), sign = f >> 16 & 0x8000, a = f & 0x7fffffff;
    if (a > 0x7f800000) return 0x7fff;                                     // NaN, as the GPU's
    if (a >= 0x477ff000) return (unsigned short)(sign | 0x7c00);          // rounds to infinity
    if (a < 0x38800000) {                                                  // below 2^-14: subnormal
        float scaled = __builtin_bit_cast(float, a) * 16777216.0f;              // units of 2^-24, exact
        return (unsigned short)(sign | unsigned(nearbyintf(scaled)));
    }
    a += 0xfff + (a >> 13 & 1);
    return (unsigned short)(sign | (a - 0x38000000) >> 13);
}
inline float half_value(unsigned short h) {
    uint32_t sign = uint32_t(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
    if (exponent == 0)
        return __builtin_bit_cast(float, sign | __builtin_bit_cast(uint32_t, float(fraction) * 5.9604644775390625e-8f));
    return __builtin_bit_cast(float, sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | fraction << 13);
}

}  // namespace emu

struct __half_raw { unsigned short x; };

// Body of a 16-bit floating-point type, common to both types.
#define EMU_SHORT_FLOAT(Type, to_bits, to_value)                                                                   \
    unsigned short bits;                                                                                           \
    Type() = default;                                                                                              \
    Type(float v) : bits(to_bits(v)) {}                                                                            \
    Type(double v) : bits(to_bits(float(v))) {}                                                                    \
    template <class I, class = std::enable_if_t<std::is_integral_v<I>>> Type(I v) : bits(to_bits(float(v))) {}      \
    EMU_INLINE operator float() const { return to_value(bits); }                                                       \
    EMU_INLINE Type& operator+=(Type o) { return *this = Type(float(*this) + float(o)); }                              \
    EMU_INLINE Type& operator-=(Type o) { return *this = Type(float(*this) - float(o)); }                              \
    EMU_INLINE Type& operator*=(Type o) { return *this = Type(float(*this) * float(o)); }                              \
    EMU_INLINE Type& operator/=(Type o) { return *this = Type(float(*this) / float(o)); }
// Arithmetic and comparison, and their names in CUDA, for a type and its pair.
#define EMU_SHORT_FLOAT_OPERATIONS(T, T2)                                                                          \
    inline T operator+(T a, T b) { return T(float(a) + float(b)); }                                                \
    inline T operator-(T a, T b) { return T(float(a) - float(b)); }                                                \
    inline T operator*(T a, T b) { return T(float(a) * float(b)); }                                                \
    inline T operator/(T a, T b) { return T(float(a) / float(b)); }                                                \
    inline T operator-(T a) { return T(-float(a)); }                                                               \
    inline bool operator==(T a, T b) { return float(a) == float(b); }                                              \
    inline bool operator!=(T a, T b) { return float(a) != float(b); }                                              \
    inline bool operator<(T a, T b) { return float(a) < float(b); }                                                \
    inline bool operator>(T a, T b) { return float(a) > float(b); }                                                \
    inline bool operator<=(T a, T b) { return float(a) <= float(b); }                                              \
    inline bool operator>=(T a, T b) { return float(a) >= float(b); }                                              \
    inline T __hadd(T a, T b) { return a + b; }                                                                    \
    inline T __hsub(T a, T b) { return a - b; }                                                                    \
    inline T __hmul(T a, T b) { return a * b; }                                                                    \
    inline T __hdiv(T a, T b) { return a / b; }                                                                    \
    inline T __hfma(T a, T b, T c) { return T(float(double(float(a)) * double(float(b)) + double(float(c)))); }    \
    inline T __hneg(T a) { return -a; }                                                                            \
    inline T __habs(T a) { return T(fabsf(float(a))); }                                                            \
    inline T __hmax(T a, T b) { return T(emu::larger<float>(a, b)); }                                              \
    inline T __hmin(T a, T b) { return T(emu::smaller<float>(a, b)); }                                             \
    inline bool __heq(T a, T b) { return a == b; }                                                                 \
    inline bool __hlt(T a, T b) { return a < b; }                                                                  \
    inline bool __hgt(T a, T b) { return a > b; }                                                                  \
    inline bool __hisnan(T a) { return float(a) != float(a); }                                                     \
    inline T hexp(T a) { return T(expf(float(a))); }                                                               \
    inline T hlog(T a) { return T(logf(float(a))); }                                                               \
    inline T hsqrt(T a) { return T(sqrtf(float(a))); }                                                             \
    inline T hrsqrt(T a) { return T(rsqrtf(float(a))); }                                                           \
    inline T2 operator+(T2 a, T2 b) { return {a.x + b.x, a.y + b.y}; }                                             \
    inline T2 operator-(T2 a, T2 b) { return {a.x - b.x, a.y - b.y}; }                                             \
    inline T2 operator*(T2 a, T2 b) { return {a.x * b.x, a.y * b.y}; }                                             \
    inline T2 __hadd2(T2 a, T2 b) { return a + b; }                                                                \
    inline T2 __hsub2(T2 a, T2 b) { return a - b; }                                                                \
    inline T2 __hmul2(T2 a, T2 b) { return a * b; }                                                                \
    inline T2 __hfma2(T2 a, T2 b, T2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }                 \
    inline float __low2float(T2 a) { return float(a.x); }                                                          \
    inline float __high2float(T2 a) { return float(a.y); }

struct __half { EMU_SHORT_FLOAT(__half, emu::half_bits, emu::half_value) };
using half = __half;
struct alignas(4) __half2 { __half x, y; };
using half2 = __half2;
EMU_SHORT_FLOAT_OPERATIONS(__half, __half2)

inline __half __float2half(float x) { return __half(x); }
inline __half __float2half_rn(float x) { return __half(x); }
inline __half __double2half(double x) { return __half(float(x)); }
inline float __half2float(__half x) { return float(x); }
inline __half __int2half_rn(int x) { return __half(float(x)); }
inline int __half2int_rz(__half x) { return __float2int_rz(float(x)); }
inline unsigned short __half_as_ushort(__half x) { return x.bits; }
inline short __half_as_short(__half x) { return short(x.bits); }
inline __half __ushort_as_half(unsigned short x) { return __builtin_bit_cast(__half, x); }
inline __half2 __floats2half2_rn(float a, float b) { return {__half(a), __half(b)}; }
inline __half2 __float2half2_rn(float a) { return {__half(a), __half(a)}; }
inline __half2 __float22half2_rn(float2 v) { return {__half(v.x), __half(v.y)}; }
inline float2 __half22float2(__half2 v) { return {float(v.x), float(v.y)}; }
inline __half2 __halves2half2(__half a, __half b) { return {a, b}; }
inline __half2 __half2half2(__half a) { return {a, a}; }
inline __half2 make_half2(__half a, __half b) { return {a, b}; }
inline __half __low2half(__half2 v) { return v.x; }
inline __half __high2half(__half2 v) { return v.y; }
