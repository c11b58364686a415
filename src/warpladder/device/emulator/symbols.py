"""Kernels of a source that cannot be called, and the source without them: one parameter that nobody can pass keeps no
other kernel from being checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from ...errors import KernelError
from ..signature import readable, signature, span, templates, unreadable
from ..source import Source
from .text import bare, blank, closing


@cache
def refused(source: Source) -> dict[str, str]:
    """Kernels by name, and in a line why each cannot be called. Templates are not asked: what their parameters are an
    instance says.
    """
    out = dict(unreadable(source))
    for name in readable(source):
        if name not in templates(source):
            try:
                signature(source, name)
            except KernelError as error:
                out[name] = str(error)
    return out


@cache
def callable_part(source: Source) -> Source:
    """The source without the kernels that are refused and can be told apart; `source` itself where there are none."""
    return without_kernels(source, [name for name in refused(source) if name in readable(source)])


def without_kernels(source: Source, names: Iterable[str]) -> Source:
    """The source with blanks in place of kernels, and of their explicit instantiations; every line keeps its number."""
    text, plain = list(source.text), bare(source.text)
    for name in names:
        first, body = span(source, name)
        last = closing(plain, body)
        text[first:last] = blank(source.text[first:last])
        short = re.escape(name.rpartition("::")[2])
        for match in re.finditer(
            rf"\btemplate\s+(?!<)[^;{{}}]*?\b{short}\s*(?:<[^;{{}}()]*>)?\s*\([^;{{}}]*\)\s*;", plain
        ):
            text[match.start() : match.end()] = blank(match[0])
    joined = "".join(text)
    return source if joined == source.text else replace(source, text=joined)
