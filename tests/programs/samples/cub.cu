#include <cub/cub.cuh>
#include <cstdio>
__global__ void k(const int* x, int* sums, int* scan, int n) {
    using Reduce = cub::BlockReduce<int, 128>;
    using Scan = cub::BlockScan<int, 128>;
    __shared__ union { typename Reduce::TempStorage r; typename Scan::TempStorage s; } t;
    int i = blockIdx.x * 128 + threadIdx.x, v = i < n ? x[i] : 0;
    int s = Reduce(t.r).Sum(v);
    if (threadIdx.x == 0) sums[blockIdx.x] = s;
    __syncthreads();
    int e; Scan(t.s).ExclusiveSum(v, e);
    if (i < n) scan[i] = e;
}
__global__ void sortk(int* x) {
    using Load = cub::BlockLoad<int, 32, 4>; using Sort = cub::BlockRadixSort<int, 32, 4>; using Store = cub::BlockStore<int, 32, 4>;
    __shared__ typename Sort::TempStorage t;
    int v[4]; Load().Load(x, v); Sort(t).Sort(v); Store().Store(x, v);
}
__global__ void warp(int* x) { using W = cub::WarpReduce<int>; __shared__ W::TempStorage t[4]; int s = W(t[threadIdx.x / 32]).Sum(x[threadIdx.x]); __syncthreads(); if (threadIdx.x % 32 == 0) x[threadIdx.x / 32] = s; }
int main() {
    int n = 1000, *x, *sums, *scan, *out; cudaMallocManaged(&x, n * 4); cudaMallocManaged(&sums, 32); cudaMallocManaged(&scan, n * 4); cudaMallocManaged(&out, n * 4);
    for (int i = 0; i < n; ++i) x[i] = i * 7 % 31;
    k<<<8, 128>>>(x, sums, scan, n); cudaDeviceSynchronize(); printf("%d %d %d\n", sums[0], sums[7], scan[999]);
    void* tmp = nullptr; size_t bytes = 0;
    cub::DeviceReduce::Sum(tmp, bytes, x, out, n); cudaMalloc(&tmp, bytes); cub::DeviceReduce::Sum(tmp, bytes, x, out, n); cudaDeviceSynchronize(); printf("%d\n", out[0]);
    cub::DeviceScan::ExclusiveSum(tmp, bytes, x, out, n); cudaDeviceSynchronize(); printf("%d\n", out[999]); cudaFree(tmp); tmp = nullptr;
    cub::DeviceRadixSort::SortKeys(tmp, bytes, x, out, n); cudaMalloc(&tmp, bytes); cub::DeviceRadixSort::SortKeys(tmp, bytes, x, out, n); cudaDeviceSynchronize(); printf("%d %d\n", out[0], out[999]);
    sortk<<<1, 32>>>(x); warp<<<1, 128>>>(out); cudaDeviceSynchronize(); printf("%d %d %d %d\n", x[0], x[127], out[0], out[3]);
    cudaFree(tmp); cudaFree(x); cudaFree(sums); cudaFree(scan); cudaFree(out);
}
