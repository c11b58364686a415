// Phases of a step of a cluster that computes some samples through all layers, with weights and activations in shared
// memory. Each of BLOCKS blocks computes a slice of a layer's outputs for the cluster's n samples, and writes it into
// the shared memory of all. A slice of the weights is read once a step, by outputs for the forward pass and by inputs
// for the gradients; outputs and gradients are also stored in global memory, for the weight gradients
// (phases.cuh).
#pragma once
#include "phases.cuh"
#include "slices.cuh"

// A factor of a product in shared memory, as Rows of product.cuh: STRIDE floats from row to row, and `count` lines.
// Lines beyond them repeat the last one.
template <int STRIDE_, bool K_INSIDE_>
struct HeldRows {
    static constexpr int STRIDE = STRIDE_;
    static constexpr bool K_INSIDE = K_INSIDE_;
    const float* numbers;
    int count;

    // Addresses of the thread's four lines, in a tile of LINES lines from line0 on.
    template <int LINES>
    __device__ __forceinline__ void find(const float* (&at)[4], int line0, int place) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if constexpr (K_INSIDE) at[i] = numbers + min(line0 + place + i * (LINES / 4), count - 1) * STRIDE;
            else at[i] = numbers + i * STRIDE + min(line0 + 4 * place, count - 4);
        }
    }

    // The four lines at four k: part[line][k].
    static __device__ __forceinline__ void read(float (&part)[4][4], const float* const (&at)[4], int quad) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float4 v = *reinterpret_cast<const float4*>(at[i] + 4 * quad * (K_INSIDE ? 1 : STRIDE));
            const float numbers[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int j = 0; j < 4; ++j) (K_INSIDE ? part[i][j] : part[j][i]) = numbers[j];
        }
    }
};

// One tile of a product of factors in shared memory, as `multiply` of product.cuh; partial sums are stored in `parts`.
template <class T, class A, class B>
__device__ __forceinline__ Sums<T> multiply_held(const A& a, const B& b, int m0, int n0, int depth, float* parts) {
    const int place = threadIdx.x % T::PLACES, group = threadIdx.x / T::PLACES;
    const int down = place / T::ACROSS, across = place % T::ACROSS, quads = (depth + 3) / 4;
    const float *a_at[4], *b_at[4];
    a.template find<T::ROWS>(a_at, m0, down);
    b.template find<T::COLUMNS>(b_at, n0, across);
    float sum[16] = {};
#pragma unroll 2
    for (int quad = group; quad < quads; quad += T::GROUPS) {
        float from_a[4][4], from_b[4][4];
        A::read(from_a, a_at, quad);
        B::read(from_b, b_at, quad);
#pragma unroll
        for (int k = 0; k < 4; ++k)
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) sum[4 * i + j] = fmaf(from_a[i][k], from_b[j][k], sum[4 * i + j]);
    }
    store_sums<T, Panel<T::ROWS, 4, A::K_INSIDE>, Panel<T::COLUMNS, 4, B::K_INSIDE>>(sum, down, across, parts);
    __syncthreads();
    return {parts};
}

// Call f(sum, m, s) for each of this thread's numbers of a product: row m < n and column s of the slice.
template <class T, int SLICE, class A, class B, class F>
__device__ __forceinline__ void each_product(const A& a, const B& b, int n, int depth, float* parts, const F& f) {
    for (int m0 = 0; m0 < n; m0 += T::ROWS)
        for (int n0 = 0; n0 < SLICE; n0 += T::COLUMNS) {
            const Sums<T> sums = multiply_held<T>(a, b, m0, n0, depth, parts);
            each_number<T>([&](int, int i) {
                const int m = m0 + i / T::COLUMNS, s = n0 + i % T::COLUMNS;
                if (m < n && s < SLICE) f(sums[i], m, s);
            });
            __syncthreads();
        }
}

// Address in the shared memory of another block of the cluster, at the offset of a local one.
template <int BLOCKS>
__device__ __forceinline__ float* of_block(float* mine, int rank) {
#if defined(__CUDA_EMU__) || __CUDA_ARCH__ >= 900
    if constexpr (BLOCKS > 1) return shared_of(mine, static_cast<unsigned>(rank));
#endif
    return mine;
}

// How a block passes four numbers on to a block of its cluster, at the offset of a local address: as a store, which the
// cluster's barrier makes visible; or sent to a barrier of that block (CountedTeam). Unsent: no other block reads them.
struct Stored {
    static constexpr bool PASSES = true;
    template <int BLOCKS>
    __device__ __forceinline__ void put(float* mine, int rank, const float4& v) const {
        *reinterpret_cast<float4*>(of_block<BLOCKS>(mine, rank)) = v;
    }
    template <int BLOCKS>
    __device__ __forceinline__ void nothing() const {}
};
struct Unsent {
    static constexpr bool PASSES = false;
    template <int BLOCKS>
    __device__ __forceinline__ void nothing() const {}
};

