"""`GraphedTrainer`: the launches of many steps in one CUDA graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from ..checkpoint.plan import NetPlan
from ..config import TrainConfig
from ..data.order import Order
from ..device import Call, Device, Graph, KernelSource
from ..device.dry_run import RecordingDevice
from ..device.timing import ROUNDS, clocked
from ..nets import Flatten, Net
from ..ops.engine.segments import KernelTable
from .base import State, StepLog, check_range, in_a_row
from .kernelwise.chain import Chain, Stage
from .kernelwise.feeds import Feed, ResidentFeed
from .kernelwise.trainer import KernelTrainer
from .streams import USING, Interleaved, Overlapped
from .tuning.below import division_key, fastest_division, store_division, stored_division
from .tuning.tuner import tune

if TYPE_CHECKING:
    from ..data.dataset import Dataset

#: Samples of a step's batch, and True if its loss is computed.
Kind = tuple[int, bool]

#: Steps in a row whose time decides which layers the rung below computes.
TIMED = 32

#: Launches in a graph at most: building one takes some microseconds for each, and the first epoch pays for it.
NODES = 4096


class GraphedTrainer(KernelTrainer):
    """Trainer by CUDA graphs of 1, 2, 4, 8 ... steps, which make up any range: the device counts the resident feed's
    steps. A partial last batch, and a step without a loss, are of another `Kind` and have graphs of their own.

    Its arguments are those of `KernelTrainer`, without a feed.
    """

    def __init__(
        self, net: Net, config: TrainConfig, state: State, device: Device, table: KernelTable,
        block_size: int | None = None, precision: str = "fp32",
    ) -> None:  # fmt: skip
        super().__init__(net, config, state, device, table, "resident", block_size, precision)
        #: Numbers of the layers that compute something.
        self.computing = frozenset(n for n, layer in enumerate(net.layers) if not isinstance(layer, Flatten))
        #: Key in the plan cache of the division of the data set that is loaded; None before the first one.
        self.divided: str | None = None

    def _forget(self) -> None:
        """Delete a data set's graphs and, by kind of step, their calls or stages and the longest graph's steps."""
        self.graphs: dict[tuple[Kind, int], Graph] = {}
        self.steps: dict[Kind, tuple[list[Call], list[Call], list[Stage]]] = {}
        self.most: dict[Kind, int] = {}

    def on_device(self, device: Device) -> GraphedTrainer:
        start = State(np.zeros(self.net.param_count, np.float32))
        found = GraphedTrainer(self.net, self.config, start, device, self.table, self.block_size, self.precision)
        found.below = self.below
        return found

    def kernels_of_training(self, dataset: Dataset) -> list[tuple[Path | KernelSource, str]]:
        known = self._known_division(dataset)
        found: dict[tuple[Path | KernelSource, str], None] = {}
        for below in (self.computing, frozenset[int]()) if known is None else (known,):
            self.below = below
            found |= dict.fromkeys(super().kernels_of_training(dataset))
        return list(found)

    def _load(self, dataset: Dataset) -> None:
        hardware, stored, known = self.device.hardware, self.tuned, self._known_division(dataset)
        key = self._division_key(dataset)
        if isinstance(self.device, RecordingDevice):
            known = self.below
        if known is None:
            known = self._divide(dataset, stored)
            store_division(self.device, key, known)
        else:
            self._bind(dataset, known, stored)
        self.divided = key
        self.remark, self.idea = self._described(known)
        if self.table.below is not None and hardware is not None:
            self.tuned = replace(self.tuned or NetPlan(hardware, (), ()), below=tuple(sorted(known)))

    def _described(self, below: frozenset[int]) -> tuple[str, str]:
        """Remark on the layers on the rung below, and the idea of a step that has all of them there."""
        if not below:
            return "", ""
        if below == self.computing:
            return "the kernels of the rung below compute all layers, faster than its own", (
                "the kernels of the rung below for all layers, which compute this net faster than tensor cores do"
            )
        net = self.net
        layers = [str(n) for n in sorted(below) if net.layers[n].param_shapes(net.shapes[n])]
        some = f"layer{'s' * (len(layers) > 1)} {', '.join(layers)}"
        return f"the kernels of the rung below compute {some}, faster than its own", ""

    def peak(self) -> float | None:
        peaks, below = self.device.limits.peaks, self.table.below
        if below is None or self.below != self.computing:
            return super().peak()
        return None if peaks is None else peaks.of("fp32", below.unit)

    def _known_division(self, dataset: Dataset) -> frozenset[int] | None:
        """Layers on the rung below by the resumed run's plan or the plan cache; None if they have to be timed.

        A data set of another batch or type has a division of its own, the same in every trainer of this process.
        """
        if self.table.below is None or self.device.hardware is None:
            return frozenset()
        key, plan = self._division_key(dataset), self.tuned
        if plan is not None and plan.hardware == self.device.hardware and self.divided in (None, key):
            return frozenset(plan.below)
        return stored_division(self.device, key)

    def _division_key(self, dataset: Dataset) -> str:
        """Key of the division in the plan cache."""
        optimizer, dtype = type(self.config.optimizer).__name__, dataset.train_x.dtype.str
        settings = self.config.batch(len(dataset.train_x)), optimizer, dtype, self.precision, self.block_size
        return division_key(str(self.device.hardware), self.net.layers, self.net.in_shape, self.net.loss, *settings)

    def _bind(self, dataset: Dataset, below: frozenset[int], stored: NetPlan | None) -> Chain:
        """Bind and tune the chain, with these layers on the rung below; stored : plan of the resumed run."""
        self.below = below
        super()._load(dataset)
        start = perf_counter()
        assert self.chain is not None
        running = None if self.buffers is None else self.buffers.download()
        self.tuned = tune(self.chain, self.table, below, stored, self.say)
        if self.buffers is not None and running is not None:
            self.buffers.upload(running)
        self.seconds["tune"] = perf_counter() - start
        return self.chain

    def _divide(self, dataset: Dataset, stored: NetPlan | None) -> frozenset[int]:
        """Bind the fastest division of the layers between this rung and the one below; the state stays as it is."""
        state = self.state()

        def bind(below: frozenset[int]) -> Chain:
            return self._bind(dataset, below, stored)

        try:
            found = fastest_division(self.computing, bind, self._step_seconds)
            if self.below != found or self.chain is None:
                bind(found)
        finally:
            self.set_state(state)
        return found

    def _step_seconds(self) -> float:
        """Seconds of a training step on the device, the minimum of several measurements. Updates the parameters."""
        assert isinstance(self.feed, ResidentFeed)
        full = self.samples // self.batch
        kind, order = (self._size(0), self.config.has_loss(0)), Order(0, 0, self.samples)
        count = self._steps(kind, max(1, min(full, TIMED)))
        self.feed.begin(order, 0, count)
        self._upload_epoch(order)
        self._upload_settings(0, count)
        graph = self._graph(kind, count)
        seconds = []
        for _ in range(1 + ROUNDS):
            self.rewind()
            seconds.append(clocked(self.device, graph) / count)
        self.rewind()
        return min(seconds[1:])

    def _queue(self, feed: Feed, first: int, last: int, has_loss: bool) -> None:
        assert isinstance(feed, ResidentFeed)
        full = min(last, self.samples // self.batch)
        self._send((self.batch, has_loss), full - first)
        if last > full:
            self._send((self._size(full), has_loss), 1)

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        if self.chain is None or self.chain.reads_order or self.epoch > 1:
            return super().run_epochs(orders)
        # A step on all samples that reads no order is the same in every epoch; the log has many entries, and is read
        # once.
        for order in orders:
            check_range(self.config, order, self.samples, 0, 1)
        logs: list[StepLog] = []
        for has_loss, left in in_a_row(self.config, orders):
            while left:
                count = min(self.log.loss.size, left)
                if self.running:
                    self.rewind()
                self._upload_settings(0, count)
                self._send((self.batch, has_loss), count)
                logs += self._finished(0, np.full(count, self.batch), has_loss).by_step()
                left -= count
        return logs

    def _send(self, kind: Kind, count: int) -> None:
        """Queue `count` steps of one kind, in graphs as long as possible."""
        while count > 0:
            steps = self._steps(kind, count)
            self._graph(kind, steps).send()
            count -= steps

    def _steps(self, kind: Kind, alike: int) -> int:
        """Number of steps of the next graph: the largest power of two up to the steps left and up to NODES nodes."""
        if kind not in self.most:
            self.most[kind] = max(1, NODES // max(1, sum(len(self.program(part)) for part in self._slices(*kind))))
        return 1 << (min(alike, self.most[kind]).bit_length() - 1)

    def _graph(self, kind: Kind, count: int) -> Graph:
        found = self.graphs.get((kind, count))
        if found is None:
            if kind not in self.steps:
                parts = self._slices(*kind)
                first, later = ([self.stages(part, repeated) for part in parts] for repeated in (False, True))
                table = self.table.below if self.below == self.computing else self.table
                interleaves = table is not None and table.interleaves_steps
                interleaving = [stage for stages in later for stage in stages] if interleaves else []
                self.steps[kind] = (
                    self._overlapped(first),
                    [] if interleaving else self._overlapped(later),
                    interleaving,
                )
            calls, others, interleaving = self.steps[kind]
            calls = calls + others * (count - 1)
            if interleaving and count > 1:
                calls.append(Interleaved(self.device, interleaving, count - 1))
            found = self.graphs[kind, count] = self.device.graph(calls)
        return found

    def _overlapped(self, parts: list[list[Stage]]) -> list[Call]:
        """Calls of a step's slices in sequence; those that use gradients follow all launches that compute them."""
        out: list[Call] = []
        for stages in parts:
            using = [call for stage in stages if stage.phase in USING for call in stage.launches]
            out += [Overlapped(self.device, [stage for stage in stages if stage.phase not in USING]), *using]
        return out

    def _release(self) -> None:
        self._forget()
        super()._release()
