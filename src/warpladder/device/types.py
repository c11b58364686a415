"""C's types as NumPy's dtypes, for pointers and numbers.

Built-in types are known; a source's typedefs, `using`, macros and structs become NumPy's structured dtypes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Type:
    """C type.

    dtype : dtype of one element; a pointer in a struct is a uint64. width : elements in one value: 4 for float4.
    alignment : alignment of a value's address, in bytes. members : numbers and pointers of a struct, including nested
    ones.
    """

    dtype: np.dtype
    width: int = 1
    alignment: int = 1
    members: tuple[Member, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of one value of the type."""
        return self.dtype.itemsize * self.width


@dataclass(frozen=True)
class Member:
    """Number or pointer in a struct.

    path : ".n", ".size.x", ".taps[2]". offset : bytes from the beginning of the struct.
    type : type as in the source, without const; a pointer's target type. kind : C type of the number or target.
    pointer, const : True if it is a pointer; True if its target is constant. bits : first bit and number of bits of a
    bit-field, from the lowest bit at the offset.
    """

    path: str
    offset: int
    type: str
    kind: Type
    pointer: bool = False
    const: bool = False
    bits: tuple[int, int] = (0, 0)


def _plain(dtype: Any, width: int = 1) -> Type:
    size = np.dtype(dtype).itemsize * width
    return Type(np.dtype(dtype), width, np.dtype(dtype).itemsize if width == 3 else min(size, 16))


_NAMES: dict[str, Any] = {
    "int8_t": np.int8, "uint8_t": np.uint8, "int16_t": np.int16, "uint16_t": np.uint16, "int32_t": np.int32,
    "uint32_t": np.uint32,
    "int64_t": np.int64, "uint64_t": np.uint64, "size_t": np.uint64, "ptrdiff_t": np.int64, "uint": np.uint32,
    "ushort": np.uint16,
    "uchar": np.uint8, "half": np.float16, "__half": np.float16, "__nv_bfloat16": np.uint16, "nv_bfloat16": np.uint16,
}  # fmt: skip
_VECTORS: dict[str, Any] = {
    "char": np.int8, "uchar": np.uint8, "short": np.int16, "ushort": np.uint16, "int": np.int32, "uint": np.uint32,
    "long": np.int64,
    "ulong": np.uint64, "longlong": np.int64, "ulonglong": np.uint64, "float": np.float32, "double": np.float64,
}  # fmt: skip
BUILT_IN: dict[str, Type] = {name: _plain(dtype) for name, dtype in _NAMES.items()}
BUILT_IN |= {f"{name}{width}": _plain(dtype, width) for name, dtype in _VECTORS.items() for width in (1, 2, 3, 4)}
BUILT_IN |= {
    "dim3": _plain(np.uint32, 3),
    "half2": _plain(np.float16, 2),
    "__half2": _plain(np.float16, 2),
    "__nv_bfloat162": _plain(np.uint16, 2),
}

_WORDS = {"unsigned", "signed", "char", "short", "int", "long", "float", "double", "bool"}
_ASIDE = re.compile(r"\b(?:const|volatile|struct|typename|__restrict__|__restrict|__grid_constant__)\b|\bstd::")
_NAMED = re.compile(
    r"\btypedef\s+(?P<old>[\w:\s]+?)\s*\b(?P<new>\w+)\s*;"
    r"|\busing\s+(?P<alias>\w+)\s*=\s*(?P<of>[\w:\s]+?)\s*;"
    r"|^[ \t]*#[ \t]*define[ \t]+(?P<macro>\w+)[ \t]+(?P<body>[\w:][\w: \t]*?)[ \t]*$",
    re.MULTILINE,
)
_STRUCT = re.compile(
    r"\bstruct\s+(?:(?:__align__|alignas)\s*\(\s*(?P<align>\d+)\s*\)\s*)?(?P<name>\w+)?\s*"
    r"\{(?P<members>[^{}()]*)\}\s*(?P<after>\w+)?\s*;"
)
_MEMBER = re.compile(r"(?P<name>\w+)\s*(?P<sizes>(?:\[\s*\d+\s*\]\s*)*)")


def resolve(name: str, code: str, instead: Mapping[str, str] | None = None) -> Type | None:
    """Type of this name in a source; None if it has no fixed layout. Structs may hold pointers, of which no array can
    be created.

    name : "const float", "unsigned char", "u8", "struct Particle"; without the star of a pointer.
    code : the source's text without comments. instead : types of a template's parameters.
    """
    return _resolve(name, code, dict(instead or {}), 0)


def members(kind: Type) -> tuple[Member, ...]:
    """Numbers and pointers in a value of a type that is not a single number; for float4 .x, .y, .z and .w."""
    if kind.members or kind.width == 1:
        return kind.members
    one = Type(kind.dtype, 1, kind.dtype.itemsize)
    return tuple(Member(f".{'xyzw'[i]}", i * kind.dtype.itemsize, str(kind.dtype), one) for i in range(kind.width))


