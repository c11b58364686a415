"""Ways in which tensor cores compute a convolution: what each takes, and its y, dx, dw and db as launches."""

from __future__ import annotations

from collections.abc import Callable

from ...engine.kernels import Launches
from ...engine.segments import Segment
from ..few_inputs.few_inputs import FewConvolution, FewGradient, FewImagesGradient, WinnersGradient
from ..gradients import Gradients, IncomingGradient
from ..products import Geometry
from .algorithm import Asked, Way
from .few_pixels import few_pixels
from .first import first
from .general.general import TensorConvolution, TensorWeightGradient, pack
from .narrow import narrow
from .shifted.shifted import GradientBelow, ShiftedConvolution
from .warpgroups.warpgroups import WarpgroupConvolution, fits


class _ByMma:
    """dw, db and dx by mma.sync (tensor.cu, tensor_weights.cu); dw of a slight first layer by multiply-adds, where a
    kernel of few.py takes it.
    """

    def __init__(self, owner: Segment, way: Way) -> None:
        # What the way has, and not the way, which refers to its gradients: two that refer to each other keep their
        # memory until it is collected.
        self.asked, self.buffers, self.winner, self.rectified, self.below = (
            way.asked,
            way.buffers,
            way.winner,
            way.rectified,
            way.below,
        )
        asked = way.asked
        self.dx_pass: TensorConvolution | None = None
        self.slight = self._slight(owner)
        if self.slight is not None:
            return
        small, written, window = asked.small, asked.written, asked.transposed
        self.incoming = IncomingGradient(owner, written, asked.capacity, asked.pool)
        read, other = (written, small) if asked.folded else (small, written)
        self.weight_gradient = TensorWeightGradient(
            owner, read, other, *window, asked.fold, asked.capacity, asked.precision
        )
        if asked.both:
            back = Geometry(written, small, *window, transposed=not asked.folded, fold=asked.fold, swapped=True)
            self.dx_pass = TensorConvolution(owner, back, asked.capacity, asked.precision)

    def _slight(self, owner: Segment) -> Callable[[int, Gradients], Launches] | None:
        """The launches of a slight first layer's gradients for so many samples; None for other layers."""
        asked, t, winner, rectified = self.asked, self.buffers, self.winner, self.rectified
        images = asked.small, asked.k, asked.stride, asked.padding, asked.capacity, asked.device.limits
        if asked.slight and winner is not None and FewImagesGradient.takes(*images):
            of_images = FewImagesGradient(owner, asked.small, asked.written, asked.k, asked.padding)
            return lambda n, to: of_images.launches(n, t.x, t.dy, winner, to)
        if (
            asked.slight
            and winner is not None
            and WinnersGradient.takes(asked.small, *asked.window, asked.device.limits)
        ):
            of_winners = WinnersGradient(owner, asked.small, asked.written, asked.k, asked.padding, asked.capacity)
            return lambda n, to: of_winners.launches(n, t.x, t.dy, winner, to)
        if asked.slight and not asked.pool and FewGradient.takes(asked.small, asked.k):
            few = FewGradient(owner, asked.small, asked.written, *asked.window, asked.capacity)
            return lambda n, to: few.launches(n, t.x, t.dy, rectified, to)
        return None

    def launches(self, n: int, to: Gradients) -> Launches:
        if self.slight is not None:
            return self.slight(n, to)
        t = self.buffers
        found, gradient, slabs = self.incoming.launches(n, t.dy, self.rectified, self.winner)
        read, other = (gradient, t.x) if self.asked.folded else (t.x, gradient)
        found += self.weight_gradient.launches(n, read, other, self.incoming.sums, slabs, to)
        if self.dx_pass is not None:
            found += self.dx_pass.launches(n, gradient, None, t.dx, below=self.below)
        return found


class General(Way):
    """Any convolution, by mma.sync (tensor.cu, tensor_weights.cu)."""

    @classmethod
    def takes(cls, asked: Asked) -> bool:
        return True

    def __init__(self, owner: Segment, asked: Asked, before: Way | None) -> None:
        super().__init__(owner, asked, before)
        geometry = Geometry(
            asked.small, asked.written, *asked.transposed, transposed=asked.folded, fold=asked.fold, pool=asked.pool
        )
        self.y_pass = TensorConvolution(owner, geometry, asked.capacity, asked.precision)
        self.gradients = _ByMma(owner, self) if asked.trains else None

    def prepare(self) -> Launches:
        return [pack(self.buffers.w, self.y_pass, self.gradients.dx_pass if self.gradients else None)]

    def forward(self, n: int) -> Launches:
        t = self.buffers
        return self.y_pass.launches(n, t.x, t.b, t.y, self.asked.rectify, self.winner)

    def backward(self, n: int, to: Gradients) -> Launches:
        assert self.gradients is not None
        return self.gradients.launches(n, to)


