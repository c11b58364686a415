"""Macros for the brackets of a launch, so that no editor marks them: #define ARGS2(grid, block) <<<grid, block>>>."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ..device.declarations import split
from ..device.emulator.rewrite import bare, blank, closing

_GAP = r"(?:[ \t]|\\\n)*"
_DEFINED = re.compile(
    rf"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)\((?P<parameters>[^()]*)\){_GAP}(?P<body><<<(?:[^\n>]|\\\n)*>>>){_GAP}$",
    re.MULTILINE,
)


def defined(texts: Iterable[str]) -> dict[str, tuple[list[str], str]]:
    """Parameters and body, by name, of the macros of some texts that are a launch's configuration alone."""
    return {
        match["name"]: (split(match["parameters"]), match["body"].replace("\\\n", " "))
        for text in texts
        for match in _DEFINED.finditer(text)
    }


def expanded(text: str, macros: Mapping[str, tuple[list[str], str]]) -> str:
    """Text with a launch's brackets in place of such macros; line numbers do not change."""
    if not macros:
        return text
    text = _DEFINED.sub(lambda match: match[0].replace(match["body"], re.sub(r"[^\n\\]", " ", match["body"])), text)
    plain, out, position = bare(text), [], 0
    for match in re.finditer(rf"\b(?P<name>{'|'.join(map(re.escape, macros))})\s*\(", plain):
        last = closing(plain, match.end() - 1, "()")
        given = split(text[match.end() : last - 1])
        parameters, body = macros[match["name"]]
        values = dict(zip(parameters, given, strict=False))
        if parameters[-1:] == ["..."]:
            values["__VA_ARGS__"] = ", ".join(given[len(parameters) - 1 :])
        new = re.sub(r"\w+", lambda word, values=values: values.get(word[0], word[0]), body)  # type: ignore[misc]
        lines = blank(text[match.start() : last]).count("\n") - new.count("\n")
        out += [text[position : match.start()], new, "\n" * max(lines, 0)]
        position = last
    return "".join([*out, text[position:]])
