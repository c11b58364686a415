"""Batch normalisation: its reference against finite differences and PyTorch, and the ops of the CPU against it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest

from warpladder.config import TrainConfig
from warpladder.device import emulator
from warpladder.device.emulator import EmulatedDevice
from warpladder.nets import BatchNorm1d, BatchNorm2d
from warpladder.ops.batchnorm import fused, reference
from warpladder.ops.engine.base import Buffers, OpTable
from warpladder.ops.engine.chain import subgraph, whole
from warpladder.ops.engine.segments import Operands
from warpladder.ops.tables import array, loops

CASES = [
    (BatchNorm1d(), (5, 4)),
    (BatchNorm1d(eps=0.1, momentum=0.7, affine=False), (9, 3)),
    (BatchNorm2d(eps=1e-3, momentum=0.01), (3, 4, 5, 2)),
    (BatchNorm2d(affine=False), (2, 3, 1, 3)),
    (BatchNorm2d(momentum=1.0), (1, 2, 3, 3)),
]
cases = pytest.mark.parametrize(("layer", "shape"), CASES, ids=str)


def drawn(layer: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    """Samples far from mean 0 and deviation 1, parameters, running statistics, and the output's gradient."""
    rng = np.random.default_rng(4)
    channels = shape[1]
    w, b = (rng.normal(1, 0.3, channels), rng.normal(size=channels)) if layer.affine else (None, None)
    return {
        "x": rng.normal(1.5, 2, shape), "w": w, "b": b, "dy": rng.normal(size=shape), "mean": rng.normal(size=channels),
        "var": rng.uniform(0.5, 2, channels),
    }  # fmt: skip


@cases
def test_the_reference_is_torchs(layer: Any, shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    case = drawn(layer, shape)
    module = getattr(torch.nn, type(layer).__name__)(shape[1], layer.eps, layer.momentum, layer.affine).double()
    with torch.no_grad():
        module.running_mean.copy_(torch.tensor(case["mean"]))
        module.running_var.copy_(torch.tensor(case["var"]))
        if layer.affine:
            module.weight.copy_(torch.tensor(case["w"]))
            module.bias.copy_(torch.tensor(case["b"]))
    x = torch.tensor(case["x"], requires_grad=True)
    y = module(x)
    y.backward(torch.tensor(case["dy"]))
    wanted = [y.detach(), x.grad, *([module.weight.grad, module.bias.grad] if layer.affine else [])]
    wanted += [module.running_mean, module.running_var, module.eval()(x.detach()).detach()]
    mean, var = reference.moved(layer, case["x"], case["mean"], case["var"])
    found = [
        reference.forward(layer, case["x"], case["w"], case["b"]),
        *reference.backward(layer, case["x"], case["w"], case["dy"]),
        mean, var, reference.predict(layer, case["x"], case["w"], case["b"], mean, var),
    ]  # fmt: skip
    for got, want in zip(found, wanted, strict=True):
        assert np.abs(got - want.numpy()).max() <= 1e-12


@cases
def test_backward_is_the_gradient_of_forward(layer: Any, shape: tuple[int, ...]) -> None:
    case, rng, step = drawn(layer, shape), np.random.default_rng(5), 1e-6
    gradients = reference.backward(layer, case["x"], case["w"], case["dy"])
    for name, gradient in zip("xwb", gradients, strict=False):
        line = rng.normal(size=case[name].shape)
        above, below = (
            reference.forward(layer, *((case | {name: case[name] + sign * step * line})[key] for key in "xwb"))
            for sign in (1, -1)
        )
        rise = float((case["dy"] * (above - below)).sum()) / (2 * step)
        assert abs(rise - float((gradient * line).sum())) <= 1e-7 * max(1.0, abs(rise))


@cases
@pytest.mark.parametrize("table", [array.TABLE, loops.TABLE], ids=["array", "loops"])
def test_ops_are_the_reference(table: OpTable, layer: Any, shape: tuple[int, ...]) -> None:
    """A batch smaller than the capacity, whose other rows hold NaN; then predictions with the moved statistics."""
    case: dict[str, Any] = {
        name: None if a is None else a.astype(np.float32) for name, a in drawn(layer, shape).items()
    }
    n, room = shape[0], (2, *shape[1:])
    x, dy = (np.concatenate([case[name], np.full(room, np.nan, np.float32)]) for name in ("x", "dy"))
    y, dx = (np.full(x.shape, np.nan, np.float32) for _ in range(2))
    dw, db = (None if case["w"] is None else np.full(shape[1], np.nan, np.float32) for _ in range(2))
    mean, var = case["mean"].copy(), case["var"].copy()
    op = table.op(layer)(layer, Buffers(x, y, dx, dy, case["w"], case["b"], dw, db, mean, var))
    wide: dict[str, Any] = {name: None if a is None else a.astype(np.float64) for name, a in case.items()}
    op.forward(n)
    op.backward(n)
    moved = reference.moved(layer, wide["x"], wide["mean"], wide["var"])
    gradients = reference.backward(layer, wide["x"], wide["w"], wide["dy"])
    found = [y[:n], mean, var, dx[:n], *([dw, db] if layer.affine else [])]
    wanted = [reference.forward(layer, wide["x"], wide["w"], wide["b"]), *moved, *gradients]
    for got, want in zip(found, wanted, strict=True):
        assert np.abs(got - want).max() <= 2e-6 * max(1.0, np.abs(want).max())
    assert np.isnan(y[n:]).all() and np.isnan(dx[n:]).all()
    op.predict(n)
    want = reference.predict(layer, wide["x"], wide["w"], wide["b"], mean.astype(float), var.astype(float))
    assert np.abs(y[:n] - want).max() <= 2e-6 * np.abs(want).max()


#: Images whose sums cancel, or overwhelm one another, from normal numbers (samples, channels, pixels).
HARD: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "far from zero": lambda x: x + 1e6, "an outlier first": lambda x: np.where(np.arange(x.shape[2]) == 0, 1e6, x),
    "one not zero": lambda x: np.where(np.arange(x.shape[2]) == 7, 1e3, 0 * x), "constant": lambda x: 0 * x + 10 / 3,
    "tiny": lambda x: 1e-12 * x, "mostly zero": lambda x: np.maximum(x - 2, 0),
}  # fmt: skip


