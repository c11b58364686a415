"""Runs a description in this process, in one mode; `check` starts a process for each mode, so that a kernel can only bring down its own.

    python -m warpladder.emulator.run JOB RESULT

JOB is JSON (`check` writes it). RESULT gets a line of JSON for each thing that happens, flushed before the next begins: what
was running when a process dies is its last line. It dies when its standard input ends, which the parent holds.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..device import Source
from ..errors import LaunchError, WarpladderError
from .compare import first_difference, rounding
from .describe import Description, unpacked
from .device import EmulatedDevice
from .hostcode import device_code
from .plan import Plan, plan

Write = Callable[..., None]


def run(description: Description, mode: str, orders: tuple[str, ...], seed: int, write: Write) -> None:
    """Send the launches in a mode, once for each order of threads, and write down what is found; orders must agree."""
    source = device_code(description.source)
    results: dict[str, dict[str, np.ndarray]] = {}
    for order in orders:
        worked_out = plan(description, source, seed)
        result = _once(worked_out, source, mode, order, seed, write)
        if result is None:
            return
        results[order] = result
        _quiet()
    if mode != "fast":
        return
    longest = max((math.prod(shape) for shape, _ in worked_out.shapes.values()), default=1)  # no sum is likely to be longer
    for name, wanted in worked_out.expect.items():
        _expect(name, results[orders[0]][name].reshape(-1), wanted.reshape(-1), longest, write)
    for name in worked_out.shapes:
        _agree(name, {order: result[name] for order, result in results.items()}, longest, write)


def _once(worked_out: Plan, source: Source, mode: str, order: str, seed: int, write: Write) -> dict[str, np.ndarray] | None:
    """One pass over the launches; gives what the arrays hold then, or None where a launch could not be made or finished."""
    device = EmulatedDevice(mode=mode, order=order, seed=seed, collect=True)
    device.limits = replace(device.limits, device="a GPU")  # for what is said of launches: the limits are one's
    arrays = {}
    for name, (shape, dtype) in worked_out.shapes.items():
        held = worked_out.arrays[name]
        arrays[name] = device.empty(shape, dtype, name)
        if held is not None:
            device.upload(arrays[name], held)
        elif mode == "fast":
            device.fill(arrays[name], 0xFF)  # the same rubbish in every order: NaN, -1
    for number, planned in enumerate(worked_out.launches, 1):
        write(launch=number, kernel=planned.signature.name, order=order)
        arguments = [arrays[a] if isinstance(a, str) else a for a in planned.arguments]
        kernel = device.kernel(source, planned.signature.name)
        try:
            launch = kernel.bind(planned.grid, planned.block, *arguments, shared=planned.shared)
        except LaunchError as error:
            write(kind="launch", message=str(error), places=[], array="")
            return None
        launch.send()
        for report in device.reports:
            write(kind=report.kind, message=report.message, places=report.locations, array=report.array)
        if mode == "fast" and device.reports:
            return None  # the launch was given up
        device.reports.clear()
    return {name: array.download() for name, array in arrays.items()}


def _quiet() -> None:
    """What kernels print is wanted once, not once for each order."""
    ctypes.CDLL(None).fflush(None)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 1)


def _expect(name: str, found: np.ndarray, wanted: np.ndarray, longest: int, write: Write) -> None:
    if not rounding(found, wanted, longest):
        where, is_now, should, count = first_difference(name, found, wanted)
        message = f"{where} is {is_now} and should be {should}; {count:,} of {wanted.size:,} numbers differ"
        write(kind="wrong result", message=message, places=[], array=name)


def _agree(name: str, results: dict[str, np.ndarray], longest: int, write: Write) -> None:
    first, *others = results
    for order in others:
        found, wanted = results[order], results[first]
        if found.tobytes() == wanted.tobytes():
            continue
        where, is_now, was, count = first_difference(name, found, wanted)
        what = f"{where} is {was} in {first} order and {is_now} in {order} order; {count:,} of {wanted.size:,} numbers differ"
        if rounding(found, wanted, longest):
            write(remark=f"{what}, by no more than rounding explains")
        else:
            write(kind="order", message=what, places=[], array=name)
            return


def _end_with_the_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def main(job: str, result: str) -> None:
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    with Path(result).open("w", encoding="utf-8") as file:

        def write(**entry: Any) -> None:
            print(json.dumps(entry), file=file, flush=True)

        asked = json.loads(Path(job).read_text(encoding="utf-8"))
        try:
            run(unpacked(asked["description"]), asked["mode"], tuple(asked["orders"]), asked["seed"], write)
        except WarpladderError as error:
            write(error=type(error).__name__, message=str(error))
        write(end=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
