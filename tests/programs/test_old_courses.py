"""What older courses use: texture references, NVIDIA's helper files, headers that are nowhere and not needed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from warpladder.device.emulator.toolchain import why_not
from warpladder.device.nearby import nearby
from warpladder.errors import KernelError
from warpladder.programs.build import ProgramOptions
from warpladder.programs.gpus import find
from warpladder.programs.run import ProgramOutcome
from warpladder.programs.run import run as run_program
from warpladder.programs.sources import collected, references

pytestmark = [pytest.mark.skipif(why_not() is not None, reason=str(why_not())), pytest.mark.slow]

#: With the argument --unbound a reference is read that nothing is bound to.
REFERENCES = r"""
#include <cstdio>
#include <helper_cuda.h>
#include "helper_functions.h"
texture<float> row;
texture<float, 2> plane;
texture<unsigned char, cudaTextureType2D, cudaReadModeNormalizedFloat> bytes;
texture<float4, 1, cudaReadModeElementType> four;
__global__ void k(float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = tex1Dfetch(row, i) + tex2D(plane, i, 1) + 255 * tex2D(bytes, i, 0) + tex1Dfetch(four, 1).w;
}
int main(int argc, char** argv) {
    const int n = 4;
    float host[8] = {0, 1, 2, 3, 10, 20, 30, 40}, *x, *out, got[4];
    unsigned char b[4] = {1, 2, 3, 4};
    printf("%d\n", findCudaDevice(argc, (const char**)argv));
    checkCudaErrors(cudaMalloc(&x, sizeof host));
    checkCudaErrors(cudaMalloc(&out, sizeof got));
    checkCudaErrors(cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice));
    cudaArray* a;
    cudaChannelFormatDesc d = cudaCreateChannelDesc<unsigned char>();
    checkCudaErrors(cudaMallocArray(&a, &d, 4, 1));
    checkCudaErrors(cudaMemcpyToArray(a, 0, 0, b, 4, cudaMemcpyHostToDevice));
    bytes.addressMode[0] = cudaAddressModeClamp;
    checkCudaErrors(cudaBindTextureToArray(bytes, a, d));
    checkCudaErrors(cudaBindTexture(NULL, row, x, n * sizeof(float)));
    checkCudaErrors(cudaBindTexture(0, four, x));
    checkCudaErrors(cudaBindTexture2D(NULL, plane, x, cudaCreateChannelDesc<float>(), 4, 2, 16));
    if (checkCmdLineFlag(argc, (const char**)argv, "unbound")) cudaUnbindTexture(row);
    StopWatchInterface* timer = 0;
    sdkCreateTimer(&timer), sdkStartTimer(&timer);
    k<<<1, 32>>>(out, n);
    getLastCudaError("k failed");
    checkCudaErrors(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
    sdkStopTimer(&timer);
    float right[4] = {51, 63, 75, 87};
    printf("%d %d\n", compareData(right, got, 4, 1e-4f, 0.0f), sdkGetTimerValue(&timer) >= 0);
    sdkDeleteTimer(&timer);
    cudaUnbindTexture(row), cudaUnbindTexture(plane), cudaUnbindTexture(bytes), cudaUnbindTexture(four);
    cudaFree(x), cudaFree(out), cudaFreeArray(a);
}
"""


def ran(folder: Path, text: str, mode: str, *arguments: str) -> ProgramOutcome:
    path = folder / "old.cu"
    path.write_text(text)
    return run_program([path], ProgramOptions(find("T4"), mode), arguments)


@pytest.mark.parametrize("mode", ["fast", "check"])
def test_texture_references_and_helper_files(tmp_path, capfd, mode):
    outcome = ran(tmp_path, REFERENCES, mode)
    assert (outcome.code, outcome.problems) == (0, ())
    assert capfd.readouterr().out.splitlines()[-2:] == ["0", "1 1"]
    assert [(remark.kind, remark.places[0][1]) for remark in outcome.remarks] == [("outdated", 5)]


def test_a_reference_that_nothing_is_bound_to(tmp_path):
    outcome = ran(tmp_path, REFERENCES, "fast", "--unbound")
    problem = next(each for each in outcome.problems if "nothing is bound to" in each.message)
    assert problem.places[0][1] == 11


def test_a_class_named_texture_is_the_program_s_own(tmp_path):
    path = tmp_path / "rays.cu"
    path.write_text("class texture { public: virtual float value() = 0; };\ntexture* first;\n")
    assert references(collected((path,), ())) is None
    path.write_text("struct texture {};\ntemplate <class T> struct list {};\nlist<texture> all;\n")
    assert references(collected((path,), ())) is None
    path.write_text("\ntexture<uchar4, 2, cudaReadModeElementType> picture;\n")
    assert references(collected((path,), ())) == (path.resolve(), 2)


#: Headers that are nowhere: two are included, of which NEEDS may need one.
NOWHERE = """
#include <cstdio>
#include "book.h"
#include <glog/logging.h>  // nowhere
#ifdef _WIN32
#include <windows.h>
#endif
#ifdef NOISE
__device__ int level(int a) { return noise(a); }
__global__ void loud(int* x) { x[threadIdx.x] = level(3); }
#endif
__global__ void k(int* x) { x[threadIdx.x] = 1; }
int main() {
    int* x;
    cudaMallocManaged(&x, 128);
    k<<<1, 32>>>(x);
    cudaDeviceSynchronize();
    printf("%d\\n", x[3]);
    NEEDS
    cudaFree(x);
}
"""


@pytest.mark.parametrize("mode", ["fast", "check"])
def test_a_header_that_is_nowhere_and_not_needed_is_a_remark(tmp_path, capfd, mode):
    outcome = ran(tmp_path, NOWHERE.replace("NEEDS", ""), mode)
    assert (outcome.code, outcome.problems, capfd.readouterr().out) == (0, (), "1\n")
    assert [(remark.kind, remark.places[0][1]) for remark in outcome.remarks] == [("header", 3), ("header", 4)]
    assert "glog/logging.h" in outcome.remarks[1].message


def test_a_header_that_main_needs_leaves_the_kernels(tmp_path, run):
    path = tmp_path / "old.cu"
    path.write_text("#define NOISE 1\n" + NOWHERE.replace("NEEDS", "LOG(INFO) << x[0];"))
    code, out, err = run("check", str(path))
    assert code == 2
    assert "old.cu:4: there is no header book.h" in err and err.count("\n") == 1
    assert "  k(int* x)\n" in out and "  loud(int* x)\n" in out
    assert "k does not compile" not in out and "loud does not compile" in out
    assert 'note: old.cu:4: there is no header "book.h"' in out
    assert "note: old.cu:5: there is no header <glog/logging.h>" in out
    assert run("check", str(path), "--kernel", "k", "--grid", "1", "--block", "32", "--arg", "x=32")[0] == 0


THREE = """// three.h is wanted
#include "three.h"
__global__ void k(int* x) { x[threadIdx.x] = three(); }
int main() {
    int* x;
    cudaMallocManaged(&x, 128);
    k<<<1, 32>>>(x);
    cudaDeviceSynchronize();
    int code = x[3] - 3;
    cudaFree(x);
    return code;
}
"""


def test_a_header_of_the_project_is_found_and_named(tmp_path, run):
    """One that a Makefile's -I would name: only if it is the only one, and in the project."""
    path = tmp_path / "project" / "chapter" / "one" / "old.cu"
    for folder in (path.parent, tmp_path / "project" / "common", tmp_path / "project" / ".git"):
        folder.mkdir(parents=True)
    path.write_text(THREE)
    header = "#pragma once\n__device__ inline int three() { return 3; }\n"
    (tmp_path / "three.h").write_text(header)  # outside of the project
    nearby.cache_clear()
    code, out, err = run("check", str(path))
    assert (code, "there is no header three.h" in err) == (2, True) and 'no header "three.h"' in out
    (tmp_path / "project" / "common" / "three.h").write_text(header)
    nearby.cache_clear()
    outcome = run_program([path], ProgramOptions(find("T4")))
    assert (outcome.code, outcome.problems) == (0, ())
    assert [(each.kind, each.places[0][1]) for each in outcome.remarks] == [("searched header", 2)]
    assert "three.h is taken from ../../common/three.h" in outcome.remarks[0].message
    assert run("check", str(path), "--kernel", "k", "--grid", "1", "--block", "32", "--arg", "x=32")[0] == 0
    (path.parent / "more").mkdir()
    (path.parent / "more" / "three.h").write_text(header + "// another")
    (path.parent / "three").mkdir()
    (path.parent / "three" / "three.h").write_text(header)
    nearby.cache_clear()
    assert nearby("three.h", path) is None
    (path.parent / "three" / "three.h").write_text(header + "// another")
    nearby.cache_clear()
    assert nearby("three.h", path) == path.parent / "more" / "three.h"
    assert nearby("math.h", path) is None


