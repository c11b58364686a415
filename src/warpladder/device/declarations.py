"""Declarations of kernels, read from a .cu file: names, templates and parameters.

`extern "C" __global__ void add(const float* __restrict__ x, float* y, int n)` takes two arrays of float32
and an int. The name of a template kernel includes its arguments, `tiled<16, true>`; a type parameter is replaced by its
argument.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from ..errors import KernelError, WarpladderError
from .signature import Parameter, Signature
from .source import KernelSource
from .types import Type, has_pointers, members, resolve

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INSIDE = r"(?:[^()]|\([^()]*(?:\([^()]*\)[^()]*)*\))*"  # anything, with two levels of parentheses in it
_KERNEL = re.compile(
    r"(?:template\s*<(?P<template>[^{};]*?)>\s*)?(?:(?:extern\s*\"C\"|static|inline|void)\s+)*__global__\s+"
    rf"(?P<middle>(?:[\w\s]|\({_INSIDE}\))*?)\b(?P<name>[A-Za-z_]\w*)\s*\((?P<parameters>{_INSIDE})\)\s*"
    r"(?:->\s*(?P<returns>void)\s*)?\{"
)
_BOUNDS = re.compile(rf"__launch_bounds__\s*\((?P<inside>{_INSIDE})\)")
_DECLARED = re.compile(
    rf"__global__(?:[\w\s]|\({_INSIDE}\))*?(?P<name>[\w:]+)\s*(?P<given><[^;{{}}()]*>)?\s*\({_INSIDE}\)\s*;"
)
_INSTANCE = re.compile(
    rf"\btemplate\s+(?=[^<;{{}}])[^;{{}}]*?(?P<name>[A-Za-z_][\w:]*)\s*(?P<given><[^;{{}}()]*>)\s*\({_INSIDE}\)\s*;"
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", re.MULTILINE)
_SCOPE = re.compile(r"\bnamespace\s+(?P<name>\w+(?:\s*::\s*\w+)*)\s*\{|[{}]")


def names(source: KernelSource) -> list[str]:
    """Names of a source's kernels in order, with namespaces. Raises `KernelError` for an unreadable one. x"""
    found, unread = _kernels(source)
    for reason in unread.values():
        raise KernelError(reason)
    return [full for full, _ in found]


def readable(source: KernelSource) -> list[str]:
    """Names of a source's kernels whose head can be read."""
    return [full for full, _ in _kernels(source)[0]]


def unreadable(source: KernelSource) -> dict[str, str]:
    """Reason, by kernel name, why a kernel with an unreadable head cannot be called."""
    return _kernels(source)[1]


def overloaded(source: KernelSource) -> set[str]:
    """Template kernels that a source defines several times with other parameters: an instance's name is of several."""
    return {full for full in _overloaded(source, _kernels(source)[0]) if "(" not in full}


def _overloaded(source: KernelSource, heads: list[tuple[str, re.Match[str]]]) -> set[str]:
    """Names of kernels with several heads that have other parameters, and not in the branches of an #if."""
    several: dict[str, list[re.Match[str]]] = {}
    for full, match in heads:
        several.setdefault(full, []).append(match)
    return {
        full
        for full, found in several.items()
        if len({"".join(match["parameters"].split()) for match in found}) > 1
        and not re.search(r"^[ \t]*#[ \t]*el", source.text[found[0].start() : found[-1].start()], re.MULTILINE)
    }


def definition(name: str) -> str:
    """Name of a kernel's definition: without template arguments, and with the parameters of an overloaded kernel."""
    return name if re.match(r"[^<(]*\(", name) else name.partition("<")[0].strip()


def callee(name: str) -> str:
    """C++ expression for a kernel, of an overloaded one with the types of its parameters."""
    plain, bracket, _ = definition(name).partition("(")
    return f"*static_cast<void (*){name[len(plain) :]}>(&{plain})" if bracket else name


def scope(name: str) -> str:
    """Namespace of a kernel, or ""."""
    return definition(name).partition("(")[0].rpartition("::")[0]


def last_name(name: str) -> str:
    """Name of a kernel without namespace, template arguments and parameters."""
    return definition(name).partition("(")[0].rpartition("::")[2].strip()


def span(source: KernelSource, name: str) -> tuple[int, int]:
    """Positions in a source's text of a readable kernel's beginning and of its body's opening brace."""
    match = _head(source, name)
    return match.start(), match.end() - 1


def _head(source: KernelSource, name: str) -> re.Match[str]:
    """Head of a kernel; of an overloaded one also in a source that has lost the others."""
    heads = _kernels(source)[0]
    return next(match for full, match in heads if name in (full, full + _types(match)))


