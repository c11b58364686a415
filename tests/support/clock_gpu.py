"""Programs for the clock on an emulated GPU: forms of cheats, and of honest programs, that only a device's queue, memory,
graphs and kernels have. Each wraps the kernels of the rung naive; `on_gpu` does so with any other program.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import numpy as np
from clock_programs import LONG, Program

from warpladder.device.base import CallSequence
from warpladder.device.emulator import EmulatedDevice
from warpladder.device.limits import LaunchConfig, check, dim3
from warpladder.ops.tables.naive import TABLE
from warpladder.trainers.base import StepLog
from warpladder.trainers.graphed import GraphedTrainer
from warpladder.trainers.kernelwise.trainer import KernelTrainer

BLOCK = 32  # threads of a block: few, for a small net


class GpuProgram(Program):
    """The rung naive in a program's place of the rung numpy. kind : its trainer; feed : how samples come to the device."""

    kind: type[KernelTrainer] = KernelTrainer
    feed = "resident"

    def __init__(self, net, config, state):
        super().__init__(net, config, state)
        self.inner = self.kind(net, config, state, self.device(), TABLE, self.feed, BLOCK)

    def device(self) -> EmulatedDevice:
        return EmulatedDevice()


@cache
def on_gpu(program: type[Program]) -> type[Program]:
    """A program whose rung is naive's kernels."""
    return type(f"{program.__name__}OnGpu", (program,), {"steps": 0, "__init__": _wrapped(program)})


def _wrapped(program: type[Program]) -> Any:
    def start(self: Any, net: Any, config: Any, state: Any) -> None:
        program.__init__(self, net, config, state)
        self.inner = KernelTrainer(net, config, state, EmulatedDevice(), TABLE, "resident", BLOCK)

    return start


class Whole(GpuProgram):
    """Hands whole ranges of steps to its trainer, which counts them."""

    def run(self, order, first, last):
        type(self).steps += last - first
        return self.inner.run(order, first, last)


# Cheats


class SideStream(KernelTrainer):
    """Queues its work where nothing waits for it: it is done when the state is read."""

    def _queue(self, feed, first, last, has_loss):
        self.waiting = [*getattr(self, "waiting", ()), (feed, first, last, has_loss)]

    def state(self):
        waiting, self.waiting = getattr(self, "waiting", ()), []
        for work in waiting:
            super()._queue(*work)
        return super().state()


class OtherThread(KernelTrainer):
    """Queues its work in a thread for which it does not wait."""

    def _queue(self, *work):
        self.thread = threading.Timer(0.002, super()._queue, work)
        self.thread.start()

    def load(self, dataset):
        self.close()
        super().load(dataset)

    def close(self):
        if hasattr(self, "thread"):
            self.thread.join()


class EmptyGraph(KernelTrainer):
    """Sends a graph without its work after the first steps of a long call: the log is what lies in memory."""

    def _queue(self, feed, first, last, has_loss):
        super()._queue(feed, first, min(last, first + LONG), has_loss)


class StaleBuffers(KernelTrainer):
    """Trains every other step of a long call on the samples that are on the device from the step before."""

    copies = "sync"  # samples come step by step

    def _queue(self, feed, first, last, has_loss):
        for step in range(first, last):
            if last - first > LONG and (step - first) % 2:
                for call in self.program(self._slices(self._size(step), has_loss)[0]):
                    call.send()
                feed.after(step, has_loss)
            else:
                super()._queue(feed, step, step + 1, has_loss)


class LeavesUpdatesOut(KernelTrainer):
    """Leaves the last launch of a step, an update, out of every third step of a long call."""

    def _queue(self, feed, first, last, has_loss):
        for step in range(first, last):
            before = self.params.download()
            super()._queue(feed, step, step + 1, has_loss)
            if last - first > LONG and step % 3 == 2:
                self.params.upload(before)


class LosesThePartialBatch(KernelTrainer):
    """Leaves the partial batch out where it is the last step of a long call."""

    def _queue(self, feed, first, last, has_loss):
        is_partial = last - first > LONG and self._size(last - 1) < self.batch
        super()._queue(feed, first, last - is_partial, has_loss)


class LowPrecision(KernelTrainer):
    """Holds its weights in fewer bits within long calls: `bits` of 24."""

    bits = 11

    def _queue(self, feed, first, last, has_loss):
        super()._queue(feed, first, last, has_loss)
        if last - first > LONG:
            fraction, exponent = np.frexp(self.params.download())
            self.params.upload(np.ldexp(np.round(fraction * 2**self.bits) / 2**self.bits, exponent).astype(np.float32))


class NearlyFullPrecision(LowPrecision):
    bits = 20


class OldLog(KernelTrainer):
    """Gives the losses of an earlier call of the same steps, and copies none from the device."""

    def _finished(self, first, size, has_loss):
        log = super()._finished(first, size, has_loss)
        self.logs = getattr(self, "logs", {})
        return self.logs.setdefault((first, len(size)), log)


class LogWhileItRuns(KernelTrainer):
    """Copies the losses before the work that computes them."""

    def run(self, order, first, last):
        early = np.array(self.epoch_log.read(first, last)[0]) if self.epoch_log is not None else None
        log = super().run(order, first, last)
        return log if early is None or last - first <= LONG else StepLog(early, log.correct, log.size)


