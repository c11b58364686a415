// CUDA's mathematical functions that C++ lacks, in double; those of float are rounded from them.
#pragma once
#include <math.h>

inline double sinpi(double x) { return sin(M_PI * remainder(x, 2.0)); }
inline double cospi(double x) { return cos(M_PI * remainder(x, 2.0)); }
inline void sincospi(double x, double* s, double* c) { *s = sinpi(x), *c = cospi(x); }
inline double rcbrt(double x) { return 1.0 / cbrt(x); }
inline double rhypot(double a, double b) { return 1.0 / hypot(a, b); }
inline double norm3d(double a, double b, double c) { return sqrt(a * a + b * b + c * c); }
inline double norm4d(double a, double b, double c, double d) { return sqrt(a * a + b * b + c * c + d * d); }
inline double rnorm3d(double a, double b, double c) { return 1.0 / norm3d(a, b, c); }
inline double rnorm4d(double a, double b, double c, double d) { return 1.0 / norm4d(a, b, c, d); }
inline float rnorm3df(float a, float b, float c) { return float(rnorm3d(a, b, c)); }
inline float rnorm4df(float a, float b, float c, float d) { return float(rnorm4d(a, b, c, d)); }
inline double norm(int n, const double* x) {
    double sum = 0.0;
    for (int i = 0; i < n; ++i) sum += x[i] * x[i];
    return sqrt(sum);
}
inline float normf(int n, const float* x) {
    double sum = 0.0;
    for (int i = 0; i < n; ++i) sum += double(x[i]) * x[i];
    return float(sqrt(sum));
}
inline double rnorm(int n, const double* x) { return 1.0 / norm(n, x); }
inline float rnormf(int n, const float* x) { return 1.0f / normf(n, x); }

inline double normcdf(double x) { return 0.5 * erfc(-M_SQRT1_2 * x); }
// Halley's steps from the approximation 26.2.22 of Abramowitz and Stegun, in the lower half.
inline double normcdfinv(double p) {
    if (!(p >= 0.0 && p <= 1.0)) return NAN;
    if (p == 0.0 || p == 1.0) return p == 0.0 ? -INFINITY : INFINITY;
    double q = p < 0.5 ? p : 1.0 - p, t = sqrt(-2.0 * log(q));
    double x = (2.30753 + 0.27061 * t) / (1.0 + t * (0.99229 + 0.04481 * t)) - t;
    for (int i = 0; i < 4; ++i) {
        double u = (normcdf(x) - q) * 2.5066282746310002 * exp(0.5 * x * x);
        x -= u / (1.0 + 0.5 * x * u);
    }
    return p < 0.5 ? x : -x;
}
inline double erfcinv(double y) { return -M_SQRT1_2 * normcdfinv(0.5 * y); }
inline double erfinv(double x) {
    if (fabs(x) > 0.5) return x > 0.0 ? erfcinv(1.0 - x) : -erfcinv(1.0 + x);
    double z = 0.5 * sqrt(M_PI) * x;
    for (int i = 0; i < 4; ++i) {
        double u = (erf(z) - x) / M_2_SQRTPI * exp(z * z);
        z -= u / (1.0 + z * u);
    }
    return z;
}
inline double erfcx(double x) {  // exp(x * x) * erfc(x), by a continued fraction where that product is rounded badly
    if (x < 2.0) return exp(x * x) * erfc(x);
    double below = x;
    for (int k = 100; k > 0; --k) below = x + 0.5 * k / below;
    return 0.5 * M_2_SQRTPI / below;
}
inline double cyl_bessel_i0(double x) {
    double sum = 1.0, term = 1.0;
    for (int k = 1; term > 1e-17 * sum; ++k) sum += term *= 0.25 * x * x / (double(k) * k);
    return sum;
}
inline double cyl_bessel_i1(double x) {
    double sum = 1.0, term = 1.0;
    for (int k = 1; term > 1e-17 * sum; ++k) sum += term *= 0.25 * x * x / (double(k) * (k + 1));
    return 0.5 * x * sum;
}
inline float normcdfinvf(float x) { return float(normcdfinv(x)); }
inline float erfcinvf(float x) { return float(erfcinv(x)); }
inline float erfinvf(float x) { return float(erfinv(x)); }
inline float erfcxf(float x) { return float(erfcx(x)); }
inline float cyl_bessel_i0f(float x) { return float(cyl_bessel_i0(x)); }
inline float cyl_bessel_i1f(float x) { return float(cyl_bessel_i1(x)); }
