"""`PersistentTrainer`: trainer that runs a range of steps, or several epochs, in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from ...config import TrainConfig
from ...data.order import ORDER_WORDS, Order
from ...device import Array, Device, Launch
from ...errors import KernelError, LaunchError, RungError
from ...nets import Net
from ...ops.engine.chain import Slice
from ...ops.tables.gemm import TABLE
from ...ops.update.cuda import limit
from ..base import State, StepLog, check_fit, check_no_weights, check_range, goals, in_a_row, not_loaded
from ..kernelwise.epoch_log import DeviceEpochLog, StepSettings
from ..kernelwise.trainer import KernelTrainer
from .phase_lines import FactorMap, factor_maps, line
from .plan import PersistentPlan, Requested, plans, why_not
from .registers.by_units import input_scales, stored_rows
from .source import KERNEL, buffers, initial_work, persistent_source, waits
from .tiles import THREADS

if TYPE_CHECKING:
    from ...data.dataset import Dataset

#: Steps of a launch over several epochs, at most: its log and its settings are in memory, and Ctrl-C waits for its end.
STEPS = 8192

#: Samples of a launch over several epochs, at most, unless one epoch has more: the order is computed before it.
CHOSEN = 1 << 22


class PersistentTrainer(KernelTrainer):
    """Trainer with one launch for many steps, instead of one for each layer, direction and step.

    Samples, order, parameters, slots, log and the optimizer's settings are on the device, as with the resident
    feed. Predictions use the gemm rung's kernels.

    Parameters
    ----------
    net, config, state, device
        As in `KernelTrainer`.
    blocks : int or None
        Blocks of the launch; the plan's if None.
    wait : {"cluster", "grid", "both"} or None
        Kind of wait between blocks; the plan's if None.
    cluster : int or None
        Blocks of a cluster if wait is "both"; the plan's if None.
    weights : {"global", "shared", "registers"} or None
        Memory from which phases read weights; the plan's if None.
    exchange : {"stored", "sent"} or None
        How blocks of a cluster pass on their results; the plan's if None.
    multiply : {"fma", "tensor"} or None
        How phases multiply with weights in global memory; the plan's if None.
    """

    def __init__(
        self, net: Net, config: TrainConfig, state: State, device: Device,
        blocks: int | None = None, wait: str | None = None, cluster: int | None = None, weights: str | None = None,
        exchange: str | None = None, multiply: str | None = None,
    ) -> None:  # fmt: skip
        self.requested = Requested(blocks, wait, cluster, weights, exchange, multiply)
        super().__init__(net, config, state, device, TABLE, "resident")

    def _release(self) -> None:
        super()._release()
        self.plan: PersistentPlan | None = None
        self.arrays: dict[str, Array] = {}
        self.launches: dict[tuple[int, int, bool], Launch] = {}

    def on_device(self, device: Device) -> PersistentTrainer:
        start = State(np.zeros(self.net.param_count, np.float32))
        return PersistentTrainer(self.net, self.config, start, device, *astuple(self.requested))

    def load(self, dataset: Dataset) -> None:
        check_fit(self.net, dataset)
        check_no_weights(dataset, "persistent")
        self._load(dataset)

    def _load(self, dataset: Dataset) -> None:
        """Load the data set for the fastest plan by estimate whose clusters fit the device."""
        self.samples = samples = len(dataset.train_x)
        self.batch = self.config.batch(samples)
        if reason := why_not(self.net):
            raise RungError(f"rung 'persistent' cannot train this: {reason}")
        found = plans(
            self.net, self.batch, self.device.limits, self.requested, len(self.slots),
            dataset.train_x.itemsize,
        )  # fmt: skip
        if not found:
            raise RungError(
                f"rung 'persistent' has no plan for net {self.net.name!r}, batch {self.batch:,}, on {self.device.name} "
                "with these options: tiles, weights or samples do not fit its shared memory"
            )
        for plan in found if self.requested.wait is None else found[:1]:
            self._release()
            self._prepare(dataset, plan)
            try:
                self._launch(0, 1, False)
                break
            except LaunchError:  # fewer clusters fit onto this device than the plan assumes
                if plan is found[-1] or self.requested.wait is not None:
                    raise

    def _prepare(self, dataset: Dataset, plan: PersistentPlan) -> None:
        """Allocate memory on the device and compile the kernel for a plan."""
        start, device, samples = perf_counter(), self.device, self.samples
        self.plan = plan
        self.epoch = max(1, self.config.steps(samples))
        self.together = max(1, min(STEPS // self.epoch, CHOSEN // (self.epoch * self.batch)))
        entries = self.together * self.epoch
        stored = np.ascontiguousarray(dataset.train_x)
        if plan.registers is None:
            work = initial_work(plan, self.batch, len(self.slots))
        else:  # activations stay in the blocks; only floats have scales
            work = input_scales(stored) if stored.dtype == np.float32 else np.zeros(1, np.float32)
            stored = stored_rows(stored)
        device.check_room(
            {
                "data": stored.nbytes + 4 * samples + 4 * entries * self.batch,
                "activations": work.nbytes,
                "log": 16 * entries,
            }
        )
        self.epoch_log = DeviceEpochLog(device, self.step, entries)
        self.settings = StepSettings(device, self.config, samples, self.epoch_log.entries)
        self.settings.upload(0, self.settings.rows, self.update_count)
        goal = goals(self.net, dataset.train_y)
        self.arrays = {
            "stored": device.array(stored, "data"),
            "words": device.zeros((self.together * ORDER_WORDS,), np.uint32, "data"),
            "work": device.array(work, "activations"),
            "chosen": device.zeros((entries * self.batch,), np.int32, "data"),
            "arrived": device.zeros((4,), np.uint32, "workspace"),
            "target": device.zeros((2 * self.batch,), np.int32, "activations"),
            "lost": device.zeros((max(plan.blocks, self.batch * plan.layers[-1].outputs),), np.float64, "workspace"),
            "hits": device.zeros((max(plan.blocks, self.batch * plan.layers[-1].outputs),), np.int64, "workspace"),
        }
        if some := factor_maps(plan):
            self.arrays["maps"] = device.array(self._map_words(plan, some), "workspace")
        if goal is not None and dataset.has_targets:  # a sample's label is its row of the targets
            self.arrays["targets"] = device.array(goal, "data")
            goal = np.arange(samples, dtype=np.int32)
        if goal is not None:
            self.arrays["labels"] = device.array(goal, "data")
        self.scale = np.float32(dataset.scale)
        self.host_arrived = device.pinned((4,), np.uint32)
        self.host_words = device.pinned((self.together * ORDER_WORDS,), np.uint32)
        self.seconds["bind"] = perf_counter() - start
        start = perf_counter()
        source = persistent_source(self.net, self.batch, dataset.train_x.dtype, self.config.optimizer, plan)
        self.kernel = device.kernel(source, KERNEL)
        self.seconds["compile"] = self.seconds.get("compile", 0.0) + perf_counter() - start

    def _map_words(self, plan: PersistentPlan, maps: Sequence[FactorMap]) -> np.ndarray:
        """Words (maps * 16,), uint64, of the copy engine's maps of scratch arrays; again for each cluster's rows."""
        places = {name: rest for name, *rest in buffers(plan, self.batch, len(self.slots))}
        words = []
        for cluster in range(plan.blocks // plan.cluster if plan.rows is not None else 1):
            for each in maps:
                offset, rows, features = places[each.array]
                array = self.arrays["work"][offset : offset + rows * line(features)].reshape(rows, line(features))
                if each.owned and plan.rows is not None and cluster * plan.rows < rows:
                    array = array[cluster * plan.rows : min(rows, (cluster + 1) * plan.rows)]
                words.append(self.device.tensor_map(array, each.rows, each.columns).words)
        return np.concatenate(words)

    def parts(self) -> list[Slice]:
        return []  # no step is divided

    def run(self, order: Order, first: int, last: int) -> StepLog:
        if self.plan is None:
            raise not_loaded(self.net)
        check_range(self.config, order, self.samples, first, last)
        if first == last:
            return StepLog(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))
        return self._launched([order], first, last, self.config.has_loss(order.epoch))

    def run_epochs(self, orders: Sequence[Order]) -> list[StepLog]:
        if self.plan is None:
            return super().run_epochs(orders)
        steps, logs, at = self.config.steps(self.samples), [], 0
        for order in orders:
            check_range(self.config, order, self.samples, 0, steps)
        if steps == 0:
            return super().run_epochs(orders)
        for has_loss, count in in_a_row(self.config, orders):
            for begin in range(at, at + count, self.together):
                some = orders[begin : min(begin + self.together, at + count)]
                log = self._launched(some, 0, len(some) * steps, has_loss)
                logs += _by_epoch(log, steps)
            at += count
        return logs

    def _launched(self, orders: Sequence[Order], first: int, last: int, has_loss: bool) -> StepLog:
        """Train steps first..last-1, counted from the first order's beginning, by one launch; returns their log."""
        assert self.settings is not None and self.epoch_log is not None
        stream = self.device.stream
        for number, order in enumerate(orders):
            self.host_words[number * ORDER_WORDS : (number + 1) * ORDER_WORDS] = order.words
        count = len(orders) * ORDER_WORDS
        self.arrays["words"][:count].upload(self.host_words[:count], stream)
        self._upload_settings(first, last)
        self.device.fill(self.arrays["arrived"], 0)
        self._launch(first, last - first, has_loss).send()
        self.update_count += last - first
        steps = np.arange(first, last) % self.epoch
        size = np.minimum(self.batch, self.samples - steps * self.batch)
        if has_loss:
            self.epoch_log.download(first, last)
        self.device.download(self.host_arrived, self.arrays["arrived"], stream)
        stream.synchronize()
        self._check_waits()
        return StepLog(*self.epoch_log.read(first, last), size) if has_loss else StepLog.without_loss(size)

    def _check_waits(self) -> None:
        """Raise `KernelError` if a wait of the last launch timed out."""
        _, number, step, block = (int(value) for value in self.host_arrived)
        if number and self.plan is not None:
            raise KernelError(
                f"rung 'persistent': block {block} waited in vain after {waits(self.plan)[number - 1]} in step {step}; "
                "another block never arrived. The weights are those of no step: go on from a checkpoint"
            )

    def _launch(self, first: int, count: int, has_loss: bool) -> Launch:
        """Launch of a range of steps, bound once."""
        key = first, count, has_loss
        if key not in self.launches:
            if len(self.launches) > 64:  # a caller may divide epochs differently each time
                self.launches.clear()
            self.launches[key] = self._bound(*key)
        return self.launches[key]

    def _bound(self, first: int, count: int, has_loss: bool) -> Launch:
        assert self.plan is not None and self.settings is not None
        plan, arrays, log = self.plan, self.arrays, self.log
        slot1, slot2 = (*self.slots.values(), None, None)[:2]
        return self.kernel.bind(
            plan.blocks, THREADS, arrays["stored"], self.scale, arrays.get("labels"), arrays.get("targets"),
            arrays["words"], self.samples,
            self.batch, first, self.epoch, count, self.params, slot1, slot2, limit(self.config), self.settings.numbers,
            int(self.config.steady), arrays["work"], arrays["chosen"],
            arrays["target"], arrays["arrived"], arrays["lost"],
            arrays["hits"], log.loss if has_loss else None,
            log.correct if has_loss else None, arrays.get("maps"), shared=plan.shared, cooperative=plan.in_grid,
            cluster=plan.cluster,
        )  # fmt: skip

    def peak(self) -> float | None:
        """Peak FLOP/s of what multiplies: tensor cores, with two halves for each factor, or multiply-adds."""
        peaks = self.device.limits.peaks
        if peaks is None or self.plan is None or not self.plan.on_tensor_cores:
            return super().peak()
        return peaks.of("fp32", "tensor cores")

    def memory(self) -> dict[str, int]:
        held = super().memory()
        if self.epoch_log is not None and self.settings is not None:
            held["log"] += self.epoch_log.logged.nbytes + self.settings.numbers.nbytes
        for name, what in (("stored", "data"), ("labels", "data"), ("targets", "data"), ("words", "data"),
                           ("chosen", "data"),
                           ("work", "activations"),
                           ("target", "activations"),
                           ("lost", "workspace"), ("hits", "workspace")):  # fmt: skip
            if name in self.arrays:
                held[what] = held.get(what, 0) + self.arrays[name].nbytes
        return held

    def sources(self) -> list[type | Path]:
        here = Path(__file__).parent
        return [type(self), here / "source.py", *sorted(here.rglob("*.cuh"))]


def _by_epoch(log: StepLog, steps: int) -> list[StepLog]:
    """Logs of single epochs, from a log of whole epochs of `steps` steps each."""
    starts = range(0, len(log.size), steps)
    if not log.has_loss:
        return [StepLog.without_loss(log.size[at : at + steps]) for at in starts]
    return [StepLog(*(values[at : at + steps] for values in (log.loss, log.correct, log.size))) for at in starts]
