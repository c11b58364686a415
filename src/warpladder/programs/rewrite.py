"""Rewriting of a program's text for the C++ compiler.

    add<<<blocks, 256>>>(x, y, n);

becomes, in one line,

    emu::start(add, [=](auto... a) { add(a...); }, "add", 0, emu::Config(blocks, 256), x, y, n);

(headers/launch.h). Shared memory and inline PTX are rewritten as for a single kernel
(device/emulator/rewrite.py). An allocation gets the name of its pointer, and a call of the runtime without use of its
result is marked, so that its error is reported.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from ..device.declarations import split
from ..device.emulator.conversions import saturating
from ..device.emulator.functions import functions
from ..device.emulator.rewrite import bare, closing, rewritten, tight, without_ptx
from ..errors import KernelError
from . import counts, launch_bounds

_OPEN = re.compile(r"<<<")
_KERNEL = re.compile(
    r"\b__global__(?P<middle>(?:\s|\w|\([^()]*(?:\([^()]*\)[^()]*)*\))*?)\b(?P<name>(?!__)[A-Za-z_]\w*)\s*\("
)
#: Calls that ask for facts of a kernel, or set them.
_FACTS = re.compile(
    r"\b(?:cudaOccupancy\w+|cudaFunc[GS]etAttributes?|cudaFuncGetName|cudaLaunch(?:Cooperative)?Kernel(?:Ex)?)"
    r"\s*(?:<[^<>;()]*>)?\s*\("
)
_CLUSTER = re.compile(r"__cluster_dims__\s*\((?P<sizes>[^()]*(?:\([^()]*\)[^()]*)*)\)")
_TEMPLATE = re.compile(r"template\s*<")
_ALLOCATION = re.compile(r"\b(?:cudaMalloc(?:Managed|Host|Async|Pitch|3D)?|cudaHostAlloc)\s*(?:<[^<>;()]*>)?\s*\(")
#: Calls of the runtime whose errors are reported.
_CALLS = (
    "cudaMalloc|cudaMallocManaged|cudaMallocHost|cudaMallocPitch|cudaHostAlloc|cudaMemcpy|cudaMemcpyAsync|cudaMemcpy2D|"
    "cudaMemcpy2DAsync|cudaMemcpyToSymbol|cudaMemcpyFromSymbol|cudaMemset|cudaMemsetAsync|cudaMemset2D|"
    "cudaFuncSetAttribute|cudaLaunchKernel|cudaLaunchCooperativeKernel|cudaEventRecord|cudaEventElapsedTime"
)
_STATEMENT = re.compile(rf"(?<=[;{{}}])\s*(?P<call>{_CALLS})\s*(?:<[^<>;()]*>)?\s*\(")
#: Pattern of host variables with the name of a built-in variable.
_SIZES = re.compile(
    r"\b(?:dim3\b[^;{}]*?|(?:unsigned|u?int[1-4]?|size_t|auto|long|short)\s+(?:[^;{}()=]*,\s*)?)"
    r"\b(?:gridDim|blockDim|blockIdx|threadIdx)\b(?!\s*[.\[])"
)
_BUILT_IN = re.compile(r"\b(gridDim|blockDim|blockIdx|threadIdx)\b(?!\s*::)")
#: Pattern of members of the runtime's structs with such a name.
_MEMBER = re.compile(r"(\.|->)(\s*)(gridDim|blockDim|blockIdx|threadIdx)\b")
_ADDRESS = re.compile(
    r"(?:\(\s*(?:const\s+)?void\s*(?:const\s*)?\*\s*\)|"
    r"(?:reinterpret|static)_cast\s*<\s*(?:const\s+)?void\s*\*\s*>\s*\()\s*"
    r"(?P<cast>\(\s*void\s*\(\s*\*\s*\)\s*\([^()]*\)\s*\)\s*)?&?\s*"
    r"(?P<name>(?:\w+::)*(?P<last>[A-Za-z_]\w*)(?:\s*<[^;(){}]*?>)?)(?=\s*[,;)}])"
)
_OF_EMULATOR = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|(?<![\w.>:])(?P<name>malloc|free|printf)(?=\s*\()')
_NULL = re.compile(r"\bNULL\b")


@dataclass(frozen=True)
class DeclaredKernel:
    """Declared kernel: number of template parameters, and the expressions in its __launch_bounds__ and
    __cluster_dims__. has_namesake : True if a function of the host has its name.
    """

    name: str
    parameters: int
    has_pack: bool
    bounds: str
    head: str
    cluster: str = ""
    has_namesake: bool = False


def kernels(texts: Collection[str]) -> dict[str, list[DeclaredKernel]]:
    """Kernels declared in some texts, by their last name, with all overloads."""
    out: dict[str, list[DeclaredKernel]] = {}
    plains = [bare(text) for text in texts]
    numbers = launch_bounds.numbers([bare(text, directives=True) for text in texts])
    for plain in plains:
        for match in _KERNEL.finditer(plain):
            start = max(plain.rfind(mark, 0, match.start()) for mark in ";{}") + 1
            template = list(_TEMPLATE.finditer(plain, start, match.start()))
            inside = ""
            if template:
                last = _closed(plain, template[-1].end() - 1)
                inside = plain[template[-1].end() : last - 1].strip()
            cluster = _CLUSTER.search(match["middle"])
            end = closing(plain, match.end() - 1, "()")
            head = " ".join(plain[match.end() - 1 : end].split())
            kernel = DeclaredKernel(
                match["name"], len(split(inside)) if inside else 0, "..." in inside,
                launch_bounds.stated(match["middle"], numbers, split(inside)), head,
                cluster["sizes"].strip() if cluster else "",
                len(re.findall(rf"\b\w+[\s*&]+{match['name']}\s*\([^(){{}};]*\)\s*\{{", plain))
                > len(re.findall(rf"__global__[^;{{}}]*\b{match['name']}\s*\([^;{{}}]*\{{", plain)),
            )  # fmt: skip
            out.setdefault(match["name"], []).append(kernel)
    return out


def program_text(text: str, file: str, known: dict[str, list[DeclaredKernel]]) -> str:
    """Text of a program's file with launches, shared memory and PTX as C++; line numbers are unchanged.

    Raises KernelError: a launch or a declaration cannot be read; the message has file and line.
    """
    text = _returning(_MEMBER.sub(r"\1\2emu_\3", tight(text)))
    text = _marked(_named(_addressed(_declared(_renamed(counts.marked(text)), known), known)))
    return _launches(without_ptx(rewritten(_saturating(text), file)), file, known)


def _addressed(text: str, known: dict[str, list[DeclaredKernel]]) -> str:
    """Text in which (void*)kernel is a call that records how to launch the kernel by its address."""

    def address(match: re.Match[str]) -> str:
        if match["last"] not in known:
            return match[0]
        is_cast = match[0].startswith("(")  # the other form has its own open parenthesis
        return f'emu::address({match["cast"] or ""}{match["name"]}, "{match["last"]}"{")" if is_cast else ""}'

    plain, out, position = bare(text, directives=True), [], 0
    for match in _ADDRESS.finditer(plain):
        out += [text[position : match.start()], address(match)]
        position = match.end()
    return "".join([*out, text[position:]])


def _renamed(text: str) -> str:
    """Text in which variables of host functions with the name of a built-in variable are renamed: dim3 gridDim(8)."""
    plain = bare(text, directives=True)
    out = text
    for first, last in reversed(functions(plain)):
        if _SIZES.search(plain, first, last) and "__global__" not in plain[first:last]:
            out = out[:first] + _BUILT_IN.sub(r"emu_\1", out[first:last]) + out[last:]
    return out


def _returning(text: str) -> str:
    """Text in which `return;` of main() is `return 0;`, as nvcc takes it with a warning."""
    plain = bare(text, directives=True)
    for first, last in reversed(functions(plain)):
        head, _, body = plain[first:last].partition("{")
        if re.search(r"\bint\s+main\s*\($", head.partition("(")[0] + "(") and not re.search(r"\]\s*[({]", body):
            for match in reversed(list(re.finditer(r"\breturn\s*;", plain[first:last]))):
                text = text[: first + match.end() - 1] + " 0" + text[first + match.end() - 1 :]
    return text


def _saturating(text: str) -> str:
    """CUDA source whose kernels and device functions behave as on a GPU: conversions of floats to integers saturate,
    and malloc, free and printf are the emulator's, which watches the memory and notes that a launch has printed.
    """
    plain = bare(text)
    for first, last in reversed(functions(plain)):
        head = plain[first:last].partition("{")[0]
        if "__global__" in head or "__device__" in head:
            inside = _OF_EMULATOR.sub(_of_emulator, text[first:last])
            text = saturating(text[:first] + inside + text[last:], first, first + len(inside))
    return text


def device_lines(text: str) -> list[range]:
    """Lines of each kernel and device function of a source."""
    plain = bare(text)
    return [
        range(plain.count("\n", 0, first) + 1, plain.count("\n", 0, last) + 2)
        for first, last in functions(plain)
        if re.search("__(?:global|device)__", plain[first:last].partition("{")[0])
    ]


def _of_emulator(match: re.Match[str]) -> str:
    return {"malloc": "emu_heap", "free": "emu_unheap", "printf": "emu_printf"}.get(match["name"] or "", match[0])


def _named(text: str) -> str:
    """Text in which allocating calls record the name of their pointer."""
    plain, out, position = bare(text), [], 0
    for match in _ALLOCATION.finditer(plain):
        last = closing(plain, match.end() - 1, "()")
        first = split(plain[match.end() : last - 1])[0]
        name = re.sub(r"^\(\s*void\s*\*\s*\*\s*\)|\s+", "", first).lstrip("&")
        length = len(plain[match.end() : last]) - len(plain[match.end() : last].lstrip())
        end = match.end() + length + len(first)
        if not re.fullmatch(r"[\w.\->\[\]]+", name) or plain[match.end() + length : end] != first or "\n" in first:
            continue
        if plain[end : end + 1] not in (",", ")", " "):
            continue
        start = match.end() + length
        pointer = re.sub(r"^\(\s*void\s*\*\s*\*\s*\)\s*", "", first)
        out += [text[position:start], f'(emu::name_next_pointer("{name}", {pointer}), {text[start:end]})']
        position = end
    return "".join([*out, text[position:]])


def _marked(text: str) -> str:
    """Text in which a call of the runtime that is a whole statement passes its result to emu_unread."""
    plain, out, position = bare(text), [], 0
    for match in _STATEMENT.finditer(plain):
        last = closing(plain, match.end() - 1, "()")
        if not re.match(r"\s*;", plain[last:]) or match.start("call") < position:
            continue
        out += [text[position : match.start("call")], "emu_unread(", text[match.start("call") : last]]
        out.append(f', "{match["call"]}")')
        position = last
    return "".join([*out, text[position:]])


def _launches(text: str, file: str, known: dict[str, list[DeclaredKernel]]) -> str:
    plain = bare(text, directives=True)
    out, position = [], 0
    for match in _OPEN.finditer(plain):
        if match.start() < position:
            raise KernelError(f"{_place(text, match.start(), file)}: a launch inside of a launch's arguments")
        start = _expression(plain, match.start())
        end = _configured(plain, match.end())
        called = re.compile(r"(?:\s|\\\n)*\(").match(plain, end) if end else None
        kernel = text[start : match.start()].strip()
        if end is None or called is None or not kernel:
            raise KernelError(f"{_place(text, match.start(), file)}: cannot read the launch at '<<<'")
        last = closing(plain, called.end() - 1, "()")
        config, arguments = text[match.end() : end - 3], text[called.end() : last - 1]
        if "..." in (config.strip(), arguments.strip()):
            place = _place(text, match.start(), file)
            raise KernelError(f"{place}: ... stands for what an exercise leaves out: write it")
        out += [text[position:start], _call(kernel, config, arguments, known)]
        position = last
    return "".join([*out, text[position:]])


def _call(kernel: str, config: str, arguments: str, known: dict[str, list[DeclaredKernel]]) -> str:
    plain, angle, given = kernel.partition("<")
    declared = known.get(plain.rpartition("::")[2].strip().strip("(*&) "), [])
    heads = {each.head for each in declared}
    values = split(given.rpartition(">")[0]) if angle else []
    count = len(values)
    is_deduced = len(heads) > 1 or any(
        each.has_namesake or each.has_pack or each.parameters > count or "=" in each.head for each in declared
    )
    if is_deduced and len(heads) == 1:
        arguments = _typed(arguments, *heads)
    bounds = launch_bounds.in_launch([each.bounds for each in declared], values)
    cluster = next((f".of_clusters({each.cluster})" for each in declared if each.cluster), "")
    name = " ".join(kernel.split()).replace("\\", "").replace('"', "'")
    config = _NULL.sub("nullptr", config)
    begin = "emu::deduced(" if is_deduced else f"emu::start({kernel}, "
    more = "" if not bare(arguments).strip(" \t\n\\") else f", {_NULL.sub('nullptr', arguments)}"
    called = f"[=](auto&... emu_a) {{ {kernel}(emu_a...); }}"
    return f'{begin}{called}, "{name}", {bounds}, emu::Config({config}){cluster}{more})'


def _typed(arguments: str, head: str) -> str:
    """Arguments in which a list in braces has the type of its parameter, from which a template deduces nothing."""
    position = 0
    for part, parameter in zip(split(arguments), split(head[1:-1]), strict=False):
        kind = re.fullmatch(r"(?P<type>[^=]*?[\s&>])[A-Za-z_]\w*\s*(?:=.*)?", parameter.strip())
        position = arguments.index(part, position)
        if part.startswith("{") and kind:
            named = f"std::remove_cvref_t<{kind['type'].strip()}>"
            arguments = arguments[:position] + named + arguments[position:]
            position += len(named)
        position += len(part)
    return arguments


def _declared(text: str, known: dict[str, list[DeclaredKernel]]) -> str:
    """Text in which calls for facts of a kernel state its name and its __launch_bounds__ to the runtime."""
    plain, out, position = bare(text), [], 0
    for match in _FACTS.finditer(plain):
        last = closing(plain, match.end() - 1, "()")
        for argument in split(text[match.end() : last - 1]):
            name = re.fullmatch(r"\s*&?\s*(?P<kernel>(?:\w+::)*(?P<last>\w+)\s*(?:<.*>)?)\s*", argument, re.DOTALL)
            whole = re.compile(rf"(?<![\w.>]){re.escape(argument)}(?!\w)").search(text, max(match.end(), position))
            if name and whole and name["last"] in known:
                arguments = name["kernel"].partition("<")[2].rpartition(">")[0]
                declared = [each.bounds for each in known[name["last"]]]
                bounds = launch_bounds.in_launch(declared, split(arguments) if arguments else ())
                out += [text[position : whole.start()], f'emu::declared({name["kernel"]}, "{name["last"]}", {bounds})']
                position = whole.end()
    return "".join([*out, text[position:]])


def _closed(plain: str, position: int) -> int:
    """Position after the angle bracket that closes the one at `position`."""
    depth = 0
    for at in range(position, len(plain)):
        depth += (plain[at] == "<") - (plain[at] == ">")
        if depth == 0:
            return at + 1
    return len(plain)


def _configured(plain: str, position: int) -> int | None:
    """Position after the >>> that closes a launch's configuration."""
    depth = 0
    for at in range(position, len(plain)):
        depth += (plain[at] in "([{") - (plain[at] in ")]}")
        if depth < 0 or plain[at] == ";":
            return None
        if depth == 0 and plain.startswith(">>>", at):
            return at + 3
    return None


