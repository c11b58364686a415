"""What the GPU layer does without a GPU: kernels are compiled and kept, and launches are checked before they could be
sent.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="NVRTC is not installed: scripts/setup test nvrtc")
pytest.importorskip("cuda.core", reason="NVRTC is not installed: scripts/setup test nvrtc")

from warpladder.device import Array, Limits, Resources
from warpladder.device import source as sources
from warpladder.device.emulator.hostcode import device_code
from warpladder.device.gpu import cache, compile, program
from warpladder.device.gpu.offline import LIMITS, OfflineDevice
from warpladder.errors import DeviceError, KernelError, LaunchError, OutOfMemoryError
from warpladder.files.cache import prune

pytestmark = pytest.mark.nvrtc

#: A file as the emulator takes it: host code, headers of C++, a template, names that nvcc has without an include.
PROGRAM = """#include "stdio.h"
#include <cstdint>
#include <limits>
#include <vector>
#include <iostream>
#include <cuda_runtime.h>
template <class T> struct Pair { T a, b; __host__ __device__ T sum() const { return a + b; } };
__device__ float lerp(float a, float b, float t) { return fmaf(t, b, fmaf(-t, a, a)); }
template <class T> __global__ void most(const T* x, T* y, uint32_t n) { *y = std::numeric_limits<T>::lowest(); }
template __global__ void most<float>(const float*, float*, uint32_t);
__global__ void k(Pair<float> p, float* y, int n) {
    if (n < INT_MAX) y[0] = fminf(FLT_MAX, lerp(std::sqrt(y[0]), p.sum(), 0.5f));
    printf("%d", n);
}
int main() { std::vector<float> h(4); std::cout << h[0]; k<<<1, 1>>>({1, 2}, nullptr, 3); }
"""


def test_nvrtc_takes_the_files_that_the_emulator_takes(tmp_path):
    file = tmp_path / "program.cu"
    file.write_text(PROGRAM)
    built = compile.compile(device_code(file), ("k", "most<float>"), "sm_80")
    assert set(built.symbols) == {"k", "most<float>"}


ADD = """
extern "C" __global__ void add(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += x[i];
}
"""

TILED = """
template <int SIDE, bool twice>
__global__ void __launch_bounds__(SIDE * SIDE) tiled(const float* x, float* y) {
    __shared__ float tile[SIDE][SIDE];
    tile[threadIdx.y][threadIdx.x] = x[threadIdx.y * SIDE + threadIdx.x];
    __syncthreads();
    y[threadIdx.y * SIDE + threadIdx.x] = tile[threadIdx.x][threadIdx.y] * (twice ? 2.0f : 1.0f);
}
"""


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    place = tmp_path / "kept"
    place.mkdir()
    monkeypatch.setattr(cache.CUBINS, "place", lambda: place)
    return place


def write(folder: Path, text: str, name: str = "some.cu") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def built(folder: Path, text: str, *names: str, arch: str = "sm_90") -> compile.Binary:
    return compile.compile(sources.read(write(folder, text)), names, arch)


def arrays(device: OfflineDevice, *sizes: int) -> list[Array]:
    return [device.empty((size,)) for size in sizes]


# Compiling


@pytest.mark.parametrize("arch", sources.ARCHS)
def test_machine_code_for_every_architecture(tmp_path: Path, arch: str) -> None:
    binary = built(tmp_path, ADD + TILED, "add", "tiled<16, true>", arch=arch)
    assert binary.cubin.startswith(b"\x7fELF")
    assert binary.symbols["add"] == "add"
    assert binary.symbols["tiled<16, true>"].encode() in binary.cubin


def test_what_a_kernel_takes_is_read_from_the_assembler(tmp_path: Path) -> None:
    found = built(tmp_path, ADD + TILED, "add", "tiled<16, true>", "tiled<8, false>").resources
    assert 0 < found["add"].registers <= 255
    assert (found["add"].static_shared, found["add"].local, found["add"].threads_per_block) == (0, 0, 1024)
    assert (found["tiled<16, true>"].static_shared, found["tiled<16, true>"].threads_per_block) == (4 * 16 * 16, 256)
    assert (found["tiled<8, false>"].static_shared, found["tiled<8, false>"].threads_per_block) == (4 * 8 * 8, 64)


def test_local_memory_and_spills_are_seen(tmp_path: Path) -> None:
    array = """extern "C" __global__ void indexed(float* y, int k) {
        float a[64];
        for (int i = 0; i < 64; ++i) a[i] = y[i] * i;
        for (int i = 0; i < 64; ++i) a[(i * k) % 64] += a[i];
        y[k] = a[k];
    }"""
    assert built(tmp_path, array, "indexed").resources["indexed"].local >= 256
    many = """extern "C" __global__ void __launch_bounds__(1024, 2) spilling(const float* x, float* y) {
        float a[96];
        #pragma unroll
        for (int i = 0; i < 96; ++i) a[i] = x[i * 1024 + threadIdx.x];
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < 96; ++i) y[i * 1024 + threadIdx.x] = a[i] * a[95 - i];
    }"""
    taken = built(tmp_path, many, "spilling").resources["spilling"]
    assert taken.spill_stores > 0 and taken.spill_loads > 0 and taken.registers <= 32


def test_fast_division_has_no_branch_for_rare_numbers(tmp_path: Path) -> None:
    text = """extern "C" __global__ void divided(const float* x, float* y) {
        y[threadIdx.x] = x[threadIdx.x] / (sqrtf(y[threadIdx.x]) + 1.0f);
    }"""
    exact = built(tmp_path, text, "divided").cubin
    assert len(built(tmp_path, "// division: fast\n" + text, "divided").cubin) < len(exact)
    with pytest.raises(KernelError, match="'// division: quick' is unknown: write // division: fast"):
        built(tmp_path, "// division: quick\n" + text, "divided")


def test_kernels_in_namespaces_and_static_ones(tmp_path: Path) -> None:
    text = (
        "namespace mine { __global__ void inner(int* y) { *y = 1; } }\nstatic __global__ void outer(int* y) { *y = 2; }"
    )
    binary = built(tmp_path, text, "mine::inner", "outer")
    assert set(binary.resources) == {"mine::inner", "outer"}


def test_a_mistake_is_named_by_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(KernelError) as caught:
        built(
            tmp_path,
            '\n\nextern "C" __global__ void wrong(float* y) {\n    y[0] = nothing;\n    y[1] = more;\n}\n',
            "wrong",
        )
    assert str(caught.value) == f'{tmp_path / "some.cu"}:4: identifier "nothing" is undefined (and 1 more)'


def test_a_mistake_in_a_header_is_named_there(tmp_path: Path) -> None:
    write(tmp_path, "// shared code\n__device__ float half_of(float x) { return x / two; }\n", "mine.cuh")
    with pytest.raises(KernelError, match=r"mine\.cuh:2: identifier \"two\" is undefined"):
        built(tmp_path, '#include "mine.cuh"\nextern "C" __global__ void f(float* y) { *y = half_of(*y); }', "f")


def test_a_missing_header_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match=r"some\.cu:1: there is no header <regex>; .*none of the C\+\+ library"):
        built(tmp_path, '#include <regex>\nextern "C" __global__ void f(float* y) { *y = 1; }', "f")


def test_cudas_own_headers_are_found(tmp_path: Path) -> None:
    text = '#include <cuda_fp16.h>\nextern "C" __global__ void f(__half* y) { *y = __float2half(2.0f); }'
    assert built(tmp_path, text, "f").resources["f"].registers > 0


def test_what_only_the_assembler_refuses(tmp_path: Path) -> None:
    text = 'extern "C" __global__ void f(float* y) { __shared__ float s[20000]; s[threadIdx.x] = *y; __syncthreads(); *y = s[5]; }'
    with pytest.raises(KernelError, match=r"some\.cu: .*shared.*for sm_90"):
        built(tmp_path, text, "f")


def test_an_architecture_that_the_compiler_does_not_know(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match=r"some\.cu: NVRTC \d+\.\d+ cannot compile add for sm_42"):
        built(tmp_path, ADD, "add", arch="sm_42")


def test_an_instance_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match=r"some\.cu"):
        built(tmp_path, TILED, "tiled<nonsense, true>")


def test_what_a_source_declares(tmp_path: Path) -> None:
    text = (
        "// arch: sm_90a, sm_100a\n// instance: tiled<16, true>; tiled<8, true>\n// instance: tiled<8, false>\n// local memory: add: a table\n"
        + ADD
        + TILED
    )
    source = sources.read(write(tmp_path, text))
    assert source.archs == ("sm_90a", "sm_100a")
    assert source.instances == ("tiled<16, true>", "tiled<8, true>", "tiled<8, false>")
    assert source.local_memory == {"add": "a table"}
    assert sources.read(write(tmp_path, ADD, "plain.cu")).archs == sources.ARCHS
    with pytest.raises(KernelError, match="names no architecture"):
        sources.read(write(tmp_path, "// arch: hopper\n", "odd.cu")).archs  # noqa: B018
    with pytest.raises(KernelError, match="lacks a kernel or a reason"):
        sources.read(write(tmp_path, "// local memory: add\n", "odd2.cu")).local_memory  # noqa: B018


@pytest.mark.parametrize(
    ("declared", "capability", "wanted"),
    [
        ("", (9, 0), "own"),
        ("// arch: sm_90a\n", (9, 0), "sm_90a"),
        ("// arch: sm_80, sm_90a\n", (9, 0), "sm_90a"),
        ("// arch: sm_80, sm_90a\n", (10, 0), "own"),
        ("// arch: sm_100f\n", (10, 3), "sm_100f"),
        ("// arch: sm_100f\n", (12, 0), None),
        ("// arch: sm_80\n", (12, 0), "own"),
        ("// arch: sm_80\n", (7, 5), None),
        ("// arch: sm_90a\n", (10, 0), None),
    ],
)
def test_the_architecture_that_a_gpu_gets(
    tmp_path: Path, declared: str, capability: tuple[int, int], wanted: str | None
) -> None:
    source = sources.read(write(tmp_path, declared + ADD))
    if wanted is None:
        with pytest.raises(KernelError, match="is written for"):
            program.target(source, capability, "own")
    else:
        assert program.target(source, capability, "own") == wanted


def test_a_gpu_that_this_compiler_does_not_know() -> None:
    assert program.native((9, 0), "H100") == "sm_90"
    assert program.native((8, 6), "A10") == "sm_86"
    with pytest.raises(DeviceError, match=r"does not know Future \(compute capability 77\.0\)"):
        program.native((77, 0), "Future")


# The cache


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is really compiled."""
    done: list[str] = []

    def counted(source: sources.KernelSource, names: tuple[str, ...], arch: str) -> compile.Binary:
        done.append(arch)
        return compile.compile(source, names, arch)

    monkeypatch.setattr(cache, "compile", counted)
    return done


