"""Pieces of HTML for sections: tables, lists of pairs, pictures, and wide content that scrolls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from html import escape
from itertools import zip_longest

from .. import Results, RungResult
from ..text import words
from .figures.svg import Canvas, NoPictures, picture


def score_name(loss: str) -> str:
    """Name of the test score of a net with this loss: "test accuracy", or the test part's loss."""
    return "test accuracy" if loss == "CrossEntropyLoss" else f"test {words.score_name(loss)}"


def table(
    label: str, heads: Iterable[str], rows: Iterable[tuple[str, Iterable[str]]], text: tuple[int, ...] = (0,)
) -> str:
    """HTML table of cells that are HTML already. The columns numbered in `text` are text, the others figures; the first
    cell of a row is its head.

    label : description of the table for screen readers. rows : CSS class and cells of each.
    """

    def cells(values: Iterable[str], head: bool = False) -> str:
        out = []
        for at, value in enumerate(values):
            kind = " class=text" if at in text else ""
            if head:
                out.append(f"<th scope=col{kind}>{value}</th>")
            else:
                out.append(f"<th scope=row{kind}>{value}</th>" if at == 0 else f"<td{kind}>{value}</td>")
        return "".join(out)

    lines = [f'<tr class="{kind}">{cells(values)}</tr>' for kind, values in rows]
    return wide(
        label, f"<table><thead><tr>{cells(heads, head=True)}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    )


def wide(label: str, content: str) -> str:
    """HTML of wide content, which scrolls on a narrow screen, with a hint; the keyboard scrolls it too."""
    return (
        '<div class="wide"><p class="hint">There is more to the right: swipe or scroll.</p>'
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(label)}">'
        f"{content}</div></div>"
    )


def pairs(found: Iterable[tuple[str, str]]) -> str:
    """HTML list of names with their values, as text."""
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(text)}</dd>' for name, text in found)}</dl>"


def note(text: str) -> str:
    """HTML of a sentence about the figures; its `commands` break between words and never within an option."""
    return f'<p class="note">{inline(text)}</p>'


def inline(text: str) -> str:
    """HTML of a text with its `commands`."""

    def command(found: re.Match[str]) -> str:
        return f"<code>{' '.join(f'<span>{foldable(word)}</span>' for word in found[1].split())}</code>"

    parts = re.split(r"(`[^`]+`)", escape(text, quote=False))
    options = re.compile(r"(?<![\w-])--[a-z][a-z-]*")  # options do not break outside of commands either
    plain = [options.sub(lambda found: f'<span class="option">{found[0]}</span>', part) for part in parts[::2]]
    commands = [re.sub(r"`([^`]+)`", command, part) for part in parts[1::2]]
    return "".join(each for pair in zip_longest(plain, commands, fillvalue="") for each in pair)


def foldable(text: str) -> str:
    """HTML of a name that breaks between its parts where it does not fit: after underscores, before options."""
    return re.sub(r"(?<=\w)(?=:\w)|(?<=\w_)(?=\w)|(?<=\w\+)(?=\w)", "<wbr>", text)


def plot(name: str, alt: str, draw: Callable[[Canvas], None], caption: str = "") -> str:
    """HTML of a picture with its caption; if it cannot be drawn, the reason instead."""
    try:
        drawn = picture(name, alt, draw)
    except NoPictures as error:
        return f'<p class="warning">No picture: {escape(str(error))}.</p>'
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure class="plot">{drawn}{below}</figure>'


def rung_name(rung: RungResult) -> str:
    """HTML of a rung's name, and a line below for each of its options."""
    name, options = words.parts_of(rung.name)
    return f"<b>{escape(name)}</b>" + "".join(f'<span class="options">:{escape(option)}</span>' for option in options)


def kind(results: Results, rung: RungResult) -> str:
    """CSS class of a rung's rows."""
    if rung.timing is None:
        return "none" if rung.status == "missing" else "bad"
    return "fastest" if rung is results.leader else "peer" if rung.peer else "rung"
