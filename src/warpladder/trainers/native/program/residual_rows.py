"""Rows of residual connections: a `Branch` copies x, a `Shortcut` copies the branch's, a `Sum` adds the stored array.

Stored arrays are the inputs of a `Branch` or a `Shortcut`, which nothing overwrites before a `Sum` reads them. Backward
a `Branch` adds the gradients of both paths, of which the second is the gradient of a `Sum`'s output or of a
projection's input, and a `Shortcut` copies that of its `Sum`.
"""

from __future__ import annotations

from ....nets import Branch, Shortcut, Sum
from .elementwise_operands import ResidualOperands
from .fuse import FusedLayer
from .rows import RowBuilder
from .tensors import Tensor


def forward(rows: RowBuilder, node: FusedLayer) -> None:
    """Emit the row of the forward pass of a branch, a shortcut or a sum."""
    x, y = rows.values[node.x], rows.values[node.y]
    stored = None if isinstance(node.layer, Branch) else rows.values[rows.node_of(rows.net.skips.stored[node.index]).x]
    if isinstance(node.layer, Shortcut):
        assert stored is not None
        x, stored = stored, None
    _add(rows, "forward", (x, stored, y), node.has_relu)


def backward(rows: RowBuilder, node: FusedLayer) -> None:
    """Emit the row of the input gradient of a branch, a shortcut or a sum, if there is one."""
    dx, dy = rows.value_gradients.get(node.x), rows.value_gradients[node.y]
    if dx is None:
        return
    at = rows.net.skips.returned.get(node.index)
    # the layer before that boundary may have a ReLU after it, fused: its gradient is masked
    second = None if at is None else rows.value_gradients[rows.node_of(at - 1).y]
    if isinstance(node.layer, Shortcut):
        assert second is not None
        dy, second = second, None
    _add(rows, "backward", (dy, None if isinstance(node.layer, Sum) else second, dx), has_relu=False)
    rows.mask(node.x)


def _add(rows: RowBuilder, section: str, tensors: tuple[Tensor, Tensor | None, Tensor], has_relu: bool) -> None:
    """Emit the row of y = x + other, or y = x; tensors : x, other or None, y."""
    x, other, y = tensors
    operands = ResidualOperands(
        x.view, (x if other is None else other).view, y.view, y.shape[0], other is not None, has_relu
    )
    rows.emit(section, "add_inputs", operands)
