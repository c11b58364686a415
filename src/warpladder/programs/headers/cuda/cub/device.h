// Algorithms of the whole device. Each takes temporary memory: a call without it gives the bytes.
#pragma once
#include "../thrust/all.h"
#include "block.h"

namespace cub {

template <class T> class DoubleBuffer {
  public:
    T* d_buffers[2];
    int selector = 0;
    DoubleBuffer(T* current = nullptr, T* other = nullptr) : d_buffers{current, other} {}
    T* Current() { return d_buffers[selector]; }
    T* Alternate() { return d_buffers[selector ^ 1]; }
};
template <class T> using CountingInputIterator = thrust::counting_iterator<T>;
template <class T> using ConstantInputIterator = thrust::constant_iterator<T>;
template <class V, class F, class I> using TransformInputIterator = thrust::transform_iterator<F, I>;

namespace emulated {

// A call with temporary memory runs work() on the device; one without gives the bytes, some of them.
template <class F> cudaError_t run(const char* name, void* temporary, size_t& bytes, cudaStream_t stream, F work,
    const char* file, int line) {
    emu_asked(name, temporary, file, line);
    if (!temporary) return bytes = 256, cudaSuccess;
    emu::on_device(name, work, file, line, stream);
    return cudaPeekAtLastError();
}
template <class I> using value_of = thrust::value_of<decltype(thrust::raw(std::declval<const I&>()))>;
using thrust::raw;
namespace loops = thrust::loops;

template <class K, class V> cudaError_t sort(const char* name, void* temporary, size_t& bytes, const K* keys,
    K* keys_out, const V* values, V* values_out, size_t n, bool descends, cudaStream_t stream, const char* file,
    int line) {
    emu_asked(name, temporary, file, line);
    if (!temporary) return bytes = 256 + n * (sizeof(K) + sizeof(V)), cudaSuccess;
    if (n == 0) return cudaSuccess;
    emu::Temporary<K> spare(n, file, line);
    emu::Temporary<V> spare_values(values ? n : 0, file, line);
    K* a = spare.data;
    V* b = spare_values.data;
    return run(name, temporary, bytes, stream, [=] {
        for (size_t i = 0; i < n; ++i) {
            keys_out[i] = keys[i];
            if (values) values_out[i] = values[i];
        }
        auto less = [=](const K& x, const K& y) { return descends ? y < x : x < y; };
        if (values) loops::sort(keys_out, values_out, ptrdiff_t(n), a, b, less);
        else loops::sort(keys_out, nullptr, ptrdiff_t(n), a, (char*)nullptr, less);
    }, file, line);
}

}  // namespace emulated

#define EMU_TEMPORARY void *temporary, size_t &bytes
#define EMU_LAST cudaStream_t stream = 0, EMU_HERE
#define EMU_ON_DEVICE(name, ...) emulated::run("cub::" name, temporary, bytes, stream, __VA_ARGS__, file, line)

struct DeviceReduce {
    template <class I, class O, class F, class T> static cudaError_t Reduce(EMU_TEMPORARY, I in, O out, size_t n, F f,
        T first, EMU_LAST) {
        auto from = emulated::raw(in);
        auto to = emulated::raw(out);
        return EMU_ON_DEVICE("DeviceReduce", [=] {
            *to = emulated::loops::reduce(from, from + ptrdiff_t(n), first, f); });
    }
    template <class I, class O> static cudaError_t Sum(EMU_TEMPORARY, I in, O out, size_t n, EMU_LAST) {
        return Reduce(temporary, bytes, in, out, n, cub::Sum(), emulated::value_of<I>(), stream, file, line); }
    template <class I, class O> static cudaError_t Max(EMU_TEMPORARY, I in, O out, size_t n, EMU_LAST) {
        using T = emulated::value_of<I>;
        return Reduce(temporary, bytes, in, out, n, cub::Max(), std::numeric_limits<T>::lowest(), stream, file, line);
    }
    template <class I, class O> static cudaError_t Min(EMU_TEMPORARY, I in, O out, size_t n, EMU_LAST) {
        using T = emulated::value_of<I>;
        return Reduce(temporary, bytes, in, out, n, cub::Min(), std::numeric_limits<T>::max(), stream, file, line);
    }
    template <class I, class O> static cudaError_t ArgMax(EMU_TEMPORARY, I in, O out, size_t n, EMU_LAST) {
        return best(temporary, bytes, in, out, n, cub::ArgMax(), stream, file, line); }
    template <class I, class O> static cudaError_t ArgMin(EMU_TEMPORARY, I in, O out, size_t n, EMU_LAST) {
        return best(temporary, bytes, in, out, n, cub::ArgMin(), stream, file, line); }
    template <class K, class KO, class I, class O, class N, class F> static cudaError_t ReduceByKey(EMU_TEMPORARY,
        K keys, KO keys_out, I values, O out, N count, F f, size_t n, EMU_LAST) {
        return EMU_ON_DEVICE("DeviceReduce", [=] {
            *count = emulated::loops::reduce_by_key(keys, keys + ptrdiff_t(n), values, keys_out, out, Equality(), f);
        });
    }

