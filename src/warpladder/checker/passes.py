"""`Pass`: one pass over the launches of a plan, in one mode and one order; `TimeLimit`: the end of endless launches."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ..device import Array, KernelSource
from ..device.emulator.deadline import deadline
from ..device.emulator.device import EmulatedDevice
from ..device.emulator.kernel import EmulatedKernel, EmulatedLaunch
from ..device.emulator.symbols import mentions
from ..errors import KernelError, LaunchError
from .contents import constant
from .plan import Argument, CheckPlan, PlannedLaunch, Within

#: Function that takes one entry of a mode's results, as keywords (run.py).
Write = Callable[..., None]


class TimeLimit:
    """Time limit of each launch in seconds, 0 for none. After it the process writes the launch's position, and ends."""

    def __init__(self, seconds: float, write: Write) -> None:
        self.seconds, self.write = seconds, write
        self.running: tuple[EmulatedDevice, EmulatedLaunch] | None = None

    @contextmanager
    def on(self, device: EmulatedDevice, launch: EmulatedLaunch) -> Iterator[None]:
        """Context in which a launch runs, in the calling thread."""
        with deadline(self.seconds, partial(self._over, device, launch)):
            self.running = device, launch
            try:
                yield
            finally:
                self.running = None

    def _over(self, device: EmulatedDevice, launch: EmulatedLaunch) -> None:
        found = device.stuck(launch)
        for report in found:
            message, places = report.message, [place for place in report.locations if place[1]]
            if report.kind == "time limit":
                message = f"the launch did not end within {self.seconds:g} s: {message}; --timeout gives it more time"
            self.write(kind=report.kind, message=message, places=places, array=report.array)
        if not any(report.kind == "time limit" for report in found):
            message = (
                f"the launch did not end within {self.seconds:g} s, and no thread of it reports where it is; "
                "--timeout gives it more time"
            )
            self.write(kind="time limit", message=message, places=[], array="")
        self.write(end=True)
        quiet()
        os._exit(0)

    def stopped(self) -> None:
        """Report the faults of the running launch so far, after the user has stopped the check."""
        for report in self.running[0].stuck(self.running[1]) if self.running else ():
            if report.kind == "time limit":
                self.write(remark=f"When it was stopped {report.message}")
            else:
                self.write(kind=report.kind, message=report.message, places=report.locations, array=report.array)


def quiet() -> None:
    """Drop further output of kernels: only the output in the first order is shown."""
    ctypes.CDLL(None).fflush(None)
    sys.stdout.flush()
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 1)


@dataclass
class Use:
    """Use of an array by launches.

    kernel, launch : first one that may write it; element : bytes of an element in it.
    is_member : True if it is in a struct. read, written : True if a thread has read or written it.
    """

    kernel: str
    launch: int
    element: int
    is_member: bool
    read: bool = False
    written: bool = False


