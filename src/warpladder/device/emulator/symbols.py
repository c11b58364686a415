"""Symbols of a source that the host uses: callable kernels, and `__constant__` variables that it fills."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from ...errors import KernelError
from ..declarations import (
    code,
    definition,
    last_name,
    overloaded,
    readable,
    signature,
    span,
    split,
    templates,
    unreadable,
)
from ..source import KernelSource
from ..types import Type, resolve
from .rewrite import bare, blank, closing

_DECLARED = re.compile(r"(?P<before>(?:\b\w+\s+)*)\b__constant__\s+(?P<declared>[^;{}()]+);")
_TYPED = re.compile(r"(?P<type>.*?)\b(?P<name>[A-Za-z_]\w*)\s*(?:\[[^;=]*\]\s*)*", re.DOTALL)
_SCOPE = re.compile(r"\bnamespace\s+(?P<name>\w+(?:\s*::\s*\w+)*)?\s*\{|[{}]")


@cache
def refused(source: KernelSource) -> dict[str, str]:
    """Reasons by name for kernels that cannot be called, without templates, whose parameters depend on the instance."""
    out = dict(unreadable(source))
    plain = bare(source.text)
    for name in dict.fromkeys(readable(source)):
        body = span(source, name)[1]
        where = f"kernel {name} of {source.path.name}"
        if name in overloaded(source):
            out[name] = (
                f"{where}: there are several templates with other parameters, of which a name can mean any: rename them"
            )
        elif "<<<" in plain[body : closing(plain, body)]:
            out[name] = f"{where} launches a kernel itself, which only a whole program can: warpladder run"
        elif name not in templates(source):
            try:
                signature(source, name)
            except KernelError as error:
                out[name] = str(error)
    return out


@cache
def callable_part(source: KernelSource) -> KernelSource:
    """Source without its readable refused kernels; `source` itself if there are none."""
    return without_kernels(source, [name for name in refused(source) if name in readable(source)])


def without_kernels(source: KernelSource, names: Iterable[str]) -> KernelSource:
    """Source with blanks in place of kernels and their explicit instantiations; line numbers do not change."""
    text, plain = list(source.text), bare(source.text)
    for name in names:
        first, body = span(source, name)
        last = closing(plain, body)
        text[first:last] = blank(source.text[first:last])
        short = re.escape(last_name(name))
        instance = rf"\btemplate\s+(?!<)[^;{{}}]*?\b{short}\s*(?:<[^;{{}}()]*>)?\s*\([^;{{}}]*\)\s*;"
        for match in re.finditer(instance, plain):
            text[match.start() : match.end()] = blank(match[0])
    joined = "".join(text)
    return source if joined == source.text else replace(source, text=joined)


def emptied(source: KernelSource) -> KernelSource:
    """Source whose kernels have no statements; line numbers do not change."""
    text, plain = list(source.text), bare(source.text)
    for name in readable(source):
        body = span(source, name)[1] + 1
        last = closing(plain, body - 1) - 1
        text[body:last] = blank(source.text[body:last])
    return replace(source, text="".join(text))


@cache
def constants(source: KernelSource) -> dict[str, Type | None]:
    """Types by name of the `__constant__` variables without a value; None for a type that only the compiler knows."""
    text = bare(source.text)
    out: dict[str, Type | None] = {}
    for match in _DECLARED.finditer(text):
        if "extern" in match["before"].split() or "=" in match["declared"]:
            continue
        first, *others = split(match["declared"])
        words = _TYPED.fullmatch(first)
        for name in (words["name"], *(re.split(r"\W", other, maxsplit=1)[0] for other in others)) if words else ():
            kind = " ".join(f"{match['before']} {words['type'] if words else ''}".replace("static", " ").split())
            out["::".join([*_around(text, match.start()), name])] = resolve(kind, code(source))
    return out


def mentions(source: KernelSource, kernel: str, constant: str) -> bool:
    """True if the source text of a kernel, or of a function that it may call, contains a constant's name."""
    mine = without_kernels(source, [name for name in readable(source) if name != definition(kernel)])
    return len(re.findall(rf"\b{constant.rpartition('::')[2]}\b", bare(mine.text))) > 1  # once where it is declared


def _around(text: str, position: int) -> list[str]:
    """Namespaces around a position, outermost first."""
    around: list[str] = []
    for brace in _SCOPE.finditer(text, 0, position):
        if brace[0] == "}":
            around = around[:-1]
        else:
            around.append("".join((brace["name"] or "").split()))
    return list(filter(None, around))
