"""Training in fp64, and gradients that are added in fp64: proven, caught where it is not so, kept in checkpoints, and
held to their own peak.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from checkpoints import apart, together
from crashes import crashed, same
from runs import CNN, CONFIG, MLP, data
from safetensors.numpy import load as load_tensors
from shared_cases import CODER

import warpladder as wl
from warpladder import nets
from warpladder.checkpoint.codec import decode, encode
from warpladder.config import TrainConfig
from warpladder.data.order import Order
from warpladder.errors import CheckpointError, RungError
from warpladder.ladder import find
from warpladder.machine.precision import named
from warpladder.nets import Conv2d, Linear, Net, params
from warpladder.ops.engine.base import Buffers
from warpladder.ops.tables.array import TABLE
from warpladder.optimizers import Adam
from warpladder.proof import verify
from warpladder.proof.bounds import update_bounds
from warpladder.results.text import words
from warpladder.rungs.numpy import build as numpy_build
from warpladder.train import restore, train
from warpladder.trainers.base import State, StepLog, Trainer
from warpladder.trainers.layerwise import LayerwiseTrainer

pytestmark = pytest.mark.usefixtures("machine_once")

FP64 = find("numpy:precision=fp64")
PERCEPTRON, CONVOLUTION = nets.mlp((1, 8, 8)), nets.cnn((1, 8, 8))
ADAM = TrainConfig(batch_size=8, optimizer=Adam(1e-3, weight_decay=1e-2))
SQUARES = TrainConfig(batch_size=4, momentum=0.9, nesterov=True, weight_decay=5e-4, clip_value=5.0)


@pytest.mark.parametrize(
    ("rung", "net", "config"),
    [
        *(("numpy:precision=fp64", net, SQUARES) for net in (PERCEPTRON, CONVOLUTION, CODER)),
        ("numpy:precision=fp64", PERCEPTRON, ADAM),
        pytest.param("loops:precision=fp64", PERCEPTRON, SQUARES, marks=pytest.mark.slow),
        ("numpy:sums=fp64", PERCEPTRON, SQUARES),
        *(
            pytest.param(rung, CONVOLUTION, SQUARES, marks=pytest.mark.slow)
            for rung in ("loops:precision=fp64", "numpy:sums=fp64")
        ),
        pytest.param("numpy:sums=fp64", PERCEPTRON, ADAM, marks=pytest.mark.slow),
        pytest.param("torch:precision=fp64", PERCEPTRON, ADAM, marks=pytest.mark.slow),
        ("torch:precision=fp64", CONVOLUTION, SQUARES),
    ],
    ids=lambda each: (
        getattr(each, "name", each) if not isinstance(each, TrainConfig) else type(each.optimizer).__name__
    ),
)
@pytest.mark.by_day("fp64-mlp-Adam", "numpy:precision=fp64-cnn", "sums=fp64-mlp-SGD", "torch:precision=fp64-cnn")
@pytest.mark.usefixtures("cases_once")
def test_proven(rung: str, net: Net, config: TrainConfig) -> None:
    found = find(rung)
    if reason := found.unsupported(net, config):
        pytest.skip(reason)
    verdict = verify(found.build, net, config, precision=found.precision, sums=found.sums)
    assert verdict.passed, verdict.reason
    assert verdict.bound < (1e-5 if found.precision == "fp32" else 1e-13)


class Passed(Trainer):
    """The honest rung in fp64, with every call passed through: subclasses round something to float32."""

    def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
        self.net, self.config = net, config
        self.inner = FP64.build(net, config, state)

    def load(self, dataset: Any) -> None:
        self.inner.load(dataset)

    def run(self, order: Any, first: int, last: int) -> StepLog:
        return self.inner.run(order, first, last)

    def state(self) -> State:
        return self.inner.state()

    def set_state(self, state: State) -> None:
        self.inner.set_state(state)

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        return self.inner.predict(x, scale)


class Fp32(Passed):
    """Computes in float32 and gives it out as float64."""

    def __init__(self, net: Net, config: TrainConfig, state: State) -> None:
        self.net, self.config = net, config
        self.inner = numpy_build(net, config, state)

    def state(self) -> State:
        return self.inner.state().copied(np.float64)

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        return self.inner.predict(x, scale).astype(np.float64)


class RoundsWhatItIsGiven(Passed):
    def set_state(self, state: State) -> None:
        self.inner.set_state(state.copied(np.float32))


class RoundsItsSlots(Passed):
    def state(self) -> State:
        held = self.inner.state()
        return held.but(slots={name: slot.astype(np.float32).astype(np.float64) for name, slot in held.slots.items()})


class RoundsItsLoss(Passed):
    def run(self, order: Any, first: int, last: int) -> StepLog:
        log = self.inner.run(order, first, last)
        return StepLog(log.loss.astype(np.float32).astype(np.float64), log.correct, log.size)


class PredictsInFp32(Passed):
    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        params = self.inner.state().params
        self.inner.set_state(self.inner.state().but(params=params.astype(np.float32).astype(np.float64)))
        out = self.inner.predict(x, scale)
        self.inner.set_state(self.inner.state().but(params=params))
        return out


class GivesFloat32(Passed):
    def state(self) -> State:
        return self.inner.state().copied(np.float32)


class ScalesPixelsInFp64(Passed):
    """Sees other numbers than everybody else."""

    def load(self, dataset: Any) -> None:
        super().load(dataset)
        gather = self.inner.feed.gather  # type: ignore[attr-defined]

        def rows(indices: np.ndarray) -> None:
            gather.x[: len(indices)] = gather.source[indices] * np.float64(dataset.scale)

        gather.rows = rows


LIARS = {
    Fp32: ("update", "loss"), RoundsWhatItIsGiven: ("loss", "update", "slots", "round trip"), RoundsItsSlots: ("slots",), RoundsItsLoss: ("loss",),
    PredictsInFp32: ("predict",), GivesFloat32: ("state",), ScalesPixelsInFp64: ("update", "loss"),
}  # fmt: skip


@pytest.mark.parametrize("liar", LIARS, ids=lambda liar: liar.__name__)
def test_what_is_rounded_to_fp32_somewhere_does_not_pass_as_fp64(liar: Any) -> None:
    verdict = verify(liar, PERCEPTRON, SQUARES, precision="fp64")
    assert not verdict.passed and verdict.reason.startswith(LIARS[liar]), verdict.reason


def test_fp64_does_not_pass_as_fp32_whose_state_is_another() -> None:
    verdict = verify(FP64.build, PERCEPTRON, SQUARES)
    assert not verdict.passed and verdict.reason.startswith("state: params is not a float32 array"), verdict.reason


def test_sums_in_fp64_are_held_to_tighter_bounds_the_more_so_the_larger_the_batch() -> None:
    net, wide = PERCEPTRON, named("fp32").summing("fp64")
    for size in (1, 64, 10_000):
        usual, tight = update_bounds(net, size), update_bounds(net, size, wide)
        assert all(tight[name] <= usual[name] for name in usual)
    assert all(usual[name] > 3 * tight[name] for name in usual)
    assert named("fp64").summing("fp64") == named("fp64").summing("fp32") == named("fp64")
    with pytest.raises(ValueError, match="sums wants one of fp32, fp64, got 'bf16'"):
        named("fp32").summing("bf16")


@pytest.mark.parametrize(
    ("layer", "entering"),
    [(Linear(out_features=3), (5,)), (Conv2d(out_channels=3, kernel_size=3, padding=1), (2, 5, 5)), (Conv2d(out_channels=1, kernel_size=3), (4, 6, 5))],
    ids=["Linear", "Conv2d", "Conv2d that unfolds its output"],
)  # fmt: skip
def test_gradients_are_sums_in_fp64_of_fp32_s_numbers(layer: Any, entering: tuple[int, ...]) -> None:
    rng, n = np.random.default_rng(0), 50
    drawn = [rng.normal(size=shape).astype(np.float32) for shape in ((n, *entering), (n, *layer.out_shape(entering)))]
    shapes = layer.param_shapes(entering)

    def gradients(dtype: Any, summed: Any) -> list[np.ndarray]:
        x, dy = (a.astype(dtype) for a in drawn)
        w, b = (np.zeros(shape, dtype) for shape in shapes.values())
        dw, db = (np.full(shape, np.nan, summed) for shape in shapes.values())
        op = TABLE.layers[type(layer)](layer, Buffers(x, np.zeros_like(dy), None, dy, w, b, dw, db))
        op.forward(n - 1)
        op.backward(n - 1)
        return [dw, db]

    for got, want, plain in zip(
        gradients(np.float32, np.float64),
        gradients(np.float64, np.float64),
        gradients(np.float32, np.float32),
        strict=True,
    ):
        assert got.dtype == np.float64 and plain.dtype == np.float32
        assert np.abs(got - want).max() <= 1e-13 * np.abs(want).max() < np.abs(plain - want).max()


def test_a_large_batch_is_added_in_fp64_over_its_slices_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from warpladder.trainers import layerwise

    config, dataset = CONFIG.but(batch_size=None), data()
    start = State(params.initial(MLP, 1))
    ends = {}
    for limit in (layerwise.SLICE_BYTES, 4096):
        monkeypatch.setattr(layerwise, "SLICE_BYTES", limit)
        for sums in (None, "float64"):
            trainer = LayerwiseTrainer(MLP, config, start, TABLE, sums=sums)
            trainer.load(dataset)
            trainer.run(Order(0, 0, len(dataset.train_x)), 0, 1)
            assert trainer.mean is None or trainer.mean.dtype == (sums or np.float32)
            ends[limit, sums] = trainer.state().params
    whole, parts = (end for (_, sums), end in ends.items() if sums)
    one, other = (end for (_, sums), end in ends.items() if sums is None)
    assert not np.array_equal(one, other)
    assert np.abs(whole - parts).max() <= np.spacing(np.abs(whole).max())


@pytest.mark.parametrize("net", [MLP, CNN], ids=lambda net: net.name)
def test_a_run_in_fp64_that_crashed_goes_on_bit_for_bit(tmp_path: Any, net: Net) -> None:
    path, rung = tmp_path / "run.safetensors", "numpy:precision=fp64"
    whole = train(net, data(), CONFIG, rung=rung)
    assert crashed(path, net, CONFIG, rung, 10, 1)
    assert {array.dtype for array in load_tensors(path.read_bytes()).values()} == {np.dtype(np.float64)}
    assert wl.load(path).checkpoint.element == "float64" and wl.load(path).rung == rung
    resumed = train(net, data(), resume=path)
    same(resumed, whole)
    assert any(np.any(array != array.astype(np.float32)) for array in resumed.params.values())


def test_files_of_fp32_are_those_that_earlier_versions_read() -> None:
    narrow, wide = (
        train(MLP, data(), CONFIG.but(epochs=1), rung=rung).checkpoint for rung in ("numpy", "numpy:precision=fp64")
    )
    assert [apart(encode(each))[0]["format"] for each in (narrow, wide)] == [2, 3]
    assert encode(decode(encode(wide))) == encode(wide)
    document, tensors = apart(encode(wide))
    for changed in (
        together(document | {"format": 2}, tensors),
        together(document, {name: a.astype(np.float32) for name, a in tensors.items()}),
    ):
        with pytest.raises(CheckpointError, match="its tensors are float"):
            decode(changed)


def test_predictions_of_a_run_in_fp64_are_float64(tmp_path: Any) -> None:
    dataset = data()
    run = train(MLP, dataset, CONFIG.but(epochs=1), rung="numpy:precision=fp64")
    run.save(tmp_path / "a.safetensors")
    again = wl.load(tmp_path / "a.safetensors")
    out = again.outputs(dataset.test_x)
    assert out.dtype == np.float64 and np.any(out != out.astype(np.float32))
    assert again.score(dataset.test_x, dataset.test_y) == run.test_accuracy
    assert all(array.dtype == np.float64 for array in again.state_dict().values())
    with restore(again.checkpoint, "numpy") as trainer:  # a rung that is named computes as it does
        found = trainer.predict(dataset.test_x, dataset.scale)
    assert found.dtype == np.float32 and np.allclose(found, out, rtol=1e-4, atol=1e-5)


def test_precisions_change_where_nothing_is_lost_and_else_where_it_is_asked_for(tmp_path: Any) -> None:
    fine, coarse = tmp_path / "fine.safetensors", tmp_path / "coarse.safetensors"
    begun = {
        path: train(MLP, data(), CONFIG.but(epochs=1), rung=rung, checkpoint=path)
        for path, rung in ((fine, "numpy:precision=fp64"), (coarse, "numpy"))
    }
    up = train(MLP, data(), CONFIG, rung="numpy:precision=fp64", resume=coarse)
    assert up.checkpoint.element == "float64" and up.checkpoint.epoch == CONFIG.epochs
    with pytest.raises(
        CheckpointError, match=r"holds float64 numbers, which rung 'numpy' would round to float32: .*--from FILE"
    ) as error:
        train(MLP, data(), CONFIG, rung="numpy", resume=fine)
    assert "\n" not in str(error.value)
    down = train(MLP, data(), CONFIG.but(epochs=0), rung="numpy", weights=fine)
    for name, array in begun[fine].params.items():
        assert np.array_equal(down.params[name], array.astype(np.float32))
    kept = train(MLP, data(), CONFIG.but(epochs=0), rung="numpy:precision=fp64", weights=begun[fine])
    assert all(np.array_equal(kept.params[name], array) for name, array in begun[fine].params.items())
    huge = decode(encode(begun[fine].checkpoint))
    next(iter(huge.params.values()))[0] = 1e300
    with pytest.raises(CheckpointError, match="beyond the range of float32"):
        restore(huge, "numpy")


def test_all_precisions_begin_with_the_same_weights() -> None:
    narrow, wide = (
        train(MLP, data(), CONFIG.but(epochs=0), rung=rung).params for rung in ("numpy", "numpy:precision=fp64")
    )
    assert all(np.array_equal(narrow[name], wide[name]) and wide[name].dtype == np.float64 for name in narrow)


@pytest.mark.slow
def test_a_climb_holds_fp64_to_the_peak_in_fp64() -> None:
    dataset = wl.data.load("digits")
    net = nets.mlp((1, 8, 8))
    results = wl.climb(
        net,
        dataset,
        TrainConfig(epochs=1, batch_size=64),
        ["numpy", "numpy:precision=fp64", "numpy:sums=fp64"],
        epochs=1,
        repeats=1,
    )
    plain, fine, wide = results.rungs
    assert [found.status for found in results.rungs] == ["timed"] * 3, [found.reason for found in results.rungs]
    assert (plain.precision, fine.precision, wide.precision, wide.sums) == ("fp32", "fp64", "fp32", "fp64")
    assert (
        results.machine.fma_peak_fp64 is not None
        and 1.5 < results.machine.fma_peak / results.machine.fma_peak_fp64 < 2.5
    )
    assert results.peak(fine) == pytest.approx(results.machine.fma_peak_fp64) and results.on_cpu(fine)
    assert results.peak(wide) == pytest.approx(results.machine.fma_peak)
    assert words.unit_name(results, fine).endswith("of the CPU in fp64") and words.unit_name(results, plain).endswith(
        "of the CPU"
    )
    assert None not in (plain.test_accuracy, fine.test_accuracy, wide.test_accuracy)


def test_what_goes_without_saying_is_said_as_well() -> None:
    assert find("numpy:precision=float64").name == find("numpy", precision="fp64").name == "numpy:precision=fp64"
    assert find("numpy:precision=fp32").precision == find("numpy").precision == "fp32"
    told = find("numpy:precision=fp64:sums=fp32").unsupported(MLP, CONFIG)
    assert told == "precision=fp64 adds in fp64: leave sums out"
    with pytest.raises(RungError, match="precision wants 'fp32' or 'fp64', got 'half'"):
        find("numpy", precision="half")
