"""Checks of a user's kernels before they train: every access is checked on the emulator, and the results are compared
with the float64 reference, on a net's shapes and on ragged ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...config import TrainConfig
from ...device import Array, Device, Launch
from ...errors import KernelError, RungError
from ...nets import Conv2d, Layer, Linear, Net
from ...ops.engine.base import Buffers
from ...ops.engine.layer_files import form
from ...ops.own.kernel_file import KernelFile, OwnLaunch, bind, command
from ...ops.own.roles import values
from ...ops.own.segment import rows
from ...rungs import own_op
from ...rungs.base import Rung
from ..tolerance import bound
from .counted import counted
from .update import check_update
from .watched import send_watched

#: Multiply-adds of a launch: of a larger layer fewer samples are taken, one at least.
MOST = 1 << 21
#: Numbers of parameters with which an update is checked, besides the net's.
RAGGED_COUNTS = (1, 33, 1000)
#: Samples of a case at most: no multiple of a block's side.
SAMPLES = 5


class OwnInspection(NamedTuple):
    """Result of a check of a user's kernels. text : summary for people. command : repeats the first launch's check."""

    text: str
    command: str


@dataclass(frozen=True)
class OwnCase:
    """Layer with the shape of its input, for n samples; `ragged` if the net has no such shapes."""

    layer: Layer
    in_shape: tuple[int, ...]
    n: int
    ragged: bool

    def __str__(self) -> str:
        shape = " x ".join(map(str, (self.n, *self.in_shape)))
        return f"{self.layer} on {shape}"


def inspect(rung: Rung, net: Net, config: TrainConfig, abort: Callable[[str], None]) -> OwnInspection:
    """Check the kernels of a rung with a user's operations.

    abort : function that ends the process, called with a message by another thread if a launch does not end.
    Raises RungError: the first fault, with a command to run.
    """
    from ...device import emulator

    spec, _ = own_op.split(rung.name)
    pairs = tuple((op.lower(), file) for op, file in (part.split("=", 1) for part in spec.split("+")))
    files = own_op.kernel_files(pairs, config)
    if not files:
        return OwnInspection("", "")
    if (reason := emulator.why_not()) is not None:
        return OwnInspection(f"not checked: {reason}", "")
    tried: dict[bool, set[object]] = {False: set(), True: set()}
    first = ""
    counts: dict[object, str] = {}
    for _, kind, file in files:
        if isinstance(kind, str):
            for count in (net.param_count, *(() if file.fixed else RAGGED_COUNTS)):
                first = check_update(file, config, count, abort) or first
                tried[count != net.param_count].add(count)
            continue
        for case in cases(net, kind, file.fixed):
            for order in ("forward", "reverse") if case.ragged else ("forward",):
                checked = OwnCheck(file, case, order, abort)
                first = first or checked.commands[0]
                checked.run()
            tried[case.ragged].add(case)
            if not case.ragged and kind not in counts:
                counting = OwnCheck(file, case, "forward", abort, "count")
                counting.run()
                counts[kind] = f"On {case}, {'; '.join(counting.counts)}."
    own, others = len(tried[False]), len(tried[True])
    ragged = f" and {others} ragged ones" if others else "; ragged ones are left out, as the file asks"
    text = f"each access and each result checked on the emulator, at {own} shape{'s' * (own > 1)} of the net{ragged}"
    return OwnInspection(". ".join([text, *counts.values()]).rstrip("."), first)


def cases(net: Net, kind: type[Layer], fixed: bool) -> Iterator[OwnCase]:
    """Cases with layers of this class: the net's, each shape once, then ragged ones."""
    found = {(layer, net.shapes[i]): None for i, layer in enumerate(net.layers) if type(layer) is kind}
    for layer, shape in found:
        yield _sized(layer, shape, False)
    if fixed:
        return
    for layer, shape in _ragged(next(iter(found))[0]):
        yield _sized(layer, shape, True)


def _ragged(layer: Layer) -> list[tuple[Layer, tuple[int, ...]]]:
    """Layers like this one, with small input shapes that are no multiple of a block."""
    if isinstance(layer, Linear):
        return [(replace(layer, out_features=o), (i,)) for i, o in ((1, 1), (7, 3), (33, 17), (37, 131))]
    if isinstance(layer, Conv2d):
        side = layer.kernel_size + 2 * layer.stride
        shapes = ((1, side, side + 1), (3, side + 5, side + 2))
        return [(replace(layer, out_channels=o), shape) for o, shape in zip((1, 5), shapes, strict=True)]
    size = 2 * getattr(layer, "kernel_size", 2) + 1
    return [(layer, (1, size, size)), (layer, (3, size + 4, size + 2))]