def instantiated(source: KernelSource) -> list[str]:
    """Names of template instances, from `template __global__ void k<float>(float*);` or `// instance:` lines."""
    known = templates(source)
    found = [(match["name"], " ".join(match["given"].split())) for match in _INSTANCE.finditer(code(source))]
    explicit = [full + given for name, given in found for full in known if full == name or full.endswith(f"::{name}")]
    return list(dict.fromkeys([*explicit, *source.instances]))


def bounds(source: KernelSource, name: str) -> str:
    """`Signature.bounds` of a kernel, even if its parameters cannot be passed."""
    plain = definition(name)
    given = name[len(plain) :].partition("<")[2]
    return _bounds(_head(source, plain), given.rpartition(">")[0])


def templates(source: KernelSource) -> dict[str, str]:
    """Template parameters, "int TILE, typename T", of a source's template kernels by name."""
    return {
        full: " ".join(match["template"].split())
        for full, match in _kernels(source)[0]
        if match["template"] is not None
    }


@cache
def signature(source: KernelSource, name: str) -> Signature:
    """Signature of a kernel, without namespace if the name is unique. Raises `KernelError` if it is missing."""
    plain = definition(name)
    given = name[len(plain) :].partition("<")[2]
    read, unread = _kernels(source)
    found = {full: match for full, match in read if plain in (match["name"], full)}
    found = found or {full: match for full, match in read if _tight(plain) == _tight(full)}
    if not found and plain in unread:
        raise KernelError(unread[plain])
    if not found:
        there = ", ".join([*(full for full, _ in read), *unread])
        raise KernelError(f"{source.path} has no kernel {plain!r}; it has {there or 'none'}")
    if len(found) > 1 and plain not in found:
        raise KernelError(f"{source.path} has several kernels {plain!r}: {', '.join(found)}")
    full = plain if plain in found else next(iter(found))
    plain = full if "(" in full else plain
    match = found[full]
    if (match["template"] is None) == bool(given):
        raise KernelError(
            f"kernel {plain} of {source.path.name} is {'not ' if given else ''}a template: "
            f"{plain}<...> names an instance"
        )
    types = _type_arguments(match["template"], given.rpartition(">")[0]) if given else {}
    text = match["parameters"].strip()
    parts = split(text) if text not in ("", "void") else []
    full = full + name[len(plain) :] if given else full
    known = tuple(_parameter(part, types, source, full, number) for number, part in enumerate(parts))
    return Signature(full, known, _bounds(match, given.rpartition(">")[0]))


@cache
def code(source: KernelSource) -> str:
    """Source text with blanks in place of comments; all positions stay."""
    return _COMMENT.sub(_blanks, source.text)


