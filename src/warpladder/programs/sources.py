"""Files of a program: the named ones, and their own headers, each rewritten into a folder of the build."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from ..device.emulator.rewrite import bare
from ..device.nearby import nearby
from ..errors import ConfigError, KernelError
from ..files.whole import NotTheFile, read_whole

_INCLUDE = re.compile(r'^(?P<before>[ \t]*#[ \t]*include[ \t]*)(?P<quote>[<"])(?P<name>[^>"\n]+)[>"]', re.MULTILINE)
#: Suffixes of source files.
SOURCES = (".cu", ".cpp", ".cc", ".cxx", ".c")
#: Folders of headers with the toolkit's names: the emulator's, and those only for programs.
EMULATED = Path(__file__).resolve().parents[1] / "device" / "emulator" / "headers" / "cuda"
OWN = Path(__file__).resolve().parent / "headers" / "cuda"
#: Pattern of the toolkit's headers that the emulator has built in, or that a program does not need.
BUILT_IN = re.compile(
    r"(cuda|cuda_runtime|cuda_runtime_api|device_launch_parameters|device_functions|driver_types|vector_types|"
    r"vector_functions|builtin_types|host_defines|cuda_profiler_api|cuda_device_runtime_api|sm_\w+|math_functions|"
    r"common_functions|device_types|driver_functions|crt/\w+|device_atomic_functions|library_types|surface_types|"
    r"texture_types)"
    r"\.(h|hpp)"
)
#: Pattern of headers that define CUDA's types.
_OF_CUDA = re.compile(
    rf"{BUILT_IN.pattern}|cu[a-z]\w*\.h|cuda_\w+\.hp*|cooperative_groups|cuda/|thrust/|cub/|mma\.h|math_constants\.h|"
    r"nvtx3/|nvToolsExt|GL/|GLUT/|helper_(?:cuda|functions|timer|string)\.h"
)
#: Single header for all headers of a library, by the prefix of their names.
WHOLE = {
    "cuda/std/": "cuda/std/all", "thrust/": "thrust/all.h", "cub/": "cub/cub.cuh",
    "GL/": "GL/gl.h", "GLUT/": "GL/gl.h", "OpenGL/": "GL/gl.h",
}  # fmt: skip
#: Pattern of headers taken from the emulator even if a folder of the program has them.
_ALWAYS_HERE = re.compile(r"(?:GL|GLUT|OpenGL)/.*")


@dataclass(frozen=True)
class ProgramFile:
    """File of a program. is_named : True if the user named it, False for a header."""

    path: Path
    text: str
    is_named: bool


@dataclass
class ProgramFiles:
    """Files of a program by path: first the named ones, then the headers that they include.

    reached : file of each include, None for the compiler's. near : of these, files found by a search of the project.
    absent : headers that no searched folder has, which are left out.
    """

    folders: tuple[Path, ...]
    files: dict[Path, ProgramFile] = field(default_factory=dict)
    reached: dict[tuple[Path, str], Path | None] = field(default_factory=dict)
    near: dict[tuple[Path, str], Path] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()

    def add(self, path: Path, is_named: bool = True) -> None:
        if path in self.files:
            return
        text = read(path)
        self.files[path] = ProgramFile(path, text, is_named)
        plain = bare(text, directives=True)
        for match in _INCLUDE.finditer(text):
            if plain[match.start("before") : match.end("before")] == match["before"]:  # in no comment
                found = self._found(path, match["name"], match["quote"] == '"')
                self.reached[path, match["name"]] = found
                if found:
                    self.add(found, False)

    def _found(self, path: Path, name: str, is_quoted: bool) -> Path | None:
        """Path of the program's own file for an include; None for a header of the compiler or of CUDA."""
        name = name.replace("\\", "/")  # as Windows takes it
        if BUILT_IN.fullmatch(name) or _ALWAYS_HERE.fullmatch(name):
            return None
        for folder in (*((path.parent,) if is_quoted else ()), *self.folders):
            file = folder / name
            if file.is_file():
                return file.resolve()
        if name.startswith(tuple(WHOLE)) or any((folder / name).is_file() for folder in (EMULATED, OWN)):
            return None
        if near := nearby(name, path):
            self.near[path, name] = near
        return near

    @property
    def digest(self) -> str:
        """Digest of the content of all files."""
        whole = sha256()
        for path, source in self.files.items():
            whole.update(f"{path}\n{len(source.text)}\n{source.text}".encode())
        return whole.hexdigest()[:20]

    def uses_cuda(self, path: Path) -> bool:
        """True if nvcc compiles a file, or if it includes a header of CUDA, directly or through its own headers.

        Other files are for a host compiler, and may define names of CUDA.
        """
        if path.suffix in (".cu", ".cuh"):
            return True
        seen, left = {path}, [path]
        while left:
            here = left.pop()
            for (file, name), found in self.reached.items():
                if file == here and found is None and _OF_CUDA.match(name):
                    return True
                if file == here and found and found not in seen:
                    seen.add(found)
                    left.append(found)
        return False

    def redirected(self, source: ProgramFile, names: dict[Path, str]) -> str:
        """Text in which includes of own headers name the rewritten files, and includes of built-in headers are
        removed.
        """

        def include(match: re.Match[str]) -> str:
            found = self.reached.get((source.path, match["name"]))
            if found:
                return f'{match["before"]}"{names[found]}"'
            name = match["name"].replace("\\", "/").strip()
            if BUILT_IN.fullmatch(name):
                return ""
            name = whole_header(name)
            if name in self.absent:
                return f"#warning there is no header {name}"
            return f"{match['before']}<{name}>"  # quoted headers of the system too

        return _INCLUDE.sub(include, source.text)


#: Pattern of a texture reference, a variable; a program without one may name its own class so.
_REFERENCE = re.compile(r"\btexture\s*<[^;{}()]*>\s*\w+\s*[;,=({]")
_OWN_TEXTURE = re.compile(r"\b(?:struct|class|using)\s+texture\b")


def references(sources: ProgramFiles) -> tuple[Path, int] | None:
    """File and line of a program's first texture reference; None without one."""
    plains = {path: bare(source.text) for path, source in sources.files.items()}
    if any(_OWN_TEXTURE.search(plain) for plain in plains.values()):
        return None
    found = ((path, plain, _REFERENCE.search(plain)) for path, plain in plains.items())
    return next(((path, plain.count("\n", 0, match.start()) + 1) for path, plain, match in found if match), None)


def whole_header(name: str) -> str:
    """Header that has a library's header here, as thrust/all.h."""
    return next((whole for start, whole in WHOLE.items() if name.startswith(start)), name)


def read(path: Path) -> str:
    """Text of a file in UTF-8, or else in Latin-1, as nvcc accepts both."""
    try:
        content = read_whole(path)
    except IsADirectoryError:
        raise ConfigError(f"{path} is a folder; name the .cu files of the program") from None
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}") from None
    except NotTheFile as error:
        raise ConfigError(f"{path} {error.strerror}") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    if b"\0" in content:
        raise KernelError(f"{path} is no text")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def collected(files: tuple[Path, ...], folders: tuple[Path, ...]) -> ProgramFiles:
    """Files of a program with their own headers. Raises `ConfigError` for a file that cannot be read."""
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(f"-I {folder}: there is no such folder")
    sources = ProgramFiles(tuple(folder.resolve() for folder in folders))
    for file in files:
        if not file.is_file():
            read(file)
        sources.add(file.resolve())
    return sources
