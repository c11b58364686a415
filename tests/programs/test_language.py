"""Programs with what courses teach later: cooperative groups, graphs, textures, launches from kernels."""

from __future__ import annotations

import pytest

from warpladder.device.emulator.toolchain import why_not
from warpladder.programs.build import ProgramOptions
from warpladder.programs.gpus import find
from warpladder.programs.run import run

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.slow]

GROUPS = """
#include <cstdio>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;
struct Big { double a, b, c; };
__device__ int sum(cg::thread_group g, int* t, int v) {
    int lane = g.thread_rank();
    for (int i = g.size() / 2; i > 0; i /= 2) { t[lane] = v; g.sync(); if (lane < i) v += t[lane + i];
        g.sync(); }
    return v;
}
__global__ void k(const int* x, int* out, int n) {
    __shared__ int t[128], stage[128];
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    cg::memcpy_async(block, stage, x + blockIdx.x * 128, sizeof(int) * 128);
    cg::wait(block);
    int v = stage[block.thread_rank()];
    int s = sum(block, t, v);
    int r = cg::reduce(warp, v, cg::plus<int>());
    int m = cg::reduce(tile, v, cg::greater<int>());
    int sc = cg::inclusive_scan(tile, v), ex = cg::exclusive_scan(tile, v);
    Big b{1.0 * v, 2, 3};
    b = warp.shfl(b, 3);
    auto odd = cg::binary_partition(warp, v & 1);
    int os = cg::reduce(odd, v, cg::plus<int>());
    auto part = cg::tiled_partition(block, 16);
    part.sync();
    unsigned bits = tile.ballot(v & 1);
    auto lab = cg::labeled_partition(tile, v % 3);
    if (block.thread_rank() == 5) printf("%d %d %d %d %d %g %d %x %u %u %u %u\\n", s, r, m, sc, ex, b.a, os,
        bits, (unsigned)odd.size(), lab.size(), tile.meta_group_rank(), tile.meta_group_size());
    auto grid = cg::this_grid();
    if (block.thread_rank() == 0) out[blockIdx.x] = s;
    grid.sync();
    if (grid.thread_rank() == 0) { int a = 0; for (int i = 0; i < gridDim.x; ++i) a += out[i];
        printf("total %d of %llu\\n", a, grid.size()); }
    cg::sync(block);
}
int main() {
    int *x, *out, n = 256;
    cudaMallocManaged(&x, n * 4); cudaMallocManaged(&out, 8);
    for (int i = 0; i < n; ++i) x[i] = i;
    void* a[] = {&x, &out, &n};
    cudaLaunchCooperativeKernel((void*)k, 2, 128, a, 0, 0);
    printf("%s\\n", cudaGetErrorString(cudaDeviceSynchronize()));
    cudaFree(x); cudaFree(out);
}
"""
GROUPS_PRINT = """\
1040 496 7 15 10 3 256 aa 16 2 0 16
3088 4592 135 783 650 131 2304 aa 16 2 0 16
total 32640 of 256
no error
"""

