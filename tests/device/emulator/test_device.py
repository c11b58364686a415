"""`EmulatedDevice`: memory, errors, the cache of compiled kernels, and results that do not depend on how many threads
there are.
"""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from warpladder.device.emulator import EmulatedDevice, toolchain
from warpladder.device.emulator import device as emulated
from warpladder.errors import ConfigError, DeviceError, KernelError, LaunchError, OutOfMemoryError

HERE = Path(__file__).parent


def written(folder: Path, text: str) -> Path:
    path = folder / "kernel.cu"
    path.write_text(text)
    return path


@pytest.fixture
def device() -> EmulatedDevice:
    return EmulatedDevice()


def test_memory_is_aligned_counted_and_released(device):
    a = device.empty((3, 5), np.uint8, "images")
    b = device.zeros((7,), what="images")
    assert a.address % 256 == b.address % 256 == 0
    assert device.held == {"images": 15 + 28}
    view = a[1:]
    del a
    assert device.held == {"images": 43}, "a view keeps the memory"
    del view, b
    assert device.held == {}


def test_copies_go_where_they_should(device):
    host = np.arange(12, dtype=np.int32).reshape(3, 4)
    a, b = device.array(host), device.empty((3, 4), np.int32)
    device.copy(b, a)
    device.fill(a[:1], 0xFF)
    np.testing.assert_array_equal(b.download(), host)
    np.testing.assert_array_equal(a.download(), [[-1] * 4, *host[1:].tolist()])
    with pytest.raises(LaunchError, match="alike"):
        device.upload(a, host.astype(np.float32))
    with pytest.raises(LaunchError, match="alike"):
        device.copy(a, b[:2])
    with pytest.raises(LaunchError, match="not in the memory"):
        EmulatedDevice().fill(a, 0)


def test_memory_that_the_machine_has_not_is_refused_before_it_is_taken(device):
    with pytest.raises(OutOfMemoryError, match="dreams"):
        device.empty((2**50,), what="dreams")
    assert device.zeros((1,)).download() == 0


def test_streams_and_events_are_immediate(device):
    stream = device.new_stream()
    first = stream.record()
    a = device.array(np.ones(3, np.float32))
    second = stream.record()
    stream.wait(first)
    stream.synchronize()
    second.synchronize()
    assert second.seconds_since(first) >= 0
    assert a.download().sum() == 3


def test_a_launch_beyond_the_limits_is_refused(device, tmp_path):
    path = written(
        tmp_path,
        "__global__ void k(float* x) { __shared__ float s[8192]; s[threadIdx.x] = 0; x[threadIdx.x] = s[threadIdx.x]; }",
    )
    kernel, x = device.kernel(path, "k"), device.zeros((1024,))
    assert kernel.resources.static_shared == 32768
    with pytest.raises(LaunchError, match="4,096 threads"):
        kernel.bind(1, (16, 16, 16), x)
    with pytest.raises(LaunchError, match="232,448"):
        kernel.bind(1, 32, x, shared=200_000)
    kernel.bind(1, 1024, x, shared=199_000).send()


def test_launch_bounds_bind_here_too(device, tmp_path):
    path = written(
        tmp_path,
        "namespace a { constexpr int WARP = 32;\n"
        "template <typename T, int N> __global__ void __launch_bounds__(N * WARP, 2) k(T* x) { x[threadIdx.x] = 1; } }\n"
        'extern "C" __global__ __launch_bounds__(64) void plain(float* x) { x[threadIdx.x] = 1; }\n',
    )
    x = device.zeros((1024,))
    kernel = device.kernel(path, "a::k<float, 4>")
    kernel.bind(1, 128, x).send()
    with pytest.raises(
        LaunchError, match="129 threads a block, and the kernel, as compiled, with its launch bounds, takes 128"
    ):
        kernel.bind(1, 129, x)
    with pytest.raises(LaunchError, match="launch bounds, takes 64"):
        device.kernel(path, "plain").bind(1, 65, x)


def test_more_static_shared_memory_than_a_kernel_gets_is_refused(device, tmp_path):
    path = written(
        tmp_path,
        "__global__ void k(float* x) { __shared__ float s[12289]; s[threadIdx.x] = 0; x[threadIdx.x] = s[threadIdx.x]; }",
    )
    with pytest.raises(KernelError, match=r"49,156 bytes of static shared memory, and a kernel gets 49,152"):
        device.kernel(path, "k")


def test_a_compile_error_names_the_kernels_line(device, tmp_path):
    path = written(tmp_path, "\n__global__ void k(float* x) {\n    x[0] = y;\n}\n")
    with pytest.raises(KernelError, match=r"kernel\.cu:3: .*'?y'? was not declared") as error:
        device.kernel(path, "k")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "__shared__ float s[2][4];\n__global__ void k(float* x) { s[threadIdx.x / 4][threadIdx.x % 4] = x[threadIdx.x]; "
        "__syncthreads(); x[threadIdx.x] = 2 * s[threadIdx.x / 4][threadIdx.x % 4]; }\n",
        "__global__ void k(float* x) { float __shared__ s[8]; s[threadIdx.x] = x[threadIdx.x]; __syncthreads(); "
        "x[threadIdx.x] = 2 * s[threadIdx.x]; }\n",
    ],
)
def test_shared_memory_may_be_declared_outside_and_after_its_type(device, tmp_path, text):
    x = device.array(np.arange(8, dtype=np.float32))
    device.kernel(written(tmp_path, text), "k").bind(1, 8, x).send()
    np.testing.assert_array_equal(x.download(), 2 * np.arange(8))


