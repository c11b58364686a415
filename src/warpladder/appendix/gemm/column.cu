// C (m, n) = A (m, k) B (k, n), row by row in memory. A block of 512 threads makes 64 x 64 numbers of C, a thread 8
// below each other. A number of B is read from shared memory once and used for 8 numbers of C, from a register: 8 FMA
// for nine loads.
constexpr int TILE = 64, DEPTH = 8, ROWS = 8;

extern "C" __global__ void __launch_bounds__(512)
sgemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
    __shared__ float tile_a[TILE][DEPTH], tile_b[DEPTH][TILE];
    const int top = blockIdx.y * TILE, left = blockIdx.x * TILE;
    const int column = threadIdx.x % TILE, rows = threadIdx.x / TILE * ROWS;  // of this thread's numbers in the tile
    // of the number of A, and of B, that it brings
    const int row_a = threadIdx.x / DEPTH, k_a = threadIdx.x % DEPTH;
    const int k_b = threadIdx.x / TILE, column_b = threadIdx.x % TILE;
    float sum[ROWS] = {};
    for (int first = 0; first < k; first += DEPTH) {
        tile_a[row_a][k_a] = top + row_a < m && first + k_a < k ? a[(long long)(top + row_a) * k + first + k_a] : 0.0f;
        tile_b[k_b][column_b] = first + k_b < k && left + column_b < n
            ? b[(long long)(first + k_b) * n + left + column_b] : 0.0f;
        __syncthreads();
        for (int i = 0; i < DEPTH; ++i) {
            const float with = tile_b[i][column];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) sum[r] += tile_a[rows + r][i] * with;
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
        if (top + rows + r < m && left + column < n) c[(long long)(top + rows + r) * n + left + column] = sum[r];
}
