// Phases of a training step of Linear layers, each divided over the blocks of a team tile by tile: forward, loss, and
// input gradient; weight_gradient.cuh has the last one. Between a phase and one that needs its results all
// blocks wait for each other (team.cuh). A phase returns its number of tiles. It is a separate function, not inlined:
// layers of equal shapes share one, and a deep net compiles in seconds.
//
// Shapes: n samples, of a batch or of the part of it that a cluster takes, IN and OUT features of a layer. x (n, IN), y
// and its gradient g (n, OUT), weight with bias w (OUT, IN + 1). Rows are line(features) floats apart, and those of x
// and y end in a one (layout.cuh), so that the bias is one more number of k. T: the phase's tile (product.cuh,
// tensor_product.cuh).
#pragma once
#include "layout.cuh"
#include "nan.cuh"
#include "product.cuh"
#include "team.cuh"
#include "tensor_product.cuh"
#include "warp.cuh"

// Rows of an array as rows of a product, and as its k.
template <int FEATURES>
using Values = Rows<line(FEATURES), true>;
template <int FEATURES>
using Transposed = Rows<line(FEATURES), false>;

// Number of tiles of a size that cover a length.
__device__ __forceinline__ int pieces(int length, int size) { return (length + size - 1) / size; }

// Calls f(k, i) for a thread's parts of a tile, each of T::WIDE numbers of a row: its k-th, which begins with number i
// of the tile, row by row.
template <class T, class F>
__device__ __forceinline__ void each_number(const F& f) {
    constexpr int PARTS = T::SIZE / T::WIDE;
#pragma unroll
    for (int k = 0; k < T::EACH; ++k)
        if (PARTS % THREADS == 0 || threadIdx.x + k * THREADS < PARTS) f(k, (threadIdx.x + k * THREADS) * T::WIDE);
}

// Numbers of k of a forward product. The tile's last quantum of k has the bias with the last inputs, or it is added
// afterwards.
template <class T, int IN>
constexpr int DEPTH_OF = IN % T::QUANTUM != 0 ? IN + 1 : IN;

// Request the biases of a thread's numbers of a tile whose first column is n0, where they are added afterwards.
template <class T, int IN, int OUT, class Early>
__device__ __forceinline__ void request_biases(Early& early, const float* w, int n0) {
    each_number<T>([&](int k, int i) {
        const int o = n0 + i % T::COLUMNS;
        early.request_apart(0, k, i, w + o * line(IN) + IN, line(IN), DEPTH_OF<T, IN> == IN ? OUT - o : 0);
    });
}

#if defined(__CUDA_EMU__) || __CUDA_ARCH__ >= 900  // the copy engine

// First tile of a phase that a block computes: its row and column, or no tile.
struct FirstTile {
    int m0, n0;
    bool exists;

    __device__ __forceinline__ FirstTile(Blocks team, int rows, int columns, int down, int across)
        : m0(team.block / pieces(columns, across) * down), n0(team.block % pieces(columns, across) * across),
          exists(m0 < rows) {}
};

// Request a block's first factor of `forward`: with AHEAD == LEFT rows of x, with RIGHT rows of w.
template <class T, int IN, int OUT, Ahead AHEAD>
__device__ __forceinline__ void request_forward(Blocks team, int n, Maps maps) {
    const FirstTile tile(team, n, OUT, T::ROWS, T::COLUMNS);
    if (tile.exists)
        request_product<AHEAD, Values<IN>, Values<IN>>(T(), maps, tile.m0, tile.n0, DEPTH_OF<T, IN>);
}

#endif

