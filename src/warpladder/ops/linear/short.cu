// The weight gradient of a linear layer for a short batch: the sums are too short for a pipeline of tiles, and what counts is that
// ReLU and the bias's gradient need no launches of their own.
#include "four.cuh"

constexpr int OUTPUTS = 32, INPUTS = 64, SAMPLES = 64;  // of a block; and that it takes at a time
constexpr int PITCH_G = OUTPUTS + 4, PITCH_X = INPUTS + 4;
constexpr int THREADS = 256;

// dw[o, i] = sum over n of g[n, o] x[n, i], db[o] = sum of g[n, o], where g is dy, or 0 where y (null without a ReLU) is not above 0.
// x: (n, inputs). dy, y: (n, outputs). Block (32 outputs, 64 inputs); a thread has 2 x 4 numbers of dw, in the order of samples.
extern "C" __global__ void __launch_bounds__(THREADS) short_weight_gradient(
    const float* __restrict__ x, const float* __restrict__ dy, const float* __restrict__ y, float* __restrict__ dw, float* __restrict__ db,
    int n, int inputs, int outputs
) {
    __shared__ float4 memory[SAMPLES * (PITCH_G + PITCH_X) / 4];
    float *g = reinterpret_cast<float*>(memory), *some = g + SAMPLES * PITCH_G;
    const int o0 = blockIdx.x * OUTPUTS, i0 = blockIdx.y * INPUTS;
    const int row = threadIdx.x / (INPUTS / 4) * 2, column = threadIdx.x % (INPUTS / 4) * 4;
    const bool wide_g = outputs % 4 == 0, wide_x = inputs % 4 == 0;
    float4 sum[2] = {make_float4(0.0f, 0.0f, 0.0f, 0.0f), make_float4(0.0f, 0.0f, 0.0f, 0.0f)};
    float bias = 0.0f;
    for (int first = 0; first < n; first += SAMPLES) {
        const int count = min(SAMPLES, n - first);
        __syncthreads();
#pragma unroll
        for (int t = threadIdx.x; t < SAMPLES * OUTPUTS / 4; t += THREADS) {
            const int sample = t / (OUTPUTS / 4), o = t % (OUTPUTS / 4) * 4, left = sample < count ? outputs - o0 - o : 0;
            const long long at = static_cast<long long>(first + sample) * outputs + o0 + o;
            float4 value = load_four(dy + at, left, wide_g);
            if (y != nullptr) {
                const float4 mask = load_four(y + at, left, wide_g);
                value = make_float4(
                    mask.x > 0.0f ? value.x : 0.0f, mask.y > 0.0f ? value.y : 0.0f, mask.z > 0.0f ? value.z : 0.0f,
                    mask.w > 0.0f ? value.w : 0.0f
                );
            }
            *reinterpret_cast<float4*>(g + sample * PITCH_G + o) = value;
        }
#pragma unroll
        for (int t = threadIdx.x; t < SAMPLES * INPUTS / 4; t += THREADS) {
            const int sample = t / (INPUTS / 4), i = t % (INPUTS / 4) * 4;
            const long long at = static_cast<long long>(first + sample) * inputs + i0 + i;
            const float4 value = load_four(x + at, sample < count ? inputs - i0 - i : 0, wide_x);
            *reinterpret_cast<float4*>(some + sample * PITCH_X + i) = value;
        }
        __syncthreads();
#pragma unroll 8
        for (int s = 0; s < count; ++s) {
            const float2 left = *reinterpret_cast<const float2*>(g + s * PITCH_G + row);
            const float4 right = *reinterpret_cast<const float4*>(some + s * PITCH_X + column);
            const float each[2] = {left.x, left.y};
#pragma unroll
            for (int r = 0; r < 2; ++r)
                sum[r] = make_float4(
                    fmaf(each[r], right.x, sum[r].x), fmaf(each[r], right.y, sum[r].y), fmaf(each[r], right.z, sum[r].z),
                    fmaf(each[r], right.w, sum[r].w)
                );
        }
        if (blockIdx.y == 0)
            for (int s = threadIdx.x / OUTPUTS; s < count; s += THREADS / OUTPUTS) bias += g[s * PITCH_G + threadIdx.x % OUTPUTS];
    }
#pragma unroll
    for (int r = 0; r < 2; ++r)
        if (o0 + row + r < outputs)
            store_four(dw + static_cast<long long>(o0 + row + r) * inputs + i0 + column, sum[r], inputs - i0 - column, wide_x);
    if (blockIdx.y > 0) return;
    __syncthreads();
    g[threadIdx.x] = bias;
    __syncthreads();
    if (threadIdx.x >= OUTPUTS || o0 + static_cast<int>(threadIdx.x) >= outputs) return;
    for (int t = OUTPUTS; t < THREADS; t += OUTPUTS) bias += g[threadIdx.x + t];
    db[o0 + threadIdx.x] = bias;
}
