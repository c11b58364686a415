"""Types of a kernel's parameters as the compiler lays them out: classes with methods, bases, unions, enums, templates.

The source is compiled with debug information, without the bodies of its kernels, and the layout is read from there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from ...errors import KernelError
from ..declarations import callee, definition
from ..source import KernelSource
from ..types import BUILT_IN, Member, Type, enumeration
from .debug_info import DebugEntry, entries
from .faulty import without_faulty
from .rewrite import rewritten, with_headers, without_ptx
from .symbols import emptied
from .toolchain import ALWAYS, HEADERS, key, made

#: Tags of debug entries around a type that change nothing about its layout.
_QUALIFIERS = ("const_type", "volatile_type", "restrict_type", "typedef", "atomic_type")
_NUMBERS = {2: "b", 4: "f", 5: "i", 6: "i", 7: "u", 8: "u", 16: "u"}


@dataclass(frozen=True)
class ParameterType:
    """Type of a parameter; of a pointer, its target. name : as in the source."""

    name: str
    kind: Type
    is_pointer: bool = False
    is_const: bool = False


@cache
def parameter_types(source: KernelSource, name: str) -> tuple[ParameterType | str, ...]:
    """Types of a kernel's parameters, or the reason why one cannot be passed. Raises `KernelError` with the
    compiler's first error.

    source : with its host code removed. name : kernel with namespace and template arguments.
    """
    kernel = f"std::remove_reference_t<decltype({callee(name)})>*"
    empty = without_ptx(rewritten(emptied(source).text, str(source.path)))
    text = f'{with_headers(empty)}\n#line 1 "the parameters"\nvoid emu_parameters({kernel}) {{}}\n'
    flags = [flag for flag in ALWAYS if not flag.startswith("-g")]
    flags += [
        "-DEMU_CHECK",
        "-O0",
        "-gdwarf-5",
        "-g2",
        "-femit-class-debug-always",
        f"-I{HEADERS}",
        f"-I{HEADERS / 'cuda'}",
        "-c",
        "-x",
        "c++",
    ]
    try:
        return _read(made(f"layout-{key(text, *flags)}.o", [*flags, "-"], source.path.name, text))
    except KernelError as error:
        less = without_faulty(source, definition(name), error)
        if less is None:
            raise
        return parameter_types(less, name)


@cache
def _read(path: Path) -> tuple[ParameterType | str, ...]:
    found = entries(path)
    reader = _Reader(found)
    function = next(each for each in found.values() if each.tag == "subprogram" and each.name == "emu_parameters")
    pointer = next(each for each in function.inside if each.tag == "formal_parameter")
    kernel = reader.plain(reader.plain(pointer.type)[0].type)[0]
    out: list[ParameterType | str] = []
    for parameter in kernel.inside:
        try:
            out.append(reader.parameter(parameter.type))
        except KernelError as error:
            out.append(str(error))
    return tuple(out)


@dataclass
class _Reader:
    """Reader of types in debug entries. known : types by position of their entries; None while one is read."""

    found: dict[int, DebugEntry]
    known: dict[int, Type | None] = field(default_factory=dict)

    def parameter(self, at: int) -> ParameterType:
        """Type of a parameter. Raises `KernelError` with the reason if it has no fixed layout."""
        entry, _ = self.plain(at)
        if entry.tag not in ("pointer_type", "reference_type", "rvalue_reference_type"):
            return ParameterType(self.name(at), self.type(at))
        target = self.target(entry)
        return ParameterType(self.name(entry.type), target, True, "const_type" in self.plain(entry.type)[1])

    def target(self, entry: DebugEntry) -> Type:
        if entry.tag != "pointer_type":
            raise KernelError("is a reference, which a kernel's parameter cannot be")
        target = self.plain(entry.type)[0] if entry.type >= 0 else None
        if target is None or target.tag in ("pointer_type", "subroutine_type"):
            what = "function" if target and target.tag == "subroutine_type" else "pointer" if target else "void"
            raise KernelError(f"is a pointer to {what}, of which no array can be made")
        return self.type(entry.type)

    def plain(self, at: int) -> tuple[DebugEntry, set[str]]:
        """Entry of a type without qualifiers and typedefs, and the tags of those."""
        tags = set()
        entry = self.found.get(at)
        while entry is not None and entry.tag in _QUALIFIERS and entry.type >= 0:
            tags.add(entry.tag)
            entry = self.found.get(entry.type)
        if entry is None:
            raise KernelError("is void")
        return entry, tags

    def name(self, at: int) -> str:
        """Name of a type, without qualifiers: the innermost typedef's, or its own."""
        entry = self.found[at]
        while entry.tag in _QUALIFIERS and entry.tag != "typedef":
            entry = self.found[entry.type]
        return entry.name or "struct"

    def type(self, at: int) -> Type:
        """Layout of a type that is no pointer."""
        if at not in self.known:
            self.known[at] = None
            self.known[at] = self._type(at)
        kind = self.known[at]
        if kind is None:
            raise KernelError(f"points to its own type, {self.name(at)}, of which no array can be made")
        return kind

    def _type(self, at: int) -> Type:
        entry = self.found[at]
        while entry.tag in _QUALIFIERS:
            if entry.tag == "typedef" and entry.name in BUILT_IN:
                return BUILT_IN[entry.name]
            entry = self.found[entry.type]
        size = entry.number("byte_size")
        if entry.name in BUILT_IN:
            return BUILT_IN[entry.name]
        if entry.tag == "base_type":
            letter = _NUMBERS.get(entry.number("encoding"), "")
            if not letter or size > 8:
                raise KernelError(f"is {entry.name}, which no GPU has")
            return _number(np.dtype("?" if letter == "b" else f"{letter}{size}"))
        if entry.tag == "enumeration_type":
            values = tuple(each.number("const_value") for each in entry.inside if each.tag == "enumerator")
            sign = self.type(entry.type).dtype.kind if entry.type >= 0 else "u"
            return _number(enumeration(np.dtype(f"{sign}{size}"), values))
        if entry.tag in ("structure_type", "class_type", "union_type"):
            if "declaration" in entry.attributes and not size:
                raise KernelError(f"is {entry.name}, which is declared and never defined")
            return self._struct(entry, size)
        raise KernelError(f"is a {entry.tag.replace('_', ' ')}, which cannot be passed")

    def _struct(self, entry: DebugEntry, size: int) -> Type:
        """Layout of a struct, class or union. Of a union, the first of its largest members."""
        fields: dict[str, tuple[object, int]] = {}
        inside: list[Member] = []
        alignment = max(1, entry.number("alignment"))
        for part in self._parts(entry):
            at, name, number = part.number("data_member_location"), part.name, part.number("bit_size")
            plain = self.plain(part.type)[0]
            if number:  # a bit-field
                kind, start = self.type(part.type), part.number("data_bit_offset")
                alignment = max(alignment, kind.alignment)
                member = Member(f".{name}", start // 8, self.name(part.type), kind, bits=(start % 8, number))
                inside += [member] if name else []
                continue
            shape, element = self._array(part.type)
            try:
                dtype, made_of, alone = self._member(element, plain)
            except KernelError as error:
                raise KernelError(f"has a member {name or 'without a name'} that {error}") from None
            alignment = max(alignment, part.number("alignment"), alone)
            step = dtype.itemsize
            for position, index in enumerate(np.ndindex(*shape)):
                shown = "" if name in ("", "_M_elems") else f".{name}"  # std::array's member has no name of its own
                path = shown + "".join(f"[{i}]" for i in index)
                inside += [
                    Member(path + each.path, at + position * step + each.offset, each.type, each.kind, each.pointer,
                           each.const, each.bits)
                    for each in made_of
                ]  # fmt: skip
            if name and name not in fields:
                fields[name] = (np.dtype((dtype, shape)), at)
            elif dtype.names:  # a base, or an anonymous struct or union: its members are the struct's own
                for each, (its_dtype, offset, *_) in (dtype.fields or {}).items():
                    fields.setdefault(each, (its_dtype, at + offset))
        formats, offsets = [kind for kind, _ in fields.values()], [offset for _, offset in fields.values()]
        layout = {"names": list(fields), "formats": formats, "offsets": offsets, "itemsize": max(size, 1)}
        return Type(np.dtype(layout), 1, alignment, tuple(inside))  # type: ignore[call-overload]

    def _parts(self, entry: DebugEntry) -> list[DebugEntry]:
        """Bases and members that have a place in a value."""
        parts = [each for each in entry.inside if each.tag in ("member", "inheritance")]
        parts = [each for each in parts if "external" not in each.attributes and "declaration" not in each.attributes]
        if any("virtuality" in each.attributes or each.name.startswith("_vptr") for each in [*parts, *entry.inside]):
            raise KernelError(f"is {entry.name}, which has virtual functions or bases")
        if entry.tag != "union_type":
            return parts
        return sorted(parts, key=lambda each: -self._size(each.type))[:1]

    def _size(self, at: int) -> int:
        shape, element = self._array(at)
        return int(np.prod(shape, dtype=int)) * self.plain(element)[0].number("byte_size", 8)

    def _array(self, at: int) -> tuple[tuple[int, ...], int]:
        """Shape of an array, () for any other type, and the position of its elements' type."""
        entry = self.plain(at)[0]
        if entry.tag != "array_type":
            return (), at
        axes = [each for each in entry.inside if each.tag == "subrange_type"]
        shape = tuple(each.number("upper_bound", -1) + 1 or each.number("count") for each in axes)
        more, element = self._array(entry.type)
        return shape + more, element

    def _member(self, at: int, plain: DebugEntry) -> tuple[np.dtype, list[Member], int]:
        """dtype, numbers and pointers, and alignment of a member."""
        plain = self.plain(at)[0]
        if plain.tag in ("pointer_type", "reference_type"):
            target = self.target(plain)
            if any(each.pointer for each in target.members):
                raise KernelError("points to structs with pointers in them, of which no array can be made")
            const = "const_type" in self.plain(plain.type)[1]
            return np.dtype(np.uint64), [Member("", 0, self.name(plain.type), target, True, const)], 8
        kind = self.type(at)
        if kind.members or kind.dtype.kind == "V":
            return kind.dtype, list(kind.members), kind.alignment
        dtype = np.dtype((kind.dtype, (kind.width,))) if kind.width > 1 else kind.dtype
        one = Type(kind.dtype, 1, kind.dtype.itemsize)
        if kind.width == 1:
            return dtype, [Member("", 0, self.name(at), kind)], kind.alignment
        parts = [Member(f".{'xyzw'[i]}", i * kind.dtype.itemsize, str(kind.dtype), one) for i in range(kind.width)]
        return dtype, parts, kind.alignment


def _number(dtype: np.dtype) -> Type:
    return Type(dtype, 1, dtype.itemsize)