// y = x w^T + b, and max(y, 0) with RELU.
template <class T, int IN, int OUT, bool RELU, Ahead AHEAD>
__device__ __noinline__ int forward(Blocks team, const float* x, const float* w, float* y, int n, Maps maps) {
    const int across = pieces(OUT, T::COLUMNS), tiles = pieces(n, T::ROWS) * across;
    for (int tile = team.block; tile < tiles; tile += team.blocks) {
        const int m0 = tile / across * T::ROWS, n0 = tile % across * T::COLUMNS;
        typename T::template Early<Values<IN>, Values<IN>, 1> early;
        request_biases<T, IN, OUT>(early, w, n0);
        const Sums<T> sums = multiply(
            T(), Values<IN>{x, n}, Values<IN>{w, OUT}, maps, m0, n0, DEPTH_OF<T, IN>,
            tile == team.block ? AHEAD : NOTHING
        );
        early.arrive();
        each_number<T>([&](int k, int i) {
            const int m = m0 + i / T::COLUMNS, o = n0 + i % T::COLUMNS;
            float sum[T::WIDE], bias[T::WIDE];
            sums.read(sum, i);
            early.read(bias, 0, k, i);
#pragma unroll
            for (int j = 0; j < T::WIDE; ++j) sum[j] = RELU ? relu(sum[j] + bias[j]) : sum[j] + bias[j];
            if (m < n) store_some(y + m * line(OUT) + o, sum, o, OUT);
        });
        end_of_tile();
    }
    return tiles;
}

// Losses and hits of a batch's tiles before they are summed: (tiles,). lost: null without a loss.
struct Parts {
    double* lost;
    long long* hits;
};

// Store the losses and hits of the block's warps as one tile's, summed in the order of the warps. lost, hits: shared
// (THREADS / 32,).
__device__ __forceinline__ void store_losses(Parts parts, int tile, double loss, int hit, double* lost, int* hits) {
    if (threadIdx.x % 32 == 0) lost[threadIdx.x / 32] = loss, hits[threadIdx.x / 32] = hit;
    __syncthreads();
    if (threadIdx.x == 0 && parts.lost != nullptr) {
        double sum = 0.0;
        long long count = 0;
        for (int v = 0; v < THREADS / 32; ++v) sum += lost[v], count += hits[v];
        parts.lost[tile] = sum;
        parts.hits[tile] = count;
    }
    __syncthreads();
}

// Softmax cross-entropy of a row of OUT logits in shared memory by one warp: stores the gradient by the logits in g
// (OUT,), zero with RELU where the logit is not positive. Every lane gets the loss, and true if the largest logit is
// the label's.
template <int OUT, bool RELU>
__device__ __forceinline__ void cross_entropy(
    const float* logits, int label, int batch, float* g, float& loss, bool& hit
) {
    const int lane = threadIdx.x % 32;
    float largest = __uint_as_float(0xFF800000u);  // minus infinity
    int best = OUT;
    for (int c = lane; c < OUT; c += 32) {
        if (logits[c] > largest) largest = logits[c], best = c;
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        const float other = __shfl_xor_sync(EVERY_LANE, largest, offset);
        const int where = __shfl_xor_sync(EVERY_LANE, best, offset);
        if (other > largest || (other == largest && where < best)) largest = other, best = where;
    }
    float total = 0.0f;
    for (int c = lane; c < OUT; c += 32) total += expf(logits[c] - largest);
    total = warp_sum(total);
    for (int c = lane; c < OUT; c += 32) {
        const float dx = (expf(logits[c] - largest) / total - (c == label ? 1.0f : 0.0f)) / batch;
        g[c] = RELU && !(logits[c] > 0.0f) ? 0.0f : dx;
    }
    loss = logf(total) - (logits[label] - largest);
    hit = best == label;
}

