"""Floating-point operations of each basic block, from the machine code of a counted kernel.

A block begins with a call that the compiler inserts (`-fsanitize-coverage=trace-pc`) and ends before the next
one. Functions of the mathematics library are calls, and are not counted.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_MARK = "__sanitizer_cov_trace_pc"
_CODE = re.compile(r"\s*([0-9a-f]+):\s+(\S+)\s*([^#<\n]*)(.*)")
#: Pattern of machine instructions: additions, multiplications, divisions and roots, scalar or vector.
_PLAIN = re.compile(r"v?(add|sub|mul|div|sqrt)(ss|sd|ps|pd)$")
_FUSED = re.compile(r"vf(?:n?m(?:add|sub))\d{3}(ss|sd|ps|pd)$")
_LANES = {("ps", "x"): 4, ("ps", "y"): 8, ("ps", "z"): 16, ("pd", "x"): 2, ("pd", "y"): 4, ("pd", "z"): 8}


@dataclass(frozen=True)
class Arithmetic:
    """Floating-point operations of one thread in one pass through a block: additions, multiplications, fused ones,
    others.
    """

    add: int = 0
    mul: int = 0
    fma: int = 0
    other: int = 0

    @property
    def flops(self) -> int:
        """FLOPs: one for each operation, two for a fused multiply-add."""
        return self.add + self.mul + 2 * self.fma + self.other

    def __add__(self, more: Arithmetic) -> Arithmetic:
        return Arithmetic(self.add + more.add, self.mul + more.mul, self.fma + more.fma, self.other + more.other)

    def times(self, count: int) -> Arithmetic:
        """Operations of `count` passes through these ones."""
        return Arithmetic(self.add * count, self.mul * count, self.fma * count, self.other * count)


@cache
def arithmetic(library: Path) -> dict[int, Arithmetic]:
    """Operations of each block of a library, by the return address of its mark; empty without objdump."""
    try:
        command = ["objdump", "-d", "--no-show-raw-insn", str(library)]
        text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    found: dict[int, Arithmetic] = {}
    block, is_next = None, False
    for line in text.splitlines():
        if line.endswith(">:"):
            block = None
            continue
        match = _CODE.match(line)
        if match is None:
            continue
        if is_next:
            block, is_next = int(match[1], 16), False
            found[block] = Arithmetic()
        if match[2].startswith("call") and _MARK in match[4]:
            is_next = True
        elif block is not None:
            found[block] += _of(match[2], match[3])
    return found


def _of(name: str, operands: str) -> Arithmetic:
    fused, plain = _FUSED.match(name), _PLAIN.match(name)
    if not (fused or plain):
        return Arithmetic()
    kind = (fused or plain)[1 if fused else 2]  # type: ignore[index]
    register = re.search(r"%([xyz])mm", operands)
    lanes = _LANES.get((kind, register[1] if register else "x"), 1)
    if fused:
        return Arithmetic(fma=lanes)
    assert plain is not None
    word = plain[1]
    return Arithmetic(
        add=lanes if word in ("add", "sub") else 0, mul=lanes if word == "mul" else 0,
        other=lanes if word in ("div", "sqrt") else 0,
    )  # fmt: skip