class First(Way):
    """A first layer of few inputs and many outputs with a pool, a picture's colours: fragments that lanes make of
    windows (first.py).

    With fewer pictures than a quarter of the multiprocessors multiply-adds are faster: most of the GPU is idle, and a
    lane's fragments take long to make.
    """

    packs = True
    halves = True

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
        layer = asked.small, asked.written, asked.k, asked.padding
        self.y_pass = first.FirstConvolution(owner, *layer, asked.precision)
        if asked.trains:
            self.gradient = first.FirstGradient(owner, *layer, asked.capacity, asked.precision)

    def forward(self, n: int) -> Launches:
        t = self.buffers
        return self.y_pass.launches(n, t.x, t.w, t.b, t.y, self.winner, self.packed)

    def backward(self, n: int, to: Gradients) -> Launches:
        t = self.buffers
        assert self.winner is not None
        return self.gradient.launches(n, t.x, t.dy, self.winner, to)


class Few(Way):
    """A slight first layer whose sums have at most 32 terms, a picture's colours by 3 x 3: multiply-adds in fp32 from
    registers, in every precision.

    There is less arithmetic than tensor cores need to be worth the splitting: docs/rungs/tensor.md has both times.
    """

    packs = True

    @classmethod
    def takes(cls, asked: Asked) -> bool:
        return asked.slight and FewConvolution.takes(asked.small, asked.k, asked.stride)

    def __init__(self, owner: Segment, asked: Asked, before: Way | None) -> None:
        super().__init__(owner, asked, before)
        self.y_pass = FewConvolution(owner, asked.small, asked.written, asked.k, asked.padding)
        self.gradients = _ByMma(owner, self) if asked.trains else None

    def forward(self, n: int) -> Launches:
        t, asked = self.buffers, self.asked
        return self.y_pass.launches(n, t.x, t.w, t.b, t.y, asked.rectify, asked.pool, self.winner, self.packed)

    def backward(self, n: int, to: Gradients) -> Launches:
        assert self.gradients is not None
        return self.gradients.launches(n, to)


class Warpgroups(Way):
    """Hopper's wgmma, for windows of 3 x 3, behind an enlargement by 2 as well, and multiples of 64 channels and
    outputs (warpgroups.py).

    Images are packed in bf16 by the convolution that writes them, where there is one before this that can; in
    the other precisions nobody can, since the scale of an image is known only when all of it is there.
    """

    packs = True
    halves = True

    @classmethod
    def takes(cls, asked: Asked) -> bool:
        return fits(asked.device, asked.small, asked.written, asked.window, asked.capacity, asked.precision, asked.fold)

    def __init__(self, owner: Segment, asked: Asked, before: Way | None) -> None:
        super().__init__(owner, asked, before)
        self.passes = WarpgroupConvolution(
            owner, asked.small, asked.written, asked.capacity, asked.precision, asked.trains, asked.both
        )
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

    def backward(self, n: int, to: Gradients) -> Launches:
        t = self.buffers
        return self.passes.backward(n, t.dy, self.rectified, self.winner, to, t.dx, self.below)