def _resolve(name: str, code: str, instead: Mapping[str, str], depth: int) -> Type | None:
    words = _ASIDE.sub(" ", name).split()
    plain = " ".join(words)
    if depth > 16 or not words:  # a name that stands for itself
        return None
    if plain in instead:
        return _resolve(instead[plain], code, {}, depth + 1)
    if set(words) <= _WORDS:
        return _arithmetic(words)
    if plain in BUILT_IN:
        return BUILT_IN[plain]
    for match in _NAMED.finditer(code):
        if plain in (match["new"], match["alias"], match["macro"]):
            found = _resolve(match["old"] or match["of"] or match["body"], code, {}, depth + 1)
            if found is not None:
                return found
    for match in _STRUCT.finditer(code):
        if plain in (match["name"], match["after"]):
            return _struct(match["members"], int(match["align"] or 1), code, depth)
    return None


def _arithmetic(words: list[str]) -> Type | None:
    """Arithmetic type of words in any order: int, unsigned long long, short unsigned int, ...; None for others."""
    sign, kinds = "u" if "unsigned" in words else "i", set(words) - {"unsigned", "signed"}
    if kinds in ({"float"}, {"double"}, {"bool"}) and len(words) == 1:
        return _plain({"float": np.float32, "double": np.float64, "bool": np.bool_}[words[0]])
    for kind, size in (("char", 1), ("short", 2), ("long", 8)):
        if kind in kinds and kinds <= {kind, "int"}:
            return _plain(f"{sign}{size}")
    return _plain(f"{sign}4") if kinds <= {"int"} else None


def _struct(members: str, alignment: int, code: str, depth: int) -> Type | None:
    """Type with C's struct layout: each member at the next multiple of its alignment; None for unknown members."""
    names: list[str] = []
    formats: list[Any] = []
    offsets: list[int] = []
    inside: list[Member] = []
    end = 0
    for declaration in filter(None, (part.strip() for part in members.split(";"))):
        first, *others = declaration.split("=")[0].split(",")
        match = re.fullmatch(r"(?P<type>.*?)\s*\b(?P<first>\w+\s*(?:\[\s*\d+\s*\]\s*)*)", first, re.DOTALL)
        kind = _resolve(match["type"].partition("*")[0], code, {}, depth + 1) if match else None
        if match is None or kind is None:
            return None
        target, pointer = kind, "*" in match["type"]
        if match["type"].count("*") > 1 or (pointer and (others or has_pointers(target))):
            return None
        if pointer:
            kind = _plain(np.uint64)
        words = _ASIDE.sub(" ", match["type"].partition("*")[0]).split()
        named = " ".join(words), pointer, "const" in match["type"].partition("*")[0].split()
        for text in (match["first"], *others):
            member = _MEMBER.fullmatch(text.strip())
            if member is None:
                return None
            shape = tuple(int(size) for size in re.findall(r"\d+", member["sizes"])) + (
                (kind.width,) if kind.width > 1 else ()
            )
            end = -(-end // kind.alignment) * kind.alignment
            names.append(member["name"])
            formats.append((kind.dtype, shape))
            offsets.append(end)
            inside += _inside(
                member["name"], tuple(map(int, re.findall(r"\d+", member["sizes"]))), end, kind, target, named
            )
            end += np.dtype((kind.dtype, shape)).itemsize
            alignment = max(alignment, kind.alignment)
    if not names or len(set(names)) < len(names):
        return None
    size = -(-end // alignment) * alignment
    return Type(
        np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size}),
        1,
        alignment,
        tuple(inside),
    )


def enumeration(dtype: np.dtype, values: tuple[int, ...]) -> np.dtype:
    """dtype of an enum with these values."""
    return np.dtype(dtype.str, metadata={"enumerators": values})


def enumerators(dtype: np.dtype) -> tuple[int, ...]:
    """Values of an enum's dtype; () for other dtypes."""
    return tuple(dtype.metadata["enumerators"]) if dtype.metadata and "enumerators" in dtype.metadata else ()


def has_pointers(kind: Type) -> bool:
    """True if a value holds addresses, which no host array can."""
    return any(member.pointer for member in kind.members)


def _inside(
    name: str, sizes: tuple[int, ...], offset: int, kind: Type, target: Type, named: tuple[str, bool, bool]
) -> list[Member]:
    """Numbers and pointers that one member adds to its struct: itself, or each number in it."""
    out = []
    for number, index in enumerate(np.ndindex(*sizes)):
        path, at = f".{name}{''.join(f'[{i}]' for i in index)}", offset + number * kind.size
        parts = () if named[1] else members(kind)
        out += [
            Member(path + part.path, at + part.offset, part.type, part.kind, part.pointer, part.const) for part in parts
        ]
        if not parts:
            out.append(Member(path, at, named[0], target, *named[1:]))
    return out
