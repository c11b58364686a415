"""Rewriting of source text for the C++ compiler: shared memory, which each block has separately, and inline PTX.

    __shared__ float a[16], sum;

becomes, in one line,

    struct emu_0 { float a[16]; ... }; auto& a = emu::shared<emu_0>().a; struct emu_1 { float sum; ... }; ...

and `extern __shared__ float s[];` a pointer to the dynamic part (headers/shared.h). `asm("...")` with an instruction
becomes a call that stops the kernel. Everything else stays as it is, line for line.
"""

from __future__ import annotations

import re
from itertools import count

from ...errors import KernelError
from ..declarations import split
from ..lines import directives, quoted
from .ptx.operands import PtxError
from .ptx.statement import translated

_COMMENT = r"//[^\n]*|/\*.*?\*/"
_DIRECTIVE = r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*"  # with its continued lines
_STRING = r'R"(?P<raw>[^()\\\s]*)\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"|(?<![\w])\'(?:\\.|[^\'\\\n])+\''  # or a character
_ASIDE = re.compile(f"{_COMMENT}|{_DIRECTIVE}|{_STRING}", re.DOTALL | re.MULTILINE)
_COMMENT_OR_STRING = re.compile(f"{_COMMENT}|{_STRING}", re.DOTALL)
_DECLARATION = re.compile(
    r"(?P<before>(?:\b(?:extern|static|volatile|const|alignas\s*\([^;]*?\)|__align__\s*\([^;]*?\))\s*)*)"
    r"\b__shared__\b(?P<declared>[^;{}]*);"
)
_TYPED = re.compile(
    r"(?P<before>(?:\bstatic\s+|\balignas\s*\([^;{}]*?\)\s*|\b__align__\s*\([^;{}]*?\)\s*)*)"
    r"\b__shared__\s+(?P<kind>union|struct)\s*(?P<name>[A-Za-z_]\w*)?\s*\{"
)
#: Type before the word: float __shared__ a[16]; double extern __shared__ s[]; extern double __shared__ s[];
_LATE = re.compile(
    r"(?<=[;{})\n])(?P<space>\s*)(?P<first>(?:\b(?:extern|static)\s+)?)"
    r"(?P<type>(?:\b(?:const|volatile|unsigned|signed|long|short|struct)\s+)*"
    r"\b(?!extern\b|static\b|const\b|volatile\b|return\b)[A-Za-z_][\w:]*(?:\s*<[^<>;{}]*>)?[\s*]+)"
    r"(?P<extern>extern\s+)?__shared__\s+(?=[A-Za-z_]\w*\s*[\[;,])"
)
#: Macro without the semicolon of the declaration: #define SHARED extern __shared__ float s[]
_MACRO = re.compile(
    r"^(?P<head>[ \t]*#[ \t]*define[ \t]+\w+(?:\([^)\n]*\))?[ \t]+)"
    r"(?P<body>(?=[^\n]*\bextern\b)[^\n;{}\\]*\b__shared__\b[^\n;{}\\]*)$",
    re.MULTILINE,
)
_ALIGNED = re.compile(r"\b(?:alignas|__align__)\s*\((?:[^()]|\([^()]*\))*\)")
_NAME = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*(?P<sizes>(?:\[[^;]*\])?)\s*")
_NOINLINE = re.compile(r"(?<!\()\b__noinline__\b")
_BRACE = re.compile(r"(?P<outer>\bnamespace\b[\w\s:]*|\bextern\s*)?\{|\}")
_WORD = re.compile(r"\b(extern|static)\b")
_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b(?:\s*(?:volatile|__volatile__|__volatile|goto|inline))*\s*(?P<open>\()")
_LITERAL = re.compile(r'"((?:\\.|[^"\\\n])*)"|R"(?P<raw>[^()\\\s]*)\((.*?)\)(?P=raw)"', re.DOTALL)
_INSTRUCTION = re.compile(r"^(?:@!?%?\w+\s+)?(?P<name>[a-z][\w.:]*)")
#: Pattern of what only the host's processor has.
_OF_HOST = re.compile(r'%%[re](?:[abcd]x|[sd]i|[sb]p)\b|"\s*(?:rdtscp?|cpuid|pause|xgetbv|[lms]fence)\b')

#: Exchange whose value nothing uses: a statement.
_EXCHANGE = re.compile(
    r"(?:[;{}]|\belse|\b(?:if|for|while)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))\s*"
    r"(?P<name>atomicExch(?:_block|_system)?)\s*(?=\()"
)

#: Functions of simd.h. Instances of its templates would take a tenth of the time in which another kernel compiles.
_SIMD = re.compile(r"\b__v(?!olatile)")


def with_headers(body: str) -> str:
    """Rewritten text after the emulator's headers that it needs."""
    simd = '#include "simd.h"\n' if _SIMD.search(body) else ""
    return f'#include "emulator.h"\n{simd}{body}'


def blank(text: str) -> str:
    """Text with a blank in place of each character except line breaks."""
    return re.sub(r"[^\n]", " ", text)


def bare(text: str, directives: bool = False) -> str:
    """Text with blanks in place of comments, strings and, unless `directives`, directives; all positions stay."""
    return (_COMMENT_OR_STRING if directives else _ASIDE).sub(lambda match: blank(match[0]), text)


def closing(text: str, position: int, pair: str = "{}") -> int:
    """Position after the bracket that closes the one at `position`; the end of the text if none closes it."""
    depth = 0
    for bracket in re.compile(f"[{re.escape(pair)}]").finditer(text, position):
        depth += 1 if bracket[0] == pair[0] else -1
        if depth == 0:
            return bracket.end()
    return len(text)


#: Pattern of the brackets of a launch with spaces in them, as Visual Studio writes them: k << <grid, block >> > (x).
_OPEN = re.compile(r"(?<!operator)(?<!operator )(?<!<)<[ \t]*<[ \t]*<(?![<=])")
_CLOSE = re.compile(r">[ \t]*>[ \t]*>(?=\s*\()")


def tight(text: str) -> str:
    """Text whose launches are written <<< >>>; all positions stay."""
    plain, position = bare(text, directives=True), 0
    while match := _OPEN.search(plain, position):
        position = match.end()
        end = plain.find(";", position) % (len(plain) + 1)
        pieces = [match]
        if " " in match[0] or "\t" in match[0] or ">>>" not in plain[position:end]:
            pieces += list(_CLOSE.finditer(plain, position, end))[-1:]
        for piece in pieces:
            brackets = re.sub(r"\s", "", piece[0]).ljust(len(piece[0]))
            text, plain = (f"{each[: piece.start()]}{brackets}{each[piece.end() :]}" for each in (text, plain))
    return text


def rewritten(text: str, file: str) -> str:
    """Source with its shared memory declared for the emulator; `KernelError` names a declaration that is unreadable."""
    text = _without_value(text)
    text = _named_types(_NOINLINE.sub("__attribute__((noinline))", text))
    text = _MACRO.sub(lambda match: match["head"] + rewritten(f"{{{match['body']};", file)[1:-1], text)
    plain = bare(text, directives=True)
    for match in reversed(list(_LATE.finditer(plain))):
        new = f"{match['space']}{match['first']}{match['extern'] or ''}__shared__ {match['type']}"
        text, plain = (each[: match.start()] + new + each[match.end() :] for each in (text, plain))
    out, position, numbers = [], 0, count()
    opened: list[bool] = []
    for match in _DECLARATION.finditer(plain):
        start = match.start()
        opened = _open(opened, plain[position:start])
        line, source = line_of(text, start, file)
        inside = any(opened)
        words = f"{match['before']} {match['declared']}"
        declared = _WORD.sub("", words)
        what = f"{source}:{line}: '__shared__{' '.join(match['declared'].split())};'"
        if re.search(r"\bextern\b", words):
            new = _dynamic(declared, inside, what)
        else:
            new = _static(declared, what, line, source, numbers, inside)
        out += [text[position:start], new, "\n" * match[0].count("\n")]
        position = match.end()
    return "".join([*out, text[position:]])


def _without_value(text: str) -> str:
    """Text in which an atomicExch that is a statement is a function without a value: it reads nothing."""
    plain = bare(text, directives=True)
    for match in reversed(list(_EXCHANGE.finditer(plain))):
        if re.match(r"\s*;", plain[closing(plain, match.end(), "()") :]):
            text = f"{text[: match.start('name')]}emu_unused_{text[match.start('name') :]}"
    return text


def _named_types(text: str) -> str:
    """Text in which the type of `__shared__ union { int a; float b; } s;` is declared separately, with a name."""
    plain = bare(text, directives=True)
    for match in reversed(list(_TYPED.finditer(plain))):
        end = closing(plain, match.end() - 1)
        name = match["name"] or f"emu_type_{match.start()}"
        body = f"{match['kind']} {name} {text[match.end() - 1 : end]}; "
        text = f"{text[: match.start()]}{body}{match['before']}__shared__ {name} {text[end:]}"
    return text


def _dynamic(declared: str, inside: bool, what: str) -> str:
    kind, declarators = _split(declared)
    match = _NAME.fullmatch(declarators[0]) if len(declarators) == 1 else None
    open_length = re.match(r"\[\s*\](?P<rows>.*)", match["sizes"].strip(), re.DOTALL) if match else None
    if match is None or open_length is None:
        form = "extern __shared__ float s[];"
        raise KernelError(f"{what} is no array of open length, as dynamic shared memory is declared: {form}")
    name = match["name"]
    kind = _ALIGNED.sub("", kind).strip() + " ".join(open_length["rows"].split())  # float[16] of float s[][16]
    if inside:
        return f'auto* {name} = emu::dynamic_shared<{kind}>("{name}");'
    return f'static const emu::DynamicShared<{kind}> {name}{{"{name}"}};'


def _static(declared: str, what: str, line: int, file: str, numbers: count[int], inside: bool) -> str:
    kind, declarators = _split(declared)
    parts = []
    for declarator in declarators:
        match = _NAME.fullmatch(declarator)
        if match is None or not kind:
            form = "shared memory is declared as a type, names and sizes, without a value"
            raise KernelError(f"{what} cannot be read: {form}")
        name, struct = match["name"], f"emu_{next(numbers)}"
        parts.append(
            f"struct {struct} {{ {kind} {declarator}; "
            f'static const char* emu_name() {{ return "{name}"; }} '
            f"static const char* emu_function() {{ return __PRETTY_FUNCTION__; }} "
            f"static const char* emu_file() {{ return {quoted(file)}; }} static int emu_line() {{ return {line}; }} "
            f"static unsigned emu_element() {{ return sizeof(std::remove_all_extents_t<decltype({name})>); }} }}; "
            + (
                f"auto& {name} = emu::shared<{struct}>().{name};"
                if inside
                else f"static const emu::SharedVariable<{struct}, &{struct}::{name}> {name};"
            )
        )
    return " ".join(parts)


def _split(declared: str) -> tuple[str, list[str]]:
    """Type, and each name with its sizes: ("float4", ["a[2]", "b"]) for "float4 a[2], b"."""
    parts = split(declared)
    first = re.fullmatch(r"(?P<type>.*?)(?P<name>\b[A-Za-z_]\w*\s*(?:\[.*\])?\s*)", parts[0], re.DOTALL)
    if first is None:
        return "", parts
    return " ".join(first["type"].split()), [" ".join(part.split()) for part in (first["name"], *parts[1:])]


def _open(opened: list[bool], text: str) -> list[bool]:
    """Open braces after a text that follows `opened`; False for those of namespaces and of extern "C"."""
    inner = [*opened]
    for brace in _BRACE.finditer(text):
        if brace[0] == "}":
            inner = inner[:-1]
        else:
            inner.append(brace["outer"] is None)
    return inner


def line_of(text: str, position: int, file: str) -> tuple[int, str]:
    """Line and file of a position in a text with #line directives."""
    line, source, start = text.count("\n", 0, position) + 1, file, 0
    for number, source, start in directives(text, position):  # noqa: B007
        line = number + text.count("\n", start, position) - 1
    return line, source


def without_ptx(text: str) -> str:
    """Text in which each `asm("...")` with an instruction is C++, or a call that stops the kernel and names an
    instruction without translation.
    """
    plain, code, out, position = bare(text, directives=True), bare(text), [], 0
    for match in _ASM.finditer(plain):
        last = closing(plain, match.start("open"), "()")
        inside = text[match.start("open") + 1 : last - 1]
        if instruction(inside) and not _OF_HOST.search(inside):
            macro = code[match.start()] == " "
            lines = ("\\\n" if macro else "\n") * text.count("\n", match.start(), last)
            out += [text[position : match.start()], _translated(inside), lines]
            position = last
    return "".join([*out, text[position:]])


def _translated(inside: str) -> str:
    try:
        return " ".join(translated(inside).split())
    except PtxError as error:
        named = str(error) if "." in str(error) and " " not in str(error) else instruction(inside)
        return f'emu_no_body("PTX {named}", __FILE__, __LINE__)'


def instruction(inside: str) -> str:
    """First PTX instruction in the parentheses of an asm statement; "" if there is none."""
    template = re.split(r'"\s*:', inside.replace("::", ": :"), maxsplit=1)[0] + '"'
    written = "".join(match[1] if match[1] is not None else match[3] for match in _LITERAL.finditer(template))
    for statement in re.split(r"\\n|\\t|[;{}\n]", re.sub(r"//.*?(?:\\n|$)|/\*.*?\*/", " ", written)):
        found = _INSTRUCTION.match(statement.strip())
        if found:
            return found["name"]
    return ""