#if defined(__CUDA_EMU__) || __CUDA_ARCH__ >= 900
struct Sent {
    static constexpr bool PASSES = true;
    Barrier* arrival;
    template <int BLOCKS>
    __device__ __forceinline__ void put(float* mine, int rank, const float4& v) const {
        send_four(mine, v, arrival, static_cast<unsigned>(rank));
    }
    template <int BLOCKS>
    __device__ __forceinline__ void nothing() const {
        if (threadIdx.x < BLOCKS) barrier_read_at(arrival, threadIdx.x);
    }
};
#endif

// Write the block's slice (n, slice) into the rows (n, held_line) of all blocks, the own one first. Lanes next to each
// other write into the same block, and a warp into several.
template <int FEATURES, int BLOCKS, class To>
__device__ __forceinline__ void spread(const float* own, float* rows, int n, const To& to) {
    if constexpr (To::PASSES) {
        constexpr int SLICE = slice(FEATURES, BLOCKS), QUADS = SLICE / 4, WHOLE = (FEATURES + 3) / 4 * 4;
        const int rank = BLOCKS == 1 ? 0 : blockIdx.x % BLOCKS, first = rank * SLICE;
        for (int i = threadIdx.x; i < BLOCKS * n * QUADS; i += THREADS) {
            const int quad = i % QUADS, other = i / QUADS % BLOCKS, m = i / (QUADS * BLOCKS);
            if (first + 4 * quad >= WHOLE) continue;
            to.template put<BLOCKS>(
                rows + m * held_line(FEATURES) + first + 4 * quad, (rank + other) % BLOCKS,
                *reinterpret_cast<const float4*>(own + m * SLICE + 4 * quad)
            );
        }
    }
}

// Additional destination of each quad of a sample: the rows x (n, held_line) of the own block, whose samples begin with
// number `from` of the batch.
template <int FEATURES>
struct OwnSample {
    float* x;
    int from;
    __device__ __forceinline__ void operator()(int sample, int e, const float4& v) const {
        *reinterpret_cast<float4*>(x + (sample - from) * held_line(FEATURES) + e) = v;
    }
};

// As OwnSample, to all blocks of the cluster.
template <int FEATURES, int BLOCKS>
struct SpreadSample {
    float* x;
    int from;
    __device__ __forceinline__ void operator()(int sample, int e, const float4& v) const {
#pragma unroll 1
        for (int other = 0; other < BLOCKS; ++other) {
            float* const to = of_block<BLOCKS>(x, (blockIdx.x + other) % BLOCKS);
            *reinterpret_cast<float4*>(to + (sample - from) * held_line(FEATURES) + e) = v;
        }
    }
};

// Block's slice of y = x w^T + b, and max(y, 0) with RELU. It is stored in `own` (n, slice), in the rows y of all
// blocks, and in `out` (n, line(OUT)) in global memory unless null.
template <class T, int IN, int OUT, int BLOCKS, bool RELU, class To>
__device__ __noinline__ void held_forward(
    const float* x, const float* w, float* own, float* y, float* out, float* parts, int n, To to
) {
    constexpr int SLICE = slice(OUT, BLOCKS), WEIGHTS = held_line(IN + 1);
    const int first = first_of_slice<OUT, BLOCKS>();
    if (first >= OUT) return to.template nothing<BLOCKS>();
    const HeldRows<held_line(IN), true> samples = {x, n};
    const HeldRows<WEIGHTS, true> weights = {w, min(SLICE, OUT - first)};
    each_product<T, SLICE>(samples, weights, n, IN, parts, [&](float sum, int m, int s) {
        const bool present = first + s < OUT;
        const float z = present ? sum + w[s * WEIGHTS + IN] : 0.0f, value = RELU ? relu(z) : z;
        own[m * SLICE + s] = present ? value : 0.0f;
        if (present && out != nullptr) out[m * line(OUT) + first + s] = value;
    });
    spread<OUT, BLOCKS>(own, y, n, to);
}