def test_a_kernel_is_compiled_once(tmp_path: Path, compilations: list[str]) -> None:
    source = sources.read(write(tmp_path, ADD))
    first = cache.compiled(source, ("add",), "sm_90")
    assert cache.compiled(source, ("add",), "sm_90") == first
    assert compilations == ["sm_90"]


def test_whatever_changes_the_code_changes_the_key(tmp_path: Path) -> None:
    header = write(tmp_path, "#define STEP 1\n", "step.cuh")
    path = write(tmp_path, '#include "step.cuh"\n' + ADD + TILED)
    keys = [
        cache.key(sources.read(path), ("add",), "sm_90"),
        cache.key(sources.read(path), ("add",), "sm_90a"),
        cache.key(sources.read(path), ("tiled<8, true>",), "sm_90"),
    ]
    header.write_text("#define STEP 2\n")
    os.utime(header, ns=(1, 1))  # an edit within a tick of the clock is told by its time or its size
    keys.append(cache.key(sources.read(path), ("add",), "sm_90"))
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "another version", "another's"])
def test_a_damaged_entry_is_compiled_again(tmp_path: Path, kept: Path, compilations: list[str], damage: str) -> None:
    source = sources.read(write(tmp_path, ADD))
    good = cache.compiled(source, ("add",), "sm_90")
    (entry,) = kept.glob("*.cubin")
    content = entry.read_bytes()
    other = cache.CUBINS.sealed(cache.encode(compile.Binary(b"code", {"other": "other"}, {"other": Resources()})))
    entry.write_bytes(
        {
            "empty": b"",
            "cut": content[: len(content) // 2],
            "flipped": content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
            "another version": content.replace(b"cubin 2", b"cubin 1", 1),
            "another's": other,
        }[damage]
    )
    assert cache.compiled(source, ("add",), "sm_90") == good
    assert compilations == ["sm_90", "sm_90"]
    assert entry.read_bytes() == content


def test_any_bytes_are_an_entry_or_are_not(tmp_path: Path) -> None:
    binary = built(tmp_path, ADD, "add")
    whole = cache.CUBINS.sealed(cache.encode(binary))
    assert cache.decode(cache.CUBINS.unsealed(whole) or b"") == binary
    random = np.random.default_rng(0)
    for _ in range(300):
        content = bytearray(whole)
        content[random.integers(len(content))] ^= 1 << random.integers(8)
        assert cache.CUBINS.unsealed(bytes(content)) is None
        assert cache.CUBINS.unsealed(whole[: random.integers(len(whole))]) is None


WRITER = """
import sys
import threading
from pathlib import Path
from warpladder.device import source
from warpladder.device.gpu import cache

cache.CUBINS.place = lambda: Path(sys.argv[2])
for _ in range(5):
    found = cache.compiled(source.read(sys.argv[1]), ("add",), "sm_90")
    assert found.cubin.startswith(b"\\x7fELF")
    for entry in Path(sys.argv[2]).glob("*.cubin"):
        entry.unlink(missing_ok=True)
"""


def test_processes_that_write_at_the_same_time_do_not_meet(tmp_path: Path, kept: Path) -> None:
    path = write(tmp_path, ADD)
    running = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(kept)]) for _ in range(4)]
    assert [process.wait(120) for process in running] == [0] * 4
    assert not [entry for entry in kept.iterdir() if entry.suffix != ".cubin"]