RUNTIME = """
#include <cstdio>
#include <vector>
__global__ void add(float* x, float v, int n = 64) { int i = threadIdx.x; if (i < n) x[i] += v; }
__global__ void parent(float* x) { if (threadIdx.x == 0) { add<<<1, 64>>>(x, 100.f, 64); } }
__shared__ float tile[4][8];
__shared__ int count;
__global__ void outer(float* x) { int i = threadIdx.x; tile[i / 8][i % 8] = x[i]; if (i == 0) count = 5;
    __syncthreads(); x[i] = tile[i / 8][7 - i % 8] + count; }
template <class T> __global__ void dyn(T* x) { extern __shared__ T s[][4]; int i = threadIdx.x;
    s[i / 4][i % 4] = x[i]; __syncthreads(); x[i] = s[i % 4][i / 4]; }
__global__ void late(float* x) { float __shared__ a[16]; double extern __shared__ d[]; a[threadIdx.x] = 1;
    d[threadIdx.x] = 2; x[threadIdx.x] += a[threadIdx.x] + d[threadIdx.x]; }
__global__ void sample(cudaTextureObject_t t, float* y, int n) { int i = threadIdx.x;
    if (i < n) y[i] = tex1D<float>(t, i + 0.5f + 0.25f); }
__global__ void sample2(cudaTextureObject_t t, float* y) { int x = threadIdx.x, v = threadIdx.y;
    y[v * 4 + x] = tex2D<float>(t, (x + 1.0f) / 4, (v + 0.5f) / 4); }
__global__ void store(cudaSurfaceObject_t s) { surf2Dwrite(float(threadIdx.x * threadIdx.y), s,
    threadIdx.x * 4, threadIdx.y); }
int main() {
    float* d; cudaMalloc(&d, 320); cudaMemset(d, 0, 256);
    float h[64];
    cudaStream_t s, s2; cudaStreamCreate(&s); cudaStreamCreate(&s2);
    cudaEvent_t e, e2; cudaEventCreate(&e); cudaEventCreate(&e2);
    cudaGraph_t g; cudaGraphExec_t x;
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    add<<<1, 64, 0, s>>>(d, 1, 64);
    cudaEventRecord(e, s); cudaStreamWaitEvent(s2, e, 0);
    add<<<1, 64, 0, s2>>>(d, 2, 64);
    cudaEventRecord(e2, s2); cudaStreamWaitEvent(s, e2, 0);
    cudaMemcpyAsync(h, d, 256, cudaMemcpyDeviceToHost, s);
    cudaStreamEndCapture(s, &g);
    cudaGraphInstantiate(&x, g, NULL, NULL, 0);
    for (int i = 0; i < 3; ++i) cudaGraphLaunch(x, s);
    cudaStreamSynchronize(s);
    printf("graph %g\\n", h[5]);
    cudaGraph_t g2; cudaGraphCreate(&g2, 0); cudaGraphNode_t n1, n2; float v = 10; int n = 64;
        void* a[] = {&d, &v, &n};
    cudaKernelNodeParams p = {0}; p.func = (void*)add; p.gridDim = dim3(1); p.blockDim = dim3(64);
        p.kernelParams = a;
    cudaGraphAddKernelNode(&n1, g2, NULL, 0, &p);
    cudaGraphAddMemcpyNode1D(&n2, g2, &n1, 1, h, d, 256, cudaMemcpyDeviceToHost);
    cudaGraphExec_t x2; cudaGraphInstantiate(&x2, g2, 0); cudaGraphLaunch(x2, 0); printf("nodes %g\\n", h[5]);
    add<<<1, 64>>>(d, 0.5f);
    parent<<<1, 32>>>(d); cudaDeviceSynchronize();
    outer<<<1, 32>>>(d); dyn<float><<<1, 16, 64>>>(d); late<<<1, 16, 16 * sizeof(double)>>>(d);
    cudaMemcpy(h, d, 256, cudaMemcpyDeviceToHost); printf("child %g %g\\n", h[5], h[40]);
    cudaChannelFormatDesc f = cudaCreateChannelDesc<float>(); cudaArray_t arr; float line[16];
        for (int i = 0; i < 16; ++i) line[i] = i * i;
    cudaMallocArray(&arr, &f, 16); cudaMemcpy2DToArray(arr, 0, 0, line, 64, 64, 1, cudaMemcpyHostToDevice);
    cudaResourceDesc r = {}; r.resType = cudaResourceTypeArray; r.res.array.array = arr;
    cudaTextureDesc td = {}; td.addressMode[0] = cudaAddressModeWrap; td.filterMode = cudaFilterModeLinear;
        td.readMode = cudaReadModeElementType;
    cudaTextureObject_t t; cudaCreateTextureObject(&t, &r, &td, NULL);
    sample<<<1, 16>>>(t, d, 16); cudaMemcpy(h, d, 64, cudaMemcpyDeviceToHost);
        printf("tex %g %g %g\\n", h[0], h[3], h[15]);
    cudaArray_t a2; cudaMallocArray(&a2, &f, 4, 4, cudaArraySurfaceLoadStore);
        cudaMemcpyToArray(a2, 0, 0, line, 64, cudaMemcpyHostToDevice);
    r.res.array.array = a2; td.addressMode[0] = cudaAddressModeClamp; td.normalizedCoords = 1; cudaTextureObject_t t2;
        cudaCreateTextureObject(&t2, &r, &td, NULL); cudaSurfaceObject_t so; cudaCreateSurfaceObject(&so, &r);
    sample2<<<1, dim3(4, 4)>>>(t2, d); store<<<1, dim3(4, 4)>>>(so);
        cudaMemcpy(h, d, 64, cudaMemcpyDeviceToHost); printf("tex2 %g %g %g\\n", h[0], h[5], h[15]);
    cudaMemcpy2DFromArray(h, 16, a2, 0, 0, 16, 4, cudaMemcpyDeviceToHost); printf("surf %g\\n", h[11]);
    cudaFree(d); cudaFreeArray(arr); cudaFreeArray(a2);
}
"""
RUNTIME_PRINTS = """\
graph 9
nodes 19
child 127.5 119.5
tex 0.25 10.75 225
tex2 0.5 30.5 225
surf 6
"""

