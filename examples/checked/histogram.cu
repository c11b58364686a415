// Histogram of a million bytes in 64 bins: in shared memory first, then one atomic addition for each bin and block.
#include <cstdio>
#include <vector>

__global__ void histogram(const unsigned char* x, unsigned* bins, int n) {
    __shared__ unsigned own[64];
    if (threadIdx.x < 64) own[threadIdx.x] = 0;
    __syncthreads();
    int all = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += all) atomicAdd(&own[x[i] & 63], 1u);
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}

int main() {
    const int n = 1 << 20;
    std::vector<unsigned char> x(n);
    for (int i = 0; i < n; ++i) x[i] = i & 255;
    unsigned char* dx;
    unsigned *bins, found[64];
    cudaMalloc(&dx, n);
    cudaMalloc(&bins, sizeof(found));
    cudaMemcpy(dx, x.data(), n * sizeof(unsigned char), cudaMemcpyHostToDevice);
    cudaMemset(bins, 0, sizeof(found));
    histogram<<<64, 256>>>(dx, bins, n);
    if (cudaGetLastError() != cudaSuccess) return 1;
    cudaMemcpy(found, bins, sizeof(found), cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (unsigned each : found) wrong += each != n / 64;
    printf("%d of 64 bins are wrong\n", wrong);
    cudaFree(dx), cudaFree(bins);
    return wrong != 0;
}
