// Layer whose inputs are divided over a cluster: BLOCKS blocks, each with the weights of a slice of the inputs
// in its shared memory for the whole launch. A step has two waits. Each block multiplies its slice of the
// batch, and sends the partial outputs to the blocks that own the samples; these add them, and send the gradient by
// the outputs to all; each block updates its weights. The bias is the weight of one more input, which is one.
//
// Shapes: n samples of at most BATCH, IN inputs and OUT outputs. x (n, LINE), weights and slots (OUT, LINE), g and
// logits (n, G_LINE).
#pragma once
#include "gather.cuh"
#include "held.cuh"

template <int IN_, int OUT_, int BLOCKS_, int BATCH_>
struct Division {
    static constexpr int IN = IN_, OUT = OUT_, BLOCKS = BLOCKS_, BATCH = BATCH_;
    static constexpr int SLICE = slice(IN + 1, BLOCKS), QUADS = SLICE / 4, LINE = held_line(SLICE);
    static constexpr int OUTS = (OUT + 3) / 4 * 4, G_LINE = held_line(OUT);
    static constexpr int ROWS = (BATCH + BLOCKS - 1) / BLOCKS;  // samples that a block owns
    static __device__ __forceinline__ int rank() { return BLOCKS == 1 ? 0 : blockIdx.x % BLOCKS; }
    static __device__ __forceinline__ int first() { return rank() * SLICE; }
    // Samples of n that this block owns, and blocks that own some.
    static __device__ __forceinline__ int owned(int n) { return max(0, min(ROWS, n - rank() * ROWS)); }
    static __device__ __forceinline__ int owners(int n) { return (n + ROWS - 1) / ROWS; }
    // Bytes that other blocks send this one before a step's first wait, partial outputs, and before its second one,
    // gradients and losses.
    static __device__ __forceinline__ int bytes(int wait, int n) {
        if (wait == 0) return 4 * OUTS * BLOCKS * owned(n);
        return 4 * OUTS * (n - owned(n)) + (rank() == 0 ? 16 * owners(n) : 0);
    }
};

// Copies parameters or one of the slots of the layer between the flat array, weight (OUT, IN) at w_at and bias (OUT,)
// at b_at, and the block's slice in shared memory.
template <class D, bool INTO_SLICE>
__device__ __forceinline__ void move_slice(float* flat, float* own, int w_at, int b_at) {
    for (int i = threadIdx.x; i < D::OUT * D::SLICE; i += THREADS) {
        const int o = i / D::SLICE, s = i % D::SLICE, e = D::first() + s;
        float* const at = flat + (e < D::IN ? w_at + o * D::IN + e : b_at + o);
        if (INTO_SLICE) own[o * D::LINE + s] = e <= D::IN ? *at : 0.0f;
        else if (e <= D::IN) *at = own[o * D::LINE + s];
    }
}

// Gathering of the block's slice of a batch's samples. Each thread loads HELD quads ahead.
template <class Pixel, class D, int HELD>
struct SliceGather {
    const Pixel* samples;
    const int* labels;
    float scale;
    Choice choice;
    int* rows;  // (BATCH,) in shared memory: the samples' numbers in the training set
    int n = 0, label = 0, ahead = -1;  // ahead: the thread's first sample of the next step
    Quad<Pixel> held[HELD];

    // Load the batch of a step, counted from the beginning of the first epoch; returns its number of samples.
    __device__ __forceinline__ int start(int step) {
        const int* const chosen = choice.of(step);
        n = choice.size(step);
        if (threadIdx.x < n) rows[threadIdx.x] = ahead >= 0 ? ahead : chosen[threadIdx.x];
        for (int m = threadIdx.x + THREADS; m < n; m += THREADS) rows[m] = chosen[m];
        const bool more = step + 1 < choice.last && threadIdx.x < choice.size(step + 1);
        ahead = more ? chosen[choice.batch + threadIdx.x] : -1;
        __syncthreads();
        if (threadIdx.x < n) label = labels[rows[threadIdx.x]];
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            const int i = threadIdx.x + k * THREADS;
            if (i < n * D::QUADS) held[k] = request(i);
        }
        return n;
    }

    // Store the batch: x (n, LINE) with a one after the last input, and zeros up to whole quads of rows; target (n,).
    __device__ __forceinline__ void finish(float* x, int* target) const {
#pragma unroll
        for (int k = 0; k < HELD; ++k) {
            const int i = threadIdx.x + k * THREADS;
            if (i < n * D::QUADS) store(x, i, held[k]);
        }
        for (int i = threadIdx.x + HELD * THREADS; i < n * D::QUADS; i += THREADS) store(x, i, request(i));
        for (int i = n * D::SLICE + threadIdx.x; i < (n + 3) / 4 * 4 * D::SLICE; i += THREADS)
            x[i / D::SLICE * D::LINE + i % D::SLICE] = 0.0f;
        if (threadIdx.x < n) target[threadIdx.x] = label;
        for (int m = threadIdx.x + THREADS; m < n; m += THREADS) target[m] = labels[rows[m]];
    }

