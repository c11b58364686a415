"""What a kernel takes, read from its own source, so that the declaration is written once.

`extern "C" __global__ void add(const float* __restrict__ x, float* y, int n)` takes an array of float32, another
and an int. Template kernels are named with their arguments, `tiled<16, true>`; a type parameter is replaced by its argument.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import KernelError
from .array import Array
from .source import Source

#: C's types, by NumPy's: element type and how many make one (float4 is four float32).
TYPES: dict[str, tuple[Any, int]] = {
    "bool": (np.bool_, 1), "char": (np.int8, 1), "signed char": (np.int8, 1), "unsigned char": (np.uint8, 1),
    "short": (np.int16, 1), "unsigned short": (np.uint16, 1), "int": (np.int32, 1), "unsigned": (np.uint32, 1), "unsigned int": (np.uint32, 1),
    "long long": (np.int64, 1), "unsigned long long": (np.uint64, 1), "float": (np.float32, 1), "double": (np.float64, 1),
    "int8_t": (np.int8, 1), "uint8_t": (np.uint8, 1), "int16_t": (np.int16, 1), "uint16_t": (np.uint16, 1), "int32_t": (np.int32, 1),
    "uint32_t": (np.uint32, 1), "int64_t": (np.int64, 1), "uint64_t": (np.uint64, 1), "size_t": (np.uint64, 1),
    "__half": (np.float16, 1), "half": (np.float16, 1), "__nv_bfloat16": (np.uint16, 1),
    "uchar4": (np.uint8, 4), "int2": (np.int32, 2), "int4": (np.int32, 4), "uint2": (np.uint32, 2), "uint4": (np.uint32, 4),
    "float2": (np.float32, 2), "float4": (np.float32, 4), "double2": (np.float64, 2),
}  # fmt: skip

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_KERNEL = re.compile(
    r"(?:template\s*<(?P<template>[^{};]*?)>\s*)?(?:(?:extern\s*\"C\"|static|inline)\s+)*__global__\s+(?P<middle>(?:[\w\s]|\([^()]*(?:\([^()]*\)[^()]*)*\))*?)"
    r"\b(?P<name>[A-Za-z_]\w*)\s*\((?P<parameters>[^()]*)\)\s*\{",
    re.DOTALL,
)
_WORDS_ASIDE = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|__grid_constant__)\b")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel.

    name : as in the source.
    type : as in the source, without const and restrict: "float", "float4", "int".
    dtype : of one element.
    width : elements in one value of the type: 4 for float4.
    pointer, const : whether it points to device memory, and only reads it.
    """

    name: str
    type: str
    dtype: np.dtype
    width: int
    pointer: bool
    const: bool

    def __str__(self) -> str:
        return f"{'const ' if self.const and self.pointer else ''}{self.type}{'*' if self.pointer else ''} {self.name}"


