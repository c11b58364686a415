// PTX instructions as functions, which device/emulator/ptx/ writes in place of inline PTX.
#pragma once
#include "atomics.h"
#include "barriers.h"
#include "bulk.h"
#include "warp.h"

inline size_t __cvta_generic_to_shared(const void* p) { return size_t(emu::shared_address(p)); }
EMU_UNSEEN inline void* __cvta_shared_to_generic(size_t offset) { return emu::current->block->shared + offset; }
inline size_t __cvta_generic_to_global(const void* p) { return size_t(p); }
inline size_t __cvta_generic_to_local(const void* p) { return size_t(p); }
inline void* __cvta_local_to_generic(size_t p) { return (void*)p; }
inline size_t __cvta_generic_to_constant(const void* p) { return size_t(p); }
inline void* __cvta_constant_to_generic(size_t p) { return (void*)p; }
inline size_t __cvta_generic_to_grid_constant(const void* p) { return size_t(p); }
inline void* __cvta_grid_constant_to_generic(size_t p) { return (void*)p; }
inline void* __cvta_global_to_generic(size_t p) { return (void*)p; }

namespace emu::ptx {

struct Decimal { double value; };
struct Unused { template <class T> const Unused& operator=(const T&) const { return *this; } };
inline constexpr Unused unused{};

// A register's bits as a type: of the same size, or cut off, or extended.
template <class T, class V> EMU_INLINE T as(const V& v) {
    if constexpr (std::is_same_v<V, Decimal>) return T(v.value);
    else if constexpr (sizeof(T) == sizeof(V)) return __builtin_bit_cast(T, v);
    else if constexpr (std::is_arithmetic_v<V> && std::is_integral_v<T>) return T(v);
    else {
        T out{};
        __builtin_memcpy((void*)&out, (const void*)&v, sizeof(T) < sizeof(V) ? sizeof(T) : sizeof(V));
        return out;
    }
}
template <class D, class T> EMU_INLINE void put(D& d, const T& value) {
    if constexpr (std::is_same_v<D, bool>) d = bool(value);
    else if constexpr (!std::is_same_v<std::remove_const_t<D>, Unused>) d = as<D>(value);
}
template <class T, class... V> EMU_INLINE T packed(const V&... values) {
    constexpr unsigned bits = 8 * sizeof(T) / sizeof...(V);
    using Part = std::conditional_t<bits == 8, uint8_t, std::conditional_t<bits == 16, uint16_t, uint32_t>>;
    uint64_t out = 0;
    unsigned by = 0;
    ((out |= uint64_t(as<Part>(values)) << by, by += bits), ...);
    return as<T>(out);
}
template <class T, class... D> EMU_INLINE void unpack(const T& value, D&... targets) {
    constexpr unsigned bits = 8 * sizeof(T) / sizeof...(D);
    using Part = std::conditional_t<bits == 8, uint8_t, std::conditional_t<bits == 16, uint16_t, uint32_t>>;
    uint64_t all = as<uint64_t>(value);
    (put(targets, Part(all)), ..., void(all >>= bits));
}

template <class T> T high(T a, T b) {
    if constexpr (sizeof(T) == 8) {
        using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
        return T(Wide(a) * Wide(b) >> 64);
    } else {
        using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
        return T(Wide(a) * Wide(b) >> 8 * sizeof(T));
    }
}
template <class T> T least(T a, T b) {
    if constexpr (requires { a.y; }) return {__hmin(a.x, b.x), __hmin(a.y, b.y)};
    else if constexpr (std::is_arithmetic_v<T>) return smaller(a, b);
    else return __hmin(a, b);
}
template <class T> T most(T a, T b) {
    if constexpr (requires { a.y; }) return {__hmax(a.x, b.x), __hmax(a.y, b.y)};
    else if constexpr (std::is_arithmetic_v<T>) return larger(a, b);
    else return __hmax(a, b);
}
template <class T> T fma(T a, T b, T c) {
    if constexpr (requires { a.y; }) return __hfma2(a, b, c);
    else if constexpr (std::is_arithmetic_v<T>) return std::is_same_v<T, float> ? T(fmaf(a, b, c)) : T(::fma(a, b, c));
    else return __hfma(a, b, c);
}
template <class T> T turned(T x) { return sizeof(T) == 8 ? T(__brevll(x)) : T(__brev(unsigned(x))); }
template <class T> uint32_t highest(T x) {
    auto bits = std::make_unsigned_t<T>(std::is_signed_v<T> && x < 0 ? ~x : x);
    return bits ? uint32_t(8 * sizeof(T) - 1 - std::countl_zero(bits)) : ~0u;
}
template <class T> T left(T x, uint32_t by) { return by < 8 * sizeof(T) ? T(x << by) : T(0); }
template <class T> T right(T x, uint32_t by) {
    return by < 8 * sizeof(T) ? T(x >> by) : std::is_signed_v<T> && x < 0 ? T(-1) : T(0); }
template <class T> T bfe(T x, uint32_t first, uint32_t count) {
    first &= 255, count &= 255;
    constexpr uint32_t most = 8 * sizeof(T);
    if (count == 0) return 0;
    uint32_t end = first + count < most ? first + count : most;
    using U = std::make_unsigned_t<T>;
    U bits = first < most ? U(x) >> first : std::is_signed_v<T> && x < 0 ? U(-1) : U(0);
    if (count >= most) return T(bits);
    bits &= (U(1) << count) - 1;
    bool sign = std::is_signed_v<T> && (U(x) >> (end - 1) & 1);
    return sign ? T(bits | U(-1) << (end > first ? end - first : 0)) : T(bits);
}
template <class T> T bfi(T from, T into, uint32_t first, uint32_t count) {
    first &= 255, count &= 255;
    T out = into;
    for (uint32_t i = 0; i < count && first + i < 8 * sizeof(T); ++i)
        out = T((out & ~(T(1) << (first + i))) | (from >> i & 1) << (first + i));
    return out;
}
inline uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
    uint32_t out = 0;
    for (int i = 0; i < 8; ++i)
        if (table >> i & 1) out |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return out;
}
inline uint32_t differences(uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 32; i += 8) c += uint32_t(abs(int(a >> i & 255) - int(b >> i & 255)));
    return c;
}
template <class T> T add_carry(T a, T b, unsigned in, unsigned& out) {
    unsigned __int128 sum = (unsigned __int128)std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b) + in;
    out = unsigned(sum >> 8 * sizeof(T)) & 1;
    return T(sum);
}
template <class T> T sub_carry(T a, T b, unsigned in, unsigned& out) {
    unsigned __int128 rest = (unsigned __int128)std::make_unsigned_t<T>(a) - std::make_unsigned_t<T>(b) - in;
    out = unsigned(rest >> 8 * sizeof(T)) & 1;
    return T(rest);
}
template <class D, class S> D converted(S x) {
    if constexpr (std::is_arithmetic_v<S>) return D(x);
    else return D(float(x));
}