// Last layer and cross-entropy: g, the gradient by its outputs before a ReLU. A tile has all OUT classes. label:
// (n,). batch: samples of the whole batch, over which the loss is a mean.
template <class T, int IN, int OUT, bool RELU, Ahead AHEAD>
__device__ __noinline__ int classify(
    Blocks team, const float* x, const float* w, const int* label, float* g, Parts parts, int n, int batch,
    Maps maps
) {
    static_assert(OUT <= T::COLUMNS, "a tile has all classes");
    __shared__ double lost[THREADS / 32];
    __shared__ int hits[THREADS / 32];
    const int warp = threadIdx.x / 32, tiles = pieces(n, T::ROWS);
    for (int tile = team.block; tile < tiles; tile += team.blocks) {
        const int m0 = tile * T::ROWS;
        typename T::template Early<Values<IN>, Values<IN>, 1> early;
        request_biases<T, IN, OUT>(early, w, 0);
        int wanted = m0 + warp < n ? label[m0 + warp] : 0;
        const Sums<T> sums = multiply(
            T(), Values<IN>{x, n}, Values<IN>{w, OUT}, maps, m0, 0, DEPTH_OF<T, IN>,
            tile == team.block ? AHEAD : NOTHING
        );
        early.arrive();
        float* const logits = tile_memory() + T::PARTS * Sums<T>::PART;
        each_number<T>([&](int k, int i) {
            float sum[T::WIDE], bias[T::WIDE];
            sums.read(sum, i);
            early.read(bias, 0, k, i);
#pragma unroll
            for (int j = 0; j < T::WIDE; ++j) logits[i + j] = RELU ? relu(sum[j] + bias[j]) : sum[j] + bias[j];
        });
        __syncthreads();
        double loss = 0.0;
        int hit = 0;
        for (int m = m0 + warp; m < min(m0 + T::ROWS, n); m += THREADS / 32) {
            if (m > m0 + warp) wanted = label[m];
            float one;
            bool right;
            cross_entropy<OUT, RELU>(logits + (m - m0) * T::COLUMNS, wanted, batch, g + m * line(OUT), one, right);
            loss += one;
            hit += right;
        }
        store_losses(parts, tile, loss, hit, lost, hits);
        if (T::WIDE > 1) end_of_tile();
    }
    return tiles;
}

// Last layer and the mean squared error between its outputs and `target`: g, the gradient by its outputs before a
// ReLU. target: (n, line(OUT)), the batch's samples; with `rows` (n,) the data set's targets, OUT numbers a row.
template <class T, int IN, int OUT, bool RELU, Ahead AHEAD>
__device__ __noinline__ int reconstruct(
    Blocks team, const float* x, const float* w, const float* target, const int* rows, float* g, Parts parts, int n,
    int batch, Maps maps
) {
    __shared__ double shared[32];
    const int across = pieces(OUT, T::COLUMNS), tiles = pieces(n, T::ROWS) * across;
    const float scale = static_cast<float>(2.0 / (static_cast<long long>(batch) * OUT));
    for (int tile = team.block; tile < tiles; tile += team.blocks) {
        const int m0 = tile / across * T::ROWS, n0 = tile % across * T::COLUMNS;
        typename T::template Early<Values<IN>, Values<IN>, 2> early;
        request_biases<T, IN, OUT>(early, w, n0);
        each_number<T>([&](int k, int i) {
            const int m = m0 + i / T::COLUMNS, o = n0 + i % T::COLUMNS;
            const long long at = m < n && rows != nullptr ? static_cast<long long>(rows[m]) * OUT : m * line(OUT);
            early.request_apart(1, k, i, target + at + o, 1, m < n ? OUT - o : 0);
        });
        const Sums<T> sums = multiply(
            T(), Values<IN>{x, n}, Values<IN>{w, OUT}, maps, m0, n0, DEPTH_OF<T, IN>,
            tile == team.block ? AHEAD : NOTHING
        );
        early.arrive();
        double loss = 0.0;
        each_number<T>([&](int k, int i) {
            const int m = m0 + i / T::COLUMNS, o = n0 + i % T::COLUMNS;
            float sum[T::WIDE], bias[T::WIDE], wanted[T::WIDE];
            sums.read(sum, i);
            early.read(bias, 0, k, i);
            early.read(wanted, 1, k, i);
            if (m < n) {
#pragma unroll
                for (int j = 0; j < T::WIDE; ++j) {
                    const float z = sum[j] + bias[j], y = RELU ? relu(z) : z, difference = y - wanted[j];
                    sum[j] = RELU && !(y > 0.0f) ? 0.0f : difference * scale;
                    if (o + j < OUT) loss += static_cast<double>(difference) * difference;
                }
                store_some(g + m * line(OUT) + o, sum, o, OUT);
            }
        });
        loss = sum_by_warps(loss, shared);
        if (threadIdx.x == 0 && parts.lost != nullptr) parts.lost[tile] = loss, parts.hits[tile] = 0;
        if (T::WIDE > 1) end_of_tile();
    }
    return tiles;
}

