"""Bytes of a file's `__constant__` variables, of which nvcc takes 65,536.

    __constant__ float a[100];

gets, in the same line, EMU_CONSTANT_BYTES(0, a, "file.cu:1"), which has the assembler add sizeof(a) and stop above the
limit. Counted are variables outside of functions and classes, as nvcc counts them, used or not.
"""

from __future__ import annotations

import re

from ..declarations import split
from .functions import functions
from .rewrite import bare, closing, line_of

_ELSEWHERE = re.compile(r"\b(?:extern|template|typedef|using|inline)\b")
#: Type that a declaration defines: struct { float taps[9]; } filter;
_BODY = re.compile(r"\s*(?:const\s+)?(?:struct|union|class)\b\s*\w*\s*\{")
_REFUSED = re.compile(r"Error: emu: (?P<why>.*)")


def counted(text: str, file: str) -> str:
    """Text with a record of size after each `__constant__` variable."""
    if "__constant__" not in text:
        return text
    plain, out, position = bare(text), [], 0
    inside = [(first + len(plain[first:last].partition("{")[0]), last) for first, last in functions(plain)]
    for number, match in enumerate(re.finditer(r"\b__constant__\b", plain)):
        start = max(plain.rfind(mark, 0, match.start()) for mark in ";{}") + 1
        end = _end(plain, match.end())
        is_local = any(first < match.start() < last for first, last in inside)
        if is_local or match.start() < position or end == len(plain) or _ELSEWHERE.search(plain, start, end):
            continue
        body = _BODY.match(plain, match.end())
        first = closing(plain, body.end() - 1) if body else match.end()
        names = [re.match(r"[^=[{]*?(\w+)\s*(?:[=[{]|$)", part.strip()) for part in split(plain[first:end])]
        line, source = line_of(text, match.start(), file)
        where = re.sub(r'[%{}|"\\]', "?", f"{source}:{line}")
        out.append(text[position : end + 1])
        out += [f' EMU_CONSTANT_BYTES({number}, {name[1]}, "{where}");' for name in names if name]
        position = end + 1
    return "".join([*out, text[position:]])


def _end(plain: str, position: int) -> int:
    """Position of the semicolon that ends a declaration; the end of the text if there is none."""
    while mark := re.compile(r"[;{(]").search(plain, position):
        if mark[0] == ";":
            return mark.start()
        position = closing(plain, mark.start(), "{}" if mark[0] == "{" else "()")
    return len(plain)


def reason(messages: str) -> str | None:
    """Reason of the assembler for variables above the limit; None without one."""
    match = _REFUSED.search(messages)
    return match["why"] if match else None
