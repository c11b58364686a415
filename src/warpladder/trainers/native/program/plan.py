"""Native plan of a net: tensors, their addresses in memory, and instructions in order.

A `NativePlan`, for a number of threads and a batch size, decides the fusion of layers (a ReLU with the layer before it,
upsampling with the convolution after it, the update with a weight gradient), the sharing of work among threads, and the
number of samples that pass the layers together, so that their activations stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable

from ....config import TrainConfig
from ....nets import RESIDUAL_PARTS, Conv2d, Linear, Net
from ....optimizers import SGD
from ..kernels.tile_sizes import CHUNK
from . import convolution_rows, layer_rows, linear_rows, residual_rows
from .barriers import barriers
from .fuse import FusedLayer
from .layout import WeightLayout
from .rows import BY_LOOP, CACHE, IN_REGISTERS, SEPARATE, RowBuilder, WorkSharing

SMALL = 64 * 1024  # parameters up to which every thread has a gradient of its own
BLOCKS = (8, 16, 32)  # sizes of blocks whose activations do not fit the cache: whole tiles of Linear layers
LARGEST = 16 * 1024 * 1024  # floats of activations of such a block

#: the functions of each kind of layer that emit its forward and its backward rows
ROWS: dict[type, tuple[Callable[[RowBuilder, FusedLayer], None], Callable[[RowBuilder, FusedLayer], None]]] = {
    Linear: (linear_rows.forward, linear_rows.backward),
    Conv2d: (convolution_rows.forward, convolution_rows.backward),
    **dict.fromkeys(RESIDUAL_PARTS, (residual_rows.forward, residual_rows.backward)),
}
OTHER_ROWS = (layer_rows.forward, layer_rows.backward)

#: the operation that takes the place of one that reads samples, if these are lists
LISTS = {
    "gather_rows": "request_nonzeros",
    "convolve": "nonzero_product",
    "multiply": "nonzero_product",
    "weight_gradient": "nonzero_weight_gradient",
    "weight_step": "nonzero_weight_step",
}


class NativePlan:
    """Program of a net for `threads` threads and batches of `batch` samples.

    rows, sections : the instructions, and the first and last row of each section.
    built : tensors and sizes of the buffers, see `RowBuilder`.
    has_targets, has_shares : as in `RowBuilder`. sharing : how threads share the work.
    is_listed : True if most numbers of the samples are 0.
    samples, out : the net's input and its output, as tensors.
    """

    def __init__(
        self, net: Net, config: TrainConfig, threads: int, batch: int, has_targets: bool = False,
        has_shares: bool = False, is_listed: bool = False,
    ) -> None:  # fmt: skip
        self.layout, goal = WeightLayout(net), (has_targets, has_shares)
        work = net.train_flops * batch / net.param_count
        # a normalisation needs the whole batch: one block, whose samples and channels the threads divide
        together = net.normalizes or batch < 2 * threads or (self.layout.count > SMALL and work < 2000)
        # optimizers other than SGD have their own loop
        update = "sgd" if type(config.optimizer) is SGD else "optimizer_loop"
        self.sharing = WorkSharing(together, batch, SEPARATE, update, config.clip_norm)
        plain = type(config.optimizer) is SGD and not config.optimizer.slots
        fused = IN_REGISTERS if plain else BY_LOOP
        if together:
            if batch <= CHUNK and config.clip_norm is None:  # a Linear layer's gradient then never reaches memory
                self.sharing = self.sharing._replace(steps_weights=fused, steps_first=fused)
        else:
            floats = _built(net, self.layout, threads, self.sharing._replace(block=1), *goal).arena.size
            self.sharing = self.sharing._replace(block=block_size(floats, self.layout.count, -(-batch // threads)))
        self._build(net, threads, goal)
        if is_listed and self.can_list and together and config.clip_norm is None:
            # so does the first layer's, which is summed block by block, however long the batch is
            self.sharing = self.sharing._replace(steps_first=fused)
            self._build(net, threads, goal)

    def _build(self, net: Net, threads: int, goal: tuple[bool, bool]) -> None:
        """Set `built`, `samples`, `out`, `rows` and `sections`."""
        self.built = _built(net, self.layout, threads, self.sharing, *goal)
        self.samples, self.out = self.built.values[self.built.enter], self.built.values[self.built.nodes[-1].y]
        rows, self.sections = self.built.finished()
        flags = barriers(rows, self.sections, self.samples)
        self.rows = [row._replace(barrier=flag) for row, flag in zip(rows, flags, strict=True)]

    @property
    def of_samples(self) -> tuple[int, ...]:
        """Numbers of the rows that write or read the samples' tensor."""
        views = self.samples.view, self.samples.samples_as_pixels()
        return tuple(at for at, row in enumerate(self.rows) if any(each in views for each in row.operands))

    @property
    def can_list(self) -> bool:
        """True if a wide Linear layer is the only one that reads the samples: it can read lists."""
        read = [self.rows[at].operation for at in self.of_samples]
        return len(read) == 3 and all(operation in LISTS for operation in read)

    @property
    def calls_loop(self) -> bool:
        """True if an instruction calls the optimizer's loop."""
        return any(row.operation in ("optimizer_loop", "weight_step") for row in self.rows)


def block_size(activations: int, weights: int, share: int) -> int:
    """Number of samples of a thread's share that pass the layers together: the number that moves the fewest floats.

    activations, weights : floats of one sample, and of the net. A small block's activations stay in the second-level
    cache, and so do few weights. A large block's activations leave it and are read back, but many weights and their
    gradients are moved less often: read by two products, and read and written where gradients are summed.
    """
    fits = min(share, max(1, CACHE // activations))
    if 2 * weights <= CACHE:
        return fits

    def moved(block: int) -> float:
        return 4 * weights / block + 2 * activations * max(0.0, 1 - fits / block)

    larger = (block for block in BLOCKS if fits < block <= share and block * activations <= LARGEST)
    return min((fits, *larger), key=moved)


def _built(
    net: Net, layout: WeightLayout, threads: int, sharing: WorkSharing, has_targets: bool, has_shares: bool
) -> RowBuilder:  # fmt: skip
    """Builder with all rows of a net."""
    rows = RowBuilder(net, layout, threads, sharing, has_targets, has_shares)
    if not rows.reads_samples:
        layer_rows.gather(rows, "forward", rows.values[rows.enter])
    layer_rows.loss(rows)
    for node in rows.nodes:
        rows.layers = range(node.x, node.y)
        ROWS.get(type(node.layer), OTHER_ROWS)[0](rows, node)
    for node in reversed(rows.nodes):
        if node.y in rows.value_gradients:
            rows.layers = range(node.x, node.y)
            ROWS.get(type(node.layer), OTHER_ROWS)[1](rows, node)
    rows.layers = range(0)
    rows.update_others()
    return rows
