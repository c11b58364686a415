"""What a program is made of: its memory, its instructions, and the call of an instruction.

A whole range of steps runs inside compiled code: Python is not asked between layers, nor
between steps. So that one compiled loop (run.py) serves every net, a net becomes a table of
instructions, a row each: an operation (operations.py) and its operands, offsets and views.
plan.py writes the table. The loop calls operations by address, so that each is compiled and
cached on its own, when a net first needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import typeof, types
from numba.core import cgutils

from ...errors import ConfigError
from .emit import intrinsic

OPERANDS = 48  # length of a row of the table, in whole numbers

RESULT = types.UniTuple(types.float64, 2)  # of every operation: the loss and the right answers it found
RULE = (types.float32[::1],) * 5  # arguments of an optimizer's loop: weights, gradient, two slots, the step's numbers


class Settings(NamedTuple):
    """What is the same at all steps of a call."""

    scale: np.float32  # what a stored sample is multiplied by
    clip: np.float32  # infinite for no clipping
    rule: int  # where the optimizer's compiled loop lies; 0 where an operation of ours takes its place


class Call(NamedTuple):
    """What an instruction is asked to do: a block of n samples, or this thread's part of it."""

    slot: int  # row of the shared buffers
    thread: int
    part: int  # this thread does the part-th of `parts` parts
    parts: int
    first: int  # the block's first sample, by its place in `Memory.indices`
    n: int
    add: int  # whether earlier blocks left gradients to add to; for the update, how many gradients to sum
    step: int  # row of `Memory.numbers`
    inverse: np.float32  # 1 / loss terms in the whole batch
    settings: Settings


class Sections(NamedTuple):
    """Rows of the table by when they run, as (first, last + 1)."""

    prepare: tuple[int, int]  # once a step, all threads: weights rearranged
    forward: tuple[int, int]  # for every block of samples
    backward: tuple[int, int]  # for every block of samples: the loss, then its gradients
    collect: tuple[int, int]  # after a share's last block: gradients put in order
    update: tuple[int, int]  # once a step, all threads


#: the types of an operation's arguments: its operands, `Memory.table`, and the call
OPERATION = (
    types.int64[::1],
    types.int64[::1],
    typeof(Call(0, 0, 0, 1, 0, 0, 0, 0, np.float32(0), Settings(np.float32(0), np.float32(0), 0))),
)


def address(operation: Callable, signature: tuple[Any, ...], result: Any = RESULT) -> int:
    """Where a compiled function's machine code for these argument types lies; compiles it if need be.

    Raises
    ------
    ConfigError
        It does not give a `result`: a loop of an optimizer of the user's own may be wrong.
    """
    operation.compile(signature)  # type: ignore[attr-defined]
    found = operation.overloads[signature]  # type: ignore[attr-defined]
    if found.signature.return_type != result:
        raise ConfigError(f"{operation.__name__} in {operation.__module__} gives {found.signature.return_type}, where {result} is wanted")
    return found.library.get_pointer_to_function(found.fndesc.llvm_func_name)


def _jump(context, builder, signature, values):  # type: ignore[no-untyped-def]
    """Code that calls the function at the address that is the first of `values`, with the others; gives its result."""
    kinds = signature.args[1:]
    pointer = builder.inttoptr(values[0], context.call_conv.get_function_type(signature.return_type, kinds).as_pointer())
    status, result = context.call_conv.call_function(builder, pointer, signature.return_type, kinds, values[1:])
    with cgutils.if_unlikely(builder, status.is_error):
        context.call_conv.return_status_propagate(builder, status)
    return result


@intrinsic
def call_at(typing, where, operands, memory, call):  # type: ignore[no-untyped-def]
    """Call the operation at an address; its arguments are (operands, memory, call), its result RESULT."""
    return RESULT(types.int64, operands, memory, call), _jump


@intrinsic
def call_rule(typing, where, w, g, first, second, numbers):  # type: ignore[no-untyped-def]
    """Call an optimizer's loop at an address; its arguments are of the types RULE, it gives nothing."""
    return types.none(types.int64, *RULE), _jump
