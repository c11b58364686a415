"""Proposed launches of a file's kernels: those that its host code makes, with its grid as it stands there, or guesses.

A grid that the file rounds down stays rounded down. Sizes stay names: `--grid "n / 256" --arg n=1000`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from ..device.declarations import code, definition, signature, span, split
from ..device.emulator.rewrite import bare, closing, tight
from ..device.expressions import evaluate
from ..device.signature import Parameter, Signature
from ..device.source import KernelSource
from ..errors import WarpladderError
from .host_values import LENGTH, HostValues

_LAUNCH = re.compile(r"(?P<name>[A-Za-z_][\w:]*)\s*(?P<given><[^<>;{}]*>)?\s*<<<")
#: Definitions of device code that host code may use: macros, constants, functions that return an expression.
_SHARED = re.compile(
    r"^[ \t]*(?:#[ \t]*define[^\n]*|(?:static\s+|constexpr\s+|const\s+)+\w+\s+\w+\s*=[^;{}]*;"
    r"|[^\n;{}]*\b\w+\s*\([^(){};]*\)\s*\{\s*return\s+[^;{}]+;\s*\})",
    re.MULTILINE,
)
#: Size of a dimension that nothing in the file gives, in a launch of two axes; and of the second, so that rows are not
#: taken for columns unseen.
SIDE, OTHER = 50, 40
#: Elements of an array from which on a file's size is made smaller.
MANY = 100_000


@dataclass(frozen=True)
class Proposal:
    """Launch of a kernel.

    values : numbers that the sizes are calculated from, by name. arrays : length and content by name.
    arguments : array, pointer or number of each parameter that has another name.
    pointers : name that the host code has for each array. types : type of each array's elements.
    origin : text of the launch in the file; "" for a guess.
    """

    kernel: str
    grid: tuple[str, ...]
    block: tuple[str, ...]
    shared: str
    values: Mapping[str, str]
    arrays: Mapping[str, str]
    arguments: Mapping[str, str] = field(default_factory=dict)
    pointers: Mapping[str, str] = field(default_factory=dict)
    origin: str = ""
    types: Mapping[str, str] = field(default_factory=dict)


def proposals(source: KernelSource, host: str, kernels: list[str]) -> list[Proposal]:
    """Launches that the host code makes of the kernels, in its order, and a guess for each of the others."""
    host = tight(host)
    plain = bare(host, directives=True)
    shared = _SHARED.findall(bare(source.text, directives=True))
    values = HostValues("\n".join([plain, *shared]))
    out: list[Proposal] = []
    for match in _LAUNCH.finditer(plain):
        end = plain.find(">>>", match.end())
        called = re.compile(r">>>\s*\(").match(plain, end) if end >= 0 else None
        name = match["name"] + " ".join((match["given"] or "").split())
        if called is None:
            continue
        last = closing(plain, called.end() - 1, "()")
        try:
            kernel = signature(source, name)
            made = _of_file(
                source, kernel, values, split(plain[match.end() : end]), split(plain[called.end() : last - 1])
            )
        except WarpladderError:
            continue
        if made:
            out.append(replace(made, origin=" ".join(host[match.start() : last].split())))
    launched = {definition(made.kernel) for made in out}
    for name in kernels:
        if definition(name) not in launched:
            kernel = signature(source, name)
            types = {leaf.name: leaf.type for one in kernel.parameters for leaf in one.leaves if leaf.pointer}
            out.append(replace(guessed(source, kernel), types=types))
    return out


def _of_file(
    source: KernelSource, kernel: Signature, values: HostValues, config: list[str], given: list[str]
) -> Proposal | None:
    """Launch as the host code makes it; None if its sizes or arguments cannot be worked out."""
    if len(config) < 2 or len(given) > len(kernel.parameters) or any(p.is_struct for p in kernel.parameters):
        return None
    grid, block = (values.sizes(text) for text in config[:2])
    shared = values.expanded(config[2]) if len(config) > 2 else "0"
    arrays: dict[str, str] = {}
    pointers: dict[str, str] = {}
    arguments: dict[str, str] = {}
    for parameter, text in zip(kernel.parameters, given, strict=False):
        if not parameter.pointer:
            arguments[parameter.name] = values.expanded(text)
            continue
        if re.fullmatch(r"\s*(?:NULL|nullptr|0)\s*", text):
            arguments[parameter.name] = "null"
            continue
        pointer = re.fullmatch(r"\s*(?:\([^()]*\*\s*\)\s*)?([A-Za-z_]\w*)\s*(?:\+\s*(.+))?", text)
        if pointer is None:
            return None
        length = values.elements(pointer[1], parameter)
        arrays[parameter.name] = length + content(source, kernel, parameter)
        if not length:
            unknown = _unknown(values, kernel, given, len(block) > 1)
            arrays[parameter.name] = unknown + arrays[parameter.name].replace(":uninitialised", ":zeros")
        pointers[parameter.name] = pointer[1]
        if pointer[2]:
            arguments[parameter.name] = f"{parameter.name}+{values.expanded(pointer[2])}"
    if not arrays and any(parameter.pointer for parameter in kernel.parameters):
        return None
    texts = [*grid, *block, shared, *arrays.values(), *(a for a in arguments.values() if a != "null")]
    numbers = values.needed([re.sub(r":.*", "", text) for text in texts], set(arrays))
    sizes = [re.sub(r":.*", "", length) for length in arrays.values()]
    numbers = _smaller(numbers, sizes, kernel, source, len(block) > 1, arguments)
    for parameter in kernel.parameters:  # a parameter's own name stands for its own value alone
        name = parameter.name
        if name in numbers and arguments.get(name, name) != name:
            fixed = numbers.pop(name)
            grid, block = (tuple(_with(text, name, fixed) for text in each) for each in (grid, block))
            shared = _with(shared, name, fixed)
            arrays = {key: _with(text, name, fixed) for key, text in arrays.items()}
            arguments = {key: _with(text, name, fixed) for key, text in arguments.items()}
    own = {key: text for key, text in arguments.items() if text != key}
    floats = {p.name for p in kernel.parameters if not p.pointer and p.name in own}
    numbers |= {name: own.pop(name) for name in floats}
    return Proposal(kernel.name, tuple(grid), tuple(block), shared, numbers, arrays, own, pointers)


def _unknown(values: HostValues, kernel: Signature, given: list[str], is_plane: bool) -> str:
    """Length of an array that nothing in the file gives: in a launch of two axes the two largest numbers' product."""
    numbers = [values.expanded(text) for text in given]
    sizes = sorted(int(n) for n, p in zip(numbers, kernel.parameters, strict=False) if not p.pointer and n.isdigit())
    return str(max(LENGTH, math.prod(sizes[-2:]) if is_plane and len(sizes) > 1 else 0))


