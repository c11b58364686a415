"""Marks of copies and fills whose size counts elements instead of bytes: cudaMemcpy(d, h, n, ...) with `const int n =
1000;`.

The size of such a call is replaced by `emu::elements(n)`. The run reports it as a fault if it equals the number of
elements of the array. A size that a sizeof leads to is replaced by `emu::bytes(n * sizeof(int) / parts)`, and is not
judged: a part of an array may have as many bytes as the array has elements. `sizeof(h)` of a copied name h becomes
`emu::size_of<decltype(h)>(sizeof(h))`, a fault if h is a pointer and the array is longer. A size from another source,
for example from a function, is not marked; the run makes a remark of it.
"""

from __future__ import annotations

import re

from ..device.declarations import split
from ..device.emulator.rewrite import bare, closing

_CALL = re.compile(r"\b(?:cudaMemcpy(?:ToSymbol|FromSymbol)?|cudaMemset)(?:Async)?\s*\(")
_SIZE_OF = re.compile(r"sizeof\s*(?P<open>\()?\s*(?P<name>[A-Za-z_]\w*)\s*(?(open)\))")
_NAME = re.compile(r"\b[A-Za-z_]\w*\b")
#: Pattern of a product with the bytes of a number, as n * 4 and n << 2.
_PRODUCT = re.compile(r"\*\s*(?:2|4|8|16)\b|(?<![\w.])(?:2|4|8|16)\s*\*|<<\s*[1-4]\b")
_BYTES = re.compile(r"byte|size|mem", re.IGNORECASE)
#: Words of an expression without information on its unit: types, casts, and functions that read numbers.
_WORDS = re.compile(
    r"int|unsigned|signed|long|short|size_t|u?int\d+_t|std|const|auto|static_cast|true|false|min|max|argc|argv|"
    r"ato(?:i|l|ll)|sto(?:i|l|ul)|strtou?l|nullptr|NULL"
)
#: Most definitions through which a name is followed.
DEPTH = 5


def marked(text: str) -> str:
    """Text in which sizes of copies and fills that count elements are arguments of emu::elements."""
    plain, code = bare(text), bare(text, directives=True)
    out, position = [], 0
    for match in _CALL.finditer(plain):
        last = closing(plain, match.end() - 1, "()")
        arguments = split(plain[match.end() : last - 1])
        if len(arguments) < 3:
            continue
        is_count = counts_elements(arguments[2], code)
        if not is_count and not counts_bytes(arguments[2], code):
            continue
        span = _third(plain, match.end(), last - 1)
        of_pointer = _SIZE_OF.fullmatch(arguments[2].strip())
        unit = "elements" if is_count else "bytes"
        if of_pointer and of_pointer["name"] in (each.strip() for each in arguments[:2]):
            unit = f"size_of<decltype({of_pointer['name']})>"
        out += [text[position : span[0]], f" emu::{unit}({text[span[0] : span[1]].strip()})"]
        position = span[1]
    return "".join([*out, text[position:]])


def counts_elements(size: str, code: str) -> bool:
    """True if a size counts elements: by all definitions of its names, without sizeof and without a product with the
    bytes of a number.

    code : text of the file, with its directives and without comments.
    """
    return not _PRODUCT.search(size) and _is_count(size, code, frozenset(), DEPTH)


def counts_bytes(size: str, code: str, depth: int = DEPTH) -> bool:
    """True if a size is a product with the bytes of a number, or a sizeof leads to it, by the definitions of its names,
    and none divides.
    """
    if re.search(r"\*\s*(?:2|4|8|16)\b|(?<![\w.])(?:2|4|8|16)\s*\*", size):
        return "/" not in size
    if "sizeof" in size:
        return not re.search(r"/\s*\(?\s*sizeof", size)
    values = [value for name in set(_NAME.findall(size)) for value in _definitions(name, code) if depth]
    return any(counts_bytes(value, code, depth - 1) for value in values)


def _is_count(expression: str, code: str, seen: frozenset[str], depth: int) -> bool:
    for name in set(_NAME.findall(expression)) - seen:
        if _WORDS.fullmatch(name):
            continue
        values = _definitions(name, code)
        if name == "sizeof" or depth == 0 or _is_changed(name, code):
            return False
        if not values and (_BYTES.search(name) or not re.search(rf"\b(?:int|unsigned)\s+{name}\s*[,)]", code)):
            return False  # neither a definition nor a function's parameter of a whole number
        for value in values:
            if _BYTES.search(name) and _PRODUCT.search(value):
                return False
            if not _is_count(value, code, seen | {name}, depth - 1):
                return False
    return bool(expression.strip())


def _is_changed(name: str, code: str) -> bool:
    """True if the code changes the value of a name after its definition, for example a counter."""
    return re.search(rf"\b{name}\s*(?:(?:[-+*/%]|<<|>>)=|\+\+|--)|(?:\+\+|--)\s*{name}\b", code) is not None


def _definitions(name: str, code: str) -> list[str]:
    """Values assigned to a name in a file: const int n = 1000; #define n 1000; int n(1000);"""
    given = re.findall(rf"(?<![.>\w]){name}\s*=(?!=)\s*([^;,{{}}]+)", code)
    given += re.findall(rf"^[ \t]*#[ \t]*define[ \t]+{name}[ \t]+([^\n]+)", code, re.MULTILINE)
    return given + re.findall(rf"\b(?:int|size_t|unsigned|long)\s+{name}\s*[({{]\s*([^;,{{}}()]+)[)}}]\s*;", code)


def _third(plain: str, start: int, end: int) -> tuple[int, int]:
    """First and last position of the third argument in the parentheses of a call."""
    depth, commas = 0, [start - 1]
    for at in range(start, end):
        depth += (plain[at] in "(<[{") - (plain[at] in ")>]}")
        if plain[at] == "," and depth == 0:
            commas.append(at)
    commas.append(end)
    return commas[2] + 1, commas[3]
