"""Whole training steps of every rung on drawn nets against the float64 reference, and what a trainer promises besides."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from compared_steps import bits, build, clear_of_switches, compare_epoch
from hypothesis import HealthCheck, assume, given, settings
from magnitudes import longest_chain, magnitudes
from rungs_here import HERE, TEMPLATED
from strategies import NARROW, ZOO, Case, case, cases

from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.data.dataset import pixels
from warpladder.data.order import ORDER_WORDS
from warpladder.errors import ConfigError, DataError
from warpladder.ladder import find
from warpladder.nets import Flatten, Net, ReLU
from warpladder.proof.reference import ReferenceTrainer
from warpladder.proof.tolerance import bound
from warpladder.rungs.base import Rung
from warpladder.trainers import layerwise

rungs = pytest.mark.parametrize("rung", HERE, ids=lambda rung: rung.name)

#: Rungs that have the kernels of naive or tiled, and another way of bringing samples.
FEEDS = ("streamed-emulated", "resident-emulated")


@rungs
def test_steps_of_drawn_nets(rung: Rung) -> None:
    """25 nets by day; on the emulator, where each takes half a second, five, and 150 in the nightly run."""
    usual = settings().max_examples
    examples = usual // 2
    if rung.name.endswith("emulated"):
        examples = usual // 10 if usual <= 100 else usual * 3 // 10

    @settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(drawn=cases())
    def agree_on(drawn: Case) -> None:
        assume(compare_epoch(rung, drawn) or not drawn.steps)

    agree_on()


@pytest.mark.parametrize(
    ("rung", "net"),
    [
        pytest.param(
            rung, net, id=f"{net.name}-{rung.name}", marks=[pytest.mark.slow] * (net is ZOO[-1] and rung.name in FEEDS)
        )
        for net in (*ZOO, NARROW)
        for rung in HERE
    ],
)
@pytest.mark.by_day("softmax", "mlp", "cnn", "narrow")
def test_steps_of_the_zoo(rung: Rung, net: Net) -> None:
    config = TrainConfig(batch_size=2, learning_rate=1e-5, momentum=0.9, nesterov=True, weight_decay=1e-2)
    assert compare_epoch(rung, clear_of_switches(net, config, samples=3)) == 2


@pytest.mark.parametrize("rung", TEMPLATED, ids=lambda rung: rung.name)
@pytest.mark.parametrize(
    "net", [nets.mlp((1, 8, 8)), nets.cnn((1, 8, 8)), nets.autoencoder((1, 8, 8))], ids=lambda net: net.name
)
@pytest.mark.by_day("cnn")
def test_steps_of_kernels_with_instances(rung: Rung, net: Net) -> None:
    config = TrainConfig(batch_size=2, learning_rate=1e-5, momentum=0.9, nesterov=True, weight_decay=1e-2)
    assert compare_epoch(rung, clear_of_switches(net, config, samples=3)) == 2


SMALL = nets.cnn((1, 8, 8), classes=4)
SETTINGS = TrainConfig(batch_size=4, learning_rate=0.05, momentum=0.9, weight_decay=1e-3)


@rungs
def test_the_same_bits_however_an_epoch_is_cut(rung: Rung) -> None:
    drawn = case(SMALL, SETTINGS, seed=1, samples=18)
    with build(rung, drawn) as whole, build(rung, drawn) as cut:
        log = whole.run(drawn.order, 0, 5)
        logs = [cut.run(drawn.order, 0, 1)]
        cut.predict(drawn.dataset.train_x[:7], drawn.dataset.scale)  # asking disturbs nothing
        logs.append(cut.run(drawn.order, 1, 1))
        held = cut.state()
        cut.run(drawn.order, 1, 3)
        cut.set_state(held)
        logs.append(cut.run(drawn.order, 1, 4))
        logs.append(cut.run(drawn.order, 4, 5))
        assert bits(whole.state()) == bits(cut.state())
        assert log.loss.tolist() == np.concatenate([part.loss for part in logs]).tolist()
        assert log.size.tolist() == [4, 4, 4, 4, 2]


@rungs
def test_state_is_a_copy(rung: Rung) -> None:
    drawn = case(SMALL, SETTINGS, seed=2, samples=8)
    with build(rung, drawn) as trainer:
        assert bits(trainer.state()) == bits(drawn.state)
        held = trainer.state()
        before = bits(held)
        trainer.run(drawn.order, 0, 2)
        assert bits(held) == before
        assert bits(trainer.state()) != before
        held.params[...] = 0
        assert trainer.state().params.any()


NORMALISED = nets.Net("normalised", (5,), (nets.Linear(out_features=4), nets.BatchNorm1d(), nets.ReLU(),
                      nets.Linear(out_features=3)), nets.CrossEntropyLoss())  # fmt: skip


@rungs
@pytest.mark.parametrize("net", [SMALL, NORMALISED], ids=lambda net: net.name)
def test_weights_are_those_of_the_state_and_a_copy(rung: Rung, net: Net) -> None:
    drawn = case(net, SETTINGS, seed=2, samples=8)
    if (reason := rung.unsupported(net, SETTINGS)) is not None:
        pytest.skip(reason)
    with build(rung, drawn) as trainer:
        trainer.run(drawn.order, 0, 1)
        state, (params, buffers) = trainer.state(), trainer.weights()
        assert np.array_equal(params, state.params) and params.dtype == state.params.dtype
        assert (buffers is None) == (state.buffers is None)
        params[...] = 7
        if buffers is not None and state.buffers is not None:
            assert np.array_equal(buffers, state.buffers) and len(buffers) == net.buffer_count
            buffers[...] = 7
        assert bits(trainer.state()) == bits(state)


@rungs
@pytest.mark.parametrize("net", (*ZOO[:-1], NARROW), ids=lambda net: net.name)
def test_predict_any_number_of_samples(rung: Rung, net: Net) -> None:
    """More and fewer than the batch, one, and none; before and after data were loaded."""
    drawn = case(net, SETTINGS.but(batch_size=3), seed=3, samples=7)
    reference = ReferenceTrainer(net, drawn.config, drawn.state)
    x, scale = drawn.dataset.train_x, drawn.dataset.scale
    limit = bound("float32", longest_chain(net, 1))
    wanted = reference.predict(x, scale)
    terms = magnitudes(reference, pixels(x, scale).astype(float), np.zeros(7, np.int32)).output
    with rung.build(net, drawn.config, drawn.state) as trainer:
        for loaded in (False, True):
            if loaded:
                trainer.load(drawn.dataset)
            for count in (7, 1, 2, 3, 0, 5):
                out = trainer.predict(x[:count], scale)
                assert out.shape == (count, *net.out_shape)
                assert out.dtype == np.float32
                assert np.linalg.norm(out - wanted[:count]) <= limit * np.linalg.norm(terms[:count])


@rungs
def test_predict_more_samples_than_any_slice(rung: Rung) -> None:
    net = nets.mlp((1, 8, 8))
    drawn = case(net, TrainConfig(), seed=4, samples=1500)
    x, scale = drawn.dataset.train_x, drawn.dataset.scale
    reference = ReferenceTrainer(net, drawn.config, drawn.state)
    with rung.build(net, drawn.config, drawn.state) as trainer:
        out = trainer.predict(x, scale)
        assert np.linalg.norm(out - reference.predict(x, scale)) <= bound("float32", 64 + 256) * np.linalg.norm(out)
        assert np.array_equal(trainer.predict(x.astype(np.float32), scale), out)


@rungs
def test_load_again(rung: Rung) -> None:
    """A second data set, smaller than the batch, then the first one again."""
    drawn = case(SMALL, SETTINGS, seed=5, samples=9)
    other = case(SMALL, SETTINGS, seed=6, samples=3, as_bytes=False)
    with build(rung, drawn) as trainer, build(rung, drawn) as fresh:
        trainer.load(other.dataset)
        trainer.run(other.order, 0, 1)
        trainer.load(drawn.dataset)
        trainer.set_state(drawn.state)
        trainer.run(drawn.order, 0, 3)
        fresh.run(drawn.order, 0, 3)
        assert bits(trainer.state()) == bits(fresh.state())


@rungs
def test_what_cannot_be_asked_for_is_refused(rung: Rung) -> None:
    drawn = case(SMALL, SETTINGS, seed=7, samples=9)
    other = case(nets.cnn((1, 9, 9), classes=4), SETTINGS, seed=7, samples=9)
    with rung.build(drawn.net, drawn.config, drawn.state) as trainer:
        with pytest.raises(DataError, match="load"):
            trainer.run(drawn.order, 0, 1)
        with pytest.raises(DataError):
            trainer.load(other.dataset)
        trainer.load(drawn.dataset)
        with pytest.raises(ConfigError):
            trainer.run(drawn.order, 0, 4)
        with pytest.raises(ConfigError):
            trainer.run(replace(drawn.order, n=8), 0, 1)
        with pytest.raises(DataError, match=r"\(1, 8, 8\)"):
            trainer.predict(other.dataset.train_x, 1.0)


@pytest.mark.parametrize("name", ["loops", "numpy"])
@pytest.mark.parametrize("net", (*ZOO[:-1], NARROW), ids=lambda net: net.name)
def test_batches_larger_than_the_buffers(name: str, net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch in slices, the last one partial, is still one step with the whole batch's mean."""
    sample = 4 * sum(
        math.prod(s)
        for s, layer in zip(net.shapes[1:], net.layers, strict=True)
        if not isinstance(layer, (ReLU, Flatten))
    )
    monkeypatch.setattr(layerwise, "SLICE_BYTES", 2 * (sample + 4 * math.prod(net.in_shape)))
    config = TrainConfig(batch_size=5, learning_rate=1e-5, momentum=0.9, weight_decay=1e-2, clip_value=1.0)
    drawn = clear_of_switches(net, config, samples=8)
    with build(find(name), drawn) as trainer:
        assert isinstance(trainer, layerwise.LayerwiseTrainer) and trainer.batch is not None
        assert trainer.batch.capacity == 2
    assert compare_epoch(find(name), drawn) == 2


