"""From a net to its program: which tensors there are, where they lie, and what runs in which order.

A `Plan` is made for a number of threads and a batch size. It decides three things that speed
hangs on: which layers are fused (a ReLU into the layer before it, upsampling into the convolution
after it, the update into a weight gradient), how threads share the work, and how many samples go
through the layers at once so that their activations stay in the cache.
"""

from __future__ import annotations

import math

from ....config import TrainConfig
from ....nets import Conv2d, CrossEntropyLoss, Flatten, Linear, MaxPool2d, Net, ReLU, Upsample2d
from ....optimizers import SGD
from ..compiler.vectors import TOGETHER, WIDTH
from ..kernels.tile_sizes import BLOCK, CHUNK, MASK, ROWS, STORE
from ..kernels.tile_sizes import RELU as WITH_RELU
from .alone import go_on
from .boundaries import Boundaries
from .fuse import Node, fuse
from .job import ALL, NOTHING, OWN, Row, Sections, instruction
from .layout import Layout, Stored, padded, stays_in_place
from .memory import PACKED, WEIGHTS
from .products import convolutions, product, stretched_gradient
from .tensors import Arena, Tensor
from .views import View

CACHE = (
    256 * 1024
)  # floats of activations that a block may have: larger leaves the second-level cache, smaller reads weights too often
SMALL = 64 * 1024  # parameters up to which every thread keeps a gradient of its own

#: where the weights of Linear layers are stepped: in the update, inside the tile of their gradient, or, by the
#: optimizer's loop, behind some tiles
APART, IN_REGISTERS, BY_LOOP = range(3)


