"""Rows of samples, losses and layers without weights."""

from __future__ import annotations

import numpy as np

from .... import nets
from ....data.order import layer_offset
from ....nets.params import buffer_slices
from ....ops.activation import scalar
from ....ops.loss import scalar as scalar_loss
from .elementwise_operands import (
    ActivationGradientOperands,
    ActivationOperands,
    DropoutOperands,
    NormaliseGradientOperands,
    NormaliseOperands,
    ReluGradientOperands,
    ReluOperands,
)
from .fuse import FusedLayer
from .layout import padded, stays_in_place
from .operands import (
    AveragePoolOperands,
    CrossEntropyOperands,
    ElementLossOperands,
    FlattenOperands,
    GatherOperands,
    LabelLossOperands,
    MaxPoolGradientOperands,
    MaxPoolOperands,
    SquaredErrorOperands,
    TargetErrorOperands,
    TargetLossOperands,
    UpsampleOperands,
)
from .rows import RowBuilder
from .tensors import Tensor


def gather(rows: RowBuilder, section: str, to: Tensor) -> None:
    """Emit the row that copies the batch from the data set to a tensor."""
    operands = GatherOperands(to.view, to.shape[0], to.copy_stride > 0)
    rows.emit(section, "gather_rows" if to.flat else "gather", operands)


def loss(rows: RowBuilder) -> None:
    """Emit the row of the loss and the gradient of the net's output."""
    last = rows.nodes[-1].y
    x, dx = rows.values[last], rows.value_gradients[last]
    if rows.has_shares or not rows.net.loss.is_plain:
        _general_loss(rows, x, dx)
    elif isinstance(rows.net.loss, nets.CrossEntropyLoss):
        rows.emit("backward", "cross_entropy", CrossEntropyOperands(x.view, dx.view, x.shape[0]))
    elif rows.has_targets:
        rows.emit("backward", "squared_error_of_targets", TargetErrorOperands(x.view, dx.view, x.shape[0]))
    else:
        goal = _goal(rows, x)
        rows.emit("backward", "squared_error", SquaredErrorOperands(x.view, goal.view, dx.view, x.shape[0]))
    rows.mask(last)


def _goal(rows: RowBuilder, x: Tensor) -> Tensor:
    """Tensor of the samples as goals of the net's output x, in its layout."""
    goal = rows.values[rows.enter]
    if goal.shape != x.shape:
        goal = rows.boundaries.tensor(x.shape, 0)
        gather(rows, "backward", goal)
    return goal


def _general_loss(rows: RowBuilder, x: Tensor, dx: Tensor) -> None:
    """Emit the row of a loss with settings or with shares of samples."""
    kind, has_shares = rows.net.loss, rows.has_shares
    if isinstance(kind, nets.CrossEntropyLoss):
        smoothing = int(np.float64(kind.label_smoothing).view(np.int64))
        operands = LabelLossOperands(x.view, dx.view, x.shape[0], smoothing, has_shares)
        rows.emit("backward", "label_loss", operands)
        return
    function = scalar_loss.number(kind)
    if rows.has_targets:
        targets = TargetLossOperands(x.view, dx.view, x.shape[0], function, has_shares)
        rows.emit("backward", "element_loss_of_targets", targets)
        return
    goals = ElementLossOperands(x.view, _goal(rows, x).view, dx.view, x.shape[0], function, has_shares)
    rows.emit("backward", "element_loss", goals)


def forward(rows: RowBuilder, node: FusedLayer) -> None:
    """Emit the row of a layer without products: its forward pass."""
    x, y, layer = rows.values[node.x], rows.values[node.y], node.layer
    if isinstance(layer, nets.ReLU):
        rows.emit("forward", "relu", ReluOperands(x.view, y.view))
    elif isinstance(layer, nets.ACTIVATIONS):
        rows.emit("forward", "activation", ActivationOperands(x.view, y.view, x.shape[0], *_function(layer)))
    elif isinstance(layer, nets.Dropout):
        rows.emit("forward", "dropout", _dropout(node, layer, x, y))
    elif isinstance(layer, nets.BatchNorm1d | nets.BatchNorm2d):
        _normalise(rows, node, layer, x, y)
    elif isinstance(layer, nets.MaxPool2d):
        assert layer.stride is not None
        at = rows.argmax[node.index] = rows.argmax_count
        rows.argmax_count += rows.sharing.block * y.view.height * y.view.width * y.view.channels
        rows.emit("forward", "max_pool", MaxPoolOperands(x.view, y.view, at, layer.kernel_size, layer.stride))
    elif isinstance(layer, nets.AvgPool2d | nets.AdaptiveAvgPool2d):
        rows.emit("forward", "average_pool", AveragePoolOperands(x.view, y.view, *layer.window(x.shape)))
    elif isinstance(layer, nets.Upsample2d):
        rows.emit("forward", "upsample", UpsampleOperands(x.view, y.view, layer.scale_factor))
    else:
        assert isinstance(layer, nets.Flatten)
        if not stays_in_place(rows.net, node.index):
            rows.emit("forward", "flatten", FlattenOperands(x.view, y.view, x.shape[0]))


