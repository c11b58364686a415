"""CUDA's driver, through cuda.bindings: every call is checked, and its errors are put in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cuda.bindings import driver as cuda

from ...errors import DeviceError, OutOfMemoryError

OUT_OF_MEMORY = 2
INVALID_CONTEXT = 201

#: Errors after which a context answers nothing but the same error: a bad address, a trap, a failed memory cell.
FATAL = {214, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719}

LOST = (
    "This process has lost the GPU and must be started again: with CUDA_LAUNCH_BLOCKING=1 the error comes up at its own launch, "
    "and under compute-sanitizer with the line"
)


def words(status: Any) -> str:
    """The driver's own words for a status."""
    code = cuda.CUresult(int(status))
    _, text = cuda.cuGetErrorString(code)
    return f"{text.decode() if text else 'unknown error'} ({code.name})"


def call(function: Callable[..., tuple[Any, ...]], *arguments: Any, doing: str, last: object = None) -> Any:
    """A driver call's results: none, one, or a tuple of them.

    Parameters
    ----------
    function, *arguments
        Of cuda.bindings.driver.
    doing : str
        For the message: "could not ...".
    last : object
        The launch that was sent last; an error of a kernel comes up in a later call.

    Raises
    ------
    OutOfMemoryError, DeviceError
        With the driver's words.
    """
    status, *results = function(*arguments)
    if status:
        raise error(status, doing, last)
    return results[0] if len(results) == 1 else tuple(results)


def error(status: Any, doing: str, last: object = None) -> DeviceError | OutOfMemoryError:
    """What to raise for a status that is not success."""
    if status == OUT_OF_MEMORY:
        return OutOfMemoryError(f"could not {doing}: {words(status)}")
    if status in FATAL:
        where = f", in {last!r} or in a launch before it" if last is not None else ""
        return DeviceError(f"could not {doing}: {words(status)}{where}. {LOST}")
    return DeviceError(f"could not {doing}: {words(status)}")
