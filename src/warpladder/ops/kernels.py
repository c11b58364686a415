"""What a training step is made of on a device: launches.

An op made of kernels is bound once to a device and to its arrays. Asked for n samples it returns launches, in
order; it sends none. So a step is a list that can be sent, timed launch by launch, or captured in a graph.
It may be asked for several n (a full batch, the last one); whatever scratch memory it needs it takes when it is bound.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..config import TrainConfig
from ..device import Array, Call, Device
from ..nets import CrossEntropyLoss, Layer, Loss, MSELoss, Net, Shape
from .base import Buffers

if TYPE_CHECKING:
    from .tiles import Planned

#: A launch each, or a call of a vendor's library.
Launches = list[Call]


def ceil_div(a: int, b: int) -> int:
    """How many parts of b hold a: ceil(a / b)."""
    return -(-a // b)


def aside(calls: Launches) -> Launches:
    """The same calls, which may run beside those after them until the gradients are used: see `Call.aside`."""
    for call in calls:
        call.aside = True
    return calls


class OnDevice:
    """What is bound to a device, and counts the scratch memory that it takes there.

    block_size : threads in a block that the user asked for, a multiple of 32 from 32 to 1024; kernels whose shape is their idea have their own.
    """

    workspace: int = 0

    def __init__(self, device: Device, block_size: int) -> None:
        self.device, self.block_size = device, block_size

    def scratch(self, shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
        """An uninitialised array; its bytes are added to `workspace`."""
        out = self.device.empty(shape, dtype, "workspace")
        self.workspace += out.nbytes
        return out


class KernelOp(OnDevice, ABC):
    """One layer, or several consecutive ones in a single pass, as kernels.

    Parameters
    ----------
    device : Device
    layers : tuple of Layer
        The first reads buffers.x, the last writes buffers.y; what stands between them is kept nowhere.
    buffers : Buffers
        Of device arrays. Without a dy the op only predicts, and `backward` is not called. ReLU is given one array as x and y, and
        one as dx and dy, wherever nothing else needs the old numbers.
    block_size : int

    Attributes
    ----------
    rectifies : bool
        Of the class: whether it heeds x_rectified.
    x_rectified : bool
        Set by who binds several ops: x is the output of a ReLU, and dx shall be the gradient of what entered that, 0 where x is not above 0.
    dy_rectified : bool
        Set likewise: y is the output of a ReLU, and dy is 0 already where y is not above 0. An op may save work that way.
    products : dict of str to Planned
        What a tuner may choose the tiles of, by what it computes: "y", "dx" or "dw".
    """

    rectifies = x_rectified = dy_rectified = False

    def __init__(self, device: Device, layers: tuple[Layer, ...], buffers: Buffers, block_size: int) -> None:
        super().__init__(device, block_size)
        self.layers, self.buffers = layers, buffers
        self.products: dict[str, Planned] = {}

    @classmethod
    def takes(cls, layers: tuple[Layer, ...], in_shape: Shape) -> bool:
        """Whether the op can compute these layers, of the types that a table has it for, on samples of in_shape; if not, fewer layers are tried."""
        return True

    def prepare(self, n: int) -> Launches:
        """What depends on the parameters alone and has to be done, once they have changed, before a forward and a backward of n samples."""
        return []

    @abstractmethod
    def forward(self, n: int) -> Launches:
        """Fill y[:n] from x[:n]; follows a prepare of the same n."""

    @abstractmethod
    def backward(self, n: int) -> Launches:
        """Fill dw and db (overwriting) where they are bound and dx[:n] where it is, from dy[:n]; follows a forward of the same n."""


@dataclass(frozen=True)
class Log:
    """What the steps of an epoch leave on the device.

    step : (1,) int32, the step that is running; a step's last loss launch adds one, so that the update finds the number of the next step there.
    loss : (entries,) float64, the mean loss of each step's batch; there are at least as many entries as steps in an epoch.
    correct : (entries,) int64, samples whose largest logit is their label's; zeros for MSELoss.
    """

    step: Array
    loss: Array
    correct: Array


class KernelLoss(OnDevice, ABC):
    """A loss, its gradient and its entry in the log.

    x : (capacity, *out_shape) float32, the net's output.
    target : (capacity,) int32 labels, or (capacity, *in_shape) float32, the images to reproduce.
    dx : as x, the gradient of the batch's mean loss by x.
    """

    def __init__(self, device: Device, x: Array, target: Array, dx: Array, log: Log, block_size: int) -> None:
        super().__init__(device, block_size)
        self.x, self.target, self.dx, self.log = x, target, dx, log

    @abstractmethod
    def launches(self, n: int, batch: int, first: bool, last: bool) -> Launches:
        """Fill dx[:n] and the log's entry of the running step.

        A batch that is larger than the buffers comes in slices: n samples of `batch`, whose mean counts. The first slice sets the
        entry and the others add to it; the last one adds one to log.step. Sums have a fixed order.
        """


class KernelUpdate(OnDevice, ABC):
    """One step of the config's optimizer on flat arrays of one size, float32: reads grads, changes params and slots, in the order of `Optimizer.slots`."""

    def __init__(
        self, device: Device, config: TrainConfig, params: Array, grads: Array, slots: tuple[Array, ...], block_size: int
    ) -> None:  # fmt: skip
        super().__init__(device, block_size)
        self.config = config
        self.params, self.grads, self.slots = params, grads, slots

    @abstractmethod
    def launches(self, numbers: Array, step: Array | None) -> Launches:
        """Change the parameters once.

        Parameters
        ----------
        numbers : Array
            (steps, NUMBERS) float32, a row for each step of an epoch; the first one alone where all are the same.
        step : Array or None
            `Log.step`, which the loss has moved on already; None where all steps have the same numbers.
        """


