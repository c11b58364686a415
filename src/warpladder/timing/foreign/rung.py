"""A rung from a user's file, as a climb takes it: its code runs in a process of its own, never in the climb's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import make_dataclass, replace
from functools import partial
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

from ... import ladder
from ...checkpoint import net_to_json
from ...config import TrainConfig
from ...errors import RungError
from ...files.python import origins
from ...nets import Net
from ...proof.own.kernels import OwnInspection
from ...rungs import options as kinds_of_options
from ...rungs import own_op
from ...rungs.base import Rung
from ...rungs.options import Kind, Options, option
from ...trainers.base import State, Trainer
from ..task import kinds
from .process import CALL, ForeignEnd, ForeignFault, ForeignProcess
from .trainer import ForeignTrainer

#: Fields that a variant may change.
VARIED = ("title", "idea", "precision", "sums", "unit", "transforms", "proof_flops", "tunes", "deviations")

#: Fields of a description that are `Rung`'s own.
OWN_FIELDS = (*VARIED, "name", "peer")

#: Seconds that the check of a user's kernels may take in usual cases; one launch has a limit of its own.
INSPECTION = 30.0

_known: dict[tuple[Path, str], Rung] = {}


class AnyValue(Kind):
    """The kind of an option whose kind is the user's own: its process reads and checks the value."""

    wanted = "a value that the rung takes"
    form = "VALUE"

    def holds(self, value: object) -> bool:
        return True


class ForeignRung:
    """The functions of a rung whose code runs in processes of its own, one for each variant.

    name : by which `ladder.find` gives the rung in such a process, without options.
    path, shown : the user's file, and how the user wrote it; path is None for a rung of the package that trains a
    user's layers.
    call : seconds that one call may take.
    """

    def __init__(self, name: str, path: str | None = None, shown: str = "") -> None:
        self.name, self.path, self.shown, self.call = name, path, shown, CALL
        self.outside: Mapping[str, Any] = {}
        self.processes: dict[str, ForeignProcess] = {}
        self.about: dict[str, Any] = {}
        self.is_training = False  # the plain variant, in the process that also describes

    def process(self, chosen: str = "") -> ForeignProcess:
        """The living process of a variant, started if there is none."""
        process = self.processes.get(chosen)
        if process is None or process.reason:
            process = self.processes[chosen] = ForeignProcess(self.call)
            process.shown = self.path or "", self.shown
            self.about = self._request(process, "open", self._named(chosen), self.path, dict(self.outside))
        process.call = self.call
        return process

    def _named(self, chosen: str) -> str:
        return f"{self.name}:{chosen}" if chosen else self.name

    def _request(self, process: ForeignProcess, *call: Any) -> Any:
        """The result of a call before any training; the process is stopped afterwards."""
        try:
            answer = process.request(*call)
            process.pause()
            return answer
        except ForeignEnd as error:
            raise RungError(f"{self.shown}: {error}, while the file was read") from None
        except ForeignFault as error:
            raise RungError(f"{self.shown}: {type(error).__name__} in {error.place}: {error}") from None

    def build(self, net: Net, config: TrainConfig, state: State, options: Options = Options()) -> Trainer:
        self._bring(net, config)
        process = self.process(str(options))
        self.is_training |= not str(options)
        number = process.request("build", net_to_json(net), config.as_dict(), state)
        return ForeignTrainer(process, number, net, config)

    def unsupported(self, net: Net, config: TrainConfig, options: Options = Options()) -> str | None:
        self._bring(net, config)
        name = self._named(str(options))
        reason = self._request(self.process(), "unsupported", name, net_to_json(net), config.as_dict())
        return None if reason is None else str(reason)

    def inspect(self, net: Net, config: TrainConfig, options: Options) -> OwnInspection | None:
        """What the kernels of a user's operation do by themselves, before any training; None for other rungs.

        Raises RungError: a fault of a kernel, in one line.
        """
        if not own_op.is_own_op(self.name):
            return None
        self._bring(net, config)
        named, process = self._named(str(options)), self.process(str(options))
        found = process.request("inspect", named, net_to_json(net), config.as_dict(), seconds=INSPECTION)
        return OwnInspection(*map(str, found))

    def vary(self, rung: Rung, options: Options) -> dict[str, Any]:
        """Fields that these options change."""
        about = self._request(self.process(), "describe", self._named(str(options)))
        return _fields(about, VARIED)

    def close(self, chosen: str) -> str:
        """End the process of a variant; return a line about what it printed."""
        process = self.processes.pop(chosen, None)
        if chosen and not self.is_training:
            self.close("")
        self.is_training &= bool(chosen)
        if process is None:
            return ""
        process.close()
        return process.output()

    def _bring(self, net: Net, config: TrainConfig) -> None:
        """Begin new processes if this net or optimizer comes from another file than before."""
        outside = origins(kinds(net, config))
        if outside != self.outside:
            for chosen in tuple(self.processes):
                self.close(chosen)
            self.outside = outside


