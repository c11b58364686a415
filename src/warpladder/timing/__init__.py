"""Climb: proof of each rung, timed repetitions in turns, and untimed repetitions that must give the same bits.

May import train, proof, results and what these import. Begin with `climb`; docs/benchmarking.md has the reasons.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..config import TrainConfig
from ..data.dataset import Dataset
from ..errors import ConfigError, RungError
from ..errors.arguments import called_by_name
from ..nets import Net
from ..results import Results
from ..rungs.base import Rung
from ..train.request import RunRequest
from ..train.resolve import ResolvedTask, resolve_task
from ..train.rung_choice import resolve_rungs
from .choice import contenders
from .climb_limit import ClimbLimit
from .entry import TimedEntry
from .foreign.process import CALL
from .foreign.rung import find_all, foreign, isolated, limit
from .proof_cache import ProofCache
from .repeat_command import repeat_command
from .schedule import ClimbSchedule, Found, Progress
from .task import ClimbTask, outsiders

__all__ = ["ClimbSettings", "Found", "Progress", "climb", "contenders", "run_climb"]

#: Seconds of a quick climb, without the command's start and its page: a minute in all.
FIRST_LOOK = 54.0

#: Most seconds of a call of a rung from a user's file in a quick climb.
QUICK_CALL = 20.0


@dataclass(frozen=True)
class ClimbSettings:
    """Checked settings of a climb: the parameters of `climb` of the same names.

    seconds : time limit of the climb. A limit reduces the repetitions, and leaves out long training for the test
    accuracy and peers that have no time.
    """

    epochs: int | None = None
    repeats: int = 5
    budget: float = 1.0
    quick: bool = False
    kept: bool = True
    command: str | None = None
    seconds: float = math.inf

    def __post_init__(self) -> None:
        for name, least in (("epochs", 0), ("repeats", 1)):
            value = getattr(self, name)
            if value is None and name == "epochs":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ConfigError(f"{name} wants a whole number of at least {least}, got {value!r}")
        if not isinstance(self.budget, (int, float)) or not (math.isfinite(self.budget) and self.budget > 0):
            raise ConfigError(f"budget wants seconds above 0, got {self.budget!r}")
        if not isinstance(self.seconds, (int, float)) or not self.seconds > 0:
            raise ConfigError(f"seconds wants seconds above 0, got {self.seconds!r}")


@called_by_name
def climb(
    net: Net | str,
    data: Dataset | str,
    config: TrainConfig | None,
    rungs: Sequence[Rung | str] | None = None,
    *,
    epochs: int | None = None,
    repeats: int = 5,
    budget: float = 1.0,
    quick: bool = False,
    kept: bool = True,
    progress: Progress | None = None,
    found: Found | None = None,
    command: str | None = None,
    seconds: float = math.inf,
) -> Results:
    """Prove that rungs train a net, and measure the speed of each.

    Parameters
    ----------
    net, data, config
        As in `train`; names too, and None is the net's recipe.
    rungs : sequence of Rung or str, optional
        Rungs and peers, in the order of the ladder; default: the whole ladder and the strongest variant of each peer.
    epochs : int or None
        Epochs of training before the test accuracy is measured; None takes the settings' epochs.
    repeats : int
        Timed repetitions. Rungs take turns, so that a disturbance of the machine hits all of them.
    budget : float
        Most seconds of one repetition of one rung. If an epoch is longer, its first steps are timed, and the figures
        are marked as scaled. A rung whose training would take more than 10 budgets has no test accuracy.
    quick : bool
        End within a minute: begin with the fastest rung, go down the ladder as far as there is time, then take peers;
        no accuracy and no peak memory.
    kept : bool
        True takes proofs from earlier climbs of the same code, data, settings and machine.
    progress : callable or None
        Called with the present activity, the number of finished parts, the number of all parts, and the seconds left.
    found : callable or None
        Called with the results so far, and the rung that got its first time or failed, else None. The last call comes
        before an interrupt or an error leaves the climb; `stopped` of its results is the reason.
    command : str or None
        Command that repeats this climb, for the results; None makes one.
    seconds : float
        Seconds in which the climb is to end. Repetitions, training for the test accuracy and peers for which no time
        is left are left out, never a rung.

    Returns
    -------
    Results
        Every rung is listed: timed, or with the reason why not. An error within a rung is never raised.

    Raises
    ------
    ArgumentError, ConfigError, DataError, NetError, OutOfMemoryError, RungError
        An argument has the wrong type or does not fit the others.
    """
    settings = ClimbSettings(epochs, repeats, budget, quick, kept, command, seconds)
    task = resolve_task(RunRequest(net, data, config))
    if not isinstance(rungs, (str, Rung)) and isinstance(rungs, Iterable):
        rungs = find_all(list(rungs))
    chosen = contenders(task.net, task.config, quick=quick) if rungs is None else resolve_rungs(rungs)
    return run_climb(task, chosen, settings, progress, found)


def run_climb(
    resolved: ResolvedTask,
    rungs: Sequence[Rung],
    settings: ClimbSettings,
    progress: Progress | None = None,
    found: Found | None = None,
) -> Results:
    """Climb with a resolved task; results and errors as in `climb`."""
    rungs = list(map(foreign, rungs))
    if outsiders(resolved.net, resolved.config):
        rungs = [isolated(rung, resolved.net, resolved.config) for rung in rungs]
    for rung in rungs:
        limit(rung, QUICK_CALL if settings.quick else CALL)
    names = [rung.name for rung in rungs]
    if not names:
        raise RungError("a climb wants at least one rung")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise RungError(f"a climb wants each rung only once, got {', '.join(twice)} twice or more")
    epochs = resolved.config.epochs if settings.epochs is None else settings.epochs
    config, quick = resolved.config.but(epochs=epochs), settings.quick  # a schedule may end with the run
    task = ClimbTask(
        resolved.net, resolved.data, config, epochs, settings.repeats, settings.budget, is_scored=not quick
    )
    command = settings.command
    if command is None:
        command = repeat_command(task, rungs, quick=quick, standardize=resolved.standardized)
    first_look = ["a first look: no accuracy, no peak memory, and only what could be begun in time"]
    return ClimbSchedule(
        task,
        [TimedEntry(rung, task) for rung in rungs],
        command,
        ProofCache(task) if settings.kept else None,
        progress,
        found,
        limit=ClimbLimit(min(settings.seconds, FIRST_LOOK) if quick else settings.seconds),
        is_quick=quick,
        has_memory=not quick,
        notes=first_look if quick else [],
    ).run()
