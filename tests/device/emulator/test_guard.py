"""Kernels that would end the process: the launch ends, and the process goes on with an error or a signal."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from warpladder.device.emulator import EmulatedDevice, toolchain, why_not
from warpladder.device.emulator.whole import is_whole
from warpladder.errors import KernelError

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

KERNELS = """
extern "C" __global__ void wild(float* x, long far) { x[threadIdx.x + far] = 1.0f; }
extern "C" __global__ void divided(int* x, int by) { x[threadIdx.x] = x[threadIdx.x] / by; }
extern "C" __global__ void endless(volatile float* x) { while (true) x[threadIdx.x] = 2.0f; }
extern "C" __global__ void deep(float* x) {
    volatile float many[1 << 20];
    for (int i = 0; i < 1 << 20; i += 512) many[i] = x[0];
    x[0] = many[512];
}
extern "C" __global__ void right(float* x) { x[threadIdx.x] += 1.0f; }
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kernels") / "mine.cu"
    path.write_text(KERNELS)
    return path


@pytest.mark.parametrize("blocks", [1, 64])
def test_a_wild_kernel_is_an_error_that_names_the_line_and_the_process_goes_on(file, blocks):
    device = EmulatedDevice()
    x, n = device.empty((32,)), device.empty((32,), np.int32)
    device.upload(x, np.ones(32, np.float32))
    device.upload(n, np.ones(32, np.int32))
    for name, more, words in (
        ("wild", (x, 1 << 40), "reads or writes outside of all arrays at mine.cu:2"),
        ("divided", (n, 0), "divides by zero at mine.cu:3"),
        ("deep", (x,), "has filled its stack of 512 KB at mine.cu:"),
    ):
        for _ in range(2):
            with pytest.raises(KernelError) as error:
                device.kernel(file, name).bind(blocks, 32, *more).send()
            assert words in str(error.value) and f"run `warpladder check {file}`" in str(error.value)
    device.kernel(file, "right").bind(1, 32, x).send()
    host = np.empty(32, np.float32)
    device.download(host, x)
    assert (host == 2).all()


def test_a_frame_larger_than_the_stack_writes_to_no_memory_of_others(file):
    """The stack's guard page stops it, however far below the frame ends."""
    device = EmulatedDevice()
    x = device.empty((32,))
    device.upload(x, np.ones(32, np.float32))
    device.kernel(file, "right").bind(1, 32, x).send()  # the stacks are there now: memory that is mapped later is below
    others = [mmap.mmap(-1, 1 << 20) for _ in range(64)]
    with pytest.raises(KernelError):
        device.kernel(file, "deep").bind(1, 32, x).send()
    assert not any(any(each[:]) for each in others)


ENDLESS = """
import sys
from warpladder.device.emulator import EmulatedDevice
device = EmulatedDevice()
launch = device.kernel(sys.argv[1], "endless").bind(4, 32, device.empty((32,)))
print("begins", flush=True)
try:
    launch.send()
except KeyboardInterrupt as error:
    print(type(error).__name__, flush=True)
"""


def test_an_endless_kernel_can_be_stopped(file):
    process = subprocess.Popen([sys.executable, "-c", ENDLESS, str(file)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "begins\n"
    time.sleep(0.5)  # signals are noted during a launch that lasts
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and out in ("KeyboardInterrupt\n", "Stopped\n")


def test_a_compiled_file_that_was_cut_off_is_made_anew(file, monkeypatch, tmp_path):
    device = EmulatedDevice()
    first = device.kernel(file, "right").function.library
    copy = tmp_path / first.name
    content = first.read_bytes()
    copy.write_bytes(content)
    assert is_whole(copy)
    for damaged in (b"", content[: len(content) // 2], content[:-1], content[:99] + b"\0" * 4096 + content[4195:]):
        copy.write_bytes(damaged)
        os.utime(copy, ns=(1, len(damaged)))
        assert not is_whole(copy)
    monkeypatch.setattr(toolchain, "folder", lambda: tmp_path)
    made = toolchain.made(first.name, ["-shared", "-x", "c++", os.devnull], "nothing")
    assert made == copy and is_whole(copy)
