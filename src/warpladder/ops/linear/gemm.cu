// Matrix products for linear layers, by tiles: C = A B, with A (m, k) and B (k, n) stored either way.
#include "four.cuh"
#include "gemm_panels.cuh"
#include "nan.cuh"

// Layout of a panel in memory: along k, or across it; across, one or four numbers are copied at a time.
enum { ALONG = 0, ACROSS = 1, ACROSS_BY_4 = 4 };

template <class T, int X, int HOW>
struct PanelOf {
    using Type = AcrossPanel<T, X, HOW>;
};
template <class T, int X>
struct PanelOf<T, X, ALONG> {
    using Type = AlongPanel<T, X>;
};

// c (m, n) = A B, + bias (n) unless null, then max(., 0) if fused_relu is 1. HOW_A: ALONG for a (m, k), ACROSS for a
// (k, m). HOW_B: ACROSS for b (k, n), ALONG for b (n, k). Tiles are numbered along x, n first. Along y the sum is split
// into parts of `depth` terms, a multiple of BK: part p writes c + p m n, and `add_parts` finishes.
template <int BM, int BN, int BK, int TM, int TN, int STAGES, int HOW_A, int HOW_B>
__global__ void __launch_bounds__(Tile<BM, BN, BK, TM, TN, STAGES>::THREADS, Tile<BM, BN, BK, TM, TN, STAGES>::BLOCKS)
gemm(const float* __restrict__ a, const float* __restrict__ b, const float* __restrict__ bias, float* __restrict__ c,
    int m, int n, int k, int depth, int fused_relu) {
    using T = Tile<BM, BN, BK, TM, TN, STAGES>;
    extern __shared__ float4 shared4[];
    float* shared = reinterpret_cast<float*>(shared4);
    const int tiles_n = (n + BN - 1) / BN;
    const int m0 = blockIdx.x / tiles_n * BM, n0 = blockIdx.x % tiles_n * BN;
    const int k0 = blockIdx.y * depth, k1 = min(k, k0 + depth);
    using A = typename PanelOf<T, BM, HOW_A>::Type;
    using B = typename PanelOf<T, BN, HOW_B>::Type;
    Panels<A, B> source{A(a, HOW_A == ALONG ? k : m, k0, k1, m0, m), B(b, HOW_B == ALONG ? k : n, k0, k1, n0, n)};

    const Place<T> at;
    float sum[TM][TN];
    multiply<T>(sum, source, (k1 - k0 + BK - 1) / BK, shared, at);

    c += static_cast<long long>(blockIdx.y) * m * n;
    const bool wide = n % 4 == 0;  // then every row of c begins on a boundary of 16 bytes
#pragma unroll
    for (int j = 0; j < TN / 4; ++j) {
        const int column = n0 + at.column(j);
        const float4 add = bias != nullptr ? load_four(bias + column, n - column, true)
            : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int i = 0; i < TM; ++i) {
            const int row = m0 + at.row(i / 4) + i % 4;
            float4 out = make_float4(sum[i][4 * j], sum[i][4 * j + 1], sum[i][4 * j + 2], sum[i][4 * j + 3]) + add;
            if (fused_relu) out = make_float4(relu(out.x), relu(out.y), relu(out.z), relu(out.w));
            if (row < m) store_four(c + static_cast<long long>(row) * n + column, out, n - column, wide);
        }
    }
}

// c (m, n) = the sum of `parts` matrices, in order; + bias (n) unless null, then max(., 0) if fused_relu is 1.
extern "C" __global__ void add_parts(const float* __restrict__ part, const float* __restrict__ bias,
    float* __restrict__ c, int parts, int size, int n, int fused_relu) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    float sum = part[i];
#pragma unroll 8
    for (int p = 1; p < parts; ++p) sum += part[static_cast<long long>(p) * size + i];
    if (bias != nullptr) sum += bias[i % n];
    c[i] = fused_relu ? relu(sum) : sum;
}

constexpr int THREADS = 256;

// Sets dy (n, outputs) to 0 where y, unless null, is not above 0. db_part: (partials, outputs), its sums over partials
// of `partial` samples. A block has 32 outputs and partial blockIdx.y, whose samples its 8 warps take in turn.
extern "C" __global__ void apply_relu_mask(float* __restrict__ dy, const float* __restrict__ y,
    float* __restrict__ db_part, int n, int outputs, int partial) {
    __shared__ float sums[THREADS];
    const int output = blockIdx.x * 32 + threadIdx.x % 32, end = min(n, static_cast<int>(blockIdx.y + 1) * partial);
    float sum = 0.0f;
    if (output < outputs) {
#pragma unroll 4
        for (int sample = blockIdx.y * partial + threadIdx.x / 32; sample < end; sample += THREADS / 32) {
            const long long at = static_cast<long long>(sample) * outputs + output;
            float g = dy[at];
            if (y != nullptr) dy[at] = g = y[at] > 0.0f ? g : 0.0f;
            sum += g;
        }
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x >= 32 || output >= outputs) return;
    for (int t = 32; t < THREADS; t += 32) sum += sums[threadIdx.x + t];
    db_part[blockIdx.y * outputs + output] = sum;
}

// c (size,) = the sum of `parts` arrays, p * stride apart, in order; d (more,) likewise = the sum of `others` arrays
// from `other` on, more_stride apart: dw and db in one launch.
extern "C" __global__ void add_gradient_parts(
    const float* __restrict__ part, float* __restrict__ c, int parts, int size, int stride,
    const float* __restrict__ other, float* __restrict__ d, int others, int more, int more_stride
) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size + more) return;
    const bool second = i >= size;
    const float* from = second ? other + (i - size) : part + i;
    const int count = second ? others : parts;
    const long long spacing = second ? more_stride : stride;
    float sum = from[0];
#pragma unroll 8
    for (int p = 1; p < count; ++p) sum += from[p * spacing];
    (second ? d + (i - size) : c + i)[0] = sum;
}
