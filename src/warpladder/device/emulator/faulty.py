"""Declarations that do not compile: a kernel that does without them is compiled without them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ...errors import KernelError
from ..declarations import span
from ..lines import directives
from ..source import KernelSource
from .hostcode import declarations
from .messages import CompilerMessages
from .rewrite import bare, blank, closing


def without_faulty(source: KernelSource, kernel: str, error: KernelError) -> KernelSource | None:
    """Source without the declarations in which the compiler found errors; None if the kernel itself has one, or no
    error lies in a declaration. kernel : its definition's name.
    """
    messages = error.__cause__
    if not isinstance(messages, CompilerMessages):
        return None
    text, plain = list(source.text), bare(source.text)
    body = span(source, kernel)[1]
    own = range(span(source, kernel)[0], closing(plain, body))
    parts = [range(first, last) for first, last, _ in declarations(plain)]
    for file, line in messages.places():
        for position in _positions(source, file, line):
            found = next((part for part in parts if position in part), None)
            if found is None:
                continue  # in a macro or a header: where it is used is a place too, or the next attempt finds one
            if found.start in own or own.start in found:
                return None
            text[found.start : found.stop] = blank(source.text[found.start : found.stop])
    joined = "".join(text)
    return None if joined == source.text else replace(source, text=joined)


def _positions(source: KernelSource, file: str, line: int) -> list[int]:
    """Positions of the first character of a file's line in a text with #line directives; [-1] if the text lacks it."""
    here, number, at = str(source.path), 1, 0
    for text in source.text.split("\n"):
        marked = next(directives(text), None)
        if marked:
            number, here = marked[0] - 1, marked[1]
        elif number == line and (here == file or Path(here).name == file):
            return [at + len(text) - len(text.lstrip())]
        number, at = number + 1, at + len(text) + 1
    return [-1]
