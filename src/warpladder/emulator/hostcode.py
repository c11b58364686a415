"""What of a .cu file runs on the host, taken out: a checker of kernels needs no main, no cudaMalloc and no <<< >>>.

At the top level and in namespaces, every function goes that is neither __global__ nor __device__ nor constexpr, and with
it every variable and struct that uses the CUDA runtime. Line breaks stay, so that every line keeps its number.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from ..device import Source
from ..device import source as sources
from ..errors import KernelError

#: What the emulator has of the toolkit's headers.
EMULATED = Path(__file__).resolve().parent / "headers" / "cuda"
#: Headers of the host's side, or of what needs no header here.
HOST_HEADERS = re.compile(
    r"device_functions|cuda_profiler_api|cublas\w*|cudnn\w*|cufft\w*|curand|cusparse\w*|cusolver\w*|nvtx?\w*|nvToolsExt|"
    r"helper_\w+|driver_types|vector_functions|sm_\w+|thrust/.*|opencv\w*(/.*)?|(torch|ATen|c10|pybind11)/.*"
)
#: Headers of device code that has no counterpart on a CPU here.
DEVICE_HEADERS = re.compile(
    r"cooperative_groups(/.*)?|curand_kernel|mma|cuda/.*|cub/.*|cute/.*|cutlass/.*|nv/.*|cuda_pipeline\w*|cuda_fp8|texture\w*|surface\w*"
)

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"](?P<name>[^>"\n]+)[>"][^\n]*$', re.MULTILINE)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)(?:\([^)]*\))?(?P<body>(?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE)
_ASIDE = re.compile(
    r"//[^\n]*|/\*.*?\*/"  # comments
    r"|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*"  # directives, with their further lines
    r'|R"(?P<raw>[^()\\\s]*)\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"|(?<![\w])\'(?:\\.|[^\'\\\n])+\'',  # strings and letters
    re.DOTALL | re.MULTILINE,
)
_DIRECTIVE = re.compile(r"(^[ \t]*#(?:[^\n]*\\\n)*[^\n]*)|[^\n]", re.MULTILINE)
_RUNTIME = re.compile(r"<<<|\bcuda[A-Z]\w*|\bcu(?:blas|dnn|fft|rand|sparse|solver)\w*|\bthrust\s*::")
_DEVICE = re.compile(r"__global__|__device__|__constant__|__shared__|\bconstexpr\b")


def device_code(path: Path) -> Source:
    """The source in a file without what runs on the host; `KernelError` as `device.source.read` and `without` raise it."""
    source = sources.read(path)
    return replace(source, text=without(source.text, path.name))


def host_code(path: Path) -> str:
    """What `device_code` leaves out."""
    both = zip(sources.read(path).text.splitlines(), device_code(path).text.splitlines(), strict=True)
    return "\n".join(line for line, left in both if line != left)


def without(text: str, file: str) -> str:
    """The device code of a source.

    Parameters
    ----------
    text : str
        Of the .cu file, its own headers already in it.
    file : str
        Its name, for messages.

    Raises
    ------
    KernelError
        Where a header is included that no emulator of ours can stand in for.
    """
    text = _INCLUDE.sub(lambda match: _header(match, text, file), text)
    bare = _ASIDE.sub(lambda match: _blank(match[0]), text)
    marks = [match["name"] for match in _MACRO.finditer(text) if _DEVICE.search(match["body"])]
    device = re.compile("|".join([_DEVICE.pattern, *(rf"\b{name}\b" for name in marks)]))
    out = list(text)
    for first, last in _host_parts(bare, device):
        out[first:last] = _DIRECTIVE.sub(lambda match: match[1] or " ", text[first:last])
    return "".join(out)


def _header(match: re.Match[str], text: str, file: str) -> str:
    name = re.sub(r"\.(h|hpp|cuh|inl)$", "", match["name"])
    if DEVICE_HEADERS.fullmatch(name):
        raise KernelError(
            f"{_place(text, match.start(), file)}: <{match['name']}> cannot be emulated; put the kernels that do without it into a file of their own"
        )
    return "" if HOST_HEADERS.fullmatch(name) and not (EMULATED / match["name"]).is_file() else match[0]


def _place(text: str, position: int, file: str) -> str:
    """file:line, by the last #line directive before the position."""
    line, start = 1, 0
    for marked in re.finditer(r'^#line (\d+) "([^"\n]+)"\n', text[:position], re.MULTILINE):
        line, file, start = int(marked[1]), Path(marked[2]).name, marked.end()
    return f"{file}:{line + text.count(chr(10), start, position)}"


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _host_parts(bare: str, device: re.Pattern[str]) -> list[tuple[int, int]]:
    """Where the declarations begin and end that are the host's. `bare` is the text without comments, strings and directives."""
    found, start, position = [], 0, 0
    while position < len(bare):
        letter = bare[position]
        if letter == "{":
            head = bare[start:position]
            if re.search(r"\bnamespace\b[\w\s:]*$|\bextern\s*$", head):
                start = position = position + 1
                continue
            position = _closing(bare, position)
            if not _is_function(head):  # struct, enum, initialiser: the declaration goes on until its semicolon
                continue
            while member := re.match(r"\s*(?:,[^{};]*)?\{", bare[position:]):  # what stood in the braces was a constructor's member
                position = _closing(bare, position + member.end() - 1)
            if not device.search(head):
                found.append((start, position))
            start = position
        elif letter == ";":
            position += 1
            declared = bare[start:position]
            if _RUNTIME.search(declared) and not device.search(declared):
                found.append((start, position))
            start = position
        elif letter == "}":  # the end of a namespace
            start = position = position + 1
        else:
            position += 1
    return [(first + len(bare[first:last]) - len(bare[first:last].lstrip()), last) for first, last in found]


def _is_function(head: str) -> bool:
    """Whether what stands before a brace is a function's head: it has parameters, and is no struct's, enum's or initialiser's."""
    without_templates = re.sub(r"\btemplate\s*<[^;{}]*?>(?=\s*[\w:~_])", " ", head)
    return "(" in head and not re.search(
        r"\b(?:struct|class|union|enum)\s+(?:\w+\s*\([^()]*\)\s*)?\w*\s*(?::[^()]*)?$|=\s*$", without_templates
    )


def _closing(bare: str, position: int) -> int:
    """Just behind the brace that closes the one at `position`, or the end of the text."""
    depth = 0
    for brace in re.finditer(r"[{}]", bare[position:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return position + brace.end()
    return len(bare)
