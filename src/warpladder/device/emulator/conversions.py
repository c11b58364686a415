"""Conversions of device code to integers, rewritten so that they saturate as a GPU's do: NaN, numbers out of range.

    (int)x            becomes    (int)(emu::To<int>)x
    int(x)                       emu::converted_to<int>(x)
    static_cast<T>(x)            emu::converted_to<T>(x)

so that precedence and types stay. A conversion that is not written down, as in `int n = x;`, stays the CPU's; the
check mode has a remark where such a number is out of range.
"""

from __future__ import annotations

import re

from .rewrite import bare, closing

_INTEGER = (
    r"(?:(?:un)?signed\s+(?:char|short|int|long\s+long|long)(?:\s+int)?|(?:un)?signed|long\s+long(?:\s+int)?|"
    r"long(?:\s+int)?|short(?:\s+int)?|int|char|(?:std\s*::\s*)?(?:u?int(?:8|16|32|64)_t|size_t|ptrdiff_t)|"
    r"u(?:char|short|int|long))"
)
_PARAMETER = re.compile(r"\b(?:typename|class)\s+([A-Za-z_]\w*)\s*(?=[,>=])")
#: Words after which an expression begins.
_BEFORE = re.compile(r"\b(?:return|case|else|throw|and|or|not|do)\s*$")
_CAST_BEFORE = re.compile(rf"\(\s*(?:const\s+)?(?:{_INTEGER}|float|double|bool|half|__half)\s*\)\s*$")


def saturating(text: str, first: int = 0, last: int | None = None) -> str:
    """Text in which conversions to integers saturate, from the position `first` to `last`."""
    plain = bare(text, directives=True)
    last = len(text) if last is None else last
    names = "|".join([_INTEGER, *dict.fromkeys(re.escape(name) for name in _PARAMETER.findall(plain))])
    casts = re.compile(
        rf"\(\s*(?P<c>{names})\s*\)(?=\s*(?:[\w(~!+*&:]|-(?!>)))|"
        r"\bstatic_cast\s*<\s*(?P<static>[^<>*&;{}]*)>(?=\s*\()|"
        rf"(?<![\w:.>~])(?P<call>{names})\s*(?=\()"
    )
    out, position = [], first
    for match in casts.finditer(plain, first, last):
        before = plain[: match.start()]
        if match["c"] and _is_operand(before):
            new = f"{match[0]}(emu::To<{match['c']}>)"
        elif match["static"]:
            new = f"emu::converted_to<{match['static']}>"
        elif match["call"] and _is_operand(before) and _is_value(plain, match.end(), match["call"], names):
            new = f"emu::converted_to<{match['call']}>"
        else:
            continue
        out += [text[position : match.start()], new]
        position = match.end()
    return "".join([text[:first], *out, text[position:]])


def _is_operand(before: str) -> bool:
    """True if an operand may stand after a text."""
    before = before[-80:].rstrip()
    if not before or _BEFORE.search(before) or _CAST_BEFORE.search(before):
        return True
    return before[-1] in "(,=+-*/%<>&|^!~?:[{;}"


def _is_value(plain: str, position: int, name: str, names: str) -> bool:
    """True if the parenthesis at a position holds one value, which a type's name converts: int(x), but not int(int)."""
    last = closing(plain, position, "()")
    inside = plain[position + 1 : last - 1].strip()
    if (
        not inside
        or inside[0] in "*&"
        or re.match(rf"(?:const\s+)?(?:{names}|float|double|void|bool)\b(?!\s*\()", inside)
    ):
        return False
    depth = 0
    for letter in inside:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            return False
    return not re.match(r"\s*[(\[{]", plain[last : last + 20])
