"""CUDA's driver through cuda.bindings: every call is checked, and an error becomes a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuda.bindings import driver as cuda

from ...errors import DeviceError, OutOfMemoryError

OUT_OF_MEMORY = 2
INVALID_CONTEXT = 201

#: Errors after which a context returns the same error to every call: a bad address, a trap, a failed memory cell.
FATAL = {214, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719}

LOST = (
    "This process has lost the GPU and must be started again: with CUDA_LAUNCH_BLOCKING=1 the error comes up at its "
    "own launch, and under compute-sanitizer with the line"
)


def words(status: Any) -> str:
    """Description of a status by the driver."""
    code = cuda.CUresult(int(status))
    _, text = cuda.cuGetErrorString(code)
    return f"{text.decode() if text else 'unknown error'} ({code.name})"


def call(function: Callable[..., tuple[Any, ...]], *arguments: Any, doing: str, last: object = None) -> Any:
    """Results of a call of cuda.bindings.driver: none, one, or a tuple of several.

    doing : action for the message "could not ...". last : last launch, whose error a later call may report.
    Raises OutOfMemoryError, DeviceError: the driver returned an error, which the message describes.
    """
    status, *results = function(*arguments)
    if status:
        raise error(status, doing, last)
    return results[0] if len(results) == 1 else tuple(results)


def error(status: Any, doing: str, last: object = None) -> DeviceError | OutOfMemoryError:
    """Exception for a status other than success."""
    if status == OUT_OF_MEMORY:
        return OutOfMemoryError(f"could not {doing}: {words(status)}")
    if status in FATAL:
        where = f", in {last!r} or in a launch before it" if last is not None else ""
        return DeviceError(f"could not {doing}: {words(status)}{where}. {LOST}")
    return DeviceError(f"could not {doing}: {words(status)}")
