"""Sections of the page of one climb, as HTML; an empty text is a section without content."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .. import Gpu, Results
from ..profiled import Profile
from ..text import notes, words
from .figures import bars, curves, ladder, roofline
from .html import kind, note, pairs, plot, rung_name, score_name, table


def climb(results: Results) -> str:
    """HTML of the table of all rungs, with remarks below."""
    rows, with_gains = [], not results.emulated
    for rung in words.shown(results):
        figures = [words.epoch_time(rung), "", ""]
        if rung.timing is not None:
            figures[1:] = [f"{100 * rung.timing.spread:.1f} %", words.count(rung.timing.samples_per_second)]
        share = results.share(rung)
        gains = [words.times(results.over_first(rung)), words.times(results.over_below(rung))] * with_gains
        figures += [*gains, "" if share is None else words.percent(share), words.error(rung), words.score(rung)]
        figures.append(f"{words.megabytes(rung.peak_rss_bytes)} MB" if rung.peak_rss_bytes else "")
        which = kind(results, rung)
        tags = " <i>peer</i>" * rung.peer + " <i>fastest</i>" * (which == "fastest")
        tags += ' <i class="bad">disturbed</i>' * results.is_disturbed(rung)
        rows.append(
            (which, [rung_name(rung) + tags, *map(escape, figures), escape(rung.precision), escape(rung.title)])
        )
    gains = ["over first", "over below"] * with_gains
    heads = ["rung", "time per epoch", "spread", "samples per s", *gains, "of peak", "error"]
    heads += [score_name(results.net.loss), "peak memory", "precision", "in short"]
    scaled = any(rung.timing and rung.timing.scaled for rung in results.rungs)
    star = note(f"{notes.SCALED}.") if scaled else ""
    return star + table("Every rung and peer", heads, rows, (0, len(heads) - 2, len(heads) - 1)) + _remarks(results)


def _remarks(results: Results) -> str:
    lines = [f"<li><b>{escape(name)}</b>: {escape(remark)}</li>" for name, remark in notes.remarks(results)]
    lines.append(
        f"<li>The {score_name(results.net.loss)} is that after {words.epochs(results.epochs)} "
        "from the initial weights.</li>"
    )
    absent = notes.absent(results)
    lines += [f"<li><b>{escape(who)}</b>: {escape(why)}</li>" for who, why in absent]
    lines += [f"<li>{escape(notes.LISTED)}</li>"] * bool(absent)
    return f'<ul class="remarks">{"".join(lines)}</ul>'


def picture(results: Results, name: str, pictures: bool) -> str:
    """HTML of the picture of the ladder, with an explanation."""
    if not results.timed():
        return ""
    units = {words.unit_name(results, rung): results.peak(rung) for rung in results.timed()}
    peaks = ", ".join(f"{words.three(peak / 1e9)} GFLOP/s for {unit}" for unit, peak in units.items() if peak)
    caption = (
        f"A mark is the median of {results.repeats} repetition{'s' * (results.repeats != 1)}, the small dots; the "
        "scale is logarithmic. A tick is the row's floor: what its arithmetic, "
        f"{words.three(results.net.train_flops * results.data.train / 1e9)} GFLOP an epoch for the net as it stands, "
        f"would take a unit that did nothing but multiply and add: {peaks}. A time below its floor is refused."
    )
    return (plot(f"{name}-ladder", ladder.alt(results), ladder.ladder(results)) if pictures else "") + note(caption)


def learning(results: Results, name: str, pictures: bool) -> str:
    """HTML of loss and accuracy over epochs and over seconds."""
    rungs = curves.learned(results)
    if not rungs:
        return note("There are no curves: of no rung are loss and accuracy stored by epoch.") if results.timed() else ""
    drawn = plot(f"{name}-curves", curves.alt(results), curves.curves(results)) if pictures else ""
    rows = []
    for rung in rungs:
        assert rung.history is not None
        loss, accuracy = (
            [each for each in values or () if each is not None] for values in (rung.history.loss, rung.history.accuracy)
        )
        trained = sum(rung.history.seconds)
        figures = [str(len(rung.history.seconds)), words.seconds(trained) if trained >= 1e-9 else "", f"{loss[-1]:.4g}"]
        rows.append(
            (
                "",
                [
                    rung_name(rung),
                    *map(escape, [*figures, f"{100 * accuracy[-1]:.2f} %" if accuracy else "", words.score(rung)]),
                ],
            )
        )
    heads = ("rung", "epochs", "seconds", "loss at the end", "accuracy while training", score_name(results.net.loss))
    text = (
        "Rungs train the same net from the same weights on the same batches: by epochs their curves "
        "lie on each other, by seconds they do not. "
        "Loss and accuracy of an epoch are those of its training samples as they came by, before each update."
    )
    return drawn + note(text) + table("Loss and accuracy at the end", heads, rows)


def parts(results: Results, profiles: Sequence[Profile], name: str, pictures: bool) -> str:
    """HTML of the time of each part of a step, for each profile."""
    if not profiles:
        if not results.timed():
            return ""
        text = (
            "No profile stands next to this climb. To see each operation and kernel: `warpladder profile NET "
            "--data D --rung R --out profile.json`, "
            "then `warpladder report results.json profile.json`."
        )
        return note(text) + samples(results)
    return "".join(_profile(found, f"{name}-profile{at}", pictures) for at, found in enumerate(profiles)) + samples(
        results
    )


def _profile(found: Profile, name: str, pictures: bool) -> str:
    head = (
        f"<h3>{escape(found.rung)}: {escape(words.seconds(found.step_seconds))} a step of "
        f"{found.samples:,} samples on {escape(found.device)}</h3>"
    )
    share = found.flops / found.step_seconds / found.flops_per_second
    text = f"{words.three(found.flops / found.step_seconds / 1e9)} GFLOP/s, "
    text += f"{words.percent(share)} of the {words.three(found.flops_per_second / 1e9)} that it can do. "
    if not found.parts:
        return head + note(text + found.reason)
    text += (
        f"{'Clocked inside whole steps' if found.inside else 'Alone and over and over'}, the parts "
        f"take {words.seconds(found.parts_seconds)} together. "
        f"{words.rest_of_a_step(found)} A line across a bar is the least that the part must take at "
        "the peaks of arithmetic and memory."
    )
    out = head + note(text)
    if pictures:
        out += plot(f"{name}-parts", bars.parts_alt(found), bars.parts(found))
        roofs, dots = roofline.of_profile(found)
        if dots and not found.inside:  # a part whose data stay in caches has no bytes, and no place in the roofline
            caption = "The parts that compute, by their numbers above, below the roof of the unit."
            out += plot(f"{name}-roof", roofline.alt(dots), roofline.roofline(roofs, dots), caption)
    out += _operations(found)
    return out + (_kernels(found) if any(part.kernels for part in found.parts) else "")


def _operations(found: Profile) -> str:
    """HTML table of a profile's parts."""
    rows = []
    for label, part in zip(bars.part_labels(found), found.parts, strict=True):
        least = part.floor.seconds(found.flops_per_second, found.bytes_per_second)
        figures = [
            words.seconds(part.seconds),
            words.percent(part.seconds / found.parts_seconds if found.parts_seconds else 0.0),
            words.three(part.floor.flops / 1e6),
            words.three(part.floor.bytes / 1e6),
            words.percent(least / part.seconds) if part.seconds > 0 and 0 <= least < float("inf") else "",
        ]
        rows.append(("", [escape(label), *map(escape, figures)]))
    return table(f"Operations of {found.rung}", ("operation", "time", "share", "MFLOP", "MB", "of floor"), rows)