def test_the_oldest_entries_go_when_there_are_too_many(kept: Path) -> None:
    for age, name in enumerate(("new", "middle", "old")):
        entry = kept / f"{name}.cubin"
        entry.write_bytes(bytes(100))
        os.utime(entry, (10_000 - age, 10_000 - age))
    left = kept / ".x.cubin.0123abcd.tmp"
    left.write_bytes(b"")
    os.utime(left, (1, 1))
    prune(kept, cache.CUBINS.limits._replace(size=250), ".cubin")
    assert sorted(entry.name for entry in kept.iterdir()) == ["middle.cubin", "new.cubin"]


def test_without_a_folder_kernels_are_still_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compilations: list[str]
) -> None:
    place = write(tmp_path, "a file", "taken") / "cubin"
    monkeypatch.setattr(cache.CUBINS, "place", lambda: place)
    source = sources.read(write(tmp_path, ADD))
    with pytest.warns(UserWarning, match="compiled kernels cannot be stored"):
        assert cache.compiled(source, ("add",), "sm_90").cubin
    assert cache.compiled(source, ("add",), "sm_90").cubin
    assert len(compilations) == 2


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    write(tmp_path, "a file", "taken")
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / "taken"))
    with pytest.warns(UserWarning, match="every start compiles them again"):
        assert cache.CUBINS.folder() is None


