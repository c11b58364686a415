"""Arrays of an epoch on the device, by step: losses, correct counts, and the optimizer's numbers."""

from __future__ import annotations

import numpy as np

from ...config import TrainConfig
from ...device import Array, Device
from ...ops.engine.kernels import Log
from ...optimizers import NUMBERS

#: Entries of a log, at least: a profile repeats a step this often, however few steps an epoch has.
REPEATS = 400


class DeviceEpochLog:
    """Losses and correct counts of an epoch's steps, on the device.

    step : (1,) int32, number of the running step. entries : steps that the log can hold.
    logged : (2, entries) float64: losses, and correct counts as the bits of int64. log : its views for kernels.
    """

    def __init__(self, device: Device, step: Array, steps: int) -> None:
        self.device, self.steps, self.entries = device, steps, max(steps, REPEATS)
        self.logged = device.zeros((2, self.entries), np.float64, "log")
        self.host = device.pinned((2, self.entries), np.float64)
        loss, correct = self.logged[:1], self.logged[1:]
        self.log = Log(step, loss.reshape(loss.size), correct.reshape(correct.size).view(np.int64))

    def download(self, first: int, last: int) -> None:
        """Queue the copy of the entries of steps first..last-1 to the host; a whole epoch is one copy."""
        some, stream = slice(first, last), self.device.stream
        if last - first == self.steps:
            self.device.download(self.host, self.logged, stream)
            return
        for row, entries in enumerate((self.log.loss, self.log.correct.view(np.float64))):
            self.device.download(self.host[row, some], entries[some], stream)

    def read(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Losses (steps,) float64 and correct counts (steps,) int64 of downloaded steps."""
        loss, correct = self.host[:, first:last]
        return loss.copy(), correct.copy().view(np.int64)


class StepSettings:
    """Optimizer's settings for each step on the device: learning rate, bias corrections and others.

    numbers : (entries, NUMBERS) float32, or one row if all steps have equal settings.
    """

    def __init__(self, device: Device, config: TrainConfig, samples: int, entries: int) -> None:
        self.device, self.config, self.samples = device, config, samples
        self.rows = 1 if config.steady else entries
        self.numbers = device.zeros((self.rows, NUMBERS), np.float32, "log")
        self.host = device.pinned((self.rows, NUMBERS))  # free at the begin of a run: every run waits for its end

    def upload(self, first: int, last: int, updates: int) -> None:
        """Queue the copy of the settings of steps first..last-1, after `updates` updates, to the device."""
        some, stream = slice(first, last), self.device.stream
        self.host[some] = self.config.numbers(updates, updates + last - first, self.samples)
        self.numbers[some].upload(self.host[some], stream)