def _sized(layer: Layer, shape: tuple[int, ...], ragged: bool) -> OwnCase:
    cost = max(layer.flops(shape) // 2, math.prod(shape), 1)
    return OwnCase(layer, shape, max(1, min(SAMPLES, MOST // cost)), ragged)


class OwnCheck:
    """Check of one case of a file's kernels, on the emulator that watches every access."""

    def __init__(
        self, file: KernelFile, case: OwnCase, order: str, abort: Callable[[str], None], mode: str = "check"
    ) -> None:
        from ...device.emulator import EmulatedDevice

        self.file, self.case, self.abort = file, case, abort
        self.device = EmulatedDevice(mode, order, collect=True, watched=True)
        random = np.random.default_rng(7)
        layer, n = case.layer, case.n
        self.host: dict[str, np.ndarray | None] = dict.fromkeys(("x", "w", "b", "dy"))
        self.host["x"] = random.standard_normal((n, *case.in_shape)).astype(np.float32)
        for name, shape in zip(("w", "b"), layer.param_shapes(case.in_shape).values(), strict=False):
            self.host[name] = random.standard_normal(shape).astype(np.float32)
        self.host["dy"] = random.standard_normal((n, *layer.out_shape(case.in_shape))).astype(np.float32)
        self.truth = self._reference()
        self.counts: list[str] = []
        self.commands = [self._command(launch, self._arrays(self.device)) for launch in file.launches]

    def _reference(self) -> dict[str, np.ndarray]:
        wide = {name: None if a is None else a.astype(np.float64) for name, a in self.host.items()}
        module, layer = form(type(self.case.layer), "reference.py"), self.case.layer
        truth = {"y": module.forward(layer, wide["x"], wide["w"], wide["b"])}
        found = module.backward(layer, wide["x"], wide["w"], wide["dy"])
        return truth | dict(zip(("dx", "dw", "db"), found, strict=False))

    def _arrays(self, device: Device) -> dict[str, Array | None]:
        """Arrays on a device; arrays that a kernel writes are not initialised."""
        found: dict[str, Array | None] = {n: None if a is None else device.array(a) for n, a in self.host.items()}
        written = {name for launch in self.file.launches for name in launch.writes}
        for name, truth in self.truth.items():
            is_absent = name == "db" and self.host["b"] is None
            if name in written:
                found[name] = None if is_absent else device.empty(truth.shape)
            else:
                found[name] = device.array(truth.astype(np.float32))
        return found

    def run(self) -> None:
        """Run the launches and compare their results. Raises `RungError` for the first fault."""
        arrays, known = self._arrays(self.device), values(self.case.layer, self._buffers(), self.case.n)
        launches = [(each, bind(self.device, self.file, each, arrays, known)) for each in self.file.launches]
        for number, (own, launch) in enumerate(launches):
            self._send(launch, number)
            if self.device.mode == "count":
                self.counts.append(counted(launch))
            if self.device.reports:
                report = self.device.reports[0]
                self._fail(f"{report.kind}: {report.message}", number)
            for parameter, array, _, has_written in launch.touched:  # type: ignore[attr-defined]
                given = next((name for name, each in arrays.items() if each is array), "")
                if has_written and given not in own.writes and given not in ("y", "dx", "dw", "db"):
                    self._fail(f"it writes {parameter.name}, which is {given}, an input", number)
        for number, (own, _) in enumerate(launches):
            for name in own.writes:
                self._judge(name, arrays[name], number)

    def _send(self, launch: Launch, number: int) -> None:
        def end(what: str) -> None:
            self.abort(self._line(what, number))

        try:
            send_watched(self.device, launch, end)
        except KernelError as error:
            self._fail(str(error), number)

    def _judge(self, name: str, array: Array | None, number: int) -> None:
        if array is None:
            return
        missing, first = self.device.unwritten(array, 4)
        if missing:
            self._fail(
                f"{missing:,} of {array.size:,} elements of {name} are never written, the first is {first}", number
            )
        found, truth = np.empty(array.shape, np.float32), self.truth[name]
        self.device.download(found, array)
        error, limit = float(np.linalg.norm(found - truth)), self._bound(name) * float(np.linalg.norm(truth))
        if not error <= limit:
            off = np.abs(found - truth)
            at = np.unravel_index(int(np.argmax(np.where(np.isnan(off), np.inf, off))), off.shape)
            place = ", ".join(map(str, at))
            wrong = f"{name}[{place}] is {found[at]:.6g}, and should be {truth[at]:.6g}"
            raise RungError(self._line(wrong, number, "; to run it alone: "))

    def _bound(self, name: str) -> float:
        """Bound of the relative error by rounding, from the length of the sums."""
        case = self.case
        pairs = max(1, case.layer.flops(case.in_shape) // 2)
        wrote = max(1, self.truth[name].size // (1 if name in ("dw", "db") else case.n))
        length = pairs * (case.n if name in ("dw", "db") else 1) // wrote + 1
        return bound("fp32", length + 1 + case.layer.roundings(case.in_shape))

    def _buffers(self) -> Any:
        return Buffers(self.host["x"], self.truth["y"])

    def _command(self, launch: OwnLaunch, arrays: dict[str, Array | None]) -> str:
        known = values(self.case.layer, self._buffers(), self.case.n)
        return command(self.file, launch, {name: rows(name, a, self.case.n) for name, a in arrays.items()}, known)

    def _fail(self, what: str, number: int) -> None:
        raise RungError(self._line(what, number))

    def _line(self, what: str, number: int, before: str = ": run ") -> str:
        launch = self.file.launches[number]
        assumed = "" if launch.config else ", launched with one thread for each element as the file states no launch"
        return f"{launch.signature.name}, {self.case}{assumed}: {what}{before}`{self.commands[number]}`"
