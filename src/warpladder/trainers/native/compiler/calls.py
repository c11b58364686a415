"""How compiled functions are called: the types of their arguments, and calls by address, so that each is compiled and
kept on its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import typeof, types
from numba.core import cgutils

from ....errors import ConfigError
from ..program.job import Call, Settings
from .emit import intrinsic

#: the types of an operation's arguments: its operands, `Memory.table`, and the call
OPERATION = (
    types.int64[::1],
    types.int64[::1],
    typeof(Call(0, 0, 0, 1, 0, 0, 0, 0, np.float32(0), Settings(np.float32(0), np.float32(0), 0))),
)

RESULT = types.UniTuple(types.float64, 2)  # of every operation: the loss and the right answers it found
RULE = (types.float32[::1],) * 5  # arguments of an optimizer's loop: weights, gradient, two slots, the step's numbers

#: argument types and result of each kind of function that is kept as machine code
SIGNATURES: dict[str, tuple[tuple[Any, ...], Any]] = {
    "operation": (OPERATION, RESULT),
    "entry": ((types.int64, types.int64), types.int64),
    "rule": (RULE, types.none),
}


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
        raise ConfigError(
            f"{operation.__name__} in {operation.__module__} gives {found.signature.return_type}, where {result} is wanted"
        )
    return found.library.get_pointer_to_function(found.fndesc.llvm_func_name)


def _jump(context, builder, signature, values):  # type: ignore[no-untyped-def]
    """Code that calls the function at the address that is the first of `values`, with the others; gives its result."""
    kinds = signature.args[1:]
    pointer = builder.inttoptr(
        values[0], context.call_conv.get_function_type(signature.return_type, kinds).as_pointer()
    )
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
