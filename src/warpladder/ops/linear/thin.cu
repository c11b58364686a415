// Linear layer with few outputs (10 classes): no tile fits, and x must be read once, in wide loads, by enough threads.
//
// x, dx: (n, inputs). w, dw: (OUT, inputs). b, db: (OUT,). y, dy: (n, OUT).
#include "four.cuh"
#include "nan.cuh"
#include "warp.cuh"

// y[n, o] = b[o] + sum over i of x[n, i] w[o, i], then max(., 0) if fused_relu is 1. WARPS warps share ROWS samples and
// take turns at the inputs, four or one (WIDE 0) at a time; blockDim.x is a multiple of 32 WARPS.
template <int OUT, int ROWS, int WARPS, int WIDE>
__global__ void __launch_bounds__(256, 2) thin_forward(const float* __restrict__ x, const float* __restrict__ w,
    const float* __restrict__ b, float* __restrict__ y, int n, int inputs, int fused_relu) {
    __shared__ float shared[8 * ROWS * OUT];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = (blockIdx.x * (blockDim.x / (32 * WARPS)) + warp / WARPS) * ROWS;
    constexpr int STEP = WIDE ? 4 : 1;
    float sum[ROWS * OUT];
#pragma unroll
    for (int i = 0; i < ROWS * OUT; ++i) sum[i] = 0.0f;
    const float* from[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) from[r] = x + static_cast<long long>(min(row + r, n - 1)) * inputs;
    for (int i = (warp % WARPS * 32 + lane) * STEP; i < inputs; i += WARPS * 32 * STEP) {
        if constexpr (WIDE) {
            float4 some[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) some[r] = *reinterpret_cast<const float4*>(from[r] + i);
#pragma unroll
            for (int o = 0; o < OUT; ++o) {
                const float4 weight = *reinterpret_cast<const float4*>(w + o * inputs + i);
#pragma unroll
                for (int r = 0; r < ROWS; ++r) {
                    float& s = sum[r * OUT + o];
                    s = fmaf(some[r].w, weight.w,
                        fmaf(some[r].z, weight.z, fmaf(some[r].y, weight.y, fmaf(some[r].x, weight.x, s))));
                }
            }
        } else {
            float some[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) some[r] = from[r][i];
#pragma unroll
            for (int o = 0; o < OUT; ++o) {
                const float weight = w[o * inputs + i];
#pragma unroll
                for (int r = 0; r < ROWS; ++r) sum[r * OUT + o] = fmaf(some[r], weight, sum[r * OUT + o]);
            }
        }
    }
    Share share = {0, ROWS * OUT};
    warp_sums<ROWS * OUT>(sum, share);
#pragma unroll
    for (int i = 0; i < left_of(ROWS * OUT); ++i)
        if (i < share.count) shared[warp * ROWS * OUT + share.first + i] = sum[i];
    if (WARPS > 1) __syncthreads();
    else __syncwarp();
    for (int i = warp % WARPS * 32 + lane; i < ROWS * OUT; i += WARPS * 32) {
        float total = shared[warp / WARPS * WARPS * ROWS * OUT + i];
#pragma unroll
        for (int v = 1; v < WARPS; ++v) total += shared[(warp / WARPS * WARPS + v) * ROWS * OUT + i];
        const int r = i / OUT, o = i % OUT;
        if (row + r >= n) continue;
        total += b[o];
        y[static_cast<long long>(row + r) * OUT + o] = fused_relu ? relu(total) : total;
    }
}

constexpr int CHUNK = 128;  // samples whose dy stands in shared memory