  private:
    template <class I, class O, class F> static cudaError_t best(EMU_TEMPORARY, I in, O out, size_t n, F f,
        cudaStream_t stream, const char* file, int line) {
        auto from = emulated::raw(in);
        auto to = emulated::raw(out);
        return EMU_ON_DEVICE("DeviceReduce", [=] {
            KeyValuePair<int, emulated::value_of<I>> found{0, from[0]};
            for (int i = 1; size_t(i) < n; ++i) found = f(found, decltype(found){i, from[i]});
            *to = found;
        });
    }
};

struct DeviceScan {
    template <class I, class O, class F, class T> static cudaError_t ExclusiveScan(EMU_TEMPORARY, I in, O out, F f,
        T first, size_t n, EMU_LAST) {
        auto from = emulated::raw(in);
        auto to = emulated::raw(out);
        return EMU_ON_DEVICE("DeviceScan", [=] {
            emulated::loops::exclusive(from, from + ptrdiff_t(n), std::identity(), to, first, f); });
    }
    template <class I, class O, class F> static cudaError_t InclusiveScan(EMU_TEMPORARY, I in, O out, F f, size_t n,
        EMU_LAST) {
        auto from = emulated::raw(in);
        auto to = emulated::raw(out);
        return EMU_ON_DEVICE("DeviceScan", [=] {
            emulated::loops::inclusive(from, from + ptrdiff_t(n), std::identity(), to, f); });
    }
    template <class I, class O> static cudaError_t ExclusiveSum(EMU_TEMPORARY, I in, O out, size_t n, EMU_LAST) {
        return ExclusiveScan(temporary, bytes, in, out, cub::Sum(), emulated::value_of<I>(), n, stream, file, line); }
    template <class I, class O> static cudaError_t InclusiveSum(EMU_TEMPORARY, I in, O out, size_t n, EMU_LAST) {
        return InclusiveScan(temporary, bytes, in, out, cub::Sum(), n, stream, file, line); }
};

struct DeviceRadixSort {
#define EMU_SORTS(name, descends)                                                                                     \
    template <class K> static cudaError_t SortKeys##name(EMU_TEMPORARY, const K* in, K* out, size_t n, int = 0,       \
        int = 8 * sizeof(K), EMU_LAST) {                                                                              \
        return emulated::sort("cub::DeviceRadixSort", temporary, bytes, in, out, (const char*)nullptr,                \
            (char*)nullptr, n, descends, stream, file, line);                                                         \
    }                                                                                                                 \
    template <class K, class V> static cudaError_t SortPairs##name(EMU_TEMPORARY, const K* in, K* out,                \
        const V* values, V* values_out, size_t n, int = 0, int = 8 * sizeof(K), EMU_LAST) {                           \
        return emulated::sort("cub::DeviceRadixSort", temporary, bytes, in, out, values, values_out, n, descends,     \
            stream, file, line);                                                                                      \
    }                                                                                                                 \
    template <class K> static cudaError_t SortKeys##name(EMU_TEMPORARY, DoubleBuffer<K>& keys, size_t n, int = 0,     \
        int = 8 * sizeof(K), EMU_LAST) {                                                                              \
        auto error = SortKeys##name(temporary, bytes, keys.Current(), keys.Alternate(), n, 0, 0, stream, file, line); \
        if (temporary) keys.selector ^= 1;                                                                            \
        return error;                                                                                                 \
    }                                                                                                                 \
    template <class K, class V> static cudaError_t SortPairs##name(EMU_TEMPORARY, DoubleBuffer<K>& keys,              \
        DoubleBuffer<V>& values, size_t n, int = 0, int = 8 * sizeof(K), EMU_LAST) {                                  \
        auto error = SortPairs##name(temporary, bytes, keys.Current(), keys.Alternate(), values.Current(),            \
            values.Alternate(), n, 0, 0, stream, file, line);                                                         \
        if (temporary) keys.selector ^= 1, values.selector ^= 1;                                                      \
        return error;                                                                                                 \
    }
    EMU_SORTS(, false)
    EMU_SORTS(Descending, true)