class KnowsAddresses(KernelTrainer):
    """Takes a state at an address that it has seen for the state that was there."""

    def set_state(self, state):
        self.seen = getattr(self, "seen", {})
        super().set_state(self.seen.setdefault(state.params.ctypes.data, state.copied()))


class KnowsContents(KernelTrainer):
    """Leaves steps out whose first sample it knows from steps of this order before, in late epochs."""

    def run(self, order, first, last):
        if order.epoch < 2 or last - first <= LONG:
            return super().run(order, first, last)
        half = first + (last - first) // 2
        log = super().run(order, first, half)
        kept = self.state()
        rest = super().run(order, half, last)
        self.set_state(kept.but(step=kept.step + last - half))
        return StepLog.joined([log, rest])


class TooMuchSharedMemory(KernelTrainer):
    """Launches kernels with more shared memory than a block may have, which a device refuses."""

    def program(self, part):
        found = super().program(part)
        first: Any = found[0]
        config = LaunchConfig(dim3(1), dim3(BLOCK), 1 << 20, False, dim3(1))
        check(first.name, config, self.device.limits, first.kernel.resources)
        return found


class SamplesOnce(KernelTrainer):
    """Copies each step's samples once, in the first epoch's order, and takes them again in later epochs."""

    def run(self, order, first, last):
        self.first = getattr(self, "first", order) if last - first > LONG else order
        return super().run(self.first if self.first.n == order.n else order, first, last)


CHEATING = (
    SideStream, OtherThread, EmptyGraph, StaleBuffers, LeavesUpdatesOut, LosesThePartialBatch, LowPrecision,
    NearlyFullPrecision, OldLog, LogWhileItRuns, KnowsAddresses, KnowsContents, TooMuchSharedMemory, SamplesOnce,
)  # fmt: skip

# Honest programs


class Synchronous(Whole):
    feed = "sync"


class PinnedAndStreamed(Whole):
    """Copies samples from page-locked buffers on a stream of their own."""

    feed = "streamed"


class InGraphs(Whole):
    def __init__(self, net, config, state):
        super().__init__(net, config, state)
        self.inner = GraphedTrainer(net, config, state, self.device(), TABLE, BLOCK)


class ManyStreams(KernelTrainer):
    """Has streams of its own for its work, which wait for each other by events."""

    def _queue(self, feed, first, last, has_loss):
        streams = [self.device.new_stream() for _ in range(2)]
        for step in range(first, last):
            streams[step % 2].wait(streams[(step + 1) % 2].record())
            super()._queue(feed, step, step + 1, has_loss)
        for stream in streams:
            stream.synchronize()


class OwnGraph(KernelTrainer):
    """Queues the launches of a step as one graph."""

    def program(self, part):
        known: Any = self.programs.get(part)
        if known is None:
            one: Any = AsOne(super().program(part))
            known = self.programs[part] = [one]
        return known


class AsOne(CallSequence):
    """A graph in a call's place."""

    name, touches = "graph", None


class CompilesAtFirstCall(Whole):
    """Makes its trainer, and with it its kernels, when the first state or data set comes."""

    def load(self, dataset):
        state = self.inner.state()
        self.inner = self.kind(self.net, self.config, state, self.device(), TABLE, self.feed, BLOCK)
        super().load(dataset)


class AsksFromAThread(Whole):
    """Queues all work in a thread of its own, and waits for it."""

    def run(self, order, first, last):
        found = []
        thread = threading.Thread(target=lambda: found.append(super(AsksFromAThread, self).run(order, first, last)))
        thread.start()
        thread.join()
        return found[0]


class PinnedState(Whole):
    """Copies its state through a page-locked buffer."""

    def state(self):
        out = super().state()
        host: Any = EmulatedDevice().pinned(out.params.shape)
        host[...] = out.params
        return out.but(params=host.copy())


class TakesStatesLate(Whole):
    """Copies a new state to the device with the next steps, on the clock."""

    late: Any = None

    def set_state(self, state):
        self.late = state.copied()

    def settled(self):
        if self.late is not None:
            self.inner.set_state(self.late)
            self.late = None
        return self.inner

    def run(self, order, first, last):
        self.settled()
        return super().run(order, first, last)

    def state(self):
        return self.settled().state()

    def predict(self, x, scale):
        return self.settled().predict(x, scale)


class InTwoCalls(Whole):
    """Queues a range of steps in two parts, each with its own copy of the losses."""

    def run(self, order, first, last):
        half = (first + last) // 2
        return StepLog.joined([super(InTwoCalls, self).run(order, *each) for each in ((first, half), (half, last))])


def _of(kind: type[KernelTrainer]) -> type[Program]:
    return type(kind.__name__, (Whole,), {"kind": kind, "feed": getattr(kind, "copies", Whole.feed), "steps": 0})


GPU_CHEATS = tuple(_of(kind) for kind in CHEATING)
GPU_HONEST: tuple[type[Program], ...] = (
    Whole, Synchronous, PinnedAndStreamed, InGraphs, _of(ManyStreams), _of(OwnGraph), CompilesAtFirstCall,
    AsksFromAThread, PinnedState, TakesStatesLate, InTwoCalls,
)  # fmt: skip
