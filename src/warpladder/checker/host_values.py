"""`HostValues`: sizes in host code, by the definitions of its names, its dim3, and the lengths of allocations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property, partial

from ..device.declarations import split
from ..device.emulator.rewrite import closing
from ..device.expressions import evaluate
from ..device.signature import Parameter
from ..errors import ConfigError

_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_WORDS = {"sizeof", "true", "false"}
_CAST = re.compile(
    r"(?<!sizeof)(?<!sizeof )\(\s*(?:unsigned\s+)?(?:int|unsigned|size_t|long|float|double)\s*\)"
    r"|(?:static_cast\s*<[\w\s]+>)"
)
#: Rounded up in floating point: ceil(n / 256.0), ceil((float)n / 256).
_CEIL = re.compile(r"(?:std\s*::\s*)?\bceilf?\s*\(")
_SIZEOF = re.compile(r"\s*\*\s*sizeof\s*\(?[^()*]*\)?|\bsizeof\s*\(?[^()*]*\)?\s*\*\s*")
#: Definitions that a name is followed through.
DEPTH = 6
#: Size of a dimension that nothing in the file gives.
LENGTH = 1000


class HostValues:
    """Values of the names of host code. text : without comments, with its directives."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def functions(self) -> dict[str, tuple[list[str], str]]:
        """Parameters and value of each function that only returns one expression, and of each macro."""
        found = {}
        for match in re.finditer(r"\b(\w+)\s*\(([^(){};]*)\)\s*\{\s*return\s+([^;{}]+);\s*\}", self.text):
            found[match[1]] = ([part.split()[-1].strip("*&") for part in split(match[2]) if part], match[3])
        for match in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([^()]*)\)[ \t]+([^\n]+)", self.text, re.MULTILINE):
            found[match[1]] = (split(match[2]), match[3])
        return found

    def definition(self, name: str) -> str:
        """Expression that a name is defined as; "" without one, or with several."""
        word = re.escape(name)
        given = re.findall(rf"(?<![.>\w]){word}\s*=(?!=)\s*([^;,{{}}]+(?:\([^()]*\)[^;,{{}}]*)*)", self.text)
        given += re.findall(rf"^[ \t]*#[ \t]*define[ \t]+{word}[ \t]+([^\n]+)", self.text, re.MULTILINE)
        given += re.findall(
            rf"\b(?:int|size_t|unsigned|long|float|double)\s+{word}\s*[({{]\s*([^;,{{}}()]+)[)}}]\s*[;,]", self.text
        )
        return given[0].strip() if len(set(given)) == 1 else ""

    def dims(self, name: str) -> list[str]:
        """Sizes of a dim3; [] for another name."""
        word = re.escape(name)
        match = re.search(rf"\bdim3\s+(?:\w[^;]*,\s*)?{word}\s*(?:=\s*(?:dim3\s*)?)?([({{])", self.text)
        if match is None:
            alone = re.search(rf"\bdim3\s+{word}\s*=\s*([^;({{]+);", self.text)
            return [alone[1]] if alone else []
        pair = "()" if match[1] == "(" else "{}"
        return split(self.text[match.end() : closing(self.text, match.end() - 1, pair) - 1])

    def length(self, name: str) -> str:
        """Expression of the elements of a std::vector or std::array; a name of its own for another object."""
        word = re.escape(name)
        vector = re.search(rf"vector\s*<[^;(){{}}]*>\s*(?:[^;]*\)\s*,\s*)?{word}\s*\(", self.text)
        if vector:
            return split(self.text[vector.end() : closing(self.text, vector.end() - 1, "()") - 1])[0]
        array = re.search(rf"\barray\s*<[^;]*,\s*([^;<>,]+)>\s*{word}\b", self.text)
        return array[1].strip() if array else f"{name}_size"

    def sizes(self, text: str) -> tuple[str, ...]:
        """Sizes of a grid or block as a launch names it."""
        text = text.strip()
        made = re.fullmatch(r"dim3\s*[({](.*)[)}]", text, re.DOTALL)
        parts = split(made[1]) if made else self.dims(text) or [text]
        return tuple(self.expanded(part) for part in parts)

    def expanded(self, text: str, depth: int = DEPTH) -> str:
        """Expression of plain names and operators: without casts, members of dim3, ceil and own functions."""
        text = " ".join(text.split())
        while depth and (match := _CEIL.search(text)):
            last = closing(text, match.end() - 1, "()")
            inside = text[match.end() : last - 1]
            is_float = re.search(r"\d\.|\bfloat\b|\bdouble\b", inside)
            parts = re.fullmatch(r"(.+?)/([^/]+)", _CAST.sub("", inside))
            if is_float and parts:
                by = re.sub(r"(\d+)\.0*f?\b|(\d+)\.f?", r"\1\2", parts[2]).strip()
                inside = f"({parts[1].strip()} + {by} - 1) / {by}"
            text = f"{text[: match.start()]}({inside}){text[last:]}"
            depth -= 1
        text = _CAST.sub("", text)
        for match in reversed(list(re.finditer(r"\b([A-Za-z_]\w*)\s*\.\s*size\s*\(\s*\)", text))):
            size = self.expanded(self.length(match[1]), depth - 1) if depth else f"{match[1]}_size"
            text = f"{text[: match.start()]}{_bracketed(size)}{text[match.end() :]}"
        for match in reversed(list(re.finditer(r"\b([A-Za-z_]\w*)\s*\.\s*([xyz])\b", text))):
            dims = self.dims(match[1])
            if dims:
                axis = "xyz".index(match[2])
                size = self.expanded(dims[axis], depth - 1) if axis < len(dims) and depth else "1"
                text = f"{text[: match.start()]}{_bracketed(size)}{text[match.end() :]}"
        for match in reversed(list(re.finditer(r"\b([A-Za-z_]\w*)\s*\(", text))):
            if match[1] in self.functions and depth:
                last = closing(text, match.end() - 1, "()")
                names, value = self.functions[match[1]]
                given = dict(zip(names, split(text[match.end() : last - 1]), strict=False))
                value = _NAME.sub(partial(_inserted, given), value)
                text = f"{text[: match.start()]}({self.expanded(value, depth - 1)}){text[last:]}"
        return _trimmed(text)

    def elements(self, pointer: str, parameter: Parameter) -> str:
        """Length of the allocation that a pointer gets; "" without one."""
        called = r"\bcudaMalloc(?:Managed|Async)?\s*(?:<[^<>]*>)?\s*"
        match = re.search(rf"{called}\(\s*(?:\([^()]*\)\s*)?&\s*{re.escape(pointer)}\s*,", self.text)
        if match is None:
            return ""
        opened = match.start() + len(re.match(called, match[0])[0])  # type: ignore[index]
        size = split(self.text[opened + 1 : closing(self.text, opened, "()") - 1])[1]
        for _ in range(DEPTH):
            if "sizeof" in size or not re.fullmatch(r"\w+", size.strip()) or not self.definition(size.strip()):
                break
            size = self.definition(size.strip())
        if "sizeof" in size:
            return self.expanded(_SIZEOF.sub("", size, count=1)) or "1"
        product = re.fullmatch(r"(.+)\*\s*(\d+)|(\d+)\s*\*\s*(.+)", size.strip())
        width = parameter.dtype.itemsize * parameter.width
        if product and (product[2] or product[3]) == str(width):
            return self.expanded(product[1] or product[4])
        return f"{_bracketed(self.expanded(size))} / {width}" if width > 1 else self.expanded(size)

    def needed(self, texts: list[str], own: set[str]) -> dict[str, str]:
        """Values of all names in some expressions, those first that others are calculated from.

        own : names that are no numbers. A name without a value in the text gets `LENGTH`, or 1 if it is a fraction.
        """
        out: dict[str, str] = {}

        def add(name: str, depth: int) -> None:
            if name in out or name in own or name in _WORDS:
                return
            text = self.expanded(self.definition(name)) if depth else ""
            inner = [word for word in _names(text) if word not in _WORDS]
            if text and (name in inner or re.search(r"[^\w\s.+\-*/%<()]|\w\s*\(", re.sub(r"sizeof\s*\(", "", text))):
                text, inner = "", []
            for word in inner:
                add(word, depth - 1)
            try:
                evaluate(text, dict.fromkeys(inner, 1))
            except ConfigError:
                text = str(LENGTH)
            out[name] = text

        for text in texts:
            for name in _names(text):
                add(name, DEPTH)
        return out


def _names(text: str) -> list[str]:
    """Names in an expression, without the types of sizeof."""
    return _NAME.findall(re.sub(r"\bsizeof\s*\([^()]*\)", "", text))


def _inserted(given: Mapping[str, str], word: re.Match[str]) -> str:
    return _bracketed(given.get(word[0], word[0]))


def _bracketed(text: str) -> str:
    return text if re.fullmatch(r"[\w.]+|\(.*\)", text) and text.count("(") <= 1 else f"({text})"


def _trimmed(text: str) -> str:
    """Text without parentheses around all of it."""
    text = text.strip()
    while text.startswith("(") and closing(text, 0, "()") == len(text):
        text = text[1:-1].strip()
    return text
