"""Resources of a kernel from NVRTC's output: the assembler's report, and the PTX for bounds and tensor cores."""

from __future__ import annotations

import math
import re

from ...errors import KernelError
from .. import Resources

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_CUMULATIVE = re.compile(r"(\d+) bytes cumulative stack size")
_DECLARED = re.compile(r"\.entry\s+([\w$]+)\s*\([^)]*\)(.*?)\{", re.DOTALL)
_BODY = re.compile(r"\.entry\s+([\w$]+)(.*?)(?=\.entry\b|\.func\b|\Z)", re.DOTALL)
# ldmatrix and fences multiply nothing
_TENSOR = re.compile(r"\b(?:w?mma\.(?:\w+\.)*sync|wgmma\.mma_async|tcgen05\.mma)\b")
_THREADS = re.compile(r"\.(?:maxntid|reqntid)\s+(\d+(?:\s*,\s*\d+)*)")


def resources(report: str, ptx: str, symbols: dict[str, str]) -> dict[str, Resources]:
    """Resources by kernel; local memory and spills include those of functions that the kernel calls.

    report : output of ptxas -v for `ptx`. symbols : names in the machine code, by kernel.
    Raises KernelError: the report lacks a kernel.
    """
    found = _sections(report)
    bounds = {name: _THREADS.search(directives) for name, directives in _DECLARED.findall(ptx)}
    multiplying = {symbol for symbol, body in _BODY.findall(ptx) if _TENSOR.search(body)}
    out = {}
    for name, symbol in symbols.items():
        text = found.get(symbol, "")
        used = _USED.search(text)
        if used is None or symbol not in bounds:
            listed = ", ".join(found) or "no kernels"
            raise KernelError(f"the compiler does not report the resources of kernel {name}: its report has {listed}")
        frames = [tuple(map(int, frame)) for frame in _FRAME.findall(text)]
        cumulative, shared, threads = _CUMULATIVE.search(text), _SHARED.search(text), bounds[symbol]
        out[name] = Resources(
            registers=int(used[1]),
            static_shared=int(shared[1]) if shared else 0,
            local=max([int(cumulative[1]) if cumulative else 0, *(frame[0] for frame in frames)]),
            spill_stores=sum(frame[1] for frame in frames),
            spill_loads=sum(frame[2] for frame in frames),
            threads_per_block=math.prod(map(int, threads[1].split(","))) if threads else Resources.threads_per_block,
            uses_tensor_cores=symbol in multiplying,
        )
    return out


def _sections(report: str) -> dict[str, str]:
    """Part of the report on each kernel by symbol, up to the next kernel's line, with the functions that it calls."""
    starts = list(_ENTRY.finditer(report))
    ends = [start.start() for start in starts[1:]] + [len(report)]
    return {start[1]: report[start.end() : end] for start, end in zip(starts, ends, strict=True)}
