// 1,024 steps of heat along a rod of 4,096 points, a launch for each step.
#include <cstdio>
#include <utility>
#include <vector>

__global__ void step(const float* now, float* next, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float left = i > 0 ? now[i - 1] : 0.0f, right = i + 1 < n ? now[i + 1] : 0.0f;
    next[i] = now[i] + 0.25f * (left - 2.0f * now[i] + right);
}

int main() {
    const int n = 4096, steps = 1024;
    std::vector<float> rod(n);
    rod[n / 2] = 1000.0f;
    float *now, *next;
    cudaMalloc(&now, n * sizeof(float));
    cudaMalloc(&next, n * sizeof(float));
    cudaMemcpy(now, rod.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    for (int k = 0; k < steps; ++k) {
        step<<<(n + 255) / 256, 256>>>(now, next, n);
        std::swap(now, next);
    }
    if (cudaGetLastError() != cudaSuccess) return 1;
    cudaMemcpy(rod.data(), now, n * sizeof(float), cudaMemcpyDeviceToHost);
    double sum = 0;
    for (float each : rod) sum += each;
    printf("heat: %.1f\n", sum);
    cudaFree(now), cudaFree(next);
    return 0;
}
