"""SGD at a constant rate inside the kernel that finishes a gradient: its condition, and the kernel's arguments."""

from ...device import Array
from ...optimizers import SGD
from ..engine.chain import Slice, Subgraph
from ..engine.kernels import KernelUpdate
from ..engine.segments import Segment
from .cuda import limit

#: Arguments of the fused update for a launch that does not update: null arrays, and unread settings of SGD.
NOTHING = (None, None, None, 0.0, 0.0, 0, 0.0, 0.0)


def fuses(subgraph: Subgraph) -> bool:
    """True if a segment may update its parameters: SGD at a constant rate, with settings as kernel arguments.

    The norm of all gradients is known only after the last gradient: with a `clip_norm` no segment updates.
    """
    config = subgraph.config
    return config is not None and isinstance(config.optimizer, SGD) and config.steady and config.clip_norm is None


class UpdatesInPlace(Segment):
    """Base of segments that may update their parameters."""

    @classmethod
    def updates_in_place(cls, subgraph: Subgraph) -> bool:
        return fuses(subgraph)


def settings(update: KernelUpdate | None, part: Slice, gradient: Array | None = None) -> tuple[object, ...]:
    """Arguments of the fused update, as `Flat` of device/include/parameter.cuh; NOTHING if a slice is not the whole
    batch.

    gradient : gradient of one parameter array, if the kernel finishes only this one. The kernel then touches only its
    range of the three flat arrays, and other launches may run concurrently.
    """
    if update is None or not part.is_whole:
        return NOTHING
    sgd = update.config.optimizer
    assert isinstance(sgd, SGD)
    some = slice(None)
    if gradient is not None:
        first = (gradient.address - update.grads.address) // 4
        some = slice(first, first + gradient.size)
    momentum_buffer = update.slots[0][some] if update.slots else None
    return (
        update.grads[some], update.params[some], momentum_buffer, sgd.learning_rate, sgd.momentum, int(sgd.nesterov),
        sgd.weight_decay, limit(update.config),
    )  # fmt: skip
