"""Raw times of a rung, and the history of its training."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from ..errors import ResultsError

#: Largest relative difference of the GPU's clock between compared repetitions.
SAME_CLOCK = 0.03


@dataclass(frozen=True)
class Timing:
    """Raw times of a rung, one entry for each repetition.

    seconds, cpu_seconds : wall time, and processor time of the whole process meanwhile.
    other_seconds : processor time of other processes meanwhile; None if the system does not report it.
    steps, samples : number of training steps and samples of each repetition.
    epoch_steps, epoch_samples : number of steps and samples of one epoch.
    of_epochs : number of epochs whose first steps each repetition took, equally many of each.
    clocks : clock of the GPU at the end of each repetition, MHz; None on a CPU, or if it could not be read.
    slowed : reasons why the GPU lowered its clock in each repetition, with commas; empty for none.
    """

    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]
    other_seconds: tuple[float, ...] | None
    steps: int
    samples: int
    epoch_steps: int
    epoch_samples: int
    of_epochs: int = 1
    clocks: tuple[float, ...] | None = None
    slowed: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        processor = (self.cpu_seconds, self.other_seconds if self.other_seconds is not None else self.cpu_seconds)
        if not self.seconds or any(len(part) != len(self.seconds) for part in processor):
            raise ResultsError("a timing wants at least one repetition, and processor time for each")
        if not all(1e-9 <= s <= 1e9 for s in self.seconds) or not all(
            0 <= s <= 1e12 for part in processor for s in part
        ):
            raise ResultsError("a timing wants times between a nanosecond and thirty years")
        for name, each in (("clocks", self.clocks), ("slowed", self.slowed)):
            if each is not None and len(each) != len(self.seconds):
                raise ResultsError(f"a timing wants {name} for each repetition, or none")
        if not all(0 < clock <= 1e6 for clock in self.clocks or ()):
            raise ResultsError("a timing wants clocks between 0 and 1,000,000 MHz")
        if min(self.steps, self.samples, self.epoch_steps, self.epoch_samples, self.of_epochs) < 1:
            raise ResultsError("a timing wants at least one step and one sample")

    @property
    def scaled(self) -> bool:
        """True if only a part of each epoch was timed and seconds per epoch are extrapolated from it."""
        return self.steps < self.of_epochs * self.epoch_steps

    @property
    def epochs(self) -> tuple[float, ...]:
        """Seconds per epoch of each repetition, scaled by its number of samples."""
        return tuple(s * self.epoch_samples / self.samples for s in self.seconds)

    @property
    def set_aside(self) -> tuple[int, ...]:
        """Indices of the repetitions excluded because the GPU's clock differed from the usual one; empty if no clock
        occurs in more than half of the repetitions.
        """
        clocks = self.clocks or ()
        usual = statistics.median_low(clocks) if clocks else 0.0
        others = tuple(i for i, clock in enumerate(clocks) if not abs(clock - usual) <= SAME_CLOCK * usual)
        return others if 2 * len(others) < len(clocks) else ()

    @property
    def counted(self) -> tuple[float, ...]:
        """Seconds per epoch of the repetitions that are not excluded."""
        return tuple(seconds for i, seconds in enumerate(self.epochs) if i not in self.set_aside)

    @property
    def seconds_per_epoch(self) -> float:
        """Seconds of an epoch: the median over the repetitions that are not excluded."""
        return statistics.median(self.counted)

    @property
    def spread(self) -> float:
        """Slowest minus fastest repetition, as a share of the median, without excluded ones."""
        return (max(self.counted) - min(self.counted)) / self.seconds_per_epoch

    @property
    def disturbance(self) -> float:
        """Mean number of processors that other processes used during the timing."""
        return sum(self.other_seconds or ()) / sum(self.seconds)

    @property
    def samples_per_second(self) -> float:
        """Training samples per second, from the median time."""
        return self.epoch_samples / self.seconds_per_epoch


@dataclass(frozen=True)
class History:
    """History of training from the initial weights: entry i is epoch i + 1.

    loss : mean over the epoch's samples, as its steps reported it; None for an epoch without losses (`loss_every`).
    accuracy : share of the epoch's samples with a right output at their training step, None without a loss; None for a
    net without classes.
    seconds : wall time of the epoch; epochs trained in one call or timed together have equal parts of their time.
    """

    loss: tuple[float | None, ...]
    accuracy: tuple[float | None, ...] | None
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.seconds) != len(self.loss) or (self.accuracy is not None and len(self.accuracy) != len(self.loss)):
            raise ResultsError("a history wants loss, accuracy and seconds of the same epochs")
        if not all(share is None or 0 <= share <= 1 for share in self.accuracy or ()):
            raise ResultsError("a history wants accuracies from 0 to 1")
        if any((share is None) != (loss is None) for share, loss in zip(self.accuracy or (), self.loss, strict=False)):
            raise ResultsError("a history wants accuracy and loss of the same epochs")
