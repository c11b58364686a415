#include <cstdio>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/atomic>
#include <cuda/std/utility>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__device__ cuda::atomic<int, cuda::thread_scope_device> flag(0);
__global__ void produce(int* data, int* out) {
    if (blockIdx.x == 0) { if (threadIdx.x == 0) { *data = 42; flag.store(1, cuda::memory_order_release); } }
    else if (threadIdx.x == 0) { while (flag.load(cuda::memory_order_acquire) == 0); *out = *data; }
}
__global__ void bar(const float* x, float* y) {
    __shared__ cuda::barrier<cuda::thread_scope_block> b;
    __shared__ float s[64];
    auto block = cg::this_thread_block();
    if (block.thread_rank() == 0) init(&b, block.size());
    block.sync();
    for (int i = 0; i < 3; ++i) {
        cuda::memcpy_async(block, s, x + i * 64, sizeof(float) * 64, b);
        b.arrive_and_wait();
        y[i * 64 + threadIdx.x] = s[63 - threadIdx.x];
        auto t = b.arrive(); b.wait(std::move(t));
    }
}
__global__ void pipe(const float* x, float* y, int n) {
    extern __shared__ float s[];
    auto block = cg::this_thread_block();
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> st;
    auto p = cuda::make_pipeline(block, &st);
    for (int c = 0, f = 0; c < n; ++c) {
        for (; f < n && f < c + 2; ++f) { p.producer_acquire(); cuda::memcpy_async(block, s + f % 2 * 64, x + f * 64, cuda::aligned_size_t<4>(256), p); p.producer_commit(); }
        p.consumer_wait(); y[c * 64 + threadIdx.x] += s[c % 2 * 64 + 63 - threadIdx.x]; p.consumer_release();
    }
}
__global__ void roles(const float* x, float* y, int n) {
    __shared__ float s[2][32];
    auto block = cg::this_thread_block();
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> st;
    auto role = threadIdx.x < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
    auto p = cuda::make_pipeline(block, &st, role);
    if (threadIdx.x < 32) for (int i = 0; i < n; ++i) { p.producer_acquire(); cuda::memcpy_async(&s[i % 2][threadIdx.x], x + i * 32 + threadIdx.x, 4, p); p.producer_commit(); }
    else for (int i = 0; i < n; ++i) { p.consumer_wait(); y[i * 32 + threadIdx.x - 32] = s[i % 2][63 - threadIdx.x]; p.consumer_release(); }
}
int main() {
    float *x, *y; int *d;
    cudaMallocManaged(&x, 192 * 4); cudaMallocManaged(&y, 192 * 4); cudaMallocManaged(&d, 8);
    for (int i = 0; i < 192; ++i) x[i] = i;
    d[0] = d[1] = 0;
    produce<<<2, 32>>>(d, d + 1);
    bar<<<1, 64>>>(x, y);
    cudaDeviceSynchronize(); printf("%d %g %g\n", d[1], y[0], y[191]);
    pipe<<<1, 64, 512>>>(x, y, 3);
    cudaDeviceSynchronize(); printf("%g %g\n", y[0], y[191]);
    roles<<<1, 64>>>(x, y, 6);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize())); printf("%g %g\n", y[0], y[191]);
    cudaFree(x); cudaFree(y); cudaFree(d);
}