CLASSES = """
#include <cstdio>
#define SHARED extern __shared__ int room[]
__global__ void fill(float* y, float v) { y[threadIdx.x] = v; }
__global__ void fill(int* y, int v) { SHARED; room[threadIdx.x] = v; y[threadIdx.x] = room[threadIdx.x]; }
template <class F, class... A> __global__ void apply(F f, int* y, A... a) { y[threadIdx.x] = f(threadIdx.x, a...); }
struct Scale { int k; __host__ __device__ Scale(int k) : k(k) {}
    __device__ int operator()(int i) const { return i * k; } };
struct Shape { __device__ virtual int area() const = 0; __device__ virtual ~Shape() {} };
class Square : public Shape { int a; public: __device__ Square(int a) : a(a) {}
    __device__ int area() const override { return a * a; } };
struct Rect : Shape { int a, b; __device__ Rect(int a, int b) : a(a), b(b) {}
    __device__ int area() const override { return a * b; } };
__global__ void shapes(int* y) {
    Shape* s = threadIdx.x % 2 ? static_cast<Shape*>(new Square(threadIdx.x)) : new Rect(threadIdx.x, 3);
    y[threadIdx.x] = s->area();
    delete s;
}
union Bits { float f; unsigned u; };
__global__ void bits(Bits b, int* y) { y[threadIdx.x] = b.u >> 23; }
int main() {
    int *y, h[8]; float* e; cudaMalloc(&y, 32); cudaMalloc(&e, 32);
    auto show = [&](const char* n) { cudaMemcpy(h, y, 32, cudaMemcpyDeviceToHost);
        printf("%s %d %d %d\\n", n, h[0], h[3], h[6]); };
    fill<<<1, 8>>>(e, 2.f); fill<<<1, 8, 32>>>(y, 4); show("fill");
    apply<<<1, 8>>>(Scale(3), y); show("scale");
    int k = 5; apply<<<1, 8>>>([=] __device__(int i, int a, float b) { return i * k + a + int(b); }, y, 1, 2.5f);
    show("lambda"); shapes<<<1, 8>>>(y); show("shapes");
    Bits b; b.f = 1; bits<<<1, 8>>>(b, y); show("bits");
    void* arguments[] = {&y, &k};
    cudaLaunchKernel((const void*)(void (*)(int*, int))fill, dim3(1), dim3(8), arguments, 32, 0); show("address");
    cudaFree(y); cudaFree(e);
}
"""
CLASSES_PRINT = """\
fill 4 4 4
scale 0 9 18
lambda 3 18 33
shapes 0 9 18
bits 127 127 127
address 5 5 5
"""
#: Brackets with spaces, a function of the host with a kernel's name, and sums over the active lanes.
HABITS = """
#include <cstdio>
int max(int a, int b);
extern "C" {
#include <GL/gl.h>
}
unsigned long long ticks() {
#ifdef __x86_64__
    unsigned low, high;
    asm volatile ("rdtsc" : "=a" (low), "=d" (high));
    return low | (unsigned long long)high << 32;
#else
    return 1;
#endif
}
__device__ int warp_sum(int v) {
    for (int by = 16; by > 0; by >>= 1) { unsigned mask = __activemask(); v += __shfl_down_sync(mask, v, by); }
    return v;
}
__global__ void total(const char4 *x, int *y) {
    int v = __dp4a(x[threadIdx.x], x[threadIdx.x], 1);
    for (int i = 0; i < 3; ++i) __nanosleep(100);
    v = warp_sum(max(v, 2));
    if (threadIdx.x % 32 == 0) y[threadIdx.x / 32] = v;
}
template <class T> __global__ void fill(T *x, T v) { x[threadIdx.x] = v; }
void total(int *y) {
    char4 *x; int h[2];
    cudaMalloc(&x, 256);
    fill<char4> << <1, 64 >> > (x, make_char4(1, -1, 2, 0));
    total << < 1, 64 >> >(x, y);
    cudaMemcpy(h, y, 8, cudaMemcpyDeviceToHost);
    printf("%d %d %d\\n", h[0], h[1], 1 << (h[1] >> 7));
    cudaFree(x);
}
int without_return(int *y) { total(y); }
int main() { int *y; if (cuInit(0) || !ticks()) return 1; if (!ticks()) return; cudaMalloc(&y, 8); without_return(y); cudaFree(y); }
"""


