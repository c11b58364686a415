"""Nets whose convolutions have few pixels, an image at a time or a few: proven in every precision, updated to the bit,
and in how many launches.
"""

from __future__ import annotations

from typing import Any

import pytest
from clockwork import Clockwork
from compared_steps import steps_within
from strategies import case
from tensor_convolutions import conv
from tensor_nets import trained

from warpladder.config import TrainConfig
from warpladder.device import Launch
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.ladder import find
from warpladder.nets import MaxPool2d, MSELoss, Net, ReLU, Upsample2d, autoencoder
from warpladder.ops.conv2d.tensor.few_pixels.few_pixels import FewPixels
from warpladder.ops.conv2d.tensor.loss import TensorConv2dLoss
from warpladder.ops.conv2d.tensor.segment import TensorConv2d
from warpladder.ops.tables.tensor import TABLE
from warpladder.optimizers import Adam
from warpladder.proof import verify
from warpladder.trainers.graphed import GraphedTrainer
from warpladder.trainers.streams import dependences, on_side_of_steps

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

pairs, slow, nightly = pytest.mark.pairs, pytest.mark.slow, pytest.mark.nightly

PLAIN = find("tensor", device="emulated")
#: All that these convolutions have to do with a pool and an upsampling, in a net as small as takes seconds less.
SMALL = Net(
    "small", (3, 4, 6),
    (conv(48, 3, padding=1), ReLU(), MaxPool2d(2), conv(48, 3, padding=1), ReLU(), Upsample2d(scale_factor=2), conv(3, 3, padding=1)),
    MSELoss(),
)  # fmt: skip
#: The autoencoder with 48 channels throughout, of small pictures: a first layer of few inputs, and all others of few
#: pixels.
CODER = Net(
    "coder", (3, 8, 12),
    (
        conv(48, 3, padding=1), ReLU(), MaxPool2d(2), conv(48, 3, padding=1), ReLU(), MaxPool2d(2), conv(48, 3, padding=1), ReLU(),
        Upsample2d(scale_factor=2), conv(48, 3, padding=1), ReLU(), Upsample2d(scale_factor=2), conv(3, 3, padding=1),
    ),
    MSELoss(),
)  # fmt: skip
#: A ReLU whose gradient nobody behind it makes, and one at the net's end.
BARE = Net(
    "bare", (3, 6, 5),
    (conv(48, 3, padding=1), ReLU(), Upsample2d(scale_factor=1), conv(40, 3, padding=1), ReLU(), Upsample2d(scale_factor=1), conv(3, 3, padding=1), ReLU()),
    MSELoss(),
)  # fmt: skip


