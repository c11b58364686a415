"""Device code of a .cu file: the source without its host code, so that no main, cudaMalloc or <<< >>> is needed.

At the top level and in namespaces three kinds of declarations are removed: functions that are neither __global__ nor
__device__ nor constexpr; variables that the device cannot access, or that these functions create; structs that use the
CUDA runtime. Missing headers are removed too. Line breaks stay, so that line numbers do not change.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from ...errors import KernelError
from .. import KernelSource
from .. import source as sources
from ..lines import directives
from .rewrite import bare, closing
from .toolchain import compiler, why_not

#: The emulator's versions of the toolkit's headers.
EMULATED = Path(__file__).resolve().parent / "headers" / "cuda"
#: Headers of host code, or of things that need no header here.
HOST_HEADERS = re.compile(
    r"device_functions|cuda_profiler_api|cublas\w*|cudnn\w*|cufft\w*|curand|cusparse\w*|cusolver\w*|nvtx?\w*|"
    r"nvToolsExt|helper_\w+|driver_types|vector_functions|sm_\w+|thrust/.*|opencv\w*(/.*)?|(torch|ATen|c10|pybind11)/.*"
)
#: Headers of device code that has no counterpart on a CPU here.
DEVICE_HEADERS = re.compile(
    r"cuda/.*|cub/.*|cute/.*|cutlass/.*|nv/.*|cuda_fp8|"
    r"texture\w*|surface\w*"
)

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"](?P<name>[^>"\n]+)[>"][^\n]*$', re.MULTILINE)
#: Declarations that name namespaces of headers that cannot be emulated.
_THEIRS = re.compile(r"\b(?:using\s+namespace|namespace\s+\w+\s*=)\s*(?:cub|nvcuda|cuda|cute|cutlass)\b[\w:\s]*;")
_MACRO = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)(?:\([^)]*\))?(?P<body>(?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE
)
_DIRECTIVE = re.compile(r"(^[ \t]*#(?:[^\n]*\\\n)*[^\n]*)|[^\n]", re.MULTILINE)
_RUNTIME = re.compile(r"<<<|\bcuda[A-Z]\w*|\bnvtx[A-Z]\w*|\bcu(?:blas|dnn|fft|rand|sparse|solver)\w*|\bthrust\s*::")
_DEVICE = re.compile(r"__global__|__device__|__constant__|__managed__|__shared__|\bconstexpr\b")
#: Declarations that make no variable.
_TYPE = re.compile(r"\s*(?:;|(?:namespace|typedef|using|struct|class|union|enum|template|static_assert)\b)")


def device_code(path: Path) -> KernelSource:
    """Source of a file without its host code. Raises `KernelError` as `device.source.read` and `without`."""
    source = sources.read(path)
    return replace(source, text=without(source.text, path.name))


def host_code(path: Path) -> str:
    """Lines of host code, which `device_code` removes."""
    both = zip(sources.read(path).text.splitlines(), device_code(path).text.splitlines(), strict=True)
    return "\n".join(line for line, left in both if line != left)


def without(text: str, file: str) -> str:
    """Text of a .cu file, with its own headers in it, without its host code.

    Raises KernelError: the text has no kernels, and includes a header that cannot be emulated. A kernel that needs such
    a header does not compile.
    """
    missing = bodiless(text, file)
    if missing and "__global__" not in text:
        raise KernelError(f"{missing[0]}; put the kernels that do without it into a file of their own")
    if "__global__" not in text and (lost := absent(text, file)):
        raise KernelError(lost[0])
    there = _there(frozenset(match["name"] for match in _INCLUDE.finditer(text)))
    text = _INCLUDE.sub(lambda match: _header(match, there), text)
    if missing:
        text = _THEIRS.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    plain = bare(text)
    marks = [match["name"] for match in _MACRO.finditer(text) if _DEVICE.search(match["body"])]
    device = re.compile("|".join([_DEVICE.pattern, *(rf"\b{name}\b" for name in marks)]))
    out = list(text)
    for first, last in _host_parts(plain, device):
        out[first:last] = _DIRECTIVE.sub(lambda match: match[1] or " ", text[first:last])
    return "".join(out)


def bodiless(text: str, file: str) -> list[str]:
    """Messages with line, one for each header of a text that cannot be emulated."""
    found = [match for match in _INCLUDE.finditer(text) if _is_missing(match["name"])]
    return [f"{_place(text, match.start(), file)}: <{match['name']}> cannot be emulated" for match in found]


def absent(text: str, file: str, is_quoted: bool = True) -> list[str]:
    """Messages with a line, one for each header of a text that no searched folder has: headers in quotes, or those in
    angle brackets.
    """
    found = [match for match in _INCLUDE.finditer(text) if match[0].endswith(sources.QUOTED) == is_quoted]
    there = _there(frozenset(match["name"] for match in found))
    return [
        f"{_place(text, match.start(), file)}: there is no header "
        + (f'"{match["name"]}" next to the file' if is_quoted else f"<{match['name']}>")
        for match in found
        if match["name"] not in there
        and not HOST_HEADERS.fullmatch(_plain(match["name"]))
        and not _is_missing(match["name"])
    ]


def left_out(path: Path) -> list[str]:
    """Messages with a line, one for each header of a file that no searched folder has or that cannot be emulated; its
    kernels do without them.
    """
    text = sources.read(path).text
    return [*absent(text, path.name), *absent(text, path.name, False), *bodiless(text, path.name)]


def _is_missing(header: str) -> bool:
    return DEVICE_HEADERS.fullmatch(_plain(header)) is not None and not (EMULATED / header).is_file()


def _plain(header: str) -> str:
    return re.sub(r"\.(h|hpp|cuh|inl)$", "", header)


def _header(match: re.Match[str], there: frozenset[str]) -> str:
    name = _plain(match["name"])
    host = HOST_HEADERS.fullmatch(name) and not (EMULATED / match["name"]).is_file()
    return "" if host or _is_missing(match["name"]) or match["name"] not in there else match[0]


@cache
def _there(headers: frozenset[str]) -> frozenset[str]:
    """Headers of a list that the machine's compiler finds; the whole list without a compiler."""
    if not headers or why_not() is not None:
        return headers
    tests = "".join(f"#if __has_include(<{header}>)\n@{header}\n#endif\n" for header in sorted(headers))
    command = [*compiler().command, f"-I{EMULATED}", "-E", "-P", "-x", "c++", "-"]
    output = subprocess.run(command, input=tests, capture_output=True, text=True).stdout
    return frozenset(line[1:].strip() for line in output.splitlines() if line.startswith("@"))


