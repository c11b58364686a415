// C (m, n) = A (m, k) B (k, n), row by row in memory. A block of 32 x 32 threads makes 32 x 32 numbers of C, one each.
// 32 x 32 numbers of A and of B come to shared memory at a time, and each is used 32 times: memory is read a 32nd as
// often. But still one FMA for two loads, now from shared memory.
constexpr int TILE = 32;

extern "C" __global__ void sgemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m,
    int n, int k) {
    __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
    const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int first = 0; first < k; first += TILE) {
        const int ka = first + threadIdx.x, kb = first + threadIdx.y;
        tile_a[threadIdx.y][threadIdx.x] = row < m && ka < k ? a[(long long)row * k + ka] : 0.0f;
        tile_b[threadIdx.y][threadIdx.x] = kb < k && column < n ? b[(long long)kb * n + column] : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
        __syncthreads();  // before the tiles are written again
    }
    if (row < m && column < n) c[(long long)row * n + column] = sum;
}
