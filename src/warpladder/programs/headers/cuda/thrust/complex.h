// Complex numbers, with the functions of the C++ library.
#pragma once
#include <complex>

namespace thrust {

template <class T> struct alignas(2 * sizeof(T)) complex {
    using value_type = T;
    constexpr complex(T real = T(), T imag = T()) : re(real), im(imag) {}
    template <class U> constexpr complex(const complex<U>& z) : re(T(z.real())), im(T(z.imag())) {}
    template <class U> constexpr complex(const std::complex<U>& z) : re(T(z.real())), im(T(z.imag())) {}
    constexpr operator std::complex<T>() const { return {re, im}; }
    constexpr T real() const { return re; }
    constexpr T imag() const { return im; }
    constexpr void real(T value) { re = value; }
    constexpr void imag(T value) { im = value; }
    constexpr complex& operator+=(complex z) { return re += z.re, im += z.im, *this; }
    constexpr complex& operator-=(complex z) { return re -= z.re, im -= z.im, *this; }
    constexpr complex& operator*=(complex z) { return *this = {re * z.re - im * z.im, re * z.im + im * z.re}; }
    constexpr complex& operator/=(complex z) { return *this = complex(std::complex<T>(*this) / std::complex<T>(z)); }
    friend constexpr complex operator+(complex a, complex b) { return a += b; }
    friend constexpr complex operator-(complex a, complex b) { return a -= b; }
    friend constexpr complex operator*(complex a, complex b) { return a *= b; }
    friend constexpr complex operator/(complex a, complex b) { return a /= b; }
    friend constexpr complex operator-(complex a) { return {-a.re, -a.im}; }
    friend constexpr bool operator==(complex a, complex b) { return a.re == b.re && a.im == b.im; }

  private:
    T re, im;
};

#define EMU_REAL(name) template <class T> T name(const complex<T>& z) { return std::name(std::complex<T>(z)); }
#define EMU_COMPLEX(name) \
    template <class T> complex<T> name(const complex<T>& z) { return std::name(std::complex<T>(z)); }
EMU_REAL(abs)
EMU_REAL(arg)
EMU_COMPLEX(proj)
EMU_COMPLEX(exp)
EMU_COMPLEX(log)
EMU_COMPLEX(sqrt)
EMU_COMPLEX(sin)
EMU_COMPLEX(cos)
EMU_COMPLEX(tan)
EMU_COMPLEX(sinh)
EMU_COMPLEX(cosh)
EMU_COMPLEX(tanh)
#undef EMU_REAL
#undef EMU_COMPLEX
template <class T> T norm(const complex<T>& z) { return z.real() * z.real() + z.imag() * z.imag(); }
template <class T> complex<T> conj(const complex<T>& z) { return {z.real(), -z.imag()}; }
template <class T> complex<T> polar(const T& radius, const T& angle = T()) { return std::polar(radius, angle); }
template <class T> complex<T> pow(const complex<T>& z, const complex<T>& power) {
    return std::pow(std::complex<T>(z), std::complex<T>(power)); }
template <class T> complex<T> pow(const complex<T>& z, const T& power) {
    return std::pow(std::complex<T>(z), power); }

}  // namespace thrust