@pytest.mark.parametrize(
    ("net", "config"),
    [
        pytest.param(net, config, marks=pairs if net is not SMALL and config.batch_size == 3 else nightly)
        for net in (SMALL, CODER, BARE)
        for config in (
            TrainConfig(batch_size=3, momentum=0.9, weight_decay=1e-3),
            TrainConfig(batch_size=1, optimizer=Adam(1e-3)),
        )
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_nets_are_proven(net: Net, config: TrainConfig) -> None:
    """By fp32's bounds; the cases hold a partial last batch."""
    verdict = verify(PLAIN.build, net, config)
    assert verdict.passed, verdict.reason
    assert steps_within(verdict, 2e-5)


@pytest.mark.parametrize(
    ("net", "precision"),
    [
        pytest.param(SMALL, "bf16", marks=pairs),
        pytest.param(CODER, "bf16", marks=nightly),
        pytest.param(CODER, "tf32", marks=pairs),
        pytest.param(CODER, "fp16", marks=pairs),
    ],
    ids=lambda each: getattr(each, "name", each),
)
def test_nets_are_proven_in_coarser_precisions(net: Net, precision: str) -> None:
    rung = PLAIN.but(precision=precision)
    verdict = verify(rung.build, net, TrainConfig(batch_size=1), precision=rung.precision)
    assert verdict.passed, verdict.reason
    assert not verify(rung.build, net, TrainConfig(batch_size=1)).passed, "by fp32's bounds"


@pytest.mark.parametrize(
    ("net", "batch"),
    [pytest.param(SMALL, 3, marks=slow), pytest.param(CODER, 3, marks=nightly), pytest.param(CODER, 1, marks=nightly)],
)
def test_the_update_has_the_bits_of_a_launch_of_its_own(net: Net, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every setting of SGD and with its rate alone, a partial last batch, and epochs that are cut into graphs
    anywhere.
    """
    every = TrainConfig(
        batch_size=batch, epochs=2, learning_rate=0.01, momentum=0.9, nesterov=True, weight_decay=1e-2, clip_value=0.01
    )
    device = EmulatedDevice()
    drawings = [
        case(net, config, seed=3, samples=8)
        for config in (every, TrainConfig(batch_size=batch, epochs=2, learning_rate=0.01))
    ]
    fused = [trained(each, device, "fp32") for each in drawings]
    assert trained(drawings[0], device, "fp32", cuts=(1, 2)) == fused[0]
    monkeypatch.setattr(TensorConv2d, "updates_in_place", classmethod(lambda cls, subgraph: False))
    assert [trained(each, device, "fp32") for each in drawings] == fused


@pairs
def test_a_net_whose_first_layer_is_its_last_is_proven() -> None:
    """No way for few pixels takes a first layer: the loss is a launch that fills the gradient."""
    alone = Net("alone", (16, 3, 4), (conv(16, 3, padding=1),), MSELoss())
    verdict = verify(PLAIN.build, alone, TrainConfig(batch_size=3))
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize(
    ("net", "every"),
    [pytest.param(SMALL, 1), pytest.param(SMALL, 2, marks=nightly), pytest.param(CODER, 1, marks=nightly)],
)
@pytest.mark.slow
def test_the_loss_beside_the_backward_pass_has_the_bits_of_a_launch_before_it(
    net: Net, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a partial last batch, and where epochs compute no losses; so has an update beside dx those of one in the
    launch that fills dw.
    """
    device = EmulatedDevice()
    drawn_case = case(net, TrainConfig(batch_size=3, epochs=2, learning_rate=0.01, loss_every=every), seed=5, samples=8)
    found = trained(drawn_case, device, "fp32")
    build, apart = FewPixels.__init__, list[bool]()

    def joined(self: FewPixels, *arguments: Any) -> None:
        build(self, *arguments)
        apart.append(self.updates_separately)
        self.updates_separately = False

    monkeypatch.setattr(FewPixels, "__init__", joined)
    assert trained(drawn_case, device, "fp32") == found
    assert sum(apart) > 0, "the first such layer's, whose weights the next step wants first"
    monkeypatch.setattr(TensorConv2dLoss, "takes", classmethod(lambda cls, subgraph: False))
    assert trained(drawn_case, device, "fp32") == found


def test_a_step_of_the_autoencoder_at_one_image_is_a_chain_of_ten_launches_and_seven_beside_it() -> None:
    """Nobody packs, adds up parts or spreads a pool: a launch for y, for dx and for dw of each layer, the samples, the
    loss, and the update of the layer whose weights are wanted first. dw of four layers,
    the samples, the loss and the update run beside the chain."""
    device = Clockwork(lambda launch: 1e-5, hardware=None, multiprocessors=132)
    drawn_case = case(autoencoder(), TrainConfig(batch_size=1), seed=1, samples=3)
    with GraphedTrainer(autoencoder(), drawn_case.config, drawn_case.state, device, TABLE) as trainer:
        trainer.load(drawn_case.dataset)
        stages = trainer.stages(trainer.parts()[0], repeated=True)
        calls = [call for stage in stages for call in stage.launches]
        assert len(calls) == 17 and all(isinstance(call, Launch) for call in calls)
        assert sum(on_side_of_steps(stages, dependences(calls))) == 7