def find(name: str) -> Rung:
    """The rung of a name; the file of one from outside is not run in this process.

    Raises
    ------
    RungError
        As `ladder.find`; also if the file ends or hangs its process.
    """
    if os.name == "posix" and own_op.is_own_op(str(name)):
        return _own_op(str(name))
    place, ending, chosen = str(name).partition(".py:")
    path = f"{place}.py" if ending else place
    if os.name != "posix" or not path.endswith(".py"):
        return ladder.find(name)
    full = Path(path).expanduser()
    if not full.is_file():
        return ladder.find(name)  # which has the message
    full = full.resolve()
    key = full, sha256(full.read_bytes()).hexdigest()
    if key not in _known:
        _known[key] = _opened(str(full), path)
    rung = _known[key]
    return rung.but(**ladder.read_options(rung, chosen.split(":"))) if chosen else rung


def _own_op(name: str) -> Rung:
    """The rung of operations and files, as `find`."""
    spec, chosen = own_op.split(name)
    full, shown = own_op.absolute(spec), own_op.files(spec)
    paths = [Path(file) for file in own_op.files(full)]
    if not all(path.is_file() for path in paths):
        return ladder.find(name)  # which has the message
    digest = sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
    key = Path(f"{spec} {full}"), digest
    if key not in _known:
        rung = _opened(str(paths[0]), shown[0], full)
        _known[key] = replace(rung, name=spec)
    rung = _known[key]
    return rung.but(**ladder.read_options(rung, chosen)) if chosen else rung


def foreign(rung: Rung) -> Rung:
    """A rung that was loaded from a file in this process, as one of a process of its own; others as they are."""
    if of(rung) is not None or os.name != "posix":
        return rung
    if own_op.is_own_op(rung.name):
        return find(rung.name)
    if rung.path is None:
        return rung
    return find(":".join([rung.path, *filter(None, [str(rung.options)])]))


def isolated(rung: Rung, net: Net, config: TrainConfig) -> Rung:
    """A rung of the package that trains layers or an optimizer of a user's file, as one of a process of its own."""
    name = ladder.spelled(rung.base) if rung.path is None and of(rung) is None and os.name == "posix" else None
    if name is None:
        return rung
    try:
        origins(kinds(net, config))
    except ImportError:  # they are in the program itself, and so in this process
        return rung
    build = partial(ForeignRung(name).build, options=rung.options)
    return replace(rung, build=build, plain=None, vary=None)


def is_isolated(rung: Rung) -> bool:
    """True if a rung is one of the package in a process of its own."""
    owner = of(rung)
    return owner is not None and owner.path is None


def of(rung: Rung) -> ForeignRung | None:
    """The functions of a rung whose code runs in a process of its own, else None."""
    build: Any = rung.build
    while isinstance(build, partial):
        build = build.func
    owner = getattr(build, "__self__", None)
    return owner if isinstance(owner, ForeignRung) else None


def spelled(rung: Rung) -> str | None:
    """The text by which `ladder.find` gives a rung in another process; None where nothing gives it."""
    owner = of(rung)
    return ladder.spelled(rung) if owner is None else ":".join([owner.name, *filter(None, [str(rung.options)])])


def end(rung: Rung) -> str:
    """End the process of a rung from outside, if there is one; return a line about what it printed."""
    owner = of(rung)
    return "" if owner is None else owner.close(str(rung.options))


def inspected(rung: Rung, net: Net, config: TrainConfig) -> OwnInspection | None:
    """What the kernels of a user's operation do by themselves; None for other rungs. Raises as `inspect`."""
    owner = of(rung)
    return None if owner is None else owner.inspect(net, config, rung.options)


def limit(rung: Rung, seconds: float) -> None:
    """Set the seconds that one call of a rung from outside may take."""
    if (owner := of(rung)) is not None:
        owner.call = seconds


def _opened(path: str, shown: str, name: str = "") -> Rung:
    """The rung of a file, or of this name with files, described by its process."""
    owner = ForeignRung(name or path, path, shown)
    owner.process()
    about = owner.about
    has_options = bool(about["options"])
    return Rung(
        build=owner.build,
        unsupported=owner.unsupported,
        options=_options(about["options"]),
        path=shown,
        vary=owner.vary if has_options else None,
        **_fields(about, OWN_FIELDS),
    )


def _fields(about: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: tuple(about[name]) if name == "deviations" else about[name] for name in names}


def _options(about: list[Any]) -> Options:
    """An object of a class with the described options."""
    if len(about) == 2 and isinstance(about[0], str):
        return getattr(import_module(about[0]), about[1])()
    parts = []
    for name, kind, values, help in about:
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
        parts.append((name, Any, option(getattr(kinds_of_options, kind)(**values) if kind else AnyValue(), help)))
    return make_dataclass("ForeignOptions", parts, bases=(Options,), frozen=True)()
