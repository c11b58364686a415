"""The weight gradient of a first layer for an image or a few, in one launch: complete, by whom it is taken, and what is
wrong with it is found.
"""

from __future__ import annotations

import pytest
from clockwork import Clockwork
from few_image_gradients import SHAPES, EditedImages, prove
from strategies import case
from tensor_convolutions import Asked

from warpladder.config import TrainConfig
from warpladder.device import Limits
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.nets import cnn
from warpladder.ops.conv2d.few_inputs.few_inputs import FewImagesGradient
from warpladder.ops.conv2d.problem import ConvWindow, FusedConv, Image
from warpladder.ops.tables.tensor import TABLE
from warpladder.trainers.graphed import GraphedTrainer

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.mark.parametrize("asked", SHAPES, ids=lambda asked: "x".join(map(str, asked.in_shape)))
def test_sums_are_complete(asked: Asked) -> None:
    device = EmulatedDevice()
    for offset in (0, 1):
        prove(device, asked, offset)
        prove(device, asked, offset, "far apart")


def test_who_takes_it() -> None:
    """An image or a few that have room, with few terms and no stride."""
    limits = Limits("some GPU")

    def supports(read: Image, stride: int, n: int) -> bool:
        return FewImagesGradient.supports(FusedConv(read, read, ConvWindow(3, stride, 1), pool=True), n, limits)

    assert supports((3, 32, 32), 1, 4)
    assert not supports((3, 32, 32), 1, 5) and not supports((3, 32, 32), 2, 1)
    assert not supports((4, 32, 32), 1, 1) and not supports((3, 64, 64), 1, 1)


@pytest.mark.parametrize("batch", [1, 3])
def test_cnn_keeps_its_kernels_at_few_images(batch: int) -> None:
    """No pool follows its first layer, so its gradient is left in parts."""
    net, config = cnn(), TrainConfig(batch_size=batch)
    drawn_case = case(net, config, seed=1, samples=4)
    device = Clockwork(lambda launch: 1e-5, hardware=None, multiprocessors=132)
    device.capability = (9, 0)
    with GraphedTrainer(net, config, drawn_case.state, device, TABLE) as trainer:
        trainer.load(drawn_case.dataset)
        names = {call.name.partition("<")[0] for part in trainer.parts() for call in trainer.program(part)}
    assert "correlate_rows" in names and "correlate_few_images" not in names


@pytest.mark.slow
def test_the_checker_finds_nothing() -> None:
    checked = EmulatedDevice("check", collect=True)
    for asked in SHAPES:
        prove(checked, asked, 1)
    assert checked.reports == []


LIARS = {
    "a argmax's row for its column": ("pool_argmax[e] / 2) * wide", "pool_argmax[e] % 2) * wide"),
    "nobody counts as a argmax": ("if (pool_argmax[e] >= 4) continue;", "pool_argmax[e] %= 4;"),
    "a warp left out": ("warp = 0; warp < THREADS / 32; ++warp) all", "warp = 1; warp < THREADS / 32; ++warp) all"),
    "the first image alone": ("sample < n; ++sample", "sample < 1; ++sample"),
    "the first windows alone": ("window0 < windows; window0", "window0 < min(windows, THREADS); window0"),
    "an image one line further": ("row = line - channel * high - padding", "row = line - channel * high - padding + 1"),
    "the bias of both outputs": ("sum[e * (WEIGHTS + 1) + WEIGHTS] += gradient[e];", "sum[WEIGHTS] += gradient[e];"),
}


@pytest.mark.parametrize("liar", LIARS)
@pytest.mark.by_day("a argmax's row for its column", "a warp left out", "an image one line further")
def test_liars_are_refused(liar: str) -> None:
    with pytest.raises(AssertionError, match="is wrong"):
        for asked in SHAPES:
            prove(EditedImages(EmulatedDevice(), LIARS[liar]), asked)  # type: ignore[arg-type]
