"""`GraphedTrainer`: the launches of many steps, sent by one call."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from ..config import TrainConfig
from ..device import Call, Device, Graph, Stream
from ..errors import ConfigError
from ..nets import Net
from ..ops.kernels import KernelTable
from .base import State
from .kernelwise.feeds import Feed, ResidentFeed, Slice
from .kernelwise.trainer import KernelTrainer
from .tuner import tune

if TYPE_CHECKING:
    from ..data.dataset import Dataset

#: Launches in a graph at most: building one takes some microseconds for each, and the first epoch pays for it.
NODES = 4096


class Overlapped(Call):
    """Calls in order, but for those that may run aside: they go to a second stream, which is waited for at the end.

    A weight's gradient is needed by nobody but the update, and one layer's alone seldom fills a GPU.
    """

    name = "overlapped calls"

    def __init__(self, device: Device, calls: list[Call]) -> None:
        self.device, self.calls = device, calls
        self.side = device.new_stream()

    def send(self, stream: Stream | None = None) -> None:
        main = stream or self.device.stream
        for call in self.calls:
            if call.aside:
                self.side.wait(main.record())
            call.send(self.side if call.aside else main)
        if any(call.aside for call in self.calls):
            main.wait(self.side.record())


class GraphedTrainer(KernelTrainer):
    """Steps of the resident feed are all alike, because the device counts them itself; so graphs of 1, 2, 4, 8 ... steps make up any range.

    Parameters
    ----------
    net, config, state, device, table, block_size
        As `KernelTrainer`. A feed other than the resident one cannot be replayed and is refused.
    """

    def __init__(self, net: Net, config: TrainConfig, state: State, device: Device, table: KernelTable, block_size: int = 256) -> None:
        if config.feed not in (None, "resident"):
            raise ConfigError(f"a graph replays steps whose samples are on the device: feed wants 'resident', got {config.feed!r}")
        super().__init__(net, config, state, device, table, "resident", block_size)
        self.graphs: dict[tuple[int, int], Graph] = {}

    def load(self, dataset: Dataset) -> None:
        self.graphs = {}
        super().load(dataset)
        start = perf_counter()
        assert self.network is not None
        own = 0 if self.whole is not None else len(self.network.ops) - (self.head is not None)  # ops that compute by themselves
        self.tuned = tune(self.network, range(own), self.table.rivals, self.tuned, self.say)
        self.seconds["tune"] = perf_counter() - start

    def _queue(self, feed: Feed, first: int, last: int) -> None:
        assert isinstance(feed, ResidentFeed)
        step = first
        while step < last:
            size = self._size(step)
            alike = min(last, self.samples // self.batch) - step if size == self.batch else 1
            count = self._steps(size, alike)
            self._graph(size, count).send()
            step += count

    def _steps(self, size: int, alike: int) -> int:
        """The largest power of two of steps that are left and that a graph should hold."""
        most = max(1, NODES // max(1, sum(len(self.program(part)) for part in self._slices(size))))
        return 1 << (min(alike, most).bit_length() - 1)

    def _graph(self, size: int, count: int) -> Graph:
        found = self.graphs.get((size, count))
        if found is None:
            step = [call for part in self._slices(size) for call in self._overlapped(part)]
            found = self.graphs[size, count] = self.device.graph(step * count)
        return found

    def _overlapped(self, part: Slice) -> list[Call]:
        """The calls of a slice; where gradients are used, all have been computed."""
        calls = self.program(part)
        using = sum(len(stage.launches) for stage in self.stages(part) if stage.phase in ("sum", "update"))
        end = len(calls) - using
        return [Overlapped(self.device, calls[:end]), *calls[end:]]

    def close(self) -> None:
        self.graphs = {}
        super().close()
