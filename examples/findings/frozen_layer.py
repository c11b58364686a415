"""Defect 1 of docs/findings.md, rebuilt: the kernel of a layer's input gradient never runs, and nobody asks.

S1's optimized program asks for 4,096 threads a block for its second convolution's input gradient. The launch fails, the
buffer stays 0, and the first convolution keeps its initial weights.
"""

from dataclasses import replace

from warpladder import Conv2d, Linear
from warpladder.ladder import Rung
from warpladder.ops.conv2d.array import ArrayConv2d
from warpladder.ops.linear.array import ArrayLinear
from warpladder.ops.tables.array import TABLE
from warpladder.trainers.layerwise import LayerwiseTrainer


class FailedConv2d(ArrayConv2d):
    def backward(self, n):
        super().backward(n)
        if self.buffers.dx is not None:
            self.buffers.dx[:n] = 0  # what cudaMalloc'ed memory happened to hold


class FailedLinear(ArrayLinear):
    def backward(self, n):
        super().backward(n)
        if self.buffers.dx is not None:
            self.buffers.dx[:n] = 0


def build(net, config, state):
    """Of a net with convolutions it is a convolution's launch that fails; of a perceptron that of its last layer."""
    failing = (
        {Conv2d: FailedConv2d} if any(isinstance(layer, Conv2d) for layer in net.layers) else {Linear: FailedLinear}
    )
    return LayerwiseTrainer(net, config, state, replace(TABLE, layers={**TABLE.layers, **failing}))


RUNG = Rung(
    name="frozen-layer",
    title="a launch that failed",
    idea="S1's optimized program: a launch fails, and nobody asks.",
    build=build,
)
