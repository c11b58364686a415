"""Batches by which nobody can be judged are told apart from others: terms that cancel, and like terms that round alike."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from regime_liars import SkipsLearntSamples, masked, with_loss
from sweep_proofs import Shared, sized

from warpladder import data, ladder
from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.machine.precision import named
from warpladder.nets import CrossEntropyLoss, Flatten, Layer, LeakyReLU, Linear, Loss, MSELoss, Net, ReLU
from warpladder.ops.cross_entropy.array import ArrayCrossEntropy
from warpladder.ops.linear.array import ArrayLinear
from warpladder.ops.tables.array import TABLE
from warpladder.proof import bias_sums, case_maker, verify
from warpladder.proof.bias_sums import BiasSums, in_a_row
from warpladder.proof.bounds import of_probabilities
from warpladder.proof.reference import ReferenceTrainer
from warpladder.proof.reference_cases import ReferenceStep
from warpladder.proof.samples import Noise
from warpladder.proof.witness import SETTINGS, Witness, misfit
from warpladder.trainers.base import State, Trainer
from warpladder.trainers.layerwise import LayerwiseTrainer

NET = Net("two", (1, 2, 2), (Flatten(), Linear(out_features=2)), CrossEntropyLoss())
BOUND = 1e-5


def unfit(terms: np.ndarray, met: np.ndarray | None = None, which: np.ndarray | None = None) -> str:
    """What the sums say of terms, (distinct, 2), of which the witness has made `met`, (size, 2)."""
    which = np.arange(len(terms)) if which is None else which
    seen = BiasSums(NET, which)
    counts = np.bincount(which)
    for times in np.unique(counts):
        some = np.flatnonzero(counts == times)
        seen.add_truth(some, 1, terms[some])
    seen.add_witness(0, 1, (terms[which] if met is None else met).astype(np.float32))
    gradient = np.zeros(NET.param_count)
    gradient[-2:] = terms[which].sum(axis=0)
    return seen.serial_error(gradient, {"1.bias": BOUND}, 3.0) or seen.repeated_error(gradient, {"1.bias": BOUND}, 3.0)


def test_terms_of_both_signs_are_fit() -> None:
    assert unfit(np.random.default_rng(0).normal(size=(1000, 2))) == ""


def test_terms_that_cancel_are_not() -> None:
    terms = np.random.default_rng(0).normal(size=(1000, 2))
    terms -= terms.mean(axis=0) * (1 - 1e-4)
    assert "the gradient of 1.bias is off by" in unfit(terms)


def test_the_luck_of_the_witness_is_seen_through() -> None:
    """Its errors cancel to the last bit, and what is left of the terms does nearly."""
    terms = np.array([[1.0, 1.0], [2.0**-10 - 1, 2.0**-11 - 1]])
    error = 2.0**-22 * np.array([[1.0, 1.0], [-1.0, -1.0]])
    assert unfit(terms + 0.5) == ""
    assert "where like terms are rounded alike" in unfit(terms, terms + error)


def test_like_terms_that_are_added_one_by_one_are_not_fit() -> None:
    """A hundred thousand times a tenth in float32 is off in the fourth digit; added in pairs it is exact nearly to the
    last.
    """
    terms = np.array([[0.1, 0.1]])
    which = np.zeros(100_000, int)
    assert abs(np.full(len(which), 0.1, np.float32).sum() / 1e4 - 1) < 1e-6
    assert "where its terms are added one after the other" in unfit(terms, which=which)
    assert unfit(terms, which=which[:2]) == ""


def test_other_orders_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """As they stand the partial sums are small, and hardly anything is rounded; in another order they are large."""
    one = np.random.default_rng(0).uniform(0.5, 1, (500, 2))
    terms = np.stack([one, 0.005 - one], axis=1).reshape(-1, 2)
    assert "one after the other" in unfit(terms)
    monkeypatch.setattr(bias_sums, "ORDERS", 1)
    assert unfit(terms) == ""


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "channels"), [(1, 1), (9000, 1), (9000, 2), (9000, 3), (3000, 16), (700, 257)])
def test_terms_in_a_row_are_rounded_after_each(rows: int, channels: int, dtype: type) -> None:
    """NumPy adds numbers in pairs where they lie side by side; here that would be another sum."""
    rng = np.random.default_rng(0)
    terms: np.ndarray = rng.normal(size=(rows, channels)).astype(np.float32)
    total: np.ndarray = rng.normal(size=channels).astype(dtype)
    wanted = total.copy()
    for row in terms:
        wanted += row
    assert in_a_row(total, terms).tobytes() == wanted.tobytes()


@pytest.mark.parametrize(("size", "distinct"), [(90_000, 10_000), (64, 64)])
def test_no_sample_is_repeated_often(size: int, distinct: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(case_maker, "BATCH_FLOPS", 64 * NET.train_flops)
    made = case_maker.CaseMaker(NET, TrainConfig(batch_size=None), np.random.default_rng(0))
    case = made.case("far", Order(0, 0, size), [Noise(NET, np.uint8)], updates=False)
    assert len(np.unique(case.dataset.train_x, axis=0)) == distinct
    assert size <= case_maker.REPEATED * distinct


@pytest.mark.parametrize(
    ("name", "batch", "seed"),
    [
        ("mlp10", 64, 18),
        ("mlp10", 2048, 5),
        pytest.param("mlp10", 10_000, 6, marks=pytest.mark.slow),
        pytest.param("autoencoder", 1, 2, marks=pytest.mark.slow),
    ],
    ids=lambda value: str(value),
)
def test_one_accumulator_is_honest(name: str, batch: int, seed: int) -> None:
    """On one thread the native rung adds up the samples one after the other: these cases once refused it, by up to
    twice a bound.
    """
    digits = data.load("digits")
    verdict = Shared(*sized(name, digits, batch), digits, seed).verdict(ladder.find("native", threads=1).build)
    assert verdict.passed, verdict.reason
    assert verdict.error < 0.8 * verdict.bound


class AddsExponentialsOneByOne(ArrayCrossEntropy):
    """Has one accumulator for a softmax's total: next to a learnt class, 1, each other term is rounded or lost."""

    def forward(self, n: int, has_loss: bool = True) -> None:
        super().forward(n, has_loss)
        total = np.cumsum(self.dx[:n], axis=1)[:, -1]
        if has_loss:
            self.loss[0] += np.mean(np.log(total) - np.log(self.total[:n]), dtype=np.float64)
        self.total[:n] = total


