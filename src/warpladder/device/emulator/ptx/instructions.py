"""PTX instructions in C++, by their name and types."""

from __future__ import annotations

import re

from . import arithmetic, memory, warps
from .operands import Operand, PtxError

_FAMILIES = [
    (r"(addc?|subc?)\..*cc.*|(addc|subc)\..*", arithmetic.carry),
    (r"cvt\..*", arithmetic.convert),
    (r"st\.async\..*", memory.send),
    (r"(ld|ldu|st)\..*", memory.load),
    (r"(atom|red)\..*", memory.atomic),
    (r"setp\..*", arithmetic.compare),
    (r"selp\..*", arithmetic.select),
    (r"(bfe|bfi|prmt|lop3|shf|vabsdiff4|dp4a)\..*", arithmetic.bits),
    (r"(shfl|vote|match|redux|elect)\.sync.*|match\..*|activemask\..*", warps.warp),
    (r"(bar|barrier|membar|fence)\..*", warps.barrier),
    (r"cp\.async\..*", memory.copy),
    (r"mbarrier\..*", memory.phase),
    (r"(ldmatrix|mma)\..*", warps.matrix),
    (r".*", warps.special),
]


def instruction(opcode: str, operands: list[Operand]) -> str:
    """C++ statements of an instruction. Raises `PtxError` if there is no translation."""
    words = opcode.split(".")
    for pattern, translate in _FAMILIES:
        if re.fullmatch(pattern, opcode):
            found = translate(opcode, words, operands)
            if found is not None:
                return found
    found = arithmetic.plain(words, operands)
    if found is None:
        raise PtxError(opcode)
    return found
