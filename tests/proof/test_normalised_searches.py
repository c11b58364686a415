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
from warpladder.proof.normalised.allowance import (
    ACCUMULATORS,
    AFTER,
    AFTER_KINKS,
    AT_KINKS,
    ENDLESS,
    GROWTH,
    NEAR,
    STRICT,
    Allowance,
)
from warpladder.proof.normalised.format_errors import Excess
from warpladder.proof.normalised.long_sums import LEAST, LONG, MOST, different, in_a_row_at
from warpladder.proof.normalised.one_by_one import OneByOne
from warpladder.proof.normalised.whole_batches import MEAN, drawn_buffers, moved_together, whole_step
from warpladder.proof.reference import ReferenceTrainer
from warpladder.proof.reference_cases import ReferenceStep
from warpladder.proof.samples import Noise
from warpladder.proof.suited_samples import SuitedSamples
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
    assert before[:, 0].size > LONG
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


def three_norms(pixels: int, channels: int) -> Net:
    """Net of three normalisations of many numbers, with pools after the second and the third one."""

    def block(count: int) -> tuple[Conv2d, BatchNorm2d, ReLU]:
        return Conv2d(out_channels=count, kernel_size=3, padding=1, bias=False), BatchNorm2d(), ReLU()

    start = (*block(channels), *block(channels), MaxPool2d(2), *block(2 * channels), MaxPool2d(2))
    return Net("three", (3, pixels, pixels), (*start, Flatten(), Linear(out_features=10)), CrossEntropyLoss())


def test_numbers_that_long_sums_may_move_are_far_from_kinks() -> None:
    """The nearest of half a million numbers was 20 to 80 times as close as errors of such sums reach."""
    net, size = three_norms(16, 8), 64
    source = SuitedSamples(net, TrainConfig(), np.random.default_rng(0), named("fp32"))
    start = State(initial(net, 0), buffers=drawn_buffers(net, np.random.default_rng(0), named("fp32")))
    state, x, _ = source.find(start, size, Noise(net, np.uint8))
    reference = ReferenceTrainer(net, TrainConfig(), state)
    entering = reference.activations(x.astype(np.float64) / 255)
    seen = 0
    for i, layer in enumerate(net.layers):
        if isinstance(layer, ReLU):
            reach = in_a_row_at(net, i, size, named("fp32"))
            assert reach > 2e-5
            numbers = np.abs(entering[i])
            assert numbers[numbers > 0].min() > reach / 2
            seen += 1
    assert seen == 3


def test_a_batch_of_long_sums_has_few_different_samples() -> None:
    few, many = three_norms(8, 4), three_norms(32, 16)
    assert different(few, 32, named("fp32")) == 32
    assert different(many, 64, named("fp32")) == LEAST
    assert LEAST < different(net_of(28, 24), 64, named("fp32")) < MOST
    no_pools = Net("no pools", (1, 32, 32), (*many.layers[:3], Flatten(), *many.layers[-1:]), CrossEntropyLoss())
    assert different(no_pools, 64, named("fp32")) == MOST
    assert different(many, 64, named("bf16")) == 64


@pytest.mark.parametrize("pixels", [8, 16])
def test_different_samples_alone_give_the_results_of_all(pixels: int) -> None:
    """Convolutions of one_by_one.py pass each different sample once."""
    net, random = three_norms(pixels, 4), np.random.default_rng(0)
    which = random.permutation(np.concatenate([np.arange(4), random.integers(0, 4, 12)]))
    x, y = random.random((4, *net.in_shape))[which], random.integers(0, 10, 4)[which]
    apart = x + 1e-12 * random.random(x.shape)
    found = []
    for batch in (x, apart):
        program = OneByOne(net, State(initial(net, 0)), named("fp32"), np.random.default_rng(1))
        found.append(program.gradients(batch, y)[2])
        assert (program.alike is None) is (batch is apart)
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-8 * np.abs(found[1]).max())


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


def test_sums_get_several_accumulators_after_starts_in_vain() -> None:
    allowance, source = Allowance(LONG + 1), Noise(net_of(20, 4), np.uint8, 0)
    starts(allowance, source, [2 * NEAR] * (AFTER_KINKS - 1), True)
    assert allowance.accumulators == 1
    assert starts(allowance, source, [2 * NEAR, 3.0, 1e9], True) == pytest.approx([1.0, 1.0, 3 * GROWTH])
    assert allowance.accumulators == Allowance(ENDLESS).accumulators == ACCUMULATORS
    for longest, several in ((LONG, 1), (LONG + 1, ACCUMULATORS)):
        near = Allowance(longest)
        starts(near, source, [1.5] * AFTER, True)
        assert near.accumulators == several


def test_several_accumulators_lose_less() -> None:
    net, random = three_norms(16, 4), np.random.default_rng(0)
    x, y = random.random((64, *net.in_shape)), random.integers(0, 10, 64)
    true = ReferenceTrainer(net, TrainConfig(), State(initial(net, 0))).gradients(x, y)[2]
    off = [
        np.linalg.norm(
            OneByOne(net, State(initial(net, 0)), named("fp32"), np.random.default_rng(1), several).gradients(x, y)[2]
            - true
        )
        for several in (1, ACCUMULATORS)
    ]
    assert 0 < off[1] < off[0] / 3


def test_products_added_one_by_one_are_counted() -> None:
    """Many of an image's products are nearly equal: each addition rounds them the same way."""
    layers = Conv2d(out_channels=3, kernel_size=1), BatchNorm2d(), Flatten(), Linear(out_features=2)
    net = Net("one", (1, 40, 40), layers, CrossEntropyLoss())
    reference = ReferenceTrainer(net, TrainConfig(), State(initial(net, 0)))
    random = np.random.default_rng(0)
    x = np.repeat(random.random((4, 1, 1, 1)), 40 * 40).reshape(4, 1, 40, 40) + 1e-3 * random.random((4, 1, 40, 40))
    target = np.array([0, 1, 1, 0])
    step = ReferenceStep(reference.state(), 0, 4, 4, 0.0, 0, np.zeros(net.param_count))
    found = whole_step(reference, step, x, target, named("fp32"))
    dy: list[np.ndarray] = []
    reference.gradients(x, target, lambda layer, each: dy.append(each) if layer == 0 else None)
    terms = (np.moveaxis(dy[0], 1, -1).astype(np.float32) * np.moveaxis(x, 1, -1).astype(np.float32)).reshape(-1, 3)
    serial = np.cumsum(terms, axis=0, dtype=np.float32)[-1] - terms.sum(axis=0, dtype=np.float64)
    assert found.product_errors is not None
    counted = views(net, found.product_errors)["0.weight"].ravel()
    np.testing.assert_allclose(counted, np.abs(serial), rtol=1e-3)
    assert np.all(counted > 0)


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
@pytest.mark.parametrize("rung", ["numpy", "native"])
def test_three_normalisations_of_large_images_are_judged(rung: str) -> None:
    """No start was fit to judge a step by after 100 s."""
    verdict = verify(find(rung).build, three_norms(32, 16), TrainConfig(batch_size=64), seed=1)
    assert verdict.passed, verdict.reason


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
