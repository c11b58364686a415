"""Operands of PTX instructions as C++ values, and stores into them."""

from __future__ import annotations

from ....errors import KernelError

#: C++ of an operand: an expression, a list of them for a vector, or "[address | offset]".
Operand = str | list[str]


class PtxError(KernelError):
    """Error for an instruction without translation; its name is the message."""


TYPES = {f"{kind}{bits}": f"{'int' if kind == 's' else 'uint'}{bits}_t" for kind in "bus" for bits in (8, 16, 32, 64)}
TYPES |= {"f32": "float", "f64": "double", "f16": "__half", "bf16": "__nv_bfloat16", "f16x2": "__half2",
           "bf16x2": "__nv_bfloat162"}  # fmt: skip
#: Place of an instruction in the kernel.
HERE = "__FILE__, __LINE__"


def type_of(words: list[str]) -> str:
    """C++ type of an instruction, by the last type among the words of its name."""
    named = [word for word in words if word in TYPES]
    if not named:
        raise PtxError(".".join(words))
    return TYPES[named[-1]]


def cast(kind: str, value: Operand) -> str:
    """C++ expression of an operand as a type; the parts of a vector are packed into one value."""
    if isinstance(value, list):
        return f"emu::ptx::packed<{kind}>({', '.join(value)})"
    return f"emu::ptx::as<{kind}>({value})"


def put(target: Operand, value: str) -> str:
    """C++ statement that stores a value in an operand, or in the parts of a vector."""
    if isinstance(target, list):
        return (
            f"emu::ptx::unpack({value}, {', '.join('emu::ptx::unused' if each == '_' else each for each in target)});"
        )
    return f"(void)({value});" if target == "_" else f"emu::ptx::put({target}, {value});"


def address(operand: Operand, words: list[str]) -> str:
    """C++ address of an operand [base + offset], in shared memory or elsewhere."""
    if not isinstance(operand, str) or not operand.startswith("["):
        raise PtxError(".".join(words))
    base, _, offset = operand[1:-1].partition(" | ")
    space = "shared" if any(word.startswith("shared") for word in words) else "memory"
    return f"emu::ptx::{space}({base}, {offset or '0'}, {HERE})"
