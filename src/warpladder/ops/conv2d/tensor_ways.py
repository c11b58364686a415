"""Ways in which tensor cores compute a convolution: what each takes, and its y, dx, dw and db as launches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...device import Array, Device
from ..kernels import Launches
from ..segments import Segment
from . import first, narrow
from .few import FewConvolution, FewGradient, WinnersGradient
from .gradients import IncomingGradient
from .products import Geometry, Image
from .shifted import GradientBelow, ShiftedConvolution
from .tensor_products import TensorConvolution, TensorWeightGradient, pack
from .warpgroups import PackedImages, WarpgroupConvolution, fits

#: A precision whose factors some ways multiply as another one's: halves with a scale have tf32's 11 bits.
HALVES = {"tf32": "fp16"}


@dataclass(frozen=True)
class Asked:
    """A convolution, with what stands before and behind it.

    small, written : what it reads, before an enlargement, and what it writes, before a pool; (channels, rows, columns).
    k, stride, padding : of its window.
    fold : by how much its image is enlarged before the window; 1 where it is not.
    rectify, pool : whether a ReLU follows, and a 2 x 2 pool behind that.
    capacity : images of a whole batch.
    trains, both : whether there is a backward pass, and whether that has an input gradient.
    begins : whether it is a net's first layer, with no dx and no enlargement.
    slight : whether it is a net's first layer, and its products few beside the net's (ops/outside.py).
    """

    device: Device
    precision: str
    small: Image
    written: Image
    k: int
    stride: int
    padding: int
    fold: int
    rectify: bool
    pool: bool
    capacity: int
    trains: bool
    both: bool
    begins: bool
    slight: bool

    @property
    def window(self) -> tuple[int, int, int]:
        """Kernel size, stride and padding."""
        return self.k, self.stride, self.padding

    @property
    def folded(self) -> bool:
        """Whether an enlargement stands in front."""
        return self.fold > 1

    @property
    def transposed(self) -> tuple[int, int, int]:
        """The window of the small image's own convolution: behind an enlargement a transposed one, which reaches over every pixel that an enlarged one touches."""
        return (self.k + self.fold - 1, self.fold, self.k - 1 - self.padding) if self.folded else self.window

    @property
    def after(self) -> str:
        """What is done with y where it is written, as `products.AFTER` names it."""
        return "POOL" if self.pool else "RECTIFY" if self.rectify else "PLAIN"


class Way(ABC):
    """One convolution's launches.

    Parameters
    ----------
    owner : Segment
        Whose arrays are read and written, and whose scratch memory is taken. A way does not refer to it afterwards.
    asked : Asked
        What `takes` has agreed to.
    before : Way or None
        Of the convolution whose y is x, and whose dy is dx, where such a one stands in front. The two may agree on other forms of these than arrays of floats.

    Attributes
    ----------
    factors : str or None
        As `Segment` has it.
    winner : Array or None
        Of a pool, where its gradient goes back to; None without one, or without a backward pass.
    rectified : Array or None
        y, where a ReLU has written it and dy does not know of that yet.
    below : Array or None
        x, where dx shall be 0 where that is not above 0.
    packed : Array or None
        uint16, where y goes once more, packed for the layer behind.
    """

    packs: ClassVar[bool] = False

    def __init__(self, owner: Segment, asked: Asked, before: Way | None) -> None:
        self.asked, self.buffers = asked, owner.buffers
        self.factors: str | None = None
        self.packed: Array | None = None
        pooled = asked.pool and asked.trains
        self.winner = owner.scratch((asked.capacity, *owner.buffers.y.shape[1:]), np.uint8) if pooled else None
        self.rectified = owner.buffers.y if asked.rectify and not owner.operands.dy_rectified else None
        self.below = owner.buffers.x if owner.operands.x_rectified else None

    @classmethod
    @abstractmethod
    def takes(cls, asked: Asked) -> bool:
        """Whether it computes such a convolution, and no other way before it in `WAYS` does."""

    def prepare(self) -> Launches:
        """What depends on the weights alone."""
        return []

    @abstractmethod
    def forward(self, n: int) -> Launches:
        """y[:n]."""

    @abstractmethod
    def backward(self, n: int) -> Launches:
        """dw, db and, where it is wanted, dx[:n]."""

    def feed(self, images: PackedImages) -> bool:
        """Whether y is packed for the layer behind from now on; what is kept of that one is an array."""
        if images.scaled or not self.packs:
            return False
        self.packed = images.halves.high
        return True

    def fed_back(self) -> GradientBelow | None:
        """Where the layer behind leaves the gradient of y from now on, packed and summed up for the bias; None where it shall fill dy."""
        return None