private:
    __device__ __forceinline__ Quad<Pixel> request(int i) const {
        const int e = D::first() + i % D::QUADS * 4;
        const Pixel* const at = samples + static_cast<long long>(rows[i / D::QUADS]) * D::IN + e;
        Quad<Pixel> found;
        if (D::IN % 4 == 0 && e < D::IN) {
            found.v = *reinterpret_cast<const decltype(found.v)*>(at);
        } else {
            found.v.x = e < D::IN ? at[0] : Pixel(0);
            found.v.y = e + 1 < D::IN ? at[1] : Pixel(0);
            found.v.z = e + 2 < D::IN ? at[2] : Pixel(0);
            found.v.w = e + 3 < D::IN ? at[3] : Pixel(0);
        }
        return found;
    }

    __device__ __forceinline__ void store(float* x, int i, const Quad<Pixel>& found) const {
        const int quad = i % D::QUADS, e = D::first() + 4 * quad;
        float4 v = found.times(scale);
        if (e == D::IN) v.x = 1.0f;
        if (e + 1 == D::IN) v.y = 1.0f;
        if (e + 2 == D::IN) v.z = 1.0f;
        if (e + 3 == D::IN) v.w = 1.0f;
        *reinterpret_cast<float4*>(x + i / D::QUADS * D::LINE + 4 * quad) = v;
    }
};

// Partial outputs of the block's inputs: those of sample m are stored in its owner's `received` (BLOCKS, ROWS,
// G_LINE).
template <class T, class D, class To>
__device__ __noinline__ void partial_outputs(
    const float* x, const float* w, float* received, float* parts, int n, To to
) {
    const HeldRows<D::LINE, true> samples = {x, n}, weights = {w, D::OUT};
    for (int m0 = 0; m0 < n; m0 += T::ROWS)
        for (int n0 = 0; n0 < D::OUTS; n0 += T::COLUMNS) {
            const Sums<T> sums = multiply_held<T>(samples, weights, m0, n0, D::SLICE, parts);
            for (int i = 4 * threadIdx.x; i < T::SIZE; i += 4 * THREADS) {
                const int m = m0 + i / T::COLUMNS, o = n0 + i % T::COLUMNS;
                if (m < n && o < D::OUTS)
                    to.template put<D::BLOCKS>(
                        received + (D::rank() * D::ROWS + m % D::ROWS) * D::G_LINE + o, m / D::ROWS, sums.four(i)
                    );
            }
            __syncthreads();
        }
}

// A block's loss and hits, as they lie in the shared memory of the first block: (BLOCKS,).
struct alignas(16) Loss {
    double lost;
    long long hits;
};

// Owner's computation: outputs, softmax cross-entropy, and the gradient by the outputs before a ReLU, which is stored
// in the rows g of all blocks. The sum of its samples' losses is sent to the first block.
template <class D, bool RELU, class To>
__device__ __noinline__ void owned_losses(
    const float* received, const int* label, float* outputs, float* g, float* losses, int n, To to
) {
    __shared__ double lost[THREADS / 32];
    __shared__ int hits[THREADS / 32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    double loss = 0.0;
    int hit = 0;
    for (int r = warp; r < D::ROWS && D::rank() * D::ROWS + r < n; r += THREADS / 32) {
        const int m = D::rank() * D::ROWS + r;
        const float* const partial = received + r * D::G_LINE;
        float* const logits = outputs + r * D::G_LINE;
        float* const own = g + m * D::G_LINE;
        for (int c = lane; c < D::OUT; c += 32) {
            float sum = partial[c];
#pragma unroll
            for (int other = 1; other < D::BLOCKS; ++other) sum += partial[other * D::ROWS * D::G_LINE + c];
            logits[c] = RELU ? relu(sum) : sum;
        }
        __syncwarp();
        float one;
        bool right;
        cross_entropy<D::OUT, RELU>(logits, label[m], n, own, one, right);
        if (lane < D::OUTS - D::OUT) own[D::OUT + lane] = 0.0f;
        __syncwarp();
        constexpr int QUADS = D::OUTS / 4;
        for (int i = QUADS + lane; i < D::BLOCKS * QUADS; i += 32) {
            const int at = m * D::G_LINE + i % QUADS * 4;
            const float4 v = *reinterpret_cast<const float4*>(g + at);
            to.template put<D::BLOCKS>(g + at, (D::rank() + i / QUADS) % D::BLOCKS, v);
        }
        loss += one;
        hit += right;
    }
    if (lane == 0) lost[warp] = loss, hits[warp] = hit;
    __syncthreads();
    if (threadIdx.x == 0 && D::owned(n) > 0) {
        Loss sum = {0.0, 0};
        for (int v = 0; v < THREADS / 32; ++v) sum.lost += lost[v], sum.hits += hits[v];
        to.template put<D::BLOCKS>(losses + 4 * D::rank(), 0, *reinterpret_cast<const float4*>(&sum));
    }
}

// Mean loss of the batch and its number of correct samples, by one thread of the first block.
template <class D>
__device__ __forceinline__ void write_losses(const float* losses, int n, double* loss, long long* correct) {
    if (D::rank() != 0 || threadIdx.x != 0) return;
    double sum = 0.0;
    long long count = 0;
    for (int i = 0; i < D::owners(n); ++i) {
        const Loss own = reinterpret_cast<const Loss*>(losses)[i];
        sum += own.lost, count += own.hits;
    }
    *loss = sum / n;
    *correct = count;
}

// dw = g^T x of the block's inputs, and the update of its weights w, with slots v and u (null if there are fewer).
template <class T, class D, class Rule>
__device__ __noinline__ void step_slice(
    const float* g, const float* x, Stepper<Rule> stepper, float* parts, int n
) {
    const HeldRows<D::G_LINE, false> gradients = {g, D::OUTS};
    const HeldRows<D::LINE, false> samples = {x, D::SLICE};
    each_product<T, D::SLICE>(gradients, samples, D::OUT, n, parts, [&](float sum, int o, int s) {
        const int at = o * D::LINE + s;
        stepper.step(at, stepper.request(at), sum);
    });
}