@pytest.mark.skipif(emulator.why_not() is not None, reason=str(emulator.why_not()))
@pytest.mark.parametrize("most", [16384, 64], ids=["block", "parts"])
@pytest.mark.parametrize("what", HARD)
def test_fused_sums_lose_nothing(what: str, most: int) -> None:
    device, rng, n, shape, layer = EmulatedDevice(), np.random.default_rng(0), 6, (3, 9, 8), BatchNorm2d()
    x = HARD[what](rng.normal(size=(n, 3, 72))).reshape(n, *shape).astype(np.float32)
    host: dict[str, np.ndarray] = {"x": x, "dy": rng.normal(size=x.shape), "y": x, "dx": x}
    host |= {name: np.ones(3) for name in ("w", "b", "dw", "db", "mean", "var")}
    arrays = {name: device.array(array.astype(np.float32), name) for name, array in host.items()}
    nodes = replace(subgraph((layer,), shape, n, device.limits), config=TrainConfig())
    with mock.patch.multiple(fused, MOST=most, PART=64):
        segment = fused.FusedBatchNorm(device, nodes, Operands(Buffers(**arrays)), 256)
        for call in (*segment.forward(whole(n)), *segment.backward(whole(n))):
            call.send()
    wide, dy = x.astype(float), arrays["dy"].download().astype(float)
    found = [arrays[name].download() for name in ("y", "mean", "var", "dx", "dw", "db")]
    wanted = [
        reference.forward(layer, wide, np.ones(3), np.ones(3)),
        *reference.moved(layer, wide, np.ones(3), np.ones(3)),
    ]
    for got, want in zip(found, [*wanted, *reference.backward(layer, wide, np.ones(3), dy)], strict=True):
        assert np.abs(got - want).max() <= 5e-7 * max(1.0, np.abs(want).max())
