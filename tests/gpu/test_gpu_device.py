"""The GPU layer on a GPU: launches, copies, streams, graphs, limits, and what it makes of errors."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="CUDA's libraries are not installed: scripts/setup test nvrtc")
pytest.importorskip("cuda.core", reason="CUDA's libraries are not installed: scripts/setup test nvrtc")

from warpladder.device import Array, gpu
from warpladder.device.gpu import cache, compile, program
from warpladder.device.gpu.device import GpuDevice
from warpladder.errors import DeviceError, KernelError, LaunchError, OutOfMemoryError

if gpu.why_not() is not None:
    pytest.skip(str(gpu.why_not()), allow_module_level=True)

KERNELS = """
extern "C" __global__ void axpy(const float* x, float* y, int n, float a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
extern "C" __global__ void kinds(double* out, int a, long long b, float c, double d, unsigned char e, bool f, const int* none) {
    out[0] = a; out[1] = b; out[2] = c; out[3] = d; out[4] = e; out[5] = f; out[6] = none == nullptr;
}
// Every block writes, and adds up what the others wrote after all have: only right where all run at the same time.
extern "C" __global__ void gathering(int* written, unsigned int* arrived, int* out) {
    if (threadIdx.x == 0) {
        written[blockIdx.x] = blockIdx.x + 1;
        __threadfence();
        atomicAdd(arrived, 1u);
        while (*static_cast<volatile unsigned int*>(arrived) < gridDim.x) { }
        __threadfence();
        int sum = 0;
        for (int block = 0; block < gridDim.x; ++block) sum += static_cast<volatile int*>(written)[block];
        out[blockIdx.x] = sum;
    }
}
extern "C" __global__ void reversed(const float* x, float* y, int n) {
    extern __shared__ float held[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) held[i] = x[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = held[n - 1 - i];
}
// Turns until the clock has moved on by this many nanoseconds.
extern "C" __global__ void busy(long long nanoseconds) {
    long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - start < nanoseconds);
}
extern "C" __global__ void nothing(int* x) { }
extern "C" __global__ void strays(float* y) { y[1LL << 40] = 1.0f; }
template <class T, int N> __global__ void fills(T* y) { if (threadIdx.x < N) y[threadIdx.x] = N; }
"""

CLUSTERED = """
extern "C" __global__ void ranks(int* out) {
    unsigned int rank;
    asm("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) out[blockIdx.x] = rank;
}
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("kernels") / "some.cu"
    file.write_text(KERNELS)
    return file


@pytest.fixture(scope="module")
def device() -> GpuDevice:
    return GpuDevice()


@pytest.fixture(autouse=True)
def unharmed(device: GpuDevice) -> Iterator[None]:
    """No test leaves an error behind."""
    yield
    device.synchronize()


def random(size: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=size).astype(np.float32)


def pair(device: GpuDevice, size: int) -> tuple[np.ndarray, Array, Array]:
    host = random(size)
    return host, device.array(host), device.zeros((size,))


def test_what_the_gpu_is(device: GpuDevice) -> None:
    facts, limits = gpu.facts(), device.limits
    assert facts["name"] == device.name == limits.device
    assert facts["memory_bytes"] == limits.memory > 1 << 30
    assert limits.multiprocessors >= 1 and limits.threads_per_block == 1024
    assert 48 << 10 <= limits.shared_per_block <= limits.shared_opt_in <= limits.shared_per_multiprocessor
    assert limits.flops and 1e12 < limits.flops < 1e15
    assert facts["driver"] and facts["clock_most_mhz"]
    assert 0 < device.free_memory() <= limits.memory


@pytest.mark.parametrize("size", [1, 31, 1000, 1_000_003])
def test_a_launch_computes(device: GpuDevice, path: Path, size: int) -> None:
    host, x, y = pair(device, size)
    launch = device.kernel(path, "axpy").bind(-(-size // 256), 256, x, y, size, 3.0)
    launch.send()
    launch.send()
    wanted = np.zeros(size, np.float32)
    for _ in range(2):
        wanted = (np.float64(3) * host + wanted).astype(np.float32)
    found = y.download()
    np.testing.assert_array_equal(found, wanted)  # a multiply-add rounds once, as float64 rounded to float32 does here


def test_every_kind_of_number_arrives(device: GpuDevice, path: Path) -> None:
    out = device.zeros((7,), np.float64)
    device.kernel(path, "kinds").bind(1, 1, out, -7, -(2**40), 0.1, 0.1, 255, True, None).send()
    assert out.download().tolist() == [-7, -(2**40), float(np.float32(0.1)), 0.1, 255, 1, 1]


@pytest.mark.parametrize(
    ("type_name", "dtype"),
    [("float", np.float32), ("double", np.float64), ("int", np.int32), ("unsigned char", np.uint8)],
)
def test_instances_of_templates(device: GpuDevice, path: Path, type_name: str, dtype: type) -> None:
    y = device.zeros((32,), dtype)
    device.kernel(path, f"fills<{type_name}, 20>").bind(1, 32, y).send()
    assert y.download().tolist() == [20] * 20 + [0] * 12


def test_views_and_copies(device: GpuDevice) -> None:
    host = random(60).reshape(5, 12)
    x = device.array(host)
    np.testing.assert_array_equal(x[1:3].download(), host[1:3])
    x[4:5].upload(np.ones((1, 12), np.float32))
    y = device.empty((2, 6))
    device.copy(y, x[4:5].reshape(2, 6))
    assert y.download().tolist() == [[1.0] * 6] * 2
    device.fill(y, 0xFF)
    assert np.isnan(y.download()).all()
    assert device.empty((0, 3)).download().shape == (0, 3)


def test_memory_is_released_and_counted(device: GpuDevice) -> None:
    gc.collect()
    device.synchronize()
    before, size = device.free_memory(), 256 << 20
    array = device.empty((size,), np.uint8, what="a test's")
    assert device.held["a test's"] == size
    assert before - device.free_memory() >= size
    del array
    assert device.held["a test's"] == 0
    assert device.free_memory() >= before


def test_memory_stays_while_a_launch_needs_it(device: GpuDevice, path: Path) -> None:
    host, x, y = pair(device, 1000)
    launch = device.kernel(path, "axpy").bind(4, 256, x, y, 1000, 1.0)
    del x
    gc.collect()
    others = [device.array(np.full(1000, 5, np.float32)) for _ in range(20)]
    launch.send()
    np.testing.assert_array_equal(y.download(), host)
    assert len(others) == 20


def test_running_out_of_memory_leaves_it_usable(device: GpuDevice, path: Path) -> None:
    with pytest.raises(OutOfMemoryError, match=r"activations [\d,.]+ MB"):
        device.empty((device.limits.memory,), np.float32, what="activations")
    with pytest.raises(OutOfMemoryError, match=r"activations .*gradients"):
        device.check_room({"activations": device.limits.memory, "gradients": 1 << 20})
    test_a_launch_computes(device, path, 1000)


def test_copies_overlap_with_kernels(device: GpuDevice, path: Path) -> None:
    """Told by events: the copy on one stream ends before the kernel on the other does."""
    other, size = device.new_stream(), 8 << 20
    host, x = device.pinned((size,), np.uint8), device.empty((size,), np.uint8)
    host[:] = np.arange(size, dtype=np.uint8)
    work = device.kernel(path, "busy").bind(1, 1, 20_000_000)
    x.upload(host, other)
    work.send()
    device.synchronize()
    began = device.stream.record()
    work.send()
    x.upload(host, other)
    copied, worked = other.record(), device.stream.record()
    device.synchronize()
    assert 0.0199 < worked.seconds_since(began) < 0.1
    assert copied.seconds_since(began) < worked.seconds_since(began) / 2
    np.testing.assert_array_equal(x.download(), host)


def test_a_stream_waits_for_anothers_event(device: GpuDevice, path: Path) -> None:
    host, x, y = pair(device, 1000)
    other = device.new_stream()
    for _ in range(20):
        device.fill(y, 0)
        device.kernel(path, "busy").bind(1, 1, 1_000_000).send()
        device.kernel(path, "axpy").bind(4, 256, x, y, 1000, 2.0).send()
        other.wait(device.stream.record())
        device.kernel(path, "axpy").bind(4, 256, x, y, 1000, -1.0).send(other)
        device.stream.wait(other.record())
        np.testing.assert_array_equal(y.download(), host)


def test_a_queued_copy_returns_at_once(device: GpuDevice, path: Path) -> None:
    host, x = device.pinned((1000,)), device.zeros((1000,))
    host[:] = random(1000)
    device.kernel(path, "busy").bind(1, 1, 30_000_000).send()
    began = time.perf_counter()
    x.upload(host[:1000], device.stream)
    assert time.perf_counter() - began < 0.02
    np.testing.assert_array_equal(x.download(), host)


def test_downloads_to_page_locked_memory(device: GpuDevice) -> None:
    host, x = random(1000), device.array(random(1000))
    target = device.pinned((1000,))
    device.download(target, x, device.stream)
    device.stream.synchronize()
    np.testing.assert_array_equal(target, host)


def test_a_graph_does_what_its_parts_do(device: GpuDevice, path: Path) -> None:
    host, x, y = pair(device, 1000)
    add = device.kernel(path, "axpy").bind(4, 256, x, y, 1000, 1.0)
    graph = device.graph([add] * 5)
    assert y.download().sum() == 0, "recording runs nothing"
    graph.send()
    graph.send(device.new_stream())
    device.synchronize()
    wanted = np.zeros(1000, np.float32)
    for _ in range(10):
        wanted = wanted + host
    np.testing.assert_array_equal(y.download(), wanted)


def test_a_graph_of_copies_and_two_streams(device: GpuDevice, path: Path) -> None:
    host, out = device.pinned((1000,)), device.pinned((1000,))
    x, y, side = device.zeros((1000,)), device.zeros((1000,)), device.new_stream()
    add = device.kernel(path, "axpy").bind(4, 256, x, y, 1000, 2.0)

    def work(stream: object) -> None:
        x.upload(host, stream)
        side.wait(stream.record())  # type: ignore[attr-defined]
        device.fill(y, 0, side)
        stream.wait(side.record())  # type: ignore[attr-defined]
        add.send(stream)  # type: ignore[arg-type]
        device.download(out, y, stream)  # type: ignore[arg-type]

    graph = gpu.GpuGraph(device, work)
    assert graph.nodes == 4
    for seed in range(3):
        host[:] = random(1000, seed)
        graph.send()
        device.synchronize()
        np.testing.assert_array_equal(out, 2 * host)


def test_a_graph_that_cannot_be_leaves_the_device_usable(device: GpuDevice, path: Path) -> None:
    _, x, _ = pair(device, 1000)
    with pytest.raises(DeviceError):
        gpu.GpuGraph(device, lambda stream: x.upload(np.zeros(1000, np.float32), stream))  # waits
    with pytest.raises(ZeroDivisionError):
        gpu.GpuGraph(device, lambda stream: 1 // 0)
    test_a_graph_does_what_its_parts_do(device, path)


def test_shared_memory_up_to_the_last_byte(device: GpuDevice, path: Path) -> None:
    most = device.limits.shared_opt_in
    host, x, y = pair(device, most // 4)
    kernel = device.kernel(path, "reversed")
    for size in (12_000, 12_289, most // 4):
        kernel.bind(1, 256, x, y, size, shared=4 * size).send()
        np.testing.assert_array_equal(y[:size].download(), host[:size][::-1])
    with pytest.raises(LaunchError, match=f"{most + 4:,} bytes of shared memory"):
        kernel.bind(1, 256, x, y, most // 4 + 1, shared=most + 4)


def test_a_cooperative_grid_is_there_all_at_once(device: GpuDevice, path: Path) -> None:
    kernel = device.kernel(path, "gathering")
    blocks = kernel.blocks_at_once((256, 1, 1), 0)
    written, out = device.zeros((blocks,), np.int32), device.zeros((blocks,), np.int32)
    arrived = device.zeros((1,), np.uint32)
    kernel.bind(blocks, 256, written, arrived, out, cooperative=True).send()
    assert set(out.download().tolist()) == {blocks * (blocks + 1) // 2}
    with pytest.raises(LaunchError, match="wait for each other"):
        kernel.bind(blocks + 1, 256, written, arrived, out, cooperative=True)


def test_clusters(device: GpuDevice, tmp_path: Path) -> None:
    if device.limits.cluster == 1:
        pytest.skip(f"{device.name} has no clusters")
    file = tmp_path / "clustered.cu"
    file.write_text("// arch: sm_90 sm_100\n" + CLUSTERED)
    for size in (1, 2, 8, device.limits.cluster):
        out = device.zeros((4 * size,), np.int32)
        device.kernel(file, "ranks").bind(4 * size, 32, out, cluster=size).send()
        assert out.download().tolist() == list(range(size)) * 4


def test_s1s_silent_failure_is_an_error(device: GpuDevice, path: Path) -> None:
    _, x, y = pair(device, 100)
    with pytest.raises(
        LaunchError, match=r"4,096 threads a block, and .* takes 1,024 \(grid \(7, 1, 1\), block \(16, 16, 16\)"
    ):
        device.kernel(path, "axpy").bind(7, (16, 16, 16), x, y, 100, 1.0)
    assert not y.download().any()


def test_resources_are_those_that_the_driver_tells(device: GpuDevice, path: Path) -> None:
    from cuda.bindings import driver as cuda

    kinds = cuda.CUfunction_attribute
    for name in ("axpy", "kinds", "gathering", "reversed", "busy", "nothing", "fills<float, 3>"):
        kernel = device.kernel(path, name)
        for kind, wanted in (
            (kinds.CU_FUNC_ATTRIBUTE_NUM_REGS, kernel.resources.registers),
            (kinds.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, kernel.resources.local),
            (kinds.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel.resources.static_shared),
        ):
            assert device.call(cuda.cuFuncGetAttribute, kind, kernel.function, doing="ask") == wanted, (name, kind.name)


def test_a_second_device_object_takes_its_kernels_from_the_cache(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = GpuDevice().kernel(path, "axpy")

    def never(*_: object) -> None:
        raise AssertionError("compiled again")

    program._program.cache_clear()  # what this process has read already
    program._binaries.clear()
    monkeypatch.setattr(cache, "compile", never)
    assert GpuDevice().kernel(path, "axpy").resources == first.resources
    entry = cache.CUBINS.folder()
    assert entry is None or list(entry.glob("*.cubin"))


def test_a_mistake_is_named_by_its_line(device: GpuDevice, tmp_path: Path) -> None:
    file = tmp_path / "wrong.cu"
    file.write_text('\nextern "C" __global__ void wrong(float* y) { *y = x; }\n')
    with pytest.raises(KernelError, match=r"wrong\.cu:2: identifier \"x\" is undefined"):
        device.kernel(file, "wrong")


def test_from_another_thread(device: GpuDevice, path: Path) -> None:
    host, x, y = pair(device, 1000)
    launch = device.kernel(path, "axpy").bind(4, 256, x, y, 1000, 1.0)
    found: list[np.ndarray] = []

    def work() -> None:
        launch.send()
        found.append(y.download())

    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    np.testing.assert_array_equal(found[0], host)
    np.testing.assert_array_equal(found[1], host + host)


def test_ten_thousand_launches(device: GpuDevice, path: Path) -> None:
    """Every one runs, in order, and Python takes little time over each."""
    size = 1000
    x, y = device.array(np.ones(size, np.float32)), device.zeros((size,))
    launch = device.kernel(path, "axpy").bind(4, 256, x, y, size, 1.0)
    launch.send()
    device.synchronize()
    began = time.perf_counter()
    for _ in range(10_000):
        launch.send()
    sent = time.perf_counter() - began
    assert set(y.download().tolist()) == {10_001.0}
    print(f"{sent / 10_000 * 1e6:.2f} us a launch")
    assert sent < 0.2


BROKEN = """
import sys
import numpy as np
from warpladder.errors import DeviceError
from warpladder.device.gpu import GpuDevice
device = GpuDevice()
y = device.zeros((4,))
launch = device.kernel(sys.argv[1], "strays").bind(1, 1, y)
launch.send()
for what in (device.synchronize, y.download, lambda: device.empty((4,)), launch.send):
    try:
        what()
    except DeviceError as error:
        print(error)
    else:
        raise AssertionError("nothing was raised")
"""


def test_a_kernel_that_strays_is_an_error_in_every_later_call(path: Path) -> None:
    """In a process of its own, which loses the GPU."""
    command = [sys.executable, "-c", BROKEN, str(path)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    for line in lines:
        assert "CUDA_ERROR_ILLEGAL_ADDRESS" in line and "must be started again" in line
        assert "<strays grid (1, 1, 1) block (1, 1, 1) shared 0>" in line
    assert "Exception ignored" not in done.stderr


def test_compiled_for_this_gpu(device: GpuDevice) -> None:
    assert device.arch.startswith("sm_")
    assert int(device.arch[3:]) in compile.architectures()
