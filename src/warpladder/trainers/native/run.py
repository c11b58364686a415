"""Steps of training and batches of prediction, run by every thread at once.

Threads divide the work in one of two ways, which the plan chooses. *Apart*: each trains its own
share of the batch block by block, through all layers, without waiting; their gradients meet once
a step. *Together*: every instruction is divided and followed by a barrier, which suits weights
too large to keep a gradient a thread.
"""

from __future__ import annotations

import numpy as np

from ...ops.compiled import compiled
from .elementwise import read_out
from .program import Call, Step, call_at
from .sharing import share
from .sync import barrier


@compiled(nogil=True)
def _section(program, section, memory, call):  # type: ignore[no-untyped-def]
    """Run a section's rows; with several parts, wait for each other after each. Returns the loss and the right answers of this part."""
    loss, correct = 0.0, 0.0
    for i in range(section[0], section[1]):
        row = program[i]
        more, right = call_at(row[0], row[1:], memory, call)
        loss += more
        correct += right
        barrier(memory.sync, call.parts)
    return loss, correct


@compiled(nogil=True)
def train(thread, threads, together, block, program, sections, memory, samples, indices, batch, terms, clip, rule):  # type: ignore[no-untyped-def]
    """Train every batch of `indices`, the samples of consecutive steps; every thread calls this with its number.

    program : a row an instruction, beginning with its operation's address. block : samples that go through the layers at
    once. terms : loss terms of a sample (1, or its elements for MSE). clip, rule : as in `Step`.
    """
    program = program.copy()  # operations write the block's size to it
    steps = (indices.shape[0] + batch - 1) // batch
    for i in range(steps):
        step = Step(i, clip, rule)
        chosen = indices[i * batch : min((i + 1) * batch, indices.shape[0])]
        size = chosen.shape[0]
        inverse = np.float32(1.0 / (size * terms))
        _section(program, sections.prepare, memory, Call(0, thread, thread, threads, 0, 0, chosen, samples, step, inverse))
        if together:
            slot, part, parts, first, last, shares = 0, thread, threads, 0, size, 1
        else:
            slot, part, parts, shares = thread, 0, 1, min(threads, size)
            first, last = share(size, thread, threads)
        loss, correct = 0.0, 0.0
        for start in range(first, last, block):
            n = min(block, last - start)
            call = Call(slot, thread, part, parts, n, 0 if start == first else 1, chosen[start : start + n], samples, step, inverse)
            _section(program, sections.forward, memory, call)
            more, right = _section(program, sections.backward, memory, call)
            loss += more
            correct += right
        if last > first:
            _section(program, sections.collect, memory, Call(slot, thread, part, parts, 0, 0, chosen, samples, step, inverse))
        memory.loss[thread, i] = loss / terms
        memory.correct[thread, i] = int(correct)
        barrier(memory.sync, threads)
        _section(program, sections.update, memory, Call(0, thread, thread, threads, 0, shares, chosen, samples, step, inverse))
        barrier(memory.sync, threads)


@compiled(nogil=True)
def predict(thread, threads, together, block, program, sections, memory, samples, indices, out_view, channels, out, step):  # type: ignore[no-untyped-def]
    """out (samples, features) = the net's output for the samples in `indices`, in PyTorch's order; nothing is trained."""
    program = program.copy()
    total = out.shape[0]
    nothing = np.float32(0)
    _section(program, sections.prepare, memory, Call(0, thread, thread, threads, 0, 0, indices, samples, step, nothing))
    if together:
        slot, part, parts, first, last = 0, thread, threads, 0, total
    else:
        slot, part, parts = thread, 0, 1
        first, last = share(total, thread, threads)
    for start in range(first, last, block):
        n = min(block, last - start)
        _section(
            program, sections.forward, memory, Call(slot, thread, part, parts, n, 0, indices[start : start + n], samples, step, nothing)
        )
        lo, hi = share(n, part, parts)
        read_out(memory.activations[slot], out_view, channels, out[start : start + n], lo, hi)
        barrier(memory.sync, parts)
