// Phases of a training step of Linear layers, each divided over the blocks of a team tile by tile: forward, loss,
// input gradient, and weight gradient with the optimizer's step. Between a phase and one that needs its results all
// blocks wait for each other (team.cuh). A phase returns its number of tiles. It is a separate function, not inlined:
// layers of equal shapes share one, and a deep net compiles in seconds.
//
// Shapes: n samples, of a batch or of the part of it that a cluster takes, IN and OUT features of a layer. x (n, IN), y
// and its gradient g (n, OUT), weight with bias w (OUT, IN + 1). Rows are line(features) floats apart, and those of x
// and y end in a one (layout.cuh), so that the bias is one more number of k. T: the phase's tile (product.cuh).
#pragma once
#include "layout.cuh"
#include "nan.cuh"
#include "product.cuh"
#include "team.cuh"
#include "warp.cuh"

// Rows of an array as rows of a product, and as its k.
template <int FEATURES>
using Values = Rows<line(FEATURES), true>;
template <int FEATURES>
using Transposed = Rows<line(FEATURES), false>;

// Number of tiles of a size that cover a length.
__device__ __forceinline__ int pieces(int length, int size) { return (length + size - 1) / size; }

// Calls f(k, i) for a thread's numbers of a tile: its k-th, which is number i of the tile, row by row.
template <class T, class F>
__device__ __forceinline__ void each_number(const F& f) {
#pragma unroll
    for (int k = 0; k < T::EACH; ++k)
        if (T::SIZE % THREADS == 0 || threadIdx.x + k * THREADS < T::SIZE) f(k, threadIdx.x + k * THREADS);
}

// Parameters with the optimizer's slots (null if it has fewer), and the update of one of them. Gradients are
// clipped to [-limit, limit]; infinity does not clip.
template <class Rule>
struct Stepper {
    float *params, *first, *second;
    float limit;
    Rule rule;

    // Parameter and its slots in registers, loaded before the gradient is known, so that no thread waits for them.
    struct Held {
        float w, a, b;
    };

    __device__ __forceinline__ Held request(int at) const {
        return {params[at], first != nullptr ? first[at] : 0.0f, second != nullptr ? second[at] : 0.0f};
    }

    __device__ __forceinline__ void step(int at, Held held, float gradient) const {
        rule.step(held.w, clip(gradient, limit), held.a, held.b);
        params[at] = held.w;
        if (first != nullptr) first[at] = held.a;
        if (second != nullptr) second[at] = held.b;
    }
};

// Numbers of k of a forward product. Quads of k have the bias with the last inputs, or it is added afterwards.
template <int IN>
constexpr int DEPTH_OF = IN % 4 != 0 ? IN + 1 : IN;

// The biases of a thread's numbers of a tile whose first column is n0, where they are added afterwards.
template <class T, int IN, int OUT>
__device__ __forceinline__ void request_biases(float (&bias)[T::EACH], const float* w, int n0) {
    each_number<T>([&](int k, int i) {
        const int o = n0 + i % T::COLUMNS;
        bias[k] = IN % 4 == 0 && o < OUT ? w[o * line(IN) + IN] : 0.0f;
    });
}

