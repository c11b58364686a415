"""The GPU layer on a driver that pretends (tests/support/pretended_driver.c): what it asks of the driver, and what it
makes of its errors.

Kernels do nothing there; tests/gpu runs them on a GPU.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings", reason="CUDA's libraries are not installed: scripts/setup test nvrtc")
pytest.importorskip("cuda.core", reason="CUDA's libraries are not installed: scripts/setup test nvrtc")

COMPILER = shutil.which("cc")
pytestmark = [
    pytest.mark.nvrtc,
    pytest.mark.skipif(
        COMPILER is None or sys.platform != "linux", reason="the pretended driver needs Linux and a C compiler"
    ),
]

BEGIN = """
import gc, os, threading, numpy as np
from warpladder.device import gpu
from warpladder.errors import *
def refused(kind, work):
    try:
        work()
    except kind as error:
        print(f"{type(error).__name__}: {error}")
    else:
        raise AssertionError("nothing was raised")
"""

DEVICE = """
device = gpu.GpuDevice()
kernel = device.kernel("KERNEL", "scale")
x, y = device.array(np.arange(8, dtype=np.float32), "input"), device.zeros((8,), what="output")
launch = kernel.bind(2, 32, x, y, 8, 2.5, 7)
"""

KERNEL = """extern "C" __global__ void scale(const float* x, float* y, int n, float a, unsigned char b) {
    extern __shared__ float s[];
    s[threadIdx.x] = a;
    if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] * s[threadIdx.x] + b;
}
"""


@pytest.fixture(scope="module")
def pretended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    (folder / "scale.cu").write_text(KERNEL)
    source = Path(__file__).parents[1] / "support" / "pretended_driver.c"
    subprocess.run(
        [str(COMPILER), "-O1", "-shared", "-fPIC", "-o", folder / "libcuda.so.1", source, "-ldl"], check=True
    )
    return folder


def run(pretended: Path, code: str, **wrong: object) -> list[str]:
    """The lines that a program prints on the pretended driver."""
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(pretended),
        "XDG_CACHE_HOME": str(pretended),
        "PATH": "/usr/bin:/bin",
    }
    environment |= {f"PRETEND_{name}": str(value) for name, value in wrong.items()}
    program = (BEGIN + code).replace("KERNEL", str(pretended / "scale.cu"))
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "Exception ignored" not in done.stderr, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            {"DRIVER": 12040},
            "the NVIDIA driver is too old: it knows CUDA 12.4, and the installed libraries are for CUDA 13; install driver 580",
        ),
        ({"GPUS": 0}, "there is no NVIDIA GPU"),
        ({"INIT": 100}, "the NVIDIA driver does not start: something else went wrong"),
        ({"MAJOR": 6}, "Pretended GPU is too old: it has compute capability 6.0, and the kernels need 7.5"),
    ],
)
def test_why_a_gpu_cannot_be_used(pretended: Path, wrong: dict[str, int], words: str) -> None:
    said, raised = run(pretended, "print(gpu.why_not())\nrefused(DeviceError, gpu.GpuDevice)", **wrong)
    assert words in said
    assert "the CPU rungs work without it, and so does --device emulated" in said
    assert raised == f"DeviceError: {said}"


def test_a_gpu_that_is_not_there(pretended: Path) -> None:
    assert run(pretended, "refused(DeviceError, lambda: gpu.GpuDevice(3))")[0].startswith(
        "DeviceError: there is no GPU 3: this machine has 1"
    )


def test_no_driver_at_all(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_bytes(b"not a library")
    (said,) = run(tmp_path, "print(gpu.why_not())")
    assert said.startswith("there is no NVIDIA driver")


def test_cuda_is_not_installed(pretended: Path) -> None:
    hidden = """
import importlib.metadata as metadata
from warpladder.device.gpu import support
def nothing(name):
    raise metadata.PackageNotFoundError(name)