class KernelGather(OnDevice, ABC):
    """Samples as they are stored, (samples, *shape) uint8 or float32, times scale into x (capacity, *shape) float32; and their labels.

    order : (ORDER_WORDS,) uint32 in the device's memory, as `order_words` makes it; None takes the rows as they stand.
    step : (1,) int32, as `Log.step`.
    labels, target : (samples,) and (capacity,) int32; None without labels.
    """

    def __init__(
        self, device: Device, source: Array, scale: float, x: Array, labels: Array | None, target: Array | None,
        order: Array | None, step: Array, block_size: int,
    ) -> None:  # fmt: skip
        super().__init__(device, block_size)
        self.source, self.scale, self.x, self.labels, self.target = source, np.float32(scale), x, labels, target
        self.order, self.step = order, step

    @abstractmethod
    def launches(self, n: int, batch: int, offset: int) -> Launches:
        """Fill x[:n] and target[:n]: with an order, from its positions step * batch + offset onwards; without, from rows 0 to n."""


class KernelAccumulate(OnDevice, ABC):
    """The gradients of a batch that comes in slices, added up: total and part are flat arrays of one size, float32."""

    def __init__(self, device: Device, total: Array, part: Array, block_size: int) -> None:
        super().__init__(device, block_size)
        self.total, self.part = total, part

    @abstractmethod
    def launches(self, first: bool, last: bool) -> Launches:
        """The first slice sets total = part, the next ones total += part, and the last part += total, which is the sum."""


class Stem(OnDevice, ABC):
    """A net's first layers and the gathering of their samples in one, when it trains on samples that are on the device.

    layers, buffers : as `KernelOp` takes them; buffers.x is what `gather` fills, in the shape that enters the first layer.
    gather : of the feed; its launches are not sent.
    """

    @classmethod
    @abstractmethod
    def takes(cls, device: Device, layers: tuple[Layer, ...], buffers: Buffers) -> bool:
        """Whether it computes these layers, for as many samples as the buffers hold."""

    def __init__(
        self, device: Device, layers: tuple[Layer, ...], buffers: Buffers, gather: KernelGather, block_size: int
    ) -> None:  # fmt: skip
        super().__init__(device, block_size)
        self.layers, self.buffers, self.gather = layers, buffers, gather

    @abstractmethod
    def launches(self, n: int, batch: int, offset: int) -> Launches:
        """Fill x[:n] and target[:n], as `KernelGather.launches` does, and y[:n]."""


