"""Figures as people read them, and the sentence that closes a climb."""

from __future__ import annotations

from ..results import Results, RungResult


def seconds(value: float) -> str:
    """A time with three digits and its unit: 2.13 s, 453 us."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= 0.9995 * size:
            return f"{three(value / size)} {unit}"
    return f"{three(value * 1e9)} ns"


def three(value: float) -> str:
    """Three significant digits, never in powers of ten where a table can show them: 0.0213, 2.13, 48.1, 481, 12,900."""
    if value >= 999.5:
        return f"{float(f'{value:.3g}'):,.0f}"
    if value < 0.9995:
        return f"{value:.3g}"
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f}"


def count(value: float) -> str:
    """A large number in short: 281 k, 1.3 M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= 9.995 * size or (unit != "k" and value >= 0.9995 * size):
            return f"{three(value / size)} {unit}"
    return three(value) if value < 999.5 else f"{value:,.0f}"


def times(value: float | None) -> str:
    """A speed-up: 3.4x; nothing where there is none."""
    return "" if value is None else f"{three(value) if value >= 0.9995 else f'{value:.2g}'}x"


def epochs(value: int) -> str:
    return f"{value:,} epoch{'s' * (value != 1)}"


def megabytes(value: int | None) -> str:
    return "" if value is None else f"{value / 1e6:,.0f}"


def score(rung: RungResult) -> str:
    """Test accuracy in per cent, or for a net without classes its test loss."""
    if rung.test_accuracy is not None:
        return f"{100 * rung.test_accuracy:.2f} %"
    return "" if rung.test_loss is None else f"{rung.test_loss:.3g}"


def error(rung: RungResult) -> str:
    return "" if rung.check is None or rung.check.error is None else f"{rung.check.error:.0e}"


#: Processors that others may keep busy on average before it is told: clocks of a hundredth of a second cannot tell much less.
DISTURBED = 0.1

#: A rung without a time, in the place of its time.
STATUS = {"unsupported": "not here", "failed": "failed", "refused": "refused"}


def remarks(results: Results) -> list[tuple[str, str]]:
    """What must be said beside the figures: a rung's name, and why it has no time, what was scaled, how a peer deviates."""
    lines = []
    for rung in results.rungs:
        notes = [rung.reason] if rung.timing is None else []
        if rung.timing is not None and rung.timing.scaled:
            notes.append(f"seconds per epoch are scaled up from {rung.timing.steps:,} of its {rung.timing.epoch_steps:,} steps")
        if rung.timing is not None and rung.reason:
            notes.append(rung.reason)
        if rung.same_bits is False and rung.timing is not None:
            notes.append("its runs do not repeat bit for bit")
        if rung.deviations:
            notes.append(f"it deviates: {'; '.join(rung.deviations)}")
        if notes:
            lines.append((rung.name, "; ".join(note.rstrip(".") for note in notes) + "."))
    others = max((rung.timing.disturbance for rung in results.timed() if rung.timing), default=0.0)
    if others > DISTURBED:
        lines.append(
            ("disturbed", f"other processes kept up to {others:.2g} processors busy while rungs were timed: their times may be too long.")
        )
    return lines


def conclusion(results: Results) -> str:
    """Which is fastest, and why, in a sentence or two."""
    best = results.fastest(peers=True)
    if best is None:
        return "No rung was timed."
    timed = results.timed()
    first = next((r for r in timed if not r.peer), None)
    rival = min((r for r in timed if r.peer != best.peer), key=_per_epoch, default=None)
    compared = []
    for kind, other in (("the first rung", first), ("the fastest peer" if not best.peer else "the fastest rung", rival)):
        if other is not None and other is not best and not (kind == "the first rung" and other is rival):
            compared.append(f"{three(_per_epoch(other) / _per_epoch(best))} times as fast as {other.name}, {kind}")
    text = f"{best.name}{', a peer,' * best.peer} is fastest: {seconds(_per_epoch(best))} an epoch"
    text += f", {' and '.join(compared)}. " if compared else ". "
    share, machine = results.share(best), results.machine
    if share is not None:
        peak = f"the {three(machine.fma_peak / 1e9)} GFLOP/s that {machine.threads} thread{'s' * (machine.threads != 1)} can do on this machine"
        text += f"It computes at {percent(share)} of {peak}. Its idea: {best.idea.rstrip('.')}."
    return text


def percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.0995 else f"{100 * share:.0f} %"


def _per_epoch(rung: RungResult) -> float:
    assert rung.timing is not None
    return rung.timing.seconds_per_epoch