@pytest.mark.parametrize(
    ("hole", "name"), [("FIXME, 1", "FIXME"), ("...", "..."), ("1, 1>>>(0); ...; k<<<1, 1", "...")]
)
def test_a_hole_of_an_exercise_is_called_one(tmp_path, hole, name):
    path = tmp_path / "old.cu"
    path.write_text(f"__global__ void k(int* x) {{ x[0] = 1; }}\nint main() {{ k<<<{hole}>>>(0); }}\n")
    with pytest.raises(KernelError, match=f"old.cu:2: {re.escape(name)} stands for what an exercise leaves out"):
        run_program([path], ProgramOptions(find("T4")))


#: Vectors by NVIDIA's names; ball i is at (i + 1, 2, 3).
VECTORS = r"""
#include <cstdio>
#include "helper_math.h"
__global__ void light(const float4* balls, float4* out, int n) {
    uint i = threadIdx.x;
    if (i >= n) return;
    float3 way = normalize(make_float3(0, 3, 4)), at = make_float3(balls[i]);
    float along = dot(at, way);
    float3 off = at - along * way, c = clamp(fminf(fabs(-off), make_float3(2.0f)), 0.0f, 1.5);
    c += lerp(make_float3(0.0f), make_float3(1, 2, 3), 0.5f) * 2;
    c /= 2.0;
    int2 k = max(make_int2(make_float2(1.75f)) * 3, make_int2(2));
    out[i] = make_float4(c, length(cross(at, way)) + fracf(1.25f) + smoothstep(0.0f, 1.0f, 0.5f) + k.y);
}
int main() {
    float4 host[3], *balls, *out;
    for (int i = 0; i < 3; ++i) host[i] = make_float4(make_float3(i + 1, 2, 3), 0);
    cudaMalloc(&balls, sizeof host), cudaMalloc(&out, sizeof host);
    cudaMemcpy(balls, host, sizeof host, cudaMemcpyHostToDevice);
    light<<<1, 32>>>(balls, out, 3);
    if (cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost) != cudaSuccess) return 1;
    for (float4 each : host) printf("%.5f %.5f %.5f %.5f\n", each.x, each.y, each.z, each.w);
    cudaFree(balls), cudaFree(out);
}
"""


def test_vectors_by_nvidia_s_names(tmp_path, capfd):
    file = tmp_path / "light.cu"
    file.write_text(VECTORS)
    outcome = run_program([file], ProgramOptions(find("H100"), "check"), (), limit=120)
    assert (outcome.code, outcome.problems) == (0, ()), outcome
    rows = [list(map(float, line.split())) for line in capfd.readouterr().out.splitlines()]
    for at, row in enumerate(rows, 1):
        expected = ((min(at, 1.5) + 1) / 2, 1.08, 1.56, (0.04 + at * at) ** 0.5 + 3.75)
        assert row == pytest.approx(expected, abs=2e-5)
    assert len(rows) == 3


def test_a_kernel_with_nvidia_s_vectors_is_checked_alone(tmp_path, run):
    file = tmp_path / "light.cu"
    file.write_text(VECTORS)
    words = ["--grid", "1", "--block", "32", "--arg", "balls=3", "--arg", "out=3:uninitialised", "--arg", "n=3"]
    assert run("check", str(file), *words)[0] == 0
