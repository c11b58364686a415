"""Defect 3 of docs/findings.md, rebuilt: gradients are summed over the batch, where the formula has their mean.

At batch 64 a rate of 0.01 is then one of 0.64. S1's programs and S2's CPU program do so, S2's GPU program does not:
that is its accuracy gap.
"""

from dataclasses import replace

from warpladder import CrossEntropyLoss
from warpladder.ladder import Rung
from warpladder.ops.cross_entropy.array import ArrayCrossEntropy
from warpladder.ops.tables.array import TABLE
from warpladder.trainers.layerwise import LayerwiseTrainer


class SummedCrossEntropy(ArrayCrossEntropy):
    def backward(self, n):
        super().backward(n)
        self.dx[:n] *= n


def build(net, config, state):
    table = replace(TABLE, losses={**TABLE.losses, CrossEntropyLoss: SummedCrossEntropy})
    return LayerwiseTrainer(net, config, state, table)


RUNG = Rung(
    name="summed", title="gradients summed, not averaged", idea="The division by the batch is missing.", build=build
)
