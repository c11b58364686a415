"""Trainers with a wrong Dropout: each mistake is caught by the proof."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from warpladder.config import TrainConfig
from warpladder.nets import CrossEntropyLoss, Dropout, Linear, Net, Tanh
from warpladder.ops.dropout.array import ArrayDropout
from warpladder.ops.tables.array import TABLE
from warpladder.proof import verify
from warpladder.trainers.base import State, Trainer
from warpladder.trainers.layerwise import LayerwiseTrainer


class NotScaled(ArrayDropout):
    """Drops, and leaves what is not dropped as it is."""

    def begin(self, key: int, position: int) -> None:
        super().begin(key, position)
        self.mask[...] = self.mask != 0


class SameInEveryStep(ArrayDropout):
    """Draws by the row in the batch."""

    def begin(self, key: int, position: int) -> None:
        super().begin(key, 0)


class SameForEverySample(ArrayDropout):
    """Draws one mask for a batch."""

    def begin(self, key: int, position: int) -> None:
        super().begin(key, position)
        self.mask[...] = self.mask[:1]


class SameInEveryRun(ArrayDropout):
    """Draws without the key of epoch and layer."""

    def begin(self, key: int, position: int) -> None:
        super().begin(0, position)


class OtherInBackward(ArrayDropout):
    """Draws anew in the backward pass."""

    def begin(self, key: int, position: int) -> None:
        super().begin(key, position)
        self.drawn = key, position

    def backward(self, n: int) -> None:
        super().begin(self.drawn[0] ^ 1, self.drawn[1])
        super().backward(n)


class ForwardAlone(ArrayDropout):
    """Lets the whole gradient through."""

    def backward(self, n: int) -> None:
        self.buffers.dx[:n] = self.buffers.dy[:n]


class DropsInPredictions(ArrayDropout):
    """Predicts as it trains."""

    def predict(self, n: int) -> None:
        if self.mask is None:
            self.begin(1, 2)
        self.forward(n)


class TrainsAsItPredicts(ArrayDropout):
    """Drops nothing at all."""

    def forward(self, n: int) -> None:
        self.predict(n)


NET = Net(
    "dropped", (6,),
    (Linear(out_features=8), Dropout(0.4), Tanh(), Linear(out_features=7), Tanh(), Dropout(0.2), Linear(out_features=3)),
    CrossEntropyLoss(),
)  # fmt: skip
LIARS = (
    NotScaled, SameInEveryStep, SameForEverySample, SameInEveryRun, OtherInBackward, ForwardAlone, DropsInPredictions,
    TrainsAsItPredicts,
)  # fmt: skip


def with_op(op: type[ArrayDropout], net: Net, config: TrainConfig, state: State) -> Trainer:
    return LayerwiseTrainer(net, config, state, replace(TABLE, layers={**TABLE.layers, Dropout: op}))


@pytest.mark.parametrize("op", LIARS)
@pytest.mark.usefixtures("cases_once")
def test_a_wrong_dropout_is_caught(op: type[ArrayDropout]) -> None:
    verdict = verify(partial(with_op, op), NET, TrainConfig(batch_size=4))
    assert not verdict.passed and verdict.judged
    assert verdict.reason.startswith(("update", "loss", "correct", "predict", "output")), verdict.reason


@pytest.mark.parametrize(
    "config",
    [TrainConfig(batch_size=4), TrainConfig(batch_size=5, loss_every=3), TrainConfig(batch_size=None)],
    ids=str,
)
@pytest.mark.usefixtures("cases_once")
def test_the_honest_dropout_passes(config: TrainConfig) -> None:
    verdict = verify(partial(with_op, ArrayDropout), NET, config)
    assert verdict.passed, verdict.reason