def _blanks(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


@cache
def _kernels(source: KernelSource) -> tuple[list[tuple[str, re.Match[str]]], dict[str, str]]:
    """Heads of the kernels by qualified name, and reasons by name for the kernels that cannot be read."""
    text = _DIRECTIVE.sub(_blanks, code(source))
    found = [
        match
        for match in _KERNEL.finditer(text)
        if match["returns"] or re.search(r"\bvoid\b", text[match.start() : match.start("name")])
    ]
    unknown = {}
    known = {match.start() + match[0].index("__global__") for match in found} | {
        match.start() for match in _DECLARED.finditer(text)
    }
    for unread in re.finditer(r"\b__global__\b", text):
        if unread.start() not in known:
            line = " ".join(text[unread.start() :].partition("{")[0].split())
            name = re.search(r"(\w+)\s*\(", line.replace("__launch_bounds__", ""))
            is_number = re.match(r"__global__\s+(?:unsigned|int|float|double|bool|char|long|short|size_t)\b", line)
            unknown[name[1] if name else line[:80]] = f"{source.path.name}: cannot read the kernel '{line[:80]}': " + (
                "a kernel returns void" if is_number else "its name and parameters must stand there without macros"
            )
    named = [(_qualified(match), match) for match in found]
    several = _overloaded(source, named)
    several -= {full for full, match in named if match["template"] is not None}
    return [(full + _types(match) if full in several else full, match) for full, match in named], unknown


def _types(match: re.Match[str]) -> str:
    """Types of a kernel's parameters in parentheses."""
    text = match["parameters"].strip()
    return f"({', '.join(map(_type, split(text) if text not in ('', 'void') else []))})"


def _type(parameter: str) -> str:
    """Type of a declared parameter, without its name and default."""
    text = re.sub(r"\b(?:__restrict__|__restrict)\b", " ", parameter.partition("=")[0])
    text = " ".join(re.sub(r"\(\s*\*[^()]*\)", "(*)", text).split())
    match = re.fullmatch(r"(?P<type>.*?[\s*&>])\w+\s*(?P<array>\[\s*\w*\s*\])?(?P<more>(?:\[[^\[\]]*\])*)", text)
    if match is None or "(*)" in text:
        return text
    pointer = f"(*){match['more']}" if match["more"] else "*"
    return re.sub(r"\s+\*", "*", match["type"].strip()) + (pointer if match["array"] else "")


def _tight(name: str) -> str:
    return re.sub(r"\s+", "", name)


def _qualified(match: re.Match[str]) -> str:
    """Name of a kernel with the namespaces around it."""
    around: list[str] = []
    for brace in _SCOPE.finditer(match.string, 0, match.start()):
        if brace[0] == "}":
            around = around[:-1]
        else:
            around.append("".join((brace["name"] or "").split()))
    return "::".join([*filter(None, around), match["name"]])


def split(text: str) -> list[str]:
    """Parts of a declaration or a list of arguments between the commas outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "(<[{") - (letter in ")>]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _type_arguments(template: str, given: str) -> dict[str, str]:
    """Types by the template's type parameters (typename T)."""
    arguments = split(given)
    out = {}
    for position, declared in enumerate(part.split("=")[0].split() for part in split(template)):
        if declared and declared[0] in ("typename", "class") and position < len(arguments):
            out[declared[-1]] = arguments[position]
    return out


def _bounds(match: re.Match[str], given: str) -> str:
    """First number of a kernel's __launch_bounds__, an expression without the template's names."""
    found = _BOUNDS.search(match["middle"])
    if found is None:
        return ""
    bounds = split(found["inside"])[0]
    for declared, argument in zip(split(match["template"]), split(given), strict=False) if given else ():
        name = re.escape(declared.partition("=")[0].split()[-1])
        bounds = re.sub(rf"\b{name}\b", f"({argument})", bounds)
    return bounds


def _parameter(text: str, instead: Mapping[str, str], source: KernelSource, kernel: str, number: int) -> Parameter:
    """Parameter by its declaration, and by the compiler if its type is not read from the text. number : from 0."""
    shown = " ".join(text.split())
    where = f"kernel {definition(kernel)} of {source.path.name}: "
    # an array of rows is passed as one of numbers: float (*a)[16], float a[][16]
    flat = re.sub(r"\(\s*\*([^()]*)\)\s*(?:\[[^\[\]]*\]\s*)+", r"* \1", shown.partition("=")[0].strip())
    flat = re.sub(r"(\[\s*\w*\s*\])(?:\s*\[[^\[\]]*\])+", r"\1", flat)
    match = re.fullmatch(r"(?P<type>.*?[\s*&>])(?P<name>\w+)\s*(?P<array>\[\s*\w*\s*\])?", flat)
    if match is None:
        raise KernelError(f"{where}cannot read the parameter '{shown}'")
    declared = re.sub(r"\b(?:__restrict__|__restrict)\b", " ", match["type"])
    if declared.count("*") + bool(match["array"]) > 1 or "&" in declared:
        raise KernelError(
            f"{where}'{shown}' is a {'reference' if '&' in declared else 'pointer to pointers'}; "
            "an array is passed as one pointer"
        )
    pointer = "*" in declared or match["array"] is not None
    pointed = declared.partition("*")[0]
    name = " ".join(word for word in pointed.split() if word not in ("const", "volatile", "__grid_constant__"))
    name = instead.get(name, name)
    kind, const = resolve(name, code(source)), "const" in pointed.split()
    if kind is None:
        name, kind, pointer, const = _compiled_type(source, kernel, number, f"{where}the type of '{shown}' ")
    if pointer and has_pointers(kind):
        raise KernelError(
            f"{where}'{shown}' points to structs with pointers in them, of which no array can be made; "
            "pass one by value"
        )
    if pointer:
        return Parameter(match["name"], name, kind.dtype, kind.width, kind.alignment, True, const)
    inside = []
    for part in members(kind):
        taken = part.type, part.kind.dtype, part.kind.width, part.kind.alignment, part.pointer, part.const
        inside.append((part.offset, Parameter(match["name"] + part.path, *taken, bits=part.bits)))
    return Parameter(match["name"], name, kind.dtype, kind.width, kind.alignment, False, const, tuple(inside))


def _compiled_type(source: KernelSource, kernel: str, number: int, where: str) -> tuple[str, Type, bool, bool]:
    """Name, layout, and True for a pointer and a constant target, of a parameter by the compiler of this machine."""
    from .emulator.layouts import parameter_types  # here: a kernel of numbers and arrays needs no compiler

    try:
        found = parameter_types(source, kernel)[number]
    except WarpladderError as error:  # the type is unknown, or there is no compiler
        reason = "is neither a number's nor a struct of numbers, or pointer to one, so it cannot be passed"
        raise KernelError(f"{where}{reason}") from error
    if isinstance(found, str):
        raise KernelError(f"{where}cannot be passed: it {found}")
    return found.name, found.kind, found.is_pointer, found.is_const