class General(Way):
    """Any convolution, by mma.sync (tensor.cu, tensor_weights.cu)."""

    @classmethod
    def takes(cls, asked: Asked) -> bool:
        return True

    def __init__(self, owner: Segment, asked: Asked, before: Way | None) -> None:
        super().__init__(owner, asked, before)
        self.y_pass = self._y_pass(owner, asked)
        self.dx_pass: TensorConvolution | None = None
        if asked.trains:
            self.slight = _slight_gradient(owner, asked)
            if self.slight is None:
                self._gradients(owner, asked)

    def _y_pass(self, owner: Segment, asked: Asked) -> TensorConvolution | FewConvolution:
        geometry = Geometry(asked.small, asked.written, *asked.transposed, transposed=asked.folded, fold=asked.fold, pool=asked.pool)
        return TensorConvolution(owner, geometry, asked.capacity, asked.precision)

    def _gradients(self, owner: Segment, asked: Asked) -> None:
        small, written, window = asked.small, asked.written, asked.transposed
        self.incoming = IncomingGradient(owner, written, asked.capacity, asked.pool)
        read, other = (written, small) if asked.folded else (small, written)
        self.weight_gradient = TensorWeightGradient(owner, read, other, *window, asked.fold, asked.capacity, asked.precision)
        if asked.both:
            back = Geometry(written, small, *window, transposed=not asked.folded, fold=asked.fold, swapped=True)
            self.dx_pass = TensorConvolution(owner, back, asked.capacity, asked.precision)

    def prepare(self) -> Launches:
        assert isinstance(self.y_pass, TensorConvolution)
        return [pack(self.buffers.w, self.y_pass, self.dx_pass)]

    def forward(self, n: int) -> Launches:
        t = self.buffers
        assert isinstance(self.y_pass, TensorConvolution)
        return self.y_pass.launches(n, t.x, t.b, t.y, self.asked.rectify, self.winner)

    def backward(self, n: int) -> Launches:
        t = self.buffers
        if isinstance(self.slight, FewGradient):
            return self.slight.launches(n, t.x, t.dy, self.rectified, t.dw, t.db)
        if isinstance(self.slight, WinnersGradient):
            assert self.winner is not None
            return self.slight.launches(n, t.x, t.dy, self.winner, t.dw, t.db)
        found, gradient, slabs = self.incoming.launches(n, t.dy, self.rectified, self.winner)
        read, other = (gradient, t.x) if self.asked.folded else (t.x, gradient)
        found += self.weight_gradient.launches(n, read, other, t.dw, self.incoming.sums, slabs, t.db)
        if self.dx_pass is not None:
            found += self.dx_pass.launches(n, gradient, None, t.dx, below=self.below)
        return found


def _slight_gradient(owner: Segment, asked: Asked) -> FewGradient | WinnersGradient | None:
    """dw of a slight first layer by multiply-adds, where one of few.py's takes it."""
    if asked.slight and asked.pool and WinnersGradient.takes(asked.small, *asked.window, asked.device.limits):
        return WinnersGradient(owner, asked.small, asked.written, asked.k, asked.padding, asked.capacity)
    if asked.slight and not asked.pool and FewGradient.takes(asked.small, asked.k):
        return FewGradient(owner, asked.small, asked.written, *asked.window, asked.capacity)
    return None


class First(Way):
    """A first layer of few inputs and many outputs with a pool, a picture's colours: fragments that lanes make of windows (first.py). In tf32 factors are halves.

    With fewer pictures than a quarter of the multiprocessors multiply-adds are faster: most of the GPU is idle, and a lane's fragments take long to make.
    """

    packs = True

    @classmethod
    def takes(cls, asked: Asked) -> bool:
        enough = 4 * asked.capacity >= asked.device.limits.multiprocessors
        return (
            enough
            and asked.begins
            and asked.pool
            and first.fits(asked.small, asked.written, asked.window, asked.precision, asked.device.limits)
        )

    def __init__(self, owner: Segment, asked: Asked, before: Way | None) -> None:
        super().__init__(owner, asked, before)
        self.factors = HALVES.get(asked.precision)
        layer = asked.small, asked.written, asked.k, asked.padding
        self.y_pass = first.FirstConvolution(owner, *layer, asked.precision)
        if asked.trains:
            self.gradient = first.FirstGradient(owner, *layer, asked.capacity, asked.precision)

    def forward(self, n: int) -> Launches:
        t = self.buffers
        return self.y_pass.launches(n, t.x, t.w, t.b, t.y, self.winner, self.packed)

    def backward(self, n: int) -> Launches:
        t = self.buffers
        assert self.winner is not None
        return self.gradient.launches(n, t.x, t.dy, self.winner, t.dw, t.db)


class Few(General):
    """A slight first layer whose sums have at most 32 terms, a picture's colours by 3 x 3: multiply-adds in fp32 from registers, in every precision.

    There is less arithmetic than tensor cores need to be worth the splitting: docs/rungs/tensor.md has both times.
    """

    packs = True

    @classmethod
    def takes(cls, asked: Asked) -> bool:
        return asked.slight and FewConvolution.takes(asked.small, asked.k, asked.stride)

    def _y_pass(self, owner: Segment, asked: Asked) -> FewConvolution:
        return FewConvolution(owner, asked.small, asked.written, asked.k, asked.padding)

    def prepare(self) -> Launches:
        return []

    def forward(self, n: int) -> Launches:
        t, asked = self.buffers, self.asked
        assert isinstance(self.y_pass, FewConvolution)
        return self.y_pass.launches(n, t.x, t.w, t.b, t.y, asked.rectify, asked.pool, self.winner, self.packed)


