// Losses at the end of a small chain: warp s has sample s of the block. The gradient by what entered the last layer's
// functions takes the place of the outputs (S rows of OUT at `outputs`), and goes to g (n, 4 * quads(OUT)).
//
// lost, hits (n,): the samples' losses, times their shares if WEIGHTED, and 1 where the largest logit is the label's;
// not written if null. shares (S,): of the samples in the batch's mean.
#pragma once
#include "../loss/loss.cuh"
#include "layers.cuh"
#include "softmax.cuh"

// Stores number o of the gradient by a sample's output, which is 0 for a sample or an output that is not there.
template <int OUT, int BACK>
__device__ __forceinline__ void store_gradient(float gradient, float* here, int slopes, int o, float* __restrict__ g,
    Samples mine) {
    const int s = threadIdx.x / 32;
    const bool present = s < mine.count;
    const float* const slope = shared_floats() + slopes + s * padded(OUT) + o;
    const float d = o < OUT && present ? before<BACK>(gradient, here[o], slope) : 0.0f;
    here[o] = d;
    if (present) g[static_cast<long long>(mine.begin + s) * padded(OUT) + o] = d;
}

// Cross-entropy of logits. `weights`: rows with the classes' weights; without them, if below 0, the loss is plain.
template <int OUT, int S, int BACK, bool PLAIN, bool WEIGHTED>
__device__ void label_loss(int outputs, int slopes, int weights, float smoothing, const int* labels,
    const float* shares, float* __restrict__ g, double* __restrict__ lost, int* __restrict__ hits, Samples mine) {
    static_assert(S <= WARPS, "a warp for each sample");
    constexpr int N = (OUT + 31) / 32;  // classes of a lane
    const int lane = threadIdx.x % 32, s = threadIdx.x / 32;
    if (s < S) {
        float* const here = shared_floats() + outputs + s * padded(OUT);
        const int wanted = labels[s];
        const float wanted_logit = here[wanted];
        float logit[N], target[N];
#pragma unroll
        for (int k = 0; k < N; ++k) {
            const int c = lane + 32 * k;
            logit[k] = c < OUT ? here[c] : __uint_as_float(0xFF800000u);  // minus infinity: no chance
            target[k] = c == wanted ? 1.0f : 0.0f;
        }
        const Softmax soft = softmax_of_lanes<OUT <= 16 ? 16 : 32>(logit);
        __syncwarp();  // before another lane overwrites the label's logit
        float every = 1.0f, loss = surprise(soft, wanted_logit);
        if constexpr (!PLAIN) {
            every = loss = 0.0f;
#pragma unroll
            for (int k = 0; k < N; ++k) {
                const int c = lane + 32 * k;
                if (c >= OUT) continue;
                const float weight = shared_floats()[weights + s * padded(OUT) + c];
                target[k] = class_target(weight, smoothing, OUT, c == wanted);
                every += target[k];
                loss += target[k] * (soft.largest - logit[k]);
            }
            every = warp_sum(every);
            loss = warp_sum(loss) + every * logf(soft.total);
        }
        const float share = shares[s], factor = every * (1.0f / soft.total);
#pragma unroll
        for (int k = 0; k < N; ++k) {
            const int c = lane + 32 * k;
            if (c >= padded(OUT)) continue;
            const float gradient = (expf(logit[k] - soft.largest) * factor - target[k]) * share;
            store_gradient<OUT, BACK>(gradient, here, slopes, c, g, mine);
        }
        if (lane == 0 && lost != nullptr && s < mine.count) {
            lost[mine.begin + s] = static_cast<double>(WEIGHTED ? share : 1.0f) * loss;
            hits[mine.begin + s] = soft.best == wanted;
        }
    }
    __syncthreads();
}

// Mean over a sample's outputs of a loss by element. `targets`, `settings`: rows of OUT; the second only if the loss
// HAS_SETTING.
template <int FUNCTION, int OUT, int S, int BACK, bool WEIGHTED>
__device__ void element_loss(int outputs, int slopes, int targets, int settings, const float* shares,
    float* __restrict__ g, double* __restrict__ lost, int* __restrict__ hits, Samples mine) {
    static_assert(S <= WARPS, "a warp for each sample");
    const int lane = threadIdx.x % 32, s = threadIdx.x / 32;
    if (s < S) {
        float *const rows = shared_floats() + s * padded(OUT), *const here = rows + outputs;
        const float share = shares[s];
        double loss = 0.0;
#pragma unroll 2
        for (int o = lane; o < padded(OUT); o += 32) {
            const float x = here[o], t = rows[targets + o], setting = HAS_SETTING<FUNCTION> ? rows[settings + o] : 1.0f;
            if (o < OUT && lost != nullptr) loss += element_value<FUNCTION>(x, t, setting);
            const float gradient = element_slope<FUNCTION>(x, t, setting) * (share / OUT);
            store_gradient<OUT, BACK>(gradient, here, slopes, o, g, mine);
        }
        if (lost != nullptr) loss = warp_sum(loss);
        if (lane == 0 && lost != nullptr && s < mine.count) {
            lost[mine.begin + s] = static_cast<double>(WEIGHTED ? share : 1.0f) / OUT * loss;
            hits[mine.begin + s] = 0;
        }
    }
    __syncthreads();
}
