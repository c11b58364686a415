// Product of two 512 x 512 matrices in tiles of 16 x 16.
#include <cstdio>
#include <vector>

constexpr int N = 512, TILE = 16;

__global__ void product(const float* a, const float* b, float* c) {
    __shared__ float as[TILE][TILE], bs[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int first = 0; first < N; first += TILE) {
        as[threadIdx.y][threadIdx.x] = a[row * N + first + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(first + threadIdx.y) * N + column];
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
        __syncthreads();
    }
    c[row * N + column] = sum;
}

int main() {
    std::vector<float> a(N * N, 0.5f), b(N * N, 2.0f), c(N * N);
    size_t bytes = N * N * sizeof(float);
    float *da, *db, *dc;
    cudaMalloc(&da, bytes), cudaMalloc(&db, bytes), cudaMalloc(&dc, bytes);
    cudaMemcpy(da, a.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(db, b.data(), bytes, cudaMemcpyHostToDevice);
    product<<<dim3(N / TILE, N / TILE), dim3(TILE, TILE)>>>(da, db, dc);
    if (cudaGetLastError() != cudaSuccess) return 1;
    cudaMemcpy(c.data(), dc, bytes, cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (float each : c) wrong += each != float(N);
    printf("%d of %d elements are wrong\n", wrong, N * N);
    cudaFree(da), cudaFree(db), cudaFree(dc);
    return wrong != 0;
}
