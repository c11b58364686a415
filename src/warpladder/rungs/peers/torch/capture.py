"""Capture of PyTorch's work as a CUDA graph, in a process with other libraries."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import torch


def capture(work: Callable[[], object], pool: Any = None) -> torch.cuda.CUDAGraph:
    """Record the launches of `work`, which must have run before, so that it searches and allocates nothing.

    Only this thread's calls can end the recording: JAX's threads query their events at any time, and an error in one
    would lose both the recording and JAX's stream. Python's garbage collector is disabled, since it frees memory. It is
    not run before either, as PyTorch once did: that takes 0.1 s, and a proof has a hundred captures.
    """
    graph = torch.cuda.CUDAGraph()
    enabled = gc.isenabled()
    gc.disable()
    try:
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            work()
    finally:
        if enabled:
            gc.enable()
    return graph


def warm(work: Callable[[], object], times: int = 1) -> None:
    """Run `work` on a separate stream, as a capture does."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(times):
            work()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
