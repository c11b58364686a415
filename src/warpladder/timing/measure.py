"""Measurement of one entry: its proof, its first steps, and its timed repetitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from time import perf_counter, process_time
from typing import Any

import numpy as np

from ..config import TrainConfig
from ..data.order import Order
from ..errors.arguments import shown
from ..ladder import is_peer
from ..machine.facts import busy_seconds, own_seconds
from ..results import Checked
from ..trainers.base import State, StepLog, Trainer
from .entry import TimedEntry, finite, line
from .foreign import rung as foreign
from .foreign.trainer import ForeignTrainer
from .gpu_clock import GpuClock
from .kernel_files import kernel_hint
from .proof_cache import ProofCache
from .rung_proof import prove_rung
from .source_text import confirmed, texts
from .task import PROBE, plan, proven_with, train_in_calls
from .turn import Refused, Turn, check_log, copied

#: Largest FLOPs of a sample, and FLOP/s of a unit, that a trainer may state.
MOST_FLOPS = 2**63


def check(entry: TimedEntry, cache: ProofCache | None) -> None:
    """Prove against the float64 reference that the rung trains right, or take the proof of an earlier climb."""
    with entry.guarded("check"):
        checked = (cache.find(entry.rung) if cache else None) or entry.passed
        inspection = foreign.inspected(entry.rung, entry.task.net, entry.task.config)
        if inspection is not None:
            entry.remark(inspection.text)
        if checked is None:
            config, cut = proven_with(entry.rung, entry.task)
            verdict = prove_rung(entry.rung, entry.task.net, config, entry.task.data, entry.task.cases)
            error, bound = finite(verdict.error), finite(verdict.bound)
            checked = Checked(verdict.passed, error, bound, line(verdict.reason + cut), verdict.seconds)
            if not verdict.passed:
                run = inspection and inspection.command
                hint = f": run `{run}`" if run else kernel_hint(entry.rung.path)
                entry.give_up("failed" if verdict.judged else "unjudged", verdict.reason + hint)
        entry.found["check"] = checked


def prepare(
    entry: TimedEntry, cache: ProofCache | None = None, quiet: Callable[[], AbstractContextManager[None]] = nullcontext
) -> None:
    """Build, load and warm up the rung, and plan its repetitions; the trainer ends at the initial state.

    quiet : returns a context in which nothing else runs; the first steps are timed in it.
    """
    task = entry.task
    with entry.guarded("first steps"):
        entry.found["build_seconds"], entry.trainer = clocked(
            lambda: entry.rung.build(task.net, task.config, task.start())
        )
        trainer = entry.trainer
        entry.found["load_seconds"], _ = clocked(lambda: trainer.load(task.data))
        entry.found["first_seconds"], _ = clocked(lambda: trainer.run(task.order(0), 0, 1))
        _note_claims(entry, trainer)
        with quiet():
            per_step = _probe(entry, trainer)
        entry.per_epoch = per_step * task.steps
        entry.plan = plan(task, per_step)
        trainer.set_state(task.start())
        pause(trainer)
        if cache and not entry.found["check"].kept:
            cache.store(entry.rung, entry.found["check"], on_gpu=entry.peak is not None)


def _note_claims(entry: TimedEntry, trainer: Trainer) -> None:
    """Store what the trainer states: FLOPs of a sample, the peak of its unit in FLOP/s, and its sources."""
    flops, peak = trainer.flops(), trainer.peak()
    if isinstance(flops, bool) or not isinstance(flops, int) or not 1 <= flops <= MOST_FLOPS:
        raise Refused(
            f"flops() wants a whole number from 1 to 2^63, the FLOPs of one sample's training, got {shown(flops)}"
        )
    if peak is not None and not (isinstance(peak, (int, float)) and 0 < peak <= MOST_FLOPS):
        raise Refused(f"peak() wants the FLOP/s of its unit or None, got {shown(peak)}")
    entry.found |= {"flops": flops, "floor_seconds": None}
    if trainer.remark:
        entry.remark(trainer.remark)
    if trainer.idea:
        entry.found |= {"idea": trainer.idea, "unit": None}
    entry.peak = peak
    if not is_peer(entry.rung):
        path = entry.rung.path
        entry.sources = (
            confirmed(trainer.texts(), path) if isinstance(trainer, ForeignTrainer) else texts(trainer, path)
        )


def _probe(entry: TimedEntry, trainer: Trainer) -> float:
    """Seconds of a step: weighted mean over steps with and without losses, in the proportion of training."""
    every = entry.task.config.loss_every
    without = _probe_epoch(entry, trainer, 0) if every > 1 else 0.0
    return ((every - 1) * without + _probe_epoch(entry, trainer, every - 1)) / every


def _probe_epoch(entry: TimedEntry, trainer: Trainer, epoch: int) -> float:
    """Seconds of a step of an epoch: the minimum over increasingly long runs. Warms the code of the last step too."""
    steps, order = entry.task.steps, entry.task.order(epoch)
    count, total, best = 0, 0.0, math.inf
    while total < 2 * PROBE and count < steps:
        count = min(steps, 4 * count or 1)
        seconds, _ = clocked(partial(_probed, entry, trainer, order, count))
        total += seconds
        best = min(best, seconds / count)
    if count < steps:
        trainer.run(order, steps - 1, steps)
    return best


def _probed(entry: TimedEntry, trainer: Trainer, order: Order, count: int) -> None:
    """Train the first `count` steps of an epoch. The logs of a rung from a user's file are read, so that it cannot
    defer them.
    """
    log = trainer.run(order, 0, count)
    if entry.is_outside:
        copied(log)
        trainer.state()


def repeat(entry: TimedEntry, number: int) -> None:
    """Time one repetition.

    The clock stops after logs and weights are copied, so that no work can be deferred until after it. A rung from a
    user's file is paused before and after its turn, and its work is drawn when the turn begins.
    """
    trainer = entry.trainer
    assert trainer is not None
    with entry.guarded("timed steps"):
        turn = entry.turn(number)
        cpu_clock = _cpu_clock(trainer)
        busy, own, cpu, start = busy_seconds(), own_seconds(), cpu_clock(), perf_counter()
        logs, state = repetition(entry, trainer, turn)
        seconds, cpu, after = perf_counter() - start, cpu_clock() - cpu, busy_seconds()
        used = max(cpu, own_seconds() - own)
        clock = entry.peak is not None and _gpu_clock().read()
        pause(trainer)
        entry.samples = _counted(entry, number, logs, state)
        entry.seconds.append(seconds)
        entry.cpu_seconds.append(cpu)
        if busy is not None and after is not None:
            entry.other_seconds.append(max(0.0, after - busy - used))
        if not entry.is_outside:
            note_epochs(entry, number * entry.plan.epochs, logs, seconds)
        entry.turns.append(turn)
        if clock:
            entry.clocks.append(clock)
        entry.logs.append(log_bits(logs))
        entry.ends.append(state)


@cache
def _gpu_clock() -> GpuClock:
    return GpuClock()


def _cpu_clock(trainer: Trainer) -> Callable[[], float]:
    """Clock of the processor seconds of the process that trains; a paused process is awake afterwards."""
    if not isinstance(trainer, ForeignTrainer):
        return process_time
    trainer.process.request("ready")
    return trainer.process.cpu_seconds


def pause(trainer: Trainer) -> None:
    """Pause the process of a rung from a user's file until its next turn."""
    if isinstance(trainer, ForeignTrainer):
        trainer.process.pause()


