"""Rows of Linear layers: products with panels of weights, and layers with few outputs."""

from __future__ import annotations

from ..compiler.vectors import TOGETHER, WIDTH
from ..kernels.tile_sizes import MASK, RELU, ROWS, STORE
from .fuse import FusedLayer
from .layout import LayerWeights, padded
from .memory import PACKED, WEIGHTS
from .operands import (
    BiasGradientOperands,
    ConvolveOperands,
    FewOutputsInputGradientOperands,
    FewOutputsOperands,
    FewOutputsWeightGradientOperands,
    WeightGradientOperands,
    WeightStepOperands,
)
from .rows import BY_LOOP, IN_REGISTERS, SEPARATE, RowBuilder
from .tensors import Tensor


def forward(rows: RowBuilder, node: FusedLayer) -> None:
    """Emit the row of a Linear layer's forward pass."""
    at, x, y = rows.layout.layers[node.index], rows.values[node.x], rows.values[node.y]
    if at.has_few_outputs:
        operation = "few_outputs_of_bytes" if rows.enters(node.x) else "few_outputs"
        rows.emit(
            "forward",
            operation,
            FewOutputsOperands(x.view, y.view, at.weight, at.inputs, at.outputs, at.bias, node.has_relu, x.shape[0]),
        )
        return
    # each thread reads the same weights in both passes, so that they stay in its cache
    _multiply(rows, "forward", (x, y, y), (WEIGHTS, at.weight, at.bias), RELU if node.has_relu else STORE, at.outputs)


def _multiply(
    rows: RowBuilder, section: str, tensors: tuple[Tensor, Tensor, Tensor], weights: tuple[int, int, int], finish: int,
    outputs: int,
) -> None:  # fmt: skip
    """Emit the row of a product with panels. tensors : x, y and ReLU mask. weights : array, offset, bias."""
    x, y, mask = (tensor.samples_as_pixels() for tensor in tensors)
    panels = outputs // WIDTH
    operation = "multiply" if TOGETHER > 1 and panels == 1 else "convolve"
    rows.emit(
        section, operation, ConvolveOperands(x, y, mask, 1, 1, 1, 1, *weights, finish, panels, by_panel=panels > 1)
    )


def backward(rows: RowBuilder, node: FusedLayer) -> None:
    """Emit the rows of a Linear layer's input gradient, if any, and weight and bias gradient or their update."""
    at, dy = rows.layout.layers[node.index], rows.value_gradients[node.y]
    (_few_outputs_gradients if at.has_few_outputs else _gradients)(rows, node, at)
    if at.has_bias:
        operands = BiasGradientOperands(dy.samples_as_pixels(), 1, at.bias, padded(at.outputs))
        rows.emit("backward", "bias_gradient", operands)
    if rows.steps_of(node) != SEPARATE:
        rows.update("backward", at.bias, at.stop)
        rows.stepped[node.index] = at.weight, at.stop


def _gradients(rows: RowBuilder, node: FusedLayer, at: LayerWeights) -> None:
    x, dx, dy = rows.values[node.x], rows.value_gradients.get(node.x), rows.value_gradients[node.y]
    if dx is not None:
        finish = MASK if node.x in rows.fused_relu else STORE
        _multiply(rows, "backward", (dy, dx, x), (PACKED, rows.transposed(at), -1), finish, at.inputs)
    views = x.samples_as_pixels(), dy.samples_as_pixels()
    tiles, panels = -(-at.inputs // ROWS), at.outputs // WIDTH
    # the thread that multiplies by weights also steps them, so that they stay in its cache
    by_panel, steps = rows.by_panel(panels), rows.steps_of(node)
    if steps == BY_LOOP:
        rows.emit("backward", "weight_step", WeightStepOperands(*views, at.weight, tiles, panels, by_panel))
    else:
        operands = WeightGradientOperands(
            *views, 1, 1, 1, 1, at.weight, tiles, panels, by_panel, steps_weights=steps == IN_REGISTERS
        )
        rows.emit("backward", "weight_gradient", operands)


def _few_outputs_gradients(rows: RowBuilder, node: FusedLayer, at: LayerWeights) -> None:
    x, dx, dy = rows.values[node.x], rows.value_gradients.get(node.x), rows.value_gradients[node.y]
    panels, steps = at.inputs // WIDTH, rows.steps_of(node)
    weights = at.weight, at.inputs, at.outputs
    if dx is not None:
        # the previous layer is divided by the same panels: only the thread that writes a panel reads it
        views, masked = (dy.view, dx.view, x.view), node.x in rows.fused_relu
        operands = FewOutputsInputGradientOperands(*views, *weights, masked, panels, rows.by_panel(panels))
        rows.emit("backward", "few_outputs_input_gradient", operands)
    operation = "few_outputs_weight_gradient" + ("_of_bytes" if rows.enters(node.x) else "")
    rows.emit(
        "backward",
        operation,
        FewOutputsWeightGradientOperands(x.view, dy.view, *weights, panels, steps == IN_REGISTERS, x.shape[0]),
    )
    if steps == BY_LOOP:
        rows.update("backward", at.weight, at.weight + at.inputs, at.outputs)