def _kernels(found: Profile) -> str:
    """HTML table of a profile's kernels, or of the instructions of a compiled program."""
    with_tensor = found.tensor_share is not None
    rows = []
    for kernel in (kernel for part in found.parts for kernel in part.kernels):
        shape = kernel.shape
        figures = [str(kernel.launches), words.seconds(kernel.seconds)]
        if not found.inside and shape is None:
            figures += [""] * 5
        elif not found.inside and shape is not None:
            figures += ["x".join(map(str, shape.grid)), "x".join(map(str, shape.block)), str(shape.registers)]
            figures += [f"{shape.shared + shape.static_shared:,}", words.percent(shape.occupancy)]
        figures += ["yes" if kernel.tensor else ""] * with_tensor
        rows.append(("", [f'<span class="code">{escape(kernel.name)}</span>', *map(escape, figures)]))
    if found.inside:
        heads: tuple[str, ...] = ("instruction", "times on each thread", "time")
    else:
        heads = ("kernel", "launches", "time", "blocks", "threads", "registers", "shared bytes", "occupancy")
        heads += ("tensor cores",) * with_tensor
    out = note(words.tensor_share(found)) if with_tensor else ""
    return out + table(f"{'Instructions' if found.inside else 'Kernels'} of {found.rung}", heads, rows)


