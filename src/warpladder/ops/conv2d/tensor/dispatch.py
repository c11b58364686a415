"""Choice of the algorithm of a convolution on tensor cores.

Output of `decision_table`, for batches of n; all four precisions choose alike:

    convolution            reads      writes     n = 1      n = 4      n = 16     n = 64      n = 128     n = 256
    cnn, layer 0           1x28x28    16x26x26   FewInputs  FewInputs  FewInputs  FewInputs   FewInputs   FewInputs
    cnn, layer 2           16x26x26   32x24x24   Narrow     Narrow     Narrow     Narrow      Narrow      Narrow
    autoencoder, layer 0   3x32x32    256x32x32  FewInputs  FewInputs  FewInputs  First       First       First
    autoencoder, layer 3   256x16x16  128x16x16  FewPixels  FewPixels  Implicit   Warpgroups  Warpgroups  Warpgroups
    autoencoder, layer 6   128x8x8    128x8x8    FewPixels  FewPixels  Implicit   Implicit    Implicit    Warpgroups
    autoencoder, layer 9   128x8x8    256x16x16  FewPixels  FewPixels  Upsampled  Upsampled   Upsampled   Warpgroups
    autoencoder, layer 12  256x16x16  3x32x32    FewPixels  FewPixels  Upsampled  Upsampled   Shifted     Shifted
    5 x 5                  16x24x24   32x20x20   Narrow     Narrow     Narrow     Narrow      Narrow      Narrow
    5 x 5, wide            64x28x28   64x28x28   Implicit   Implicit   Implicit   Implicit    Implicit    Implicit
    3 x 3, stride 2        64x32x32   128x16x16  Implicit   Implicit   Implicit   Implicit    Implicit    Implicit
    1 x 1                  256x14x14  64x14x14   Implicit   Implicit   Implicit   Implicit    Implicit    Implicit

GPUs without warpgroup products use Implicit and Upsampled instead of Warpgroups and Shifted.
"""

from ....device import Limits
from ..problem import ConvWindow, FusedConv
from .algorithm import ConvAlgorithm, ConvProblem
from .few_inputs import FewInputs
from .few_pixels.few_pixels import FewPixels
from .first.first import First
from .formats import FORMATS
from .implicit.implicit import Implicit
from .implicit.upsampled import Upsampled
from .narrow.narrow import Narrow
from .shifted.shifted import Shifted
from .warpgroups.warpgroups import Warpgroups

#: In order of preference: the first that supports a problem computes it.
ALGORITHMS: tuple[type[ConvAlgorithm], ...] = (
    First, FewInputs, Warpgroups, Shifted, Narrow, FewPixels, Implicit, Upsampled,
)  # fmt: skip
#: Convolutions of the decision table: of the ladder's nets, and others.
CASES = {
    "cnn, layer 0": FusedConv((1, 28, 28), (16, 26, 26), ConvWindow(3, 1, 0), relu=True),
    "cnn, layer 2": FusedConv((16, 26, 26), (32, 24, 24), ConvWindow(3, 1, 0), relu=True, pool=True),
    "autoencoder, layer 0": FusedConv((3, 32, 32), (256, 32, 32), ConvWindow(3, 1, 1), relu=True, pool=True),
    "autoencoder, layer 3": FusedConv((256, 16, 16), (128, 16, 16), ConvWindow(3, 1, 1), relu=True, pool=True),
    "autoencoder, layer 6": FusedConv((128, 8, 8), (128, 8, 8), ConvWindow(3, 1, 1), relu=True),
    "autoencoder, layer 9": FusedConv((128, 8, 8), (256, 16, 16), ConvWindow(3, 1, 1), 2, relu=True),
    "autoencoder, layer 12": FusedConv((256, 16, 16), (3, 32, 32), ConvWindow(3, 1, 1), 2),
    "5 x 5": FusedConv((16, 24, 24), (32, 20, 20), ConvWindow(5, 1, 0), relu=True),
    "5 x 5, wide": FusedConv((64, 28, 28), (64, 28, 28), ConvWindow(5, 1, 2), relu=True),
    "3 x 3, stride 2": FusedConv((64, 32, 32), (128, 16, 16), ConvWindow(3, 2, 1), relu=True),
    "1 x 1": FusedConv((256, 14, 14), (64, 14, 14), ConvWindow(1, 1, 0), relu=True),
}

BATCHES = (1, 4, 16, 64, 128, 256)
HOPPER = Limits("H100", multiprocessors=132)


def choose(problem: ConvProblem) -> type[ConvAlgorithm] | None:
    """First algorithm in ALGORITHMS that supports a problem; None if a row of its taps has no room in shared memory."""
    return next((algorithm for algorithm in ALGORITHMS if algorithm.supports(problem)), None)


def decision_table() -> str:
    """Algorithms of `CASES` on an H100: a line for each case and for the precisions that choose alike.

    A layer 0 is a net's first layer, with a small share of the net's products.
    """
    lines = [["convolution", "reads", "writes", *(f"n = {batch}" for batch in BATCHES)]]
    for name, conv in CASES.items():
        slight = name.endswith("layer 0")
        by_precision: dict[tuple[str, ...], list[str]] = {}
        for precision in FORMATS:
            some = (ConvProblem(conv, precision, n, HOPPER, True, True, not slight, slight) for n in BATCHES)
            chosen = tuple(algorithm.__name__ for algorithm in map(choose, some) if algorithm is not None)
            by_precision.setdefault(chosen, []).append(precision)
        for names, precisions in by_precision.items():
            of = "" if len(by_precision) == 1 else f" in {', '.join(precisions)}"
            lines.append([name + of, *("x".join(map(str, image)) for image in (conv.read, conv.written)), *names])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
    return "\n".join("    " + line for line in padded)
