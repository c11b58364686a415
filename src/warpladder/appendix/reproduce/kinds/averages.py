"""Times as reports average them: over the later half of the epochs, and the total of all epochs, by the clock on the
wall with set-up left out.
"""

from __future__ import annotations

from ....results import Results, RungResult
from ..results import Value


def later_epoch(results: Results, result: RungResult) -> Value | None:
    """Seconds of an epoch: the mean over the later half of the epochs, with the least and the most of them; of the
    repetitions where no epoch was whole.
    """
    seconds, whole = _epochs(results, result)
    if not seconds:
        return None
    later = seconds[len(seconds) // 2 :]
    return Value(here=sum(later) / len(later), least=min(later), most=max(later), scaled=not whole)


def total(results: Results, result: RungResult) -> Value | None:
    """Seconds of all required epochs; scaled up where fewer were trained."""
    seconds, whole = _epochs(results, result)
    if not seconds or results.epochs == 0:
        return None
    return Value(here=sum(seconds) * results.epochs / len(seconds), scaled=not whole or len(seconds) < results.epochs)


def _epochs(results: Results, result: RungResult) -> tuple[tuple[float, ...], bool]:
    """Seconds of each epoch from the first on, at most as many as required, and True if they were timed whole; else
    those that repetitions stand for.
    """
    if result.history is not None and results.epochs:
        return result.history.seconds[: results.epochs], True
    return (result.timing.epochs, False) if result.timing is not None else ((), False)
