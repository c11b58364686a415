"""What stands between the kernels of a CUDA graph: ordinary edges, programmatic ones, a fork and its join.

A kernel behind a programmatic edge may start before the one ahead of it has ended: when all blocks of that one have
given the sign (griddepcontrol.launch_dependents) or ended. It must wait (griddepcontrol.wait) before it reads what the
other wrote; that waits for the end of the whole grid, whenever the sign was given. Wants compute capability 9.0.

python benchmarks/h200/graph_edges.py      # a few seconds; prints microseconds and writes graph_edges.json
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from cuda.bindings import driver as cuda

from warpladder.device import Call, Graph, Launch, Stream, gpu
from warpladder.device.gpu.device import GpuDevice
from warpladder.device.gpu.kernel import GpuLaunch
from warpladder.device.gpu.stream import GpuGraph

ROUNDS, SENDS = 7, 20
LINKS = 100  # kernels in a chain
THREADS = 256

#: Additions of each thread, one after the other: none to speak of, and about 3 us of them.
LONG = {"short": 1, "3 us": 1300}
BLOCKS = (1, 25, 132, 1000)

KERNEL = """
enum { NEVER, AT_START, AT_END };  // when the next kernel may start

// to[i] = from[i] + turns.
template <int SIGN>
__global__ void link(const float* from, float* to, int turns) {
    if (SIGN == AT_START) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    if (SIGN != NEVER) asm volatile("griddepcontrol.wait;" ::: "memory");
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = from[i];
#pragma unroll 1
    for (int t = 0; t < turns; ++t) x += 1.0f;
    to[i] = x;
    if (SIGN == AT_END) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
"""


class Early(Call):
    """A launch that may start before the one ahead of it on its stream has ended; recorded in a graph, it hangs on a
    programmatic edge.
    """

    name = "early launch"

    def __init__(self, launch: Launch) -> None:
        assert isinstance(launch, GpuLaunch)
        self.launch = launch

    def send(self, stream: Stream | None = None) -> None:
        launch, device = self.launch, self.launch.device
        attribute = cuda.CUlaunchAttribute()
        attribute.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        config = cuda.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = launch.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = launch.block
        config.hStream = device.on(stream).handle
        config.attrs = [attribute]
        config.numAttrs = 1
        device.call(
            cuda.cuLaunchKernelEx, config, launch.function, launch.parameters, 0, doing=f"launch {launch!r} early"
        )


def main() -> None:
    device = GpuDevice()
    file = Path(tempfile.mkdtemp()) / "link.cu"
    file.write_text(KERNEL)
    ends = [device.zeros((max(BLOCKS) * THREADS,)) for _ in range(2)]

    def link(sign: str, blocks: int, turns: int, number: int = 0) -> Launch:
        return device.kernel(file, f"link<{sign}>").bind(blocks, THREADS, ends[number % 2], ends[1 - number % 2], turns)

    def microseconds(graph: Graph, each: int) -> float:
        """On the GPU, of each part of a graph: the median of some rounds."""
        found = []
        for _ in range(ROUNDS + 1):
            first = device.stream.record()
            for _ in range(SENDS):
                graph.send()
            last = device.stream.record()
            device.synchronize()
            found.append(last.seconds_since(first) / SENDS / each)
        return 1e6 * statistics.median(found[1:])

    def chain(sign: str, blocks: int, turns: int) -> float:
        """Of a link of a chain in which each reads what the one ahead wrote; what comes out must be right."""
        links = [link(sign, blocks, turns, number) for number in range(LINKS)]
        graph = device.graph(links if sign == "NEVER" else [Early(each) for each in links])
        device.fill(ends[0], 0)
        graph.send()
        wanted = np.float32(LINKS * turns)
        assert (ends[0][: blocks * THREADS].download() == wanted).all(), (
            f"a link of {blocks} blocks read what was not yet written"
        )
        return microseconds(graph, LINKS)

    def forked(blocks: int, turns: int, work: Callable[[Stream, Stream, list[Launch]], None]) -> float:
        """Of a unit of two or three kernels, as `work` records it; what they compute is not looked at."""
        calls, side = [link("NEVER", blocks, turns, number) for number in range(3)], device.new_stream()

        def units(stream: Stream) -> None:
            for _ in range(LINKS):
                work(stream, side, calls)

        return microseconds(GpuGraph(device, units), LINKS)

    figures: dict[str, float] = {}
    for name, turns in LONG.items():
        for blocks in BLOCKS:
            for sign, told in (
                ("NEVER", "ordinary edges"),
                ("AT_END", "programmatic, sign at the end"),
                ("AT_START", "programmatic, sign at the start"),
            ):
                figures[f"link of {blocks} blocks, {name}, {told}"] = chain(sign, blocks, turns)
        for told, work in (("a, b", _two), ("a, b, c", _three), ("a, then b beside c", _beside)):
            figures[f"unit of 25 blocks each, {name}: {told}"] = forked(25, turns, work)
    for told, value in figures.items():
        print(f"{told:70}{value:8.2f} us")
    out = Path(__file__).with_name("graph_edges.json")
    out.write_text(json.dumps({"machine": gpu.facts(), "microseconds": figures}, indent=1) + "\n")


def _two(stream: Stream, side: Stream, calls: list[Launch]) -> None:
    for call in calls[:2]:
        call.send(stream)


def _three(stream: Stream, side: Stream, calls: list[Launch]) -> None:
    for call in calls:
        call.send(stream)


def _beside(stream: Stream, side: Stream, calls: list[Launch]) -> None:
    calls[0].send(stream)
    side.wait(stream.record())
    calls[2].send(side)
    calls[1].send(stream)
    stream.wait(side.record())


if __name__ == "__main__":
    main()
