"""Operands of operations that compute each number from one number, as in operands.py."""

from __future__ import annotations

from typing import NamedTuple

from .tensors import ActivationView


class ReluOperands(NamedTuple):
    """Operands of relu: y = max(x, 0)."""

    x: ActivationView
    y: ActivationView


class ReluGradientOperands(NamedTuple):
    """Operands of relu_gradient: dx = dy where y is above 0."""

    y: ActivationView
    dy: ActivationView
    dx: ActivationView


class ActivationOperands(NamedTuple):
    """Operands of activation: y = f(x), a function of ops/activation/scalar.py."""

    x: ActivationView
    y: ActivationView
    channels: int  # without padding, which stays 0 where f(0) is not
    function: int
    slope: int  # LeakyReLU's slope below 0: the bits of a float64


class ActivationGradientOperands(NamedTuple):
    """Operands of activation_gradient: dx = f'(x) dy."""

    saved: ActivationView  # y of functions whose derivative is computed from it, else x
    dy: ActivationView
    dx: ActivationView
    function: int
    slope: int


class DropoutOperands(NamedTuple):
    """Operands of dropout: y = x m with a mask m; in the backward pass x and y are dy and dx."""

    x: ActivationView
    y: ActivationView
    channels: int  # without padding
    added: int  # `data.order.layer_offset`, added to the epoch's mask key
    threshold: int  # hashes below it drop their number
    scale: int  # factor of numbers that are not dropped: the bits of a float64


class NormaliseOperands(NamedTuple):
    """Operands of batch_statistics and normalise: y = (x - mean) / deviation * weights + bias, by channel."""

    x: ActivationView
    y: ActivationView
    channels: int  # without padding
    weights: int  # below 0: neither weights nor a bias
    bias: int
    running: int  # running means in memory.BUFFERS; the variances follow
    statistics: int  # in memory.STATISTICS
    momentum: int  # the bits of a float64
    eps: int  # the bits of a float64
    has_relu: int  # 1: a ReLU is fused


class NormaliseGradientOperands(NamedTuple):
    """Operands of normalise_sums and normalise_gradient: gradients of weights, bias and x."""

    x: ActivationView
    dy: ActivationView
    dx: ActivationView
    channels: int
    weights: int
    bias: int
    statistics: int


class ResidualOperands(NamedTuple):
    """Operands of add_inputs: y = x + other, or y = x; in the backward pass these are gradients."""

    x: ActivationView
    other: ActivationView
    y: ActivationView
    channels: int  # without padding
    has_other: int
    has_relu: int  # 1: a ReLU is fused
