"""Defect 2 of docs/findings.md, rebuilt: only the first 256 numbers of the logits' gradient are computed, whatever the
batch has.

S1's naive program starts one block of 256 threads for the 640 logits of 64 samples: 25.6 samples train, and the others'
gradient stays 0.
"""

from dataclasses import dataclass, replace

from warpladder import CrossEntropyLoss
from warpladder.ladder import Options, Rung, Whole, option
from warpladder.ops.cross_entropy.array import ArrayCrossEntropy
from warpladder.ops.tables.array import TABLE
from warpladder.trainers.layerwise import LayerwiseTrainer


@dataclass(frozen=True)
class Block(Options):
    threads: int | None = option(Whole(32, 1024), "threads of the one block; 256 if not given")


def loss_of(threads):
    """The loss of the numpy rung, but for the gradient of what lies behind so many logits."""

    class FirstThreads(ArrayCrossEntropy):
        def backward(self, n):
            super().backward(n)
            self.dx[:n].reshape(-1)[threads:] = 0

    return FirstThreads


def build(net, config, state, options=Block()):
    table = replace(TABLE, losses={**TABLE.losses, CrossEntropyLoss: loss_of(options.threads or 256)})
    return LayerwiseTrainer(net, config, state, table)


RUNG = Rung(
    name="forty-percent",
    title="256 threads for 640 logits",
    idea="S1's naive program: one block computes the gradient of the logits.",
    build=build,
    options=Block(),
)
