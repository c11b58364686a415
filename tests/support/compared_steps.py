"""Training steps of a rung compared with the float64 reference, and as bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
from magnitudes import longest_chain, magnitudes
from strategies import Case, case
from updates import sizes as update_sizes

from warpladder.config import TrainConfig
from warpladder.data import Dataset
from warpladder.data.order import Order
from warpladder.nets import Net, params
from warpladder.proof.bounds import loss_bound, update_bounds
from warpladder.proof.reference import ReferenceTrainer
from warpladder.proof.tolerance import bound
from warpladder.proof.verdict import Verdict, distance, excess
from warpladder.rungs.base import Rung
from warpladder.trainers.base import State, Trainer

#: A rate at which a step's update dwarfs the weights, so that an error in it cannot hide behind them.
RATE = 64.0


def steps_within(verdict: Verdict, most: float) -> bool:
    """Whether the error that is closest to its bound, but for those of histories, whose bounds grow with their steps, is
    within it, and the bound below `most`.
    """
    closest = max((row for row in verdict.rows if row.check != "history"), key=excess)
    return verdict.error <= verdict.bound and closest.error <= closest.bound < most


def build(rung: Rung, drawn: Case) -> Trainer:
    reason = rung.unsupported(drawn.net, drawn.config)
    assert reason is None, reason
    trainer = rung.build(drawn.net, drawn.config, drawn.state)
    trainer.load(drawn.dataset)
    return trainer


def float32(state: State) -> State:
    return state.copied(np.float32)


def agree(net: Net, found: np.ndarray, wanted: np.ndarray, terms: np.ndarray, limit: float, what: str) -> None:
    """Tensor by tensor, normwise, relative to the absolute values of the terms that were added."""
    for name, scale in params.views(net, terms).items():
        error = np.linalg.norm(params.views(net, found - wanted)[name])
        assert error <= limit * np.linalg.norm(scale), (
            f"{what} of {name}: {error:.1e} against terms of {np.linalg.norm(scale):.1e}"
        )


def same_count(wanted_out: np.ndarray, sizes: np.ndarray, limit: float) -> bool:
    """Whether no sample's two largest outputs are so close that rounding could swap them."""
    rows = np.arange(len(wanted_out))
    best = wanted_out.argmax(axis=1)
    gap = wanted_out[rows, best][:, None] - wanted_out
    safe = gap > limit * (sizes + sizes[rows, best][:, None])
    safe[rows, best] = True
    return bool(safe.all())


def compare_epoch(rung: Rung, drawn: Case) -> int:
    """Take every step of an epoch from the same float32 states along a float64 trajectory; returns how many could be
    compared.
    """
    net, samples = drawn.net, len(drawn.dataset.train_x)
    config = drawn.config.but(learning_rate=RATE)
    walker = ReferenceTrainer(net, drawn.config, drawn.state)
    walker.load(drawn.dataset)
    reference = ReferenceTrainer(net, config, drawn.state)
    reference.load(drawn.dataset)
    compared = 0
    with build(rung, replace(drawn, config=config)) as trainer:
        for step in range(drawn.steps):
            start = float32(walker.state())
            for each in (walker, reference, trainer):
                each.set_state(start)
            batch = config.batch(samples)
            x, y = reference.batch(drawn.order.indices(step * batch, min((step + 1) * batch, samples)))
            limit = bound("float32", longest_chain(net, len(x)))
            sizes = magnitudes(reference, x, y)
            out = reference.activations(x)[-1]
            wanted, found = reference.run(drawn.order, step, step + 1), trainer.run(drawn.order, step, step + 1)
            assert found.size.tolist() == [len(x)]
            assert abs(found.loss[0] - wanted.loss[0]) <= limit * sizes.loss
            if y is None:
                assert found.correct.tolist() == [0]
            elif same_count(out, sizes.output, limit):
                assert found.correct.tolist() == wanted.correct.tolist()
            if (sizes.closest > limit).all():  # otherwise rounding may throw a switch
                w_start, rate = start.params.astype(float), float(config.rates(start.step, start.step + 1, samples)[0])
                held = {name: slot.astype(float) for name, slot in start.slots.items()}
                change, slot_terms = update_sizes(config, w_start, sizes.grads, held, rate, start.step + 1)
                after = trainer.state()
                assert after.step == reference.step == start.step + 1
                assert after.slots.keys() == slot_terms.keys()
                agree(net, after.params, reference.params, abs(w_start) + change, limit, "update")
                for name, terms in slot_terms.items():
                    agree(net, after.slots[name], reference.slots[name], terms, limit, name)
                compared += 1
            walker.run(drawn.order, step, step + 1)
    return compared


@cache
def clear_of_switches(net: Net, config: TrainConfig, samples: int) -> Case:
    """A case whose samples, out of many, are those farthest from any switch; biases decide most ReLUs one way or the
    other.
    """
    drawn = case(net, config, seed=1, samples=40)
    for name, bias in params.views(net, drawn.state.params).items():
        if name.endswith("bias"):
            bias *= 20
    reference = ReferenceTrainer(net, config, drawn.state)
    reference.load(drawn.dataset)
    x, y = reference.batch(np.arange(40))
    best = np.sort(np.argsort(-magnitudes(reference, x, y).closest)[:samples])
    chosen = drawn.dataset.but(train_x=drawn.dataset.train_x[best], train_y=None if y is None else y[best])
    return replace(drawn, dataset=chosen, order=replace(drawn.order, n=samples))


def check_updates(
    build: Callable[..., Trainer], net: Net, config: TrainConfig, data: Dataset, start: State | None = None
) -> None:
    """Each step of an epoch, of SGD without momentum, from the same weights, within the bounds of a proof."""
    samples, start = len(data.train_x), State(params.initial(net, 2)) if start is None else start
    order = Order(5, 0, samples)
    with build(net, config, start) as trainer:
        trainer.load(data)
        for step in range(config.steps(samples)):
            reference = ReferenceTrainer(net, config, start)
            reference.load(data)
            trainer.set_state(start)
            wanted, log = (each.run(order, step, step + 1) for each in (reference, trainer))
            assert abs(log.loss[0] - wanted.loss[0]) <= loss_bound(net, wanted.size[0]) * wanted.loss[0]
            assert log.correct[0] == wanted.correct[0]
            bounds, before = update_bounds(net, int(wanted.size[0])), params.views(net, start.params.astype(np.float64))
            ends = [params.views(net, each.state().params.astype(np.float64)) for each in (reference, trainer)]
            for tensor, limit in bounds.items():
                true, seen = (end[tensor] - before[tensor] for end in ends)
                assert distance(seen, true, np.abs(true) + np.abs(before[tensor]) * 2.0**-24 / limit) <= limit


def bits(state: State) -> bytes:
    return state.bits()
