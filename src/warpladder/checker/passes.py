"""`Once`: one pass over the launches of a plan, in one mode and one order, with what it shows written down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..device import Array, Source
from ..device.emulator.constants import mentions
from ..device.emulator.device import EmulatedDevice
from ..device.emulator.kernel import EmulatedKernel, EmulatedLaunch
from ..errors import KernelError, LaunchError
from .contents import constant
from .limit import TimeLimit
from .plan import Argument, Plan, Planned

Write = Callable[..., None]


@dataclass
class Use:
    """What launches did with an array: by which kernel it may be written, in bytes of an element; whether it was read
    and written.
    """

    kernel: str
    launch: int
    element: int
    read: bool = False
    written: bool = False


@dataclass
class Once:
    """One pass.

    local : what local variables without a value hold, as `EmulatedDevice` has it.
    """

    plan: Plan
    source: Source
    mode: str
    order: str
    seed: int
    limit: TimeLimit
    write: Write
    local: str = ""
    arrays: dict[str, Array] = field(default_factory=dict)
    uses: dict[str, Use] = field(default_factory=dict)
    filled: set[int] = field(default_factory=set)
    refused: bool = False  # a kernel was, so that nobody knows what arrays should hold
    spoiled: bool = False  # for that reason, or because something was found

    def run(self) -> dict[str, np.ndarray] | None:
        """What the arrays hold in the end; None where a launch could not be made or finished."""
        threads = 1 if self.local else None
        device = EmulatedDevice(self.mode, self.order, self.seed, threads, collect=True, watched=True, local=self.local)
        device.limits = replace(device.limits, device="a GPU")  # for what is said of launches: the limits are one's
        for name, (shape, dtype) in self.plan.shapes.items():
            held = self.plan.arrays[name]
            self.arrays[name] = device.empty(shape, dtype, name)
            if held is not None:
                device.upload(self.arrays[name], held)
            elif self.mode == "fast":
                device.fill(self.arrays[name], 0xFF)  # the same rubbish in every order: NaN, -1
        for kernel, why in self.plan.refused.items():
            self._refused(device, kernel, why, ())
        if not all(self._launch(device, planned) for planned in self.plan.launches):
            return None
        if self.mode == "check" and not self.spoiled:
            self._unwritten(device)
        return {name: array.download() for name, array in self.arrays.items()}

    def _launch(self, device: EmulatedDevice, planned: Planned) -> bool:
        """Send a launch, and write down what it shows; False where the pass cannot go on."""
        name = planned.signature.name
        self.write(launch=planned.number, kernel=name, order="locals" if self.local else self.order)
        try:
            kernel = device.kernel(self.source, name)
        except KernelError as error:
            self._refused(device, name, str(error), planned.arguments)
            return True
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
        for report in found:
            if report.kind == "no body":
                self._refused(device, name, report.message, planned.arguments)
            else:
                self.write(kind=report.kind, message=report.message, places=report.locations, array=report.array)
                self.spoiled = True
        if self.mode == "check":
            self._learn(planned.number, launch, found)
        return self.mode != "fast" or all(
            report.kind == "no body" for report in found
        )  # otherwise the launch was given up

    def _given(self, argument: Argument) -> Any:
        if isinstance(argument, Mapping):
            return {name: self._given(inside) for name, inside in argument.items()}
        return self.arrays[argument] if isinstance(argument, str) else argument

    def _refused(self, device: EmulatedDevice, kernel: str, why: str, arguments: tuple[Argument, ...]) -> None:
        """Go on without a launch: nobody knows what it would have written."""
        self.write(refused=kernel, why=why)
        self.refused = self.spoiled = True
        for name in self.arrays if not arguments else _names(arguments):
            if self.plan.arrays[name] is None:
                device.fill(self.arrays[name], 0)

    def _fill(self, device: EmulatedDevice, kernel: EmulatedKernel) -> None:
        """Give the __constant__ variables of a kernel's library what the description says of them, once."""
        for name, (array, _) in kernel.constants.items():
            if name not in self.plan.constants:
                if mentions(self.source, kernel.signature.name, name):
                    self.write(unfilled=name)
            elif array.address not in self.filled:
                what = constant(name, self.plan.constants[name], array.shape, array.dtype, self.plan.values, self.seed)
                device.upload(array, what)
                self.filled.add(array.address)

    def _learn(self, number: int, launch: EmulatedLaunch, found: list[Any]) -> None:
        """Keep what a launch did with its arrays, and say it if it did nothing."""
        names = {array.address: name for name, array in self.arrays.items()}
        for parameter, array, read, written in launch.touched:
            name = names[array.address]
            if not parameter.const:
                self.uses.setdefault(name, Use(launch.name, number, parameter.dtype.itemsize * parameter.width))
            if name in self.uses:
                use = self.uses[name]
                use.read, use.written = use.read or read, use.written or written
        if launch.idle and not found:
            blocks, threads = int(np.prod(launch.grid)), int(np.prod(launch.grid)) * int(np.prod(launch.block))
            message = f"no thread of the launch writes to an array: {threads:,} threads of {blocks:,} block{'s' * (blocks > 1)} ran and left"
            self.write(kind="nothing written", message=message, places=[], array="")
            self.spoiled = True

    def _unwritten(self, device: EmulatedDevice) -> None:
        """Say which arrays that kernels may write hold what nobody wrote."""
        for name, use in self.uses.items():
            array, where = self.arrays[name], {"kernel": use.kernel, "launch": use.launch}
            elements = array.nbytes // use.element
            count, first = device.unwritten(array, use.element)
            if count:
                every = count == elements
                message = (
                    f"no thread wrote to array {name} of {elements:,} elements"
                    if every
                    else f"{count:,} of the {elements:,} elements of array {name} were never written, the first of them element {first}"
                )
            elif not use.read and not use.written:
                message = (
                    f"array {name} was neither read nor written, and {use.kernel} takes it as one that it may write to"
                )
            else:
                continue
            self.write(kind="unwritten", message=message, places=[], array=name, **where)


def _names(arguments: tuple[Argument, ...]) -> Iterator[str]:
    """The arrays among the arguments."""
    for argument in arguments:
        if isinstance(argument, Mapping):
            yield from _names(tuple(argument.values()))
        elif isinstance(argument, str):
            yield argument
