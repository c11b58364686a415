"""Instruction set: the operations, and the operands of each by name.

An operation's operands are a NamedTuple here. `Instruction.numbers` flattens them into a row of integers, so that
one compiled loop serves every net; `access.reader` restores the NamedTuple in compiled code. Offsets and strides count
elements. Flags are 0 or 1. "Weights", "bias", "gradient" alone are offsets into the arrays of memory.py.
"""

from __future__ import annotations

from typing import NamedTuple

from .tensors import ActivationView

#: the file of kernels/ in which each operation is
OPERATIONS = {
    operation: file
    for file, operations in {
        "samples": ("gather", "gather_rows"),
        "convolution": ("convolve", "transpose_weights"),
        "convolution_gradients": ("weight_gradient", "bias_gradient"),
        "pixel_runs": ("convolve_pixel_runs", "multiply", "weight_gradient_pixel_runs"),
        "few_outputs": (
            "few_outputs",
            "gather_few_outputs",
            "few_outputs_input_gradient",
            "few_outputs_weight_gradient",
        ),
        "first_layer_bytes": ("few_outputs_of_bytes", "few_outputs_weight_gradient_of_bytes"),
        "upsampling": ("upsample", "upsample_gradient", "fold_weights", "transpose_folded", "unfold_gradients"),
        "activation": ("activation", "activation_gradient", "relu", "relu_gradient"),
        "dropout": ("dropout",),
        "batch_norm": ("batch_statistics", "normalise", "normalise_sums", "normalise_gradient"),
        "residual": ("add_inputs",),
        "pooling": ("max_pool", "max_pool_gradient", "average_pool", "average_pool_gradient"),
        "flatten": ("flatten", "unflatten"),
        "losses": (
            "cross_entropy",
            "cross_entropy_gradient",
            "squared_error",
            "squared_error_gradient",
            "squared_error_of_targets",
            "squared_error_of_targets_gradient",
        ),
        "general_losses": ("label_loss", "element_loss", "element_loss_of_targets"),
        "update": ("sgd", "optimizer_loop"),
        "gradient_norm": ("sum_squares", "scale_gradients"),
        "fused_update": ("weight_step",),
        "nonzeros.products": ("nonzero_product", "nonzero_weight_gradient", "nonzero_weight_step", "request_nonzeros"),
    }.items()
    for operation in operations
}

#: the operation that takes a loss's place in steps that report no loss
WITHOUT_LOSS = {loss: f"{loss}_gradient" for loss in ("cross_entropy", "squared_error", "squared_error_of_targets")}

#: the operation that takes the place of one on the data set's bytes if samples are floats or no whole vectors
GATHERED = {
    "few_outputs_of_bytes": "gather_few_outputs",
    "few_outputs_weight_gradient_of_bytes": "few_outputs_weight_gradient",
}


class GatherOperands(NamedTuple):
    """Operands of gather and gather_rows: samples of the batch, scaled, to y."""

    y: ActivationView
    channels: int  # without padding; of flat samples the features
    copies_all: int  # 1: the thread copies the whole batch to its private y, its own range first; 0: its own range


class ConvolveOperands(NamedTuple):
    """Operands of convolve and multiply: y = finish(bias + weights * x). A Linear layer's pixels are samples."""

    x: ActivationView  # begins in its border of zeros
    y: ActivationView
    relu_mask: ActivationView  # activations of which MASK keeps y where they are above 0
    samples_as_pixels: int  # 1: views are one image of one row whose width is the number of samples
    kernel_rows: int
    kernel_columns: int
    stride: int
    array: int  # array of the weights: memory.WEIGHTS or PACKED
    weights: int
    bias: int  # below 0: none
    finish: int  # STORE, RELU or MASK
    panels: int  # number of panels of output channels
    by_panel: int  # 1: threads divide the panels; 0: the pixels


class PixelRunOperands(NamedTuple):
    """Operands of convolve_pixel_runs: a 3 x 3 convolution with stride 1, in runs of neighbouring pixels of a row."""

    x: ActivationView  # begins in its border of zeros
    y: ActivationView
    relu_mask: ActivationView
    border: int  # rows and columns of zeros with which x begins
    height: int  # rows of x inside its border
    width: int  # columns of x inside its border
    array: int
    weights: int
    bias: int  # below 0: none
    finish: int
    first_panel: int
    last_panel: int  # the panel after the last
    in_pairs: int  # 1: tiles of two panels


class WeightGradientOperands(NamedTuple):
    """Operands of weight_gradient: sum over pixels of (patch of x)^T dy."""

    x: ActivationView
    dy: ActivationView
    samples_as_pixels: int
    kernel_rows: int
    kernel_columns: int
    stride: int
    gradient: int  # offset of the gradient, or of the weights if steps_weights
    tiles: int  # number of tiles of tile_sizes.ROWS elements of a patch
    panels: int
    by_panel: int  # 1: threads divide the panels; 0: the tiles
    steps_weights: int  # 1: SGD steps the weights inside the tile, and no gradient is stored


class WeightStepOperands(NamedTuple):
    """Operands of weight_step: the optimizer's loop updates a Linear layer's weights after some gradient tiles."""

    x: ActivationView  # samples as pixels
    dy: ActivationView
    weights: int
    tiles: int
    panels: int
    by_panel: int


class PixelRunGradientOperands(NamedTuple):
    """Operands of weight_gradient_pixel_runs: gradients of a 3 x 3 convolution with stride 1 and one panel."""

    x: ActivationView
    dy: ActivationView
    gradient: int
    bias: int  # gradient of the bias