def repetition(entry: TimedEntry, trainer: Trainer, turn: Turn) -> tuple[list[StepLog], State]:
    """Train the steps of a turn; return a log for each epoch and the state, in arrays of this process."""
    task, steps = entry.task, entry.plan.steps
    if isinstance(trainer, ForeignTrainer):
        expected = entry.per_epoch * len(turn.orders) * steps / task.steps
        return trainer.turn(turn.start, turn.orders, steps, expected)
    if turn.start is not None:
        trainer.set_state(turn.start.copied())
    logs = train_in_calls(trainer, task.config, turn.orders, steps)
    return list(map(copied, logs)), trainer.state().copied()


def note_epochs(entry: TimedEntry, first: int, logs: list[StepLog], seconds: float) -> None:
    """Store loss, accuracy and seconds of the whole epochs from `first` on; `seconds` is their total time."""
    for epoch, log in enumerate(logs, first):
        if epoch not in entry.epochs and len(log.size) == entry.task.steps:
            samples = int(log.size.sum())
            loss = float(log.loss @ log.size) / samples if log.has_loss else None
            accuracy = int(log.correct.sum()) / samples if log.has_loss else None
            entry.epochs[epoch] = loss, accuracy, seconds / len(logs)


def _counted(entry: TimedEntry, number: int, logs: list[StepLog], state: State) -> int:
    """Number of samples trained in a repetition, from its logs; raises `Refused` if the logs do not show the required
    work.
    """
    task, config = entry.task, entry.task.config
    batch, steps = config.batch(task.n), entry.plan.steps
    expected = np.minimum(batch, task.n - np.arange(steps) * batch)
    if len(logs) != entry.plan.epochs:
        raise Refused(f"{entry.plan.epochs} timed epochs have {len(logs)} logs")
    for epoch, log in enumerate(logs, number * entry.plan.epochs):
        check_log(log, expected if entry.is_exact else None, steps, config.has_loss(epoch), epoch)
    if config.loss_every > 1 and not np.isfinite(state.params).all():
        raise Refused("the weights are not finite: try a smaller learning rate")
    return int(sum(log.size.sum() for log in logs))


def clocked(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of `work()`, and its result."""
    start = perf_counter()
    out = work()
    return perf_counter() - start, out


def logs_of(bits: bytes, turn: Turn, steps: int, config: TrainConfig) -> list[StepLog]:
    """Logs of the first `steps` steps of a turn's epochs from their `log_bits`."""
    logs, at = [], 0
    for order in turn.orders:
        has_loss, parts = config.has_loss(order.epoch), []
        for dtype, count in ((np.float64, steps * has_loss), (np.int64, steps * has_loss), (np.int64, steps)):
            parts.append(np.frombuffer(bits, dtype, count, at))
            at += parts[-1].nbytes
        logs.append(StepLog(*parts, has_loss=has_loss))
    return logs


def log_bits(logs: list[StepLog]) -> bytes:
    """Bits of the losses, counts and sizes of step logs."""
    return b"".join(np.ascontiguousarray(part).tobytes() for log in logs for part in (log.loss, log.correct, log.size))
