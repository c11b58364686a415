// Memory of the host that is registered: the target of asynchronous copies, and read and written by a kernel.
#include <cstdio>
#include <cstdlib>
__global__ void twice(int* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}
int main() {
    const int n = 3 << 20;
    int* host = (int*)aligned_alloc(4096, n * sizeof(int));
    for (int i = 0; i < n; ++i) host[i] = i;
    int *d, *mapped;
    cudaMalloc(&d, n * sizeof(int));
    cudaHostRegister(host, n * sizeof(int), cudaHostRegisterMapped);
    cudaStream_t streams[3];
    for (auto& stream : streams) cudaStreamCreate(&stream);
    for (int s = 0; s < 3; ++s) {
        int first = s * (n / 3);
        cudaMemcpyAsync(d + first, host + first, sizeof(int) * (n / 3), cudaMemcpyHostToDevice, streams[s]);
        twice<<<1, 32, 0, streams[s]>>>(d + first, 32);
        cudaMemcpyAsync(host + first, d + first, sizeof(int) * (n / 3), cudaMemcpyDeviceToHost, streams[s]);
    }
    for (auto& stream : streams) cudaStreamSynchronize(stream), cudaStreamDestroy(stream);
    printf("%d %d %d\n", host[31], host[32], host[2 * (n / 3) + 1]);
    cudaHostGetDevicePointer(&mapped, host, 0);
    twice<<<1, 64>>>(mapped, 40);  // on the device, in registered memory
    cudaDeviceSynchronize();
    printf("%d %d %s\n", host[39], host[40], cudaGetErrorString(cudaGetLastError()));
    cudaHostUnregister(host);
    cudaFree(d);
    free(host);
}
