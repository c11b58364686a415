"""Searches for samples of nets that normalise thousands of numbers: small means, and what may be larger when."""

from __future__ import annotations

import numpy as np
import pytest

from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.ladder import find
from warpladder.machine.precision import named
from warpladder.nets import (
    BatchNorm2d,
    Conv2d,
    CrossEntropyLoss,
    Dropout,
    Flatten,
    Linear,
    MaxPool2d,
    Net,
    ReLU,
    Residual,
)
from warpladder.nets.params import initial, views
from warpladder.proof import verify
from warpladder.proof.case_maker import CaseMaker
from warpladder.proof.normalised.allowance import AT_KINKS, GROWTH, NEAR, STRICT, Allowance
from warpladder.proof.normalised.format_errors import Excess
from warpladder.proof.normalised.whole_batches import MANY, MEAN, moved_together
from warpladder.proof.reference import ReferenceTrainer
from warpladder.proof.reference_cases import ReferenceStep
from warpladder.proof.samples import Noise
from warpladder.trainers.base import State


def net_of(pixels: int, channels: int, *after: Dropout) -> Net:
    """Net whose first convolution has no bias: 24 or fewer channels of images with many blank pixels."""
    first = Conv2d(out_channels=channels, kernel_size=5, bias=False), BatchNorm2d(), ReLU(), MaxPool2d(2)
    branch = Residual(Conv2d(out_channels=channels, kernel_size=3, padding=1), ReLU())
    end = MaxPool2d(2), Flatten(), Linear(out_features=100), ReLU(), *after, Linear(out_features=10)
    return Net("without a bias", (1, pixels, pixels), (*first, branch, *end), CrossEntropyLoss())


def test_a_layer_without_a_bias_gets_small_means_by_its_weights() -> None:
    net = net_of(20, 4)
    x = np.random.default_rng(0).random((64, *net.in_shape))
    reference = ReferenceTrainer(net, TrainConfig(), State(initial(net, 0)))
    before = reference.leaving(0, x)
    assert before[:, 0].size > MANY
    assert np.any(np.abs(before.mean((0, 2, 3))) > 2 * MEAN * before.std((0, 2, 3)))
    params, _ = moved_together(reference, x, named("fp32"))
    after = ReferenceTrainer(net, TrainConfig(), State(params)).leaving(0, x)
    assert np.all(np.abs(after.mean((0, 2, 3))) < 1.5 * MEAN * before.std((0, 2, 3)))
    assert np.any(views(net, params)["0.weight"] != views(net, initial(net, 0))["0.weight"])


def test_few_numbers_keep_their_weights() -> None:
    net = net_of(20, 4)
    x = np.random.default_rng(0).random((8, *net.in_shape))
    reference = ReferenceTrainer(net, TrainConfig(), State(initial(net, 0)))
    params, _ = moved_together(reference, x, named("fp32"))
    assert np.array_equal(views(net, params)["0.weight"], views(net, initial(net, 0))["0.weight"])


def starts(allowance: Allowance, source: Noise, times: list[float], is_last: bool) -> list[float]:
    """Largest allowed errors at starts that fail with errors of `times` their bound."""
    allowance.begin_source(is_last)
    rooms = []
    for each in times:
        allowance.begin_start(False)
        rooms.append(allowance.room)
        if allowance.leaves(source, Excess("too large", each)):
            break
    return rooms


def test_errors_may_grow_where_they_are_near_and_the_next_case_begins_there() -> None:
    allowance, source = Allowance(), Noise(net_of(20, 4), np.uint8, 0)
    rooms = starts(allowance, source, [1.5] * (STRICT + 2), False)
    assert rooms == pytest.approx([1.0] * STRICT + [GROWTH, GROWTH**2])
    allowance.begin_source(False)  # of the next case
    allowance.begin_start(False)
    assert allowance.room == pytest.approx(GROWTH**3)
    allowance.begin_start(True)
    assert allowance.room == np.inf


def test_a_source_near_kinks_is_left_and_tried_last() -> None:
    net = net_of(20, 4)
    allowance, first, second = Allowance(), Noise(net, np.uint8, 0), Noise(net, np.float32, 0)
    rooms = starts(allowance, first, [2 * NEAR] * 9, False)
    assert rooms == [1.0] * AT_KINKS
    assert allowance.in_order([first, second]) == [second, first]
    rooms = starts(allowance, second, [8 * NEAR, np.inf, 8 * NEAR, np.inf], True)
    assert rooms == pytest.approx([1.0] * STRICT + [GROWTH])  # there is no other source


def test_a_start_that_fails_otherwise_leaves_no_source() -> None:
    allowance, source = Allowance(), Noise(net_of(20, 4), np.uint8, 0)
    allowance.begin_source(False)
    assert not any(allowance.leaves(source, "0.bias does not move") for _ in range(9))


def test_a_bias_that_a_normalisation_subtracts_has_slots_of_the_usual_size() -> None:
    net, config = net_of(20, 4), TrainConfig(batch_size=8, momentum=0.9)
    maker = CaseMaker(net, config, np.random.default_rng(0))
    gradient = np.random.default_rng(1).normal(size=net.param_count)
    views(net, gradient)["1.bias"][...] = 1e-17  # rounding: an update from such a slot would be lost
    step = ReferenceStep(State(initial(net, 0)), 0, 8, 8, 1.0, 0, gradient)
    slots = views(net, maker.with_slots(step).state.slots["momentum_buffer"])
    assert 0.1 < np.sqrt(np.mean(slots["1.bias"] ** 2)) < 10


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2))
def test_a_net_of_blank_images_without_a_bias_is_judged(seed: int) -> None:
    net, random = net_of(28, 24, Dropout(0.25)), np.random.default_rng(0)
    x, y = np.zeros((500, *net.in_shape), np.uint8), random.integers(0, 10, 500).astype(np.int32)
    for image in x:
        row, column = random.integers(0, 14, 2)
        image[0, row : row + 14, column : column + 14] = random.integers(0, 256, (14, 14))
    data = Dataset("blank", x, y, x[:5], y[:5], 1 / 255)
    verdict = verify(find("numpy").build, net, TrainConfig(batch_size=64), seed=seed, dataset=data)
    assert verdict.passed, verdict.reason
