"""Experiments that profile: where a training step's time and memory go, on each of several rungs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ..ladder import find
from ..profile import profile
from ..results.files import write_whole
from ..results.profiled import Part, Profile, load_profile, save
from ..results.reproduction import Value
from .experiments import Bench, Found, Task, canonical, no_measure


@dataclass(frozen=True)
class Profiling(Task):
    """Profiles of one task, one for each rung."""

    kind: ClassVar[str] = "profiles"

    def measure(self, name: str, bench: Bench) -> None:
        data = self.dataset(bench)
        net = bench.net(self.net, data)
        reasons: dict[str, str] = {}
        for at, rung in enumerate(map(find, self.rungs)):
            path = _file(name, rung.name, bench.folder)
            if path.exists():
                continue
            if reason := rung.unsupported(net, self.config):
                reasons[rung.name] = reason
                bench.watcher.news(f"{rung.name}: not here: {reason}")
                continue
            if bench.watcher.progress:
                bench.watcher.progress(f"profiling {rung.name}", at, len(self.rungs), 0.0)
            found = profile(rung, net, data, self.config)
            save(found, path)
            bench.watcher.news(
                f"{rung.name}: a step takes {found.step_seconds * 1e3:.3g} ms, its {len(found.parts)} parts {found.parts_seconds * 1e3:.3g} ms"
            )
            bench.watcher.written()
        write_whole(bench.folder / f"{name}.json", json.dumps({"absent": reasons}, indent=1) + "\n")

    def check_measure(self, measure: str) -> None:
        if measure.partition(":")[0] not in _KNOWN:
            raise no_measure(measure, (*_KNOWN, "memory:COMPONENT", "transfers:WHAT", "phase:P", "layer:L:P"))

    def found(self, name: str, folder: Path) -> Profiled | None:
        profiles = {each: load_profile(path) for each in map(canonical, self.rungs) if (path := _file(name, each, folder)).exists()}
        ended = folder / f"{name}.json"
        reasons = json.loads(ended.read_bytes())["absent"] if ended.exists() else {}
        return Profiled(profiles, reasons, ended.exists()) if profiles or reasons else None


_KNOWN = ("step_seconds", "parts_seconds", "host_bytes", "flops", "launches", "memory", "transfers", "phase", "layer")


def _file(name: str, rung: str, folder: Path) -> Path:
    return folder / f"{name}.{rung.replace(':', '-').replace('/', '-')}.json"


@dataclass(frozen=True)
class Profiled(Found):
    """Profiles by the name of their rung.

    reasons : why a rung has none, by its name. whole : whether every rung was profiled that could be.
    """

    profiles: dict[str, Profile]
    reasons: dict[str, str]
    whole: bool

    def value(self, rung: str, measure: str) -> Value | None:
        """A figure of a step.

        "step_seconds", "parts_seconds", "host_bytes", "flops", "launches", "memory", "transfers"; "memory:COMPONENT" and "transfers:WHAT" for one of
        them; "phase:forward" for the parts of a phase; "layer:Linear" or "layer:Linear:backward" for those with a layer of a kind.
        """
        what, _, rest = measure.partition(":")
        if what not in _KNOWN:
            raise no_measure(measure, _KNOWN)
        found = self.profiles.get(canonical(rung))
        if found is None:
            return None
        if what in ("memory", "transfers"):
            parts = getattr(found, what)
            wanted = [size for name, size in parts.items() if rest in ("", name)]
            return Value(here=float(sum(wanted))) if wanted else None
        if what == "launches":
            return Value(here=float(sum(kernel.launches for part in found.parts for kernel in part.kernels)))
        if what in ("phase", "layer"):
            chosen = [part for part in found.parts if _is(part, what, rest)]
            return Value(here=sum(part.seconds for part in chosen)) if chosen else None
        return Value(here=float(getattr(found, what)))

    def reason(self, rung: str) -> str:
        return self.reasons.get(canonical(rung), "")

    def name_of(self, rung: str) -> str:
        return canonical(rung)


def _is(part: Part, what: str, rest: str) -> bool:
    if what == "phase":
        return part.phase == rest
    layer, _, phase = rest.partition(":")
    return layer in part.name.replace(",", " ").split() and phase in ("", part.phase)