// y = x w^T + b, and max(y, 0) with RELU.
template <class T, int IN, int OUT, bool RELU>
__device__ __noinline__ int forward(Blocks team, const float* x, const float* w, float* y, int n) {
    const int across = pieces(OUT, T::COLUMNS), tiles = pieces(n, T::ROWS) * across;
    for (int tile = team.block; tile < tiles; tile += team.blocks) {
        const int m0 = tile / across * T::ROWS, n0 = tile % across * T::COLUMNS;
        float bias[T::EACH];
        request_biases<T, IN, OUT>(bias, w, n0);
        const Sums<T> sums = multiply<T>(Values<IN>{x, n}, Values<IN>{w, OUT}, m0, n0, DEPTH_OF<IN>);
        each_number<T>([&](int k, int i) {
            const int m = m0 + i / T::COLUMNS, o = n0 + i % T::COLUMNS;
            const float sum = sums[i] + bias[k];
            if (m < n && o < OUT) y[m * line(OUT) + o] = RELU ? relu(sum) : sum;
        });
        __syncthreads();
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
template <class T, int IN, int OUT, bool RELU>
__device__ __noinline__ int classify(
    Blocks team, const float* x, const float* w, const int* label, float* g, Parts parts, int n, int batch
) {
    static_assert(OUT <= T::COLUMNS, "a tile has all classes");
    __shared__ double lost[THREADS / 32];
    __shared__ int hits[THREADS / 32];
    const int warp = threadIdx.x / 32, tiles = pieces(n, T::ROWS);
    for (int tile = team.block; tile < tiles; tile += team.blocks) {
        const int m0 = tile * T::ROWS;
        float bias[T::EACH];
        request_biases<T, IN, OUT>(bias, w, 0);
        int wanted = m0 + warp < n ? label[m0 + warp] : 0;
        const Sums<T> sums = multiply<T>(Values<IN>{x, n}, Values<IN>{w, OUT}, m0, 0, DEPTH_OF<IN>);
        float* const logits = tile_memory() + T::PARTS * T::SIZE;
        each_number<T>([&](int k, int i) {
            const float sum = sums[i] + bias[k];
            logits[i] = RELU ? relu(sum) : sum;
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
    }
    return tiles;
}

// Last layer and the mean squared error between its outputs and `target`: g, the gradient by its outputs before a
// ReLU. target: (n, line(OUT)), the batch's samples; with `rows` (n,) the data set's targets, OUT numbers a row.
template <class T, int IN, int OUT, bool RELU>
__device__ __noinline__ int reconstruct(
    Blocks team, const float* x, const float* w, const float* target, const int* rows, float* g, Parts parts, int n,
    int batch
) {
    __shared__ double shared[32];
    const int across = pieces(OUT, T::COLUMNS), tiles = pieces(n, T::ROWS) * across;
    const float scale = static_cast<float>(2.0 / (static_cast<long long>(batch) * OUT));
    for (int tile = team.block; tile < tiles; tile += team.blocks) {
        const int m0 = tile / across * T::ROWS, n0 = tile % across * T::COLUMNS;
        float bias[T::EACH], wanted[T::EACH];
        request_biases<T, IN, OUT>(bias, w, n0);
        each_number<T>([&](int k, int i) {
            const int m = m0 + i / T::COLUMNS, o = n0 + i % T::COLUMNS;
            const long long at = m < n && rows != nullptr ? static_cast<long long>(rows[m]) * OUT : m * line(OUT);
            wanted[k] = m < n && o < OUT ? target[at + o] : 0.0f;
        });
        const Sums<T> sums = multiply<T>(Values<IN>{x, n}, Values<IN>{w, OUT}, m0, n0, DEPTH_OF<IN>);
        double loss = 0.0;
        each_number<T>([&](int k, int i) {
            const int m = m0 + i / T::COLUMNS, o = n0 + i % T::COLUMNS;
            if (m < n && o < OUT) {
                const float z = sums[i] + bias[k], y = RELU ? relu(z) : z, difference = y - wanted[k];
                g[m * line(OUT) + o] = RELU && !(y > 0.0f) ? 0.0f : difference * scale;
                loss += static_cast<double>(difference) * difference;
            }
        });
        loss = sum_by_warps(loss, shared);
        if (threadIdx.x == 0 && parts.lost != nullptr) parts.lost[tile] = loss, parts.hits[tile] = 0;
    }
    return tiles;
}

// dx = g w, the gradient by a layer's input x; with RELU zero where x is not positive.
template <class T, int IN, int OUT, bool RELU>
__device__ __noinline__ int input_gradient(
    Blocks team, const float* g, const float* w, const float* x, float* dx, int n
) {
    const int across = pieces(IN, T::COLUMNS), tiles = pieces(n, T::ROWS) * across;
    for (int tile = team.block; tile < tiles; tile += team.blocks) {
        const int m0 = tile / across * T::ROWS, i0 = tile % across * T::COLUMNS;
        bool passes[T::EACH];
        each_number<T>([&](int k, int i) {
            const int m = m0 + i / T::COLUMNS, e = i0 + i % T::COLUMNS;
            passes[k] = !RELU || (m < n && e < IN && x[m * line(IN) + e] > 0.0f);
        });
        const Sums<T> sums = multiply<T>(Values<OUT>{g, n}, Transposed<IN>{w, OUT}, m0, i0, OUT);
        each_number<T>([&](int k, int i) {
            const int m = m0 + i / T::COLUMNS, e = i0 + i % T::COLUMNS;
            const float sum = sums[i];
            if (m < n && e < IN) dx[m * line(IN) + e] = passes[k] ? sum : 0.0f;
        });
        __syncthreads();
    }
    return tiles;
}

// Updates of a tile's biases, whose gradients are the sums of g's columns o0 to o0 + ROWS - 1.
template <class T, int IN, int OUT, class Rule>
__device__ __forceinline__ void bias_gradient(const float* g, const Stepper<Rule>& stepper, int o0, int n) {
    constexpr int PARTS = THREADS / T::ROWS;
    const int row = threadIdx.x % T::ROWS, part = threadIdx.x / T::ROWS, o = o0 + row;
    float sum = 0.0f;
#pragma unroll 8
    for (int m = part; m < n; m += PARTS) sum += o < OUT ? g[m * line(OUT) + o] : 0.0f;
    float* const sums = tile_memory();
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (part == 0 && o < OUT) {
        for (int other = 1; other < PARTS; ++other) sum += sums[other * T::ROWS + row];
        const int at = o * line(IN) + IN;
        stepper.step(at, stepper.request(at), sum);
    }
    __syncthreads();
}

// dw = g^T x, with db, the sums of g's columns, as its last column; each parameter is updated as soon as its gradient
// is complete. SEPARATE: true if tiles have no such column, and the tiles of the first inputs update the biases.
template <class T, int IN, int OUT, bool SEPARATE, class Rule>
__device__ __noinline__ int weight_gradient(
    Blocks team, const float* g, const float* x, Stepper<Rule> stepper, int n
) {
    static_assert(!SEPARATE || T::ROWS <= THREADS, "a thread for each row");
    const int across = pieces(SEPARATE ? IN : IN + 1, T::COLUMNS), tiles = pieces(OUT, T::ROWS) * across;
    for (int tile = team.block; tile < tiles; tile += team.blocks) {
        const int o0 = tile / across * T::ROWS, i0 = tile % across * T::COLUMNS;
        typename Stepper<Rule>::Held held[T::EACH];
        int at[T::EACH];
        each_number<T>([&](int k, int i) {
            const int o = o0 + i / T::COLUMNS, e = i0 + i % T::COLUMNS;
            at[k] = o < OUT && e <= IN ? o * line(IN) + e : -1;
            if (at[k] >= 0) held[k] = stepper.request(at[k]);
        });
        const Sums<T> sums = multiply<T>(Transposed<OUT>{g, n}, Transposed<IN>{x, n}, o0, i0, n);
        each_number<T>([&](int k, int i) {
            const float sum = sums[i];
            if (at[k] >= 0) stepper.step(at[k], held[k], sum);
        });
        __syncthreads();
        if constexpr (SEPARATE)
            if (i0 == 0) bias_gradient<T, IN, OUT>(g, stepper, o0, n);
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
