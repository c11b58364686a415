"""What students write in the first weeks: faults with their kind and line, and right programs that once were reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpladder.checker.faults import hint
from warpladder.device.emulator.toolchain import why_not
from warpladder.programs.build import ProgramOptions
from warpladder.programs.gpus import find
from warpladder.programs.run import run

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.slow]

#: One program with each fault: the first argument of main chooses it.
FAULTS = r"""
#include <cstdio>
#include <cstdlib>
__constant__ float taps[4], late;
__global__ void hello() { printf("hello from %d\n", threadIdx.x); }
__global__ void invert(const unsigned char* in, unsigned char* out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) out[y * width + x] = 255 - in[y * width + x];
}
__global__ void negate(const int* x, int* y, int n) {
    int i = blockIdx.x * gridDim.x + threadIdx.x;
    if (i < n) y[i] = -x[i];
}
__global__ void sum(const int* x, int* y) {
    int total;
    for (int i = 0; i < 4; ++i) total += x[i] + int(taps[i]);  // no value
    *y = total;
}
__global__ void half(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = (x[i] + late) / 2;
}
struct List { int n, *data; };
__global__ void first(List* list, int* y) { *y = list->data[0]; }  // 7
void ok(cudaError_t error) { if (error != cudaSuccess) printf("%s\n", cudaGetErrorString(error)); }
int main(int, char** argv) {
    int kind = atoi(argv[1]), width = kind == 1 ? 200 : 100, height = 300 - width;
    int *x, *y, *pinned, host[2048] = {};
    unsigned char *in, *out;
    List list{2048, host}, *lists;
    ok(cudaMalloc(&x, sizeof host)), ok(cudaMalloc(&y, sizeof host)), ok(cudaMallocHost(&pinned, 128));
    ok(cudaMalloc(&in, 20000)), ok(cudaMalloc(&out, 20000)), ok(cudaMalloc(&lists, sizeof list));
    ok(cudaMemset(in, 7, 20000)), ok(cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice));
    if (kind == 0) {
        hello<<<1, 4>>>();  // 0
        return 0;
    }
    if (kind == 1 || kind == 2) {
        dim3 block(16, 16), grid((height + 15) / 16, (width + 15) / 16);
        invert<<<grid, block>>>(in, out, width, height);
        void* to = host;
        ok(cudaMemcpy(to, out, width * height / 4, cudaMemcpyDeviceToHost));
        unsigned char* picture = (unsigned char*)malloc(width * height);
        ok(cudaMemcpy(picture, out, width * height, cudaMemcpyDeviceToHost));  // 1 2
    }
    if (kind == 3) {
        negate<<<8, 256>>>(x, y, 2048);
        ok(cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost));  // 3
    }
    if (kind == 4) {
        ok(cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost));  // 4
        negate<<<1, 2048 / 2>>>(x, y, 2048);
    }
    if (kind == 5) free(pinned);  // 5
    if (kind == 6) ok(cudaMemcpy(taps, host, sizeof taps, cudaMemcpyHostToDevice));  // 6
    if (kind == 7) {
        ok(cudaMemcpy(lists, &list, sizeof list, cudaMemcpyHostToDevice));
        first<<<1, 1>>>(lists, y);
    }
    if (kind == 8) {
        ok(cudaMemset(y, 1, sizeof host));  // 8
        negate<<<8, 256>>>(y, x, 2048);
    }
    if (kind == 9 || kind == 10) {
        float* z = (float*)in;
        ok(cudaMalloc(&z, 4000)), ok(cudaMemset(z, 0, 4000));
        half<<<(1000 + (kind == 10) * 255) / 256, 256>>>(z, 1000);
        if (kind == 10) ok(cudaMemcpyToSymbol(late, host, sizeof late));  // 10
        ok(cudaMemcpy(host, z, 4000, cudaMemcpyDeviceToHost));  // 9
        ok(cudaFree(z));
    }
    ok(cudaGetLastError());
    ok(cudaDeviceSynchronize());
    ok(cudaFree(x)), ok(cudaFree(y)), ok(cudaFree(in)), ok(cudaFree(out)), ok(cudaFree(lists));
}
"""
#: Kind, words of the message and of the remedy.
EXPECTED = [
    ("not arrived", "a GPU does not show what it prints", "cudaDeviceSynchronize"),
    ("unwritten", "112 x 208 threads for 100 rows of 200: x and y", "x counts columns"),
    ("unwritten", "208 x 112 threads for 200 rows of 100: x and y", "x counts columns"),
    ("unwritten", "several threads store the same one", "blockIdx.x * blockDim.x"),
    ("not arrived", "kernel negate stores it later", "after the launch"),
    ("free", "gives free() or delete what", "cudaFree"),
    ("copy", "is a variable of the program", "cudaMemcpyToSymbol"),
    ("host pointer", "of the host's memory, which a kernel", "a pointer in a struct"),
    ("", "", ""),  # a remark
    ("unwritten", "gets as many, but has 768 threads", "(n + block - 1) / block"),
    ("unfilled", "fills a variable after the launches that read it", "before the launch"),
]

#: A sum of doubles as NVIDIA's programming guide writes it; structs with a gap of four bytes that are copied whole.
RIGHT = r"""
#include <cstdio>
struct Pair { double x; int n; };
__device__ double add(double* a, double v) {
    unsigned long long* at = (unsigned long long*)a;
    unsigned long long old = *at, assumed;
    do {
        assumed = old;
        old = atomicCAS(at, assumed, __double_as_longlong(v + __longlong_as_double(assumed)));
    } while (assumed != old);
    return __longlong_as_double(old);
}
__global__ void set(Pair* p) { p[threadIdx.x].x = 0.5, p[threadIdx.x].n = threadIdx.x; }
__device__ __noinline__ double value(const Pair* p) { return p->x + p->n; }
__global__ void total(const Pair* p, double* sum) {
    __shared__ Pair s[64];
    s[threadIdx.x].x = 1, s[threadIdx.x].n = 2;
    __syncthreads();
    Pair mine = p[threadIdx.x], other = s[63 - threadIdx.x];
    add(sum, value(&mine) + value(&other));
}
#ifdef READS
__global__ void peek(double* sum, double* y) { y[threadIdx.x] = *sum + add(sum + 1, 1); add(sum, 1); }
#endif
int main() {
    Pair* p;
    double *sum, *y, h[2] = {};
    cudaMalloc(&p, 64 * sizeof(Pair)), cudaMalloc(&sum, sizeof h), cudaMalloc(&y, 64 * sizeof(double));
    cudaMemcpy(sum, h, sizeof h, cudaMemcpyHostToDevice);
    set<<<1, 64>>>(p);
    total<<<1, 64>>>(p, sum);
#ifdef READS
    peek<<<1, 64>>>(sum, y);
#endif
    cudaMemcpy(h, sum, sizeof h, cudaMemcpyDeviceToHost);
    printf("%g %d\n", h[0], cudaGetLastError());
    cudaFree(p), cudaFree(sum), cudaFree(y);
}
"""
CARD = find("H100")


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("weeks") / "faults.cu"
    file.write_text(FAULTS.lstrip())
    return file


def line_of(mark: str) -> int:
    marks = [text.partition("//")[2].strip() for text in FAULTS.lstrip().splitlines()]
    return next(at for at, text in enumerate(marks, 1) if mark in (text, *text.split()))


@pytest.mark.parametrize("number", [at for at, (kind, *_) in enumerate(EXPECTED) if kind])
def test_a_fault_is_named_with_its_line_and_its_remedy(faults: Path, number: int) -> None:
    outcome = run([faults], ProgramOptions(CARD, "check"), (str(number),), limit=120)
    kind, words, remedy = EXPECTED[number]
    problem = outcome.problems[0]
    assert problem.kind == kind
    assert words in problem.message
    assert remedy in hint(problem)
    assert problem.places[0] == (str(faults), line_of(str(number)))


def test_what_may_be_meant_is_a_remark(faults: Path) -> None:
    outcome = run([faults], ProgramOptions(CARD, "check"), ("8",), limit=120)
    said = {remark.kind: (remark.message, remark.places[0][1]) for remark in outcome.remarks}
    assert outcome.problems == ()
    text, line = said["no value"]
    assert text == "total may be read before it has a value"
    assert 0 <= line - line_of("no value") <= 1  # as the compiler has it
    assert "sets each byte to 1, and not each number" in said["bytes"][0]
    assert said["bytes"][1] == line_of("8")


def test_a_guess_that_is_compared_is_no_race_and_a_gap_needs_no_value(tmp_path: Path, capfd) -> None:
    file = tmp_path / "right.cu"
    file.write_text(RIGHT)
    outcome = run([file], ProgramOptions(CARD, "check"), limit=120)
    assert capfd.readouterr().out == "2240 0\n"
    assert (outcome.problems, outcome.remarks) == ((), ())


def test_a_read_of_what_others_add_to_is_a_race(tmp_path: Path) -> None:
    file = tmp_path / "reads.cu"
    file.write_text(RIGHT)
    (problem,) = run([file], ProgramOptions(CARD, "check", ("READS",)), limit=120).problems[:1]
    assert (problem.kind, problem.array) == ("race", "sum")
    assert "peek" in RIGHT.splitlines()[problem.places[0][1] - 1]