def test_errors_of_learnt_classes_do_not_cancel_by_chance() -> None:
    net = Net("ten", (10,), (Linear(out_features=10),), CrossEntropyLoss())
    reference = ReferenceTrainer(net, TrainConfig(batch_size=16), State(np.zeros(net.param_count, np.float32)))
    logits = np.full((16, 10), -7.0)
    logits[:, 9] = 0.0
    y, precision, entering = np.full(16, 9), named("fp32"), [np.eye(10)[np.arange(16) % 10], logits]
    least = min(
        of_probabilities(reference, entering, y, precision, np.random.default_rng(seed), None)[0][-1]
        for seed in range(200)
    )
    assert least >= 3.9 * precision.roundoff


@pytest.mark.parametrize(
    "seed", [4, 11, pytest.param(18, marks=pytest.mark.slow), pytest.param(41, marks=pytest.mark.slow)]
)
def test_one_accumulator_of_many_classes_is_honest(seed: int) -> None:
    net = Net("many", (1, 6, 6), (Flatten(), Linear(out_features=70)), CrossEntropyLoss())
    honest, liar = with_loss(CrossEntropyLoss, AddsExponentialsOneByOne), masked(SkipsLearntSamples, 1e-4, "").lie
    for build, passes in ((honest, True), (liar, False)):
        verdict = verify(build, net, TrainConfig(batch_size=5), seed=seed, reach=4)
        assert verdict.judged and verdict.passed is passes, verdict.reason