def _with(text: str, name: str, value: str) -> str:
    return re.sub(rf"(?<![\w.]){re.escape(name)}\b", value, text)


def _smaller(
    numbers: dict[str, str], lengths: list[str], kernel: Signature, source: KernelSource, is_plane: bool,
    arguments: Mapping[str, str],
) -> dict[str, str]:  # fmt: skip
    """Numbers by name, as `numbers` has them, but with smaller sizes where the checker would take minutes."""

    def largest() -> float:
        known: dict[str, float] = {}
        for name, text in numbers.items():
            known[name] = evaluate(text, known)
        return max((float(evaluate(text, known)) for text in lengths), default=0.0)

    try:
        if largest() <= MANY:
            return numbers
        bounds = _bounds(source, kernel)
        guarded = {arguments.get(name, name) for name in bounds}
        for name, text in list(numbers.items()):
            size = evaluate(text, {})
            if isinstance(size, int) and size > (SIDE if is_plane else LENGTH):
                if name in guarded:
                    numbers[name] = str(SIDE if is_plane else LENGTH)
                else:  # its divisors may matter
                    while size > (64 if is_plane else 4096) and size % 2 == 0:
                        size //= 2
                    numbers[name] = str(size)
    except WarpladderError:
        pass
    return numbers


def body(source: KernelSource, kernel: Signature) -> str:
    """Text of a kernel between its braces, without comments."""
    text = code(source)
    opens = span(source, definition(kernel.name))[1]
    return text[opens : closing(text, opens)]


