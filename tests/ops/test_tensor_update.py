"""The update where a weight gradient is finished, and packed by a linear layer's product: the bits of a launch of its
own, and what is wrong with it is caught.
"""

from __future__ import annotations

from typing import Any

import pytest
from strategies import case
from tensor_nets import CNN, DEEP, LINE, MIXED, MLP, on, trained
from tensor_tools import Edited

from warpladder.config import TrainConfig
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.nets import Net
from warpladder.ops.conv2d.tensor.segment import TensorConv2d
from warpladder.ops.linear.tensor.head import SmallHead
from warpladder.ops.linear.tensor.segment import TensorLinear
from warpladder.ops.tables.tensor import TABLE
from warpladder.optimizers import Adam
from warpladder.optimizers.schedules import Cosine
from warpladder.proof import verify
from warpladder.rungs.tensor import PRECISIONS
from warpladder.timing.profile.kernels import _floor, full
from warpladder.trainers.graphed import GraphedTrainer

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

#: Every setting of SGD, so that an epoch has whole graphs and a partial last batch.
SETTINGS = TrainConfig(
    batch_size=7, epochs=2, learning_rate=0.1, momentum=0.9, nesterov=True, weight_decay=1e-2, clip_value=0.01
)
PLAIN = TrainConfig(batch_size=7, epochs=2, learning_rate=0.1)

UPDATING = (TensorLinear, SmallHead, TensorConv2d)


def when(net: Net, precision: str, config: TrainConfig) -> list[pytest.MarkDecorator]:
    """By day each net in fp32 with every setting, and one in bf16 with the rate alone; each night all pairs."""
    if config is SETTINGS and precision == "fp32":
        return []
    if config is PLAIN and precision == "bf16":
        return [] if net is DEEP else [pytest.mark.slow]
    return [pytest.mark.nightly]


NETS = (DEEP, MLP, LINE, MIXED, CNN)
SETTINGS_OF = {"every setting": SETTINGS, "the rate alone": PLAIN}


@pytest.mark.parametrize(
    ("net", "precision", "config"),
    [
        pytest.param(net, precision, config, id=f"{net.name}-{precision}-{name}", marks=when(net, precision, config))
        for net in NETS
        for precision in PRECISIONS
        for name, config in SETTINGS_OF.items()
    ],
)
@pytest.mark.by_day("deep-bf16-the rate alone")
def test_the_same_bits_as_by_a_launch_of_its_own(
    net: Net, precision: str, config: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However an epoch is cut into graphs: the first step of each prepares, and the others find what the step before
    has left.
    """
    device, drawn = EmulatedDevice(), case(net, config, seed=3, samples=40)
    fused = trained(drawn, device, precision)
    assert trained(drawn, device, precision, cuts=(1, 4)) == fused
    for kind in UPDATING:
        monkeypatch.setattr(kind, "updates_in_place", classmethod(lambda cls, subgraph: False))
    assert trained(drawn, device, precision) == fused


@pytest.mark.parametrize(
    ("config", "packs", "updates"),
    [
        (SETTINGS, 0, 0),
        (TrainConfig(batch_size=7, optimizer=Adam(1e-3)), 3, 1),
        (SETTINGS.but(schedule=Cosine()), 3, 1),
    ],
    ids=["SGD", "Adam", "SGD with a schedule"],
)
def test_a_later_step_packs_no_weights_where_sgd_has_one_rate(config: TrainConfig, packs: int, updates: int) -> None:
    drawn = case(DEEP, config, seed=3, samples=40)
    with GraphedTrainer(drawn.net, drawn.config, drawn.state, EmulatedDevice(), TABLE) as trainer:
        trainer.load(drawn.dataset)
        for part in trainer.parts():
            first, later = (trainer.stages(part, repeated) for repeated in (False, True))
            assert sum(len(stage.launches) for stage in first if stage.phase == "prepare") == 3
            assert sum(len(stage.launches) for stage in later if stage.phase == "prepare") == packs
            assert sum(len(stage.launches) for stage in later if stage.phase == "update") == updates


def test_the_least_that_a_step_must_do_has_each_update_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the gradient is finished, it need not be read again: four bytes less for each parameter, and the same
    arithmetic.
    """
    drawn = case(MLP, SETTINGS, seed=3, samples=40)

    def floor() -> tuple[int, int]:
        with GraphedTrainer(drawn.net, drawn.config, drawn.state, EmulatedDevice(), TABLE) as trainer:
            trainer.load(drawn.dataset)
            some = [stage for stage in trainer.stages(full(trainer), repeated=True) if stage.phase != "prepare"]
            found = [_floor(trainer, stage, trainer.batch) for stage in some]
            return sum(each.flops for each in found), sum(each.bytes for each in found)

    flops, size = floor()
    for kind in UPDATING:
        monkeypatch.setattr(kind, "updates_in_place", classmethod(lambda cls, subgraph: False))
    assert (flops, size + 4 * MLP.param_count) == floor()


#: What is planted in the update: an edit, and the settings that show it.
LIARS = {
    "gradients are packed in place of weights": ("store_four(own, w, each, wide);", "", PLAIN),
    "momentum is not kept": ("if (flat.sgd.momentum != 0.0f) store_four(flat", "if (false) store_four(flat", SETTINGS),
    "momentum is not read": ("if (flat.sgd.momentum != 0.0f) moved", "if (false) moved", SETTINGS),
    "nothing is clipped": (
        "sgd_update(w.x, clip(gradient.x, flat.limit)",
        "sgd_update(w.x, gradient.x",
        SETTINGS.but(clip_value=1e-4),
    ),
    "weights are not stored": ("store_four(flat.params + at, w,", "store_four(flat.params + at, moved,", PLAIN),
}


@pytest.mark.parametrize(
    "liar", [pytest.param(liar, marks=[] if liar.startswith("gradients") else [pytest.mark.slow]) for liar in LIARS]
)
@pytest.mark.slow
def test_what_is_wrong_with_the_update_is_caught(liar: str) -> None:
    before, after, config = LIARS[liar]
    edited: Any = Edited(EmulatedDevice(), (before, after))
    verdict = verify(on(edited), DEEP, config)
    assert not verdict.passed and verdict.judged, verdict.reason
