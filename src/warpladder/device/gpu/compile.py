"""Compilation of a source by NVRTC to machine code for one architecture, without a GPU or a driver."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, replace
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

from ...errors import DeviceError, KernelError
from .. import KernelSource, Resources
from .host_headers import for_nvrtc
from .ptxas import resources

#: Options that change the machine code. Arithmetic has IEEE rounding: no fast-math. Line numbers are for
#: compute-sanitizer. NVRTC's own cache, which it has with a driver, is off: it leaves out the assembler's report.
OPTIONS = {"std": "c++17", "lineinfo": True, "ptxas_options": ["-v"], "no_cache": True}

_ERROR = re.compile(r"^(?P<file>[^\n(]+)\((?P<line>\d+)\): (?:catastrophic )?error: (?P<what>[^\n]+)$", re.MULTILINE)
_ASSEMBLER = re.compile(r"^ptxas (?:error|fatal)\s*: (?P<what>[^\n]+)$", re.MULTILINE)
_MISSING = re.compile(r'(?:could not|cannot) open source file "([^"]+)"')
_SYSTEM = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([^>\n]+)>", re.MULTILINE)


@dataclass(frozen=True)
class Binary:
    """Machine code of kernels for `cuModuleLoadData`; symbols and resources by kernel name."""

    cubin: bytes
    symbols: dict[str, str]
    resources: dict[str, Resources]


@cache
def version() -> tuple[int, int]:
    """Version (major, minor) of NVRTC. Raises `DeviceError` if it is not installed."""
    try:
        from cuda.bindings import nvrtc

        status, major, minor = nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError, OSError) as error:
        raise DeviceError(
            f"NVRTC, which compiles kernels, cannot be loaded ({_line(error)}): pip install 'warpladder[cuda13]'"
        ) from None
    if int(status):
        raise DeviceError(f"NVRTC, which compiles kernels, does not work ({status.name})")
    return int(major), int(minor)


@cache
def architectures() -> tuple[int, ...]:
    """Architectures for which this NVRTC compiles, as numbers: 90 for sm_90."""
    version()
    from cuda.bindings import nvrtc

    status, *_, found = nvrtc.nvrtcGetSupportedArchs()
    if int(status):
        raise DeviceError(f"NVRTC does not say what it compiles for ({status.name})")
    return tuple(map(int, found))


def header_folders(source: KernelSource) -> tuple[Path, ...]:
    """Folders of CUDA's own headers, for a source that includes one in angle brackets; empty for others."""
    if not _SYSTEM.search(source.text):
        return ()
    from cuda import pathfinder

    found = [pathfinder.find_nvidia_header_directory(name) for name in ("cudart", "cccl")]
    return tuple(dict.fromkeys(Path(folder) for folder in found if folder))


def compile(source: KernelSource, names: tuple[str, ...], arch: str) -> Binary:
    """Machine code of the kernels of a source, and of the template instances among `names`: "tiled<16, true>".

    arch : "sm_90", or "sm_90a" for instructions that only that architecture has.
    Raises KernelError: the source has an error; the message has the file and line of the first one.
    Raises DeviceError: NVRTC is missing.
    """
    release = version()
    from cuda.bindings import nvrtc

    log = StringIO()
    try:
        build, options = _cuda_core()
        text = for_nvrtc(source.text)
        folders = [str(folder) for folder in header_folders(replace(source, text=text))]
        chosen = OPTIONS | ({"prec_div": False, "prec_sqrt": False} if source.fast_division else {})
        program = build(text, "c++", options(name=source.path.name, arch=arch, include_path=folders or None, **chosen))
        cubin = bytes(program.compile("cubin", name_expressions=names, logs=log).code)
    except Exception as error:
        if not type(error).__module__.startswith("cuda."):
            raise
        raise _refused(source, names, arch, release, str(error).replace("\0", "")) from None
    symbols = {name: _given(nvrtc.nvrtcGetLoweredName(program.handle, name.encode())).decode() for name in names}
    ptx = bytes(_given(nvrtc.nvrtcGetPTXSize(program.handle)))
    _given(nvrtc.nvrtcGetPTX(program.handle, ptx))
    return Binary(cubin, symbols, resources(log.getvalue(), ptx.decode(), symbols))


#: Kernels are compiled on many threads, and a package that another thread is importing lacks names.
_importing = threading.Lock()


def _cuda_core() -> tuple[Any, Any]:
    """`Program` and `ProgramOptions` of cuda-core, experimental before 0.5."""
    try:
        with _importing:
            try:
                from cuda.core import Program, ProgramOptions
            except ImportError:
                from cuda.core.experimental import Program, ProgramOptions
    except ImportError as error:
        raise DeviceError(
            f"cuda-core, which compiles kernels, cannot be loaded ({_line(error)}): pip install 'warpladder[cuda13]'"
        ) from None
    return Program, ProgramOptions


def _given(answer: tuple[Any, ...]) -> Any:
    """Result of an NVRTC call without its status. Raises `KernelError` for a failure."""
    status, *results = answer
    if status:
        raise KernelError(f"NVRTC does not say what it compiled ({status.name})")
    return results[0] if results else None


def _refused(
    source: KernelSource, names: tuple[str, ...], arch: str, release: tuple[int, int], log: str
) -> KernelError:
    """Error with NVRTC's first message in a line, and all of them as a note."""
    found = list(_ERROR.finditer(log))
    assembler = _ASSEMBLER.search(log)
    if found:
        first = found[0]
        what = first["what"].strip()
        if missing := _MISSING.search(what):
            what = f"there is no header <{missing[1]}>; pip install 'warpladder[cuda13]' brings CUDA's own, "
            what += "and there are none of the C++ library"
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        text = f"{first['file'].strip()}:{first['line']}: {what}{more}"
    elif assembler:
        text = f"{source.path}: {assembler['what'].strip()} (for {arch})"
    else:
        words = " ".join(log.split()) or "no reason given"
        compiler = "NVRTC {}.{}".format(*release)
        text = f"{source.path}: {compiler} cannot compile {', '.join(names)} for {arch}: {words[:300]}"
    error = KernelError(text)
    error.add_note(log)
    return error


def _line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
