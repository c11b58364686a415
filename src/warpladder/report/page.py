"""The results as one HTML file that needs nothing else: no script, no font, no picture from anywhere."""

from __future__ import annotations

import os
from collections.abc import Iterable
from html import escape

from ..results import Gpu, Results, RungResult
from ..results.files import write_whole
from ..results.sweep import Sweep
from . import words
from .chart import chart
from .style import STYLE
from .sweep import rows, score_name

SCORES = {"CrossEntropyLoss": "test accuracy", "MSELoss": "test MSE"}


def write_page(results: Results, path: str | os.PathLike[str]) -> None:
    """Write the page; an old one stays whole until the new one is on the disk."""
    write_whole(path, page(results))


def write_sweep(sweep: Sweep, path: str | os.PathLike[str]) -> None:
    """Write the page of a climb of several tasks; an old one stays whole until the new one is on the disk."""
    write_whole(path, sweep_page(sweep))


def page(results: Results) -> str:
    """The page's text."""
    return _document(results, f"{_findings(results)}\n{_circumstances(results)}")


def sweep_page(sweep: Sweep) -> str:
    """The text of a page with all tasks: their times beside each other, then each under its heading."""
    table = _table(
        ("rung", "task", "time per epoch", "images per s", score_name(sweep.tasks[0])),
        [("rung", [f"<b>{escape(name)}</b>", escape(task), *map(escape, figures)]) for name, task, figures in rows(sweep)],
        (0, 1),
    )
    missing = "".join(f'<p class="warning">{escape(heading)}: not reached.</p>' for heading in sweep.missing)
    parts = [_section("All tasks", missing + table)]
    parts += [f'<h1 class="task">{escape(heading)}</h1>\n{_findings(results)}' for heading, results in sweep.items()]
    return _document(sweep.tasks[-1], "\n".join([*parts, _circumstances(sweep.tasks[-1])]))


def _findings(results: Results) -> str:
    """What was found about one task."""
    warnings = "".join(f'<p class="warning">{escape(text)}</p>' for text in words.warnings(results))
    picture = _wide(chart(results)) + _reading(results) if results.timed() else ""
    sections = (
        ("", f'{warnings}<p class="conclusion">{escape(words.conclusion(results))}</p>{picture}'),
        ("The climb", _climb(results) + _remarks(results)),
        ("Verdicts", _verdicts(results)),
        ("Every sample", _samples(results)),
        ("Net, data and settings", _settings(results)),
    )
    return "\n".join(_section(head, text) for head, text in sections if text)


def _circumstances(results: Results) -> str:
    """What it was found on, and how to find it again."""
    return "\n".join((_section("Machine", _machine(results)), _section("Do it again", _again(results))))


def _section(head: str, text: str) -> str:
    return f"<section>{f'<h2>{head}</h2>' if head else ''}\n{text}\n</section>"


def _document(results: Results, body: str) -> str:
    """The whole page, with net and data set for its title."""
    title = f"{results.net.name} on {results.data.name}"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)} - warpladder</title>
<style>{STYLE}</style>
</head>
<body>
<header>
<p class="kind">warpladder climb, {escape(results.created.replace("T", " ").replace("+00:00", " UTC"))}</p>
<h1>{escape(title)}</h1>
</header>
{body}
</body>
</html>
"""


def _table(heads: Iterable[str], rows: Iterable[tuple[str, Iterable[str]]], text: tuple[int, ...] = (0,)) -> str:
    """A table of cells that are HTML already; the columns of these numbers hold text, the others figures."""

    def cells(tag: str, values: Iterable[str]) -> str:
        return "".join(f"<{tag}{' class=text' if at in text else ''}>{value}</{tag}>" for at, value in enumerate(values))

    lines = [f'<tr class="{kind}">{cells("td", values)}</tr>' for kind, values in rows]
    return _wide(f"<table><thead><tr>{cells('th', heads)}</tr></thead><tbody>{''.join(lines)}</tbody></table>")


def _wide(content: str) -> str:
    """What a narrow screen shows a part of, and says so."""
    return f'<p class="hint">There is more to the right: swipe.</p><div class="wide">{content}</div>'


def _name(rung: RungResult) -> str:
    """A rung's name, and a line below for each of its options."""
    name, options = words.parts_of(rung.name)
    return f"<b>{escape(name)}</b>" + "".join(f'<span class="options">:{escape(option)}</span>' for option in options)


def _kind(results: Results, rung: RungResult) -> str:
    if rung.timing is None:
        return "none" if rung.status == "missing" else "bad"
    return "fastest" if rung is results.fastest(peers=True) and not results.disturbed else "peer" if rung.peer else "rung"


def _climb(results: Results) -> str:
    rows = []
    for rung in words.shown(results):
        figures = [words.STATUS.get(rung.status, ""), "", ""]
        if rung.timing is not None:
            time = words.seconds(rung.timing.seconds_per_epoch) + "*" * rung.timing.scaled
            figures = [time, f"{100 * rung.timing.spread:.1f} %", words.count(rung.timing.samples_per_second)]
        share = results.share(rung)
        figures += [
            words.times(results.over_first(rung)),
            words.times(results.over_below(rung)),
            "" if share is None else words.percent(share),
        ]
        figures += [words.error(rung), words.score(rung), f"{words.megabytes(rung.peak_rss_bytes)} MB" if rung.peak_rss_bytes else ""]
        rows.append((_kind(results, rung), [_name(rung) + " <i>peer</i>" * rung.peer, *map(escape, figures), escape(rung.idea)]))
    heads = ("rung", "time per epoch", "spread", "images per s", "over first", "over below", "of peak", "error")
    return _table((*heads, SCORES.get(results.net.loss, "test"), "peak memory", "idea"), rows, (0, 10))