support.installed = nothing
print(gpu.why_not())
"""
    (said,) = run(pretended, hidden)
    assert said.startswith("cuda-core is not installed: pip install 'warpladder[cuda13]'; the CPU rungs work")


def test_asking_makes_no_context_and_the_facts_are_told(pretended: Path) -> None:
    code = """
import cuda.bindings.driver as driver
driver.cuDevicePrimaryCtxRetain = None
assert gpu.why_not() is None
print(gpu.facts())
"""
    (said,) = run(pretended, code)
    for part in (
        "'name': 'Pretended GPU'",
        "'capability': '9.0'",
        "'multiprocessors': 132",
        "'cuda': '13.0'",
        "'clock_mhz': None",
    ):
        assert part in said


def test_a_launch_sends_what_was_bound(pretended: Path) -> None:
    code = (
        DEVICE
        + """
launch.send()
launch.send(device.new_stream())
kernel.bind((3, 2), (8, 4), x, None, -1, 0.5, 255, shared=100).send()
kernel.bind(4, 32, x, y, 1, 1.0, 1, cooperative=True, cluster=2).send()
"""
    )
    assert run(pretended, code) == [
        "launch grid 2 1 1 block 32 1 1 shared 0 attributes 0 values 8 2.5 7",
        "launch grid 2 1 1 block 32 1 1 shared 0 attributes 0 values 8 2.5 7",
        "launch grid 3 2 1 block 8 4 1 shared 100 attributes 0 values -1 0.5 255",
        "launch grid 4 1 1 block 32 1 1 shared 0 attributes 2 values 1 1 1",
    ]


def test_shared_memory_beyond_the_default_is_asked_for_once(pretended: Path) -> None:
    code = (
        DEVICE
        + "for shared in (1000, 50_000, 60_000, 50_000, 60_000):\n    kernel.bind(1, 32, x, y, 8, 1.0, 1, shared=shared)"
    )
    assert run(pretended, code) == ["attribute 8 = 50000", "attribute 8 = 60000"]


def test_blocks_that_wait_for_each_other_must_fit(pretended: Path) -> None:
    code = (
        DEVICE
        + """
refused(LaunchError, lambda: kernel.bind(265, 32, x, y, 8, 1.0, 1, cooperative=True))
refused(LaunchError, lambda: kernel.bind(136, 32, x, y, 8, 1.0, 1, cooperative=True, cluster=8))
"""
    )
    blocks, clusters = run(pretended, code)
    assert "265 blocks that wait for each other, and Pretended GPU runs 264" in blocks
    assert "17 clusters of (8, 1, 1) at the same time, and Pretended GPU holds 16" in clusters


def test_arrays_come_and_go(pretended: Path) -> None:
    code = (
        DEVICE
        + """
print(x.download().tolist(), device.held)
y.upload(np.full(8, 3, np.float32))
device.copy(x, y)
print(x.download().sum())
device.fill(x, 0)
print(x[2:4].download().tolist())
free = device.free_memory()
del x, launch
print(device.held, device.free_memory() - free)
view = device.empty((4, 4), what="view")[1:3]
gc.collect()
print(device.held["view"])
"""
    )
    assert run(pretended, code) == [
        "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0] {'input': 32, 'output': 32}",
        "24.0",
        "[0.0, 0.0]",
        "{'input': 0, 'output': 32} 32",
        "64",
    ]


def test_copies_from_page_locked_memory_are_only_queued(pretended: Path) -> None:
    """A copy that is waited for synchronizes, which the pretended driver can be told to fail at."""
    code = (
        DEVICE
        + """
stream, host = device.new_stream(), device.pinned((16,))
os.environ["PRETEND_SYNC"] = "700"
y.upload(host[4:12], stream)
device.download(host[:8], x, stream)
refused(DeviceError, lambda: y.upload(host[:8]))
refused(DeviceError, lambda: y.upload(np.zeros(8, np.float32), stream))
refused(DeviceError, lambda: x.download())
"""
    )
    assert [line.partition(":")[0] for line in run(pretended, code)] == ["DeviceError"] * 3


def test_copies_that_cannot_be(pretended: Path) -> None:
    code = (
        DEVICE
        + """