def test_dynamic_shared_memory_may_be_declared_outside(device, tmp_path):
    path = written(
        tmp_path,
        "namespace a {\nextern __shared__ float s[];\n__global__ void k(float* x) { s[threadIdx.x] = x[threadIdx.x]; __syncthreads(); "
        "float* p = s + 1; x[threadIdx.x] = threadIdx.x == 31 ? s[0] : p[threadIdx.x]; }\n}\n",
    )
    x = device.array(np.arange(32, dtype=np.float32))
    device.kernel(path, "k").bind(1, 32, x, shared=128).send()
    np.testing.assert_array_equal(x.download(), np.roll(np.arange(32), -1))


def test_unknown_modes_and_orders_are_refused():
    with pytest.raises(ConfigError, match="modes fast, check, asan"):
        EmulatedDevice(mode="slow")
    with pytest.raises(ConfigError, match="forward, reverse, random"):
        EmulatedDevice(order="sideways")
    with pytest.raises(ConfigError, match="at least one thread"):
        EmulatedDevice(threads=0)


def test_asan_without_its_libraries_says_how_to_get_them():
    with pytest.raises(DeviceError, match=r"python -m warpladder\.device\.emulator\.asan"):
        EmulatedDevice(mode="asan")


def test_without_a_compiler_one_line_says_what_to_install():
    code = "import warpladder.device.emulator as e; print(e.why_not()); e.EmulatedDevice()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"CXX": "no-such-compiler"}, capture_output=True, text=True
    )
    assert "no-such-compiler" in done.stdout
    assert "apt install g++" in done.stdout
    assert done.stderr.splitlines()[-1] == f"warpladder.errors.DeviceError: {done.stdout.strip()}"


def test_a_compiled_kernel_is_kept_and_a_header_that_changes_is_noticed(tmp_path, monkeypatch):
    device = EmulatedDevice()
    (tmp_path / "scale.cuh").write_text("constexpr float SCALE = 2.0f;")
    path = written(tmp_path, '#include "scale.cuh"\n__global__ void k(float* x) { x[0] *= SCALE; }')
    x = device.array(np.ones(1, np.float32))
    device.kernel(path, "k").bind(1, 1, x).send()
    assert x.download() == 2
    with monkeypatch.context() as patch:
        patch.setattr(toolchain, "made", lambda *_: pytest.fail("compiled again"))
        EmulatedDevice().kernel(path, "k")
    (tmp_path / "scale.cuh").write_text("constexpr float SCALE = 3.0f;")
    os.utime(path, ns=(1, 1))
    device.kernel(path, "k").bind(1, 1, x).send()
    assert x.download() == 6


FAMILY = """template <int N> __global__ void scaled(float* x) { x[threadIdx.x] *= N; }
__global__ void one(float* x) { *x = 1; }
__global__ void two(float* x) { *x = 2; }"""


@pytest.fixture
def nothing_kept(tmp_path, monkeypatch):
    """A folder of its own for compiled kernels, in which nothing is; the runtime is where it was."""
    toolchain.runtime("fast")
    kept = tmp_path / "kept"
    kept.mkdir()
    for place in (toolchain, emulated):
        monkeypatch.setattr(place, "folder", lambda: kept)
    toolchain._parsed.cache_clear()
    yield kept
    toolchain._parsed.cache_clear()


def test_what_is_foreseen_is_compiled_at_the_same_time(device, tmp_path, monkeypatch, nothing_kept):
    path, meeting = written(tmp_path, FAMILY), threading.Barrier(3)
    lines: list[str] = []
    asked: list[int] = []
    real = toolchain.made

    def made(name, arguments, what, text=None):
        if name.endswith(".o"):
            meeting.wait(60)  # one after the other would wait for ever
        return real(name, arguments, what, text)

    def foreseen():
        asked.append(1)
        return [
            (path, name) for name in ("scaled<2>", "one", "scaled<3>", "two", "scaled<2>")
        ]  # two and one are compiled together

    monkeypatch.setattr("warpladder.device.precompile.cores", lambda: 3)
    monkeypatch.setattr(toolchain, "made", made)
    with device.precompiling(foreseen, lines.append):
        device.kernel(path, "two")
    monkeypatch.setattr(toolchain, "made", None)  # nothing is compiled any more
    for name in ("one", "two", "scaled<2>", "scaled<3>"):
        device.kernel(path, name)
    begin, end = lines
    assert begin == f"Compiling 3 kernels with 3 threads; later runs find them in {nothing_kept}" and end.startswith(
        "Compiled in "
    )
    fresh = EmulatedDevice()
    with fresh.precompiling(foreseen, lines.append):
        fresh.kernel(path, "scaled<2>")
    assert len(lines) == 2 and asked == [1]  # all are kept: nothing is foreseen, and nothing said


