"""Parameters of kernels, and the check and packing of their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ..errors import KernelError
from .array import Array
from .tensormap import TensorMap
from .types import enumerators


@dataclass(frozen=True)
class Parameter:
    """Parameter of a kernel.

    type : type as in the source, without const and restrict: "float", "float4", "int".
    dtype : dtype of one element; structured for a struct of the source. width : elements in a value: 4 for float4.
    alignment : alignment of a value, in bytes. pointer, const : True if it points to device memory, and only reads it.
    members : offset and parameter of each number or pointer, "p.n" and "p.x", in a struct or vector passed by value.
    bits : first bit and number of bits of a bit-field in a struct.
    """

    name: str
    type: str
    dtype: np.dtype
    width: int
    alignment: int
    pointer: bool
    const: bool
    members: tuple[tuple[int, Parameter], ...] = ()
    bits: tuple[int, int] = (0, 0)

    @property
    def is_struct(self) -> bool:
        """True for a struct or vector by value, which may be without members, as a functor."""
        is_empty = self.dtype.kind == "V" and not self.pointer and self.type != TensorMap.__name__
        return bool(self.members) or is_empty

    @property
    def enumerators(self) -> tuple[int, ...]:
        """Values of an enum's names; () for other types."""
        return enumerators(self.dtype)

    @property
    def leaves(self) -> tuple[Parameter, ...]:
        """Scalars and pointers of an argument: the parameter itself, or the members of a struct in their order."""
        return tuple(member for _, member in self.members) if self.is_struct else (self,)

    def __str__(self) -> str:
        return f"{'const ' if self.const and self.pointer else ''}{self.type}{'*' if self.pointer else ''} {self.name}"


@dataclass(frozen=True)
class Signature:
    """Name of a kernel, with namespace and template arguments, and its parameters.

    bounds : largest number of threads of a block by __launch_bounds__, as text with template arguments inserted; or "".
    """

    name: str
    parameters: tuple[Parameter, ...]
    bounds: str = ""

    def __str__(self) -> str:
        name = self.name if "<" in self.name else self.name.partition("(")[0]  # an overloaded one has its types there
        return f"{name}({', '.join(map(str, self.parameters))})"

    def pack(self, device: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Packed arguments for a device: addresses (int) of arrays, NumPy scalars and structs. Raises `KernelError` if
        one does not fit.

        A struct is a mapping of its members, {"n": 5, "size.x": 2, "x": array}.
        """
        if len(arguments) != len(self.parameters):
            raise KernelError(f"kernel {self} takes {len(self.parameters)} arguments, got {len(arguments)}")
        return tuple(self._packed(device, p, a) for p, a in zip(self.parameters, arguments, strict=True))

    def _packed(self, device: Any, parameter: Parameter, argument: Any) -> Any:
        wrong = f"kernel {self.name}: {parameter} "
        if parameter.type == TensorMap.__name__ or isinstance(argument, TensorMap):
            return self._map(device, parameter, argument, wrong)
        if parameter.is_struct:
            return self._struct(device, parameter, argument, wrong)
        if parameter.pointer:
            if argument is None:  # a null pointer, for an optional array
                return 0
            if not isinstance(argument, Array):
                raise KernelError(f"{wrong}wants an array on {device.name}, got {type(argument).__name__}")
            if argument.device is not device:
                raise KernelError(f"{wrong}wants an array on {device.name}, got one on {argument.device.name}")
            if argument.dtype != parameter.dtype:
                raise KernelError(f"{wrong}wants {parameter.dtype}, got an array of {argument.dtype}")
            size = parameter.dtype.itemsize * parameter.width
            if argument.address % parameter.alignment or argument.nbytes % size:
                raise KernelError(
                    f"{wrong}wants an address that {parameter.alignment} divides and a length that {size} divides, "
                    f"got address {argument.address:#x} and {argument.nbytes:,} bytes"
                )
            return argument.address
        kind, given = parameter.dtype.kind, np.asarray(argument)
        if (
            isinstance(argument, (Array, str))
            or given.shape
            or given.dtype.kind not in "biuf"
            or (given.dtype.kind == "f") > (kind == "f")
        ):
            raise KernelError(f"{wrong}wants a number of that type, got {argument!r}")
        if kind in "iu" and int(argument) not in _held(parameter.dtype):
            raise KernelError(f"{wrong}cannot hold {argument}")
        return parameter.dtype.type(argument)

    def _map(self, device: Any, parameter: Parameter, argument: Any, wrong: str) -> np.void:
        if parameter.type != TensorMap.__name__ or parameter.pointer:
            raise KernelError(f"{wrong}wants no tensor map, which is a const __grid_constant__ TensorMap of bulk.cuh")
        if not isinstance(argument, TensorMap) or argument.array.device is not device:
            raise KernelError(f"{wrong}wants a tensor map that {device.name} made, got {argument!r}")
        return np.frombuffer(argument.words.tobytes(), f"V{argument.words.nbytes}")[0]

    def _struct(self, device: Any, parameter: Parameter, argument: Any, wrong: str) -> np.void:
        wanted = {member.name[len(parameter.name) + 1 :]: (offset, member) for offset, member in parameter.members}
        if not isinstance(argument, Mapping) or argument.keys() != wanted.keys():
            raise KernelError(f"{wrong}wants a mapping with {', '.join(wanted)}, got {argument!r}")
        held = bytearray(parameter.dtype.itemsize * parameter.width)
        for name, (offset, member) in wanted.items():
            value = self._packed(device, member, argument[name])
            content = (np.uint64(value) if member.pointer else value).tobytes()
            if member.bits[1]:
                content = _inserted(
                    bytes(held[offset : offset + 8]), value, member.bits, f"{wrong}{member} cannot hold {value}"
                )
            held[offset : offset + len(content)] = content
        return np.frombuffer(bytes(held), f"V{len(held)}")[0]


def _inserted(held: bytes, value: Any, bits: tuple[int, int], wrong: str) -> bytes:
    """Bytes with a bit-field in them. Raises `KernelError` with the message `wrong` if it has too few bits."""
    first, count = bits
    is_signed = value.dtype.kind == "i"
    if not -(1 << count - 1) * is_signed <= int(value) < 1 << count - is_signed:
        raise KernelError(wrong)
    mask = (1 << count) - 1 << first
    whole = int.from_bytes(held, "little") & ~mask | int(value) << first & mask
    return whole.to_bytes(len(held), "little")


@cache
def _held(dtype: np.dtype) -> range:
    """Range of the integers of a dtype."""
    return range(int(np.iinfo(dtype).min), int(np.iinfo(dtype).max) + 1)
