"""Choice of a rung: by its name, as a default, or from a checkpoint; and options for several rungs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import ladder
from ..checkpoint import Checkpoint
from ..config import TrainConfig
from ..errors import ArgumentError, RungError
from ..errors.arguments import kind_of
from ..nets import Net
from ..rungs.base import Rung
from .auto import AUTO, fastest


class RungChoice(NamedTuple):
    """Rung with its options, and the reason for its choice."""

    rung: Rung
    reason: str


def choose_rung(
    rung: Any, options: Mapping[str, Any], before: Checkpoint | None, task: tuple[Net, TrainConfig, np.ndarray]
) -> RungChoice:
    """Rung of a run; for None the rung that trained `before`, the run to continue, else the choice of "auto".

    options : options in addition to those in the rung's name, as for `with_shared`.
    task : net, settings and training samples, as trainers take them, for "auto".
    """
    if rung is not None and rung != AUTO:
        choice = RungChoice(resolve_rung(rung), "requested")
    elif before is not None and rung is None:
        choice = RungChoice(rung_of(before), "it trained the checkpoint")
    else:
        net, config, x = task
        name, reason = fastest(net, config, len(x), x=x)
        choice = RungChoice(ladder.find(name), f"{AUTO}: {reason}")
    return choice._replace(rung=with_shared([choice.rung], options)[0])


def resolve_rung(rung: Any) -> Rung:
    """Rung, given directly or by its name.

    Raises ArgumentError: it is neither a rung nor a name. Raises RungError: the name is unknown.
    """
    if isinstance(rung, str):
        return ladder.find(rung)
    if not isinstance(rung, Rung):
        raise ArgumentError(f"rung wants a Rung or a name such as 'native', got {kind_of(rung)}: see wl.ladder.LADDER")
    return rung


def resolve_rungs(rungs: Any) -> list[Rung]:
    """List of rungs, given directly or by names.

    Raises ArgumentError: an item is neither a rung nor a name. Raises RungError: a name is unknown.
    """
    if isinstance(rungs, (str, Rung)) or not isinstance(rungs, Iterable):
        name = rungs if isinstance(rungs, str) else getattr(rungs, "name", "numpy")
        form = ", ".join(repr(part.strip()) for part in name.split(","))
        raise ArgumentError(f"rungs wants a list of rungs or of their names, got {kind_of(rungs)}: write [{form}]")
    return [resolve_rung(rung) for rung in rungs]


def rung_of(checkpoint: Checkpoint) -> Rung:
    """Rung that trained a checkpoint. Raises `RungError` if it is a user's."""
    try:
        return ladder.find(checkpoint.rung)
    except RungError:
        raise RungError(
            f"the checkpoint was trained by the rung {checkpoint.rung!r}, which is none of warpladder's: "
            "name its file, as --rung ./mine.py, or another rung, as --rung numpy"
        ) from None


def with_shared(rungs: Sequence[Rung], options: Mapping[str, Any]) -> list[Rung]:
    """List of rungs with common options; each option is set on the rungs that have it and do not set it in their name.

    options : threads, device and block_size by name, or None. Raises RungError: no rung has one of the options.
    """
    out = list(rungs)
    for name, value in options.items():
        if value is None:
            continue
        if not any(_accepts(rung, name) for rung in out):
            having = ", ".join(rung.name for rung in ladder.LADDER if _accepts(rung, name))
            subject = f"rung {out[0].name!r} has" if len(out) == 1 else "these rungs have"
            raise RungError(f"{subject} no choice of {name}: leave it out, or take one of those that have it, {having}")
        out = [
            rung.but(**{name: value}) if _accepts(rung, name) and name not in rung.options.chosen() else rung
            for rung in out
        ]
    return out


def _accepts(rung: Rung, name: str) -> bool:
    """True if the rung has a shared option. A peer's device is another option, and a peer on a GPU has no threads."""
    if name == "threads":
        return rung.threaded
    return rung.has(name) and (name != "device" or rung.has("block_size"))
