"""What course programs do besides: objects as arguments, facts of kernels, groups, capture, libraries' calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpladder.device.emulator.toolchain import why_not
from warpladder.programs.build import ProgramOptions
from warpladder.programs.gpus import find
from warpladder.programs.run import run

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.slow]

RIGHT = r"""
#include <cooperative_groups.h>
#include <cuComplex.h>
#include <cstdio>
namespace cg = cooperative_groups;
#define BLOCK 128
constexpr int WIDE = 2;
struct Text {  // its copies are counted
    int n, *data;
    static int made;
    Text(int n) : n(n) { cudaMallocManaged(&data, n * sizeof(int)); }
    Text(const Text& o) : n(o.n) { ++made; cudaMallocManaged(&data, n * sizeof(int)); data[0] = o.data[0]; }
    ~Text() { cudaFree(data); }
};
int Text::made = 0;
__global__ void by_value(Text t, int* out) { out[threadIdx.x] = t.n + t.data[0]; t.n = 100; }
__global__ void by_reference(Text& t) { t.data[0] += 5; t.n = 7; }
template <class T> __global__ void reversed(T* x, int n) {
    extern __shared__ unsigned char room[];
    T* s = (T*)room;
    for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = x[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = s[n - 1 - i];
}
__global__ void __launch_bounds__(BLOCK * WIDE, 2) bounded(int* x) { x[threadIdx.x] = 1; }
template <unsigned N> __device__ int sum(const cg::thread_block_tile<N>& tile, int v) {
    for (int by = N / 2; by > 0; by /= 2) v += tile.shfl_down(v, by);
    return tile.shfl(v, 0);
}
__global__ void sums(int* out) {
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    out[threadIdx.x] = sum(tile, threadIdx.x);
}
__global__ void words(unsigned* out) {
    unsigned a = 0x7f01ff80u, b = 0x010101ffu;
    unsigned all[] = {__vadd4(a, b), __vaddss4(a, b), __vaddus4(a, b), __vsub2(a, b), __vabsdiffu4(a, b),
        __vcmpgts4(a, b), __vsetltu4(a, b), __vmaxs2(a, b), __vminu4(a, b), __vavgu4(a, b), __vabs4(a), __vneg2(a),
        __vsadu4(a, b), __vhaddu2(a, b), (unsigned)__viaddmax_s32(3, -9, -4), (unsigned)__vimax3_s32(-1, 4, 2),
        __viaddmin_s16x2_relu(0x00050005u, 0xfff00001u, 0x00070007u)};
    for (int i = 0; i < 17; ++i) out[i] = all[i];
}
__device__ int counter = 9;
__global__ void turned(cuFloatComplex* z) {
    z[threadIdx.x] = cuCdivf(cuCmulf(z[threadIdx.x], make_cuFloatComplex(0, 1)), make_cuFloatComplex(2, 0));
}
int main() {
    int *out, h[256];
    cudaMallocManaged(&out, sizeof h);
    Text* t = nullptr;
    cudaMallocManaged(&t, sizeof(Text));
    new (t) Text(3);
    t->data[0] = 10;
    by_reference<<<1, 1>>>(*t);
    cudaDeviceSynchronize();
    by_value<<<1, 4>>>(*t, out);
    cudaDeviceSynchronize();
    printf("objects %d %d %d, copies %d\n", t->n, out[0], out[3], Text::made);
    t->~Text();
    cudaFree(t);
    float* x;
    cudaMallocManaged(&x, 60000);
    for (int i = 0; i < 15000; ++i) x[i] = i;
    cudaFuncSetAttribute(reversed<float>, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000);
    reversed<<<1, 256, 60000>>>(x, 15000);
    cudaDeviceSynchronize();
    int grid, block, blocks;
    cudaOccupancyMaxPotentialBlockSize(&grid, &block, bounded);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &bounded, 512, 0);
    cudaFuncAttributes facts;
    cudaFuncGetAttributes(&facts, bounded);
    bounded<<<1, block>>>(out);
    printf("facts %g %d %d %d\n", x[0], block, blocks, facts.maxThreadsPerBlock);
    sums<<<1, 64>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDefault);
    printf("tiles %d %d\n", h[0], h[17]);
    words<<<1, 1>>>((unsigned*)out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDefault);
    printf("words");
    for (int i = 0; i < 17; ++i) printf(" %x", h[i]);
    x[0] = 3, x[1] = 4;
    turned<<<1, 1>>>((cuFloatComplex*)x);
    cudaDeviceSynchronize();
    printf("\ncomplex %g %g\n", x[0], x[1]);
    cudaResourceDesc from{}, back{};
    from.resType = cudaResourceTypeLinear, from.res.linear.devPtr = x;
    from.res.linear.desc = cudaCreateChannelDesc<float>(), from.res.linear.sizeInBytes = 256;
    cudaTextureDesc how{};
    cudaTextureObject_t texture;
    cudaCreateTextureObject(&texture, &from, &how, nullptr);
    cudaGetTextureObjectResourceDesc(&back, texture);
    cudaPitchedPtr cube;
    cudaExtent size = make_cudaExtent(12, 3, 2);
    cudaMalloc3D(&cube, size);
    cudaMemset3D(cube, 7, size);
    size_t room;
    cudaOccupancyAvailableDynamicSMemPerBlock(&room, bounded, 2, 256);
    cudaMemcpyFromSymbolAsync(h, counter, sizeof counter, 0, cudaMemcpyDeviceToHost, 0);
    printf("calls %d %d %d\n", back.res.linear.devPtr == x, room > 48 << 10, h[0]);
    cudaFree(cube.ptr);
    cudaFree(x), cudaFree(out);
}
"""
PRINTS = """\
objects 7 22 22, copies 1
facts 14999 256 0 256
tiles 120 376
words 8002007f 7f020080 8002ffff 7e00fd81 7e00fe7f ff000000 1 7f0101ff 1010180 400180c0 7f010180 80ff0080 1fb \
400180bf fffffffc 4 6
complex -2 1.5
calls 1 1 9
"""
#: Functions of 16-bit floats against their definitions, a pipeline by a barrier of the block, and counts by an atomic.
SHORT = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda/pipeline>
#include <cooperative_groups.h>
#include <cstdio>
#include <vector>
template <class H> __device__ bool next_to(H down, H up, float x) {
    return float(down) <= x && x <= float(up) && (down.bits == up.bits || abs(int(down.bits) - int(up.bits)) == 1);
}
__device__ int wrong;
__global__ void rounds(const float* xs) {
    float x = xs[threadIdx.x];
    bool right = next_to(__float2half_rd(x), __float2half_ru(x), x)
        && next_to(__float2bfloat16_rd(x), __float2bfloat16_ru(x), x)
        && float(__float2half_rz(x)) == float(x > 0 ? __float2half_rd(x) : __float2half_ru(x));
    __half h = x;
    __half2 p{h, -h}, one{1.f, 1.f};
    right &= __half2int_rd(h) == int(floorf(h)) && __half2short_ru(h) == short(ceilf(h))
        && __half2ll_rz(h) == (long long)truncf(h) && float(hfloor(h)) == floorf(h) && __half2uchar_rz(-h) <= 255;
    right &= __hbge2(p, p) && !__hbne2(p, p) && __heq2_mask(p, one) == (float(h) == 1 ? 0xffffu : 0u)
        && float(__hgt2(one, p).x) == (1.f > float(h))
        && float(__lowhigh2highlow(p).x) == -float(h) && float(__hmul2_sat(p, one).y) >= 0 && p / one == p;
    right &= __hequ(h, __half(NAN)) && !__heq(h, __half(NAN)) && __hisnan(__hmax_nan(h, __half(NAN)))
        && float(__hmax(h, __half(NAN))) == float(h) && __hisinf(__float2half(1e9f)) == 1;
    if (!right) atomicAdd(&wrong, 1);
}
__global__ void staged(const float* in, float* out, int batches) {
    auto block = cooperative_groups::this_thread_block();
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ float stage[2][64];
    auto pipe = cuda::make_pipeline(block, &state);
    for (int fill = 0, b = 0; b < batches; ++b) {
        for (; fill < batches && fill < b + 2; ++fill) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, stage[fill % 2], in + fill * 64, sizeof(float) * 64, pipe);
            pipe.producer_commit();
        }
#ifndef NO_WAIT
        pipe.consumer_wait();
#else
        block.sync();
#endif
        out[b * 64 + threadIdx.x] = stage[b % 2][63 - threadIdx.x];
#ifdef NO_WAIT
        pipe.consumer_wait();
#endif
        pipe.consumer_release();
    }
}
__global__ void tickets(int* next, int* out) { out[atomicAdd(next, 1)] = 1; }
int main() {
    std::vector<float> x(256);
    for (int i = 0; i < 256; ++i) x[i] = (i % 2 ? -1 : 1) * std::pow(1.17f, i % 60 - 20);
    float *d, *out;
    int *next, *places, bad;
    cudaMalloc(&d, 1024), cudaMalloc(&out, 1024), cudaMalloc(&next, 4), cudaMalloc(&places, 256);
    cudaMemcpy(d, x.data(), 1024, cudaMemcpyHostToDevice);
    cudaMemset(next, 0, 4);
    rounds<<<1, 256>>>(d);
    staged<<<1, 64>>>(d, out, 4);
    std::vector<float> y(256);
    cudaMemcpy(y.data(), out, 1024, cudaMemcpyDeviceToHost);
    cudaMemcpyFromSymbol(&bad, wrong, sizeof bad);
    for (int i = 0; i < 256; ++i) bad += y[i] != x[i / 64 * 64 + 63 - i % 64];
    tickets<<<1, 64>>>(next, places);
    std::vector<int> taken(64);
    cudaMemcpy(taken.data(), places, 256, cudaMemcpyDeviceToHost);
    for (int each : taken) bad += each != 1;
    printf("wrong %d\n", bad);
    cudaFree(d), cudaFree(out), cudaFree(next), cudaFree(places);
}
"""
#: One program with each kind of fault: the first argument of main chooses it.
FAULTS = r"""
#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>
#include <thrust/device_vector.h>
#include <thrust/transform.h>
namespace cg = cooperative_groups;
__global__ void one(float* x) { x[threadIdx.x] += 1; }
__global__ void votes(const float* x, int* out) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    if (warp.thread_rank() == 0) out[0] = __popc(warp.ballot(x[threadIdx.x] > 0));
}
__global__ void child(int* p) { *p = 7; }
__global__ void parent(int* out) {
    int own = 0;
    child<<<1, 1>>>(&own);
    *out = own;
}
__global__ void total(const float& x, float* y) { *y = x; }
int main(int, char** argv) {
    float *x, h[64], number = 3;
    cudaMalloc(&x, sizeof h);
    cudaMemset(x, 0, sizeof h);
    cudaStream_t s;
    cudaStreamCreate(&s);
    cudaGraph_t graph;
    cudaError_t error = cudaSuccess;
    switch (atoi(argv[1])) {
        case 0:
        case 1:
        case 2:
            error = cudaStreamBeginCapture(s, atoi(argv[1]) == 2 ? cudaStreamCaptureModeRelaxed
                                                                 : cudaStreamCaptureModeGlobal);
            one<<<1, 64, 0, s>>>(x);
            if (atoi(argv[1]) == 0) error = cudaStreamSynchronize(s);
            else error = cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
            printf("%d ", error);
            error = cudaStreamEndCapture(s, &graph);
            printf("%d\n", error);
            break;
        case 3: votes<<<1, 64>>>(x, (int*)x); break;
        case 4: parent<<<1, 1>>>((int*)x); break;
        case 5: {
            thrust::device_vector<int> a(100, 1), b(90);
            thrust::transform(a.begin(), a.end(), b.begin(), thrust::negate<int>());
            break;
        }
        case 6: total<<<1, 1>>>(number, x); break;
    }
    error = cudaGetLastError();
    error = cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    error = cudaFree(x);
    cudaStreamDestroy(s);
    return 0;
}
"""


