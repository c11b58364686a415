// Conversions, and integers as bits.
#pragma once
#include <bit>

#include "arithmetic.h"

inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
inline long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
inline double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
inline int __double2hiint(double x) { return int(__builtin_bit_cast(uint64_t, x) >> 32); }
inline int __double2loint(double x) { return int(__builtin_bit_cast(uint64_t, x)); }
inline double __hiloint2double(int high, int low) {
    return __builtin_bit_cast(double, uint64_t(unsigned(high)) << 32 | unsigned(low)); }

#define EMU_TO_INTEGERS(from, F, suffix, rounding)                                                \
    inline int __##from##2int_##suffix(F x) { return emu::saturated<int>(rounding(x)); }          \
    inline unsigned __##from##2uint_##suffix(F x) { return emu::saturated<unsigned>(rounding(x)); } \
    inline long long __##from##2ll_##suffix(F x) { return emu::saturated<long long>(rounding(x)); } \
    inline unsigned long long __##from##2ull_##suffix(F x) { return emu::saturated<unsigned long long>(rounding(x)); }
EMU_TO_INTEGERS(float, float, rn, nearbyintf)
EMU_TO_INTEGERS(float, float, rz, truncf)
EMU_TO_INTEGERS(float, float, ru, ceilf)
EMU_TO_INTEGERS(float, float, rd, floorf)
EMU_TO_INTEGERS(double, double, rn, nearbyint)
EMU_TO_INTEGERS(double, double, rz, trunc)
EMU_TO_INTEGERS(double, double, ru, ceil)
EMU_TO_INTEGERS(double, double, rd, floor)
#undef EMU_TO_INTEGERS
inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }
inline float __ll2float_rn(long long x) { return float(x); }
inline float __ull2float_rn(unsigned long long x) { return float(x); }
#define EMU_FROM_LONG(way, mode) \
    inline float __ll2float_##way(long long x) { return emu::directed<float>(x, mode); } \
    inline float __ull2float_##way(unsigned long long x) { return emu::directed<float>(x, mode); } \
    inline double __ll2double_##way(long long x) { return emu::directed<double>(x, mode); } \
    inline double __ull2double_##way(unsigned long long x) { return emu::directed<double>(x, mode); }
namespace emu {
// An integer as a float F, rounded down (-1), up (1) or to zero (0).
template <class F, class I> F directed(I x, int mode) {
    F near = F(x);
    long double exact = x, found = near;
    bool down = mode < 0 || (mode == 0 && exact > 0);
    if (found == exact || down == (found < exact)) return near;
    return F(down ? nextafter(near, F(-INFINITY)) : nextafter(near, F(INFINITY)));
}
}  // namespace emu
EMU_FROM_LONG(rd, -1)
EMU_FROM_LONG(ru, 1)
EMU_FROM_LONG(rz, 0)
#undef EMU_FROM_LONG
inline double __int2double_rn(int x) { return double(x); }
inline double __uint2double_rn(unsigned x) { return double(x); }
inline double __ll2double_rn(long long x) { return double(x); }
inline double __ull2double_rn(unsigned long long x) { return double(x); }
inline float __double2float_rn(double x) { return float(x); }

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(unsigned(x)); }
inline int __clzll(long long x) { return std::countl_zero((unsigned long long)x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __fns(unsigned mask, unsigned base, int offset) {
    for (int step = offset < 0 ? -1 : 1, at = int(base); at >= 0 && at < 32; at += step) {
        if (mask >> at & 1 && (offset == 0 || (offset -= step) == 0)) return unsigned(at);
        if (offset == 0) break;
    }
    return ~0u;
}
inline unsigned __brev(unsigned x) {
    unsigned y = 0;
    for (int i = 0; i < 32; ++i) y |= (x >> i & 1) << (31 - i);
    return y;
}
inline unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev(unsigned(x)) << 32 | __brev(unsigned(x >> 32)); }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    uint64_t bytes = uint64_t(b) << 32 | a;
    unsigned out = 0;
    for (int i = 0; i < 4; ++i) {
        unsigned pick = selector >> 4 * i & 15, byte = unsigned(bytes >> 8 * (pick & 7)) & 255;
        if (pick & 8) byte = byte & 128 ? 255 : 0;
        out |= byte << 8 * i;
    }
    return out;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    return unsigned((uint64_t(high) << 32 | low) << (by & 31) >> 32); }
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    return unsigned((uint64_t(high) << 32 | low) >> (by & 31)); }
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned by) {
    return by >= 32 ? low : __funnelshift_l(low, high, by); }
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned by) {
    return by >= 32 ? high : __funnelshift_r(low, high, by); }

inline int __mulhi(int a, int b) { return int(int64_t(a) * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
inline long long __mul64hi(long long a, long long b) { return (long long)(__int128(a) * b >> 64); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)(a) * b >> 64); }
inline int __mul24(int a, int b) { return int(int64_t(a << 8 >> 8) * (b << 8 >> 8)); }
inline unsigned __umul24(unsigned a, unsigned b) { return unsigned(uint64_t(a & 0xffffff) * (b & 0xffffff)); }
inline int __hadd(int a, int b) { return int((int64_t(a) + b) >> 1); }
inline int __rhadd(int a, int b) { return int((int64_t(a) + b + 1) >> 1); }
inline unsigned __uhadd(unsigned a, unsigned b) { return unsigned((uint64_t(a) + b) >> 1); }
inline unsigned __urhadd(unsigned a, unsigned b) { return unsigned((uint64_t(a) + b + 1) >> 1); }
inline unsigned __sad(int a, int b, unsigned c) { return unsigned(a > b ? int64_t(a) - b : int64_t(b) - a) + c; }
inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return (a > b ? a - b : b - a) + c; }
inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 32; i += 8) c += int((signed char)(a >> i)) * (signed char)(b >> i);
    return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 32; i += 8) c += (a >> i & 255) * (b >> i & 255);
    return c;
}
inline int __dp4a(char4 a, char4 b, int c) { return c + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
inline unsigned __dp4a(uchar4 a, uchar4 b, unsigned c) { return c + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }

// Products of two halfwords and two bytes: the lower two of b, or the upper two.
#define EMU_DP2A(name, at) \
    inline int name(int a, int b, int c) { \
        return c + short(a) * (signed char)(b >> at) + short(a >> 16) * (signed char)(b >> (at + 8)); } \
    inline unsigned name(unsigned a, unsigned b, unsigned c) { \
        return c + (a & 65535) * (b >> at & 255) + (a >> 16) * (b >> (at + 8) & 255); }
EMU_DP2A(__dp2a_lo, 0)
EMU_DP2A(__dp2a_hi, 16)
#undef EMU_DP2A
inline int __dp2a_lo(short2 a, char4 b, int c) { return c + a.x * b.x + a.y * b.y; }
inline int __dp2a_hi(short2 a, char4 b, int c) { return c + a.x * b.z + a.y * b.w; }
inline unsigned __dp2a_lo(ushort2 a, uchar4 b, unsigned c) { return c + a.x * b.x + a.y * b.y; }
inline unsigned __dp2a_hi(ushort2 a, uchar4 b, unsigned c) { return c + a.x * b.z + a.y * b.w; }

inline long long llmax(long long a, long long b) { return a > b ? a : b; }
inline long long llmin(long long a, long long b) { return a < b ? a : b; }
inline unsigned long long ullmax(unsigned long long a, unsigned long long b) { return a > b ? a : b; }
inline unsigned long long ullmin(unsigned long long a, unsigned long long b) { return a < b ? a : b; }
