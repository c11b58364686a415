"""Reasons why a program does not compile: the compiler's messages as one line, with what is not emulated by name."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from ..device.emulator import constant_sizes
from ..device.emulator.messages import refused
from ..device.emulator.toolchain import compiler
from ..errors import KernelError

#: Folder of the package, whose own headers are no place in a program.
_PACKAGE = Path(__file__).resolve().parent.parent


class MissingHeader(KernelError):
    """Error: a file includes a header that no searched folder has."""


#: Pattern of headers of NVIDIA's libraries and of device code that the emulator lacks.
_NOT_HERE = re.compile(
    r"cublasXt|cudnn|cufftw|curand_mtgp|cusolver|nvrtc|nvjpeg|npp|cuda/|cute/|cutlass/|"
    r"cuda_(?!gl_)\w*interop|cuda_fp8|texture_|surface_|nvml|nccl|optix|cuda\w+\.h"
)

#: Pattern of types and functions of the CUDA driver API in a message of the compiler.
_DRIVER = re.compile(
    r"['‘](?P<name>CU[a-z]\w+|CUDA_(?![CR]_\d)[A-Z]\w+|CU_[A-Z]\w+|"
    r"cu(?:Init|Ctx|Device|Driver|Module|Library|Kernel|Mem|Launch|"
    r"Stream|Event|Func|Link|Graph|Array|TexRef|TexObject|Pointer|Occupancy|Get|Import|Multicast)\w*)['’]"
)


def _driver_name(messages: str, place: str) -> str:
    """Name of the CUDA driver API in a compiler error at place FILE:LINE, or ""."""
    lines = messages.splitlines()
    for line, shown in zip(lines, [*lines[1:], ""], strict=True):
        if not line.startswith(f"{place}:") or "error:" not in line:
            continue
        match = _DRIVER.search(line)
        if match and re.search("declared|name a type|conflicts", line):
            return match["name"]
        parameter = re.search(r"\bCU(?!DA|RT)[a-z]\w+", shown)  # of a constructor: g++ does not name its type
        if parameter and re.search(r"error: expected '\)' before", line):
            return parameter[0]
    return ""


#: Names of OpenGL and of CUDA's runtime and libraries in a message of the compiler.
_OPENGL = re.compile(r"['‘](?P<name>(?:gl|glu|glut|glX|glew)[A-Z]\w*|PFNGL\w+|GLU?T?_\w+|GL[a-z]+)['’]")
_CUDA = re.compile(
    r"['‘](?P<name>(?:cuda|curand|cublas|cufft|cusparse)[A-Z]\w*|(?:CURAND|CUBLAS|CUFFT|CUSPARSE)_\w+)['’]"
)


#: A launch with too few or too many arguments in a message of the compiler.
_ARGUMENTS = re.compile(
    r"no matching function for call to ['‘](?:emu::)?start\(void \(&\)\((?P<takes>.*?)\), "
    r".*emu::Config&?(?P<given>.*)\)['’]"
)


#: What stands for a hole of an exercise in a message of the compiler: FIXME, or <<<...>>>(...).
_HOLE = re.compile(r"['‘](?P<name>FIXME|TODO|FILL_\w+)['’] was not|expected [\w-]+ before ['‘]\.\.\.['’] token")


def _unknown(why: str) -> str:
    """Compiler's reason, in plainer words where it misleads: for names of OpenGL or CUDA, holes and launches."""
    if few := _ARGUMENTS.match(why):
        return f"the launch gives ({few['given'].lstrip(', ')}) to a kernel of ({few['takes']})"
    if hole := _HOLE.match(why):
        return f"{hole['name'] or '...'} stands for what an exercise leaves out: write it"
    if not re.search("declared|name a type", why):
        return why
    if re.match(r"['‘](?:texture|surface)['’] ", why):
        return "texture references are gone since CUDA 12, and not emulated: texture objects are"
    if opengl := _OPENGL.search(why):
        return f"{opengl['name']} is of OpenGL, which cannot be emulated"
    if cuda := _CUDA.match(why):
        hint = re.search(r"; did you mean .*", why)
        return f"{cuda['name']} is no name of CUDA that is emulated here{hint[0] if hint else ''}"
    return why


def _called_from(messages: str) -> str:
    """Place in the program, FILE:LINE, that led to an error in the emulator's own headers, or ""."""
    for match in re.finditer(r"^(?P<place>[^:\n]+:\d+):\d+:\s+required from here", messages, re.MULTILINE):
        if not Path(match["place"].rpartition(":")[0]).is_relative_to(_PACKAGE):
            return match["place"]
    return ""


def _expanded(messages: str, line: str, place: str) -> tuple[str, str]:
    """Place in which a macro is used whose text an error in `line` of the messages is about, and what to say of it;
    `place` itself without one.
    """
    said = messages[messages.index(line) + len(line) :]
    said = re.split(r"^[^\n]*(?:error|warning): ", said, maxsplit=1, flags=re.MULTILINE)[0]
    used = re.findall(r"^([^:\n]+:\d+):\d+: note: in expansion of macro ['‘](\w+)['’]", said, re.MULTILINE)
    if not used or used[-1][0] == place or Path(used[-1][0].rpartition(":")[0]).is_relative_to(_PACKAGE):
        return place, ""
    return used[-1][0], f"; {used[-1][1]} is a macro"


def first_error(messages: str, path: Path) -> str:
    """First error of the compiler as one line: file:line: fault."""
    if constants := constant_sizes.reason(messages):
        return constants
    for line in messages.splitlines():
        match = re.match(r"(?P<file>[^:\n]+):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<why>.*)", line)
        if match and not re.match("variable or field .* declared void", match["why"]):  # the next one names the type
            header = re.match(r"(?P<name>\S+): No such file", match["why"])
            if header and (_NOT_HERE.match(header["name"])):
                return f"{match['file']}:{match['line']}: <{header['name']}> cannot be emulated"
            if header:
                return f"{match['file']}:{match['line']}: there is no header {header['name']}; -I names its folder"
            place = f"{match['file']}:{match['line']}"
            if Path(match["file"]).is_relative_to(_PACKAGE):
                place = _called_from(messages) or place
            if why := refused(match["why"], messages):
                return f"{place}: {why}"
            driver = _driver_name(messages, place)
            if driver:
                return f"{place}: {driver} is of the CUDA driver API, which cannot be emulated; the runtime API can be"
            at, of_macro = _expanded(messages, line, place)
            return f"{at}: {_unknown(match['why'])}{of_macro}"
    twice = re.search(r"multiple definition of [`'‘](?P<name>[^'’]+)['’]; (?P<first>[^\n]*): first defined", messages)
    if twice:
        places = re.findall(r"[^\s:;(]+\.(?:cu|cuh|cpp|cc|cxx|c|h|hpp):\d+", messages[: twice.end()])
        where = f", at {places[-2]} and {places[-1]}" if len(places) > 1 else ""
        return f"{path} defines {twice['name']} twice{where}: name the files of one program only"
    missing = re.search(r"undefined reference to [`'‘](?P<name>[^'’]+)['’]", messages)
    if missing and missing["name"] == "main":
        return (
            "no file of the program has a main(): name the file with it too; kernels without a program are checked by "
            "warpladder check FILE.cu"
        )
    if missing:
        return f"{path} calls {missing['name']}, which is in none of the files: name the file with it too"
    lines = [line for line in messages.splitlines() if line.strip()]
    return f"{path} does not compile: {lines[0] if lines else shlex.join(compiler().command) + ' gives no reason'}"
