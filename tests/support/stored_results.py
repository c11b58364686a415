"""Results for pages: stored ones, and made-up ones with everything that a page can show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from climbs import example

from warpladder.results import History

STORED = Path(__file__).parents[2] / "benchmarks"

CU = ("// one thread for each output", "__global__ void forward() {}", '  <b> & "quotes"')


def learned(rung, losses, seconds, accuracy=(0.5, 0.75, 0.9)):
    return replace(rung, history=History(losses, accuracy, seconds))


def full(**changes):
    """The example with everything a page can show: histories, sources, a GPU."""
    loops, numpy, native, broken, jax, torch = example().rungs
    rungs = (
        replace(learned(loops, (2.0, 1.0, 0.5), (31.0, 31.0, 31.0)), sources=("ops/linear/loops.py", "ops/relu/loops.py")),
        replace(learned(numpy, (2.0, 1.0, 0.5), (1.3, 1.3, 1.3)), sources=("ops/linear/array.py", "ops/relu/loops.py")),
        replace(learned(native, (2.0, 1.0, 0.005), (0.4, 0.4, 0.4)), sources=("own.cu",)),
        broken, jax, learned(torch, (2.0, 1.0, 0.5), (0.9, 0.9, 0.9)),
    )  # fmt: skip
    sources = {
        "ops/linear/loops.py": ("for i in range(n):",),
        "ops/relu/loops.py": ("max(x, 0)",),
        "ops/linear/array.py": ("x @ w",),
        "own.cu": CU,
    }
    return replace(example(rungs=rungs, sources=sources), **changes)
