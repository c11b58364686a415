"""Functions in the text of a source, and those of the device among them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .rewrite import closing

_SCOPE = re.compile(r"(?P<outer>\bnamespace\b[\w\s:]*|\bextern\s*)?\{|\}|;")
_OF_DEVICE = re.compile(r"\b__(?:global|device)__\b")


def functions(plain: str) -> list[tuple[int, int]]:
    """Positions (first, last) of functions with a body, at the top level and in namespaces."""
    found, start, depth, inner = [], 0, 0, 0
    for match in _SCOPE.finditer(plain):
        if match[0] == ";":
            start = match.end() if inner == 0 else start
        elif match[0] == "}":
            if inner:
                inner -= 1
                if inner == 0:
                    found.append((start, match.end()))
            else:
                depth -= 1
            start = match.end() if inner == 0 else start
        elif match["outer"] and inner == 0:
            depth += 1
            start = match.end()
        else:
            inner += 1
    return found


def of_templates(plain: str) -> Iterator[tuple[int, int, int]]:
    """Positions as of `of_device`, of the templates of functions, without methods."""
    for first, last in functions(plain):
        head = plain[first:last].partition("{")[0]
        if re.search(r"\btemplate\b", head) and _OF_DEVICE.search(head) and "(" in head:
            yield first, first + len(head), last


def of_device(plain: str) -> Iterator[tuple[int, int, int]]:
    """Positions (first, body, last) of kernels and device functions that are no templates: of the head, the open
    brace, and the end. Methods of classes and lambdas are among them, those of templates are not.
    """
    for first, last in functions(plain):
        head = plain[first:last].partition("{")[0]
        if re.search(r"\btemplate\b", head):
            continue
        if _OF_DEVICE.search(head) and "(" in head:
            yield first, first + len(head), last
            continue
        position = first + len(head) + 1
        while match := _OF_DEVICE.search(plain, position, last):
            begin = max(plain.rfind(mark, first, match.start()) for mark in ";{}") + 1
            body = min(plain.find(mark, match.end(), last) % (last + 1) for mark in ";{")
            position = max(body, match.end())
            if plain[body : body + 1] == "{" and "(" in plain[match.end() : body]:
                position = closing(plain, body)
                if not re.search(r"\btemplate\b", plain[begin:body]):
                    yield begin, body, position