// dw[o, i] = sum over n of g[n, o] x[n, i], db[o] = sum of g[n, o]; g is dy, or 0 where y (null without a ReLU) is not
// above 0. A block has 32 STEP inputs, STEP 4 or 1 (WIDE 0), and partial blockIdx.y of the samples, which its WARPS
// warps take in turn. part: (partials, OUT * inputs + OUT), dw and then db of each partial; null with one partial.
template <int OUT, int WARPS, int WIDE>
__global__ void __launch_bounds__(32 * WARPS) thin_weight_gradient(
    const float* __restrict__ x, const float* __restrict__ dy, const float* __restrict__ y, float* __restrict__ part,
    float* __restrict__ dw, float* __restrict__ db, int n, int inputs, int partial
) {
    constexpr int STEP = WIDE ? 4 : 1, PITCH = (OUT + 3) / 4 * 4;
    // outputs that are added up at a time
    constexpr int ROUND = 8192 / (WARPS * 32 * STEP) < OUT ? 8192 / (WARPS * 32 * STEP) : OUT;
    __shared__ float4 memory[8192 / 4];
    float* shared = reinterpret_cast<float*>(memory);
    static_assert(CHUNK * PITCH <= 8192, "dy fits");
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int i = (blockIdx.x * 32 + lane) * STEP;
    const int begin = blockIdx.y * partial, end = min(n, begin + partial);
    float sum[OUT][STEP], bias = 0.0f;
#pragma unroll
    for (int o = 0; o < OUT; ++o)
#pragma unroll
        for (int e = 0; e < STEP; ++e) sum[o][e] = 0.0f;
    for (int chunk = begin; chunk < end; chunk += CHUNK) {
        const int count = min(CHUNK, end - chunk);
        __syncthreads();
        for (int t = threadIdx.x; t < count * OUT; t += 32 * WARPS) {
            const long long at = static_cast<long long>(chunk) * OUT + t;
            shared[t / OUT * PITCH + t % OUT] = y == nullptr || y[at] > 0.0f ? dy[at] : 0.0f;
        }
        __syncthreads();
#pragma unroll 4
        for (int s = warp; s < count; s += WARPS) {
            const float* from = x + static_cast<long long>(chunk + s) * inputs + i;
            const float4 some = load_four(from, min(STEP, inputs - i), WIDE);
            const float each[4] = {some.x, some.y, some.z, some.w};
            const float* g = shared + s * PITCH;
            if (lane < OUT) bias += g[lane];
#pragma unroll
            for (int o = 0; o < OUT; ++o)
#pragma unroll
                for (int e = 0; e < STEP; ++e) sum[o][e] = fmaf(g[o], each[e], sum[o][e]);
        }
    }
    const long long weights = static_cast<long long>(OUT) * inputs;
    float* to_w = part == nullptr ? dw : part + blockIdx.y * (weights + OUT);
    float* to_b = part == nullptr ? db : to_w + weights;
#pragma unroll
    for (int o0 = 0; o0 < OUT; o0 += ROUND) {
        __syncthreads();
#pragma unroll
        for (int o = o0; o < o0 + ROUND && o < OUT; ++o)
#pragma unroll
            for (int e = 0; e < STEP; ++e) shared[(warp * ROUND + o - o0) * 32 * STEP + lane * STEP + e] = sum[o][e];
        __syncthreads();
        for (int t = threadIdx.x; t < min(ROUND, OUT - o0) * 32 * STEP; t += 32 * WARPS) {
            const int o = o0 + t / (32 * STEP), column = blockIdx.x * 32 * STEP + t % (32 * STEP);
            float total = shared[t];
            for (int v = 1; v < WARPS; ++v) total += shared[v * ROUND * 32 * STEP + t];
            if (column < inputs) to_w[static_cast<long long>(o) * inputs + column] = total;
        }
    }
    if (blockIdx.x > 0) return;
    __syncthreads();
    if (lane < OUT) shared[warp * OUT + lane] = bias;
    __syncthreads();
    if (threadIdx.x >= OUT) return;
    for (int v = 1; v < WARPS; ++v) bias += shared[v * OUT + threadIdx.x];
    to_b[threadIdx.x] = bias;
}

// dx[n, i] = sum over o of g[n, o] w[o, i], g as above. A thread for every four inputs (one with WIDE 0) of a sample.
template <int OUT, int WIDE>
__global__ void __launch_bounds__(256) thin_input_gradient(const float* __restrict__ dy, const float* __restrict__ y,
    const float* __restrict__ w, float* __restrict__ dx, int n, int inputs) {
    constexpr int STEP = WIDE ? 4 : 1;
    const int across = (inputs + STEP - 1) / STEP;
    const long long index = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= static_cast<long long>(n) * across) return;
    const int sample = index / across, i = index % across * STEP;
    const long long first = static_cast<long long>(sample) * OUT;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int o = 0; o < OUT; ++o) {
        const float g = y == nullptr || y[first + o] > 0.0f ? dy[first + o] : 0.0f;
        const float4 weight = load_four(w + o * inputs + i, STEP, WIDE);
        sum = make_float4(fmaf(g, weight.x, sum.x), fmaf(g, weight.y, sum.y), fmaf(g, weight.z, sum.z),
            fmaf(g, weight.w, sum.w));
    }
    store_four(dx + static_cast<long long>(sample) * inputs + i, sum, STEP, WIDE);
}