refused(LaunchError, lambda: x.upload(np.zeros(9, np.float32)))
refused(LaunchError, lambda: x.upload(np.zeros(8)))
refused(LaunchError, lambda: x.upload(np.zeros(16, np.float32)[::2]))
refused(LaunchError, lambda: device.copy(x, device.zeros((9,))))
frozen = np.zeros(8, np.float32)
frozen.flags.writeable = False
refused(LaunchError, lambda: device.download(frozen, x))
refused(LaunchError, lambda: launch.send(gpu.OfflineDevice().stream))
"""
    )
    assert len(run(pretended, code)) == 6


def test_another_thread_may_use_it(pretended: Path) -> None:
    code = (
        DEVICE
        + """
def work():
    launch.send()
    print(x.download()[1])
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
    )
    assert run(pretended, code)[1:] == ["1.0"]


def test_running_out_of_memory_leaves_it_usable(pretended: Path) -> None:
    code = (
        DEVICE
        + """
refused(OutOfMemoryError, lambda: device.empty((2**30,), what="activations"))
refused(OutOfMemoryError, lambda: device.check_room({"activations": 2**32, "gradients": 2**20}))
print(device.held)
print(device.zeros((10,)).download().sum())
"""
    )
    out, foretold, held, still = run(pretended, code)
    assert "Pretended GPU has 1,073.7 MB of memory free, and this needs 4,295.0 MB more: activations 4,295.0 MB" in out
    assert "activations 4,295.0 MB, gradients 1.0 MB" in foretold
    assert held == "{'input': 32, 'output': 32}"
    assert still == "0.0"


def test_a_launch_that_the_driver_refuses(pretended: Path) -> None:
    launched, said = run(pretended, DEVICE + "refused(LaunchError, launch.send)", LAUNCH=701)
    assert launched.startswith("launch")
    assert said.startswith(
        "LaunchError: Pretended GPU refuses to launch <scale grid (2, 1, 1) block (32, 1, 1) shared 0>: something else went wrong"
    )


def test_a_kernel_that_fails_loses_the_gpu_and_says_so(pretended: Path) -> None:
    code = DEVICE + "launch.send()\nos.environ['PRETEND_SYNC'] = '700'\nrefused(DeviceError, device.synchronize)"
    launched, said = run(pretended, code)
    assert launched.startswith("launch")
    assert "an illegal memory access was encountered" in said
    assert "<scale grid (2, 1, 1) block (32, 1, 1) shared 0> or in a launch before it" in said
    assert "must be started again" in said and "CUDA_LAUNCH_BLOCKING=1" in said


def test_graphs(pretended: Path) -> None:
    code = (
        DEVICE
        + """
graph = device.graph([launch, launch])
print(graph.nodes)
graph.send()
graph.send(device.new_stream())
def fails(stream):
    raise ZeroDivisionError
refused(ZeroDivisionError, lambda: gpu.GpuGraph(device, fails))
"""
    )
    assert run(pretended, code)[2:] == ["2", "graph", "graph", "ZeroDivisionError: "]


def test_events(pretended: Path) -> None:
    code = (
        DEVICE
        + """
other = device.new_stream()
first = other.record()
device.stream.wait(first)
last = device.stream.record()
last.synchronize()
print(last.seconds_since(first))
del first
assert len(device.events) == 1
device.stream.record()
refused(DeviceError, lambda: last.seconds_since(gpu.OfflineDevice().stream.record()))
refused(DeviceError, lambda: other.wait(gpu.OfflineDevice().stream.record()))
"""
    )
    assert run(pretended, code)[0] == "0.0025"
