"""Small tables as plain text, for `repr`, and as HTML, for notebooks; and numbers as text."""

from __future__ import annotations

import html
from collections.abc import Sequence

Row = Sequence[str]


def as_text(title: str, heads: Row, rows: Sequence[Row], total: Row | None = None) -> str:
    """Table as plain text with a title: columns of minimal width, the first two aligned left, the others right.

    Parameters
    ----------
    title : str
    heads : sequence of str
    rows : sequence of sequences of str
        Cells of each row, as many as `heads`.
    total : sequence of str, optional
        Cells of a last row.
    """
    lines = [list(heads), *map(list, rows), *([list(total)] if total else [])]
    widths = [max(len(line[at]) for line in lines) for at in range(len(heads))]
    shown = [
        "  ".join(_put(cell, width, at) for at, (cell, width) in enumerate(zip(line, widths, strict=True))).rstrip()
        for line in lines
    ]
    return "\n".join([title, *(f"  {line}" for line in shown)])


def _put(cell: str, width: int, at: int) -> str:
    return cell.ljust(width) if at < 2 else cell.rjust(width)


def as_html(title: str, heads: Row, rows: Sequence[Row], total: Row | None = None, below: str = "") -> str:
    """HTML table from the arguments of `as_text`, with escaped texts; `below` is text under the table."""
    head = "".join(f"<th>{_escaped(cell)}</th>" for cell in heads)
    body = "".join("<tr>" + "".join(f"<td>{_escaped(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    foot = "<tfoot><tr>" + "".join(f"<th>{_escaped(cell)}</th>" for cell in total) + "</tr></tfoot>" if total else ""
    note = f"<p>{_escaped(below)}</p>" if below else ""
    caption = f"<caption>{_escaped(title)}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody>{foot}</table>{note}"


def _escaped(text: str) -> str:
    return html.escape(text).replace("\n", "<br>")


def percent(share: float) -> str:
    """Share from 0 to 1 as text, 97.93 %."""
    return f"{100 * share:.2f} %"


def number(value: float, digits: int = 4) -> str:
    """Value as text with this many digits, and with all digits before the point: 0.8723, 50446, 1.2e-09."""
    text = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e+" in text and abs(value) < 1e15 else text


def dims(shape: Sequence[int]) -> str:
    """Shape as text: 1x28x28."""
    return "x".join(map(str, shape))
