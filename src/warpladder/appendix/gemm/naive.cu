// C (m, n) = A (m, k) B (k, n), row by row in memory. One thread for each number of C.
// Neighbouring threads take neighbouring rows: a warp reads 32 lines of A for 32 numbers, and writes 32 lines of C.
// One FMA for a load of A (32 lines) and a load of B (one number for all).
extern "C" __global__ void sgemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m,
    int n, int k) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    const int column = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n) return;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += a[(long long)row * k + i] * b[(long long)i * n + column];
    c[(long long)row * n + column] = sum;
}