def samples(results: Results) -> str:
    """HTML table of the seconds of every repetition, and of the preparation before it."""
    rows = []
    for rung in results.timed():
        assert rung.timing is not None
        proof = rung.check.seconds if rung.check and not rung.check.kept else None
        before = (proof, rung.build_seconds, rung.load_seconds, rung.first_seconds)
        cells = [rung_name(rung), *("" if part is None else words.seconds(part) for part in before)]
        cells += [
            f"{rung.timing.steps:,} of {rung.timing.epoch_steps:,}",
            ", ".join(words.seconds(s) for s in rung.timing.seconds),
        ]
        rows.append((kind(results, rung), cells))
    heads = ("rung", "proof", "building", "loading", "first step", "steps timed", "seconds of each repetition")
    return "<h3>Every sample</h3>" + table("Every sample", heads, rows) if rows else ""


def roof(results: Results, name: str, pictures: bool) -> str:
    """HTML of the roofline of the climb's rungs."""
    roofs, dots = roofline.of_climb(results)
    if not dots or not pictures:
        return ""
    text = (
        "A step must read each sample once, and read and write each weight once: that many FLOP for "
        "each byte. Up the ladder the same step comes closer "
        "to the roof. Left of a roof's bend memory bounds the time, right of it arithmetic. Where no "
        "slope is drawn the memory's speed is not stored."
    )
    return plot(f"{name}-roofline", roofline.alt(dots), roofline.roofline(roofs, dots)) + note(text)


def memory(results: Results, name: str, pictures: bool) -> str:
    """HTML of the peak memory of each rung, and of the bytes of its trainer."""
    rungs = bars.with_memory(results)
    if not rungs:
        return ""
    with_peak = any(rung.peak_rss_bytes for rung in rungs)
    names = list(dict.fromkeys(part for rung in rungs for part in rung.held_bytes or {}))
    rows = []
    for rung in rungs:
        held = rung.held_bytes or {}
        cells = [words.three(held[part] / 1e6) if part in held else "" for part in names]
        cells = [words.megabytes(rung.peak_rss_bytes)] * with_peak + cells
        rows.append((kind(results, rung), [rung_name(rung), *map(escape, cells)]))
    text = (
        "Bars are what each trainer reports to hold, on a GPU for those that train there; the "
        "peak of whole processes was not measured."
    )
    if with_peak:
        text = (
            "A bar is the largest resident set of a fresh process that trains with this rung alone, "
            "interpreter and libraries included; the line across "
            "it is what the trainer reports to hold, on a GPU for those that train there."
        )
    drawn = plot(f"{name}-memory", bars.memory_alt(results), bars.memory(results)) if pictures else ""
    return (
        drawn
        + note(text)
        + table("Memory in MB", ["rung", *["peak, MB"] * with_peak, *(f"{escape(part)}, MB" for part in names)], rows)
    )