def _place(text: str, position: int, file: str) -> str:
    """Location "file:line" of a position, by the last #line directive before it."""
    line, start = 1, 0
    for number, name, end in directives(text, position):
        line, file, start = number, Path(name).name, end + 1
    return f"{file}:{line + text.count(chr(10), start, position)}"


def _host_parts(plain: str, device: re.Pattern[str]) -> list[tuple[int, int]]:
    """Begin and end of each host declaration; `plain` is the text without comments, strings and directives."""
    found = list(declarations(plain))
    heads = [head for _, _, head in found if head and not device.search(head)]
    names = {match[1] for head in heads if (match := re.search(r"(\w+)\s*\(", head))}
    calls = re.compile(rf"\b(?:{'|'.join(sorted(names)) or '$^'})\s*\(")

    def host(declared: str, head: str) -> bool:
        if device.search(head or declared):
            return False
        if head or _RUNTIME.search(declared):
            return True
        return not _TYPE.match(declared) and (not re.search(r"\bconst\b", declared) or bool(calls.search(declared)))

    return [(first, last) for first, last, head in found if host(plain[first:last], head)]


def declarations(plain: str) -> Iterator[tuple[int, int, str]]:
    """Begin, end and head of each declaration in a namespace or at the top; the head of a function ends at its body."""
    position = 0
    while True:
        begin, mark = re.compile(r"\S").search(plain, position), re.compile(r"[{};]").search(plain, position)
        if begin is None or mark is None:
            return
        first = begin.start()
        position, head = mark.end(), plain[first : mark.start()]
        if mark[0] == "}" or (mark[0] == "{" and re.search(r"\bnamespace\b[\w\s:]*$|\bextern\s*$", head)):
            continue  # a namespace ends or begins
        if mark[0] == "{" and _is_function(head):
            position = closing(plain, mark.start())
            # braces of a constructor's members come before its body
            while member := re.compile(r"\s*(?:,[^{};]*)?\{").match(plain, position):
                position = closing(plain, member.end() - 1)
            yield first, position, head
            continue
        while mark is not None and mark[0] == "{":  # struct, enum, initialiser: on until the semicolon
            position = closing(plain, mark.start())
            mark = re.compile(r"[{};]").search(plain, position)
        position = mark.end() if mark is not None and mark[0] == ";" else position
        yield first, position, ""


def _is_function(head: str) -> bool:
    """True if the text before a brace is the head of a function: it has parameters, and is no struct, enum or value."""
    without_templates = re.sub(r"\btemplate\s*<[^;{}]*?>(?=\s*[\w:~_])", " ", head)
    return "(" in head and not re.search(
        r"\b(?:struct|class|union|enum)\s+(?:\w+\s*\([^()]*\)\s*)?\w*\s*(?::[^()]*)?$|=\s*$", without_templates
    )