class Head(OnDevice, ABC):
    """A net's last layer and its loss in one, when it trains.

    buffers : the last layer's; y and dy are not used.
    target, log : as `KernelLoss` takes them.
    """

    @classmethod
    @abstractmethod
    def takes(cls, layer: Layer, loss: Loss) -> bool:
        """Whether it computes this layer with this loss."""

    def __init__(self, device: Device, buffers: Buffers, target: Array, log: Log, block_size: int) -> None:
        super().__init__(device, block_size)
        self.buffers, self.target, self.log = buffers, target, log

    @abstractmethod
    def forward(self, n: int, batch: int) -> Launches:
        """The loss of n samples of a batch, from x; perhaps dx[:n] already, so that what is left of `backward` may run aside."""

    @abstractmethod
    def backward(self, n: int, batch: int, first: bool, last: bool) -> Launches:
        """Fill dw, db and, where it is bound, dx, and the log's entry, as `KernelLoss.launches` says; follows a forward of the same n."""


class WholeStep(OnDevice, ABC):
    """All of a step, for nets of a certain form whose samples are on the device.

    source : (samples, *in_shape) uint8 or float32, as stored; scale : what its numbers are multiplied by.
    labels : (samples,) int32, or None.
    order, log : as `KernelGather` and `KernelLoss` take them.
    whole : samples of a full batch; a step's positions begin at log.step * whole.
    capacity : samples at a time, at most.
    w, dw : parameters and their gradients, by the names of `params.places`.
    update : what a step ends with, where it `updates`; its arrays hold w and dw. None where an update of its own follows.
    ordered : whether its launches read the order: sums over all samples need none.
    once : what was launched when it was made.
    """

    ordered = True
    once: Sequence[Call] = ()

    @classmethod
    @abstractmethod
    def takes(cls, net: Net) -> bool:
        """Whether it computes this net."""

    @classmethod
    def updates(cls, config: TrainConfig) -> bool:
        """Whether the op also updates the parameters, with this optimizer and schedule, where a batch comes in one piece."""
        return False

    def __init__(
        self, device: Device, net: Net, source: Array, scale: float, labels: Array | None, order: Array, log: Log, whole: int, capacity: int,
        w: Mapping[str, Array], dw: Mapping[str, Array], update: KernelUpdate | None, block_size: int,
    ) -> None:  # fmt: skip
        super().__init__(device, block_size)
        self.net, self.source, self.scale, self.labels, self.order, self.log = net, source, np.float32(scale), labels, order, log
        self.whole, self.capacity, self.w, self.dw, self.update = whole, capacity, w, dw, update

    @abstractmethod
    def launches(self, n: int, batch: int, offset: int, first: bool, last: bool) -> Launches:
        """The gradients of n samples and the log's entry, as `KernelGather.launches` and `KernelLoss.launches` say; and where these samples
        are the whole batch and an update was given, the update."""


@dataclass(frozen=True)
class KernelTable:
    """One implementation of everything that a step needs.

    layers : by the types of consecutive layers; the longest run that fits is taken. Flatten is missing: it is a reshaped view.
    accumulate : adds gradients up, for batches that come in slices.
    stems : the first that takes a net's first layers gathers their samples too when it trains, where those are on the device.
    heads : the first that takes a net's last layer and its loss computes both when it trains.
    whole : the first that takes a net computes its steps instead of all these, where samples are on the device.
    rivals : other ways to compute a run of layers with parameters, which a tuner times beside the table's own.
    """

    layers: Mapping[tuple[type[Layer], ...], type[KernelOp]]
    losses: Mapping[type[CrossEntropyLoss] | type[MSELoss], type[KernelLoss]]
    update: type[KernelUpdate]
    gather: type[KernelGather]
    accumulate: type[KernelAccumulate]
    stems: tuple[type[Stem], ...] = ()
    heads: tuple[type[Head], ...] = ()
    whole: tuple[type[WholeStep], ...] = ()
    rivals: tuple[type[KernelOp], ...] = ()

    def longest(self, layers: tuple[Layer, ...], in_shape: Shape) -> tuple[int, type[KernelOp]] | None:
        """The longest run of layers, from the first on, that the table has and that its op takes: how many they are, and the op."""
        for length in range(min(max(map(len, self.layers)), len(layers)), 0, -1):
            op = self.layers.get(tuple(type(layer) for layer in layers[:length]))
            if op is not None and op.takes(layers[:length], in_shape):
                return length, op
        return None