// Block's slice of dx = g w; with RELU zero where the layer's input `x`, of the same slice, is not positive. It
// is stored in the rows dx of all blocks and in `out` (n, line(IN)) in global memory.
template <class T, int IN, int OUT, int BLOCKS, bool RELU, class To>
__device__ __noinline__ void held_input_gradient(
    const float* g, const float* w, const float* x, float* own, float* dx, float* out, float* parts, int n, To to
) {
    constexpr int SLICE = slice(IN, BLOCKS);
    const int first = first_of_slice<IN, BLOCKS>();
    if (first >= IN) return to.template nothing<BLOCKS>();
    const HeldRows<held_line(OUT), true> gradients = {g, n};
    const HeldRows<inputs_line(IN, BLOCKS), false> weights = {w, min(SLICE, (IN + 3) / 4 * 4 - first)};
    each_product<T, SLICE>(gradients, weights, n, OUT, parts, [&](float sum, int m, int s) {
        const bool present = first + s < IN;
        const float value = present && (!RELU || x[m * SLICE + s] > 0.0f) ? sum : 0.0f;
        own[m * SLICE + s] = value;
        if (present) out[m * line(IN) + first + s] = value;
    });
    spread<IN, BLOCKS>(own, dx, n, to);
}

// Labels of a warp's rows, one of them in each lane: long before they are needed, so that no thread waits for them.
__device__ __forceinline__ int held_labels(const int* label, int n) {
    const int m = threadIdx.x / 32 + threadIdx.x % 32 * (THREADS / 32);
    return m < n ? label[m] : 0;
}

// Softmax cross-entropy of the rows of logits by every block of the cluster: g, the gradient by the logits before a
// ReLU. Each block writes its share of the rows to `out` in global memory, and the sum of their losses to parts.
// ahead: held_labels of the rows.
template <int OUT, int BLOCKS, bool RELU>
__device__ __noinline__ void held_cross_entropy(
    const float* logits, const int* label, int ahead, float* g, float* out, Parts parts, int n, int batch
) {
    __shared__ double lost[THREADS / 32];
    __shared__ int hits[THREADS / 32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rank = BLOCKS == 1 ? 0 : blockIdx.x % BLOCKS;
    double loss = 0.0;
    int hit = 0;
    for (int m = warp, k = 0; m < n; m += THREADS / 32, ++k) {
        if (k > 0 && k % 32 == 0) ahead = held_labels(label + m - warp, n - m + warp);
        const int wanted = __shfl_sync(EVERY_LANE, ahead, k % 32);
        float* const row = g + m * held_line(OUT);
        float one;
        bool right;
        cross_entropy<OUT, RELU>(logits + m * held_line(OUT), wanted, batch, row, one, right);
        if (lane < (4 - OUT % 4) % 4) row[OUT + lane] = 0.0f;
        if (m % BLOCKS != rank) continue;
        for (int c = lane; c < OUT; c += 32) out[m * line(OUT) + c] = row[c];
        loss += one;
        hit += right;
    }
    store_losses(parts, 0, loss, hit, lost, hits);
}

// Block's slice of the last layer's outputs, and their mean squared error against `target`, as `reconstruct` of
// phases.cuh: the gradient by the outputs before a ReLU is stored in the rows g of all blocks and in `out`.
template <class T, int IN, int OUT, int BLOCKS, bool RELU, class To>
__device__ __noinline__ void held_reconstruct(
    const float* x, const float* w, const float* target, const int* rows, float* own, float* g, float* out,
    float* sums, Parts parts, int n, int batch, To to
) {
    __shared__ double shared[32];
    constexpr int SLICE = slice(OUT, BLOCKS), WEIGHTS = held_line(IN + 1);
    const int first = first_of_slice<OUT, BLOCKS>();
    const float scale = static_cast<float>(2.0 / (static_cast<long long>(batch) * OUT));
    double loss = 0.0;
    if (first < OUT) {
        const HeldRows<held_line(IN), true> samples = {x, n};
        const HeldRows<WEIGHTS, true> weights = {w, min(SLICE, OUT - first)};
        each_product<T, SLICE>(samples, weights, n, IN, sums, [&](float sum, int m, int s) {
            const int o = first + s;
            float value = 0.0f;
            if (o < OUT) {
                const long long at = rows != nullptr ? static_cast<long long>(rows[m]) * OUT : m * line(OUT);
                const float z = sum + w[s * WEIGHTS + IN], y = RELU ? relu(z) : z, difference = y - target[at + o];
                value = RELU && !(y > 0.0f) ? 0.0f : difference * scale;
                loss += static_cast<double>(difference) * difference;
                out[m * line(OUT) + o] = value;
            }
            own[m * SLICE + s] = value;
        });
        spread<OUT, BLOCKS>(own, g, n, to);
    } else {
        to.template nothing<BLOCKS>();
    }
    loss = sum_by_warps(loss, shared);
    if (threadIdx.x == 0 && parts.lost != nullptr) parts.lost[0] = loss, parts.hits[0] = 0;
}
