"""Programs run as on a GPU: what they print, how they end, and what is reported of their faults."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner

from warpladder.device.emulator.toolchain import why_not
from warpladder.errors import KernelError
from warpladder.programs.build import ProgramOptions, program
from warpladder.programs.gpus import find
from warpladder.programs.run import ProgramOutcome, run
from warpladder.programs.sources import collected

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.slow]

VECTOR_ADD = """
#include <cstdio>
#include "cuda_runtime.h"
__global__ void add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
int main(int argc, char** argv) {
    const int n = 1000;
    float a[n], b[n], c[n], *da, *db, *dc;
    for (int i = 0; i < n; ++i) a[i] = i, b[i] = 2 * i;
    cudaMalloc(&da, sizeof a);
    cudaMalloc((void**)&db, sizeof b);
    cudaMalloc(&dc, sizeof c);
    cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice);
    cudaMemcpy(db, b, sizeof b, cudaMemcpyHostToDevice);
    add<<<(n + 255) / 256, 256>>>(da, db, dc, n);
    cudaMemcpy(c, dc, sizeof c, cudaMemcpyDeviceToHost);
    printf("%g %g %s\\n", c[1], c[999], cudaGetErrorString(cudaGetLastError()));
    cudaFree(da), cudaFree(db), cudaFree(dc);
    volatile int code = argc;
    return code;
}
"""

#: One program with each kind of fault: the first argument of main chooses it. The kernels are right.
FAULTS = """
#include <cstdio>
#include <cstdlib>
__global__ void twice(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}
__global__ void fill(float* x) { extern __shared__ float s[]; s[threadIdx.x] = 1; x[threadIdx.x] = s[threadIdx.x]; }
__global__ void wait(int* x) { while (*x == 0) {} }
__global__ void sum(const float* x, float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x == 0) { float t = 0; for (int i = 0; i < 64; ++i) t += s[i]; *y = t; }
}
__global__ void make(float* x) {
    float* own;
    cudaMalloc(&own, 4 * sizeof(float));
    own[3] = threadIdx.x;
    x[threadIdx.x] = own[3];
    cudaFree(own);
}
int main(int, char** argv) {
    float host[512] = {}, *d, *other;
    cudaError_t error = cudaMalloc(&d, 256 * sizeof(float));
    error = cudaMalloc(&other, 1000);
    switch (atoi(argv[1])) {
        case 0: twice<<<1, 256>>>(host, 256); break;
        case 1: cudaFree(other); twice<<<1, 250>>>(other, 250); break;
        case 2: error = cudaMemcpy(d, host, sizeof host, cudaMemcpyHostToDevice); break;
        case 3: error = cudaMemcpy(d, host, 1024, cudaMemcpyDeviceToHost); break;
        case 4: error = cudaMemcpy(d, host, 256, cudaMemcpyHostToDevice); break;
        case 5: twice<<<1, 2048>>>(d, 256); break;
        case 6: fill<<<1, 32, 60000>>>(d); break;
        case 7: d[3] = 1; break;
        case 8: twice<<<4, 256>>>(other, 1000); break;
        case 9: twice<<<1, 256>>>(other, 256); break;
        case 10: error = cudaFree(other); error = cudaFree(other); break;
        case 11: { cudaEvent_t event = 0; error = cudaEventRecord(event); break; }
        case 12: wait<<<1, 1>>>((int*)d); break;
        case 13: sum<<<1, 64>>>(d, other); break;
        case 14: error = cudaMemset(d, 0, 1025); break;
        case 15: error = cudaMemcpy(host, d, 64 * sizeof(float), cudaMemcpyDeviceToHost); break;
        case 16: make<<<1, 32>>>(d); break;
        case 17: error = cudaMemcpy(host, d, strlen(argv[2]), cudaMemcpyDeviceToHost); break;
    }
    error = cudaDeviceSynchronize();
    printf("%d\\n", int(error));
    if (atoi(argv[1]) != 5) error = cudaGetLastError();
}
"""


@dataclass
class Programs:
    """Files of programs, compiled once."""

    folder: Path

    def file(self, text: str) -> Path:
        folder = self.folder / sha256(text.encode()).hexdigest()[:8]
        folder.mkdir(exist_ok=True)
        file = folder / "program.cu"
        file.write_text(text)
        return file

    def build(self, text: str) -> None:
        program(collected((self.file(text),), ()), ProgramOptions(find("T4"), "fast"))

    def run(self, text: str, *arguments: str, mode: str = "fast", limit: float = 300) -> ProgramOutcome:
        return run([self.file(text)], ProgramOptions(find("T4"), mode), arguments, limit=limit)


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> Programs:
    return Programs(tmp_path_factory.mktemp("programs"))


def test_a_program_prints_and_returns_what_it_does_on_a_gpu(programs, capfd):
    outcome = programs.run(VECTOR_ADD, "one", "two")
    assert capfd.readouterr().out == "3 2997 no error\n"
    assert (outcome.code, outcome.problems, outcome.remarks) == (3, (), ())


#: Words of the report that each fault of FAULTS gets, by its number, and its kind.
EXPECTED = {
    0: ("host pointer", "argument 1 of kernel twice at program.cu:27 is a pointer of the host"),
    1: ("out of bounds", "the memory was freed at program.cu:28"),
    2: ("copy", "2048 bytes are more than the target has"),
    3: ("copy", "the pointers or the direction are swapped"),
    4: ("bytes", "256 elements of 4 bytes"),
    5: ("launch", "2048 threads a block, and a GPU takes 1024"),
    6: ("shared memory", "60000 bytes of shared memory a block, and it gets 49152"),
    7: ("device memory", "host code reads or writes what only kernels and cudaMemcpy reach at program.cu:34"),
    8: ("out of bounds", "after the end of device memory other of 1000 bytes (allocated at program.cu:25)"),
    9: ("out of bounds", "writes up to 24 bytes after the end of device memory other"),
    10: ("free", "memory that is freed already"),
    11: ("handle", "was not created"),
    14: ("copy", "1025 bytes are more than the target has"),
}


@pytest.mark.parametrize("number", EXPECTED)
def test_faults_of_the_host_are_reported(programs, number):
    outcome = programs.run(FAULTS, str(number))
    kind, words = EXPECTED[number]
    assert [p for p in outcome.problems if p.kind == kind and words in p.message], outcome
    assert {p.kind for p in outcome.problems} == {kind} | ({"unread error"} if number == 5 else set())
    assert outcome.code == (139 if number == 7 else 0)


def test_a_part_of_an_array_may_have_the_bytes_that_it_has_elements(programs):
    outcome = programs.run(FAULTS, "15")
    assert outcome.problems == () and outcome.code == 0 and {r.kind for r in outcome.remarks} == {"leak"}
    outcome = programs.run(FAULTS, "17", "x" * 256)
    assert outcome.problems == () and outcome.code == 0
    assert [r.message for r in outcome.remarks if r.kind == "bytes" and "unless only this part is" in r.message]


@pytest.mark.parametrize("mode", ["fast", "check"])
def test_a_kernel_allocates_and_frees_memory_of_its_own(programs, mode):
    outcome = programs.run(FAULTS, "16", mode=mode)
    assert outcome.problems == () and outcome.code == 0
    assert {r.kind for r in outcome.remarks} - {"unread result"} == {"leak"}


def test_leaks_are_remarks_with_the_line_of_the_allocation(programs):
    outcome = programs.run(FAULTS, "99")
    assert outcome.problems == () and {remark.kind for remark in outcome.remarks} == {"leak"}
    assert {remark.places[0][1] for remark in outcome.remarks} == {24, 25}


def test_an_endless_kernel_is_ended_and_its_line_named(programs):
    programs.build(FAULTS)  # before the time counts
    outcome = programs.run(FAULTS, "12", limit=2)
    assert outcome.is_late and [p.kind for p in outcome.problems] == ["time limit"]
    assert outcome.problems[0].places[0][1] == 9


#: A program that takes long to compile, and programs that go on for ever in host code.
ENDLESS = {
    "compiler": "template <unsigned long A, int D> struct T { static constexpr unsigned long v = T<2 * A, D - 1>::v + "
    "T<2 * A + 1, D - 1>::v; };\ntemplate <unsigned long A> struct T<A, 0> { static constexpr unsigned long v = A; };\n"
    "int main() { return T<1, 23>::v & 1; }\n",
    "host": "__global__ void k(int* x) { *x = 1; }\nint main() { cudaEvent_t e; cudaEventCreate(&e); int* x;\n"
    "cudaMalloc(&x, 4); while (cudaEventQuery(e) == cudaSuccess) k<<<1, 1>>>(x); }\n",
    "child": '#include <cstdlib>\nint main() { return system("exec sleep 98765"); }\n',
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_limit_ends_what_goes_on_in_the_compiler_in_host_code_and_in_children(programs, kind):
    if kind != "compiler":
        programs.build(ENDLESS[kind])
    start = time.monotonic()
    outcome = programs.run(ENDLESS[kind], limit=1)
    assert time.monotonic() - start < 5
    assert (outcome.is_late, outcome.is_compiled) == (True, kind != "compiler")
    while b"sleep\0" + b"98765\0" in _commands():  # a killed process is seen until the kernel has ended it
        assert time.monotonic() - start < 10
        time.sleep(0.05)


def _commands() -> list[bytes]:
    """Command lines of this machine's processes; one that ends meanwhile is left out."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_bytes())
    return found


