"""Programs for the clock: cheats, and honest ones that look odd. Each wraps the numpy rung."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from warpladder.ladder import find
from warpladder.trainers.base import State, StepLog, Trainer

NUMPY = find("numpy")
LONG = 3  # steps of the longest calls in a proof


class Program(Trainer):
    """The honest rung, step by step. `steps` counts what all programs of a class have really trained."""

    steps: ClassVar[int] = 0
    precision = "fp32"

    def __init__(self, net, config, state):
        self.net, self.config = net, config
        self.inner = NUMPY.build(net, config, state)

    def load(self, dataset):
        self.dataset = dataset
        self.inner.load(dataset)

    def step(self, order, step):
        type(self).steps += 1
        return self.inner.run(order, step, step + 1)

    def run(self, order, first, last):
        return StepLog.joined([self.step(order, step) for step in range(first, last)])

    def state(self):
        return self.inner.state()

    def set_state(self, state):
        self.inner.set_state(state)

    def predict(self, x, scale):
        return self.inner.predict(x, scale)


def whole(config, order) -> int:
    return config.steps(order.n)


# Cheats: work after the clock


class LazyLog(Program):
    """Losses are computed when the log is read."""

    def run(self, order, first, last):
        program = self

        class Log:
            has_loss = True

            def __getattr__(self, name):
                self.__dict__.update(vars(Program.run(program, order, first, last)))
                return self.__dict__[name]

        return Log()


class LazyState(Program):
    """Weights are computed when the state is read; the log is that of a forward pass, made up."""

    queue: Any = ()

    def run(self, order, first, last):
        self.queue = [*self.queue, (order, first, last)]
        n = last - first
        batch = self.config.batch(order.n)
        size = np.array([min(batch, order.n - s * batch) for s in range(first, last)], np.int64)
        return StepLog(np.ones(n), np.zeros(n, np.int64), size)

    def state(self):
        queue, self.queue = self.queue, ()
        for call in queue:
            super().run(*call)
        return super().state()


class FinishesLater(Program):
    """Returns at once: a thread trains, and the state is what there is."""

    thread: Any = None

    def run(self, order, first, last):
        batch = self.config.batch(order.n)
        size = np.array([min(batch, order.n - s * batch) for s in range(first, last)], np.int64)
        self.thread = threading.Thread(target=self._later, args=(order, first, last))
        self.thread.start()
        return StepLog(np.ones(len(size)), np.zeros(len(size), np.int64), size)

    def _later(self, *call):
        time.sleep(0.001)
        super().run(*call)


# Cheats: work before the clock


class Ahead(Program):
    """Trains the epochs of the settings' seed ahead of time, and looks results up while the clock runs."""

    def __init__(self, net, config, state):
        super().__init__(net, config, state)
        self.memo: dict[Any, Any] = {}
        self.epoch = 0

    def ahead(self, epochs=2):
        """Train the next epochs from the present state, which stays as it is."""
        before = self.inner.state().copied()
        for _ in range(epochs):
            order = self.order(self.epoch)
            key = self.key(order, 0, whole(self.config, order))
            log = self.inner.run(order, 0, whole(self.config, order))
            self.memo[key] = log, self.inner.state().copied()
            self.epoch += 1
        self.inner.set_state(before)

    def order(self, epoch):
        from warpladder.data.order import Order

        return Order(self.config.seed, epoch, len(self.dataset.train_x), self.config.shuffle)

    def key(self, order, first, last):
        return order, first, last, self.inner.state().params.tobytes()

    def run(self, order, first, last):
        hit = self.memo.get(self.key(order, first, last))
        if hit is None:
            return super().run(order, first, last)
        self.inner.set_state(hit[1].copied())
        return hit[0]


class InLoad(Ahead):
    def load(self, dataset):
        super().load(dataset)
        self.ahead(4)


class InSetState(Ahead):
    def set_state(self, state):
        super().set_state(state)
        self.ahead()


class InState(Ahead):
    def state(self):
        self.ahead()
        return super().state()


class InFlops(Ahead):
    def flops(self):
        self.ahead(4)
        return super().flops()


class BetweenTurns(Ahead):
    """A thread trains ahead while others are timed."""

    def state(self):
        out = super().state()
        thread = threading.Thread(target=self.ahead)
        thread.start()
        thread.join()
        return out


class FullBatchAhead(Ahead):
    """Orders do not matter for a full batch: keys leave them out."""

    def key(self, order, first, last):
        return first, last, self.inner.state().params.tobytes()

    def set_state(self, state):
        super().set_state(state)
        self.ahead()