# Launches


@pytest.fixture
def device() -> OfflineDevice:
    return OfflineDevice("sm_90")


def test_s1s_silent_failure_is_an_error_before_anything_is_sent(tmp_path: Path, device: OfflineDevice) -> None:
    """Report S1 launched blocks of 16 x 16 x 16 threads. They never ran, nobody asked for the error, and training went
    on.
    """
    kernel = device.kernel(write(tmp_path, ADD), "add")
    x, y = arrays(device, 100, 100)
    with pytest.raises(LaunchError) as caught:
        kernel.bind(7, (16, 16, 16), x, y, 100)
    message = str(caught.value)
    for part in (
        "kernel add ",
        "4,096 threads",
        "1,024",
        "grid (7, 1, 1)",
        "block (16, 16, 16)",
        "0 bytes dynamic",
        "H100",
    ):
        assert part in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("grid", "block", "options", "words"),
    [
        (0, 32, {}, "an empty grid"),
        ((4, 0), 32, {}, "an empty grid"),
        (4, 0, {}, "an empty block"),
        (4, (8, 8, 128), {}, "threads a block"),
        (4, (1, 1, 65), {}, r"blocks of at most \(1024, 1024, 64\)"),
        ((1, 70_000), 32, {}, "grids of at most"),
        (4, 32, {"shared": 227 * 1024 + 1}, "232,449 bytes of shared memory"),
        (4, 32, {"shared": -1}, "negative"),
        (1_000_000, 32, {"cooperative": True}, "wait for each other"),
        (8, 32, {"cluster": 3}, "does not divide the grid"),
        (34, 32, {"cluster": 17}, "17 blocks a cluster"),
        (4, 32, {"cluster": (1, 0)}, "an empty cluster"),
    ],
)
def test_launches_that_cannot_be(
    tmp_path: Path,
    device: OfflineDevice,
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    options: dict,
    words: str,
) -> None:
    kernel = device.kernel(write(tmp_path, ADD), "add")
    with pytest.raises(LaunchError, match=words):
        kernel.bind(grid, block, *arrays(device, 8, 8), 8, **options)


