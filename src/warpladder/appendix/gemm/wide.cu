// C (m, n) = A (m, k) B (k, n), row by row in memory; k and n are multiples of 4. A block of 256 threads makes 128 x
// 128 numbers of C, a thread 8 x 8. Four numbers are moved at a time, and A is transposed in shared memory, so that a
// thread's rows are neighbours: 64 FMA for four loads.
constexpr int TILE = 128, DEPTH = 8, SIDE = 8, THREADS = 256;

__device__ inline float4 four(const float* from, bool inside) {
    return inside ? *reinterpret_cast<const float4*>(from) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

extern "C" __global__ void __launch_bounds__(THREADS)
sgemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
    __shared__ __align__(16) float tile_a[DEPTH][TILE + 4], tile_b[DEPTH][TILE];
    const int top = blockIdx.y * TILE, left = blockIdx.x * TILE;
    // and as many 64 further on: four neighbours each
    const int rows = threadIdx.x / 16 * 4, columns = threadIdx.x % 16 * 4;
    const int row_a = threadIdx.x / 2, k_a = threadIdx.x % 2 * 4;
    const int k_b = threadIdx.x / 32, column_b = threadIdx.x % 32 * 4;
    float sum[SIDE][SIDE] = {};
    for (int first = 0; first < k; first += DEPTH) {
        const float4 from_a = four(a + (long long)(top + row_a) * k + first + k_a, top + row_a < m && first + k_a < k);
        tile_a[k_a][row_a] = from_a.x;
        tile_a[k_a + 1][row_a] = from_a.y;
        tile_a[k_a + 2][row_a] = from_a.z;
        tile_a[k_a + 3][row_a] = from_a.w;
        *reinterpret_cast<float4*>(&tile_b[k_b][column_b]) =
            four(b + (long long)(first + k_b) * n + left + column_b, first + k_b < k && left + column_b < n);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < DEPTH; ++i) {
            float of_a[SIDE], of_b[SIDE];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                *reinterpret_cast<float4*>(of_a + 4 * half)
                    = *reinterpret_cast<const float4*>(&tile_a[i][rows + 64 * half]);
                *reinterpret_cast<float4*>(of_b + 4 * half)
                    = *reinterpret_cast<const float4*>(&tile_b[i][columns + 64 * half]);
            }
#pragma unroll
            for (int r = 0; r < SIDE; ++r)
#pragma unroll
                for (int s = 0; s < SIDE; ++s) sum[r][s] += of_a[r] * of_b[s];
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < SIDE; ++r) {
        const int row = top + rows + r % 4 + r / 4 * 64;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int column = left + columns + 64 * half;
            const float4 out = make_float4(sum[r][4 * half], sum[r][4 * half + 1], sum[r][4 * half + 2],
                sum[r][4 * half + 3]);
            if (row < m && column < n) *reinterpret_cast<float4*>(c + (long long)row * n + column) = out;
        }
    }
}