class BiasGradientOperands(NamedTuple):
    """Operands of bias_gradient: sum of dy over pixels, by channel."""

    dy: ActivationView
    samples_as_pixels: int
    gradient: int
    channels: int


class TransposeOperands(NamedTuple):
    """Operands of transpose_weights: panels of outputs to panels of inputs, by phases of the input gradient."""

    weights: int
    size: int  # of the kernel
    stride: int
    inputs: int
    outputs: int
    target: int  # in memory.PACKED
    blocks: int  # number of blocks of WIDTH x WIDTH weights of one tap


class FoldOperands(NamedTuple):
    """Operands of fold_weights: weights of upsampling by 2 and a 3 x 3 convolution, folded into four 2 x 2 ones."""

    weights: int
    inputs: int
    panels: int
    target: int  # in memory.PACKED


class TransposeFoldedOperands(NamedTuple):
    """Operands of transpose_folded: folded weights to the input gradient's, a 4 x 4 convolution of stride 2."""

    folded: int  # in memory.PACKED
    inputs: int
    outputs: int
    target: int  # in memory.PACKED
    blocks: int


class UnfoldOperands(NamedTuple):
    """Operands of unfold_gradients: gradients of folded weights to the gradient of the 3 x 3 weights."""

    folded: int  # in memory.GRADIENTS
    inputs: int
    panels: int
    gradient: int


class FewOutputsOperands(NamedTuple):
    """Operands of few_outputs, gather_few_outputs and few_outputs_of_bytes: a Linear layer with rows of weights."""

    x: ActivationView
    y: ActivationView
    weights: int
    pitch: int  # inputs with padding
    outputs: int
    bias: int
    has_relu: int  # 1: a ReLU is fused
    features: int  # inputs without padding


class FewOutputsInputGradientOperands(NamedTuple):
    """Operands of few_outputs_input_gradient: dx = dy weights."""

    dy: ActivationView
    dx: ActivationView
    relu_mask: ActivationView
    weights: int
    pitch: int
    outputs: int
    has_mask: int  # 1: dx is 0 where the relu_mask's activations are not above 0
    panels: int  # number of panels of WIDTH inputs
    by_panel: int


class FewOutputsWeightGradientOperands(NamedTuple):
    """Operands of few_outputs_weight_gradient and few_outputs_weight_gradient_of_bytes: dw = dy^T x."""

    x: ActivationView
    dy: ActivationView
    gradient: int
    pitch: int
    outputs: int
    panels: int
    steps_weights: int
    features: int


class AveragePoolOperands(NamedTuple):
    """Operands of average_pool: y = the mean of each window of x; of average_pool_gradient: x and y are dx and dy."""

    x: ActivationView
    y: ActivationView
    rows: int  # rows of a window
    columns: int
    stride: int


class MaxPoolOperands(NamedTuple):
    """Operands of max_pool: y and the argmax index of each window."""

    x: ActivationView
    y: ActivationView
    argmax: int  # in memory.ARGMAX
    size: int
    stride: int


class MaxPoolGradientOperands(NamedTuple):
    """Operands of max_pool_gradient: dx = dy at each window's argmax."""

    dy: ActivationView
    dx: ActivationView
    y: ActivationView
    argmax: int
    size: int
    stride: int
    has_mask: int  # 1: a ReLU is fused before the pool


class UpsampleOperands(NamedTuple):
    """Operands of upsample (small to large) and upsample_gradient (large to small)."""

    small: ActivationView
    large: ActivationView
    scale: int


class FlattenOperands(NamedTuple):
    """Operands of flatten (image to row) and unflatten (row to image), in PyTorch's order of features."""

    image: ActivationView
    row: ActivationView
    channels: int  # without padding


class CrossEntropyOperands(NamedTuple):
    """Operands of cross_entropy and cross_entropy_gradient: x are logits, dx their gradient."""

    x: ActivationView
    dx: ActivationView
    classes: int


class SquaredErrorOperands(NamedTuple):
    """Operands of squared_error and squared_error_gradient: x against goal, dx the gradient of x."""

    x: ActivationView
    goal: ActivationView
    dx: ActivationView
    channels: int


class TargetErrorOperands(NamedTuple):
    """Operands of squared_error_of_targets and its gradient: x against the data set's targets, dx the gradient of x."""

    x: ActivationView
    dx: ActivationView
    channels: int


class LabelLossOperands(NamedTuple):
    """Operands of label_loss: x are logits, dx their gradient; weights of classes are in the memory's settings."""

    x: ActivationView
    dx: ActivationView
    classes: int
    smoothing: int  # the bits of a float64
    has_shares: int


class ElementLossOperands(NamedTuple):
    """Operands of element_loss: x against goal, dx the gradient of x, by a function of ops/loss/scalar.py."""

    x: ActivationView
    goal: ActivationView
    dx: ActivationView
    channels: int
    function: int
    has_shares: int


class TargetLossOperands(NamedTuple):
    """Operands of element_loss_of_targets: x against the data set's targets, dx the gradient of x."""

    x: ActivationView
    dx: ActivationView
    channels: int
    function: int
    has_shares: int


class UpdateOperands(NamedTuple):
    """Operands of sgd and optimizer_loop: update of `lines` neighbouring ranges of weights, first this one."""

    first: int
    last: int  # the weight after the last
    lines: int
    is_summed: bool  # True if the first share's gradients are already the sum of all shares'


class NormOperands(NamedTuple):
    """Operands of sum_squares and scale_gradients: sum of the shares' gradients, and their scaling to a norm."""

    first: int
    last: int  # the weight after the last
    limit: int  # largest norm: the bits of a float64
