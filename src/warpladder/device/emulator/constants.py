"""The `__constant__` variables of a source that the host has to fill: nothing in the source says what they hold."""

from __future__ import annotations

import re
from functools import cache

from ..signature import code, readable
from ..source import Source
from ..types import Type, resolve
from .symbols import without_kernels
from .text import bare

_DECLARED = re.compile(r"(?P<before>(?:\b\w+\s+)*)\b__constant__\s+(?P<declared>[^;{}()]+);")
_NAME = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*(?:\[[^;=]*\]\s*)*")
_SCOPE = re.compile(r"\bnamespace\s+(?P<name>\w+(?:\s*::\s*\w+)*)?\s*\{|[{}]")


@cache
def constants(source: Source) -> dict[str, Type | None]:
    """By name, with namespaces, the type of an element; None for one that is known to the compiler alone. Those with a
    value of their own are left out.
    """
    text = bare(source.text)
    out: dict[str, Type | None] = {}
    for match in _DECLARED.finditer(text):
        if "extern" in match["before"].split() or "=" in match["declared"]:
            continue
        words = re.fullmatch(
            r"(?P<type>.*?)(?P<names>\b[A-Za-z_]\w*\s*(?:\[[^,]*\]\s*)*(?:,.*)?)", match["declared"], re.DOTALL
        )
        for declared in words["names"].split(",") if words else ():
            name = _NAME.fullmatch(declared)
            if words and name:
                kind = " ".join(f"{match['before']} {words['type']}".replace("static", " ").split())
                out["::".join([*_around(text, match.start()), name["name"]])] = resolve(kind, code(source))
    return out


def mentions(source: Source, kernel: str, constant: str) -> bool:
    """Whether a kernel, or a function that it may call, speaks of a constant by name."""
    mine = without_kernels(source, [name for name in readable(source) if name != kernel.partition("<")[0]])
    return len(re.findall(rf"\b{constant.rpartition('::')[2]}\b", bare(mine.text))) > 1  # once where it is declared


def _around(text: str, position: int) -> list[str]:
    """The namespaces around a place."""
    around: list[str] = []
    for brace in _SCOPE.finditer(text, 0, position):
        if brace[0] == "}":
            around = around[:-1]
        else:
            around.append("".join((brace["name"] or "").split()))
    return list(filter(None, around))