def verdicts(results: Results) -> str:
    """HTML table of the verdict of each rung's proof, with error and bound."""
    rows = []
    for rung in words.shown(results):
        verdict, error, bound, reason = words.proof(rung), "", "", rung.reason
        if rung.check is not None:
            reason = rung.check.reason
            error, bound = words.error(rung), "" if rung.check.bound is None else f"{rung.check.bound:.0e}"
        same = {None: "", True: "yes", False: "no"}[rung.same_bits]
        cells = [rung_name(rung), verdict, error, bound, same, f'<span class="long">{escape(reason)}</span>']
        rows.append((kind(results, rung), cells))
    text = (
        "Before it is timed each rung is checked against a float64 reference; after it, an untimed run "
        "of its fastest repetition must end in the "
        "same bits."
    )
    if any(rung.check and rung.check.kept for rung in results.rungs):
        text += (
            " A kept verdict is that of an earlier climb of the same code on the same data, with the same "
            "settings, libraries and machine."
        )
    heads = ("rung", "verdict", "error", "bound", "same bits", '<span class="long">reason</span>')
    return note(text) + table("Verdicts", heads, rows, (0, 1))


def settings(results: Results) -> str:
    """HTML list of net, data and settings."""
    net, data = results.net, results.data
    return pairs(
        [
            ("net", f"{net.name}: {' '.join(net.layers)}, {net.loss}"),
            ("parameters", f"{net.parameters:,}"),
            ("FLOPs to train one sample", f"{net.train_flops:,}"),
            (
                "data",
                (
                    f"{data.name}: {data.train:,} training and {data.test:,} test samples of "
                    f"{'x'.join(map(str, data.in_shape))}, {data.dtype}"
                ),
            ),
            *((name, words.setting(value)) for name, value in results.config.items()),
        ]
    )


def machine(results: Results) -> str:
    """HTML list of facts about the machine of a climb."""
    m = results.machine
    found = [
        ("processor", f"{m.cpu} ({m.target}), {m.cores} cores, {m.threads} used; {' '.join(m.features)}"),
        ("multiply-adds", f"{words.three(m.fma_peak / 1e9)} GFLOP/s, measured"),
        (
            "memory",
            ("" if m.memory_bytes is None else f"{m.memory_bytes / 2**30:.1f} GiB, ")
            + f"{words.three(m.bandwidth / 1e9)} GB/s measured",
        ),
        *([("GPU", _gpu(m.gpu))] if m.gpu else []),
        ("system", f"{m.system}, {m.python}"),
        ("packages", ", ".join(f"{name} {version}" for name, version in m.packages.items())),
        ("commit", "-" if m.commit is None else m.commit + (" and changes" if m.dirty else "")),
        ("load when it began", "-" if m.load_average is None else f"{m.load_average:g}"),
    ]
    return pairs(found)


def _gpu(g: Gpu) -> str:
    clock = (
        "" if g.clock_mhz is None or g.clock_most_mhz is None else f", at {g.clock_mhz:g} of {g.clock_most_mhz:g} MHz"
    )
    driver = "" if g.driver is None else f"driver {g.driver}, "
    return (
        f"{g.name} (compute capability {g.capability}), {g.multiprocessors} multiprocessors, "
        f"{g.memory_bytes / 2**30:.1f} GiB{clock}; "
        f"{driver}CUDA {g.cuda}, NVRTC {g.nvrtc}"
    )


def again(results: Results) -> str:
    """HTML of the command that repeats the climb."""
    if results.command:
        return f'<pre tabindex="0" aria-label="Command">{escape(results.command)}</pre>'
    return note("A program ran this climb, on data or rungs of its own: no command repeats it.")
