"""Experiments that profile: time and memory of the parts of a training step, for several rungs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ....ladder import find
from ....results.profiled import KernelTime, Part, Profile
from ....results.reader import read
from ....results.stored import reading
from ....timing.profile import profile
from ..experiments import Bench, Found, TrainingTask, canonical, file_of, keep, no_measure
from ..results import Value


@dataclass(frozen=True)
class Profiling(TrainingTask):
    """Experiment that profiles one training task with several rungs."""

    kind: ClassVar[str] = "profiles"

    def measure(self, name: str, bench: Bench) -> None:
        data = self.dataset(bench)
        net = bench.net(self.net, data)
        reasons: dict[str, str] = {}
        for at, rung in enumerate(map(find, self.rungs)):
            path = file_of(name, bench.folder, rung.name)
            if path.exists():
                continue
            if reason := rung.unsupported(net, self.config):
                reasons[rung.name] = reason
                bench.watcher.news(f"{rung.name}: not here: {reason}")
                continue
            bench.say(f"profiling {rung.name}", at, len(self.rungs))
            found = profile(rung, net, data, self.config)
            found.save(path)
            bench.watcher.news(
                f"{rung.name}: a step takes {found.step_seconds * 1e3:.3g} ms, its {len(found.parts)} parts "
                f"{found.parts_seconds * 1e3:.3g} ms"
            )
            bench.written()
        keep({"absent": reasons}, name, bench.folder)

    def check_measure(self, measure: str) -> None:
        if measure in ("curve:roofline", "curve:roof"):
            return
        shared = measure.startswith("share:")
        for kind, _ in _summed_parts(measure.removeprefix("share:")):
            if kind not in (_SHARED if shared else _KNOWN):
                raise no_measure(
                    measure,
                    (*_KNOWN, "memory:COMPONENT", "transfers:WHAT", "phase:P", "layer:L:P", "kernel:NAME", "share:..."),
                )

    def found(self, name: str, folder: Path) -> Profiled | None:
        profiles = {
            each: Profile.load(path)
            for each in map(canonical, self.rungs)
            if (path := file_of(name, folder, each)).exists()
        }
        ended = file_of(name, folder)
        reasons: dict[str, str] = {}
        if ended.exists():
            with reading(ended) as tree:
                reasons = read(dict[str, dict[str, str]], tree, "").get("absent", {})
        return Profiled(profiles, reasons, ended.exists()) if profiles or reasons else None


_KNOWN = (
    "step_seconds", "parts_seconds", "rest_seconds", "rest_share", "achieved", "host_bytes", "flops", "launches",
    "memory", "transfers", "phase", "layer",
    "kernel", "intensity", "floor_share", "kernel_seconds", "kernel_share",
)  # fmt: skip

#: Kinds of measures that have a share of all parts' time.
_SHARED = ("phase", "layer", "kernel")


def _summed_parts(measure: str) -> list[tuple[str, str]]:
    """(kind, name) of each part of a profile whose times a measure sums. "phase:forward+loss" names two phases,
    "layer:ReLU+phase:loss" a layer and a phase.
    """
    out: list[tuple[str, str]] = []
    for each in measure.split("+"):
        kind, colon, rest = each.partition(":")
        out.append((kind, rest) if colon or kind in _KNOWN or not out else (out[-1][0], each))
    return out


@dataclass(frozen=True)
class Profiled(Found):
    """Profiles by the rung's name.

    reasons : reasons for rungs without a profile, by name. whole : True if every possible rung was profiled.
    """

    profiles: dict[str, Profile]
    reasons: dict[str, str]
    whole: bool

    def value(self, rung: str, measure: str) -> Value | None:
        """Figure of a training step, or the sum of several with + between them.

        "step_seconds", "parts_seconds", "host_bytes", "flops", "achieved" FLOP/s, "launches", "memory", "transfers";
        "rest_seconds" and "rest_share" for the time of a step beyond its parts: copies, starting and waiting;
        "memory:COMPONENT" and "transfers:WHAT" for one component; "phase:forward" for the parts of a phase;
        "layer:Linear" or "layer:Linear:backward" for the parts with a layer of a kind; "kernel:sgd_step" for all
        launches of a kernel, with any template arguments; "share:" before any of the last three for their share of the
        time of all parts, or of all kernels. "intensity" is FLOPs per byte of the parts' smallest traffic,
        "floor_share" the smallest possible time of the parts as a share of the step's time.
        """
        if measure.startswith("share:"):
            return self._share(rung, measure.removeprefix("share:"))
        found = self.profiles.get(canonical(rung))
        figures = []
        for kind, rest in _summed_parts(measure):
            if kind not in _KNOWN:
                raise no_measure(measure, _KNOWN)
            figures.append(None if found is None else _figure(found, kind, rest))
        there = [figure for figure in figures if figure is not None]
        return Value(here=sum(there)) if there else None

    def _share(self, rung: str, measure: str) -> Value | None:
        """Time of parts or kernels as a share of the time of all parts or kernels."""
        if measure.partition(":")[0] not in _SHARED:
            raise no_measure(f"share:{measure}", [f"share:{each}" for each in _SHARED])
        own, found = self.value(rung, measure), self.profiles.get(canonical(rung))
        if own is None or own.here is None or found is None:
            return None
        every = (
            sum(kernel.seconds for kernel in _kernels(found)) if measure.startswith("kernel:") else found.parts_seconds
        )
        return Value(here=own.here / every)

    def curve(self, rung: str, measure: str) -> tuple[list[float], list[float]] | None:
        """Points of a roofline: "roofline" is a step's FLOPs per byte and its FLOP/s, "roof" the device's limits."""
        found = self.profiles.get(canonical(rung))
        intensity = None if found is None else _figure(found, "intensity", "")
        if found is None or intensity is None:
            return None
        if measure == "roofline":
            return [intensity], [found.flops / found.step_seconds]
        peak, bandwidth = found.flops_per_second, found.bytes_per_second
        if not (peak and bandwidth and peak > 0 and bandwidth > 0):
            return None
        ridge = peak / bandwidth
        ends = [min(ridge, intensity) / 10, ridge, max(ridge, intensity) * 10]
        return ends, [min(peak, bandwidth * x) for x in ends]

    def is_time(self, measure: str) -> bool:
        kinds = {kind for kind, _ in _summed_parts(measure.removeprefix("share:"))}
        return bool(kinds - {"host_bytes", "flops", "launches", "memory", "transfers", "intensity"})

    def reason(self, rung: str) -> str:
        return self.reasons.get(canonical(rung), "")

    def name_of(self, rung: str) -> str:
        return canonical(rung)


def _figure(found: Profile, what: str, rest: str) -> float | None:
    """Figure of a profile by its measure `what` and the name after the colon, `rest`; None if it was not measured."""
    kernels = _kernels(found)
    if what in ("memory", "transfers"):
        wanted = [size for name, size in getattr(found, what).items() if rest in ("", name)]
        return float(sum(wanted)) if wanted else None
    if what == "launches":
        return float(sum(kernel.launches for kernel in kernels))
    if what == "kernel":
        chosen = [kernel.seconds for kernel in kernels if rest in (kernel.name, kernel.name.partition("<")[0])]
        return sum(chosen) if chosen else None
    if what in ("phase", "layer"):
        seconds = [part.seconds for part in found.parts if _is(part, what, rest)]
        return sum(seconds) if seconds else None
    if what == "intensity":
        moved = sum(part.floor.bytes for part in found.parts)
        return sum(part.floor.flops for part in found.parts) / moved if moved else None
    if what == "floor_share":
        least = sum(part.floor.seconds(found.flops_per_second, found.bytes_per_second) for part in found.parts)
        return least / found.step_seconds if least > 0 else None  # unknown peaks give NaN
    if what in ("kernel_seconds", "kernel_share"):
        taken = sum(kernel.seconds for kernel in kernels)
        return (taken / found.step_seconds if what == "kernel_share" else taken) if kernels else None
    if what == "achieved":
        return found.flops / found.step_seconds
    if what.startswith("rest_"):
        rest_seconds = found.step_seconds - found.parts_seconds
        return rest_seconds / found.step_seconds if what == "rest_share" else rest_seconds
    return float(getattr(found, what))


def _kernels(found: Profile) -> list[KernelTime]:
    return [kernel for part in found.parts for kernel in part.kernels]


def _is(part: Part, what: str, rest: str) -> bool:
    if what == "phase":
        return part.phase == rest
    layer, _, phase = rest.partition(":")
    return layer in part.name.replace(",", " ").split() and phase in ("", part.phase)