@pytest.mark.parametrize("mode", ["fast", "check"])
@pytest.mark.parametrize(
    ("text", "prints"),
    [(GROUPS, GROUPS_PRINT), (RUNTIME, RUNTIME_PRINTS), (CLASSES, CLASSES_PRINT), (HABITS, "224 224 2\n")],
    ids=["groups", "runtime", "classes", "habits"],
)
def test_a_program_prints_what_it_does_on_a_gpu(tmp_path, capfd, text, prints, mode):
    file = tmp_path / "program.cu"
    file.write_text(text)
    outcome = run([file], ProgramOptions(find("H100"), mode), limit=60)
    printed = capfd.readouterr().out
    assert sorted(printed.splitlines()) == sorted(prints.splitlines())
    assert (outcome.code, outcome.problems) == (0, ())


#: A sum and a scan by a warp's lanes without __syncwarp(), which GPUs mostly get right.
IN_STEP = """
#include <cstdio>
#define block 64
#define size 128
__device__ void last(volatile int* s, int t) {
    s[t] += s[t + 32]; s[t] += s[t + 16]; s[t] += s[t + 8]; s[t] += s[t + 4]; s[t] += s[t + 2]; s[t] += s[t + 1];
}
__device__ int global[64];
__global__ void sums(int* y) {
    __shared__ int s[64];
    __shared__ volatile int scan[32];
    int t = threadIdx.x;
    s[t] = global[t] = t;
    __syncthreads();
    if (t >= 32) return;
    last(s, t), last(global, t);
    scan[t] = t + 1;
    for (int d = 1; d < 32; d *= 2) if (t >= d) scan[t] += scan[t - d];
    y[t] = t ? scan[t] : s[0] + global[0];
}
int main() {
    int* y;
    cudaMallocManaged(&y, size);
    sums<<<1, block>>>(y);
    if (cudaDeviceSynchronize() == cudaSuccess) printf("%d %d %d", y[0], y[1], y[31]);
    cudaFree(y);
}
"""


@pytest.mark.parametrize(("mode", "kinds"), [("fast", set()), pytest.param("check", {"race"}, marks=pytest.mark.slow)])
def test_lanes_with_volatile_numbers_run_in_step_and_race(tmp_path, capfd, mode, kinds):
    file = tmp_path / "program.cu"
    file.write_text(IN_STEP)
    outcome = run([file], ProgramOptions(find("H100"), mode), limit=60)
    assert {problem.kind for problem in outcome.problems} == kinds
    if mode == "fast":
        assert capfd.readouterr().out == "4032 3 528"


#: Block 0 waits for the last block, which a GPU runs at the same time.
LATER = """
#include <cstdio>
__global__ void wait(int* flag, int* y) {
    if (threadIdx.x == 0) {
        if (blockIdx.x == gridDim.x - 1) atomicExch(flag, 7);
        while (atomicAdd(flag, 0) == 0) {}
    }
    __syncthreads();
    if (threadIdx.x == 1) y[blockIdx.x] = atomicAdd(flag, 0);
}
int main() {
    int *flag, *y, h[40], sum = 0;
    cudaMalloc(&flag, 4), cudaMalloc(&y, 160), cudaMemset(flag, 0, 4);
    wait<<<40, 64>>>(flag, y);
    if (cudaMemcpy(h, y, 160, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    for (int each : h) sum += each;
    printf("%d", sum);
    cudaFree(flag), cudaFree(y);
}
"""


@pytest.mark.parametrize("mode", ["fast", pytest.param("check", marks=pytest.mark.slow)])
def test_a_block_may_wait_for_a_later_one_as_long_as_both_fit(tmp_path, capfd, mode):
    file = tmp_path / "program.cu"
    file.write_text(LATER)
    outcome = run([file], ProgramOptions(find("H100"), mode), limit=60)
    seen = outcome.remarks if mode == "fast" else outcome.problems
    assert capfd.readouterr().out == "280"
    assert [(each.kind, each.places) for each in seen] == [
        ("waits for later blocks" if mode == "fast" else "later block", ((str(file), 6),))
    ]
