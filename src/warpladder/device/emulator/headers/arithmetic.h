// Mathematical functions that CUDA has and C++ lacks, and functions that a C++ compiler does not inline.
#pragma once
#include <math.h>

#include <limits>
#include <type_traits>

#include "interface.h"

namespace std {  // which libstdc++ has since GCC 14
using ::acosf, ::asinf, ::atan2f, ::atanf, ::ceilf, ::cosf, ::coshf, ::expf, ::fabsf, ::floorf, ::fmodf, ::log10f,
    ::logf, ::powf, ::sinf, ::sinhf, ::sqrtf, ::tanf, ::tanhf;
}  // namespace std

namespace emu {

// Maximum and minimum as fmaxf and fminf: of a number and a NaN, the number.
template <class T> constexpr T larger(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return a > b || b != b ? a : b;
    else return a > b ? a : b;
}
template <class T> constexpr T smaller(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) return a < b || b != b ? a : b;
    else return a < b ? a : b;
}

// A rounded result: the compiler does not merge it into a fused multiply-add.
inline __attribute__((always_inline)) float rounded(float x) {
#if defined(__x86_64__)
    asm("" : "+x"(x));
#elif defined(__aarch64__)
    asm("" : "+w"(x));
#else
    volatile float y = x;
    x = y;
#endif
    return x;
}

// Conversion to an integer type as PTX has it: a number out of range becomes the nearest in range. NaN becomes 0, or
// the highest bit alone where either type has 64 bits.
template <class I, class F> constexpr I saturated(F x) {
    if (x != x) return sizeof(F) == 8 || sizeof(I) == 8 ? I(std::make_unsigned_t<I>(1) << (8 * sizeof(I) - 1)) : 0;
    constexpr F low = F(std::numeric_limits<I>::min()), high = F(std::numeric_limits<I>::max());
    return x <= low ? std::numeric_limits<I>::min() : x >= high ? std::numeric_limits<I>::max() : I(x);
}

// Conversion to another type, which saturates from a floating point number to an integer. Of narrow integers PTX takes
// the low bits of 32.
template <class T, class F> EMU_INLINE constexpr T converted_to(const F& x) {
    using I = std::remove_cv_t<T>;
    if constexpr (std::is_integral_v<I> && !std::is_same_v<I, bool> && std::is_floating_point_v<F>) {
        if constexpr (sizeof(I) >= 4) return saturated<I>(x);
        else if constexpr (std::is_signed_v<I>) return I(saturated<int>(x));
        else return I(saturated<unsigned>(x));
    } else return (T)x;
}
// Such a conversion as the operand of a cast, which binds as a cast does.
template <class T> struct To {
    T value;
    template <class F> EMU_INLINE constexpr To(const F& x) : value(converted_to<T>(x)) {}
    EMU_INLINE constexpr operator T() const { return value; }
};

}  // namespace emu

template <class A, class B> requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>) constexpr auto max(A a, B b) {
    return emu::larger<std::common_type_t<A, B>>(a, b);
}
template <class A, class B> requires(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>) constexpr auto min(A a, B b) {
    return emu::smaller<std::common_type_t<A, B>>(a, b);
}
#define fmaxf(a, b) (emu::larger<float>(a, b))
#define fminf(a, b) (emu::smaller<float>(a, b))
#define umax(a, b) (emu::larger<unsigned>(a, b))
#define umin(a, b) (emu::smaller<unsigned>(a, b))

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
inline float fdividef(float a, float b) { return a / b; }
inline float rhypotf(float a, float b) { return 1.0f / hypotf(a, b); }
inline float norm3df(float a, float b, float c) { return sqrtf(a * a + b * b + c * c); }
inline float norm4df(float a, float b, float c, float d) { return sqrtf(a * a + b * b + c * c + d * d); }
inline float sinpif(float x) { return float(sin(M_PI * double(x))); }
inline float cospif(float x) { return float(cos(M_PI * double(x))); }
inline void sincospif(float x, float* s, float* c) { *s = sinpif(x), *c = cospif(x); }
inline float normcdff(float x) { return float(0.5 * erfc(-M_SQRT1_2 * double(x))); }

// The fast approximations: a CPU has none, so these are exact to the last bits.
inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return exp10f(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __tanhf(float x) { return tanhf(x); }
inline void __sincosf(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

// Rounded to nearest, each separately.
inline float __fadd_rn(float a, float b) { return emu::rounded(emu::rounded(a) + emu::rounded(b)); }
inline float __fsub_rn(float a, float b) { return emu::rounded(emu::rounded(a) - emu::rounded(b)); }
inline float __fmul_rn(float a, float b) { return emu::rounded(a * b); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __frsqrt_rn(float a) { return 1.0f / sqrtf(a); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { volatile double s = a + b; return s; }
inline double __dsub_rn(double a, double b) { volatile double s = a - b; return s; }
inline double __dmul_rn(double a, double b) { volatile double p = a * b; return p; }
inline double __drcp_rn(double a) { return 1.0 / a; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return sqrt(a); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