def _remarks(results: Results) -> str:
    lines = [f"<li><b>{escape(name)}</b>: {escape(remark)}</li>" for name, remark in words.remarks(results)]
    lines.append(
        f"<li>The {SCORES.get(results.net.loss, 'test')} is that after {words.epochs(results.epochs)} from the initial weights.</li>"
    )
    absent = words.absent(results)
    lines += [f"<li><b>{escape(who)}</b>: {escape(why)}</li>" for who, why in absent]
    lines += [f"<li>{escape(words.LISTED)}</li>"] * bool(absent)
    return f'<ul class="remarks">{"".join(lines)}</ul>'


def _reading(results: Results) -> str:
    units = {words.unit_name(results, rung): results.peak(rung) for rung in results.timed()}
    peaks = ", ".join(f"{words.three(peak / 1e9)} GFLOP/s for {unit}" for unit, peak in units.items() if peak)
    text = (
        f"Median of {results.repeats} repetition{'s' * (results.repeats != 1)}; dots are the repetitions; the scale is logarithmic. "
        f"A floor is what the net's {results.net.train_flops * results.data.train / 1e9:,.1f} GFLOP per epoch would take a unit that did nothing "
        f"but multiply and add: {peaks}. A time below the floor of a rung's own arithmetic is refused."
    )
    return f'<p class="note">{escape(text)}</p>'


def _verdicts(results: Results) -> str:
    rows = []
    for rung in words.shown(results):
        verdict, error, bound, reason = words.proof(rung), "", "", rung.reason
        if rung.check is not None:
            reason = rung.check.reason
            error, bound = words.error(rung), "" if rung.check.bound is None else f"{rung.check.bound:.0e}"
        same = {None: "", True: "yes", False: "no"}[rung.same_bits]
        rows.append(
            (
                _kind(results, rung),
                [_name(rung), verdict, error, bound, same, f'<span class="long">{escape(reason)}</span>'],
            )
        )
    note = (
        "Before it is timed each rung is checked against a float64 reference; after it, an untimed run of its fastest repetition must end in the "
        "same bits."
    )
    if any(rung.check and rung.check.kept for rung in results.rungs):
        note += (
            " A kept verdict is that of an earlier climb of the same code on the same data, with the same settings, libraries and machine."
        )
    return f'<p class="note">{note}</p>' + _table(
        ("rung", "verdict", "error", "bound", "same bits", '<span class="long">reason</span>'), rows, (0, 1)
    )


def _samples(results: Results) -> str:
    rows = []
    for rung in results.timed():
        assert rung.timing is not None
        parts = (
            rung.check.seconds if rung.check and not rung.check.kept else None,
            rung.build_seconds,
            rung.load_seconds,
            rung.first_seconds,
        )
        cells = [_name(rung), *("" if part is None else words.seconds(part) for part in parts)]
        cells += [f"{rung.timing.steps:,} of {rung.timing.epoch_steps:,}", ", ".join(words.seconds(s) for s in rung.timing.seconds)]
        rows.append((_kind(results, rung), cells))
    return _table(("rung", "proof", "build", "load", "first step", "steps a repetition, of an epoch", "repetitions"), rows) if rows else ""


def _settings(results: Results) -> str:
    net, data = results.net, results.data
    pairs = [
        ("net", f"{net.name}: {' '.join(net.layers)}, {net.loss}"),
        ("parameters", f"{net.parameters:,}"),
        ("FLOPs to train one sample", f"{net.train_flops:,}"),
        (
            "data",
            f"{data.name}: {data.train:,} training and {data.test:,} test samples of {'x'.join(map(str, data.in_shape))}, {data.dtype}",
        ),
        *((name, words.setting(value)) for name, value in results.config.items()),
    ]
    return _pairs(pairs)


def _machine(results: Results) -> str:
    m = results.machine
    pairs = [
        ("processor", f"{m.cpu} ({m.target}), {m.cores} cores, {m.threads} used; {' '.join(m.features)}"),
        ("multiply-adds", f"{words.three(m.fma_peak / 1e9)} GFLOP/s, measured"),
        (
            "memory",
            ("" if m.memory_bytes is None else f"{m.memory_bytes / 2**30:.1f} GiB, ") + f"{words.three(m.bandwidth / 1e9)} GB/s measured",
        ),
        *([("GPU", _gpu(m.gpu))] if m.gpu else []),
        ("system", f"{m.system}, {m.python}"),
        ("packages", ", ".join(f"{name} {version}" for name, version in m.packages.items())),
        ("commit", "-" if m.commit is None else m.commit + (" and changes" if m.dirty else "")),
        ("load when it began", "-" if m.load_average is None else f"{m.load_average:g}"),
    ]
    return _pairs(pairs)


def _gpu(g: Gpu) -> str:
    clock = "" if g.clock_mhz is None or g.clock_most_mhz is None else f", at {g.clock_mhz:g} of {g.clock_most_mhz:g} MHz"
    driver = "" if g.driver is None else f"driver {g.driver}, "
    return (
        f"{g.name} (compute capability {g.capability}), {g.multiprocessors} multiprocessors, {g.memory_bytes / 2**30:.1f} GiB{clock}; "
        f"{driver}CUDA {g.cuda}, NVRTC {g.nvrtc}"
    )


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(text)}</dd>' for name, text in pairs)}</dl>"


def _again(results: Results) -> str:
    if results.command:
        return f"<pre>{escape(results.command)}</pre>"
    return '<p class="note">A program ran this climb, on data or rungs of its own: no command repeats it.</p>'