class Warpgroups(Way):
    """Hopper's wgmma, for windows of 3 x 3, behind an enlargement by 2 as well, and multiples of 64 channels and outputs (warpgroups.py).

    In tf32 factors are halves, which have as many bits. Images are packed in bf16 by the convolution that writes them, where there is one before this that can; in
    the other precisions nobody can, since the scale of an image is known only when all of it is there.
    """

    packs = True

    @classmethod
    def takes(cls, asked: Asked) -> bool:
        return fits(asked.device, asked.small, asked.written, asked.window, asked.capacity, asked.precision, asked.fold)

    def __init__(self, owner: Segment, asked: Asked, before: Way | None) -> None:
        super().__init__(owner, asked, before)
        self.factors = HALVES.get(asked.precision)
        self.passes = WarpgroupConvolution(owner, asked.small, asked.written, asked.capacity, asked.precision, asked.trains, asked.both)
        self.passes.images.given = before is not None and before.feed(self.passes.images)

    def fed_back(self) -> GradientBelow | None:
        if not self.asked.trains or self.asked.pool or self.rectified is not None:
            return None
        self.passes.gradient.given = True
        return GradientBelow(self.passes.gradient, self.passes.sums)

    def prepare(self) -> Launches:
        return [self.passes.weights.pack(self.buffers.w)]

    def forward(self, n: int) -> Launches:
        t = self.buffers
        return self.passes.forward(n, t.x, t.b, t.y, self.asked.after, self.winner, self.packed)

    def backward(self, n: int) -> Launches:
        t = self.buffers
        return self.passes.backward(n, t.dy, self.rectified, self.winner, t.dw, t.db, t.dx, self.below)


class Narrow(Way):
    """Few channels, at most 32 on either side, with windows up to 5 x 5: kernels as small as their work (narrow.py). In tf32 factors are halves."""

    @classmethod
    def takes(cls, asked: Asked) -> bool:
        return not asked.folded and narrow.fits(cls._shape(asked), asked.stride, asked.precision, asked.device.limits)

    @staticmethod
    def _shape(asked: Asked) -> narrow.Shape:
        return narrow.Shape(asked.small, asked.written, asked.k, asked.padding, asked.pool)

    def __init__(self, owner: Segment, asked: Asked, before: Way | None) -> None:
        super().__init__(owner, asked, before)
        self.factors = HALVES.get(asked.precision)
        self.passes = narrow.NarrowConvolution(owner, self._shape(asked), asked.capacity, asked.precision, asked.trains, asked.both)
        # Its kernels go through a pool by themselves, and sum dy; a ReLU alone is seen to before.
        rectifies = asked.trains and not asked.pool and self.rectified is not None
        self.incoming = IncomingGradient(owner, asked.written, asked.capacity, False) if rectifies else None

    def prepare(self) -> Launches:
        return [self.passes.pack(self.buffers.w)]

    def forward(self, n: int) -> Launches:
        t = self.buffers
        return self.passes.forward(n, t.x, t.b, t.y, self.asked.rectify, self.winner)

    def backward(self, n: int) -> Launches:
        t = self.buffers
        found = [] if self.incoming is None else self.incoming.launches(n, t.dy, self.rectified, None)[0]
        return found + self.passes.backward(n, t.x, t.dy, self.winner, t.dw, t.db, t.dx, self.below)


class Shifted(Way):
    """Few outputs behind an enlargement by 2, the last layer of an autoencoder: wgmma first, shifts afterwards (shifted.py). In tf32 factors are halves."""

    @classmethod
    def takes(cls, asked: Asked) -> bool:
        if asked.fold != 2 or asked.rectify or asked.pool:
            return False
        return ShiftedConvolution.takes(asked.device, asked.small, asked.written, asked.window, asked.capacity, asked.precision)

    def __init__(self, owner: Segment, asked: Asked, before: Way | None) -> None:
        super().__init__(owner, asked, before)
        self.factors = HALVES.get(asked.precision)
        below = before.fed_back() if before is not None and asked.both else None
        self.passes = ShiftedConvolution(owner, asked.small, asked.written, asked.capacity, asked.precision, asked.trains, below)

    def prepare(self) -> Launches:
        return [self.passes.pack(self.buffers.w)]

    def forward(self, n: int) -> Launches:
        t = self.buffers
        return self.passes.forward(n, t.x, t.b, t.y)

    def backward(self, n: int) -> Launches:
        t = self.buffers
        return self.passes.backward(n, t.x, t.dy, t.dw, t.db, t.dx, rectified=self.below is not None)


#: In the order in which they are asked: the first that takes a convolution computes it.
WAYS: tuple[type[Way], ...] = (First, Few, Warpgroups, Shifted, Narrow, General)