def test_launch_bounds_and_registers_count(tmp_path: Path, device: OfflineDevice) -> None:
    kernel = device.kernel(write(tmp_path, TILED), "tiled<16, true>")
    with pytest.raises(LaunchError, match=r"512 threads a block, and the kernel.*takes 256"):
        kernel.bind(1, (16, 32), *arrays(device, 512, 512))
    kernel.bind(1, (16, 16), *arrays(device, 256, 256))


def test_no_clusters_before_hopper(tmp_path: Path) -> None:
    device = OfflineDevice("sm_80")
    with pytest.raises(LaunchError, match="has no clusters"):
        device.kernel(write(tmp_path, ADD), "add").bind(4, 32, *arrays(device, 8, 8), 8, cluster=2)


def test_arguments_that_do_not_fit(tmp_path: Path, device: OfflineDevice) -> None:
    kernel = device.kernel(write(tmp_path, ADD), "add")
    x, y = arrays(device, 8, 8)
    wrong = device.empty((8,), np.float64)
    (foreign,) = arrays(OfflineDevice("sm_80"), 8)
    for given, words in (
        ((x, y), "takes 3 arguments, got 2"),
        ((x, wrong, 8), "float64"),
        ((x, foreign, 8), r"got one on A100 \(offline\)"),
        ((x, np.zeros(8, np.float32), 8), "got ndarray"),
        ((x, y, 8.5), "a number of that type"),
        ((x, y, 2**31), "cannot hold"),
    ):
        with pytest.raises(KernelError, match=words):
            kernel.bind(1, 32, *given)


def test_a_kernel_that_is_not_there(tmp_path: Path, device: OfflineDevice) -> None:
    with pytest.raises(KernelError, match="has no kernel 'sub'; it has add"):
        device.kernel(write(tmp_path, ADD), "sub")


def test_nothing_can_be_sent_or_read(tmp_path: Path, device: OfflineDevice) -> None:
    x, y = arrays(device, 8, 8)
    launch = device.kernel(write(tmp_path, ADD), "add").bind(1, 32, x, y, 8)
    with pytest.raises(DeviceError, match="only compiles and checks"):
        launch.send()
    with pytest.raises(DeviceError, match="nothing runs on"):
        x.download()
    with pytest.raises(LaunchError, match="must be alike"):
        x.upload(np.zeros(9, np.float32))


def test_memory_is_counted_and_its_end_foretold(device: OfflineDevice) -> None:
    kept = device.empty((1000,), what="weights")
    more = device.empty((500,), np.float64, what="weights")
    assert device.held == {"weights": 8000}
    assert more.address - kept.address >= 4000 and more.address % 256 == 0
    del kept
    assert device.held == {"weights": 4000}
    with pytest.raises(OutOfMemoryError, match=r"H100 .*activations 400,000\.0 MB, gradients 1\.0 MB.*smaller batch"):
        device.check_room({"gradients": 10**6, "activations": 400 * 10**9})
    with pytest.raises(OutOfMemoryError, match="activations"):
        device.empty((10**11,), what="activations")
    assert device.held == {"weights": 4000}