def _expression(plain: str, end: int) -> int:
    """Position of the first character of the kernel's name before <<<, with namespaces and template arguments."""
    at = end
    while at and plain[at - 1] in " \t\n\\":
        at -= 1
    if at and plain[at - 1] == ")":
        depth = 0
        while at:
            at -= 1
            depth += (plain[at] == ")") - (plain[at] == "(")
            if depth == 0:
                return at
    if at and plain[at - 1] == ">":
        depth = inner = 0
        while at:
            at -= 1
            inner += (plain[at] == ")") - (plain[at] == "(")
            if inner > 0:  # a comparison in parentheses
                continue
            if plain[at] == ">" and plain[at - 1] != "-":
                depth += 1
            elif plain[at] == "<":
                depth -= 1
            if depth == 0:
                break
        while at and plain[at - 1] in " \t\n":
            at -= 1
    name = re.search(
        r"(?:(?:[A-Za-z_]\w*\s*(?:<[^<>;{}]*>)?\s*)?(?:::|\.|->)\s*)*[A-Za-z_]\w*(?:\s*\[[^\[\]]*\])*$", plain[:at]
    )
    return name.start() if name else end


def _place(text: str, position: int, file: str) -> str:
    return f"{file}:{text.count(chr(10), 0, position) + 1}"
