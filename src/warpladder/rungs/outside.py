"""Rung from outside the package: a user's Python file that defines `RUNG`."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import replace
from types import ModuleType

from ..config import TrainConfig
from ..errors import RungError
from ..errors.arguments import shown
from ..files.python import call, run_file
from ..machine.peaks import CORES, TENSOR
from ..machine.precision import PRECISIONS, SUMS
from ..nets import Net
from ..trainers.base import State, Trainer
from .base import Rung
from .options import Options


def is_path(name: str | os.PathLike[str]) -> bool:
    """True if a rung's name is a file's: it ends in .py, or has a folder in it."""
    name = str(name)
    return name.endswith(".py") or "/" in name or os.sep in name


def load(path: str | os.PathLike[str], taken: Collection[str]) -> Rung:
    """Rung that a file defines; the same object until the file is changed. taken : names of other rungs.

    Raises RungError: one line with the file, the line number and the reason.
    """
    name = os.fspath(path)
    if not name.endswith(".py"):
        raise RungError(f"{name}: a rung of your own is a Python file, whose name ends in .py")
    module = run_file(path, RungError)
    known = module.__dict__.get("__warpladder_rung__")
    if isinstance(known, Rung):
        return known
    if not hasattr(module, "RUNG"):
        raise RungError(
            f"{name}: defines no RUNG: end it with RUNG = Rung(name=..., title=..., idea=..., build=...), as "
            "docs/own-rung.md shows"
        )
    rung = module.RUNG
    if not isinstance(rung, Rung):
        raise RungError(f"{name}: RUNG wants to be a warpladder.ladder.Rung, got {type(rung).__name__}")
    if wrong := _fault(rung):
        raise RungError(f"{name}: RUNG: {wrong}")
    if rung.name in taken:
        raise RungError(
            f"{name}: RUNG: the name {rung.name!r} is that of a rung or peer which 'warpladder rungs' shows: "
            "give this one its own"
        )
    rung = _guarded(replace(rung, path=name), module)
    module.__dict__["__warpladder_rung__"] = rung
    return rung


def _guarded(rung: Rung, module: ModuleType) -> Rung:
    """Rung whose functions' errors become one line with the file and the line number."""
    path = str(rung.path)

    def build(net: Net, config: TrainConfig, state: State, **options: Options) -> Trainer:
        return call(module, path, RungError, lambda: rung.build(net, config, state, **options))

    def unsupported(net: Net, config: TrainConfig, **options: Options) -> str | None:
        return call(module, path, RungError, lambda: rung.unsupported(net, config, **options))

    return replace(rung, build=build, unsupported=unsupported)


def _fault(rung: Rung) -> str | None:
    """Fault in a rung's fields, as a message; None if they are valid."""
    for field in ("name", "title", "idea"):
        value = getattr(rung, field)
        if not isinstance(value, str) or not value or not value.isprintable():
            return f"{field} wants a line of text, got {shown(value)}"
    if not re.fullmatch(r"[\w.-]{1,40}", rung.name):
        return f"name wants letters, digits, - and _, at most 40, got {shown(rung.name)}"
    for field in ("build", "unsupported"):
        if not callable(getattr(rung, field)):
            return f"{field} wants a function, got {shown(getattr(rung, field))}"
    for field, known in (("precision", tuple(PRECISIONS)), ("sums", SUMS), ("unit", (None, CORES, TENSOR))):
        if (value := getattr(rung, field)) not in known:
            return f"{field} wants one of {', '.join(map(str, known))}, got {shown(value)}"
    if not isinstance(rung.deviations, tuple) or not all(isinstance(part, str) for part in rung.deviations):
        return f"deviations wants a tuple of texts, with a comma after a single one, got {shown(rung.deviations)}"
    if not isinstance(rung.options, Options) or rung.options.chosen():
        return (
            "options wants an object of a class derived from warpladder.ladder.Options with none of them set, "
            f"as KernelOptions(), got {shown(rung.options)}"
        )
    return None