def test_a_wild_pointer_in_a_copy_is_reported_in_the_programs_line(programs):
    text = "int main() {\nint* x; cudaMalloc(&x, 4);\ncudaMemcpy(x, (int*)64, 4, cudaMemcpyHostToDevice); }\n"
    outcome = programs.run(text)
    assert outcome.code == 139
    assert [(p.kind, p.places[0][1]) for p in outcome.problems] == [("crash", 3)]


def test_a_checked_run_sees_races_of_the_programs_own_launches(programs):
    outcome = programs.run(FAULTS, "13", mode="check")
    assert ("race", "s") in {(p.kind, p.array) for p in outcome.problems}
    assert ("uninitialised", "d") in {(p.kind, p.array) for p in outcome.problems}


LEFT = """#include <cstdio>
__global__ void sum(const int* x, int* out, int n) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = t < n ? x[t] : 0;
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (t >= half) return;
        s[t] += s[t + half];
        __syncthreads();
    }
    *out = s[0];
}
int main() {
    int *x, *out, held[50], total = 0;
    for (int i = 0; i < 50; ++i) held[i] = i;
    cudaMalloc(&x, sizeof held); cudaMalloc(&out, sizeof(int));
    cudaMemcpy(x, held, sizeof held, cudaMemcpyHostToDevice);
    sum<<<1, 64>>>(x, out, 50);
    printf("%s\\n", cudaGetErrorString(cudaMemcpy(&total, out, sizeof(int), cudaMemcpyDeviceToHost)));
    cudaFree(x); cudaFree(out);
    return total == 1225 ? 3 : 4;
}
"""


