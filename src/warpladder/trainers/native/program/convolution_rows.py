"""Rows of convolutions, alone and folded with the upsampling before them."""

from __future__ import annotations

from ....nets import Conv2d
from ..compiler.vectors import TOGETHER, WIDTH
from ..kernels.tile_sizes import MASK, PAIR_RUN, RELU, ROWS, RUN, STORE, TAPS
from .fuse import FusedLayer
from .layout import LayerWeights
from .memory import PACKED, WEIGHTS
from .operands import (
    BiasGradientOperands,
    ConvolveOperands,
    FoldOperands,
    PixelRunGradientOperands,
    PixelRunOperands,
    TransposeFoldedOperands,
    UnfoldOperands,
    WeightGradientOperands,
)
from .phases import phases
from .rows import RowBuilder
from .tensors import ActivationView


def forward(rows: RowBuilder, node: FusedLayer) -> None:
    """Emit the rows of a convolution's forward pass: one, or with a folded upsampling one for each parity."""
    at, x, y, layer = rows.layout.layers[node.index], rows.values[node.x], rows.values[node.y], node.layer
    assert isinstance(layer, Conv2d)
    finish = RELU if node.has_relu else STORE
    if not node.is_folded:
        views = x.view.moved(-layer.padding), y.view, y.view
        product = (WEIGHTS, at.weight, at.bias, finish, at.outputs // WIDTH)
        _convolve(rows, "forward", views, (layer.kernel_size, layer.stride), product, (layer.padding, x.view))
        return
    panels, target = at.outputs // WIDTH, rows.pack(16 * at.inputs * at.outputs)
    rows.folded[node.index] = target
    rows.emit("prepare", "fold_weights", FoldOperands(at.weight, at.inputs, panels, target))
    for parity in range(4):
        p, q = divmod(parity, 2)
        weights = target + parity * 4 * at.inputs * at.outputs
        small, large = x.view.moved(p - 1, q - 1), y.view.every_second(p, q)
        operands = ConvolveOperands(small, large, large, 0, 2, 2, 1, PACKED, weights, at.bias, finish, panels, 0)
        rows.emit("forward", "convolve", operands)


def _convolve(
    rows: RowBuilder, section: str, views: tuple[ActivationView, ActivationView, ActivationView],
    kernel: tuple[int, int], product: tuple[int, int, int, int, int], inside: tuple[int, ActivationView],
) -> None:  # fmt: skip
    """Emit the rows of one convolution: pixel runs if rows are long enough, panels in pairs and a last one alone.

    views : x, y and ReLU mask. kernel : its size and stride. product : array, weights, bias, finish, panels.
    inside : rows and columns of zeros with which x begins, and the view of x without them.
    """
    (size, stride), weights, panels, (border, x) = kernel, product[:4], product[4], inside
    width = views[1].width
    in_runs = size == TAPS and stride == 1 and x.pixel == x.channels
    lone = in_runs and (panels % TOGETHER == 1 if TOGETHER > 1 else panels == 1) and _fills(width, RUN)
    others = panels - lone
    in_pairs = in_runs and TOGETHER > 1 and others > 0 and others % TOGETHER == 0 and _fills(width, PAIR_RUN)
    run = (*views, max(0, border), x.height, x.width, *weights)
    if in_pairs:
        rows.emit(section, "convolve_pixel_runs", PixelRunOperands(*run, 0, others, 1))
    elif others > 0:
        rows.emit(section, "convolve", ConvolveOperands(*views, 0, size, size, stride, *weights, others, 0))
    if lone:
        rows.emit(section, "convolve_pixel_runs", PixelRunOperands(*run, panels - 1, panels, 0))


def _fills(width: int, length: int) -> bool:
    """True if runs of this length waste less than a tenth of their sums in rows of `width` pixels."""
    return width >= length and -(-width // length) * length <= 1.1 * width


def backward(rows: RowBuilder, node: FusedLayer) -> None:
    """Emit the rows of a convolution's input gradient, if there is one, weight gradient and bias gradient."""
    at, dy = rows.layout.layers[node.index], rows.value_gradients[node.y].view
    if node.is_folded:
        _folded_gradients(rows, node, at)
    elif _gradients(rows, node, at):
        return
    if at.has_bias:
        rows.emit("backward", "bias_gradient", BiasGradientOperands(dy, 0, at.bias, at.outputs))


def _gradients(rows: RowBuilder, node: FusedLayer, at: LayerWeights) -> bool:
    """Emit the rows of the input and weight gradient; returns True if they include the bias gradient."""
    x, dx, dy = rows.values[node.x], rows.value_gradients.get(node.x), rows.value_gradients[node.y].view
    layer = node.layer
    assert isinstance(layer, Conv2d)
    size = layer.kernel_size
    if dx is not None:
        views = dy, dx.view, x.view
        _input_gradient(rows, layer, at, views, MASK if node.x in rows.fused_relu else STORE)
    view = x.view.moved(-layer.padding)
    one_panel = TOGETHER > 1 and at.outputs == WIDTH
    if one_panel and at.has_bias and size == TAPS and layer.stride == 1 and not rows.sharing.together:
        operands = PixelRunGradientOperands(view, dy, at.weight, at.bias)
        rows.emit("backward", "weight_gradient_pixel_runs", operands)
        return True
    tiles, panels = -(-size * size * at.inputs // ROWS), at.outputs // WIDTH
    rows.emit(
        "backward",
        "weight_gradient",
        WeightGradientOperands(view, dy, 0, size, size, layer.stride, at.weight, tiles, panels, 0, 0),
    )
    return False


def _input_gradient(
    rows: RowBuilder, layer: Conv2d, at: LayerWeights, views: tuple[ActivationView, ActivationView, ActivationView],
    finish: int,
) -> None:  # fmt: skip
    """Rows of dx: a convolution of dy for each phase (phases.py). views : dy, dx and ReLU mask."""
    (dy, dx, mask), stride, panels = views, layer.stride, at.inputs // WIDTH
    weights = rows.transposed(at, stride)
    for row in phases(layer, dx.height):
        for column in phases(layer, dx.width):
            taps = row.taps * column.taps
            product = PACKED, weights, -1, finish
            weights += taps * at.inputs * at.outputs
            if not row.pixels or not column.pixels:
                continue
            pixels = stride, row.first, column.first, row.pixels, column.pixels
            view, to, where = dy.moved(row.start, column.start), dx.every(*pixels), mask.every(*pixels)
            if stride == 1:
                _convolve(rows, "backward", (view, to, where), (row.taps, 1), (*product, panels), (-row.start, dy))
                continue
            # without taps the sums are 0: one run of no elements
            kernel = (row.taps, column.taps) if taps else (1, 0)
            operands = ConvolveOperands(view if taps else dy, to, where, 0, *kernel, 1, *product, panels, 0)
            rows.emit("backward", "convolve", operands)


def _folded_gradients(rows: RowBuilder, node: FusedLayer, at: LayerWeights) -> None:
    """Emit the rows of the input and weight gradient of a convolution folded with the upsampling before it."""
    x, dx, dy = rows.values[node.x], rows.value_gradients.get(node.x), rows.value_gradients[node.y].view
    panels, set_size = at.outputs // WIDTH, 4 * at.inputs * at.outputs
    if dx is not None:
        weights, blocks = rows.pack(4 * set_size), 16 * at.inputs // WIDTH * at.outputs // WIDTH
        transpose = TransposeFoldedOperands(rows.folded[node.index], at.inputs, at.outputs, weights, blocks)
        rows.emit("prepare", "transpose_folded", transpose)
        finish = MASK if node.x in rows.fused_relu else STORE
        views = dy.moved(-1), dx.view, x.view
        operands = ConvolveOperands(*views, 0, 4, 4, 2, PACKED, weights, -1, finish, at.inputs // WIDTH, 0)
        rows.emit("backward", "convolve", operands)
    gradient, tiles = rows.gradient_count, -(-4 * at.inputs // ROWS)
    rows.gradient_count += 4 * set_size
    for parity in range(4):
        p, q = divmod(parity, 2)
        small, large = x.view.moved(p - 1, q - 1), dy.every_second(p, q)
        rows.emit(
            "backward",
            "weight_gradient",
            WeightGradientOperands(small, large, 0, 2, 2, 1, gradient + parity * set_size, tiles, panels, 0, 0),
        )
    rows.emit("collect", "unfold_gradients", UnfoldOperands(gradient, at.inputs, panels, at.weight))
