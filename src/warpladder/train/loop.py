"""`train`: trains a net, and returns its run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ..checkpoint import EpochLog, save
from ..config import TrainConfig
from ..data.dataset import Dataset
from ..errors.arguments import called_by_name, wanted
from ..errors.warning import warn
from ..nets import CrossEntropyLoss, Net
from ..ops.jit.compile_time import compiling
from ..rungs.base import Rung
from .epochs import TrainingLoop
from .interrupt import Interrupt
from .model import Model
from .request import RunRequest, Weights
from .resolve import ResolvedRun, resolve
from .restore import to_state
from .run import Run
from .saving import Saving

if TYPE_CHECKING:
    from rich.progress import Progress

    from .progress import Show


@called_by_name
def train(
    net: Net | str,
    data: Dataset | str,
    config: TrainConfig | None = None,
    *,
    rung: str | Rung | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    checkpoint_seconds: float | None = None,
    keep_epochs: bool = False,
    overwrite: bool = False,
    resume: str | os.PathLike[str] | None = None,
    weights: Weights | Model | None = None,
    progress: Progress | bool | None = None,
    each_epoch: Callable[[EpochLog], object] | None = None,
) -> Run:
    """Train a net. Runs repeat bit for bit on the same rung and machine, also if they are stopped and resumed.

    Parameters
    ----------
    net, data : Net and Dataset, or str
        Objects or names: "mlp" is this net for the data's samples and classes.
    config : TrainConfig, optional
        By default the net's recipe (`config.RECIPES`) or, when resuming, the checkpoint's settings.
    rung : str or Rung, optional
        By default the checkpoint's when resuming, else "auto": the rung with the shortest estimated time, with its
        start. Another rung resumes with its own arithmetic.
    checkpoint : path, optional
        Write a checkpoint to this file at the end of every epoch, and when training stops.
    checkpoint_every, checkpoint_seconds : optional
        Steps between two checkpoints within an epoch; seconds, in place of one at the end of each epoch.
    keep_epochs, overwrite : bool
        Write each epoch's checkpoint to a separate file too, as net-epoch-001.safetensors; replace existing files.
    resume : path, optional
        Continue this checkpoint's run, with its net, data and settings; only log_every and threads may differ,
        and epochs unless the schedule ends with the run. float64 numbers stay float64.
    weights : path, mapping of arrays or Model, optional
        Initial weights: of a checkpoint, of a safetensors file of a PyTorch `state_dict`, or arrays by name.
    progress, each_epoch : optional
        True, or a `rich.progress.Progress`, shows a bar; `each_epoch` is called with each epoch's figures. If it
        returns True or raises `StopTraining`, the run ends with that epoch. Any other error ends the run after its
        checkpoint was written; its `error.run` is the run so far.

    Returns
    -------
    Run
        Weights, history and, if the test part can be scored, its score.

    Raises
    ------
    ArgumentError, CheckpointError, ConfigError, DataError, NetError, OutOfMemoryError, RungError
        An argument has the wrong type, does not fit the others, or is impossible on this machine.
    UnsavedError, DivergedError, Stopped
        Only the last checkpoint could not be written (`error.run` is the run); a loss or weight is not finite; Ctrl-C
        or SIGTERM, after the checkpoint was written. A second signal stops at once.
    """
    _check_files(checkpoint, resume, weights)
    wanted("each_epoch", each_epoch, (Callable, type(None)), "a function of an epoch's log")  # type: ignore[arg-type]
    saving = Saving(checkpoint, checkpoint_every, checkpoint_seconds, keep_epochs, overwrite, resume)
    saving.check()
    given = weights.state_dict() if isinstance(weights, Model) else weights
    run = resolve(RunRequest(net, data, config, rung=rung, resume=resume, weights=given))
    for sentence in run.advice:
        warn(sentence)
    return train_run(run, saving, progress, each_epoch)


def _check_files(checkpoint: Any, resume: Any, weights: Any) -> None:
    """Raise `ArgumentError` if an argument of `train` that names a file is of another type."""
    path = (str, os.PathLike, type(None))
    wanted("checkpoint", checkpoint, path, "the path of a file to write")
    remedy = ": weights= takes it, for a new run" if isinstance(resume, Model) else ""
    wanted("resume", resume, path, f"the path of a checkpoint, which run.save(path) writes{remedy}")
    is_module = callable(getattr(weights, "state_dict", None)) and not isinstance(weights, Model)
    remedy = ": of a torch.nn.Sequential give wl.from_torch(module, in_shape)" if is_module else ""
    kinds = (*path, Mapping, Model)
    wanted(
        "weights", weights, kinds, f"a path, arrays by their names in PyTorch's state_dict, or a Run or Model{remedy}"
    )


def train_run(
    run: ResolvedRun,
    saving: Saving,
    progress: Progress | bool | None = None,
    each_epoch: Callable[[EpochLog], object] | None = None,
) -> Run:
    """Train a resolved run, after `saving.check` has found its checkpoints possible; arguments and errors as in
    `train`.
    """
    start, config = run.start, run.config
    if start.finished:
        if saving.path is not None:
            save(saving.path, start)
        return Run(start)
    with ExitStack() as stack:
        stack.enter_context(saving.claimed())
        saving.prepare_epochs(start.epoch + 1, config.epochs)
        interrupt = stack.enter_context(Interrupt())
        show: Show | None = None
        if progress is not None and progress is not False:
            from .progress import bar

            steps, accuracy = config.steps(len(run.data.train_x)), isinstance(run.net.loss, CrossEntropyLoss)
            show = stack.enter_context(bar(progress, interrupt, config.epochs, steps, accuracy=accuracy))
        say = None if show is None else show.say
        stack.enter_context(compiling.announced(say))
        trainer = stack.enter_context(run.rung.build(run.net, config, to_state(start)))
        trainer.tuned, trainer.say = start.tuned, say
        trainer.load(run.data)
        return TrainingLoop(run, trainer, saving, interrupt, show, each_epoch).to_the_end()
