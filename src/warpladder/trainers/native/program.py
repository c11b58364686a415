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
from numba import types
from numba.core import cgutils

from .emit import intrinsic

OPERANDS = 48  # length of a row of the table, in whole numbers

# which buffer a weight operand names
WEIGHTS, PACKED = range(2)

RESULT = types.UniTuple(types.float64, 2)  # of every operation: the loss and the right answers it found


class Memory(NamedTuple):
    """Everything a program reads and writes, except the samples of the step.

    activations, gradients, winners : a row a share; threads that work together share row 0.
    packed : weights rearranged for this step (transposed, folded). offsets, scratch : a row a thread.
    """

    activations: np.ndarray  # (shares, floats) float32
    winners: np.ndarray  # (shares, numbers) int32
    gradients: np.ndarray  # (shares, parameters and folded gradients) float32
    weights: np.ndarray  # (parameters,) float32
    velocity: np.ndarray  # (parameters,) float32
    packed: np.ndarray  # (floats,) float32
    offsets: np.ndarray  # (threads, entries of the offset tables) int64
    scratch: np.ndarray  # (threads, floats) float32
    sync: np.ndarray  # (16,) int64
    loss: np.ndarray  # (threads, steps) float64
    correct: np.ndarray  # (threads, steps) int64


class Samples(NamedTuple):
    """The training set: one of the two pixel arrays is empty."""

    u8: np.ndarray  # (samples, features) uint8
    f32: np.ndarray  # (samples, features) float32
    labels: np.ndarray  # (samples,) int32
    scale: np.float32


class Rates(NamedTuple):
    """The settings of an update, float32; no clipping is an infinite clip."""

    rate: np.float32
    momentum: np.float32
    nesterov: bool
    decay: np.float32
    clip: np.float32


class Call(NamedTuple):
    """What an instruction is asked to do: a block of n samples, or this thread's part of it."""

    slot: int  # row of the shared buffers
    thread: int
    part: int  # this thread does the part-th of `parts` parts
    parts: int
    n: int
    add: int  # whether earlier blocks left gradients to add to; for the update, how many gradients to sum
    indices: np.ndarray  # (n,) int64: which samples
    samples: Samples
    rates: Rates
    inverse: np.float32  # 1 / loss terms in the whole batch


class Sections(NamedTuple):
    """Rows of the table by when they run, as (first, last + 1)."""

    prepare: tuple[int, int]  # once a step, all threads: weights rearranged
    forward: tuple[int, int]  # for every block of samples
    backward: tuple[int, int]  # for every block of samples: the loss, then its gradients
    collect: tuple[int, int]  # after a share's last block: gradients put in order
    update: tuple[int, int]  # once a step, all threads


def address(operation: Callable, signature: tuple[Any, ...]) -> int:
    """Where a compiled function's machine code for these argument types lies; compiles it if need be."""
    operation.compile(signature)  # type: ignore[attr-defined]
    result = operation.overloads[signature]  # type: ignore[attr-defined]
    return result.library.get_pointer_to_function(result.fndesc.llvm_func_name)


@intrinsic
def call_at(typing, where, operands, memory, call):  # type: ignore[no-untyped-def]
    """Call the operation at an address; its arguments are (operands, memory, call), its result RESULT."""

    def emit(context, builder, signature, values):  # type: ignore[no-untyped-def]
        kinds = signature.args[1:]
        pointer = builder.inttoptr(values[0], context.call_conv.get_function_type(RESULT, kinds).as_pointer())
        status, result = context.call_conv.call_function(builder, pointer, RESULT, kinds, values[1:])
        with cgutils.if_unlikely(builder, status.is_error):
            context.call_conv.return_status_propagate(builder, status)
        return result

    return RESULT(types.int64, operands, memory, call), emit
