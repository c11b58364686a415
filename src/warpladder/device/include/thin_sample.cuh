// Computation of a thin chain's sample after the first layer, by one thread: the rest of the net, its loss, and back.
#pragma once
#include "nan.cuh"
#include "softmax.cuh"
#include "thin_chain.cuh"

// Loss and hit of a sample.
struct Verdict {
    float loss;
    bool right;  // its largest logit is its label's
};

// z: outputs of the first layer. second, bias2: the second layer, if there is one. out: gradient by the logits, `mean`
// times that of the sample's loss; zeros if the sample is not there. Without has_loss the verdict is zero.
template <int HIDDEN, int OUT>
__device__ __forceinline__ Verdict judge(
    const float (&z)[Chain<HIDDEN, OUT>::WIDTH], const float (&second)[OUT][Chain<HIDDEN, OUT>::WIDTH],
    const float (&bias2)[OUT], int label, bool there, float mean, bool has_loss, float (&out)[OUT]
) {
#pragma unroll
    for (int o = 0; o < OUT; ++o) {
        if constexpr (HIDDEN > 0) {
            out[o] = bias2[o];
#pragma unroll
            for (int i = 0; i < HIDDEN; ++i) out[o] = fmaf(second[o][i], relu(z[i]), out[o]);
        } else {
            out[o] = z[o];
        }
    }
    const Softmax soft = softmax(out);
    const float share = 1.0f / soft.total;
    float logit = 0.0f;
#pragma unroll
    for (int o = 0; o < OUT; ++o) {
        if (o == label) logit = out[o];
        const float chance = expf(out[o] - soft.largest) * share;
        out[o] = there ? (chance - (o == label ? 1.0f : 0.0f)) * mean : 0.0f;
    }
    return {there && has_loss ? surprise(soft, logit) : 0.0f, there && has_loss && soft.best == label};
}

// The gradient by z from that by the logits, out, through the second layer and ReLU; with one layer logits are z.
template <int HIDDEN, int OUT>
__device__ __forceinline__ void through_second(
    const float (&z)[Chain<HIDDEN, OUT>::WIDTH], const float (&second)[OUT][Chain<HIDDEN, OUT>::WIDTH],
    const float (&out)[OUT], float (&back)[Chain<HIDDEN, OUT>::WIDTH]
) {
#pragma unroll
    for (int i = 0; i < Chain<HIDDEN, OUT>::WIDTH; ++i) {
        if constexpr (HIDDEN > 0) {
            back[i] = 0.0f;
#pragma unroll
            for (int o = 0; o < OUT; ++o) back[i] = fmaf(second[o][i], out[o], back[i]);
            back[i] = z[i] > 0.0f ? back[i] : 0.0f;
        } else {
            back[i] = out[i];
        }
    }
}

// Copies the second layer to shared memory; by all THREADS of a block.
template <int HIDDEN, int OUT, int THREADS>
__device__ __forceinline__ void load_second(const float* w2, const float* b2, float (&second)[OUT][HIDDEN],
    float (&bias2)[OUT]) {
    if (threadIdx.x < OUT) bias2[threadIdx.x] = b2[threadIdx.x];
    for (int k = threadIdx.x; k < OUT * HIDDEN; k += THREADS) second[k / HIDDEN][k % HIDDEN] = w2[k];
}

// Stores a sample's row of g: the gradient by z, and zeros.
template <int HIDDEN, int OUT>
__device__ __forceinline__ void store_g(float* g, int sample, const float (&back)[Chain<HIDDEN, OUT>::WIDTH]) {
    using C = Chain<HIDDEN, OUT>;
    float4* const to = reinterpret_cast<float4*>(g + static_cast<long long>(sample) * C::PITCH);
    const auto number = [&](int k) { return k < C::WIDTH ? back[k] : 0.0f; };
#pragma unroll
    for (int i = 0; i < C::PITCH; i += 4)
        to[i / 4] = make_float4(number(i), number(i + 1), number(i + 2), number(i + 3));
}

// Stores a sample's numbers for the sums over a block, COLUMN floats apart: the gradients by z and logits, and h.
template <int HIDDEN, int OUT, int COLUMN>
__device__ __forceinline__ void store_columns(float* column, const float (&z)[Chain<HIDDEN, OUT>::WIDTH],
    const float (&out)[OUT], const float (&back)[Chain<HIDDEN, OUT>::WIDTH], bool there) {
    constexpr int WIDTH = Chain<HIDDEN, OUT>::WIDTH;
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) column[i * COLUMN] = back[i];
    if constexpr (HIDDEN > 0) {
#pragma unroll
        for (int o = 0; o < OUT; ++o) column[(WIDTH + o) * COLUMN] = out[o];
#pragma unroll
        for (int i = 0; i < HIDDEN; ++i) column[(WIDTH + OUT + i) * COLUMN] = there ? relu(z[i]) : 0.0f;
    }
}

// Stores the sums of the warps' losses and hits in the block's row; by one thread.
template <int WARPS>
__device__ __forceinline__ void store_block_log(const double (&losses)[WARPS], const int (&hit)[WARPS], double* lost,
    int* hits) {
    double loss = 0.0;
    int count = 0;
    for (int warp = 0; warp < WARPS; ++warp) loss += losses[warp], count += hit[warp];
    lost[blockIdx.x] = loss, hits[blockIdx.x] = count;
}
