// Rare functions, atomic changes of 16 bytes, a captured cudaStreamPerThread, members with names of built-in variables.
#include <cstdio>
#include <cuda/atomic>
struct alignas(16) Pair { long long a, b; };
__device__ Pair best;
struct Work { dim3 gridDim; dim3 blockDim; int threadIdx; };
__global__ void most(const int* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Pair old{0, 0}, now;
    do {
        now = old;
        if (x[i] <= now.a) break;
        Pair next{x[i], i};
        old = atomicCAS(&best, now, next);
    } while (old.a != now.a || old.b != now.b);
}
__global__ void bits(int* out) {
    int a, b, c = 3;
    asm volatile("add.s32 %0, %2, 1;\n\t"  // a = c + 1
                 "mul.lo.s32 %1, %0, 2;"   /* b = 2 a; ( */
                 : "=r"(a), "=r"(b) : "r"(c));
    out[0] = a + b + int(__pm0());
    out[1] = __dp2a_lo(0x00020003, 0x04030201, 10);
    out[2] = __dp2a_hi(0x00020003, 0x04030201, 10);
    bool high, low;
    out[3] = int(__vibmax_s16x2(0x0001ffffu, 0x00000002u, &high, &low));
    out[4] = high * 2 + low;
    float2 s = __ffma2_rn(make_float2(1, 2), make_float2(3, 4), make_float2(5, 6));
    out[5] = int(s.x * 100 + s.y);
    out[6] = int(llmax(-5, 3));
}
__global__ void greet() {}
class Queue {
    struct Item { dim3 gridDim, blockDim; } item;
  public:
    void put(dim3 gridDim, dim3 blockDim) { item.gridDim = gridDim, item.blockDim = blockDim; }
    unsigned size() const { return item.gridDim.x * item.blockDim.x; }
};
int main() {
    int n = 1000, *x, *out;
    cudaMallocManaged(&x, n * sizeof(int));
    cudaMallocManaged(&out, 8 * sizeof(int));
    for (int i = 0; i < n; ++i) x[i] = i * 37 % 1009;
    most<<<4, 256>>>(x, n);
    bits<<<1, 1>>>(out);
    if (cudaDeviceSynchronize() != cudaSuccess) return 1;
    Pair p;
    if (cudaMemcpyFromSymbol(&p, best, sizeof p) != cudaSuccess) return 1;
    printf("%lld at %lld\n", p.a, p.b);
    for (int i = 0; i < 7; ++i) printf("%d ", out[i]);
    const char* name;
    cudaFuncGetName(&name, most);
    Queue q;
    q.put(dim3(3), dim3(5));
    cuda::std::atomic<int> count{2};
    double4_32a d = make_double4_32a(1, 2, 3, 4);
    printf("%s %u %d %g\n", name, q.size(), static_cast<volatile cuda::std::atomic<int>*>(&count)->load(), d.w);
    cudaStream_t s = cudaStreamPerThread;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    bits<<<1, 1, 0, s>>>(out);
    cudaStreamEndCapture(s, &graph);
    size_t nodes = 0;
    cudaGraphGetNodes(graph, nullptr, &nodes);
    cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphLaunch(exec, s);
    printf("%zu nodes, %s\n", nodes, cudaGetErrorName(cudaStreamSynchronize(s)));
    cudaGraphNode_t node;
    cudaKernelNodeParams alone = {reinterpret_cast<void*>(greet), {1, 1, 1}, {2, 1, 1}, 0, nullptr, nullptr};
    printf("%d\n", cudaGraphAddKernelNode(&node, graph, nullptr, 0, &alone));
    cudaGraphExecDestroy(exec), cudaGraphDestroy(graph);
    cudaFree(x), cudaFree(out);
}
