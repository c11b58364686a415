"""Rung from a user's file in a climb: its code runs in a separate process, never in the climb's."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import make_dataclass, replace
from functools import partial
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

from ... import ladder
from ...checkpoint import net_to_json
from ...config import TrainConfig
from ...device.emulator.toolchain import runtime, why_not
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
VARIED = (
    "title",
    "idea",
    "precision",
    "sums",
    "unit",
    "transforms",
    "proof_flops",
    "tunes",
    "deviations",
    "weighs_samples",
)

#: Fields of `Rung` in a description.
OWN_FIELDS = (*VARIED, "name", "peer")

#: Usual limit in seconds of the check of a user's kernels; each launch has its own limit.
INSPECTION = 30.0

_known: dict[tuple[Path, str], Rung] = {}


class BrokenFile(RungError):
    """Error: a user's file ended or hung its process while it was read, or asked what it can train."""


class AnyValue(Kind):
    """Kind of an option that the user's file defines: the file's process checks the value."""

    wanted = "a value that the rung takes"
    form = "VALUE"

    def holds(self, value: object) -> bool:
        return True


class ForeignRung:
    """Functions of a rung that run in separate processes, one for each variant of its options.

    name : name for `ladder.find` in these processes, without options.
    path, shown : the user's file, and its spelling by the user; path is None for a rung of the package that trains a
    user's layers.
    call : most seconds of one call.
    """

    def __init__(self, name: str, path: str | None = None, shown: str = "") -> None:
        self.name, self.path, self.shown, self.call = name, path, shown, CALL
        self.outside: Mapping[str, Any] = {}
        self.processes: dict[str, ForeignProcess] = {}
        self.about: dict[str, Any] = {}
        self.error: BrokenFile | None = None  # why the file cannot be read
        self.is_training = False  # True while the variant without options trains, in the process that also describes

    def process(self, chosen: str = "") -> ForeignProcess:
        """Living process of a variant; started if needed."""
        if self.error is not None:
            raise self.error
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
        """Result of a call before any training; the process is paused afterwards."""
        try:
            answer = process.request(*call)
            process.pause()
            return answer
        except ForeignEnd as error:
            raise BrokenFile(f"{self.shown}: {error}, while the file was read") from None
        except ForeignFault as error:
            raise BrokenFile(f"{self.shown}: {type(error).__name__} in {error.place}: {error}") from None

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
        """Result of the separate checks of a user's kernels, before any training; None for other rungs.

        Raises RungError: a kernel has an error; its message is one line.
        """
        if not own_op.is_own_op(self.name):
            return None
        self._bring(net, config)
        named, process = self._named(str(options)), self.process(str(options))
        if why_not() is None:  # the emulator is compiled once, and that is no time of the file's
            for mode in ("check", "count", "fast"):
                runtime(mode)
        found = process.request("inspect", named, net_to_json(net), config.as_dict(), seconds=INSPECTION)
        return OwnInspection(*map(str, found))

    def vary(self, rung: Rung, options: Options) -> dict[str, Any]:
        """Fields of the rung that these options change, by name."""
        about = self._request(self.process(), "describe", self._named(str(options)))
        return _fields(about, VARIED)

    def close(self, chosen: str) -> str:
        """End the process of a variant; return a message about its output."""
        process = self.processes.pop(chosen, None)
        if chosen and not self.is_training:
            self.close("")
        self.is_training &= bool(chosen)
        if process is None:
            return ""
        process.close()
        return process.output()

    def _bring(self, net: Net, config: TrainConfig) -> None:
        """Restart the processes if this net or optimizer is from another user file than before."""
        outside = origins(kinds(net, config))
        if outside != self.outside:
            for chosen in tuple(self.processes):
                self.close(chosen)
            self.outside = outside


def find(name: str) -> Rung:
    """Rung of a name. A user's file is run in a separate process only.

    Raises
    ------
    RungError
        See `ladder.find`; also raised if the file ends or hangs its process.
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


def find_all(rungs: Sequence[str | Rung]) -> list[Rung]:
    """Rungs of a climb, by their names. Of several, one whose file ends or hangs its process while it is read is
    listed: its row will have the reason.
    """
    found = find if len(rungs) == 1 else _found
    return [found(rung) if isinstance(rung, str) else rung for rung in rungs]


def _found(name: str) -> Rung:
    try:
        return find(name)
    except BrokenFile as error:
        owner = ForeignRung(name, name, name)
        owner.error = error
        return Rung(
            name, "not read", "Its file ends the process that reads it.", owner.build, owner.unsupported, path=name
        )


def _own_op(name: str) -> Rung:
    """Rung of a user's operations and their files, named as for `find`."""
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
    """Rung in a separate process if it was loaded from a user's file; any other rung unchanged."""
    if of(rung) is not None or os.name != "posix":
        return rung
    if own_op.is_own_op(rung.name):
        return find(rung.name)
    if rung.path is None:
        return rung
    return find(":".join([rung.path, *filter(None, [str(rung.options)])]))


def isolated(rung: Rung, net: Net, config: TrainConfig) -> Rung:
    """Rung of the package in a separate process if its net or optimizer is a user's; any other rung unchanged."""
    name = ladder.spelled(rung.base) if rung.path is None and of(rung) is None and os.name == "posix" else None
    if name is None:
        return rung
    try:
        origins(kinds(net, config))
    except ImportError:  # defined in the program itself, and so in this process
        return rung
    build = partial(ForeignRung(name).build, options=rung.options)
    return replace(rung, build=build, plain=None, vary=None)


def is_isolated(rung: Rung) -> bool:
    """True if a rung is the package's own but runs in a separate process."""
    owner = of(rung)
    return owner is not None and owner.path is None


def of(rung: Rung) -> ForeignRung | None:
    """`ForeignRung` of a rung that runs in a separate process, else None."""
    build: Any = rung.build
    while isinstance(build, partial):
        build = build.func
    owner = getattr(build, "__self__", None)
    return owner if isinstance(owner, ForeignRung) else None


def spelled(rung: Rung) -> str | None:
    """Name of a rung for `ladder.find` in another process; None if it has no name."""
    owner = of(rung)
    return ladder.spelled(rung) if owner is None else ":".join([owner.name, *filter(None, [str(rung.options)])])


def end(rung: Rung) -> str:
    """End the process of a rung from a user's file, if it runs; return a message about its output."""
    owner = of(rung)
    return "" if owner is None else owner.close(str(rung.options))


def inspected(rung: Rung, net: Net, config: TrainConfig) -> OwnInspection | None:
    """Result of the separate checks of a user's kernels; None for other rungs. Errors as `ForeignRung.inspect`."""
    owner = of(rung)
    return None if owner is None else owner.inspect(net, config, rung.options)


def limit(rung: Rung, seconds: float) -> None:
    """Set the most seconds of one call of a rung from a user's file."""
    if (owner := of(rung)) is not None:
        owner.call = seconds


def _opened(path: str, shown: str, name: str = "") -> Rung:
    """Rung of a file, or of an operation's name and files, described by its process."""
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
    """Options object of a new class with the described options."""
    if len(about) == 2 and isinstance(about[0], str):
        return getattr(import_module(about[0]), about[1])()
    parts = []
    for name, kind, values, help in about:
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
        parts.append((name, Any, option(getattr(kinds_of_options, kind)(**values) if kind else AnyValue(), help)))
    return make_dataclass("ForeignOptions", parts, bases=(Options,), frozen=True)()
