// Algorithms of a block and of a warp. Threads exchange numbers through the temporary storage, so a second use without
// a barrier in between is the race that it is on a GPU.
#pragma once
#include "../thrust/functional.h"

namespace cub {

using std::plus;
struct Sum { template <class T, class U> auto operator()(const T& a, const U& b) const { return a + b; } };
struct Max { template <class T> T operator()(const T& a, const T& b) const { return a < b ? b : a; } };
struct Min { template <class T> T operator()(const T& a, const T& b) const { return b < a ? b : a; } };
struct Equality { template <class T> bool operator()(const T& a, const T& b) const { return a == b; } };
struct Inequality { template <class T> bool operator()(const T& a, const T& b) const { return !(a == b); } };
template <class K, class V> struct KeyValuePair { K key; V value; };
struct ArgMax { template <class P> P operator()(const P& a, const P& b) const {
    return b.value > a.value || (b.value == a.value && b.key < a.key) ? b : a; } };
struct ArgMin { template <class P> P operator()(const P& a, const P& b) const {
    return b.value < a.value || (b.value == a.value && b.key < a.key) ? b : a; } };

enum BlockReduceAlgorithm {
    BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS };
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };
enum BlockLoadAlgorithm {
    BLOCK_LOAD_DIRECT, BLOCK_LOAD_STRIPED, BLOCK_LOAD_VECTORIZE, BLOCK_LOAD_TRANSPOSE, BLOCK_LOAD_WARP_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED
};
enum BlockStoreAlgorithm {
    BLOCK_STORE_DIRECT, BLOCK_STORE_STRIPED, BLOCK_STORE_VECTORIZE, BLOCK_STORE_TRANSPOSE, BLOCK_STORE_WARP_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED
};
enum BlockHistogramAlgorithm { BLOCK_HISTO_SORT, BLOCK_HISTO_ATOMIC };

namespace emulated {

inline unsigned rank() {
    uint3 i = threadIdx;
    dim3 n = blockDim;
    return (i.z * n.y + i.y) * n.x + i.x;
}
// Memory for numbers that are not constructed.
template <class T, int n> struct Numbers {
    alignas(T) unsigned char bytes[n * sizeof(T)];
    T& operator[](int i) { return reinterpret_cast<T*>(bytes)[i]; }
};

}  // namespace emulated

template <class T, int X, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1, int = 0>
class BlockReduce {
  public:
    struct TempStorage { emulated::Numbers<T, X * Y * Z> values; };
    explicit BlockReduce(TempStorage& storage) : storage(storage) {}
    template <class F> T Reduce(T value, F f, int valid = X * Y * Z, EMU_HERE) {
        int me = int(emulated::rank());
        storage.values[me] = value;
        __syncthreads(file, line);
        if (me == 0)
            for (int i = 1; i < valid; ++i) value = f(value, storage.values[i]);
        return value;
    }
    template <int n, class F> T Reduce(T (&values)[n], F f, EMU_HERE) {
        T value = values[0];
        for (int i = 1; i < n; ++i) value = f(value, values[i]);
        return Reduce(value, f, X * Y * Z, file, line);
    }
    T Sum(T value, int valid = X * Y * Z, EMU_HERE) { return Reduce(value, cub::Sum(), valid, file, line); }
    template <int n> T Sum(T (&values)[n], EMU_HERE) { return Reduce(values, cub::Sum(), file, line); }

  private:
    TempStorage& storage;
};

