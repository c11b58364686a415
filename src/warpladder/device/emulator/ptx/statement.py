"""Inline PTX in C++: each `asm` statement becomes a block of assignments and calls of headers/ptx.h, in one line.

    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));

becomes

    do { auto& emu_a0 = lane; emu::ptx::put(emu_a0, emu::ptx::as<uint32_t>(emu::lane())); } while (0)

An instruction without translation stops the kernel with a message that names it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import count

from ...declarations import split
from .instructions import instruction
from .operands import PtxError

_LITERAL = re.compile(r'"((?:\\.|[^"\\\n])*)"|R"(?P<raw>[^()\\\s]*)\((?P<text>.*?)\)(?P=raw)"', re.DOTALL)
_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_OPERAND = re.compile(r'\s*(?:\[\s*(?P<name>\w+)\s*\]\s*)?"(?P<kind>[=+&]*[a-zA-Z])"\s*\((?P<value>.*)\)\s*', re.DOTALL)
#: Between instructions: a semicolon, or the brace of a block.
_BREAK = re.compile(r";|((?<![\w,\s|])\s*\{(?=\s*(?:\.reg|[a-z@]))|(?<=;)\s*\})")
_TYPES = {"pred": "bool"} | {f"{kind}{bits}": f"uint{bits}_t" for kind in "bus" for bits in (8, 16, 32, 64)}
_TYPES |= {"f32": "float", "f64": "double", "f16": "uint16_t", "f16x2": "uint32_t", "b128": "unsigned __int128"}
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"'}
_labels = count()


@dataclass
class _Statement:
    """State of an asm statement's translation. registers : C++ names of its registers, by their PTX names."""

    names: dict[str, str] = field(default_factory=dict)
    registers: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    has_operands: bool = True


def translated(inside: str) -> str:
    """C++ for the text in the parentheses of an asm statement. Raises `PtxError` that names an unknown instruction."""
    sections = _sections(_COMMENT.sub(lambda match: match[1] or " ", inside))
    template = _template(sections[0])
    statement = _Statement(has_operands=len(sections) > 1)
    declared = []
    operands = [each for section in sections[1:3] for each in (split(section) if section.strip() else [])]
    outputs = len(split(sections[1])) if len(sections) > 1 and sections[1].strip() else 0
    for number, text in enumerate(operands):
        match = _OPERAND.fullmatch(text)
        if match is None:
            raise PtxError("an operand")
        name = f"emu_a{number}"
        if match["kind"].strip("=+&") in ("n", "C"):
            declared.append(f"constexpr auto {name} = ({match['value']});")
        else:
            declared.append(f"auto{'&' if number < outputs else ''} {name} = ({match['value']});")
        statement.names[str(number)] = name
        if match["name"]:
            statement.names[f"[{match['name']}]"] = name
    body = _body(template.replace("%=", str(next(_labels))), statement)
    locals_ = f"__label__ {', '.join(statement.labels.values())}; " if statement.labels else ""
    carry = "unsigned emu_cc = 0; " if "emu_cc" in body else ""
    return f"do {{ {locals_}{' '.join(declared)} {carry}{body} }} while (0)"


def _sections(inside: str) -> list[str]:
    """Template, outputs, inputs and clobbers of an asm statement, separated by colons outside strings."""
    out, start, depth, at = [], 0, 0, 0
    while at < len(inside):
        string = _LITERAL.match(inside, at)
        if string:
            at = string.end()
            continue
        depth += (inside[at] in "([{") - (inside[at] in ")]}")
        if inside[at] == ":" and depth == 0:
            out.append(inside[start:at])
            start = at + 1
        at += 1
    return [*out, inside[start:]]


def _template(text: str) -> str:
    """Instructions of an asm statement, from its string literals."""
    if re.sub(r"[\s\\]", "", _LITERAL.sub("", text)):
        raise PtxError("a template of macros")
    parts = []
    for match in _LITERAL.finditer(text):
        plain = match[1] if match[1] is not None else match["text"]
        parts.append(re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), plain) if match[1] is not None else plain)
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", "".join(parts), flags=re.DOTALL)


def _body(template: str, statement: _Statement) -> str:
    template = re.sub(r"(?<![\w$])([A-Za-z_$][\w$]*)\s*:(?!:)", r"\1:;", template)  # a label is an instruction
    pieces = [piece.strip() for piece in _BREAK.split(template) if piece and piece.strip()]
    pieces = [part for piece in pieces for part in _braces(piece)]
    for piece in pieces:  # labels may be used before they are defined
        match = re.fullmatch(r"([A-Za-z_$][\w$]*):", piece)
        if match:
            statement.labels[match[1]] = f"emu_label_{match[1].replace('$', '_')}_{next(_labels)}"
    return " ".join(_line(piece, statement) for piece in pieces)


def _braces(piece: str) -> list[str]:
    """Instruction, and the braces of blocks before and after it, as separate pieces."""
    out = []
    while piece.startswith("{") and not re.match(r"\{[^{}]*\}\s*,", piece):
        out.append("{")
        piece = piece[1:].strip()
    after = []
    while piece.endswith("}") and piece.count("}") > piece.count("{"):
        after.append("}")
        piece = piece[:-1].strip()
    return [*out, *([piece] if piece else []), *after]