class AddsOneByOne(ArrayLinear):
    """Weight gradients of one accumulator, as some products are on several threads."""

    def backward(self, n: int) -> None:
        super().backward(n)
        t = self.buffers
        terms = (t.dy[:n, :, None] * t.x[:n, None, :]).reshape(n, -1)
        t.dw[...] = in_a_row(np.zeros(terms.shape[1], terms.dtype), terms).reshape(t.dw.shape)


class LeavesOneOut(AddsOneByOne):
    """One accumulator, and in a thousand samples one is left out."""

    def backward(self, n: int) -> None:
        self.buffers.x[:n][::1000] = 0
        super().backward(n)


def adding(op: type[ArrayLinear], net: Net, config: TrainConfig, state: State) -> Trainer:
    return LayerwiseTrainer(net, config, state, replace(TABLE, layers={**TABLE.layers, Linear: op}))


@pytest.mark.parametrize(
    ("hidden", "loss", "seed"),
    [
        ((Linear(out_features=12, bias=False), LeakyReLU(0.5)), MSELoss(), 6),
        pytest.param(
            (Linear(out_features=20), ReLU(), Linear(out_features=4), ReLU()), MSELoss(), 0, marks=pytest.mark.slow
        ),
        pytest.param((Linear(out_features=12), ReLU()), CrossEntropyLoss(), 1, marks=pytest.mark.slow),
    ],
    ids=["narrow", "wide", "classes"],
)
def test_a_full_batch_of_bytes_of_one_number_has_equal_terms_of_weights(
    hidden: tuple[Layer, ...], loss: Loss, seed: int
) -> None:
    """A sum of 70,001 such terms one by one is off by more than its bound: 1.2 and 1.03 times, and 5.5 of classes. A
    layer of more than 59 weights was not looked at.
    """
    ends = (
        (Linear(out_features=1), ReLU())
        if isinstance(loss, MSELoss)
        else (Linear(out_features=12), ReLU(), Linear(out_features=5))
    )
    net = Net("one", (1,), (Linear(out_features=1, bias=False), ReLU(), *hidden, *ends), loss)
    for op in (AddsOneByOne, LeavesOneOut):
        verdict = verify(partial(adding, op), net, TrainConfig(batch_size=None), seed=seed, reach=2)
        assert verdict.judged and verdict.passed is (op is AddsOneByOne), verdict.reason


@pytest.mark.parametrize(("apart", "fits"), [(2.0**-10, False), (1.0, True)])
def test_one_samples_terms_that_cancel_without_an_error(apart: float, fits: bool) -> None:
    """A gradient through two weights that are nearly equal: plain code has no error in it, other roundings have."""
    net = Net("bottleneck", (1,), (Linear(out_features=1), Linear(out_features=2)), CrossEntropyLoss())
    params = np.array([1.0, 0.0, 1.0, 1.0 + apart, 0.0, 0.0])
    x, y = np.ones((1, 1), np.float32), np.zeros(1, np.int32)
    reference = ReferenceTrainer(net, SETTINGS, State(params))
    results = reference.gradients(x.astype(np.float64), y)
    step = ReferenceStep(State(params.astype(np.float32)), 0, 1, 1, *results)
    found = Witness(net, step.state.params)
    alone = data.Dataset("one", x, y, x, y)
    found.load(alone)
    found.run(Order(0, 0, 1, shuffle=False), 0, 1)
    off = np.abs(found.state().slots["momentum_buffer"] - step.gradient)
    assert off.max() < 2e-7 * np.abs(step.gradient).max(), "plain code is exact enough for every bound"
    reason, gradients = misfit(net, alone, step, named("fp32"), None)
    assert (reason == "") is fits, reason
    assert len(gradients) > 1
