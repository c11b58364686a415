"""Reader of compile lines in Makefiles and CMake: files, folders, macros and libraries of a call of nvcc or g++."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConfigError
from .sources import SOURCES

#: Options of nvcc and g++ that take the next word as value.
_WITH_VALUE = frozenset((
    "-o", "-arch", "-code", "-gencode", "--generate-code", "--gpu-architecture", "--gpu-code", "-ccbin",
    "--compiler-bindir", "-Xcompiler", "--compiler-options", "-Xptxas", "-Xlinker", "-x", "-std", "--std", "-L",
    "--library-path", "-MF", "-MT", "-MQ", "-maxrregcount", "--maxrregcount", "-Xcudafe", "-diag-suppress", "-t",
    "--threads", "-m", "--machine", "-odir", "--output-directory",
))  # fmt: skip
#: Kind of each option whose value is used, by all its names.
_NAMES = {
    "-I": "folder", "--include-path": "folder", "-isystem": "folder", "--system-include": "folder",
    "-D": "define", "--define-macro": "define", "-l": "library", "--library": "library",
}  # fmt: skip


@dataclass(frozen=True)
class CompileLine:
    """Content of a compile line, each part in the line's order."""

    files: tuple[str, ...]
    folders: tuple[Path, ...]
    defines: tuple[str, ...]
    libraries: tuple[str, ...]


def read(line: str) -> CompileLine:
    """Content of a compile line. Raises `ConfigError` if it cannot be split into words or has no source file.

    Options without effect on an emulation are left out, as -O3, -arch=sm_80 and -o. Several calls, joined by && or ;,
    are read as one program.
    """
    try:
        words = shlex.split(line.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise ConfigError(f"--command: {error}: {line}") from None
    found: dict[str, list[str]] = {"file": [], "folder": [], "define": [], "library": []}
    rest = iter(words)
    for word in rest:
        if word.startswith("--library-path="):
            continue
        name = next((each for each in sorted(_NAMES, key=len, reverse=True) if word.startswith(each)), None)
        if word in _WITH_VALUE:
            next(rest, "")
        elif name is not None and not (name == "-l" and word.startswith("-lineinfo")):
            value = word[len(name) :].removeprefix("=") or next(rest, "")
            found[_NAMES[name]] += value.split(",") if name in ("--library", "-l") else [value]
        elif word.endswith(SOURCES) and not word.startswith("-"):
            found["file"].append(word)
    if any("openmp" in word for word in words):
        found["library"].append("gomp")
    if not found["file"]:
        raise ConfigError(f"--command names no {', '.join(SOURCES[:2])} file: {line}")
    known = ("cudart", "cuda", "cudart_static", "cudadevrt", "curand", "cublas", "cufft", "nvToolsExt", "rt", "dl")
    return CompileLine(
        tuple(dict.fromkeys(found["file"])), tuple(map(Path, dict.fromkeys(found["folder"]))),
        tuple(found["define"]), tuple(each for each in dict.fromkeys(found["library"]) if each not in known),
    )  # fmt: skip