template <class T, int X, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1, int = 0> class BlockScan {
    static constexpr int threads = X * Y * Z;

  public:
    struct TempStorage { emulated::Numbers<T, threads> values; };
    explicit BlockScan(TempStorage& storage) : storage(storage) {}

    // Each thread gets the sum of those before it, `before`, and of all.
    template <class F> bool scan(T value, F f, T& before, T& all, const char* file, int line) {
        int me = int(emulated::rank());
        storage.values[me] = value;
        __syncthreads(file, line);
        T sum = storage.values[0];
        for (int i = 1; i < threads; ++i) {
            if (i == me) before = sum;
            sum = f(sum, T(storage.values[i]));
        }
        all = sum;
        return me > 0;
    }
    template <class F> void InclusiveScan(T in, T& out, F f, T& all, EMU_HERE) {
        T before;
        out = scan(in, f, before, all, file, line) ? f(before, in) : in;
    }
    template <class F> void InclusiveScan(T in, T& out, F f, EMU_HERE) {
        T all;
        InclusiveScan(in, out, f, all, file, line);
    }
    template <class F> void ExclusiveScan(T in, T& out, T first, F f, T& all, EMU_HERE) {
        T before;
        out = scan(in, f, before, all, file, line) ? f(first, before) : first;
    }
    template <class F> void ExclusiveScan(T in, T& out, T first, F f, EMU_HERE) {
        T all;
        ExclusiveScan(in, out, first, f, all, file, line);
    }
    void InclusiveSum(T in, T& out, EMU_HERE) { InclusiveScan(in, out, cub::Sum(), file, line); }
    void InclusiveSum(T in, T& out, T& all, EMU_HERE) { InclusiveScan(in, out, cub::Sum(), all, file, line); }
    void ExclusiveSum(T in, T& out, EMU_HERE) { ExclusiveScan(in, out, T(), cub::Sum(), file, line); }
    void ExclusiveSum(T in, T& out, T& all, EMU_HERE) { ExclusiveScan(in, out, T(), cub::Sum(), all, file, line); }
    template <int n, class F> void ExclusiveScan(T (&in)[n], T (&out)[n], T first, F f, T& all, EMU_HERE) {
        T sum = in[0], before;
        for (int i = 1; i < n; ++i) sum = f(sum, in[i]);
        T from = scan(sum, f, before, all, file, line) ? f(first, before) : first;
        for (int i = 0; i < n; ++i) {
            T value = in[i];
            out[i] = from;
            from = f(from, value);
        }
    }
    template <int n, class F> void InclusiveScan(T (&in)[n], T (&out)[n], F f, T& all, EMU_HERE) {
        T sum = in[0], before;
        for (int i = 1; i < n; ++i) sum = f(sum, in[i]);
        bool has = scan(sum, f, before, all, file, line);
        for (int i = 0; i < n; ++i) {
            before = has ? f(before, in[i]) : in[i];
            has = true;
            out[i] = before;
        }
    }
    template <int n> void ExclusiveSum(T (&in)[n], T (&out)[n], EMU_HERE) {
        T all;
        ExclusiveScan(in, out, T(), cub::Sum(), all, file, line);
    }
    template <int n> void ExclusiveSum(T (&in)[n], T (&out)[n], T& all, EMU_HERE) {
        ExclusiveScan(in, out, T(), cub::Sum(), all, file, line); }
    template <int n> void InclusiveSum(T (&in)[n], T (&out)[n], EMU_HERE) {
        T all;
        InclusiveScan(in, out, cub::Sum(), all, file, line);
    }
    template <int n> void InclusiveSum(T (&in)[n], T (&out)[n], T& all, EMU_HERE) {
        InclusiveScan(in, out, cub::Sum(), all, file, line); }

  private:
    TempStorage& storage;
};

// Parts of a warp; the numbers pass between the lanes without shared memory.
template <class T, int width = 32> class WarpReduce {
  public:
    struct TempStorage {};
    explicit WarpReduce(TempStorage&) {}
    template <class F> T Reduce(T value, F f, int valid = width, EMU_HERE) {
        int lane = emu::lane() % width;
        for (int by = 1; by < width; by *= 2) {
            T other = __shfl_down_sync(mask(), value, unsigned(by), width, file, line);
            if (lane + by < valid) value = f(value, other);
        }
        return value;
    }
    T Sum(T value, int valid = width, EMU_HERE) { return Reduce(value, cub::Sum(), valid, file, line); }
    static unsigned mask() { return width == 32 ? ~0u : ((1u << width % 32) - 1) << emu::lane() / width * width; }
};
template <class T, int width = 32> class WarpScan {
  public:
    struct TempStorage {};
    explicit WarpScan(TempStorage&) {}
    template <class F> void InclusiveScan(T in, T& out, F f, EMU_HERE) {
        int lane = emu::lane() % width;
        out = in;
        for (int by = 1; by < width; by *= 2) {
            T other = __shfl_up_sync(WarpReduce<T, width>::mask(), out, unsigned(by), width, file, line);
            if (lane >= by) out = f(other, out);
        }
    }
    template <class F> void ExclusiveScan(T in, T& out, T first, F f, EMU_HERE) {
        T sum;
        InclusiveScan(in, sum, f, file, line);
        T before = __shfl_up_sync(WarpReduce<T, width>::mask(), sum, 1u, width, file, line);
        out = emu::lane() % width ? f(first, before) : first;
    }
    void InclusiveSum(T in, T& out, EMU_HERE) { InclusiveScan(in, out, cub::Sum(), file, line); }
    void InclusiveSum(T in, T& out, T& all, EMU_HERE) {
        InclusiveScan(in, out, cub::Sum(), file, line);
        all = __shfl_sync(WarpReduce<T, width>::mask(), out, width - 1, width, file, line);
    }
    void ExclusiveSum(T in, T& out, EMU_HERE) { ExclusiveScan(in, out, T(), cub::Sum(), file, line); }
};