def _function(layer: nets.Layer) -> tuple[int, int]:
    """Number of an activation's function, and its slope below 0 as the bits of a float64."""
    return scalar.number(layer), int(np.float64(scalar.slope(layer)).view(np.int64))


def _dropout(node: FusedLayer, layer: nets.Dropout, x: Tensor, y: Tensor) -> DropoutOperands:
    added, scale = layer_offset(node.index), int(np.float64(layer.scale).view(np.int64))
    return DropoutOperands(x.view, y.view, x.shape[0], added, layer.threshold, scale)


def _normalise(
    rows: RowBuilder, node: FusedLayer, layer: nets.BatchNorm1d | nets.BatchNorm2d, x: Tensor, y: Tensor
) -> None:
    """Emit the rows of a normalisation: its statistics, then its map."""
    channels, at = x.shape[0], rows.layout.layers.get(node.index)
    running = next(place.start for place in buffer_slices(rows.net) if place.layer == node.index)
    rows.statistics[node.index] = rows.statistics_count
    momentum, eps = (int(np.float64(number).view(np.int64)) for number in (layer.momentum, layer.eps))
    weights, bias = (-1, -1) if at is None else (at.weight, at.bias)
    operands = NormaliseOperands(
        x.view, y.view, channels, weights, bias, running, rows.statistics_count, momentum, eps, node.has_relu
    )  # fmt: skip
    rows.statistics_count += 4 * padded(channels)
    rows.emit("forward", "batch_statistics", operands)
    rows.emit("forward", "normalise", operands)


def _normalise_gradient(rows: RowBuilder, node: FusedLayer, x: Tensor, dy: Tensor, dx: Tensor | None) -> None:
    """Emit the rows of a normalisation's gradients: of its parameters, then of its input, if it has one."""
    at = rows.layout.layers.get(node.index)
    weights, bias = (-1, -1) if at is None else (at.weight, at.bias)
    target = dy if dx is None else dx
    operands = NormaliseGradientOperands(
        x.view, dy.view, target.view, x.shape[0], weights, bias, rows.statistics[node.index]
    )
    rows.emit("backward", "normalise_sums", operands)
    if dx is not None:
        rows.emit("backward", "normalise_gradient", operands)
        rows.mask(node.x)


def backward(rows: RowBuilder, node: FusedLayer) -> None:
    """Emit the row of the gradient of the layer's input, if there is one."""
    x, y, layer = rows.values[node.x], rows.values[node.y], node.layer
    dx, dy = rows.value_gradients.get(node.x), rows.value_gradients[node.y]
    if layer.normalizes:
        _normalise_gradient(rows, node, x, dy, dx)
        return
    if dx is None:
        return
    if isinstance(layer, nets.MaxPool2d):
        assert layer.stride is not None
        at, masked = rows.argmax[node.index], node.x in rows.fused_relu
        rows.emit(
            "backward",
            "max_pool_gradient",
            MaxPoolGradientOperands(dy.view, dx.view, y.view, at, layer.kernel_size, layer.stride, masked),
        )
        return
    if isinstance(layer, nets.ReLU):
        rows.emit("backward", "relu_gradient", ReluGradientOperands(y.view, dy.view, dx.view))
    elif isinstance(layer, nets.ACTIVATIONS):
        saved = (y if layer.reads_output else x).view
        operands = ActivationGradientOperands(saved, dy.view, dx.view, *_function(layer))
        rows.emit("backward", "activation_gradient", operands)
    elif isinstance(layer, nets.Dropout):
        rows.emit("backward", "dropout", _dropout(node, layer, dy, dx))
    elif isinstance(layer, nets.AvgPool2d | nets.AdaptiveAvgPool2d):
        rows.emit("backward", "average_pool_gradient", AveragePoolOperands(dx.view, dy.view, *layer.window(x.shape)))
    elif isinstance(layer, nets.Upsample2d):
        rows.emit("backward", "upsample_gradient", UpsampleOperands(dx.view, dy.view, layer.scale_factor))
    elif not stays_in_place(rows.net, node.index):
        rows.emit("backward", "unflatten", FlattenOperands(dx.view, dy.view, x.shape[0]))
    rows.mask(node.x)
