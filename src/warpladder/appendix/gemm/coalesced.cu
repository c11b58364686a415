// C (m, n) = A (m, k) B (k, n), row by row in memory. One thread for each number of C.
// Neighbouring threads take neighbouring columns: a warp reads one number of A and one line of B, and writes one line
// of C. The same arithmetic as naive.cu with two axes exchanged. One FMA for two loads of one line each.
extern "C" __global__ void sgemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m,
    int n, int k) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || column >= n) return;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += a[(long long)row * k + i] * b[(long long)i * n + column];
    c[(long long)row * n + column] = sum;
}