# Cheats: another algorithm where calls are long


class Longer(Program):
    """Honest in short calls; `drop` names the steps that it leaves out of long ones."""

    def drop(self, step):
        return step % 2 == 1

    def run(self, order, first, last):
        if last - first <= LONG:
            return super().run(order, first, last)
        logs = []
        for step in range(first, last):
            before = self.inner.state().copied() if self.drop(step) else None
            logs.append(self.step(order, step))
            if before is not None:
                self.inner.set_state(before.but(step=before.step + 1))
        return StepLog.joined(logs)


class OneStepAnEpoch(Longer):
    def drop(self, step):
        return step > 0


class OneStepInThree(Longer):
    def drop(self, step):
        return step == 3


class LastStepOnly(Longer):
    def drop(self, step):
        return step == 6


class HalfPrecision(Longer):
    """Rounds its weights to half precision in long calls."""

    def run(self, order, first, last):
        log = Program.run(self, order, first, last)
        if last - first > LONG:
            state = self.inner.state()
            self.inner.set_state(state.but(params=state.params.astype(np.float16).astype(np.float32)))
        return log


class OneOrderInLongCalls(Program):
    """Trains the first order again in calls of more than two epochs."""

    def run_epochs(self, orders):
        if len(orders) <= 2:
            return super().run_epochs(orders)
        return [self.run(orders[0], 0, whole(self.config, order)) for order in orders]


class SkipsEpochs(Program):
    """Trains every other epoch in calls of more than two, and reports the log of the one before."""

    def run_epochs(self, orders):
        logs: list[StepLog] = []
        for number, order in enumerate(orders):
            if len(orders) > 2 and number % 2:
                logs.append(logs[-1])
            else:
                logs.append(self.run(order, 0, whole(self.config, order)))
        return logs


class StaleLogs(Program):
    """Reports the losses of an earlier call of the same range."""

    def __init__(self, net, config, state):
        super().__init__(net, config, state)
        self.logs: dict[Any, StepLog] = {}

    def run(self, order, first, last):
        log = super().run(order, first, last)
        return self.logs.setdefault((first, last), log)


class OneLogBuffer(Program):
    """All logs are views of one array, which the next call overwrites."""

    def run(self, order, first, last):
        log = super().run(order, first, last)
        self.losses = getattr(self, "losses", np.zeros(4096))
        self.losses[: last - first] = log.loss
        return StepLog(self.losses[: last - first], log.correct, log.size)


class ByAddress(Program):
    """Takes a state at an address that it has seen for the state that was there."""

    seen: ClassVar[dict[int, State]] = {}

    def set_state(self, state):
        self.inner.set_state(self.seen.setdefault(state.params.ctypes.data, state.copied()))


# Cheats: right in proofs, wrong wherever they see that it is no proof


class WrongWhere(Program):
    """Leaves the update of a step out if `seen` holds; its log is that of a real step."""

    def seen(self, order, step) -> bool:
        return False

    def run(self, order, first, last):
        logs = []
        for step in range(first, last):
            before = self.inner.state().copied() if self.seen(order, step) else None
            logs.append(self.step(order, step))
            if before is not None:
                self.inner.set_state(before.but(step=before.step + 1))
        return StepLog.joined(logs)


class WhereSeedIsNew(WrongWhere):
    def seen(self, order, step):
        return order.seed != self.config.seed


class WhereDataAreThose(WrongWhere):
    def seen(self, order, step):
        return self.dataset.name == "toy" and step % 3 == 1


class WhereEpochsAreLate(WrongWhere):
    def seen(self, order, step):
        return order.epoch > 0 and step % 2 == 0


class AfterSomeSteps(WrongWhere):
    def seen(self, order, step):
        return self.inner.state().step > 10


class EverySeventhStep(WrongWhere):
    def seen(self, order, step):
        return step == 6


class OncePerRange(WrongWhere):
    """Trains the first sample order's step twice in place of the second."""

    def run(self, order, first, last):
        if order.seed == self.config.seed:
            return Program.run(self, order, first, last)
        return StepLog.joined([self.step(order, step if step != 1 else 0) for step in range(first, last)])