template <class T, int X, int n, BlockLoadAlgorithm how = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1, int = 0>
class BlockLoad {
  public:
    struct TempStorage {};
    BlockLoad() = default;
    explicit BlockLoad(TempStorage&) {}
    static int place(int i) {
        return how == BLOCK_LOAD_STRIPED ? i * X * Y * Z + int(emulated::rank()) : int(emulated::rank()) * n + i; }
    template <class I> EMU_INLINE void Load(I from, T (&to)[n]) {
        for (int i = 0; i < n; ++i) to[i] = from[place(i)]; }
    template <class I> EMU_INLINE void Load(I from, T (&to)[n], int valid) {
        for (int i = 0; i < n; ++i) if (place(i) < valid) to[i] = from[place(i)]; }
    template <class I, class D> EMU_INLINE void Load(I from, T (&to)[n], int valid, D otherwise) {
        for (int i = 0; i < n; ++i) to[i] = place(i) < valid ? T(from[place(i)]) : T(otherwise); }
};
template <class T, int X, int n, BlockStoreAlgorithm how = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1, int = 0>
class BlockStore {
  public:
    struct TempStorage {};
    BlockStore() = default;
    explicit BlockStore(TempStorage&) {}
    static int place(int i) {
        return how == BLOCK_STORE_STRIPED ? i * X * Y * Z + int(emulated::rank()) : int(emulated::rank()) * n + i; }
    template <class I> EMU_INLINE void Store(I to, T (&from)[n]) {
        for (int i = 0; i < n; ++i) to[place(i)] = from[i]; }
    template <class I> EMU_INLINE void Store(I to, T (&from)[n], int valid) {
        for (int i = 0; i < n; ++i) if (place(i) < valid) to[place(i)] = from[i]; }
};

template <class K, int X, int n, class V = std::nullptr_t, int = 4, bool = true, BlockScanAlgorithm =
    BLOCK_SCAN_WARP_SCANS, int = 0, int Y = 1, int Z = 1, int = 0>
class BlockRadixSort {
    static constexpr int all = X * Y * Z * n;
    static constexpr bool has_values = !std::is_same_v<V, std::nullptr_t>;

  public:
    struct TempStorage {
        emulated::Numbers<K, all> keys;
        emulated::Numbers<V, has_values ? all : 1> values;
    };
    explicit BlockRadixSort(TempStorage& storage) : storage(storage) {}
    void Sort(K (&keys)[n], int = 0, int = 0, EMU_HERE) { sort(keys, (V*)nullptr, false, file, line); }
    void SortDescending(K (&keys)[n], int = 0, int = 0, EMU_HERE) { sort(keys, (V*)nullptr, true, file, line); }
    void Sort(K (&keys)[n], V (&values)[n], int = 0, int = 0, EMU_HERE) { sort(keys, values, false, file, line); }
    void SortDescending(K (&keys)[n], V (&values)[n], int = 0, int = 0, EMU_HERE) {
        sort(keys, values, true, file, line); }

  private:
    TempStorage& storage;
    // Each thread finds the place of its keys: how many come before them.
    void sort(K* keys, V* values, bool descends, const char* file, int line) {
        int me = int(emulated::rank()), to[n];
        for (int i = 0; i < n; ++i) storage.keys[me * n + i] = keys[i];
        __syncthreads(file, line);
        for (int i = 0; i < n; ++i) {
            to[i] = 0;
            for (int j = 0; j < all; ++j) {
                K other = storage.keys[j];
                bool first = descends ? keys[i] < other : other < keys[i];
                to[i] += first || (!(descends ? other < keys[i] : keys[i] < other) && j < me * n + i);
            }
        }
        __syncthreads(file, line);
        for (int i = 0; i < n; ++i) {
            storage.keys[to[i]] = keys[i];
            if (has_values && values) storage.values[to[i]] = values[i];
        }
        __syncthreads(file, line);
        for (int i = 0; i < n; ++i) {
            keys[i] = storage.keys[me * n + i];
            if (has_values && values) values[i] = storage.values[me * n + i];
        }
    }
};

template <class T, int X, int n, int bins, BlockHistogramAlgorithm = BLOCK_HISTO_SORT, int Y = 1, int Z = 1, int = 0>
class BlockHistogram {
  public:
    struct TempStorage {};
    BlockHistogram() = default;
    explicit BlockHistogram(TempStorage&) {}
    template <class C> void InitHistogram(C (&counts)[bins]) {
        for (int i = int(emulated::rank()); i < bins; i += X * Y * Z) counts[i] = C();
    }
    template <class C> void Composite(T (&values)[n], C (&counts)[bins]) {
        for (int i = 0; i < n; ++i) atomicAdd(&counts[values[i]], C(1)); }
    template <class C> void Histogram(T (&values)[n], C (&counts)[bins], EMU_HERE) {
        InitHistogram(counts);
        __syncthreads(file, line);
        Composite(values, counts);
    }
};

}  // namespace cub
