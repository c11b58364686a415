// What a thread of a thin chain's forward pass does with one sample, once it has the first layer's outputs: the rest of
// the net, its loss, and back.
#pragma once
#include "nan.cuh"
#include "softmax.cuh"
#include "thin_chain.cuh"

// What a sample leaves in the log.
struct Verdict {
    float loss;
    bool right;  // its largest logit is its label's
};

// z: the first layer's outputs. second, bias2: the second layer, where there is one. out: the logits' gradient, `mean`
// times that of the sample's loss. Zeros where the sample is not there; the verdict is also zero without has_loss.
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

// out, the logits' gradient, through the second layer and ReLU to z's; one layer's logits are z.
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