def test_a_kernel_that_cannot_be_translated_is_told_whoever_asks_for_it(device, tmp_path, nothing_kept):
    wrong = tmp_path / "wrong.cu"
    wrong.write_text("template <int N> __global__ void broken(float* x) { *x = nothing; }")
    path = written(tmp_path, FAMILY)
    with device.precompiling(lambda: [(wrong, "broken<1>"), (path, "scaled<1>"), (path, "scaled<2>")]):
        device.kernel(path, "scaled<1>")
        with pytest.raises(KernelError, match=r"wrong\.cu:1: .*nothing"):
            device.kernel(wrong, "broken<1>")


@pytest.mark.parametrize("mode", ["fast", "check"])
def test_the_emulators_headers_are_parsed_once_for_all_kernels(tmp_path, monkeypatch, mode):
    commands, made = [], toolchain.made

    def remembered(name, arguments, *more):
        commands.append(arguments)
        return made(name, arguments, *more)

    monkeypatch.setattr(toolchain, "made", remembered)
    EmulatedDevice(mode=mode).kernel(written(tmp_path, "__global__ void k(float* x) { *x = 1; }"), "k")
    (command,) = [arguments for arguments in commands if "-c" in arguments]
    command = [*toolchain.compiler().command, *command, "-H", "-o", os.devnull]
    said = subprocess.run(command, input='#include "emulator.h"', capture_output=True, text=True, check=True).stderr
    assert re.search(r"^! .*emulator\.h\.gch$", said, re.MULTILINE), said


def test_results_do_not_depend_on_the_number_of_threads():
    host = np.random.default_rng(0).standard_normal(64 * 500).astype(np.float32)
    results = []
    for threads in (1, 2, 5):
        device = EmulatedDevice(threads=threads)
        part, total = device.empty((500,)), device.empty((1,))
        kernel = device.kernel(HERE / "correct" / "grid.cu", "last_block")
        kernel.bind(500, 64, device.array(host), part, device.zeros((1,), np.uint32), total).send()
        results.append((part.download().tobytes(), total.download().tobytes()))
    assert len(set(results)) == 1


def test_kernels_print(tmp_path):
    path = written(
        tmp_path, '#include <cstdio>\n__global__ void k(int n) { printf("thread %d of %d\\n", threadIdx.x, n); }'
    )
    code = f"from warpladder.device.emulator import EmulatedDevice as E; E().kernel({str(path)!r}, 'k').bind(1, 3, 3).send()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "thread 0 of 3\nthread 1 of 3\nthread 2 of 3\n"


def test_launches_work_in_a_child_process(device):
    kernel = device.kernel(HERE / "correct" / "grid.cu", "histogram")
    bins = device.zeros((16,), np.int32)
    launch = kernel.bind(64, 64, device.zeros((4096,), np.int32), bins, 4096)
    launch.send()
    child = os.fork()
    if child == 0:
        launch.send()
        os._exit(0 if bins.download()[0] == 8192 else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.nightly
def test_the_portable_switch_of_stacks_computes_the_same():
    """What other processors use in the place of the x86-64 assembly."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from warpladder.device.emulator import toolchain\n"
        "toolchain._RUNTIME_FLAGS['fast'] += ('-DEMU_UCONTEXT',)\n"
        "import correct_samples as c\n"
        "for run in c.CASES: c.every_order('fast', run)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(HERE)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("order", ["forward", "reverse", "random"])
def test_the_fast_mode_notices_barriers_that_cannot_work(order):
    bugs = HERE / "bugs"
    device = EmulatedDevice(order=order)
    with pytest.raises(
        KernelError,
        match=r"full_mask_in_a_branch: __shfl_down_sync at masks\.cu:9 has the mask 0xffffffff .* lanes 16-31 do not come",
    ):
        device.kernel(bugs / "masks.cu", "full_mask_in_a_branch").bind(
            1, 32, device.zeros((32,)), device.zeros((32,))
        ).send()
    with pytest.raises(
        KernelError, match=r"early_return: some threads (have left|leave) the kernel .* barriers\.cu:20"
    ):
        device.kernel(bugs / "barriers.cu", "early_return").bind(
            1, 64, device.zeros((64,)), device.zeros((64,)), 40
        ).send()
    with pytest.raises(KernelError, match=r"two_barriers: threads of one block wait at different barriers: .*:30.*:32"):
        device.kernel(bugs / "barriers.cu", "two_barriers").bind(1, 64, device.zeros((64,)), device.zeros((64,))).send()
    with pytest.raises(KernelError, match=r"flag_that_nobody_sets: nothing can go on"):
        device.kernel(bugs / "endless.cu", "flag_that_nobody_sets").bind(2, 32, device.zeros((1,), np.int32)).send()
    x = device.array(np.ones(4096, np.float32))
    device.kernel(HERE / "correct" / "block.cu", "double_buffer").bind(1, 128, x, device.zeros((128,)), 5).send()