#undef EMU_SORTS
};

struct DeviceSelect {
    template <class I, class O, class N, class P> static cudaError_t If(EMU_TEMPORARY, I in, O out, N count, size_t n,
        P p, EMU_LAST) {
        return EMU_ON_DEVICE("DeviceSelect", [=] {
            *count = emulated::loops::select(in, in + ptrdiff_t(n), in, out, p); });
    }
    template <class I, class S, class O, class N> static cudaError_t Flagged(EMU_TEMPORARY, I in, S flags, O out,
        N count, size_t n, EMU_LAST) {
        return EMU_ON_DEVICE("DeviceSelect", [=] {
            *count = emulated::loops::select(in, in + ptrdiff_t(n), flags, out, [](auto flag) { return bool(flag); });
        });
    }
    template <class I, class O, class N> static cudaError_t Unique(EMU_TEMPORARY, I in, O out, N count, size_t n,
        EMU_LAST) {
        return EMU_ON_DEVICE("DeviceSelect", [=] {
            *count = emulated::loops::unique(in, in + ptrdiff_t(n), out, Equality()); });
    }
};

struct DeviceRunLengthEncode {
    template <class I, class O, class C, class N> static cudaError_t Encode(EMU_TEMPORARY, I in, O out, C lengths,
        N count, size_t n, EMU_LAST) {
        return EMU_ON_DEVICE("DeviceRunLengthEncode", [=] {
            *count = emulated::loops::reduce_by_key(in, in + ptrdiff_t(n), thrust::make_constant_iterator(1), out,
                lengths, Equality(), cub::Sum());
        });
    }
};

struct DeviceHistogram {
    template <class I, class C, class L> static cudaError_t HistogramEven(EMU_TEMPORARY, I in, C counts, int levels,
        L low, L high, size_t n, EMU_LAST) {
        return EMU_ON_DEVICE("DeviceHistogram", [=] {
            for (int i = 0; i < levels - 1; ++i) counts[i] = 0;
            for (size_t i = 0; i < n; ++i) {
                auto value = in[i];
                if (value < low || !(value < high)) continue;
                int bin = int(double(value - low) * (levels - 1) / double(high - low));
                ++counts[bin];
            }
        });
    }
};

struct DeviceSegmentedReduce {
    template <class I, class O, class B, class E, class F, class T> static cudaError_t Reduce(EMU_TEMPORARY, I in,
        O out, int segments, B begins, E ends, F f, T first, EMU_LAST) {
        return EMU_ON_DEVICE("DeviceSegmentedReduce", [=] {
            for (int i = 0; i < segments; ++i)
                out[i] = emulated::loops::reduce(in + begins[i], in + ends[i], first, f);
        });
    }
    template <class I, class O, class B, class E> static cudaError_t Sum(EMU_TEMPORARY, I in, O out, int segments,
        B begins, E ends, EMU_LAST) {
        return Reduce(temporary, bytes, in, out, segments, begins, ends, cub::Sum(), emulated::value_of<I>(), stream,
            file, line);
    }
};

}  // namespace cub
