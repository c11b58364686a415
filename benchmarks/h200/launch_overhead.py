"""What a launch costs the host: microseconds in Python for each send, copy and event, and between two kernels on the
GPU.

python benchmarks/h200/launch_overhead.py      # a few seconds
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from warpladder.device import gpu
from warpladder.device.gpu.device import GpuDevice

ROUNDS = 7
TIMES = 2000

KERNEL = """
extern "C" __global__ void nothing(float* x) { }
extern "C" __global__ void eight(float* a, float* b, const float* c, const float* d, int e, int f, float g, float h) { }
"""


def main() -> None:
    device = GpuDevice()
    file = Path(tempfile.mkdtemp()) / "nothing.cu"
    file.write_text(KERNEL)
    began = time.perf_counter()
    nothing = device.kernel(file, "nothing")
    print(f"compile and load: {1e3 * (time.perf_counter() - began):.0f} ms")
    x, host, other = device.zeros((16384,)), device.pinned((16384,)), device.new_stream()
    pageable = np.zeros(16384, np.float32)
    one = nothing.bind(1, 32, x)
    many = device.kernel(file, "eight").bind(1, 32, x, x, x, x, 1, 2, 3.0, 4.0)
    graph = device.graph([one] * 100)

    def microseconds(work: Callable[[], object], times: int = TIMES) -> float:
        """Of the host for each call: the median of some rounds, the GPU idle before each."""
        found = []
        for _ in range(ROUNDS + 1):
            device.synchronize()
            began = time.perf_counter()
            for _ in range(times):
                work()
            found.append((time.perf_counter() - began) / times)
        device.synchronize()
        return 1e6 * statistics.median(found[1:])

    def apart(work: Callable[[], object], times: int, each: int = 1) -> float:
        """Microseconds on the GPU from one kernel to the next, by events."""
        found = []
        for _ in range(ROUNDS + 1):
            first = device.stream.record()
            for _ in range(times):
                work()
            last = device.stream.record()
            device.synchronize()
            found.append(last.seconds_since(first) / times / each)
        return 1e6 * statistics.median(found[1:])

    def waited() -> None:
        one.send()
        device.stream.synchronize()

    figures = {
        "bind": microseconds(lambda: nothing.bind(1, 32, x), 200),
        "send, one argument": microseconds(one.send),
        "send, eight arguments": microseconds(many.send),
        "send on another stream": microseconds(lambda: one.send(other)),
        "send and synchronize": microseconds(waited, 500),
        "graph of 100 launches, send": microseconds(graph.send, 100),
        "record an event": microseconds(other.record),
        "wait for an event": microseconds(lambda: other.wait(device.stream.record())),
        "upload 64 KB, page-locked, queued": microseconds(lambda: x.upload(host, other), 500),
        "upload 64 KB, waited for": microseconds(lambda: x.upload(pageable), 500),
        "between kernels, sent one by one": apart(one.send, TIMES),
        "between kernels, in a graph": apart(graph.send, 50, 100),
    }
    for name, value in figures.items():
        print(f"{name:40}{value:8.2f} us")
    out = Path(__file__).with_name("launch_overhead.json")
    out.write_text(json.dumps({"machine": gpu.facts(), "microseconds": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
