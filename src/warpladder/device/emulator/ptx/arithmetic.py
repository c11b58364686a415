"""PTX instructions without side effects, in C++: arithmetic, bits, comparisons, conversions."""

from __future__ import annotations

import re

from .operands import TYPES, Operand, cast, put, type_of

_WIDE = {"uint16_t": "uint32_t", "int16_t": "int32_t", "uint32_t": "uint64_t", "int32_t": "int64_t"}

#: Value of an instruction: T is its type, {0}, {1}, ... its operands as T.
_VALUES = {
    "add": "T({0} + {1})", "sub": "T({0} - {1})", "mul": "T({0} * {1})", "mul.lo": "T({0} * {1})",
    "mul24.lo": "T({0} * {1})", "mul.hi": "emu::ptx::high({0}, {1})", "div": "T({0} / {1})", "rem": "T({0} % {1})",
    "min": "emu::ptx::least({0}, {1})", "max": "emu::ptx::most({0}, {1})", "and": "T({0} & {1})",
    "or": "T({0} | {1})", "xor": "T({0} ^ {1})", "not": "T(~{0})", "cnot": "T({0} == 0)", "neg": "T(-{0})",
    "abs": "T({0} < T(0) ? -{0} : {0})", "mad": "T({0} * {1} + {2})", "mad.lo": "T({0} * {1} + {2})",
    "mad.hi": "T(emu::ptx::high({0}, {1}) + {2})", "fma": "emu::ptx::fma({0}, {1}, {2})",
    "sad": "T(({0} < {1} ? {1} - {0} : {0} - {1}) + {2})", "rcp": "T(1 / {0})", "sqrt": "T(sqrt({0}))",
    "rsqrt": "T(1 / sqrt({0}))", "sin": "T(sin({0}))", "cos": "T(cos({0}))", "ex2": "T(exp2({0}))",
    "lg2": "T(log2({0}))", "tanh": "T(tanh({0}))", "copysign": "T(copysign({1}, {0}))", "brev": "emu::ptx::turned({0})",
    "popc": "uint32_t(std::popcount({0}))", "clz": "uint32_t(std::countl_zero({0}))",
    "bfind": "emu::ptx::highest({0})", "mov": "{0}",
}  # fmt: skip
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=",
                "hi": ">", "hs": ">="}  # fmt: skip


def plain(words: list[str], operands: list[Operand]) -> str | None:
    """C++ of an instruction without side effects; None for an unknown one."""
    name = words[0]
    if {"rz", "rm", "rp", "sat"} & set(words) or "cc" in words:
        return None
    kind = type_of(words)
    if words[1:2] and f"{name}.{words[1]}" in _VALUES:
        name = f"{name}.{words[1]}"
    if name in ("mul", "mad") and "wide" in words and kind in _WIDE:
        wide = _WIDE[kind]
        terms = [f"{wide}({cast(kind, each)})" for each in operands[1:3]] + [cast(wide, each) for each in operands[3:]]
        return put(operands[0], f"{wide}({terms[0]} * {terms[1]}{f' + {terms[2]}' if terms[2:] else ''})")
    if name in ("shl", "shr"):
        shifted = f"emu::ptx::{'left' if name == 'shl' else 'right'}({cast(kind, operands[1])}"
        return put(operands[0], f"{shifted}, {cast('uint32_t', operands[2])})")
    if name == "bfind" and "shiftamt" in words:
        return None
    if name not in _VALUES:
        return None
    value = re.sub(r"\bT\b", kind, _VALUES[name])
    return put(operands[0], value.format(*(cast(kind, each) for each in operands[1:])))


def carry(opcode: str, words: list[str], operands: list[Operand]) -> str | None:
    """C++ of an addition or subtraction with the carry bit."""
    kind, a, b = type_of(words), cast(type_of(words), operands[1]), cast(type_of(words), operands[2])
    uses = "emu_cc" if words[0] in ("addc", "subc") else "0u"
    call = f"emu::ptx::{words[0][:3]}_carry<{kind}>({a}, {b}, {uses}, emu_cc)"
    return put(operands[0], call)


def convert(opcode: str, words: list[str], operands: list[Operand]) -> str | None:
    """C++ of a conversion between types of numbers; None for an unknown type or rounding."""
    to, source = words[-2], words[-1]
    if (to, source) == ("tf32", "f32"):
        return put(operands[0], f"emu::tf32_bits({cast('float', operands[1])})")
    if to in ("f16x2", "bf16x2") and source == "f32" and len(operands) == 3:
        half = TYPES[to[:-2]]
        return put(operands[0], f"emu::ptx::packed<uint32_t>({half}({cast('float', operands[2])}), "
                    f"{half}({cast('float', operands[1])}))")  # fmt: skip
    if "sat" in words or "relu" in words or to not in TYPES or source not in TYPES or "x2" in to + source:
        return None
    value, kind = cast(TYPES[source], operands[1]), TYPES[to]
    rounding = {"rni": "nearbyint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
    chosen = next((rounding[word] for word in words if word in rounding), "")
    if source.startswith(("f", "bf")) and to[0] in "us":
        wide = "double" if source == "f64" else "float"
        return put(operands[0], f"emu::converted_to<{kind}>({wide}({chosen or 'trunc'}({wide}({value}))))")
    if chosen:
        value = f"{chosen}({value})"
    elif {"rz", "rm", "rp"} & set(words):
        return None
    return put(operands[0], f"emu::ptx::converted<{kind}>({value})")


def compare(opcode: str, words: list[str], operands: list[Operand]) -> str | None:
    """C++ of a comparison into a predicate, or into it and its negation; None for an unknown one."""
    kind, sign = type_of(words), _COMPARISONS.get(words[1])
    if sign is None or len(operands) > 3:
        return None
    value = f"{cast(kind, operands[1])} {sign} {cast(kind, operands[2])}"
    if isinstance(operands[0], list):
        return f"{{ bool emu_c = {value}; {operands[0][0]} = emu_c; {operands[0][1]} = !emu_c; }}"
    return f"{operands[0]} = {value};"


def select(opcode: str, words: list[str], operands: list[Operand]) -> str | None:
    """C++ of a choice between two numbers by a predicate."""
    kind = type_of(words)
    return put(operands[0], f"(({operands[3]}) ? {cast(kind, operands[1])} : {cast(kind, operands[2])})")


def bits(opcode: str, words: list[str], operands: list[Operand]) -> str | None:
    """C++ of an instruction on bits or bytes; None for an unknown form."""
    kind = type_of(words)
    rest = ", ".join(cast("uint32_t" if (i and words[0] != "bfi") or i > 1 else kind, each)
                     for i, each in enumerate(operands[1:]))  # fmt: skip
    if words[0] == "prmt" and len(words) == 2:
        return put(operands[0], f"__byte_perm({rest})")
    if words[0] in ("bfe", "bfi"):
        return put(operands[0], f"emu::ptx::{words[0]}<{kind}>({rest})")
    if words[0] == "lop3":
        return put(operands[0], f"emu::ptx::lop3({rest})")
    if words[0] == "shf":
        side, mode = words[1], "" if words[2] == "wrap" else "c"
        return put(operands[0], f"__funnelshift_{side}{mode}({rest})")
    if words[0] == "vabsdiff4" and words[-1] == "add":
        return put(operands[0], f"emu::ptx::differences({', '.join(cast('uint32_t', each) for each in operands[1:])})")
    if words[0] == "dp4a" and words[1] == words[2]:
        signed = "int" if words[1] == "s32" else "unsigned"
        return put(operands[0], f"__dp4a({', '.join(cast(signed, each) for each in operands[1:])})")
    return None