@rungs
@pytest.mark.by_day("numpy", "loops", "native", "naive-emulated")
def test_gradients_are_scaled_together(rung: Rung) -> None:
    """Steps whose norm is larger than `clip_norm` permits, with a partial batch, on every rung that can."""
    net = nets.mlp((1, 8, 8))
    drawn = clear_of_switches(net, SETTINGS.but(batch_size=5, clip_norm=0.1), samples=13)
    if (reason := rung.unsupported(net, drawn.config)) is not None:
        assert rung.name.startswith("persistent") and "norm" in reason and "\n" not in reason
        return
    assert compare_epoch(rung, drawn) == 3
    free = ReferenceTrainer(net, drawn.config.but(clip_norm=None), drawn.state)
    free.load(drawn.dataset)
    for step in range(3):
        x, y = free.batch(drawn.order.indices(5 * step, min(5 * step + 5, 13)))
        assert np.linalg.norm(free.gradients(x, y)[2]) > 0.1


@rungs
def test_memory_counts_the_data_as_bytes(rung: Rung) -> None:
    drawn = case(SMALL, SETTINGS, seed=8, samples=50)
    with build(rung, drawn) as trainer:
        held = trainer.memory()
    assert held["parameters"] >= 4 * SMALL.param_count
    whole = drawn.dataset.train_x.nbytes + 4 * 50
    if rung.name.startswith(("naive", "streamed")):  # only batches are on the device, one or three
        assert held["data"] * 50 == whole * SETTINGS.batch(50) * (3 if rung.name.startswith("streamed") else 1)
    else:  # on a device with the nine words of an epoch's order
        assert held["data"] == whole + (4 * ORDER_WORDS if rung.has("device") else 0)
    assert held["activations"] > 0
    assert held["gradients"] > 0


def test_numpy_keeps_to_its_threads() -> None:
    """While it computes, BLAS has as many threads as the config says, and afterwards what it had."""
    from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

    def threads() -> set[int]:
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    before = threads()
    seen: list[set[int]] = []
    drawn = case(SMALL, SETTINGS, seed=9, samples=8)
    with build(find("numpy", threads=1), drawn) as trainer:
        update = trainer.update  # type: ignore[attr-defined]
        step = update.step

        def watched(numbers: np.ndarray) -> None:
            seen.append(threads())
            step(numbers)

        update.step = watched
        trainer.run(drawn.order, 0, 1)
    assert seen == [{1}]
    assert threads() == before


@rungs
def test_divergence_is_seen_in_the_loss_and_warns_of_nothing_else(rung: Rung, recwarn: pytest.WarningsRecorder) -> None:
    drawn = case(NARROW, TrainConfig(batch_size=2, learning_rate=1e3), seed=1, samples=8)
    with build(rung, drawn) as trainer:
        losses = np.concatenate([trainer.run(replace(drawn.order, epoch=epoch), 0, 4).loss for epoch in range(3)])
    assert not np.isfinite(losses[-1])
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]