#if defined(__CUDA_EMU__) || __CUDA_ARCH__ >= 900  // the copy engine

// Request a block's first factor of `input_gradient`: columns of w.
template <class T, int IN, int OUT>
__device__ __forceinline__ void request_input_gradient(Blocks team, int n, Maps maps) {
    const FirstTile tile(team, n, IN, T::ROWS, T::COLUMNS);
    if (tile.exists) request_product<RIGHT, Values<OUT>, Transposed<IN>>(T(), maps, tile.m0, tile.n0, OUT);
}

#endif

// dx = g w, the gradient by a layer's input x; with RELU zero where x is not positive.
template <class T, int IN, int OUT, bool RELU, Ahead AHEAD>
__device__ __noinline__ int input_gradient(
    Blocks team, const float* g, const float* w, const float* x, float* dx, int n, Maps maps
) {
    const int across = pieces(IN, T::COLUMNS), tiles = pieces(n, T::ROWS) * across;
    for (int tile = team.block; tile < tiles; tile += team.blocks) {
        const int m0 = tile / across * T::ROWS, i0 = tile % across * T::COLUMNS;
        typename T::template Early<Values<OUT>, Transposed<IN>, 1> early;
        if constexpr (RELU)
            each_number<T>([&](int k, int i) {
                const int m = m0 + i / T::COLUMNS, e = i0 + i % T::COLUMNS;
                early.request(0, k, i, x + m * line(IN) + e, m < n && e < line(IN));
            });
        const Sums<T> sums = multiply(
            T(), Values<OUT>{g, n}, Transposed<IN>{w, OUT}, maps, m0, i0, OUT, tile == team.block ? AHEAD : NOTHING
        );
        early.arrive();
        each_number<T>([&](int k, int i) {
            const int m = m0 + i / T::COLUMNS, e = i0 + i % T::COLUMNS;
            float sum[T::WIDE];
            sums.read(sum, i);
            if constexpr (RELU) {
                float inputs[T::WIDE];
                early.read(inputs, 0, k, i);
#pragma unroll
                for (int j = 0; j < T::WIDE; ++j)
                    if (!(inputs[j] > 0.0f)) sum[j] = 0.0f;
            }
            if (m < n) store_some(dx + m * line(IN) + e, sum, e, IN);
        });
        end_of_tile();
    }
    return tiles;
}

// Mean loss of the batch and its number of correct samples, from the parts of `tiles` tiles; one block writes them.
// numbers: number of terms of the mean.
__device__ __forceinline__ void write_loss(
    Blocks team, Parts parts, int tiles, long long numbers, double* loss, long long* correct
) {
    if (parts.lost == nullptr || team.block != 0) return;
    __shared__ double lost[32];
    __shared__ long long hits[32];
    double sum = 0.0;
    long long count = 0;
    for (int i = threadIdx.x; i < tiles; i += THREADS) sum += parts.lost[i], count += parts.hits[i];
    sum = sum_by_warps(sum, lost);
    count = sum_by_warps(count, hits);
    if (threadIdx.x == 0) {
        *loss = sum / numbers;
        *correct = count;
    }
}
