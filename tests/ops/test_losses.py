"""Losses with settings: against PyTorch's autograd, finite differences, each form of the operation, and NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from losses import LOSSES, NEW, WEIGHT, torch_loss

from warpladder.errors import NetError
from warpladder.nets import BCEWithLogitsLoss, CrossEntropyLoss, HuberLoss, L1Loss, Linear, Loss, Net
from warpladder.ops.loss import reference
from warpladder.ops.tables import array, loops
from warpladder.proof.tolerance import bound


def drawn(loss: Loss, n: int = 7, spread: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.normal(0, spread, (n, 4))
    if isinstance(loss, CrossEntropyLoss):
        return x, rng.integers(0, 4, n)
    return x, rng.random((n, 4)) if isinstance(loss, BCEWithLogitsLoss) else rng.normal(size=(n, 4))


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("spread", [0.01, 2.0, 300.0], ids=str)
def test_the_reference_is_pytorchs_in_float64(loss: Loss, spread: float) -> None:
    torch = pytest.importorskip("torch")
    x, y = drawn(loss, spread=spread)
    leaf = torch.tensor(x, requires_grad=True)
    found = torch_loss(loss)(leaf, torch.tensor(y))
    found.backward()
    shares = reference.shares(loss, y, len(x))
    assert reference.forward(loss, x, y, shares) == pytest.approx(found.item(), rel=1e-12)
    wanted = leaf.grad.numpy()
    assert np.abs(reference.backward(loss, x, y, shares) - wanted).max() <= 1e-12 * np.abs(wanted).max()


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_gradient_is_the_slope(loss: Loss) -> None:
    x, y = drawn(loss)
    found, step = reference.backward(loss, x, y, np.full(len(x), 0.3)), 1e-6
    for place in np.ndindex(x.shape):
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[place] += sign * step
            ends.append(reference.forward(loss, moved, y, np.full(len(x), 0.3)))
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(found[place], abs=1e-7)


@pytest.mark.parametrize("table", [array.TABLE, loops.TABLE], ids=["array", "loops"])
@pytest.mark.parametrize("has_shares", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_forms_on_the_cpu(loss: Loss, has_shares: bool, table: Any) -> None:
    wide, goal = drawn(loss)
    x = wide.astype(np.float32)
    target = goal.astype(np.int32 if goal.ndim == 1 else np.float32)
    shares = np.array([0, 0.1, 0.3, 0.2, 0.05, 0.25, 0.1], np.float32) if has_shares else None
    dx = np.full_like(x, np.nan)
    op = table.loss(loss, x, target, dx, shares)
    share = np.full(7, 1 / 7) if shares is None else shares.astype(np.float64)
    op.forward(7)
    op.backward(7)
    limit = 4 * bound("float32", 16)
    wanted = reference.forward(loss, x.astype(float), target, share)
    assert abs(op.loss[0] - wanted) <= limit * wanted
    assert op.correct[0] == reference.correct(loss, x, target)
    assert np.abs(dx - reference.backward(loss, x.astype(float), target, share)).max() <= limit
    op.forward(5, has_loss=False)
    assert abs(op.loss[0] - wanted) <= limit * wanted  # stays as it was


@pytest.mark.parametrize("table", [array.TABLE, loops.TABLE], ids=["array", "loops"])
def test_l1_has_no_slope_at_its_target(table: Any) -> None:
    x = np.array([[1, 2], [3, np.nan]], np.float32)
    dx = np.empty_like(x)
    op = table.loss(L1Loss(), x, np.array([[1, 3], [2, 0]], np.float32), dx, None)
    op.forward(2)
    op.backward(2)
    assert np.array_equal(dx, np.array([[0, -1 / 4], [1 / 4, np.nan]], np.float32), equal_nan=True)


@pytest.mark.parametrize("table", [array.TABLE, loops.TABLE], ids=["array", "loops"])
@pytest.mark.parametrize("loss", NEW, ids=str)
def test_a_nan_stays(loss: Loss, table: Any) -> None:
    wide, goal = drawn(loss)
    x = wide.astype(np.float32)
    x[2, 1] = np.nan
    dx = np.zeros_like(x)
    op = table.loss(loss, x, goal.astype(np.int32 if goal.ndim == 1 else np.float32), dx, None)
    op.forward(7)
    op.backward(7)
    assert math.isnan(op.loss[0]) and math.isnan(dx[2, 1]) and np.isfinite(np.delete(dx, 2, axis=0)).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CrossEntropyLoss(label_smoothing=1.5), "label_smoothing wants 0 to 1, got 1.5"),
        (lambda: CrossEntropyLoss(label_smoothing=math.nan), "label_smoothing wants a finite number"),
        (lambda: CrossEntropyLoss(label_smoothing=True), "label_smoothing wants a finite number, got True"),
        (lambda: CrossEntropyLoss(weight=(1, -1)), "weight wants numbers of at least 0"),
        (lambda: CrossEntropyLoss(weight=(0, 0)), "weight is 0 for every class"),
        (lambda: CrossEntropyLoss(weight="12"), "weight wants a list of numbers"),  # type: ignore[arg-type]
        (lambda: CrossEntropyLoss(weight={0: 5, 1: 1}), "weight wants a list of numbers"),  # type: ignore[arg-type]
        (lambda: BCEWithLogitsLoss(pos_weight={2.0, 3.0}), "pos_weight wants a list of numbers"),  # type: ignore[arg-type]
        (lambda: HuberLoss(delta=0), "delta wants a number above 0, got 0"),
        (lambda: BCEWithLogitsLoss(pos_weight=0), "pos_weight wants numbers above 0"),  # type: ignore[arg-type]
        (lambda: Net("n", (3,), (Linear(out_features=2),), CrossEntropyLoss(WEIGHT)), "weight has 4 numbers, the net 2 classes"),
        (lambda: Net("n", (3,), (Linear(out_features=2),), BCEWithLogitsLoss(WEIGHT)), "pos_weight has 4 numbers, the net 2"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be(make: Any, message: str) -> None:
    with pytest.raises(NetError, match=message):
        make()


def test_settings_are_numbers_of_any_kind() -> None:
    assert CrossEntropyLoss(np.array([1, 2])) == CrossEntropyLoss([1.0, 2.0]) == CrossEntropyLoss((1, 2))  # type: ignore[arg-type]
    assert BCEWithLogitsLoss(3) == BCEWithLogitsLoss(np.float32(3)) == BCEWithLogitsLoss([3])  # type: ignore[arg-type]
    assert str(CrossEntropyLoss(label_smoothing=0.1)) == "CrossEntropyLoss(label_smoothing=0.1)"
    assert hash(CrossEntropyLoss([1.0, 2.0])) == hash(CrossEntropyLoss((1, 2)))  # type: ignore[arg-type]
