"""Figures as text with units, and the sentence that closes a climb."""

from __future__ import annotations

from .. import Results, RungResult
from ..profiled import Profile


def seconds(value: float) -> str:
    """Time as text with three digits and its unit: 2.13 s, 453 us."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= 0.9995 * size:
            return f"{three(value / size)} {unit}"
    return f"{three(value * 1e9)} ns"


def short(text: str) -> str:
    """Figure as text without zeros at the end of its fraction, for axes: "8 us" for "8.00 us"."""
    figure, space, unit = text.partition(" ")
    return (figure.rstrip("0").rstrip(".") if "." in figure else figure) + space + unit


def parts_of(name: str) -> tuple[str, list[str]]:
    """Name of a rung without options, and each option as "block_size=512"."""
    rung, *options = name.split(":")
    return rung, options


def three(value: float) -> str:
    """Number with three significant digits, without powers of ten in the usual range: 0.0213, 2.13, 48.1, 481,
    12,900.
    """
    if value >= 999.5:
        return f"{float(f'{value:.3g}'):,.0f}"
    if value < 0.9995:
        return f"{value:.3g}"
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f}"


def count(value: float) -> str:
    """Large number as short text: 281 k, 1.3 M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= 9.995 * size or (unit != "k" and value >= 0.9995 * size):
            return f"{three(value / size)} {unit}"
    return three(value) if value < 999.5 else f"{value:,.0f}"


def tensor_share(found: Profile) -> str:
    """Sentence on the share of a profile's matrix products on tensor cores; for a profile that has it."""
    share = found.tensor_share or 0.0
    return (
        f"{share:.1%} of the FLOPs of its products of matrices run in kernels whose machine code has "
        "tensor core instructions."
    )


def rest_of_a_step(found: Profile) -> str:
    """Sentence on why the times of a profile's parts do not sum to a whole step's."""
    if found.inside:
        return (
            "The difference is what stands around the instructions: threads that wait for each other, "
            "gradients of their shares that are added up, "
            "the call itself. What a part finds in a cache costs it no bytes here: the least that it must "
            "take is arithmetic, and samples read once."
        )
    return "The difference is starting, waiting and what overlaps; alone, a part may also find its numbers in a cache."


def times(value: float | None) -> str:
    """Speed-up as text: 3.40x, 0.90x; empty for None."""
    if value is None:
        return ""
    small = f"{value:.2f}" if value >= 0.0995 else f"{value:.2g}"
    return f"{three(value) if value >= 0.9995 else small}x"


def epochs(value: int) -> str:
    return f"{value:,} epoch{'s' * (value != 1)}"


def setting(value: object) -> str:
    """Setting as text; an optimizer or schedule as its name and its own settings."""
    if isinstance(value, dict):
        own = [f"{name} {setting(each)}" for name, each in value.items() if name != "name"]
        return ", ".join([str(value.get("name", "-")), *own])
    return "-" if value is None else " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def optimizer(results: Results) -> str:
    """Optimizer with its learning rate as text, and the schedule if the rate is not constant: "Adam 0.001, Cosine"."""
    config = results.config
    own, schedule = config.get("optimizer"), config.get("schedule")
    own = own if isinstance(own, dict) else {}
    out = f"{own.get('name', '-')} {setting(own.get('learning_rate'))}"
    if own.get("momentum"):
        out += f", momentum {setting(own['momentum'])}"
    if isinstance(schedule, dict) and (schedule.get("name") != "Constant" or schedule.get("warmup")):
        out += f", {schedule.get('name', '-')}"
    return out


def losses(results: Results) -> str:
    """Clause on how often losses are computed and read, if settings state it: ", loss every 10 epochs, read every 100
    steps".
    """
    if "loss_every" not in results.config:
        return ""
    computed, read = results.config["loss_every"], results.config.get("log_every")
    parts = [f"loss every {computed} epochs"] if computed != 1 else []
    parts += [f"losses read every {f'{read} steps' if read != 1 else 'step'}"] if read is not None else []
    return "".join(f", {part}" for part in parts)


def score_name(loss: str) -> str:
    """Name of the test score of a net with this loss: "acc.", or the loss's short name."""
    return {"CrossEntropyLoss": "acc.", "MSELoss": "MSE", "L1Loss": "MAE"}.get(loss, "loss")


def megabytes(value: int | None) -> str:
    return "" if value is None else f"{value / 1e6:,.0f}"


def score(rung: RungResult) -> str:
    """Test accuracy in per cent, or for a net without classes its test loss, as text."""
    if rung.test_accuracy is not None:
        return f"{100 * rung.test_accuracy:.2f} %"
    return "" if rung.test_loss is None else f"{rung.test_loss:.3g}"


def error(rung: RungResult) -> str:
    return "" if rung.check is None or rung.check.error is None else f"{rung.check.error:.0e}"


#: Text in place of the time of a rung without one, by status.
STATUS = {
    "unsupported": "not here",
    "failed": "failed",
    "refused": "refused",
    "unjudged": "cannot judge",
    "missing": "not reached",
}


def shown(results: Results) -> list[RungResult]:
    """Rungs with a row in the table: all but those that cannot train here, which `absent` lists."""
    return [rung for rung in results.rungs if rung.status != "unsupported"]


