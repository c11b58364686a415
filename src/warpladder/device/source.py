"""Source of a kernel: one .cu file with the project's headers inserted.

This one text is compiled, cached and shown. It is the cache's key, so that a changed header cannot leave a stale entry;
neither NVRTC nor a C++ compiler needs a path to the headers.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from ..errors import KernelError
from ..files.whole import read_whole
from .lines import directive
from .nearby import nearby

#: Folder of the shared device code.
HEADERS = Path(__file__).resolve().parent / "include"

#: Architectures that a file is compiled for by default: one of each generation, from Turing to Blackwell.
ARCHS = ("sm_75", "sm_80", "sm_90", "sm_100")

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"[^\n]*$', re.MULTILINE)
#: Mark after an include that a file has in quotes and that is not next to it.
QUOTED = "  // in quotes"
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once[^\n]*$", re.MULTILINE)
_DECLARED = re.compile(r"^[ \t]*//[ \t]*(arch|instance|local memory|division):[ \t]*([^\n]*?)[ \t]*$", re.MULTILINE)
_ARCH_NAME = re.compile(r"sm_\d{2,3}[af]?")


@dataclass(frozen=True)
class KernelSource:
    """Self-contained .cu file.

    text : source in which each `#include "..."` is replaced by the header, once, between #line directives with the
    original file and line. Includes in angle brackets and of the CUDA toolkit stay for the compiler. headers : inserted
    headers, in order.
    """

    path: Path
    text: str
    headers: tuple[Path, ...] = ()

    @cached_property
    def digest(self) -> str:
        """Hash of the text, its name in caches: 64 hexadecimal digits."""
        return sha256(self.text.encode()).hexdigest()

    @cached_property
    def archs(self) -> tuple[str, ...]:
        """Architectures on the line `// arch: sm_90a`, else `ARCHS`. Raises `KernelError` for an unknown word."""
        found = [word for line in self._declared("arch") for word in line.replace(",", " ").split()]
        for word in found:
            if not _ARCH_NAME.fullmatch(word):
                raise KernelError(f"{self.path}: '// arch: {word}' names no architecture: write // arch: sm_90a")
        return tuple(dict.fromkeys(found)) or ARCHS

    @cached_property
    def instances(self) -> tuple[str, ...]:
        """Instances of template kernels to compile with the whole file: `// instance: tiled<16>; tiled<8>`."""
        names = (name.strip() for line in self._declared("instance") for name in line.split(";"))
        return tuple(dict.fromkeys(filter(None, names)))

    @cached_property
    def local_memory(self) -> dict[str, str]:
        """Kernels that may use local memory or spill registers, with the reason: `// local memory: kernel: reason`."""
        found = {}
        for line in self._declared("local memory"):
            kernel, _, reason = (part.strip() for part in line.partition(":"))
            if not kernel or not reason:
                raise KernelError(
                    f"{self.path}: '// local memory: {line}' lacks a kernel or a reason; "
                    "write // local memory: kernel: reason"
                )
            found[kernel] = reason
        return found

    @cached_property
    def fast_division(self) -> bool:
        """True with a line `// division: fast`: quotients and square roots within 2 ulp, without a branch for rare
        numbers. Raises `KernelError` for another word.
        """
        words = self._declared("division")
        if any(word != "fast" for word in words):
            raise KernelError(f"{self.path}: '// division: {words[0]}' is unknown: write // division: fast")
        return bool(words)

    def _declared(self, what: str) -> list[str]:
        return [line for kind, line in _DECLARED.findall(self.text) if kind == what]


def read(path: Path | str | KernelSource) -> KernelSource:
    """Source of a file with its includes, or `path` itself if it is a source. Raises `KernelError` if unreadable."""
    if isinstance(path, KernelSource):
        return path
    path = Path(os.path.realpath(path))  # `resolve` raises RuntimeError for a link to itself
    known = _read.get(path)
    if known is None or known[1] != _stamps(known[0]):
        headers: list[Path] = []
        text = _inlined(path, headers, "")
        source = KernelSource(path, f"{directive(1, path)}\n{text}", tuple(headers))
        known = _read[path] = source, _stamps(source)
    return known[0]


def assembled(path: Path, text: str) -> KernelSource:
    """Source of generated text. `path` need not exist: it names the source, and headers are searched next to it."""
    headers: list[Path] = []
    return KernelSource(path, f"{directive(1, path)}\n{_expanded(path, text, headers)}", tuple(headers))


#: Files that were read, each with the state in which it and its headers were.
_read: dict[Path, tuple[KernelSource, tuple[tuple[int, int] | None, ...]]] = {}


def _stamps(source: KernelSource) -> tuple[tuple[int, int] | None, ...]:
    """Time and size of each of a source's files, which change with an edit; None for a missing file."""
    return tuple(map(_stamp, (source.path, *source.headers)))


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size


def _inlined(path: Path, seen: list[Path], asked: str) -> str:
    try:
        data = read_whole(path)
    except OSError as error:
        raise KernelError(f"{path}{asked}: {error.strerror or error}") from None
    try:
        text = data.decode("utf-8-sig")  # with or without a byte order mark
    except UnicodeDecodeError:
        if b"\0" in data:
            raise KernelError(f"{path}{asked} is not a text file in UTF-8: save it as one") from None
        text = data.decode("latin-1")  # an old comment, which nvcc takes too
    return _expanded(path, text.replace("\r\n", "\n").replace("\r", "\n"), seen)


def _expanded(path: Path, text: str, seen: list[Path]) -> str:
    """Text of a file with its headers inserted; new headers are appended to `seen`."""

    def replace(match: re.Match[str]) -> str:
        line = text.count("\n", 0, match.start()) + 1
        header = _found(match[1], path)
        if header is None:
            return f"#include <{match[1]}>{QUOTED}"
        back = directive(line + 1, path)
        if header in seen:
            return back
        seen.append(header)
        inner = _inlined(header, seen, f", included by {path.name}:{line}")
        return f"{directive(1, header)}\n{inner}\n{back}"

    return _INCLUDE.sub(replace, _ONCE.sub("", text))


def _found(name: str, path: Path) -> Path | None:
    """Header in quotes, or None: it may be one of the compiler's, as many courses write them."""
    name = name.replace("\\", "/")  # as Windows takes it
    for folder in (path.parent, HEADERS):
        if (folder / name).is_file():
            return (folder / name).resolve()
    return nearby(name, path)
