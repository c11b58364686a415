"""Convolution as a problem to compute: its images, its window, and the layers fused with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ...nets import Conv2d, Layer, MaxPool2d, ReLU, Shape, Upsample2d

#: Channels, rows and columns.
Image = tuple[int, int, int]


class ConvWindow(NamedTuple):
    """Kernel size, stride and zero padding, the same along rows and columns."""

    k: int
    stride: int
    padding: int


@dataclass(frozen=True)
class FusedConv:
    """Convolution and the layers fused with it: [Upsample2d] Conv2d [ReLU [MaxPool2d(2)]].

    An upsampling and a convolution become one transposed convolution of the small image, with folded weights: all
    pixels of one phase of the large image read the same pixels of the small one. 3 x 3 after an upsampling by 2 is
    four convolutions of 2 x 2, 4/9 of the FLOPs, for y, dx and dw.

    read, written : (channels, rows, columns) before the upsampling, and after the convolution, before the pool.
    window : of the convolution.
    upsample : factor of the upsampling; 1 for none.
    relu, pool : True if a ReLU, and a 2 x 2 pool after it, follow.
    has_bias : False if the convolution has none, so that its gradient is not read.
    """

    read: Image
    written: Image
    window: ConvWindow
    upsample: int = 1
    relu: bool = False
    pool: bool = False
    has_bias: bool = True

    @classmethod
    def of(cls, layers: tuple[Layer, ...], in_shape: Shape) -> FusedConv:
        """Fused convolution of consecutive layers, for images (channels, rows, columns)."""
        (c, h, w), first = in_shape, layers[0]
        conv = next(layer for layer in layers if isinstance(layer, Conv2d))
        upsample = first.scale_factor if isinstance(first, Upsample2d) else 1
        o, high, wide = conv.out_shape((c, h * upsample, w * upsample))
        relu = any(isinstance(layer, ReLU) for layer in layers)
        window = ConvWindow(conv.kernel_size, conv.stride, conv.padding)
        pools = isinstance(layers[-1], MaxPool2d)
        return cls((c, h, w), (o, high, wide), window, upsample, relu, pools, conv.bias)

    @property
    def upsamples(self) -> bool:
        """True if an upsampling precedes the convolution."""
        return self.upsample > 1

    @property
    def small_window(self) -> ConvWindow:
        """Window over the image that is read; after an upsampling, the transposed convolution's window."""
        k, _, padding = self.window
        return ConvWindow(k + self.upsample - 1, self.upsample, k - 1 - padding) if self.upsamples else self.window

    @property
    def after(self) -> str:
        """Name in `products.AFTER` of the operation fused after the product: PLAIN, RELU or POOL."""
        return "POOL" if self.pool else "RELU" if self.relu else "PLAIN"

    @property
    def correlated(self) -> tuple[Image, Image]:
        """Pair of images whose correlation is dw: the one read through the window, and the one read pixel by pixel.

        After an upsampling the gradient is the larger one, and is read through the window.
        """
        return (self.written, self.read) if self.upsamples else (self.read, self.written)
