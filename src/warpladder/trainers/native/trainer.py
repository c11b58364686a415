"""`NativeTrainer`: trainer that runs the compiled program of a net."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ... import optimizers
from ...config import TrainConfig
from ...data.order import Order
from ...machine.facts import cores
from ...nets import Conv2d, ElementLoss, Net
from ...ops.loss.scalar import settings
from ...optimizers import NUMBERS, Optimizer
from ..base import State, StepLog, Trainer, check_fit, check_range, check_samples, goals, in_a_row, not_loaded
from ..shares import BatchShares
from .compiler.clocks import Clocks
from .compiler.machine_code import CompiledFunction, address, entry
from .compiler.precompile import precompile
from .kernels.tile_sizes import KINDS, SCRATCH
from .program.barriers import rows_of_thread
from .program.job import SUMMED, StepsJob
from .program.memory import LINE, NativeMemory, Pages, padded_bytes
from .program.operands import OPERATIONS
from .program.plan import NativePlan
from .samples import NO_SAMPLES, are_lists, list_nonzeros, mostly_zeros, rows_for, samples_of, whole_bytes
from .threads.workers import MANY, Workers

if TYPE_CHECKING:
    from ...data.dataset import Dataset

PREDICT_BATCH = 256  # samples of a plan for full batches that predicts before it knows their number
SLACK = 64  # floats after a buffer's end that a tile may read


class NativeTrainer(Trainer):
    """Trainer in compiled code on all cores; Python does nothing during `run`."""

    def __init__(self, net: Net, config: TrainConfig, state: State, threads: int | None = None) -> None:
        self.net = net
        self.config = config
        self.threads = threads or cores()
        self._workers = Workers(self.threads)
        self._spans = {"compile": 0.0}
        self._samples: dict[str, np.ndarray] | None = None
        self._shares: BatchShares | None = None
        self._left_out = 0  # FLOPs of a sample's products with 0, on average
        self._is_general = not net.loss.is_plain
        self._settings = settings(net.loss, math.prod(net.out_shape)).astype(np.float32)
        self._scale = np.float32(1)
        self._clip = np.float32(np.inf if config.clip_value is None else config.clip_value)
        #: the optimizer's numbers of every step, if they are the same in all steps
        self._constant = config.numbers(0, 1, 1).astype(np.float32) if config.steady else None
        self._clocks: Clocks | None = None
        self._plan_for(config.batch_size or PREDICT_BATCH)
        self.set_state(state)

    def _plan_for(
        self, batch: int, has_targets: bool = False, has_shares: bool = False, is_listed: bool = False
    ) -> None:
        """Plan and allocate for this batch size; weights are zero until `set_state`."""
        plan = NativePlan(self.net, self.config, self.threads, batch, has_targets, has_shares, is_listed)
        self.plan = plan
        self.batch, self.goal = batch, (has_targets, has_shares, is_listed)
        built, sharing, parameters = plan.built, plan.sharing, plan.layout.count + SLACK
        shares = 1 if sharing.together else self.threads
        gradients = shares, built.gradient_count + SLACK
        shapes = {
            "activations": ((shares, built.arena.size + SLACK), np.float32),
            "argmax": ((shares, built.argmax_count + SLACK), np.int32),
            "gradients": (gradients, np.float32),
            "subtotals": (gradients if -(-batch // shares) > SUMMED * sharing.block else (1,), np.float32),
            "weights": ((parameters,), np.float32),
            "slots": ((len(self.config.optimizer.slots) * parameters,), np.float32),
            "packed": ((built.packed_count + SLACK,), np.float32),
            "offsets": ((self.threads, KINDS * built.offset_count), np.int64),
            "scratch": ((self.threads, SCRATCH), np.float32),
            "statistics": ((built.statistics_count,), np.float64),
            "buffers": ((self.net.buffer_count,), np.float32),
            "squares": ((self.threads, LINE // 8), np.float64),
            "sync": ((16,), np.int64),
        }
        pages = Pages(sum(padded_bytes(*each) for each in shapes.values()))
        buffers = {name: pages.array(*each) for name, each in shapes.items()}
        steps = self._of_steps(np.empty((0, NUMBERS), np.float32), np.empty(0, np.int64))
        self._memory = NativeMemory(**buffers, **steps, **NO_SAMPLES, **NOTHING)
        # programs by (True if losses are computed, True if samples are read as bytes, or as lists)
        self._programs: dict[tuple[bool, bool, bool], np.ndarray] = {}
        self._loop = 0

    def _numbers(self, steps: int, samples: int) -> np.ndarray:
        """Optimizer's numbers of the next steps, (steps, NUMBERS) float32."""
        if self._constant is not None:  # an epoch of one step has no time for more
            return np.repeat(self._constant, steps, axis=0)
        return self.config.numbers(self._step, self._step + steps, samples).astype(np.float32)

    def _of_steps(self, numbers: np.ndarray, indices: np.ndarray) -> dict[str, np.ndarray]:
        """Arrays of the memory for some steps; numbers : (steps, NUMBERS) float32; indices : of samples, int64."""
        shape = (self.threads, len(numbers))
        return {"numbers": numbers, "indices": indices, "loss": np.zeros(shape), "correct": np.zeros(shape, np.int64)}

    def load(self, dataset: Dataset) -> None:
        check_fit(self.net, dataset, self.config)
        batch = self.config.batch(len(dataset.train_x))
        self._shares = BatchShares.of(self.net.loss, dataset, self.config)
        goal = dataset.has_targets, self._shares is not None, mostly_zeros(dataset.train_x)
        if (batch, goal) != (self.batch, self.goal):
            state = self.state()
            self._plan_for(batch, *goal)
            self.set_state(state)
        learnt = goals(self.net, dataset.train_y)
        samples = samples_of(dataset.train_x, np.zeros(len(dataset.train_x)) if learnt is None else learnt)
        self._samples, self._left_out = samples, 0
        self._count, self._scale = len(dataset.train_x), np.float32(dataset.scale)
        # a full batch's sums are the same in every order, and fastest in the stored one
        self._all = np.arange(len(dataset.train_x) if batch == len(dataset.train_x) else 0)
        if self.plan.can_list and goal[-1]:
            self._list(samples)

    def _list(self, samples: dict[str, np.ndarray]) -> None:
        """Have the first layer read lists of the samples' numbers other than 0."""
        one = self._memory._replace(**samples | {"starts": np.empty((1, 1), np.int64)})
        self._programs_for(one, self.config.has_loss(0))  # compiles all that a step needs at once
        factors = np.array([self._scale, self._clip], np.float32)
        nothing = self._of_steps(np.empty((0, NUMBERS), np.float32), self._all)

        def call(**lists: np.ndarray) -> None:
            table = self._memory._replace(**samples | lists, **nothing, factors=factors).table()
            self._workers.everywhere(entry(LISTS), self._job(table, np.zeros((self.threads, 1), np.int64), 1))

        node = self.plan.built.nodes[0]
        lists = list_nonzeros(self.plan.samples.view.channels, self._count, call)
        zeros = self._count * math.prod(self.net.in_shape) - lists["entries"].size // 2
        # a Linear layer's products are a multiple of its inputs
        work = 2 * node.layer.flops(self.net.shapes[node.x]) // math.prod(self.net.in_shape)
        self._left_out = work * zeros // self._count
        self._samples = samples | lists

    def run(self, order: Order, first: int, last: int) -> StepLog:
        self._check(order, first, last)
        if self.batch == order.n and not self.net.is_random:
            return self._steps(self._all, last - first, order)
        position = first * self.batch
        indices = order.indices(position, min(last * self.batch, order.n))
        return self._steps(indices, last - first, order, position)

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        if not orders or self.batch != orders[0].n or self.net.is_random:
            return super().run_epochs(orders)
        # Epochs of one step are steps of one call: starting one takes Python and waking threads a tenth of a
        # millisecond, longer than many a step.
        for order in orders:
            self._check(order, 0, 1)
        logs, at = [], 0
        for _, count in in_a_row(self.config, orders):
            logs += self._steps(self._all, count, orders[at]).by_step()
            at += count
        return logs

    def _check(self, order: Order, first: int, last: int) -> None:
        """Raise `DataError` before `load`, or `ConfigError` if the range of steps does not exist."""
        if self._samples is None:
            raise not_loaded(self.net)
        check_range(self.config, order, self._count, first, last)

    def _steps(self, indices: np.ndarray, steps: int, order: Order, position: int = 0) -> StepLog:
        """Train steps on batches of samples `indices` (samples,), or each on all; with losses, if their epoch has them.

        position : position of the first of these samples in the order.
        """
        assert self._samples is not None
        memory = self._memory._replace(
            **self._samples,
            **self._of_steps(self._numbers(steps, order.n), indices),
            factors=np.array([self._scale, self._clip], np.float32),
            settings=self._settings,
            shares=NOTHING["shares"] if self._shares is None else self._shares.at(indices).astype(np.float32),
        )
        is_general = self._is_general or self._shares is not None
        has_terms = not is_general and isinstance(self.net.loss, ElementLoss)
        terms = int(np.prod(self.net.out_shape)) if has_terms else 1
        has_loss = self.config.has_loss(order.epoch)
        table = memory.table()
        programs = self._programs_for(memory, has_loss)
        if self._clocks is not None:
            names = [row.operation for row in rows_for(self.plan, memory, has_loss)]
            programs = self._clocks.around(programs, names)
        job = self._job(table, programs, terms, mask_key=order.mask_key, position=position)
        self._workers.train(entry(STEPS), job, memory.sync, steps)
        self._step += steps
        size = (
            np.full(steps, self.batch)
            if self.batch == order.n
            else np.minimum(self.batch, indices.size - np.arange(steps) * self.batch)
        )
        if not has_loss:
            return StepLog.without_loss(size)
        # thread after thread: numpy adds the same numbers in another order where there is one step and many threads
        loss = reduce(np.add, memory.loss)
        return StepLog(loss if is_general else loss / size, memory.correct.sum(axis=0), size)

    @contextmanager
    def clocked(self) -> Iterator[Clocks]:
        """Context in which a clock measures each instruction of the training steps."""
        self._clocks = Clocks()
        try:
            yield self._clocks
        finally:
            self._clocks = None

    def predict(self, x: np.ndarray, scale: float) -> np.ndarray:
        check_samples(self.net, x)
        nothing = self._of_steps(np.empty((0, NUMBERS), np.float32), np.arange(len(x)))
        out = np.empty((len(x), int(np.prod(self.net.out_shape))), np.float32)
        factors = np.array([scale, self._clip], np.float32)
        memory = self._memory._replace(**samples_of(x, None), **nothing, factors=factors, out=out)
        table = memory.table()
        if len(x):
            job = self._job(table, self._programs_for(memory, has_loss=True), 1, len(x))  # reaches no loss
            self._workers.everywhere(entry(PREDICTIONS), job)
        return out.reshape(len(x), *self.net.out_shape)

    def state(self) -> State:
        params, buffers = self.weights()
        slots = {name: self.plan.layout.to_flat(held) for name, held in self._slots()}
        return State(params, slots, self._step, buffers)

    def weights(self) -> tuple[np.ndarray, np.ndarray | None]:
        buffers = self._memory.buffers.copy() if self.net.normalizes else None
        return self.plan.layout.to_flat(self._memory.weights), buffers

    def set_state(self, state: State) -> None:
        layout = self.plan.layout
        layout.from_flat(state.params.astype(np.float32), self._memory.weights)
        for name, held in self._slots():
            layout.from_flat(state.slot(name).astype(np.float32), held)
        self._memory.buffers[:] = state.buffers_of(self.net)
        self._step = state.step

    def _slots(self) -> list[tuple[str, np.ndarray]]:
        """Slots of the optimizer by name, in native order."""
        names = self.config.optimizer.slots
        return list(zip(names, self._memory.slots.reshape(len(names), -1) if names else (), strict=True))

    def memory(self) -> dict[str, int]:
        held = self._memory
        counts = {
            "parameters": held.weights.nbytes + held.buffers.nbytes,
            "gradients": held.gradients.nbytes + held.subtotals.nbytes,
            "optimizer": held.slots.nbytes,
            "activations": held.activations.nbytes + held.argmax.nbytes,
            "workspace": held.packed.nbytes + held.offsets.nbytes + held.scratch.nbytes + held.statistics.nbytes,
        }
        if self._samples is not None:
            counts["data"] = sum(each.nbytes for each in self._samples.values())
        return counts

    def flops(self) -> int:
        return self.net.train_flops - self._left_out

    def spans(self) -> dict[str, float]:
        return dict(self._spans)

    def sources(self) -> list[Path]:
        """Files of the vector kernels of this net's products and of the update."""
        tiles = ("convolution", "pixel_run_tile") if any(isinstance(each, Conv2d) for each in self.net.layers) else ()
        kernels = ("matmul_tile", "dot_products", "few_outputs", *tiles, "update")
        files = (*(f"kernels/{name}.py" for name in kernels), "threads/run.py")
        return [Path(__file__).parent / file for file in files]

    def close(self) -> None:
        self._workers.close()

    def _programs_for(self, memory: NativeMemory, has_loss: bool) -> np.ndarray:
        """Programs with losses or without, (threads, rows * ROW) int64; the first call compiles or loads operations."""
        kind = has_loss, whole_bytes(memory), are_lists(memory)
        if kind not in self._programs:
            started = time.perf_counter()
            plan = self.plan
            rows = rows_for(plan, memory, has_loss)
            functions = {row.operation: _operation(row.operation) for row in rows}
            loop = self._own_loop()
            others = [STEPS, ROWS, BARRIER, *([LISTS] if are_lists(memory) else []), *([loop] if loop else [])]
            precompile([*functions.values(), *others])
            where = {operation: address(function) for operation, function in functions.items()}
            if plan.calls_loop:
                self._loop = address(loop) if loop else _loop_from_elsewhere(self.config.optimizer)
            programs = [rows_of_thread(thread, rows, plan.samples) for thread in range(self.threads)]
            self._programs[kind] = np.array(
                [[number for row in each for number in (where[row.operation], *row.numbers())] for each in programs],
                np.int64,
            )
            self._spans["compile"] += time.perf_counter() - started
        return self._programs[kind]

    def _own_loop(self) -> CompiledFunction | None:
        """Loop of one of the package's optimizers, if an instruction calls it; the cache's key has no others."""
        home = type(self.config.optimizer).__module__
        own = self.plan.calls_loop and home.startswith(f"{optimizers.__name__}.")
        return CompiledFunction(f"{home}.loops", "step", "loop") if own else None

    def _job(
        self, table: np.ndarray, programs: np.ndarray, terms: int, predicts: int = 0, mask_key: int = -1,
        position: int = 0,
    ) -> np.ndarray:  # fmt: skip
        """Arguments of the compiled loop, (JOB,) int64, which own no array; predicts : number of samples, or 0."""
        plan, sharing = self.plan, self.plan.sharing
        return StepsJob(
            parts=self.threads, workers=self.threads, first=0, last=1, patience=MANY,
            together=sharing.together, block=sharing.block, programs=programs.ctypes.data, length=programs.shape[1],
            memory=table.ctypes.data, batch=predicts or self.batch, terms=terms, loop=self._loop, rows=address(ROWS),
            barrier=address(BARRIER), mask_key=mask_key, position=position,
            channels=plan.out.shape[0], sections=plan.sections, out_view=plan.out.view,
        ).ints()  # fmt: skip


def _operation(name: str) -> CompiledFunction:
    return CompiledFunction(f"{__package__}.kernels.{OPERATIONS[name]}", name, "operation")


def _loop_from_elsewhere(optimizer: Optimizer) -> int:
    """Address of a user's optimizer's loop, which numba caches by its file."""
    from ...ops.update.loops import compiled_rule
    from .compiler.functions import loop_address

    return loop_address(compiled_rule(type(optimizer)))


#: the functions that Python calls
STEPS = CompiledFunction(f"{__package__}.threads.run", "steps", "entry")
PREDICTIONS = CompiledFunction(f"{__package__}.threads.run", "predictions", "entry")
LISTS = CompiledFunction(f"{__package__}.kernels.nonzeros.lists", "list_nonzeros", "entry")
#: the functions that these call by address
ROWS = CompiledFunction(f"{__package__}.threads.run", "rows", "rows")
BARRIER = CompiledFunction(f"{__package__}.threads.barrier", "barrier", "barrier")

#: the memory's other arrays before a call
NOTHING: dict[str, np.ndarray] = {
    "factors": np.empty(2, np.float32),
    "settings": np.empty(0, np.float32),
    "shares": np.empty(0, np.float32),
    "out": np.empty((0, 1), np.float32),
}
