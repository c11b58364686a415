// Arithmetic of short vectors by the names of NVIDIA's samples: float2 to float4, and those of int and unsigned.
#pragma once
#include <cmath>
#include <concepts>
#include <type_traits>

#undef fmaxf
#undef fminf

using uint = unsigned;
using ushort = unsigned short;

namespace emu {

template <class V, class... All> concept AnyOf = (std::is_same_v<V, All> || ...);
template <class V> concept Floats = AnyOf<V, float2, float3, float4>;
template <class V> concept Short = Floats<V> || AnyOf<V, int2, int3, int4, uint2, uint3, uint4>;
template <class V> using Part = decltype(V::x);
template <class V> inline constexpr int parts = sizeof(V) / sizeof(Part<V>);

template <Short V, class F> EMU_INLINE V by_part(V a, F f) {
    for (int i = 0; i < parts<V>; ++i) (&a.x)[i] = Part<V>(f((&a.x)[i], i));
    return a;
}
template <Short V> EMU_INLINE V filled(Part<V> value) { return by_part(V{}, [=](auto, int) { return value; }); }
template <Short V> EMU_INLINE Part<V> part(const V& a, int i) { return (&a.x)[i]; }
template <Short V, Short W> EMU_INLINE V converted(const W& a) {
    return by_part(V{}, [&](auto, int i) { return i < parts<W> ? part(a, i) : 0; }); }

}  // namespace emu

#define EMU_BINARY(op)                                                                                                 \
    template <emu::Short V> EMU_INLINE V operator op(V a, const V& b) {                                                \
        return emu::by_part(a, [&](auto x, int i) { return x op emu::part(b, i); }); }                                 \
    template <emu::Short V> EMU_INLINE V operator op(V a, emu::Part<V> b) {                                            \
        return emu::by_part(a, [=](auto x, int) { return x op b; }); }                                                 \
    template <emu::Short V> EMU_INLINE V operator op(emu::Part<V> a, V b) {                                            \
        return emu::by_part(b, [=](auto x, int) { return a op x; }); }                                                 \
    template <emu::Short V> EMU_INLINE void operator op##=(V& a, const V& b) { a = a op b; }                           \
    template <emu::Short V> EMU_INLINE void operator op##=(V& a, emu::Part<V> b) { a = a op b; }
EMU_BINARY(+)
EMU_BINARY(-)
EMU_BINARY(*)
EMU_BINARY(/)
#undef EMU_BINARY
template <emu::Short V> EMU_INLINE V operator-(V a) { return emu::by_part(a, [](auto x, int) { return -x; }); }

// A vector of one number; of a shorter vector and a number, which is 0 without one; of a longer or another one.
#define EMU_MAKE(V, E)                                                                                                 \
    EMU_INLINE V make_##V(E value) { return emu::filled<V>(value); }                                                   \
    template <emu::Short W> EMU_INLINE V make_##V(const W& a) { return emu::converted<V>(a); }
#define EMU_MAKES(name, E)                                                                                             \
    EMU_MAKE(name##2, E) EMU_MAKE(name##3, E) EMU_MAKE(name##4, E)                                                     \
    EMU_INLINE name##3 make_##name##3(name##2 a, E z) { return {a.x, a.y, z}; }                                        \
    EMU_INLINE name##4 make_##name##4(name##3 a, E w) { return {a.x, a.y, a.z, w}; }
EMU_MAKES(float, float)
EMU_MAKES(int, int)
EMU_MAKES(uint, unsigned)
#undef EMU_MAKES
#undef EMU_MAKE

#define EMU_EACH(name, of)                                                                                             \
    template <emu::Short V> EMU_INLINE V name(V a, const V& b) {                                                       \
        return emu::by_part(a, [&](auto x, int i) { auto y = emu::part(b, i); return of; }); }
EMU_EACH(min, y < x ? y : x)
EMU_EACH(max, x < y ? y : x)
EMU_EACH(fminf, ::fminf(x, y))
EMU_EACH(fmaxf, ::fmaxf(x, y))
EMU_EACH(fmodf, ::fmodf(x, y))
#undef EMU_EACH
#define EMU_EACH(name, of)                                                                                             \
    template <emu::Short V> EMU_INLINE V name(V a) { return emu::by_part(a, [](auto x, int) { return of; }); }
EMU_EACH(floorf, ::floorf(x))
EMU_EACH(fabs, ::fabsf(x))
EMU_EACH(abs, x < 0 ? -x : x)
EMU_EACH(fracf, x - ::floorf(x))
#undef EMU_EACH
EMU_INLINE float fracf(float x) { return x - floorf(x); }

template <emu::Short V> EMU_INLINE emu::Part<V> dot(const V& a, const V& b) {
    emu::Part<V> sum = 0;
    for (int i = 0; i < emu::parts<V>; ++i) sum += emu::part(a, i) * emu::part(b, i);
    return sum;
}
template <emu::Floats V> EMU_INLINE float length(const V& a) { return sqrtf(dot(a, a)); }
template <emu::Floats V> EMU_INLINE V normalize(const V& a) { return a * (1 / sqrtf(dot(a, a))); }
template <emu::Floats V> EMU_INLINE V reflect(const V& i, const V& n) { return i - 2 * dot(n, i) * n; }
EMU_INLINE float3 cross(float3 a, float3 b) {
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}; }

// A template, next to which a program may have its own.
template <std::same_as<float> T> EMU_INLINE T lerp(T a, T b, T t) { return a + t * (b - a); }
template <emu::Floats V> EMU_INLINE V lerp(const V& a, const V& b, float t) { return a + t * (b - a); }
template <class T> requires std::is_arithmetic_v<T> EMU_INLINE T clamp(T x, T low, T high) {
    return x < low ? low : high < x ? high : x; }
template <emu::Short V> EMU_INLINE V clamp(V v, emu::Part<V> low, emu::Part<V> high) {
    return emu::by_part(v, [=](auto x, int) { return x < low ? low : high < x ? high : x; }); }
template <emu::Short V> EMU_INLINE V clamp(const V& v, const V& low, const V& high) { return max(low, min(v, high)); }
template <class T> requires std::is_same_v<T, float> || emu::Floats<T>
EMU_INLINE T smoothstep(T a, T b, T x) {
    if constexpr (std::is_same_v<T, float>) {
        float y = clamp((x - a) / (b - a), 0.0f, 1.0f);
        return y * y * (3 - 2 * y);
    } else return emu::by_part(x, [&](float v, int i) { return smoothstep(emu::part(a, i), emu::part(b, i), v); });
}
