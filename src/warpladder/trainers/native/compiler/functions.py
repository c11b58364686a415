"""Functions that only compiled code calls: operations, compiled separately and called by address, and their parts.

None can be called from Python: unpacking Python objects takes longer to compile than the work itself. None creates an
array, so none counts references.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
from numba import typeof, types
from numba.core import cgutils, inline_closurecall
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.registry import cpu_target
from numba.core.untyped_passes import InlineInlinables

from ....errors import ConfigError
from ....ops.jit.compile_time import listen
from ....ops.jit.target import target
from ..program.job import BlockWork, StepScaling
from .emit import intrinsic
from .machine_code import CompiledFunction, MachineCode

#: as in C: a division by zero gives an infinity and raises nothing
_OPTIONS: dict[str, Any] = {
    "nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False,
}  # fmt: skip

#: argument types of an operation: its operands, `NativeMemory.table`, and its work
OPERATION = (
    types.int64[::1],
    types.int64[::1],
    typeof(BlockWork(0, 0, 0, 1, 0, 0, 0, 0, np.float32(0), StepScaling(np.float32(0), np.float32(0), 0, 0, 0))),
)

RESULT = types.UniTuple(types.float64, 2)  # result of every operation: its loss and its number of correct predictions
LOOP = (types.float32[::1],) * 5  # arguments of an optimizer's loop: weights, gradient, two slots, the step's numbers

BARRIER = (types.int64[::1], types.int64)  # arguments of `barrier`
_PAIR = types.UniTuple(types.int64, 2)
ROWS = (types.int64, types.int64, OPERATION[2], _PAIR, _PAIR)  # arguments of `rows`

#: argument types and result of each kind of function that is cached as machine code
SIGNATURES: dict[str, tuple[tuple[Any, ...], Any]] = {
    "operation": (OPERATION, RESULT),
    "entry": ((types.int64, types.int64), types.int64),
    "loop": (LOOP, types.none),
    "rows": (ROWS, types.none),
    "barrier": (BARRIER, types.none),
}


class _InlineOnce(InlineInlinables):
    """numba's inlining of functions marked by `inner`, without its two copies of each, a sixth of a first start.

    numba copies a function before it renames its variables: every block of it with all its variables, and again for a
    caller who wants it unchanged. This pass reads each function anew for each call and keeps none. numba's lock is
    held during a pass, so that no other thread inlines meanwhile.
    """

    _name = "inline_once"

    def _do_work(self, *arguments: Any) -> Any:
        module: Any = inline_closurecall
        before, module.copy = module.copy, SimpleNamespace(deepcopy=lambda block: block)
        try:
            return super()._do_work(*arguments)
        finally:
            module.copy = before


register_pass(mutates_CFG=True, analysis_only=False)(_InlineOnce)


class _Pipeline(CompilerBase):
    """numba's passes, with `_InlineOnce` for its own."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(_InlineOnce if each is InlineInlinables else each, why) for each, why in passes.passes]
        passes.finalize()
        return [passes]


#: Passes of numba versions whose machine code was compared with and without `_InlineOnce`; others have their own.
_PASSES: dict[str, Any] = {"pipeline_class": _Pipeline} if numba.version_info[:2] == (0, 68) else {}


def shared(function: Callable) -> Any:
    """Decorator that compiles a function once, together with its callers."""
    return numba.njit(**_PASSES, **_OPTIONS)(function)


def inner(function: Callable) -> Any:
    """Decorator that inlines a function in all compiled callers; it is not compiled separately."""
    return numba.njit(inline="always", **_OPTIONS)(function)


def compile_now(function: CompiledFunction) -> MachineCode:
    """Machine code of a function. Raises `RuntimeError` if .numba_config.yaml names another processor."""
    if cpu_target.target_context.codegen().magic_tuple()[1:] != target():
        raise RuntimeError(
            "numba compiles for another processor than this one: say which in NUMBA_CPU_NAME, not in .numba_config.yaml"
        )
    listen()
    arguments, result = SIGNATURES[function.kind]
    dispatcher = shared(getattr(import_module(function.module), function.name))
    dispatcher.compile(arguments)
    found = dispatcher.overloads[arguments]
    assert types.unliteral(found.signature.return_type) == result, f"{function} returns {found.signature.return_type}"
    symbol = found.fndesc.llvm_func_name
    found.library.get_pointer_to_function(symbol)  # forces the compilation to object code
    return MachineCode(symbol, found.library.serialize_using_object_code()[2][0])


def loop_address(loop: Callable) -> int:
    """Address of an optimizer's compiled loop. Raises `ConfigError` if a user's loop returns a value."""
    loop.compile(LOOP)  # type: ignore[attr-defined]
    found = loop.overloads[LOOP]  # type: ignore[attr-defined]
    if found.signature.return_type != types.none:
        raise ConfigError(
            f"{loop.__name__} in {loop.__module__} gives {found.signature.return_type}, and must give None"
        )
    return found.library.get_pointer_to_function(found.fndesc.llvm_func_name)


def _jump(context, builder, signature, values):  # type: ignore[no-untyped-def]
    """Code that calls the function at address values[0] with the other values; returns its result."""
    kinds = signature.args[1:]
    pointer = builder.inttoptr(
        values[0], context.call_conv.get_function_type(signature.return_type, kinds).as_pointer()
    )
    status, result = context.call_conv.call_function(builder, pointer, signature.return_type, kinds, values[1:])
    with cgutils.if_unlikely(builder, status.is_error):
        context.call_conv.return_status_propagate(builder, status)
    return result


@intrinsic
def call_at(typing, where, operands, memory, work):  # type: ignore[no-untyped-def]
    """Call the operation at address `where` with (operands, memory, work); returns its RESULT."""
    return RESULT(types.int64, operands, memory, work), _jump


@intrinsic
def call_loop(typing, where, w, g, first, second, numbers):  # type: ignore[no-untyped-def]
    """Call the optimizer's loop at address `where` with arguments of the types LOOP."""
    return types.none(types.int64, *LOOP), _jump


@intrinsic
def call_rows(typing, where, worker, job_at, work, sections, team):  # type: ignore[no-untyped-def]
    """Call `rows` (threads/run.py) at address `where`."""
    return types.none(types.int64, *ROWS), _jump


@intrinsic
def call_barrier(typing, where, sync, threads):  # type: ignore[no-untyped-def]
    """Call `barrier` (threads/barrier.py) at address `where`."""
    return types.none(types.int64, *BARRIER), _jump
