"""The climb: rungs are proven, then timed beside each other, then made to repeat what was timed.

How a time is believed: docs/benchmarking.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..config import TrainConfig
from ..data.dataset import Dataset
from ..errors import ConfigError, RungError
from ..nets import Net
from ..results import Results
from ..rungs.base import Rung
from ..train.asked import asked_config, asked_data, asked_net, asked_rungs
from ..trainers.base import check_fit, check_settings
from .again import again
from .contender import Contender
from .course import Course, Found, Progress
from .kept import Kept
from .task import Task

__all__ = ["Found", "Progress", "climb"]

#: A first look: no further rung is begun after so many seconds, and repetitions are few and short.
FIRST_LOOK = 30.0


def climb(
    net: Net | str,
    data: Dataset | str,
    config: TrainConfig | None,
    rungs: Sequence[Rung | str],
    *,
    epochs: int | None = None,
    repeats: int = 5,
    budget: float = 2.0,
    quick: bool = False,
    kept: bool = True,
    progress: Progress | None = None,
    found: Found | None = None,
    command: str | None = None,
) -> Results:
    """Prove that rungs train a net, and measure how fast each does.

    Parameters
    ----------
    net, data, config
        What is trained, on what, and how: as `train` takes them, names too; None is the net's recipe.
    rungs : sequence of Rung or str
        Rungs or their names, in the order of the ladder; peers may stand among them.
    epochs : int or None
        Epochs of training before the test accuracy is taken; None takes those of the settings.
    repeats : int
        Timed repetitions. Rungs take turns, so that whatever disturbs the machine disturbs all of them.
    budget : float
        Seconds that one repetition of one rung may take. Where an epoch would take longer, its first
        steps are timed and the figures marked as scaled; where `epochs` of them would take more than
        10 budgets, the rung has no test accuracy.
    quick : bool
        A first look: no further rung is begun after half a minute, and neither accuracy nor peak memory is taken.
    kept : bool
        Whether a rung may keep the proof that it was given in an earlier climb of the same code, data, settings and
        machine.
    progress : callable or None
        Called with what is being done, how many parts are done and how many there are, and about how many seconds are
        left.
    found : callable or None
        Called with the results so far whenever there is news, and with the rung that has just got its first time or
        lost its chance of one, else None. The last call comes before an interrupt or an error leaves the climb, so that
        nothing is lost; its results say in `stopped` what ended it.
    command : str or None
        What repeats this climb, as the results keep it; None makes one.

    Returns
    -------
    Results
        Every rung is listed: timed, or with the reason why not. What goes wrong within a rung never raises.

    Raises
    ------
    ArgumentError, ConfigError, RungError, DataError
        Where the whole climb makes no sense.
    """
    stored = asked_data(data)
    data = stored.standardized()
    net = asked_net(net, data)
    config = asked_config(config, net)
    rungs = asked_rungs(rungs)
    epochs = config.epochs if epochs is None else epochs
    for name, value, least in (("epochs", epochs, 0), ("repeats", repeats, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ConfigError(f"{name} wants a whole number of at least {least}, got {value!r}")
    if not isinstance(budget, (int, float)) or not (math.isfinite(budget) and budget > 0):
        raise ConfigError(f"budget wants seconds above 0, got {budget!r}")
    names = [rung.name for rung in rungs]
    if not names:
        raise RungError("a climb wants at least one rung")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise RungError(f"a climb wants each rung only once, got {', '.join(twice)} twice or more")
    config = config.but(epochs=epochs)  # a schedule may end with the run
    check_fit(net, data)
    check_settings(net, config, len(data.train_x))
    task = Task(net, data, config, epochs, repeats, budget, scored=not quick)
    if task.steps == 0:
        raise ConfigError(
            f"there is no full batch of {config.batch_size} among {task.n} samples, and drop_last leaves out the rest"
        )

    course = Course(
        task,
        [Contender(rung, task) for rung in rungs],
        again(task, rungs, quick=quick, standardize=stored is not data) if command is None else command,
        Kept(task) if kept else None,
        progress,
        found,
        last_start=FIRST_LOOK if quick else None,
        weigh=not quick,
        notes=["a first look: no accuracy, no peak memory, and no rung that could not be begun in time"]
        if quick
        else [],
    )
    return course.run()