@pytest.mark.parametrize("mode", ["fast", "check"])
@pytest.mark.parametrize(("text", "prints"), [(RIGHT, PRINTS), (SHORT, "wrong 0\n")], ids=["course", "short"])
def test_a_right_program_prints_what_it_does_on_a_gpu(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str, prints: str, mode: str
) -> None:
    file = tmp_path / "program.cu"
    file.write_text(text)
    outcome = run([file], ProgramOptions(find("H100"), mode), limit=60)
    assert capfd.readouterr().out == prints
    assert (outcome.code, outcome.problems, outcome.remarks) == (0, (), ())


def test_a_stage_that_is_read_before_its_wait_is_an_unfinished_copy(tmp_path: Path) -> None:
    file = tmp_path / "program.cu"
    file.write_text(SHORT)
    outcome = run([file], ProgramOptions(find("H100"), "check", ("NO_WAIT",)), limit=60)
    first = outcome.problems[0]
    line = 1 + SHORT[: SHORT.index("out[b * 64")].count("\n")
    assert (first.kind, first.array, first.places[0][1]) == ("unfinished copy", "stage", line)
    assert "no thread has waited for its barrier, or its stage" in first.message


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("course") / "faults.cu"
    file.write_text(FAULTS)
    return file


def line_of(text: str) -> int:
    return 1 + FAULTS[: FAULTS.index(text)].count("\n")


@pytest.mark.parametrize(
    ("case", "kind", "place", "prints"),
    [
        (0, "capture", "error = cudaStreamSynchronize", "900 901\n"),
        (1, "capture", "else error = cudaMemcpy", "900 901\n"),
        (2, "", "", "0 0\n"),
        (3, "warp mask", "if (warp.thread_rank", ""),
        (4, "host pointer", "child<<<1, 1>>>(&own)", ""),
        (5, "out of bounds", "thrust::transform(a.begin", ""),
        (6, "host pointer", "total<<<1, 1>>>(number", ""),
    ],
)
def test_a_fault_has_its_kind_and_line(faults: Path, capfd, case: int, kind: str, place: str, prints: str) -> None:
    outcome = run([faults], ProgramOptions(find("H100"), "check"), [str(case)], limit=120)
    found = [(problem.kind, problem.places[0][1]) for problem in outcome.problems]
    assert found[:1] == ([(kind, line_of(place))] if kind else [])
    assert not prints or capfd.readouterr().out == prints