class SkipsSamples(Program):
    """Trains half of each batch where the seed is new: the other half counts as read."""

    def __init__(self, net, config, state):
        super().__init__(net, config, state)
        self.half = NUMPY.build(net, config.but(batch_size=config.batch_size // 2), state)

    def load(self, dataset):
        super().load(dataset)
        self.half.load(dataset)

    def run(self, order, first, last):
        if order.seed == self.config.seed:
            return super().run(order, first, last)
        logs = []
        for step in range(first, last):
            self.half.set_state(self.inner.state())
            some = self.half.run(order, step, step + 1)
            logs.append(StepLog(some.loss, 2 * some.correct, np.full(1, self.size(order, step))))
            self.inner.set_state(self.half.state())
        return StepLog.joined(logs)

    def size(self, order, step):
        batch = self.config.batch(order.n)
        return min(batch, order.n - step * batch)


# Logs that no training has


def with_log(**change: Callable[[StepLog], Any]) -> type[Program]:
    """A program whose timed logs are changed."""

    class Changed(Program):
        def run(self, order, first, last):
            log = super().run(order, first, last)
            if order.seed == self.config.seed:
                return log
            parts = {name: getattr(log, name) for name in ("loss", "correct", "size")}
            parts |= {name: make(log) for name, make in change.items()}
            return StepLog(**parts)

    return Changed


IMPOSSIBLE = {
    "more correct samples than there are": with_log(correct=lambda log: log.size + 1),
    "fewer than none": with_log(correct=lambda log: -log.size),
    "NaN": with_log(loss=lambda log: log.loss * np.nan),
    "infinity": with_log(loss=lambda log: log.loss + np.inf),
    "one loss too many": with_log(loss=lambda log: np.append(log.loss, 1.0)),
    "a loss too few": with_log(loss=lambda log: log.loss[1:]),
    "a number for an array": with_log(loss=lambda log: float(log.loss.mean())),
    "losses in single precision": with_log(loss=lambda log: log.loss.astype(np.float32)),
    "counts as floats": with_log(correct=lambda log: log.correct.astype(float)),
    "empty batches": with_log(size=lambda log: 0 * log.size),
    "larger batches": with_log(size=lambda log: 2 * log.size),
    "nothing": with_log(size=lambda log: None),
    "a square of losses": with_log(loss=lambda log: np.ones((len(log.loss), len(log.loss)))),
}

#: Cheats, and True if the only thing that may happen is that they are refused; the others may be timed with all of
#: their work on the clock.
CHEATS: dict[type[Program], bool] = {
    LazyLog: False,
    LazyState: True,
    FinishesLater: True,
    InLoad: False,
    InSetState: False,
    InState: False,
    InFlops: False,
    BetweenTurns: False,
    FullBatchAhead: False,
    Longer: True,
    OneStepAnEpoch: True,
    OneStepInThree: True,
    LastStepOnly: True,
    HalfPrecision: True,
    OneOrderInLongCalls: True,
    SkipsEpochs: True,
    StaleLogs: True,
    OneLogBuffer: True,
    ByAddress: True,
    WhereSeedIsNew: True,
    WhereDataAreThose: True,
    WhereEpochsAreLate: True,
    AfterSomeSteps: True,
    EverySeventhStep: True,
    OncePerRange: True,
    SkipsSamples: True,
}


# Honest programs


class Threaded(Program):
    """Has a thread of its own, which trains and is waited for."""

    def run(self, order, first, last):
        out: list[StepLog] = []
        thread = threading.Thread(target=lambda: out.append(Program.run(self, order, first, last)))
        thread.start()
        thread.join()
        return out[0]


class Idle(Program):
    """Has a thread that sleeps all the time."""

    def load(self, dataset):
        super().load(dataset)
        self.over = threading.Event()
        threading.Thread(target=self.over.wait, daemon=True).start()

    def close(self):
        self.over.set()


class CompilesAtFirstCall(Program):
    is_compiled = False

    def run(self, order, first, last):
        if not self.is_compiled:
            time.sleep(0.02)
            self.is_compiled = True
        return super().run(order, first, last)


class CompilesInLoad(Program):
    def load(self, dataset):
        super().load(dataset)
        time.sleep(0.02)


class AllocatesLate(Program):
    buffer: Any = None

    def run(self, order, first, last):
        if self.buffer is None or len(self.buffer) < last - first:
            self.buffer = np.zeros(last - first)
        log = super().run(order, first, last)
        self.buffer[: last - first] = log.loss
        return StepLog(self.buffer[: last - first].copy(), log.correct, log.size)


class CachesConstants(Program):
    """Stores the orders that it has computed."""

    def __init__(self, net, config, state):
        super().__init__(net, config, state)
        self.orders: dict[Any, np.ndarray] = {}

    def run(self, order, first, last):
        self.orders.setdefault(order, order.indices(0, order.n))
        return super().run(order, first, last)


class WarmsUp(Program):
    def load(self, dataset):
        super().load(dataset)
        state = self.inner.state().copied()
        self.inner.run(Ahead.order(self, 0), 0, 1)  # type: ignore[arg-type]
        self.inner.set_state(state)


class PreparesData(Program):
    def load(self, dataset):
        super().load(dataset)
        self.prepared = dataset.train_x.astype(np.float32) * np.float32(dataset.scale)


class WholeRanges(Program):
    def run(self, order, first, last):
        type(self).steps += last - first
        return self.inner.run(order, first, last)


class WholeEpochs(WholeRanges):
    def run_epochs(self, orders):
        type(self).steps += sum(whole(self.config, order) for order in orders)
        return self.inner.run_epochs(orders)


class TakesViews(Program):
    """Holds on to no state that it is given."""

    def set_state(self, state):
        self.inner.set_state(state.copied())


class CollectsGarbage(Program):
    def state(self):
        import gc

        gc.collect(0)
        return super().state()


class ReadsClocks(Program):
    def run(self, order, first, last):
        began = time.perf_counter()
        log = super().run(order, first, last)
        self.took = getattr(self, "took", 0.0) + time.perf_counter() - began
        return log

    def spans(self):
        return {"run": getattr(self, "took", 0.0)}


class ReadOnlyLogs(Program):
    def run(self, order, first, last):
        log = super().run(order, first, last)
        for part in (log.loss, log.correct, log.size):
            part.flags.writeable = False
        return log


class ReadOnlyStates(Program):
    def state(self):
        state = super().state()
        state.params.flags.writeable = False
        return state


class Sleeps(Program):
    def run(self, order, first, last):
        time.sleep(0.001)
        return super().run(order, first, last)


class SlowFirstStep(Program):
    def run(self, order, first, last):
        if first == 0:
            time.sleep(0.001)
        return super().run(order, first, last)


class PicksByLength(Program):
    """Takes one call of the inner rung for long ranges, single steps for short ones: the same bits."""

    def run(self, order, first, last):
        if last - first > LONG:
            return WholeRanges.run(self, order, first, last)  # type: ignore[arg-type]
        return super().run(order, first, last)


class PrefetchesNext(Program):
    """Computes the order of the next epoch ahead of time: it is of no use, and does no harm."""

    def run(self, order, first, last):
        from dataclasses import replace

        log = super().run(order, first, last)
        self.next = replace(order, epoch=order.epoch + 1).indices(0, min(64, order.n))
        return log


class Profiles(Program):
    def memory(self):
        return {"parameters": 4 * self.net.param_count}


class SetsErrors(Program):
    def run(self, order, first, last):
        with np.errstate(all="ignore"):
            return super().run(order, first, last)


class OtherSums(Program):
    """Adds its losses in another order, the same in every run."""

    def run(self, order, first, last):
        log = super().run(order, first, last)
        return StepLog(log.loss * (1 + 2.0**-50), log.correct, log.size)


class WorkerPool(Program):
    def load(self, dataset):
        from concurrent.futures import ThreadPoolExecutor

        super().load(dataset)
        self.pool = ThreadPoolExecutor(2)

    def run(self, order, first, last):
        return self.pool.submit(Program.run, self, order, first, last).result()

    def close(self):
        self.pool.shutdown()


class ManyBuffers(Program):
    """Rotates four state buffers."""

    def state(self):
        state = super().state()
        self.buffers = [*getattr(self, "buffers", []), state.params][-4:]
        return state


class LocksItself(Program):
    def __init__(self, net, config, state):
        super().__init__(net, config, state)
        self.lock = threading.Lock()

    def run(self, order, first, last):
        with self.lock:
            return super().run(order, first, last)


HONEST: tuple[type[Program], ...] = (
    Program, Threaded, Idle, CompilesAtFirstCall, CompilesInLoad, AllocatesLate, CachesConstants, WarmsUp, PreparesData,
    WholeRanges, WholeEpochs, TakesViews, CollectsGarbage, ReadsClocks, ReadOnlyLogs, ReadOnlyStates, Sleeps,
    SlowFirstStep, PicksByLength, PrefetchesNext, Profiles, SetsErrors, OtherSums, WorkerPool, ManyBuffers, LocksItself,
)  # fmt: skip
