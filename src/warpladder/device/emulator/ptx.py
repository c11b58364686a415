"""Inline PTX, which no compiler of a CPU understands: a kernel that comes to it is stopped there, and all others are
not concerned.
"""

from __future__ import annotations

import re

from .text import bare, closing

_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b(?:\s*(?:volatile|__volatile__|__volatile|goto|inline))*\s*(?P<open>\()")
_STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"|R"(?P<raw>[^()\\\s]*)\((.*?)\)(?P=raw)"', re.DOTALL)
_INSTRUCTION = re.compile(r"^(?:@!?%?\w+\s+)?(?P<name>[a-z][\w.:]*)")


def without_ptx(text: str) -> str:
    """The text with a call in place of each `asm("...")` that holds an instruction; it stops the kernel and names it.
    An empty one is no PTX, and stays.
    """
    plain, code, out, position = bare(text, directives=True), bare(text), [], 0
    for match in _ASM.finditer(plain):
        last = closing(plain, match.start("open"), "()")
        named = instruction(text[match.start("open") : last])
        if named:
            macro = code[match.start()] == " "
            lines = ("\\\n" if macro else "\n") * text.count("\n", match.start(), last)
            out += [text[position : match.start()], f'emu_no_body("PTX {named}", __FILE__, __LINE__){lines}']
            position = last
    return "".join([*out, text[position:]])


def instruction(inside: str) -> str:
    """The first PTX instruction in the parentheses of an asm statement; "" where there is none."""
    template = re.split(r'"\s*:', inside.replace("::", ": :"), maxsplit=1)[0] + '"'
    written = "".join(match[1] if match[1] is not None else match[3] for match in _STRING.finditer(template))
    for statement in re.split(r"\\n|\\t|[;{}\n]", re.sub(r"//.*?(?:\\n|$)|/\*.*?\*/", " ", written)):
        found = _INSTRUCTION.match(statement.strip())
        if found:
            return found["name"]
    return ""