def _bounds(source: KernelSource, kernel: Signature) -> list[str]:
    """Parameters that something is compared with."""
    text = body(source, kernel)
    whole = [p.name for p in kernel.parameters if not p.pointer and not p.is_struct and p.dtype.kind in "iu"]
    return [
        name
        for name in whole
        if re.search(rf"(?:<|>=|>|<=)\s*\(?\s*{re.escape(name)}\b|\b{re.escape(name)}\s*(?:<=|>)(?!>)", text)
    ]


def content(source: KernelSource, kernel: Signature, parameter: Parameter) -> str:
    """Content of an array: ":uninitialised" if the kernel only writes to it, ":zeros" if it adds to it atomically."""
    name, text = re.escape(parameter.name), body(source, kernel)
    if re.search(rf"\w\s*\[\s*{name}\s*\[", text) and parameter.dtype.kind in "iu":
        return ":zeros" if not parameter.const and re.search(rf"atomic\w+\s*\(\s*&?\s*{name}\b", text) else ""
    if parameter.const:
        return ""
    uses = len(re.findall(rf"\b{name}\b", text))
    stores = len(re.findall(rf"(?:\*\s*{name}|\b{name}\s*\[(?:[^\[\]]|\[[^\[\]]*\])*\])\s*=(?!=)", text))
    if re.search(rf"atomic(?:Add|Sub|Or|Xor|Inc|Max)\s*\(\s*(?:&\s*)?\(?\s*{name}\b", text):
        return ":zeros"
    return ":uninitialised" if uses and stores == uses else ""


def guessed(source: KernelSource, kernel: Signature) -> Proposal:
    """Launch for a kernel that the file does not launch: one thread for each element, in two axes if it uses both."""
    text = body(source, kernel)
    is_plane = re.search(r"\b(?:threadIdx|blockIdx)\s*\.\s*y\b", text) is not None
    bounds = _bounds(source, kernel)
    size = SIDE if is_plane else LENGTH if re.search(r"\bblockIdx\b|\+=\s*blockDim\b", text) else 256
    leaves = [leaf for one in kernel.parameters for leaf in one.leaves]
    limits = [_limit(text, axis, bounds) for axis in ("xy" if is_plane else "x")]
    widths = _tile(source, text, "xy" if is_plane else "x") or ([16, 16] if is_plane else [256])
    several = "4" if "blockIdx" in text else "1"
    grid = tuple(
        f"({limit} + {width - 1}) / {width}" if limit else several for limit, width in zip(limits, widths, strict=True)
    )
    block = tuple(map(str, widths))
    length = f"{SIDE * SIDE}" if is_plane else (limits[0] or f"{size}")
    known = " * ".join(filter(None, limits)) if is_plane and all(limits) and len(bounds) == 2 else length
    arrays = {
        leaf.name: ("1" if _is_single(text, leaf.name) else grid[0] if _is_of_blocks(text, leaf.name) else known)
        + content(source, kernel, leaf)
        for leaf in leaves
        if leaf.pointer
    }
    values = {
        leaf.name: _number(leaf, size if leaf.name in bounds or not bounds else 3)
        for leaf in leaves
        if not leaf.pointer
    }
    if is_plane and known != length and limits[0] != limits[1]:
        values[limits[1]] = str(OTHER)
    shared = str(math.prod(widths) * _dynamic(source, kernel, text))
    return Proposal(kernel.name, grid, block, shared, values, arrays)


def _dynamic(source: KernelSource, kernel: Signature, text: str) -> int:
    """Bytes of dynamic shared memory for each thread: a number of its type; more for bytes, which are carved up."""
    declared = r"extern\b[^;]*__shared__\s*(?P<type>[^;]*?)\w+\s*\["
    found = re.search(declared, text) or re.search(declared, code(source))
    if found is None:
        return 0
    if re.search(r"\b(?:char|uint8_t|byte)\s*$", found["type"]):
        return 16
    return 4 if "<" not in kernel.name and re.search(r"\b(?:float|int|unsigned|short)\s*$", found["type"]) else 8


