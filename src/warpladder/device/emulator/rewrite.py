"""Declarations of shared memory, rewritten so that every block has its own.

    __shared__ float a[16], sum;

becomes, in one line,

    struct emu_0 { float a[16]; ... }; auto& a = emu::shared<emu_0>().a; struct emu_1 { float sum; ... }; auto& sum =
    ...

and `extern __shared__ float s[];` a pointer to the dynamic part (headers/shared.h). Everything else of a source stays
as it is, line for line.
"""

from __future__ import annotations

import re
from itertools import count

from ...errors import KernelError

_ASIDE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.DOTALL)
_DECLARATION = re.compile(
    r"(?P<before>(?:\b(?:extern|static|volatile|const|alignas\s*\([^;]*?\)|__align__\s*\([^;]*?\))\s*)*)\b__shared__\b(?P<declared>[^;{}]*);"
)
_NAME = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*(?P<sizes>(?:\[[^;]*\])?)\s*")
_BRACE = re.compile(r"(?P<outer>\bnamespace\b[\w\s:]*|\bextern\s*)?\{|\}")
_WORD = re.compile(r"\b(extern|static)\b")


def rewritten(text: str, file: str) -> str:
    """A source with its shared memory in the hands of the emulator; `KernelError` names the line of a declaration that
    cannot be read.
    """
    bare = _ASIDE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    out, position, numbers = [], 0, count()
    for match in _DECLARATION.finditer(bare):
        start = match.start()
        line, source = _line(text, start, file)
        inside = _depth(bare[:start]) > 0
        declared = f"{_WORD.sub('', match['before'])} {match['declared']}"
        what = f"{source}:{line}: '__shared__{' '.join(match['declared'].split())};'"
        if "extern" in match["before"]:
            new = _dynamic(declared, inside, what)
        elif not inside:
            raise KernelError(
                f"{what} stands outside of a function; the emulator wants shared memory declared in the kernel that uses it"
            )
        else:
            new = _static(declared, what, line, source, numbers)
        out += [text[position:start], new, "\n" * match[0].count("\n")]
        position = match.end()
    return "".join([*out, text[position:]])


def names(text: str) -> list[str]:
    """The shared variables of a source, in order."""
    bare = _ASIDE.sub(" ", text)
    found = []
    for match in _DECLARATION.finditer(bare):
        _, declarators = _split(match["declared"])
        found += [m["name"] for d in declarators if (m := _NAME.fullmatch(d))]
    return found


def _dynamic(declared: str, inside: bool, what: str) -> str:
    kind, declarators = _split(declared)
    match = _NAME.fullmatch(declarators[0]) if len(declarators) == 1 else None
    if match is None or re.sub(r"\s", "", match["sizes"]) != "[]":
        raise KernelError(
            f"{what} is no array of open length, as dynamic shared memory is declared: extern __shared__ float s[];"
        )
    name = match["name"]
    kind = re.sub(r"\b(?:alignas|__align__)\s*\(.*?\)", "", kind).strip()
    if inside:
        return f'{kind}* {name} = emu::dynamic_shared<{kind}>("{name}");'
    return f'static const emu::DynamicShared<{kind}> {name}{{"{name}"}};'


def _static(declared: str, what: str, line: int, file: str, numbers: count[int]) -> str:
    kind, declarators = _split(declared)
    parts = []
    for declarator in declarators:
        match = _NAME.fullmatch(declarator)
        if match is None or not kind:
            raise KernelError(
                f"{what} cannot be read: shared memory is declared as a type, names and sizes, without a value"
            )
        name, struct = match["name"], f"emu_{next(numbers)}"
        parts.append(
            f"struct {struct} {{ {kind} {declarator}; "
            f'static const char* emu_name() {{ return "{name}"; }} '
            f"static const char* emu_function() {{ return __PRETTY_FUNCTION__; }} "
            f'static const char* emu_file() {{ return "{file}"; }} static int emu_line() {{ return {line}; }} '
            f"static unsigned emu_element() {{ return sizeof(std::remove_all_extents_t<decltype({name})>); }} }}; "
            f"auto& {name} = emu::shared<{struct}>().{name};"
        )
    return " ".join(parts)


def _split(declared: str) -> tuple[str, list[str]]:
    """The type, and each name with its sizes: "float4 a[2], b" is ("float4", ["a[2]", "b"])."""
    parts, depth = [""], 0
    for letter in declared:
        depth += (letter in "(<[") - (letter in ")>]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    first = re.fullmatch(r"(?P<type>.*?)(?P<name>\b[A-Za-z_]\w*\s*(?:\[.*\])?\s*)", parts[0], re.DOTALL)
    if first is None:
        return "", [part.strip() for part in parts]
    return " ".join(first["type"].split()), [" ".join(part.split()) for part in (first["name"], *parts[1:])]


def _depth(before: str) -> int:
    """How many braces are open, those of namespaces and of extern "C" aside."""
    inner: list[bool] = []
    for brace in _BRACE.finditer(before):
        if brace[0] == "}":
            inner = inner[:-1]
        else:
            inner.append(brace["outer"] is None)
    return sum(inner)


def _line(text: str, position: int, file: str) -> tuple[int, str]:
    """The line and the file of a position in a text with #line directives."""
    line, source, start = text.count("\n", 0, position) + 1, file, 0
    for match in re.finditer(r'^#line (\d+) "([^"\n]*)"$', text[:position], re.MULTILINE):
        start, source = match.end(), match[2]
        line = int(match[1]) + text.count("\n", start, position) - 1
    return line, source
