// C (m, n) = A (m, k) B (k, n), row by row in memory. A block of 256 threads makes 128 x 128 numbers of C, a thread 8 x
// 8. Eight numbers of A and eight of B are read from shared memory for 64 FMA: four FMA for a load, as many as a
// multiprocessor can do meanwhile.
constexpr int TILE = 128, DEPTH = 8, SIDE = 8, THREADS = 256;

extern "C" __global__ void __launch_bounds__(THREADS)
sgemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
    // one more, so that rows of A begin in different banks
    __shared__ float tile_a[TILE][DEPTH + 1], tile_b[DEPTH][TILE];
    const int top = blockIdx.y * TILE, left = blockIdx.x * TILE;
    // columns are 16 numbers from each other: neighbours read neighbours
    const int rows = threadIdx.x / 16 * SIDE, column = threadIdx.x % 16;
    float sum[SIDE][SIDE] = {};
    for (int first = 0; first < k; first += DEPTH) {
        for (int i = threadIdx.x; i < TILE * DEPTH; i += THREADS) {
            const int row = i / DEPTH, ka = i % DEPTH, kb = i / TILE, at = i % TILE;
            tile_a[row][ka] = top + row < m && first + ka < k ? a[(long long)(top + row) * k + first + ka] : 0.0f;
            tile_b[kb][at] = first + kb < k && left + at < n ? b[(long long)(first + kb) * n + left + at] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < DEPTH; ++i) {
            float of_a[SIDE], of_b[SIDE];
#pragma unroll
            for (int r = 0; r < SIDE; ++r) {
                of_a[r] = tile_a[rows + r][i];
                of_b[r] = tile_b[i][column + 16 * r];
            }
#pragma unroll
            for (int r = 0; r < SIDE; ++r)
#pragma unroll
                for (int s = 0; s < SIDE; ++s) sum[r][s] += of_a[r] * of_b[s];
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < SIDE; ++r)
#pragma unroll
        for (int s = 0; s < SIDE; ++s)
            if (top + rows + r < m && left + column + 16 * s < n)
                c[(long long)(top + rows + r) * n + left + column + 16 * s] = sum[r][s];
}