@pytest.mark.parametrize("mode", ["fast", "check"])
def test_a_barrier_goes_on_without_threads_that_have_left(programs, capfd, mode):
    outcome = programs.run(LEFT, mode=mode)
    assert outcome.code == 3
    assert capfd.readouterr().out == "no error\n"
    seen = outcome.problems if mode == "check" else outcome.remarks
    assert [p.kind for p in seen] == ["barrier" if mode == "check" else "early exit"]
    assert "32 threads, the first of them (32, 0, 0), left the kernel" in seen[0].message
    assert not (outcome.remarks if mode == "check" else outcome.problems)


def test_a_correct_program_passes_the_check(programs):
    assert programs.run(VECTOR_ADD, mode="check").problems == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#include <cuda.h>\nCUdevice d;\nint main() {}", "program.cu:2: CUdevice is of the CUDA driver API"),
        ("int main() {\n cuCtxSynchronize(); }", "program.cu:2: cuCtxSynchronize is of the CUDA driver API"),
        ("static int f(int error);\nstatic int f(CUfunction f) {}\nint main() {}", "program.cu:2: CUfunction is of the"),
        ("struct A {\nA(CUcontext c) {}\n};\nint main() {}", "program.cu:2: CUcontext is of the CUDA driver API"),
        ("#include <cusolverDn.h>\ncusolverDnHandle_t h;\nint main() {}", r"program.cu:1: <cusolverDn.h> cannot be"),
        ("#include <GL/glut.h>\nint main(int n, char** a) {\n cudaSetDevice(0);\n glutInit(&n, a); }",
         "program.cu:4: glutInit is of OpenGL, which cannot be emulated"),
        ("__global__ void k(int* x, int n) { if (n) *x = 1; }\nint main() { k<<<1, 1>>>(); }",
         r"program.cu:2: the launch gives \(\) to a kernel of \(int\*, int\)"),
        ("#include <cublasLt.h>\nint main() {\n cublasLtMatmul(1); }",
         "program.cu:3: cublasLtMatmul is of cuBLASLt, which cannot be emulated"),
        ("#include <GL/gl.h>\nint main() { glBogus(); }", "program.cu:2: glBogus is of OpenGL, which cannot be"),
        ("int main() { cudaIpcMemHandle_t h;\ncudaIpcGetMemHandle(&h, 0); }", "program.cu:2: .* memory that processes"),
        ("int main() { int* x;\ncudaMaloc(&x, 4); }", "cudaMaloc is no name of CUDA .* mean 'cudaMalloc'"),
        ('#include "mine.h"\nint main() { mine(); }', r"program.cu:1: there is no header mine.h; -I names its folder"),
        ("int main() {\n nothing(); }", r"program.cu:2: 'nothing' was not declared"),
        ("int other(); int main() { return other(); }", "calls other"),
        ("__global__ void k() {}\n", r"no file of the program has a main\(\): .* are checked by warpladder check FILE.cu"),
        ("#include <cooperative_groups.h>\n__global__ void k() {\nauto block = cooperative_groups::this_thread_block();\n"
         "cooperative_groups::tiled_partition<64>(block).sync(); }\nint main() { k<<<1, 64>>>(); }",
         "kernel k: a tile of more than 32 threads at program.cu:4"),
        ('__global__ void k(int* x) { asm("szext.wrap.u32 %0, 1, 2;" : "=r"(*x)); }\nint main() { int* x; cudaMalloc(&x, 4); '
         "k<<<1, 1>>>(x); }", "kernel k: PTX szext.wrap.u32 at program.cu:1 has no body here"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_named_in_one_line(programs, text, message):
    with pytest.raises(KernelError, match=message):
        programs.run(text)


def test_a_file_without_cuda_gets_none_of_its_names(tmp_path, capfd):
    (tmp_path / "main.cu").write_text('#include <cstdio>\nfloat own();\nint main() { printf("%g", own()); }\n')
    (tmp_path / "own.cpp").write_text(
        "#include <assert.h>\nstruct float4 { float a; };\ntemplate <class T> T first(int n) { assert(n > 0); return "
        "float4{3}.a; }\nfloat own() { return first<float>(1); }\n"
    )
    outcome = run([tmp_path / "main.cu", tmp_path / "own.cpp"], ProgramOptions(find("T4")), limit=300)
    assert (outcome.code, capfd.readouterr().out) == (0, "3")


def test_the_command_line_passes_on_what_the_program_returns(tmp_path):
    from warpladder.cli import group

    (tmp_path / "add.cu").write_text(VECTOR_ADD)
    runner = CliRunner()
    assert runner.invoke(group, ["run", str(tmp_path / "add.cu"), "--", "--one", "two.cu"]).exit_code == 3
    assert "no .cu or .cpp file" in runner.invoke(group, ["run", "a.txt"]).output


REMARKED = """
#include <cstdlib>
__global__ void rooted(const float* x, float* y, int* flag) {
    float* own = (float*)malloc(2 * sizeof(float));
    own[1] = sqrtf(x[threadIdx.x]);
    y[threadIdx.x] = own[1] + (int)1e20f * 0;
    *flag = 1;
    free(own);
}
int main() {
    float h[64], *x, *y;
    int* flag;
    for (int i = 0; i < 64; ++i) h[i] = i - 1.0f;
    cudaMalloc(&x, sizeof(h)), cudaMalloc(&y, sizeof(h)), cudaMalloc(&flag, sizeof(int));
    cudaMemcpy(x, h, sizeof(h), cudaMemcpyHostToDevice);
    for (int k = 0; k < 2; ++k) rooted<<<1, 64>>>(x, y, flag);
    if (cudaGetLastError() != cudaSuccess) return 1;
    cudaFree(x), cudaFree(y), cudaFree(flag);
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["check", "count"])
def test_values_are_remarked_and_launches_counted(programs, mode):
    outcome = programs.run(REMARKED, mode=mode)
    assert (outcome.code, outcome.problems) == (0, ())
    assert {remark.kind for remark in outcome.remarks} == {"nan", "same value", "unread result"}
    assert "1 of the 64 numbers of array y is NaN" in next(r.message for r in outcome.remarks if r.kind == "nan")
    if mode == "count":
        (counts,) = outcome.counts
        assert (counts.name, counts.launches, counts.grid, counts.block) == ("rooted", 2, (1, 1, 1), (64, 1, 1))
        assert counts.total("global store").warps >= 8
