// Tensor cores by warp-level matrices: fragments, their loads and stores, and D = A B + C.
#pragma once
#include "../emulator.h"

namespace nvcuda::wmma {

struct row_major;
struct col_major;
struct matrix_a;
struct matrix_b;
struct accumulator;
enum layout_t { mem_row_major, mem_col_major };
namespace precision { struct tf32; }
inline float __float_to_tf32(float x) { return std::bit_cast<float>(emu::tf32_bits(x)); }

namespace emulated {

template <class T> struct Stored { using type = T; };
template <> struct Stored<precision::tf32> { using type = float; };

template <class T> constexpr bool is_float = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>
    || std::is_same_v<T, precision::tf32>;
// Numbers in a register of 32 bits; of doubles one.
template <class T> constexpr unsigned word = std::is_same_v<T, precision::tf32> || sizeof(typename Stored<T>::type) == 8
    ? 1 : 4 / sizeof(typename Stored<T>::type);

template <class Use, int m, int n, int k> struct Sides { static constexpr unsigned rows = m, columns = n; };
template <int m, int n, int k> struct Sides<matrix_a, m, n, k> { static constexpr unsigned rows = m, columns = k; };
// Sides of matrix_b, as those of its transpose.
template <int m, int n, int k> struct Sides<matrix_b, m, n, k> { static constexpr unsigned rows = n, columns = k; };

}  // namespace emulated

// Which lane has which number is not defined by CUDA; here it is as in mma's registers (emu::Fragments).
template <class Use, int m, int n, int k, class T, class Layout = void> class fragment {
    using Sides = emulated::Sides<Use, m, n, k>;

  public:
    using element_type = typename emulated::Stored<T>::type;
    using storage_element_type = element_type;
    enum { num_elements = Sides::rows * Sides::columns / 32, num_storage_elements = num_elements };
    element_type x[num_elements];
#ifdef EMU_CHECK
    EMU_UNSEEN fragment() { memset((void*)x, 0xa7, sizeof x); }  // as nothing fills it
    EMU_UNSEEN bool is_filled() const {
        for (unsigned i = 0; i < sizeof x; ++i)
            if (((const unsigned char*)x)[i] != 0xa7) return true;
        return false;
    }
#endif

    static constexpr bool is_sum = std::is_same_v<Use, accumulator>, is_b = std::is_same_v<Use, matrix_b>;
    static constexpr unsigned word = is_sum ? 2 : emulated::word<T>;
    // Offset of number i of this lane in memory whose rows, or columns, are `pitch` numbers apart.
    static size_t offset(unsigned i, size_t pitch, bool by_rows) {
        unsigned lane = unsigned(emu::lane()), row = emu::Fragments::row(Sides::rows, word, lane, i);
        unsigned column = emu::Fragments::column(Sides::rows, word, lane, i);
        return by_rows != is_b ? row * pitch + column : column * pitch + row;
    }
};

namespace emulated {

// A fragment that is multiplied or stored before anything has filled it ends the thread of a checked launch.
template <class F> EMU_INLINE void need_filled(const F& f, const char* what, const char* file, int line) {
#ifdef EMU_CHECK
    if (!f.is_filled()) emu_unfilled(what, file, line);
#endif
}

}  // namespace emulated

template <class U, int m, int n, int k, class T, class L, class V>
EMU_INLINE void fill_fragment(fragment<U, m, n, k, T, L>& f, const V& value) {
    for (auto& x : f.x) x = static_cast<std::remove_reference_t<decltype(x)>>(value);
}

namespace emulated {

template <class F, class M> EMU_INLINE void load(F& f, const M* memory, size_t pitch, bool by_rows, const char* file,
    int line) {
    if (size_t(memory) % 16) emu_misaligned(memory, 16, "matrix of load_matrix_sync", file, line);
    for (unsigned i = 0; i < unsigned(F::num_elements); ++i) f.x[i] = memory[F::offset(i, pitch, by_rows)];
}

// Converted to the number type in which the runtime multiplies.
template <class N, class F> EMU_UNSEEN void numbers(N* out, const F& f) {
    for (int i = 0; i < int(F::num_elements); ++i) out[i] = N(f.x[i]);
}

}  // namespace emulated

template <class U, int m, int n, int k, class T, class L>
EMU_INLINE void load_matrix_sync(fragment<U, m, n, k, T, L>& f,
    const typename emulated::Stored<T>::type* memory, unsigned pitch, EMU_HERE) {
    static_assert(!std::is_void_v<L>, "load_matrix_sync of an accumulator takes a layout: wmma::mem_row_major");
    emulated::load(f, memory, pitch, std::is_same_v<L, row_major>, file, line);
}
template <int m, int n, int k, class T>
EMU_INLINE void load_matrix_sync(fragment<accumulator, m, n, k, T>& f, const T* memory, unsigned pitch,
    layout_t layout, EMU_HERE) {
    emulated::load(f, memory, pitch, layout == mem_row_major, file, line);
}
template <int m, int n, int k, class T>
EMU_INLINE void store_matrix_sync(T* memory, const fragment<accumulator, m, n, k, T>& f, unsigned pitch,
    layout_t layout, EMU_HERE) {
    if (size_t(memory) % 16) emu_misaligned(memory, 16, "matrix of store_matrix_sync", file, line);
    emulated::need_filled(f, "fragment that store_matrix_sync stores", file, line);
    for (unsigned i = 0; i < unsigned(f.num_elements); ++i)
        memory[f.offset(i, pitch, layout == mem_row_major)] = f.x[i];
}

template <int m, int n, int k, class A, class LA, class B, class LB, class C, class D>
EMU_UNSEEN inline void mma_sync(fragment<accumulator, m, n, k, D>& d, const fragment<matrix_a, m, n, k, A, LA>& a,
    const fragment<matrix_b, m, n, k, B, LB>& b, const fragment<accumulator, m, n, k, C>& c, bool saturates = false,
    EMU_HERE) {
    static_assert(std::is_same_v<A, B>, "mma_sync multiplies two matrices of one type");
    emulated::need_filled(a, "first factor of mma_sync", file, line);
    emulated::need_filled(b, "second factor of mma_sync", file, line);
    emulated::need_filled(c, "fragment to which mma_sync adds", file, line);
    using N = std::conditional_t<emulated::is_float<A>, float, double>;
    constexpr unsigned word = emulated::word<A>, step = word == 1 ? 8 : 16;
    N left[a.num_elements], right[b.num_elements], sums[c.num_elements];
    emulated::numbers(left, a);
    emulated::numbers(right, b);
    emulated::numbers(sums, c);
    const emu::Fragments how{m, n, k, word, step, std::is_same_v<A, __half> ? -14 : -126};
    if constexpr (emulated::is_float<A>) {
        if constexpr (std::is_same_v<A, precision::tf32>)
            for (N* part : {left, right})
                for (unsigned i = 0; i < (part == left ? unsigned(a.num_elements) : unsigned(b.num_elements)); ++i)
                    part[i] = std::bit_cast<float>(std::bit_cast<unsigned>(part[i]) & 0xffffe000u);
        emu_multiply(sums, left, right, how, "mma_sync", file, line);
    } else {
        emu_multiply_doubles(sums, left, right, how, "mma_sync", file, line);
    }
    for (int i = 0; i < int(c.num_elements); ++i) {
        if constexpr (std::is_integral_v<D>) d.x[i] = saturates ? emu::saturated<D>(sums[i]) : D((long long)sums[i]);
        else d.x[i] = D(sums[i]);
    }
}

}  // namespace nvcuda::wmma