// Addresses. Those of shared memory count from the block's; mapped ones name another block of the cluster.
inline uint32_t mapped(uint32_t address, uint32_t rank) { return (address & 0xffffff) | (rank + 1) << 24; }
template <class V> EMU_UNSEEN char* shared(const V& value, long offset, const char* file, int line) {
    uint32_t address = as<uint32_t>(value);
    char* own = current->block->shared + int(address & 0xffffff) + offset;
    if (address >> 24) return static_cast<char*>(emu_map_shared(own, (address >> 24) - 1, file, line));
    return own;
}
template <class V> char* memory(const V& value, long offset, const char*, int) {
    return (char*)as<uint64_t>(value) + offset; }
template <class T> T* aligned(char* address, unsigned count, const char* file, int line) {
    if (uintptr_t(address) % (count * sizeof(T))) emu_misaligned(address, count * sizeof(T), "access by PTX", file,
        line);
    return reinterpret_cast<T*>(address);
}
template <class T> EMU_INLINE T load(T* address) {
    if constexpr (sizeof(T) == 1) return *static_cast<volatile T*>(address);
    else return emu::load(address);
}
template <class T> EMU_INLINE void store(T* address, T value) {
    if constexpr (sizeof(T) == 1) *static_cast<volatile T*>(address) = value;
    else emu::store(address, value);
}
EMU_UNSEEN inline uint32_t dynamic_bytes() { return current->block->dynamic_bytes; }

