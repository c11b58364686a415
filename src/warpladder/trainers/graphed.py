"""`GraphedTrainer`: the launches of many steps in one CUDA graph."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from ..config import TrainConfig
from ..data.order import Order
from ..device import Call, Device, Graph
from ..nets import Net
from ..ops.engine.segments import KernelTable
from .base import State, StepLog, check_range, in_a_row
from .kernelwise.chain import Stage
from .kernelwise.feeds import Feed, ResidentFeed
from .kernelwise.trainer import KernelTrainer
from .streams import USING, Interleaved, Overlapped
from .tuning.tuner import tune

if TYPE_CHECKING:
    from ..data.dataset import Dataset

#: Samples of a step's batch, and True if its loss is computed.
Kind = tuple[int, bool]

#: Launches in a graph at most: building one takes some microseconds for each, and the first epoch pays for it.
NODES = 4096


class GraphedTrainer(KernelTrainer):
    """Trainer by CUDA graphs of 1, 2, 4, 8 ... steps, which make up any range: the device counts the resident feed's
    steps.

    Its arguments are those of `KernelTrainer`, without a feed.
    """

    def __init__(
        self, net: Net, config: TrainConfig, state: State, device: Device, table: KernelTable,
        block_size: int | None = None, precision: str = "fp32",
    ) -> None:  # fmt: skip
        super().__init__(net, config, state, device, table, "resident", block_size, precision)

    def _forget(self) -> None:
        """Delete a data set's graphs and, by kind of step, their calls or stages and the longest graph's steps."""
        self.graphs: dict[tuple[Kind, int], Graph] = {}
        self.steps: dict[Kind, tuple[list[Call], list[Call], list[Stage]]] = {}
        self.most: dict[Kind, int] = {}

    def on_device(self, device: Device) -> GraphedTrainer:
        start = State(np.zeros(self.net.param_count, np.float32))
        return GraphedTrainer(self.net, self.config, start, device, self.table, self.block_size, self.precision)

    def _load(self, dataset: Dataset) -> None:
        super()._load(dataset)
        start = perf_counter()
        assert self.chain is not None
        self.tuned = tune(self.chain, self.table.alternatives, self.tuned, self.say)
        self.seconds["tune"] = perf_counter() - start

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
                interleaving = [stage for stages in later for stage in stages] if self.table.interleaves_steps else []
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