@pytest.mark.parametrize("arch", LIMITS)
def test_the_limits_are_those_of_the_architecture(arch: str) -> None:
    limits: Limits = LIMITS[arch]
    assert limits.shared_per_block <= limits.shared_opt_in <= limits.shared_per_multiprocessor
    assert OfflineDevice(arch).limits is limits


def test_limits_that_are_not_known() -> None:
    with pytest.raises(DeviceError, match="sm_42 are not known; there are sm_75"):
        OfflineDevice("sm_42")


# Compiling ahead


FAMILY = "template <int N> __global__ void scaled(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= N; }"


def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has compiled nothing."""
    program._program.cache_clear()
    program._binaries.clear()


def test_what_is_foreseen_is_compiled_with_the_first_that_has_to_be(
    tmp_path: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, FAMILY)
    asked: list[int] = []
    lines: list[str] = []

    def foreseen() -> list[tuple[Path, str]]:
        asked.append(len(compilations))
        return [(path, f"scaled<{n}>") for n in (1, 2, 3, 2)]

    device = OfflineDevice("sm_90")
    with device.precompiling(foreseen, lines.append):
        device.kernel(path, "scaled<2>")
        assert len(compilations) == 3 and asked == [0]
        for n in (1, 2, 3):
            device.kernel(path, f"scaled<{n}>")
        device.kernel(path, "scaled<4>")  # nobody foresaw it
    assert len(compilations) == 4 and asked == [0]
    begin, end = lines
    assert (
        begin.startswith("Compiling 3 kernels with ")
        and str(cache.CUBINS.folder()) in begin
        and end.startswith("Compiled in ")
    )
    fresh(monkeypatch)
    with OfflineDevice("sm_90").precompiling(foreseen, lines.append):
        OfflineDevice("sm_90").kernel(path, "scaled<3>")
    assert (
        len(compilations) == 4 and asked == [0] and len(lines) == 2
    )  # all are kept: nothing is foreseen, and nothing said


def test_what_is_kept_is_not_compiled_ahead(
    tmp_path: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, FAMILY)
    OfflineDevice("sm_90").kernel(path, "scaled<1>")
    fresh(monkeypatch)
    device = OfflineDevice("sm_90")
    with device.precompiling(lambda: [(path, f"scaled<{n}>") for n in (1, 2, 3)]):
        device.kernel(path, "scaled<1>")
        assert len(compilations) == 1
        device.kernel(path, "scaled<2>")
    assert len(compilations) == 3


def test_kernels_are_compiled_on_as_many_threads_as_there_are_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, meeting = write(tmp_path, FAMILY), threading.Barrier(3)
    real = compile.compile

    def together(source: sources.KernelSource, names: tuple[str, ...], arch: str) -> compile.Binary:
        meeting.wait(60)  # one after the other would wait for ever
        return real(source, names, arch)

    monkeypatch.setattr(cache, "compile", together)
    monkeypatch.setattr("warpladder.device.precompile.cores", lambda: 3)
    device = OfflineDevice("sm_90")
    with device.precompiling(lambda: [(path, f"scaled<{n}>") for n in (1, 2, 3)]):
        assert device.kernel(path, "scaled<1>").resources.registers


def test_a_kernel_that_does_not_compile_is_an_error_where_it_is_asked_for(tmp_path: Path) -> None:
    wrong = write(tmp_path, "template <int N> __global__ void broken(float* x) { *x = nothing; }", "wrong.cu")
    path, device = write(tmp_path, FAMILY), OfflineDevice("sm_90")
    with device.precompiling(lambda: [(wrong, "broken<1>"), (path, "scaled<1>"), (path, "scaled<2>")]):
        device.kernel(path, "scaled<1>")
        with pytest.raises(KernelError, match=r'wrong\.cu:1: identifier "nothing" is undefined'):
            device.kernel(wrong, "broken<1>")