template <unsigned size> EMU_INLINE void copy(char* to, char* from, uint32_t bytes, const char* file, int line) {
    static_assert(size == 4 || size == 8 || size == 16, "cp.async copies 4, 8 or 16 bytes");
    if ((uintptr_t(to) | uintptr_t(from)) % size) emu_misaligned((uintptr_t(to) % size) ? to : from, size,
        "copy by cp.async", file, line);
    using T = std::conditional_t<size == 16, uint4, std::conditional_t<size == 8, uint2, unsigned>>;
    emu::copy<int(size)>(reinterpret_cast<T*>(to), reinterpret_cast<const T*>(from), int(bytes));
}

template <class P> uint32_t shfl(uint32_t mask, char mode, uint32_t value, uint32_t by, uint32_t limits, P& inside,
    const char* file, int line) {
    int lane = emu::lane(), segment = int(limits >> 8 & 31), clamp = int(limits & 31);
    int last = (lane & segment) | (clamp & ~segment), first = lane & segment, from = lane;
    if (mode == 'u') from = lane - int(by & 31);
    else if (mode == 'd') from = lane + int(by & 31);
    else if (mode == 'b') from = lane ^ int(by & 31);
    else from = first | (int(by & 31) & ~segment);
    bool is_inside = mode == 'u' ? from >= last : from <= last;
    put(inside, is_inside);
    return emu::shuffle(mask, value, is_inside ? from : lane, "shfl.sync", file, line);
}

enum class Factor { f16, bf16, tf32, s8, u8, f64 };

// d += a b, in the registers of mma.sync: d holds C before and D after it.
template <unsigned m, unsigned n, unsigned k, Factor factor, unsigned D, unsigned A, unsigned B, class T, class R>
EMU_UNSEEN void mma(T (&d)[D], const R (&a)[A], const R (&b)[B], const char* file, int line) {
    constexpr unsigned word = factor == Factor::f16 || factor == Factor::bf16 ? 2
        : factor == Factor::tf32 || factor == Factor::f64 ? 1 : 4;
    constexpr bool is_float = factor == Factor::f16 || factor == Factor::bf16 || factor == Factor::tf32;
    constexpr bool is_half = std::is_same_v<T, uint32_t>;
    static_assert(A * word == m * k / 32 && B * word == n * k / 32, "registers of mma");
    using N = std::conditional_t<is_float, float, double>;
    auto number = [](R bits, unsigned part) -> N {
        if constexpr (factor == Factor::f64) return bits;
        else if constexpr (factor == Factor::f16) return half_value((unsigned short)(bits >> 16 * part));
        else if constexpr (factor == Factor::bf16) return bfloat16_value((unsigned short)(bits >> 16 * part));
        else if constexpr (factor == Factor::tf32) return __builtin_bit_cast(float, uint32_t(bits) & 0xffffe000u);
        else if constexpr (factor == Factor::s8) return (signed char)(bits >> 8 * part);
        else return (unsigned char)(bits >> 8 * part);
    };
    N left[A * word], right[B * word], sums[is_half ? 2 * D : D];
    for (unsigned i = 0; i < A * word; ++i) left[i] = number(a[i / word], i % word);
    for (unsigned i = 0; i < B * word; ++i) right[i] = number(b[i / word], i % word);
    for (unsigned i = 0; i < sizeof sums / sizeof(N); ++i) {
        if constexpr (is_half) sums[i] = half_value((unsigned short)(d[i / 2] >> 16 * (i % 2)));
        else sums[i] = N(d[i]);
    }
    const Fragments how{m, n, k, word, k < 16 ? 8u : 16u, factor == Factor::f16 ? -14 : -126};
    if constexpr (is_float) emu_multiply(sums, left, right, how, "mma", file, line);
    else emu_multiply_doubles(sums, left, right, how, "mma", file, line);
    for (unsigned i = 0; i < D; ++i) {
        if constexpr (is_half) d[i] = half_bits(float(sums[2 * i])) | uint32_t(half_bits(float(sums[2 * i + 1]))) << 16;
        else if constexpr (std::is_integral_v<T>) d[i] = T((long long)sums[i]);
        else d[i] = T(sums[i]);
    }
}

}  // namespace emu::ptx
