#include <cstdio>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void __cluster_dims__(2, 1, 1) fixed(int* out) {
    __shared__ int s[32];
    auto c = cg::this_cluster();
    s[threadIdx.x] = blockIdx.x * 100 + threadIdx.x;
    c.sync();
    int* o = c.map_shared_rank(s, c.block_rank() ^ 1);
    out[blockIdx.x * 32 + threadIdx.x] = o[threadIdx.x];
    c.sync();
}
__global__ void dyn(int* out, int n) {
    __shared__ int s;
    auto c = cg::this_cluster();
    if (threadIdx.x == 0) s = blockIdx.x;
    c.sync();
    if (threadIdx.x == 0) { int sum = 0; for (unsigned i = 0; i < c.num_blocks(); ++i) sum += *c.map_shared_rank(&s, i); out[blockIdx.x] = sum; }
    c.sync();
}
__global__ void __cluster_dims__(2, 2, 1) flat(int* out) {
    __shared__ int s;
    auto c = cg::this_cluster();
    if (threadIdx.x == 0) s = blockIdx.x + 10 * blockIdx.y;
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
    int other = *c.map_shared_rank(&s, c.block_rank() ^ 1);
    if (threadIdx.x == 0)
        out[blockIdx.y * gridDim.x + blockIdx.x] = 100 * c.block_index().x + 1000 * c.block_index().y + other
            + 10000 * c.dim_blocks().y + 100000 * __clusterIdx().x;
    c.sync();
}
__device__ int counter;
int main() {
    int* d; cudaMallocManaged(&d, 64 * 4);
    fixed<<<2, 32>>>(d); cudaDeviceSynchronize(); printf("%d %d\n", d[0], d[63]);
    cudaLaunchConfig_t config = {0};
    config.gridDim = 8; config.blockDim = 32;
    cudaLaunchAttribute a[1];
    a[0].id = cudaLaunchAttributeClusterDimension; a[0].val.clusterDim.x = 4; a[0].val.clusterDim.y = 1; a[0].val.clusterDim.z = 1;
    config.attrs = a; config.numAttrs = 1;
    cudaLaunchKernelEx(&config, dyn, d, 8);
    printf("%s ", cudaGetErrorString(cudaDeviceSynchronize())); printf("%d %d\n", d[0], d[7]);
    int* p; cudaGetSymbolAddress((void**)&p, counter); int v = 5; cudaMemcpy(p, &v, 4, cudaMemcpyHostToDevice); v = 0; cudaMemcpyFromSymbol(&v, counter, 4); printf("%d\n", v);
    flat<<<dim3(4, 4), 32>>>(d); cudaDeviceSynchronize(); printf("%d %d %d\n", d[1], d[2], d[14]);
    cudaFree(d);
}
