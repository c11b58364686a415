// CUDA's vector types, with its alignments, and their make_ functions.
#pragma once

#define EMU_VECTORS(T, name, two, four)                                                                \
    struct name##1 { T x; };                                                                           \
    struct alignas(two) name##2 { T x, y; };                                                           \
    struct name##3 { T x, y, z; };                                                                     \
    struct alignas(four) name##4 { T x, y, z, w; };                                                    \
    inline name##1 make_##name##1(T x) { return {x}; }                                                 \
    inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                         \
    inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                                 \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

EMU_VECTORS(signed char, char, 2, 4)
EMU_VECTORS(unsigned char, uchar, 2, 4)
EMU_VECTORS(short, short, 4, 8)
EMU_VECTORS(unsigned short, ushort, 4, 8)
EMU_VECTORS(int, int, 8, 16)
EMU_VECTORS(unsigned int, uint, 8, 16)
EMU_VECTORS(long, long, 16, 16)
EMU_VECTORS(unsigned long, ulong, 16, 16)
EMU_VECTORS(long long, longlong, 16, 16)
EMU_VECTORS(unsigned long long, ulonglong, 16, 16)
EMU_VECTORS(float, float, 8, 16)
EMU_VECTORS(double, double, 16, 16)
#undef EMU_VECTORS
// Types of four numbers of 8 bytes with their alignment in the name, as CUDA 13 has them.
#define EMU_ALIGNED(T, name, bytes)                                                                    \
    struct alignas(bytes) name##4_##bytes##a { T x, y, z, w; };                                        \
    inline name##4_##bytes##a make_##name##4_##bytes##a(T x, T y, T z, T w) { return {x, y, z, w}; }
#define EMU_ALIGNED_BOTH(T, name) EMU_ALIGNED(T, name, 16) EMU_ALIGNED(T, name, 32)
EMU_ALIGNED_BOTH(long, long)
EMU_ALIGNED_BOTH(unsigned long, ulong)
EMU_ALIGNED_BOTH(long long, longlong)
EMU_ALIGNED_BOTH(unsigned long long, ulonglong)
EMU_ALIGNED_BOTH(double, double)
#undef EMU_ALIGNED_BOTH
#undef EMU_ALIGNED

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};
