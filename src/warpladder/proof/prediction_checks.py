"""Checks of outputs: any number of samples in any memory layout, for one state after another."""

from __future__ import annotations

import numpy as np

from .bounds import output_bound, output_scale
from .context import GuardedTrainer, ProofContext
from .pools import PredictionPool
from .reference_cases import ReferenceCase

#: Samples that are predicted at once, at least, by the steps of a long call that the trainer has time for.
MANY = {1024: 1 << 16, 128: 1 << 13, 16: 1 << 10, 0: 200}
FEW = 64  # most samples above that number
TILE = 1024  # samples that are predicted at once besides, or a smaller power of two: whole tiles of any kernel
MANY_BYTES = 1 << 27  # bytes of its samples and outputs, at most


def check_predictions(context: ProofContext, trainer: GuardedTrainer, when: str) -> None:
    """Check outputs for numbers of samples other than the batch's, and that earlier outputs do not change."""
    b = context.cases.batch
    trainer.set_state(context.cases.predicted)
    earlier: list[tuple[np.ndarray, np.ndarray]] = []
    for pool, sizes in zip(context.cases.pools, ((2, b + 1, b + 1), (1, 2 * b + 3)), strict=True):
        for n in sizes:
            got = _check_prediction(context, trainer, pool, _which(context, pool, n), when)
            earlier.append((got, got.copy()))
    for got, then in earlier:
        context.ledger.same("predict", f"an earlier prediction, before and after later ones ({when}),", got, then)


def check_more_predictions(context: ProofContext, trainer: GuardedTrainer, case: ReferenceCase) -> None:
    """Check outputs of many samples, of arrays of any memory layout, and after an update."""
    pool, rng = context.cases.pools[1], context.rng
    trainer.load(case.dataset)
    few = _which(context, pool, int(rng.integers(1, 3)))
    trainer.set_state(case.steps[0].state)
    trainer.predict(pool.x[few], pool.scale)  # an answer that may not be given again
    _check_after_update(context, trainer, case)
    trainer.set_state(context.cases.predicted)
    _check_prediction(context, trainer, pool, few, "in another state than before")
    for size in (2, 3):  # with one sample some layouts are equal
        some = _which(context, pool, size)
        for layout, x in _layouts(pool.x[some]).items():
            _check_prediction(context, trainer, pool, some, layout, x)
    fitting = MANY_BYTES // (pool.x[0].nbytes + pool.truth[0].nbytes)
    many = max(MANY[0], min(fitting, next(n for reach, n in MANY.items() if context.reach >= reach)))
    which = rng.integers(0, len(pool.x), (many + int(rng.integers(1, FEW))) | 1)  # no multiple of any chunk
    _check_prediction(context, trainer, pool, which, "many")
    _check_prediction(context, trainer, pool, which[: min(TILE, 1 << (many.bit_length() - 1))], "in whole tiles")


def _check_after_update(context: ProofContext, trainer: GuardedTrainer, case: ReferenceCase) -> None:
    """Check outputs after a step."""
    x, scale = case.dataset.train_x[: context.cases.batch].copy(), case.dataset.scale
    trainer.predict(x, scale)
    trainer.run(case.order, 0, 1)
    check_outputs_of_state(context, trainer, x, scale, "a step")


def check_outputs_of_state(
    context: ProofContext, trainer: GuardedTrainer, x: np.ndarray, scale: float, steps: str
) -> None:
    """Check that outputs after some steps are those of the state after them. steps : what was trained."""
    after = trainer.predict(x, scale)
    state = context.state(trainer, f"after {steps} and a prediction").copied()
    trainer.set_state(state)
    again = trainer.predict(x, scale)
    what = f"outputs after {steps}, and those of the same state set again,"
    if context.bitwise:
        context.ledger.same("predict", what, after, again)
    elif np.all(np.isfinite(again)):
        bounds = {"the output": output_bound(context.net, context.cases.precision)}
        scales = {"the output": output_scale(again)}
        context.ledger.near("predict", what, {"the output": (after, again)}, bounds, scales)


def _layouts(x: np.ndarray) -> dict[str, np.ndarray]:
    """Arrays with the samples x (n, ...) in other memory layouts, by a name of the layout."""
    wide = np.zeros((2 * len(x), *x.shape[1:]), x.dtype)
    wide[::2] = x
    broad = np.zeros((*x.shape[:-1], x.shape[-1] + 3), x.dtype)
    broad[..., 1:-2] = x
    fixed = x.copy()
    fixed.flags.writeable = False
    return {
        "a view of every other row": wide[::2], "a view of some columns": broad[..., 1:-2],
        "a view from the last row on": x[::-1].copy()[::-1], "a Fortran-ordered array": np.asfortranarray(x),
        "a read-only array": fixed,
    }  # fmt: skip


def _which(context: ProofContext, pool: PredictionPool, n: int) -> np.ndarray:
    """Indices (n,) of samples of a pool: up to two that can be judged separately, else all in turn."""
    some = np.resize(context.rng.permutation(pool.alone), n) if n <= 2 else np.arange(n) % len(pool.x)
    return context.rng.permutation(some)


def _check_prediction(
    context: ProofContext, trainer: GuardedTrainer, pool: PredictionPool, which: np.ndarray, when: str,
    x: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """Outputs for samples `which` of a pool, checked. x : the samples in another memory layout."""
    ledger, n = context.ledger, len(which)
    shape = n, *context.net.out_shape
    x = pool.x[which] if x is None else x
    got = trainer.predict(x, pool.scale)
    where = f"{n} samples of {pool.x.dtype}, {when}"
    alike = isinstance(got, np.ndarray) and got.dtype == context.element and got.shape == shape
    given = f"got {getattr(got, 'dtype', type(got))} {np.shape(got)}"
    ledger.holds("output", alike, f"output: wanted {context.element} {shape}, {given}: {where}")
    outputs = {"the output": (got, pool.truth[which])}
    bounds = {"the output": output_bound(context.net, context.cases.precision)}
    scales = {"the output": output_scale(pool.truth[which], pool.truth)}
    ledger.near("predict", where, outputs, bounds, scales)
    ledger.holds("data", np.array_equal(x, pool.x[which]), f"data: predict has changed its samples: {where}")
    return got
