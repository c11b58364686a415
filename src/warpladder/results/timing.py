"""The raw samples of a rung's time, and the history of its training."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from ..errors import ResultsError

#: Share by which a GPU's clock may differ between repetitions that are compared.
SAME_CLOCK = 0.03


@dataclass(frozen=True)
class Timing:
    """Raw samples of a rung's time, one entry a repetition.

    seconds, cpu_seconds : wall-clock time, and processor time of the whole process over the same stretch.
    other_seconds : processor time that other processes took in the meantime; None where the system does not report it.
    steps, samples : how many training steps and samples each repetition took.
    epoch_steps, epoch_samples : how many there are in one epoch.
    of_epochs : epochs whose first steps each repetition took, equally many of each.
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
        """True where only a part of each epoch was timed and seconds per epoch are extrapolated from it."""
        return self.steps < self.of_epochs * self.epoch_steps

    @property
    def epochs(self) -> tuple[float, ...]:
        """Seconds per epoch of each repetition; scaled by the number of samples where it took fewer or more than one
        epoch.
        """
        return tuple(s * self.epoch_samples / self.samples for s in self.seconds)

    @property
    def set_aside(self) -> tuple[int, ...]:
        """Repetitions during which the GPU had another clock than in most: they do not count. None if no clock is that
        of more than half of them.
        """
        clocks = self.clocks or ()
        usual = statistics.median_low(clocks) if clocks else 0.0
        others = tuple(i for i, clock in enumerate(clocks) if not abs(clock - usual) <= SAME_CLOCK * usual)
        return others if 2 * len(others) < len(clocks) else ()

    @property
    def counted(self) -> tuple[float, ...]:
        """Seconds per epoch of the repetitions that count."""
        return tuple(seconds for i, seconds in enumerate(self.epochs) if i not in self.set_aside)

    @property
    def seconds_per_epoch(self) -> float:
        """The median over the repetitions that count."""
        return statistics.median(self.counted)

    @property
    def spread(self) -> float:
        """Slowest less fastest repetition of those that count, as a share of the median."""
        return (max(self.counted) - min(self.counted)) / self.seconds_per_epoch

    @property
    def disturbance(self) -> float:
        """Processors that other processes kept busy on average while the clock ran."""
        return sum(self.other_seconds or ()) / sum(self.seconds)

    @property
    def samples_per_second(self) -> float:
        """Training samples per second, by the median."""
        return self.epoch_samples / self.seconds_per_epoch


@dataclass(frozen=True)
class History:
    """Epochs of training from the initial weights, one after the other: entry i is epoch i + 1.

    loss : mean over the epoch's samples, as its steps reported it; None for an epoch that `loss_every` leaves without.
    accuracy : share of the epoch's samples that were right when they were trained on, None where there is no loss; None
    for a net without classes.
    seconds : of the epoch; where several were trained in one call or timed together, each has an equal part of that
    time.
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
