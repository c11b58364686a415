"""Functions that compiled code alone calls: operations, each compiled on its own, and parts of them.

A way in from Python is not made for either: unpacking Python objects would take longer to compile than what they do.
None makes an array, so none counts references.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ....ops.jit.compile_time import listen
from ....ops.jit.target import target
from .machine_code import Code, Function

#: as in C: a division by zero gives an infinity and raises nothing
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "_nrt": False,
}


def shared(function: Callable) -> Any:
    """Have a function compiled once, together with those that call it."""
    import numba

    return numba.njit(**_OPTIONS)(function)


def inner(function: Callable) -> Any:
    """Have a function's lines stand wherever compiled code calls it: they are compiled once, with those around them,
    and not also alone.
    """
    import numba

    return numba.njit(inline="always", **_OPTIONS)(function)


def compile_now(function: Function) -> Code:
    """Machine code of a function.

    Raises
    ------
    RuntimeError
        numba compiles for another processor than the plan was made for, because a file .numba_config.yaml says so.
    """
    from numba import types
    from numba.core.registry import cpu_target

    from .calls import SIGNATURES

    if cpu_target.target_context.codegen().magic_tuple()[1:] != target():
        raise RuntimeError(
            "numba compiles for another processor than this one: say which in NUMBA_CPU_NAME, not in .numba_config.yaml"
        )
    listen()
    arguments, result = SIGNATURES[function.kind]
    dispatcher = shared(getattr(import_module(function.module), function.name))
    dispatcher.compile(arguments)
    found = dispatcher.overloads[arguments]
    assert types.unliteral(found.signature.return_type) == result, f"{function} gives {found.signature.return_type}"
    symbol = found.fndesc.llvm_func_name
    found.library.get_pointer_to_function(symbol)  # now there is an object
    return Code(symbol, found.library.serialize_using_object_code()[2][0])
