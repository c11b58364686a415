"""`Touches`: the memory that a call reads and writes, which decides which calls may run concurrently."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .array import Array
from .signature import Parameter, Signature
from .tensormap import TensorMap


@dataclass(frozen=True)
class Touches:
    """Ranges of device addresses that a call only reads, and ranges that it may write and read."""

    reads: tuple[range, ...]
    writes: tuple[range, ...]

    def before(self, later: Touches) -> bool:
        """True if a call with the touches `later` must wait for this one: one writes what the other touches."""
        return _meet(self.writes, later.reads + later.writes) or _meet(self.reads, later.writes)


def touches(signature: Signature, arguments: tuple[Any, ...]) -> Touches:
    """Memory that a kernel reads and writes: only reads through pointers to const, and nothing beyond an array."""
    reads: list[range] = []
    writes: list[range] = []
    for parameter, argument in zip(signature.parameters, arguments, strict=True):
        if isinstance(argument, TensorMap):
            reads.append(range(argument.array.address, argument.array.address + argument.array.nbytes))
            continue
        for member, given in _leaves(parameter, argument):
            if isinstance(given, Array):
                (reads if member.const else writes).append(range(given.address, given.address + given.nbytes))
    return Touches(tuple(reads), tuple(writes))


def _leaves(parameter: Parameter, argument: Any) -> list[tuple[Parameter, Any]]:
    """Pointers and numbers of an argument, each member of a struct separately, with their parameters."""
    if isinstance(argument, Mapping):
        return [(member, argument[member.name[len(parameter.name) + 1 :]]) for member in parameter.leaves]
    return [(parameter, argument)]


def _meet(some: tuple[range, ...], others: tuple[range, ...]) -> bool:
    return any(a.start < b.stop and b.start < a.stop for a in some for b in others)