def proof(rung: RungResult) -> str:
    """Verdict of a rung's proof in a word or two: "agrees", "does not agree"."""
    if rung.check is None:
        return "not checked"
    if not rung.check.passed:
        return "cannot judge" if rung.status == "unjudged" else "does not agree"
    return "agrees (kept)" if rung.check.kept else "agrees"


def news(rung: RungResult, results: Results | None = None) -> str:
    """Line of text about a rung with a new result."""
    if rung.timing is None:
        return f"{rung.name:<14} {STATUS[rung.status]}: {rung.reason}"
    made = rung.check.seconds if rung.check else None
    proof = (
        "proof kept" if rung.check and rung.check.kept else "proven" + ("" if made is None else f" in {seconds(made)}")
    )
    parts = [proof, "timed once so far", *["on a part of its steps"] * rung.timing.scaled]
    parts += ["disturbed by other processes"] * (results is not None and results.is_disturbed(rung))
    rate = count(rung.timing.samples_per_second)
    return f"{rung.name:<14} {seconds(per_epoch(rung)):>8} an epoch, {rate} samples per s; {', '.join(parts)}"


def unit(results: Results, rung: RungResult) -> str:
    """Peak of a rung's computing unit as text: the 207 GFLOP/s that 2 threads of the CPU can do."""
    peak = results.peak(rung)
    if peak is None:
        return ""
    whose, precision = _unit(results, rung)
    return f"{three(peak / 1e9)} GFLOP/s that {whose} can do{precision}"


def unit_name(results: Results, rung: RungResult) -> str:
    """Name of a rung's computing unit: 2 threads of the CPU, or the NVIDIA H200 in bf16."""
    return "".join(_unit(results, rung))


def _unit(results: Results, rung: RungResult) -> tuple[str, str]:
    """Computing unit of a rung, and the variant of its peak: on a GPU the precision, and the multiplying unit if it is
    not the usual one; on the CPU only fp64.
    """
    m = results.machine
    if results.on_cpu(rung):
        return f"{m.threads} thread{'s' * (m.threads != 1)} of the CPU", " in fp64" if rung.precision == "fp64" else ""
    return f"the {m.gpu.name if m.gpu else 'GPU'}", f" in {rung.precision}{f' on its {rung.unit}' if rung.unit else ''}"


def floors(results: Results) -> list[tuple[str, float]]:
    """Computing units of the rungs, each with its smallest time in seconds for an epoch of the net's arithmetic."""
    found: dict[str, float] = {}
    for rung in results.timed():
        peak = results.peak(rung)
        if rung.timing is not None and peak is not None:
            found.setdefault(unit_name(results, rung), results.net.train_flops * rung.timing.epoch_samples / peak)
    return list(found.items())


def conclusion(results: Results) -> str:
    """Sentences on the fastest rung and the reason: only equal precisions are compared, a sentence for each precision
    in which rungs of the ladder have a time.
    """
    best, timed = results.fastest(peers=True), results.timed()
    if best is None:
        return "No rung was timed."
    if results.emulated:
        which = ", ".join(rung.name for rung in timed) if len(timed) < len(results.rungs) else "all"
        return f"Proven and timed on the emulator: {which}."
    if results.disturbed:
        return (
            f"The least time of this disturbed run is that of {best.name}{', a peer' * best.peer}: "
            f"{seconds(per_epoch(best))} an epoch."
        )
    others = dict.fromkeys(rung.precision for rung in timed if not rung.peer and rung.precision != best.precision)
    text = "So far " * bool(results.stopped) + _fastest(results, best, f" in {best.precision}" * bool(others))
    share = results.share(best)
    if share is not None:
        text += f" It computes at {percent(share)} of the {unit(results, best)}. Its idea: {best.idea.rstrip('.')}."
    for precision in others:
        alike = [rung for rung in timed if rung.precision == precision]
        text += f" {_fastest(results, min(alike, key=per_epoch), f' in {precision}')}"
    return text


def _fastest(results: Results, best: RungResult, precision: str) -> str:
    """Sentence on the fastest rung of a precision: its time, compared with the first rung's and the best peer's or
    rung's.
    """
    alike = [rung for rung in results.timed() if rung.precision == best.precision]
    first = next((r for r in alike if not r.peer), None)
    other_kind = min((r for r in alike if r.peer != best.peer), key=per_epoch, default=None)
    compared = []
    for kind, other in (
        ("the first rung", first),
        ("the fastest peer" if not best.peer else "the fastest rung", other_kind),
    ):
        if other is not None and other is not best and not (kind == "the first rung" and other is other_kind):
            compared.append(f"{three(per_epoch(other) / per_epoch(best))} times as fast as {other.name}, {kind}")
    text = f"{best.name}{', a peer,' * best.peer} is fastest{precision}: {seconds(per_epoch(best))} an epoch"
    return f"{text}, {' and '.join(compared)}." if compared else f"{text}."


def percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.0995 else f"{100 * share:.0f} %"


def per_epoch(rung: RungResult) -> float:
    """Seconds of an epoch of a timed rung."""
    assert rung.timing is not None
    return rung.timing.seconds_per_epoch


def epoch_time(rung: RungResult) -> str:
    """Time of an epoch as text, with a star if it is scaled up from a part; or the status of a rung without a time."""
    if rung.timing is None:
        return STATUS.get(rung.status, "")
    return seconds(rung.timing.seconds_per_epoch) + "*" * rung.timing.scaled