def _line(piece: str, statement: _Statement) -> str:
    if piece in "{}":
        return piece
    label = re.fullmatch(r"([A-Za-z_$][\w$]*):", piece)
    if label:
        return f"{statement.labels[label[1]]}:;"
    if piece.startswith(".reg"):
        return _registers(piece, statement)
    guard = re.match(r"@(?P<not>!?)\s*(?P<name>%?[\w$]+)\s+", piece)
    before = f"if ({guard['not']}({_value(guard['name'], statement)})) " if guard else ""
    piece = piece[guard.end() :] if guard else piece
    opcode, _, rest = piece.partition(" ") if " " in piece else (piece, "", "")
    opcode, _, more = opcode.partition("\t")
    operands = [each.strip() for each in split(f"{more} {rest}")] if (more + rest).strip() else []
    if opcode.partition(".")[0] == "bra":
        if operands[-1] not in statement.labels:
            raise PtxError(opcode)
        return f"{before}goto {statement.labels[operands[-1]]};"
    return f"{before}{{ {instruction(opcode, [_operand(each, statement) for each in operands])} }}"


def _registers(piece: str, statement: _Statement) -> str:
    match = re.fullmatch(r"\.reg\s+(?:\.v\d\s+)?\.(?P<type>\w+)\s+(?P<names>.*)", piece, re.DOTALL)
    if match is None or match["type"] not in _TYPES:
        raise PtxError(" ".join(piece.split()[:2]))
    names: list[str] = []
    for name in (each.strip() for each in match["names"].split(",")):
        many = re.fullmatch(r"(.*)<(\d+)>", name)
        names += [f"{many[1]}{i}" for i in range(int(many[2]))] if many else [name]
    for name in names:
        statement.registers[name] = f"emu_r_{re.sub(r'[^A-Za-z0-9_]', '_', name)}"
    return f"{_TYPES[match['type']]} {', '.join(statement.registers[name] for name in names)};"


#: Special registers.
_SPECIAL = {
    "laneid": "uint32_t(emu::lane())", "warpid": "(emu_thread_linear() / 32)", "smid": "0u", "nsmid": "1u",
    "lanemask_eq": "(1u << emu::lane())", "lanemask_lt": "((1u << emu::lane()) - 1)",
    "lanemask_le": "((2u << emu::lane()) - 1)", "lanemask_gt": "(~0u << emu::lane() << 1)",
    "lanemask_ge": "(~0u << emu::lane())", "clock": "uint32_t(emu_clock())", "clock64": "uint64_t(emu_clock())",
    "clock_hi": "uint32_t(uint64_t(emu_clock()) >> 32)", "globaltimer": "uint64_t(emu_clock())",
    "globaltimer_lo": "uint32_t(emu_clock())", "nwarpid": "64u", "gridid": "uint64_t(1)",
    "cluster_ctarank": "emu_cluster_rank()", "cluster_nctarank": "emu_cluster_size()",
    "dynamic_smem_size": "emu::ptx::dynamic_bytes()",
}  # fmt: skip
_SPECIAL |= {f"{name}.{axis}": f"{word}.{axis}" for axis in "xyz" for name, word in
             (("tid", "threadIdx"), ("ntid", "blockDim"), ("ctaid", "blockIdx"), ("nctaid", "gridDim"))}  # fmt: skip


def _value(word: str, statement: _Statement) -> str:
    """C++ of a register, an operand %0, a special register or a number."""
    name = word.strip()
    if name in statement.registers:
        return statement.registers[name]
    if statement.has_operands and name.startswith("%%"):
        name = name[1:]
    elif name.startswith("%") and name[1:] in statement.names:
        return statement.names[name[1:]]
    if name in statement.registers:
        return statement.registers[name]
    if name.startswith("%") and name[1:] in _SPECIAL:
        return _SPECIAL[name[1:]]
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", name):
        return f"0x{name[2:]}u"
    if re.fullmatch(r"0[dD][0-9a-fA-F]{16}", name):
        return f"0x{name[2:]}ull"
    if re.fullmatch(r"[-+]?(?:0[xX][0-9a-fA-F]+|\d+)U?", name):
        return f"({name.rstrip('U')}{'ll' if len(name) > 11 else ''})"
    if re.fullmatch(r"[-+]?\d+\.\d*(?:[eE][-+]?\d+)?", name):
        return f"emu::ptx::Decimal{{{name}}}"
    raise PtxError(f"operand {name}")


def _operand(text: str, statement: _Statement) -> str | list[str]:
    """C++ of an operand: a list for a vector {a, b}, "[...]" for an address, "!" before a negated predicate."""
    if text.startswith("{") and text.endswith("}"):
        return [each if each == "_" else _value(each, statement) for each in split(text[1:-1])]
    if text.startswith("[") and text.endswith("]"):
        base, plus, offset = text[1:-1].partition("+")
        value = _value(base, statement)
        return f"[{value}{f' | {_value(offset, statement)}' if plus else ''}]"
    if text.startswith("!"):
        return f"!{_value(text[1:], statement)}"
    if "|" in text:
        first, second = (each.strip() for each in text.split("|"))
        return [each if each == "_" else _value(each, statement) for each in (first, second)]
    return text if text == "_" else _value(text, statement)
