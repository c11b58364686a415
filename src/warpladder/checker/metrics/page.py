"""Page with the source and a bar next to each line: HTML without scripts, which opens from a disk."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ...device.emulator.counts import KernelCounts, Line
from .measure import plural, text_of

_STYLE = """
:root { color-scheme: light dark; --ink: #222; --faint: #777; --paper: #fff; --line: #ddd; --good: #4c9f70;
  --bad: #c8553d }
@media (prefers-color-scheme: dark) { :root { --ink: #ddd; --faint: #999; --paper: #1b1b1b; --line: #444 } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 78rem; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 } td, th { padding: .1rem .6rem; text-align: left }
th { font-weight: 600; border-bottom: 1px solid var(--line) } td.number { text-align: right }
td.code { font: 13px/1.5 ui-monospace, monospace; white-space: pre } td.at { color: var(--faint); text-align: right }
.bar { display: inline-block; height: .75em; background: var(--bad) } .bar.good { background: var(--good) }
.note { color: var(--faint) }
"""


def page(title: str, kernels: Sequence[KernelCounts], facts: Sequence[Sequence[tuple[str, str]]]) -> str:
    """HTML page of a file's launches; facts : rows (name, value) of the table of each launch."""
    parts = [f"<h1>{escape(title)}</h1>"]
    for kernel, rows in zip(kernels, facts, strict=True):
        launch = f"{kernel.name}, grid {kernel.grid}, block {kernel.block}"
        cells = "".join(
            f'<tr><td>{escape(name)}</td><td class="number">{escape(text)}</td></tr>' for name, text in rows
        )
        parts.append(f"<h2>{escape(launch)}</h2><table>{cells}</table>")
        for file in dict.fromkeys(line.file for line in kernel.lines):
            parts.append(_source(file, [line for line in kernel.lines if line.file == file]))
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body>{body}</body></html>\n"
    )


def _source(file: str, lines: Sequence[Line]) -> str:
    """HTML of the source lines from the first to the last with counts, each with a bar of its sectors or passes."""
    by_number = {line.number: line for line in lines}
    text = text_of(file)
    cost = {number: _cost(line) for number, line in by_number.items()}
    most = max((total for total, _ in cost.values()), default=0) or 1
    rows = []
    for number in range(max(1, min(by_number) - 1), min(len(text), max(by_number) + 1) + 1):
        line = by_number.get(number)
        total, least = cost.get(number, (0, 0))
        good, bad = 12 * least / most, 12 * max(0, total - least) / most
        bar = f'<span class="bar good" style="width:{good:.2f}em"></span>'
        bar += f'<span class="bar" style="width:{bad:.2f}em"></span>'
        lanes = f"{line['block'].active or _lanes(line):.1f}" if line else ""
        words = "; ".join(described(line)) if line else ""
        rows.append(
            f'<tr><td class="at">{number}</td><td class="code">{escape(text[number - 1])}</td><td>{bar}</td>'
            f'<td class="number">{lanes}</td><td class="note">{escape(words)}</td></tr>'
        )
    head = "<tr><th></th><th>source</th><th>transactions</th><th>lanes</th><th></th></tr>"
    note = "Green: transactions that the bytes need; red: those in addition. Lanes: active in a warp, of 32."
    return f'<table>{head}{"".join(rows)}</table><p class="note">{note}</p>'


def _lanes(line: Line) -> float:
    return max((count.active for count in line.acts.values()), default=0.0)


def _cost(line: Line) -> tuple[int, int]:
    """Sectors and passes of a line, and the smallest number for its bytes."""
    total = least = 0
    for act, count in line.acts.items():
        if act.startswith("global"):
            total, least = total + count.sectors, least + -(-count.bytes // 32)
        elif act.startswith("shared"):
            total, least = total + count.passes, least + count.least
    return total, least


def described(line: Line) -> list[str]:
    """Phrases about a line's accesses and arithmetic."""
    found = []
    for act, count in line.acts.items():
        if act == "block":
            continue
        if act == "global atomic" or act == "shared atomic":
            found.append(f"{act}: {plural(count.warps, 'request')}, up to {count.most} lanes at one address")
        elif act.startswith("global"):
            ratio = count.sectors / count.warps
            wasted = f", {100 * count.wasted / (32 * count.sectors):.0f} % of the bytes wasted" if count.wasted else ""
            found.append(f"{act}: {plural(count.warps, 'request')} of {ratio:.3g} sectors{wasted}")
        else:
            conflicts = f", {plural(count.conflicts, 'bank conflict')}" if count.conflicts else ""
            found.append(f"{act}: {plural(count.warps, 'request')}{conflicts}")
    if line.arithmetic.flops:
        found.append(f"{line.arithmetic.flops:,} FLOPs")
    if line["block"].warps and line["block"].active < 32:
        found.append(f"{line['block'].active:.3g} of 32 lanes active")
    return found
