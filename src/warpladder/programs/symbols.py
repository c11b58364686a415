"""Host code that reads or sets a `__device__` or `__constant__` variable by its name: on a GPU it reaches another
variable, of the host, which no kernel sees. Here both would be one.

Found in the text, where it is certain: in functions of the host that declare no such name, outside of the calls that
take the variable itself, as cudaMemcpyToSymbol, and of functions of the program.
"""

from __future__ import annotations

import re

from ..checker.faults import Problem
from ..device.emulator.functions import functions
from ..device.emulator.rewrite import bare, blank, closing
from .sources import ProgramFiles

_VARIABLE = re.compile(
    r"^[ \t]*(?:static\s+|extern\s+)?__(?:device|constant)__\s+(?:volatile\s+)?(?P<type>\w[\w:<>, ]*?)[\s*]+"
    r"(?P<name>[A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*(?:=|;|\{)",
    re.MULTILINE,
)
_CONSTANT = re.compile(r"\b(?:const|constexpr|__managed__|texture|surface)\b|^(?:struct|class|union|enum)$")
#: Words before a name that declare nothing.
_NO_TYPE = r"return|case|else|throw|delete|new|sizeof|and|or|not|do|in"
#: Calls whose arguments are read: of others the parameter may be a reference to the variable.
_READING = re.compile(
    r"(?:if|while|for|switch|printf|fprintf|sprintf|snprintf|assert|f?abs|fabsf|sqrtf?|std::\w+|float|double|int)$"
)


def touched(text: str) -> list[tuple[str, int]]:
    """Name and line of the first use by host code of each variable of the device in a source."""
    plain = bare(text, directives=True)
    bodies = functions(plain)
    known = {
        match["name"]
        for match in _VARIABLE.finditer(plain)
        if not _CONSTANT.search(match["type"]) and not any(first < match.start("name") < last for first, last in bodies)
    }
    found: dict[str, int] = {}
    for first, last in bodies:
        body = _of_host(plain[first:last])
        if re.search(r"__(?:global|device)__|\btemplate\b|\boperator\b", body.partition("{")[0]) or "{" not in body:
            continue
        for name in sorted(known - found.keys()):
            place = _use(body, name)
            if place >= 0:
                found[name] = plain.count("\n", 0, first + place) + 1
    return sorted(found.items(), key=lambda item: item[1])


def _of_host(body: str) -> str:
    """Text of a function or class without what it has for the device, as lambdas and methods."""
    head = body.find("{") + 1
    for match in reversed(list(re.finditer(r"__device__[^;{}]*\{", body[head:]))):
        last = closing(body, head + match.end() - 1, "{}")
        body = body[: head + match.start()] + blank(body[head + match.start() : last]) + body[last:]
    return body


def _use(body: str, name: str) -> int:
    """Position of the first certain use of a name in a function's text; -1 without one, or if it is declared there."""
    if re.search(rf"(?!\b(?:{_NO_TYPE})\b)\b[A-Za-z_][\w:<>]*(?:\s*[*&]+\s*|\s+){name}\b", body):
        return -1
    if re.search(rf"[;{{}}]\s*(?!(?:{_NO_TYPE})\b)[A-Za-z_][\w:<>]*[\s*&]+\w[^;(){{}}]*,\s*[*&]*{name}\b", body):
        return -1
    for match in re.finditer(rf"(?<![\w.>:&]){name}\b(?!\s*(?:\(|::|<(?!<)))", body):
        if _is_read(body, match.start()):
            return match.start()
    return -1


def _is_read(body: str, position: int) -> bool:
    """True if the value at a position is read or set: none of the calls around it can take the variable itself."""
    depth = 0
    for at in range(position - 1, body.index("{"), -1):
        depth += (body[at] in ")]") - (body[at] in "([")
        if depth < 0:
            depth = 0
            before = body[:at].rstrip()
            if body[at] == "[" or not before or before[-1] in "(,=+-*/%&|!?:;{}<":
                continue
            called = re.search(r"[\w:]+$", before)
            if called and not _READING.match(called[0]):
                return False
    return True


def problems(sources: ProgramFiles) -> tuple[Problem, ...]:
    """Problem of each variable of the device that host code of the program's files uses as one of the host."""
    said = "a variable of the device, at {}:{}: on a GPU it is another one, which no kernel reads or writes"
    return tuple(
        Problem(
            "device variable",
            f"host code uses {name}, {said.format(path.name, line)}",
            ((str(path), line),),
            name,
            "",
            0,
            (),
        )
        for path, source in sources.files.items()
        for name, line in touched(source.text)
    )