def _tile(source: KernelSource, text: str, axes: str) -> list[int]:
    """Threads along each axis, by the smallest shared array that a thread's index alone addresses; [] without one."""
    known = HostValues(bare(source.text, directives=True))
    found: list[list[int]] = []
    for match in re.finditer(r"__shared__\s+[\w\s:]+?\b(?P<name>\w+)\s*(?P<sizes>(?:\[[^\[\]]+\]\s*)+)[;,]", text):
        index = r"\s*".join(rf"\[\s*{_index(text, axis)}\s*\]" for axis in reversed(axes))
        if not re.search(rf"(?<!\w){match['name']}\s*(?:\[[^\[\]]+\]\s*)*{index}(?!\s*\[)", text):
            continue
        sizes = re.findall(r"\[([^\[\]]+)\]", match["sizes"])
        if len(axes) == 2:  # rows with a gap
            sizes[-1] = re.sub(r"\+\s*1\s*$", "", sizes[-1])
        sizes = [known.expanded(size) for size in sizes]
        with suppress(WarpladderError):
            numbers = known.needed(sizes, set())
            values: dict[str, float] = {}
            for name, expression in numbers.items():
                values[name] = evaluate(expression, values)
            found.append([int(evaluate(size, values)) for size in sizes[::-1][: len(axes)]])
            if len(axes) == 2 and found[-1][0] == found[-1][1] + 1:
                found[-1][0] -= 1
    fitting = [each for each in found if len(each) == len(axes) and 0 < math.prod(each) <= 1024 and min(each) > 1]
    return min(fitting, key=math.prod, default=[])


def _index(text: str, axis: str) -> str:
    """Pattern of the thread's index along an axis: threadIdx.x, and names that it is assigned to."""
    own = rf"threadIdx\s*\.\s*{axis}"
    return "(?:" + "|".join([own, *re.findall(rf"\b(\w+)\s*=\s*(?:\(int\)\s*)?{own}\s*[;,]", text)]) + ")"


def _number(leaf: Parameter, size: int) -> str:
    """Number for a parameter that the file gives none: `size`, or what its type can hold."""
    if leaf.enumerators:
        return str(leaf.enumerators[0])
    if leaf.dtype.kind not in "iu" or leaf.bits[1]:
        return "1"
    return str(min(size, int(np.iinfo(leaf.dtype).max)))


def _is_single(text: str, name: str) -> bool:
    """True if a pointer is used for one element alone: *count, atomicAdd(count, 1)."""
    uses = len(re.findall(rf"\b{re.escape(name)}\b", text))
    return (
        0
        < uses
        == len(re.findall(rf"(?<![\w)\]])\s*\*\s*{re.escape(name)}\b(?!\s*[\[+])|\(\s*{re.escape(name)}\s*,", text))
    )


def _is_of_blocks(text: str, name: str) -> bool:
    """True if a pointer has an element for each block: sums[blockIdx.x]."""
    uses = len(re.findall(rf"\b{re.escape(name)}\b", text))
    return 0 < uses == len(re.findall(rf"\b{re.escape(name)}\s*\[\s*blockIdx\s*\.\s*x\s*\]", text))


def _limit(text: str, axis: str, bounds: list[str]) -> str:
    """Parameter that a thread's index along an axis is compared with, or ""."""
    index = re.search(
        rf"\b(\w+)\s*=\s*[^;,]*(?:blockIdx\s*\.\s*{axis}[^;,]*threadIdx\s*\.\s*{axis}"
        rf"|threadIdx\s*\.\s*{axis}[^;,]*blockIdx\s*\.\s*{axis})",
        text,
    )
    if index is None:
        return ""
    for name in bounds:
        if re.search(
            rf"\b{index[1]}\s*(?:<|>=)\s*{re.escape(name)}\b|\b{re.escape(name)}\s*(?:>|<=)\s*{index[1]}\b", text
        ):
            return name
    return ""