@dataclass(frozen=True)
class Signature:
    """A kernel's name, with its template arguments if it has any, and its parameters."""

    name: str
    parameters: tuple[Parameter, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.parameters))})"

    def pack(self, device: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments as a device takes them: addresses (int) for arrays, NumPy scalars for numbers. `KernelError` for what does not fit."""
        if len(arguments) != len(self.parameters):
            raise KernelError(f"kernel {self} takes {len(self.parameters)} arguments, got {len(arguments)}")
        return tuple(self._packed(device, p, a) for p, a in zip(self.parameters, arguments, strict=True))

    def _packed(self, device: Any, parameter: Parameter, argument: Any) -> Any:
        wrong = f"kernel {self.name}: {parameter} "
        if parameter.pointer:
            if argument is None:  # a null pointer, for what is optional
                return 0
            if not isinstance(argument, Array):
                raise KernelError(f"{wrong}wants an array in the memory of {device.name}, got {type(argument).__name__}")
            if argument.device is not device:
                raise KernelError(f"{wrong}wants an array in the memory of {device.name}, got one of {argument.device.name}")
            if argument.dtype != parameter.dtype:
                raise KernelError(f"{wrong}wants {parameter.dtype}, got an array of {argument.dtype}")
            size = parameter.dtype.itemsize * parameter.width
            if argument.address % size or argument.nbytes % size:
                raise KernelError(
                    f"{wrong}wants an address and a length that {size} divides, got address {argument.address:#x} and {argument.nbytes:,} bytes"
                )
            return argument.address
        kind, given = parameter.dtype.kind, np.asarray(argument)
        if isinstance(argument, (Array, str)) or given.shape or given.dtype.kind not in "biuf" or (given.dtype.kind == "f") > (kind == "f"):
            raise KernelError(f"{wrong}wants a number of that type, got {argument!r}")
        if kind in "iu" and not np.iinfo(parameter.dtype).min <= int(argument) <= np.iinfo(parameter.dtype).max:
            raise KernelError(f"{wrong}cannot hold {argument}")
        return parameter.dtype.type(argument)


def names(source: Source) -> list[str]:
    """The kernels of a source, in order, without template arguments."""
    return [match["name"] for match in _KERNEL.finditer(_COMMENT.sub("", source.text))]


def templates(source: Source) -> set[str]:
    """The kernels of a source that are templates."""
    return {match["name"] for match in _KERNEL.finditer(_COMMENT.sub("", source.text)) if match["template"] is not None}


def signature(source: Source, name: str) -> Signature:
    """What the kernel `name` of a source takes; `KernelError` lists the kernels there are if it is not among them."""
    plain, _, given = name.partition("<")
    plain = plain.strip()
    found = [match for match in _KERNEL.finditer(_COMMENT.sub("", source.text)) if match["name"] == plain]
    if not found:
        raise KernelError(f"{source.path} has no kernel {plain!r}; it has {', '.join(names(source)) or 'none'}")
    match = found[0]
    if (match["template"] is None) == bool(given):
        raise KernelError(f"kernel {plain} of {source.path.name} is {'not ' if given else ''}a template: {plain}<...> names an instance")
    types = _type_arguments(match["template"], given.rpartition(">")[0]) if given else {}
    text = match["parameters"].strip()
    parameters = tuple(_parameter(part, types, source, plain) for part in text.split(",")) if text not in ("", "void") else ()
    return Signature(name, parameters)


def _type_arguments(template: str, given: str) -> dict[str, str]:
    """The template's type parameters (typename T) and what stands for them."""
    arguments = [part.strip() for part in given.split(",")]
    out = {}
    for position, declared in enumerate(part.split("=")[0].split() for part in template.split(",")):
        if declared and declared[0] in ("typename", "class") and position < len(arguments):
            out[declared[-1]] = arguments[position]
    return out


def _parameter(text: str, types: Mapping[str, str], source: Source, kernel: str) -> Parameter:
    text = " ".join(text.split())
    match = re.fullmatch(r"(?P<type>.*?[\s*&])(?P<name>\w+)", _WORDS_ASIDE.sub(" ", text).strip())
    if match is None:
        raise KernelError(f"kernel {kernel} of {source.path.name}: cannot read the parameter '{text}'")
    declared = " ".join(match["type"].replace("*", " * ").split())
    pointer = declared.endswith("*")
    plain = declared.removesuffix("*").strip()
    plain = types.get(plain, plain)
    if plain not in TYPES:
        raise KernelError(
            f"kernel {kernel} of {source.path.name}: the type of '{text}' is none that can be passed; there are {', '.join(TYPES)} and pointers to them"
        )
    dtype, width = TYPES[plain]
    if width > 1 and not pointer:
        raise KernelError(f"kernel {kernel} of {source.path.name}: '{text}' can only be passed as a pointer")
    return Parameter(match["name"], plain, np.dtype(dtype), width, pointer, "const" in text.split("*")[0].split())
