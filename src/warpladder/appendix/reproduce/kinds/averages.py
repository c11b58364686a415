"""Mean times as the reports define them: over the later half of the epochs, and the total of all epochs, in wall time
without set-up.
"""

from __future__ import annotations

from ....results import Results, RungResult
from ..results import Value


def later_epoch(results: Results, result: RungResult) -> Value | None:
    """Seconds of an epoch: mean, minimum and maximum over the later half of the epochs, or of the repetitions if no
    whole epoch was timed.
    """
    seconds, whole = _epochs(results, result)
    if not seconds:
        return None
    later = seconds[len(seconds) // 2 :]
    return Value(here=sum(later) / len(later), least=min(later), most=max(later), scaled=not whole)


def total(results: Results, result: RungResult) -> Value | None:
    """Seconds of all required epochs, scaled up if fewer were trained."""
    seconds, whole = _epochs(results, result)
    if not seconds or results.epochs == 0:
        return None
    return Value(here=sum(seconds) * results.epochs / len(seconds), scaled=not whole or len(seconds) < results.epochs)


def _epochs(results: Results, result: RungResult) -> tuple[tuple[float, ...], bool]:
    """Seconds of each epoch from the first on, at most as many as required, and True if whole epochs were timed; else
    the seconds of an epoch in each repetition, and False.
    """
    if result.history is not None and results.epochs:
        return result.history.seconds[: results.epochs], True
    return (result.timing.epochs, False) if result.timing is not None else ((), False)