@dataclass
class Pass:
    """Pass over the launches of a plan, in one mode and one order of threads.

    local : fill of local variables without a value, as for `EmulatedDevice`. filled : addresses of the filled
    constants.
    uses : use of the arrays that kernels may write, in the check mode.
    refused : True if a kernel could not be run, so that the arrays' right contents are unknown.
    spoiled : True if `refused`, or if a fault was found.
    """

    plan: CheckPlan
    source: KernelSource
    mode: str
    order: str
    seed: int
    limit: TimeLimit
    write: Write
    local: str = ""
    arrays: dict[str, Array] = field(default_factory=dict, init=False)
    uses: dict[str, Use] = field(default_factory=dict, init=False)
    filled: set[int] = field(default_factory=set, init=False)
    refused: bool = field(default=False, init=False)
    spoiled: bool = field(default=False, init=False)

    def run(self) -> dict[str, np.ndarray] | None:
        """Contents of the arrays after the last launch; None if a launch could not be made or finished."""
        threads = 1 if self.local else None
        device = EmulatedDevice(self.mode, self.order, self.seed, threads, collect=True, watched=True, local=self.local)
        device.limits = replace(device.limits, device="a GPU")  # in messages on launches: the limits are a GPU's
        for name, (shape, dtype) in self.plan.shapes.items():
            held = self.plan.arrays[name]
            self.arrays[name] = device.empty(shape, dtype, name)
            if held is not None:
                device.upload(self.arrays[name], held)
            elif self.mode == "fast":
                device.fill(self.arrays[name], 0xFF)  # the same content in every order: NaN, -1
        for kernel, why in self.plan.refused.items():
            self._refused(device, kernel, why, ())
        if not all(self._launch(device, planned) for planned in self.plan.launches):
            return None
        if self.mode == "check" and not self.spoiled:
            self._unwritten(device)
        return {name: array.download() for name, array in self.arrays.items()}

    def _launch(self, device: EmulatedDevice, planned: PlannedLaunch) -> bool:
        """Send a launch and report its faults; False if the pass cannot go on."""
        name = planned.signature.name
        self.write(launch=planned.number, kernel=name, order="locals" if self.local else self.order)
        try:
            kernel = device.kernel(self.source, name)
        except KernelError as error:
            self._refused(device, name, str(error), planned.arguments)
            return True
        for why in kernel.function.left_out:
            self.write(remark=f"{why}; it is left out, as kernel {name} does not need it")
        self._fill(device, kernel)
        arguments = [self._given(argument) for argument in planned.arguments]
        try:
            launch = kernel.bind(
                planned.grid, planned.block, *arguments, shared=planned.shared, cooperative=planned.cooperative
            )
        except LaunchError as error:
            self.write(kind="launch", message=str(error), places=[], array="")
            return False
        assert isinstance(launch, EmulatedLaunch)
        self.write(sent=planned.number)
        with self.limit.on(device, launch):
            launch.send()
        found, device.reports = device.reports, []
        remarks, device.remarks = device.remarks, []
        for report in remarks if not found else ():
            self.write(remark=report.message[0].upper() + report.message[1:])
        for report in found:
            if report.kind == "no body":
                self._refused(device, name, report.message, planned.arguments)
            else:
                self.write(kind=report.kind, message=report.message, places=report.locations, array=report.array)
                self.spoiled = True
        if self.mode in ("check", "count"):
            self._learn(planned.number, launch, found)
        # the fast mode ends a launch at its first fault
        return self.mode != "fast" or all(report.kind == "no body" for report in found)

    def _given(self, argument: Argument) -> Any:
        if isinstance(argument, Mapping):
            return {name: self._given(inside) for name, inside in argument.items()}
        if isinstance(argument, Within):
            return self._pointer(argument)
        return self.arrays[argument] if isinstance(argument, str) else argument

    def _pointer(self, argument: Within) -> Array:
        """Array that begins within another one, which a kernel may reach to both sides."""
        base = self.arrays[argument.array]
        address = base.address + argument.offset * base.dtype.itemsize
        return Array(base.device, address, base.shape, base.dtype, base.owner, base)

    def _refused(self, device: EmulatedDevice, kernel: str, why: str, arguments: tuple[Argument, ...]) -> None:
        """Skip a launch that cannot be run; the arrays that it would have written are unknown."""
        self.write(refused=kernel, why=why)
        self.refused = self.spoiled = True
        for name in self.arrays if not arguments else _names(arguments):
            if self.plan.arrays[name] is None:
                device.fill(self.arrays[name], 0)

    def _fill(self, device: EmulatedDevice, kernel: EmulatedKernel) -> None:
        """Set the __constant__ variables of a kernel's library to their content in the description, once."""
        for name, (array, _) in kernel.constants.items():
            if name not in self.plan.constants:
                if mentions(self.source, kernel.signature.name, name):
                    self.write(unfilled=name)
            elif array.address not in self.filled:
                what = constant(name, self.plan.constants[name], array.shape, array.dtype, self.plan.values, self.seed)
                device.upload(array, what)
                self.filled.add(array.address)

    def _learn(self, number: int, launch: EmulatedLaunch, found: list[Any]) -> None:
        """Record a launch's use of its arrays; report a launch that wrote nothing."""
        names = {array.address: name for name, array in self.arrays.items()}
        for parameter, array, read, written in launch.touched:
            name = names[(array.base or array).address]
            if not parameter.const:
                use = Use(launch.name, number, parameter.dtype.itemsize * parameter.width, "." in parameter.name)
                self.uses.setdefault(name, use)
            if name in self.uses:
                use = self.uses[name]
                use.read, use.written = use.read or read, use.written or written
        if launch.idle and not found:
            blocks = int(np.prod(launch.grid))
            ran = (
                f"{blocks * int(np.prod(launch.block)):,} threads of {blocks:,} block{'s' * (blocks > 1)} ran and left"
            )
            message = f"no thread of the launch writes to an array: {ran}"
            self.write(kind="nothing written", message=message, places=[], array="")
            self.spoiled = True

    def _unwritten(self, device: EmulatedDevice) -> None:
        """Report arrays that kernels may write but that have unwritten elements."""
        for name, use in self.uses.items():
            array, where = self.arrays[name], {"kernel": use.kernel, "launch": use.launch}
            elements = array.nbytes // use.element
            count, first = device.unwritten(array, use.element)
            if count == elements:
                message = f"no thread wrote to array {name} of {elements:,} elements"
            elif count:
                message = f"{count:,} of the {elements:,} elements of array {name} were never written"
                message += f", the first of them element {first}"
            elif not use.read and not use.written and not use.is_member:  # a struct's may be for other kernels
                message = f"array {name} was neither read nor written, and {use.kernel} takes it as one to write to"
            else:
                continue
            self.write(kind="unwritten", message=message, places=[], array=name, **where)


def _names(arguments: tuple[Argument, ...]) -> Iterator[str]:
    """Names of the arrays among a launch's arguments."""
    for argument in arguments:
        if isinstance(argument, Mapping):
            yield from _names(tuple(argument.values()))
        elif isinstance(argument, (str, Within)):
            yield argument if isinstance(argument, str) else argument.array