class FewPixels(Way):
    """Few pixels in all, one image or a few (few_pixels.py): a launch for y and one for dx, straight from the weights
    as they are.
    """

    halves = True

    @classmethod
    def takes(cls, asked: Asked) -> bool:
        limits = asked.device.limits
        return not asked.begins and few_pixels.fits(
            asked.small, asked.written, asked.window, asked.capacity, asked.precision, asked.fold, limits
        )

    def __init__(self, owner: Segment, asked: Asked, before: Way | None) -> None:
        super().__init__(owner, asked, before)
        small, written, precision = asked.small, asked.written, asked.precision
        self.y_pass = few_pixels.FewPixelsConvolution(
            owner, few_pixels.Pass(small, written, pool=asked.pool), precision
        )
        if asked.trains:
            self.weight_gradient = few_pixels.FewPixelsGradient(owner, small, written, asked.pool, precision)
        # The next step waits for these weights first, and this one fills their gradient last: beside dx, not behind it.
        self.apart = asked.both and not isinstance(before, FewPixels)
        # What follows has cut dy by the ReLU as a rule; winners of a pool know of theirs.
        cuts = asked.trains and not asked.pool and self.rectified is not None
        self.incoming = IncomingGradient(owner, written, asked.capacity, False) if cuts else None
        if asked.both:
            self.dx_pass = few_pixels.FewPixelsConvolution(
                owner, few_pixels.Pass(written, small, backwards=True), precision
            )

    def forward(self, n: int, turn: few_pixels.Turn | None = None) -> Launches:
        t = self.buffers
        return [self.y_pass.launch(n, t.x, t.w, t.y, t.b, self.asked.rectify, self.winner, turn=turn)]

    def backward(self, n: int, to: Gradients) -> Launches:
        t = self.buffers
        found = self.incoming.launches(n, t.dy, self.rectified, None)[0] if self.incoming is not None else []
        if self.asked.both:  # before the weights are updated, which it reads
            found.append(self.dx_pass.launch(n, t.dy, t.w, t.dx, below=self.below, won=self.winner))
        return [*found, self.weight_gradient.launch(n, t.x, t.dy, self.winner, to)]


class Narrow(Way):
    """Few channels, at most 32 on either side, with windows up to 5 x 5: kernels as small as their work (narrow.py)."""

    halves = True

    @classmethod
    def takes(cls, asked: Asked) -> bool:
        return not asked.folded and narrow.fits(cls._shape(asked), asked.stride, asked.precision, asked.device.limits)

    @staticmethod
    def _shape(asked: Asked) -> narrow.Shape:
        return narrow.Shape(asked.small, asked.written, asked.k, asked.padding, asked.pool)

    def __init__(self, owner: Segment, asked: Asked, before: Way | None) -> None:
        super().__init__(owner, asked, before)
        self.passes = narrow.NarrowConvolution(
            owner, self._shape(asked), asked.capacity, asked.precision, asked.trains, asked.both
        )
        # The narrow kernels take dy of a pool and sum it for the bias; behind a ReLU alone they read a dy that another
        # kernel has cut.
        rectifies = asked.trains and not asked.pool and self.rectified is not None
        self.incoming = IncomingGradient(owner, asked.written, asked.capacity, False) if rectifies else None

    def prepare(self) -> Launches:
        return [self.passes.pack(self.buffers.w)]

    def forward(self, n: int) -> Launches:
        t = self.buffers
        return self.passes.forward(n, t.x, t.b, t.y, self.asked.rectify, self.winner)

    def backward(self, n: int, to: Gradients) -> Launches:
        t = self.buffers
        found = [] if self.incoming is None else self.incoming.launches(n, t.dy, self.rectified, None)[0]
        return found + self.passes.backward(n, t.x, t.dy, self.winner, to, t.dx, self.below)


class Shifted(Way):
    """Few outputs behind an enlargement by 2, the last layer of an autoencoder: wgmma first, shifts afterwards
    (shifted.py).
    """

    halves = True

    @classmethod
    def takes(cls, asked: Asked) -> bool:
        if asked.fold != 2 or asked.rectify or asked.pool:
            return False
        return ShiftedConvolution.takes(
            asked.device, asked.small, asked.written, asked.window, asked.capacity, asked.precision
        )

    def __init__(self, owner: Segment, asked: Asked, before: Way | None) -> None:
        super().__init__(owner, asked, before)
        below = before.fed_back() if before is not None and asked.both else None
        self.passes = ShiftedConvolution(
            owner, asked.small, asked.written, asked.capacity, asked.precision, asked.trains, below
        )

    def prepare(self) -> Launches:
        return [self.passes.pack(self.buffers.w)]

    def forward(self, n: int) -> Launches:
        t = self.buffers
        return self.passes.forward(n, t.x, t.b, t.y)

    def backward(self, n: int, to: Gradients) -> Launches:
        t = self.buffers
        return self.passes.backward(n, t.x, t.dy, to, t.dx, rectified=self.below is not None)


#: In the order in which they are asked: the first that takes a convolution computes it.
WAYS: tuple[type[Way], ...] = (First, Few, Warpgroups, Shifted, Narrow, FewPixels, General)
