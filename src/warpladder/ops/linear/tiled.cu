// Matrix products by square tiles in shared memory, for linear layers: C = A B with A (m, k) and B (k, n), each stored
// either way, so that A B, A^T B and A B^T need no transposed copies.
// instance: multiply<8, true, true>; multiply<8, true, false>; multiply<8, false, false>; multiply<16, true, true>
// instance: multiply<16, true, false>; multiply<16, false, false>; multiply<32, true, true>; multiply<32, true, false>
// instance: multiply<32, false, false>
#include "nan.cuh"

constexpr int DEPTH = 32;         // terms of the sums that a block takes at a time
constexpr int PITCH = DEPTH + 4;  // eight rows that are read 16 bytes at a time fall into different banks

// tile[r][t] = number (first + r, k0 + t) of a matrix (rows, k) for t < DEPTH and k0 + t < k1, zeros elsewhere. ALONG:
// stored as (rows, k), otherwise as (k, rows); neighbouring threads read neighbours in both cases. relu_mask: null, or
// a mask of the matrix: numbers are 0 where it is not above 0. Row `ones`, if there is one, is all 1.
template <int SIDE, bool ALONG>
__device__ __forceinline__ void stage(float (*tile)[PITCH], const float* matrix, const float* relu_mask, int rows,
    int k,
    int first, int k0, int k1, int ones) {
    constexpr int EACH = SIDE < DEPTH ? DEPTH / SIDE : 1;
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
        const int number = e * SIDE * SIDE + threadIdx.x;
        const int r = ALONG ? number / DEPTH : number % SIDE, t = ALONG ? number % DEPTH : number / SIDE;
        const int row = first + r, term = k0 + t;
        float value = row == ones ? 1.0f : 0.0f;
        if (row < rows && term < k1) {
            const long long at = ALONG ? static_cast<long long>(row) * k + term
                : static_cast<long long>(term) * rows + row;
            value = relu_mask == nullptr || relu_mask[at] > 0.0f ? matrix[at] : 0.0f;
        }
        tile[r][t] = term < k1 ? value : 0.0f;
    }
}

// c[i, j] = sum over t of A(i, t) B(t, j), i < m, j < n, t < k; + bias[j] unless null, then ReLU if `fused_relu` is 1.
// A_ALONG: a is (m, k), otherwise (k, m). B_ALONG: b is (n, k), otherwise (k, n). relu_mask masks a (`stage`).
//
// `extra`, unless null, is column n of c, the product with a column of 1: the sums of a's rows, which are a bias's
// gradient.
//
// Blocks of SIDE * SIDE threads, one number of c each. Along x the tiles, n first; along y the sum is split into parts
// of `depth` terms, a multiple of DEPTH: part p goes to c + p * spacing and extra + p * spacing. A thread reads 16
// bytes of each tile for four multiply-adds: half a load for each.
template <int SIDE, bool A_ALONG, bool B_ALONG>
__global__ void __launch_bounds__(SIDE * SIDE) multiply(
    const float* __restrict__ a, const float* __restrict__ relu_mask, const float* __restrict__ b,
    const float* __restrict__ bias, float* __restrict__ c, float* __restrict__ extra, long long spacing, int m, int n,
    int k, int depth, int fused_relu
) {
    static_assert(SIDE <= DEPTH && DEPTH % SIDE == 0, "each thread copies as many numbers as any other");
    __shared__ __align__(16) float tile_a[SIDE][PITCH];
    __shared__ __align__(16) float tile_b[SIDE][PITCH];
    const int columns = extra != nullptr ? n + 1 : n, across = (columns + SIDE - 1) / SIDE;
    const int top = blockIdx.x / across * SIDE, left = blockIdx.x % across * SIDE;
    const int first = blockIdx.y * depth, last = k - first < depth ? k : first + depth;
    const int r = threadIdx.x / SIDE, s = threadIdx.x % SIDE;

    // four chains: while one waits for its addition, the others continue
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int t = first; t < last; t += DEPTH) {
        stage<SIDE, A_ALONG>(tile_a, a, relu_mask, m, k, top, t, last, -1);
        stage<SIDE, B_ALONG>(tile_b, b, nullptr, n, k, left, t, last, extra != nullptr ? n : -1);
        __syncthreads();
#pragma unroll
        for (int four = 0; four < DEPTH; four += 4) {
            const float4 of_a = *reinterpret_cast<const float4*>(&tile_a[r][four]);
            const float4 of_b = *reinterpret_cast<const float4*>(&tile_b[s][four]);
            sum.x = fmaf(of_a.x, of_b.x, sum.x);
            sum.y = fmaf(of_a.y, of_b.y, sum.y);
            sum.z = fmaf(of_a.z, of_b.z, sum.z);
            sum.w = fmaf(of_a.w, of_b.w, sum.w);
        }
        __syncthreads();
    }

    const int i = top + r, j = left + s;
    if (i >= m || j >= columns) return;
    float value = (sum.x + sum.y) + (sum.z + sum.w);
    if (j == n) {
        extra[blockIdx.y * spacing + i] = value;
        return;
    }
    if (bias != nullptr) value += bias[j];
    c[blockIdx.y * spacing + static_cast<long long>(i) * n + j] = fused_relu ? relu(value) : value;
}