class Plan:
    """A net's program for `threads` threads and batches of `batch` samples.

    rows : the table. sections : where its parts begin and end. update : the operation of the last.
    layers : of each row the layers that it is for; an empty range for samples, loss and update.
    steps_weights : APART, IN_REGISTERS or BY_LOOP. calls_loop : whether the optimizer's loop is called at all.
    together, block : how threads share the work, and samples a block (see run.py).
    activations, winners, gradients, packed : sizes of the buffers, in elements.
    out : the net's output, as a tensor.
    """

    def __init__(self, net: Net, config: TrainConfig, threads: int, batch: int) -> None:
        self.net = net
        self.threads = threads
        #: how the weights are updated: an optimizer but SGD brings its loop with it
        self.update = "sgd" if type(config.optimizer) is SGD else "by_rule"
        self.layout = Layout(net)
        work = net.train_flops * batch / net.param_count
        self.together = batch < 2 * threads or (self.layout.count > SMALL and work < 2000)
        self.block = 1
        self.steps_weights = APART
        self._build()
        if self.together:
            self.block = batch
        else:
            self.block = max(1, min(CACHE // self.activations, -(-batch // threads)))
        if self.together and batch <= CHUNK:  # a Linear layer's gradient then never reaches memory
            plain = type(config.optimizer) is SGD and not config.optimizer.slots
            self.steps_weights = IN_REGISTERS if plain else BY_LOOP
        self._build()

    @property
    def calls_loop(self) -> bool:
        return any(operation in ("by_rule", "weight_step") for operation, _ in self.rows)

    # ------------------------------------------------------------------ tensors

    def _build(self) -> None:
        net = self.net
        self.arena = Arena(self.block)
        self.winners = 0
        self.packed = 0
        self.gradients = self.layout.count
        #: layers whose parameters are stepped with their gradients: from where to before where these lie
        self.stepped: dict[int, tuple[int, int]] = {}
        self._winners_of: dict[int, int] = {}
        self._folded_at: dict[int, int] = {}
        self.enter, self.nodes = fuse(net)
        self.rectified = {node.y for node in self.nodes if node.relu}
        first = self.layout.layers.get(self.nodes[0].index)
        #: a thin first layer gathers for itself, if it must; a target that is the input must be gathered anyway
        self.reads_samples = first is not None and first.thin and isinstance(net.loss, CrossEntropyLoss)
        alone = (
            self.together and not (first is not None and first.thin) and self.block * math.prod(net.in_shape) <= CACHE
        )
        self.boundaries = Boundaries(net, self.enter, self.nodes, self.arena, self.threads if alone else 1)
        self.values, self.slopes = self.boundaries.values, self.boundaries.slopes
        self.out = self.values[self.nodes[-1].y]
        #: entries of an offset table: a block of pixels, or the elements of a patch
        self.offsets = max([BLOCK] + [at.taps**2 * at.inputs + ROWS for at in self.layout.layers.values()])
        prepare: list[Row] = []
        forward = [] if self.reads_samples else [self._gather(self.values[self.enter])]
        backward = self._loss()
        collect: list[Row] = []
        parts = (prepare, forward, backward, collect)
        layers: list[list[range]] = [[] for _ in parts]

        def are_for(some: range) -> None:
            """Note that all rows that have come since the last note are for these layers."""
            for rows, known in zip(parts, layers, strict=True):
                known += [some] * (len(rows) - len(known))

        are_for(range(0))
        for node in self.nodes:
            forward += self._forward(node, prepare)
            are_for(range(node.x, node.y))
        for node in reversed(self.nodes):
            if node.y in self.slopes:
                backward += self._backward(node, prepare, collect)
                are_for(range(node.x, node.y))
        updates = self._updates()
        self.rows: list[Row] = []
        ranges = []
        for part in (*parts, updates):
            ranges.append((len(self.rows), len(self.rows) + len(part)))
            self.rows += part
        self.sections = Sections(*ranges)
        go_on(self.rows, self.sections, self.values[self.enter])
        self.layers = [each for known in layers for each in known] + [range(0)] * len(updates)
        self.activations = self.arena.size

    def enters(self, at: int) -> bool:
        """Whether the layer behind this boundary reads samples where the data set has them."""
        return self.reads_samples and at == self.enter

    # ------------------------------------------------------------------ rows

    def _gather(self, to: Tensor) -> Row:
        if to.flat:
            return instruction("gather_rows", [to.view], to.shape[0], to.apart > 0)
        return instruction("gather", [to.view], to.shape[0])

    def _loss(self) -> list[Row]:
        last = self.nodes[-1].y
        x, dx = self.values[last], self.slopes[last]
        rows = []
        if isinstance(self.net.loss, CrossEntropyLoss):
            rows.append(instruction("cross_entropy", [x.view, dx.view], x.shape[0]))
        else:
            goal = self.values[self.enter]
            if goal.shape != x.shape:
                goal = self.boundaries.tensor(x.shape, 0)
                rows.append(self._gather(goal))
            rows.append(instruction("squared_error", [x.view, goal.view, dx.view], x.shape[0]))
        return rows + self._masked(last)

    def _masked(self, at: int) -> list[Row]:
        """Rows that send a boundary's gradient through the ReLU fused in front of it."""
        if at not in self.rectified:
            return []
        slopes = self.slopes[at].view
        return [instruction("relu_gradient", [self.values[at].view, slopes, slopes])]

    def _forward(self, node: Node, prepare: list[Row]) -> list[Row]:
        x, y, layer = self.values[node.x], self.values[node.y], node.layer
        stored = self.layout.layers.get(node.index)
        if isinstance(layer, Linear):
            assert stored is not None
            if stored.thin:
                operation = "enter_thin_forward" if self.enters(node.x) else "thin_forward"
                operands = (stored.weight, stored.inputs, stored.outputs, stored.bias, node.relu, x.shape[0])
                return [instruction(operation, [x.view, y.view], *operands)]
            finish = WITH_RELU if node.relu else STORE
            panels = stored.outputs // WIDTH
            views = [x.samples_as_pixels(), y.samples_as_pixels(), y.samples_as_pixels()]
            # the same thread meets the same weights in both passes, so that they stay in its cache
            return [
                instruction(
                    product(panels), views, 1, 1, 1, 1, WEIGHTS, stored.weight, stored.bias, finish, panels, panels > 1
                )
            ]
        if isinstance(layer, Conv2d):
            assert stored is not None
            return self._forward_conv(node, stored, x, y, prepare)
        if isinstance(layer, ReLU):
            return [instruction("relu", [x.view, y.view])]
        if isinstance(layer, MaxPool2d):
            assert layer.stride is not None
            self._winners_of[node.index] = self.winners
            self.winners += self.block * y.view.height * y.view.width * y.view.channels
            return [
                instruction("pool", [x.view, y.view], self._winners_of[node.index], layer.kernel_size, layer.stride)
            ]
        if isinstance(layer, Upsample2d):
            return [instruction("upsample", [x.view, y.view], layer.scale_factor)]
        assert isinstance(layer, Flatten)
        if stays_in_place(self.net, node.index):
            return []
        return [instruction("flatten", [x.view, y.view], x.shape[0])]

    def _forward_conv(self, node: Node, stored: Stored, x: Tensor, y: Tensor, prepare: list[Row]) -> list[Row]:
        layer = node.layer
        assert isinstance(layer, Conv2d)
        finish = WITH_RELU if node.relu else STORE
        panels = stored.outputs // WIDTH
        if not node.folded:
            view = x.view.moved(-layer.padding)
            where = WEIGHTS, stored.weight, stored.bias
            return convolutions(
                [view, y.view, y.view], layer.kernel_size, layer.stride, where, finish, panels, layer.padding, x.view
            )
        folded = self._pack(16 * stored.inputs * stored.outputs)
        self._folded_at[node.index] = folded
        prepare.append(instruction("fold_weights", [], stored.weight, stored.inputs, panels, folded))
        rows = []
        for parity in range(4):
            p, q = divmod(parity, 2)
            weights = folded + parity * 4 * stored.inputs * stored.outputs
            small, large = x.view.moved(p - 1, q - 1), y.view.every_second(p, q)
            rows.append(
                instruction(
                    "convolve", [small, large, large], 0, 2, 2, 1, PACKED, weights, stored.bias, finish, panels, 0
                )
            )
        return rows

    def _backward(self, node: Node, prepare: list[Row], collect: list[Row]) -> list[Row]:
        x, y, dy, layer = self.values[node.x], self.values[node.y], self.slopes[node.y], node.layer
        dx = self.slopes.get(node.x)
        stored = self.layout.layers.get(node.index)
        mask = node.x in self.rectified
        if isinstance(layer, Linear):
            assert stored is not None
            return self._backward_linear(node, stored, x, dx, dy, mask, prepare)
        if isinstance(layer, Conv2d):
            assert stored is not None
            return self._backward_conv(node, stored, x, dx, dy, mask, prepare, collect)
        if dx is None:
            return []
        if isinstance(layer, MaxPool2d):
            assert layer.stride is not None
            operands = (self._winners_of[node.index], layer.kernel_size, layer.stride, mask)
            return [instruction("pool_gradient", [dy.view, dx.view, y.view], *operands)]
        if isinstance(layer, ReLU):
            rows = [instruction("relu_gradient", [y.view, dy.view, dx.view])]
        elif isinstance(layer, Upsample2d):
            rows = [instruction("upsample_gradient", [dy.view, dx.view], layer.scale_factor)]
        elif stays_in_place(self.net, node.index):
            rows = []
        else:
            rows = [instruction("unflatten", [dy.view, dx.view], x.shape[0])]
        return rows + self._masked(node.x)

    def _backward_linear(
        self, node: Node, at: Stored, x: Tensor, dx: Tensor | None, dy: Tensor, mask: bool, prepare: list[Row]
    ) -> list[Row]:
        rows = []
        steps = self.steps_weights == IN_REGISTERS
        if at.thin:
            panels = at.inputs // WIDTH
            if dx is not None:
                # the layer before is divided by the same panels: what a thread writes here it alone reads there
                operands: tuple[int, ...] = (at.weight, at.inputs, at.outputs, mask, panels, self._by_panel(panels))
                rows.append(instruction("thin_input_gradient", [dy.view, dx.view, x.view], *operands))
            operation = "enter_thin_weight_gradient" if self.enters(node.x) else "thin_weight_gradient"
            operands = (at.weight, at.inputs, at.outputs, panels, steps, x.shape[0])
            rows.append(instruction(operation, [x.view, dy.view], *operands))
            if self.steps_weights == BY_LOOP:
                rows.append(self._update(at.weight, at.weight + at.inputs, at.outputs))
        else:
            if dx is not None:
                weights = self._transposed(at, prepare)
                views = [dy.samples_as_pixels(), dx.samples_as_pixels(), x.samples_as_pixels()]
                finish, panels = (MASK if mask else STORE), at.inputs // WIDTH
                rows.append(
                    instruction(product(panels), views, 1, 1, 1, 1, PACKED, weights, -1, finish, panels, panels > 1)
                )
            views = [x.samples_as_pixels(), dy.samples_as_pixels()]
            tiles, panels = -(-at.inputs // ROWS), at.outputs // WIDTH
            # whoever multiplies by weights also steps them, so that they stay in its cache
            by_panel = self._by_panel(panels)
            if self.steps_weights == BY_LOOP:
                rows.append(instruction("weight_step", views, at.weight, tiles, panels, by_panel, self._asks(node)))
            else:
                rows.append(
                    instruction(
                        "weight_gradient",
                        views,
                        1,
                        1,
                        1,
                        1,
                        at.weight,
                        tiles,
                        panels,
                        by_panel,
                        steps,
                        self._asks(node),
                    )
                )
        rows.append(instruction("bias_gradient", [dy.samples_as_pixels()], 1, at.bias, padded(at.outputs)))
        if self.steps_weights != APART:
            rows.append(self._update(at.bias, at.stop))
            self.stepped[node.index] = at.weight, at.stop
        return rows

    def _asks(self, node: Node) -> int:
        """Which samples of the next step a wide layer's weight gradient prefetches: those that the thread gathers, if
        the layer is the net's first.
        """
        if node.x != self.enter or self.steps_weights == APART:
            return NOTHING
        return ALL if self.values[node.x].apart else OWN

    def _by_panel(self, panels: int) -> bool:
        """Whether threads divide a Linear layer's gradients by panels: where all have equally many, and a tile's
        columns or more.
        """
        return panels % self.threads == 0 and panels >= TOGETHER * self.threads

    def _backward_conv(
        self,
        node: Node,
        at: Stored,
        x: Tensor,
        dx: Tensor | None,
        dy: Tensor,
        mask: bool,
        prepare: list[Row],
        collect: list[Row],
    ) -> list[Row]:
        layer = node.layer
        assert isinstance(layer, Conv2d)
        rows = []
        size = layer.kernel_size
        if node.folded:
            return self._backward_folded(node, at, x, dx, dy, mask, prepare, collect)
        if dx is not None:
            weights = self._transposed(at, prepare)
            # dx[i] = sum over k of w[k] dy[(i + padding - k) / stride], on gradients `stride` apart
            pixel, row = dy.view.pixel // layer.stride, dy.view.row // layer.stride
            back = layer.padding - (size - 1)
            view = View(dy.view.offset + back * (row + pixel), dy.view.sample, row, pixel, 0, 0, dy.view.channels)
            finish, panels = (MASK if mask else STORE), at.inputs // WIDTH
            rows += convolutions(
                [view, dx.view, x.view], size, 1, (PACKED, weights, -1), finish, panels, -back, dy.view
            )
        tiles = -(-size * size * at.inputs // ROWS)
        view = x.view.moved(-layer.padding)
        if stretched_gradient(size, layer.stride, at.outputs) and not self.together:
            return [*rows, instruction("stretched_gradient", [view, dy.view], at.weight, at.bias)]
        rows.append(
            instruction(
                "weight_gradient",
                [view, dy.view],
                0,
                size,
                size,
                layer.stride,
                at.weight,
                tiles,
                at.outputs // WIDTH,
                0,
                0,
            )
        )
        rows.append(instruction("bias_gradient", [dy.view], 0, at.bias, at.outputs))
        return rows

    def _backward_folded(
        self,
        node: Node,
        at: Stored,
        x: Tensor,
        dx: Tensor | None,
        dy: Tensor,
        mask: bool,
        prepare: list[Row],
        collect: list[Row],
    ) -> list[Row]:
        rows = []
        set_size = 4 * at.inputs * at.outputs
        if dx is not None:
            weights = self._pack(16 * at.inputs * at.outputs)
            blocks = 16 * at.inputs // WIDTH * at.outputs // WIDTH
            prepare.append(
                instruction("transpose_folded", [], self._folded_at[node.index], at.inputs, at.outputs, weights, blocks)
            )
            finish, panels = (MASK if mask else STORE), at.inputs // WIDTH
            rows.append(
                instruction(
                    "convolve", [dy.view.moved(-1), dx.view, x.view], 0, 4, 4, 2, PACKED, weights, -1, finish, panels, 0
                )
            )
        gradient = self.gradients
        self.gradients += 4 * set_size
        for parity in range(4):
            p, q = divmod(parity, 2)
            views = [x.view.moved(p - 1, q - 1), dy.view.every_second(p, q)]
            tiles = -(-4 * at.inputs // ROWS)
            rows.append(
                instruction(
                    "weight_gradient", views, 0, 2, 2, 1, gradient + parity * set_size, tiles, at.outputs // WIDTH, 0, 0
                )
            )
        rows.append(instruction("bias_gradient", [dy.view], 0, at.bias, at.outputs))
        collect.append(instruction("unfold_gradients", [], gradient, at.inputs, at.outputs // WIDTH, at.weight))
        return rows

    def _transposed(self, at: Stored, prepare: list[Row]) -> int:
        """Where the weights of a layer's input gradient are put at the start of every step."""
        size = at.taps * at.taps * at.inputs * at.outputs
        target = self._pack(size)
        prepare.append(
            instruction(
                "transpose", [], at.weight, at.taps, at.taps, at.inputs, at.outputs, target, size // (WIDTH * WIDTH)
            )
        )
        return target

    def _pack(self, floats: int) -> int:
        self.packed += floats
        return self.packed - floats

    def _update(self, first: int, last: int, lines: int = 1) -> Row:
        """Step the weights from `first` to before `last`, and those of as many lines behind each other."""
        return instruction(self.update, [], first, last, lines)

    def _updates(self) -> list[Row]:
        """The update of everything that is not stepped with its gradient."""
        rows, start = [], 0
        for first, last in [*sorted(self.stepped.values()), (self.layout.count, self.layout.count)]:
            if first > start:
                rows.append(self._update(start, first))
            start = last
        return rows
