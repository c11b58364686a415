"""Compilation of a program: each file by the C++ compiler, all linked with the emulator and its CUDA runtime."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from ..device.emulator import constant_sizes, of_host
from ..device.emulator.rewrite import bare
from ..device.emulator.toolchain import (
    ALWAYS,
    FEWER_PASSES,
    HEADERS,
    KERNEL_FLAGS,
    POLLS,
    compiled,
    folder,
    has_volatile,
    key,
    made,
    runtime,
    runtime_name,
)  # fmt: skip
from ..device.emulator.whole import is_whole
from ..device.lines import directive
from ..errors import KernelError
from ..machine.cores import cores
from . import launch_macros
from .gpus import EmulatedGpu
from .reasons import MissingHeader, first_error
from .rewrite import kernels, program_text
from .sources import EMULATED, OWN, ProgramFiles, references, whole_header
from .suspects import WARNINGS, keep, variable_length

HERE = Path(__file__).resolve().parent
#: Flags of the CUDA runtime for programs, by mode.
_RUNTIME = {"fast": (), "check": ("-DEMU_CHECK",), "count": ("-DEMU_CHECK", "-DEMU_COUNT")}


#: Functions for which runtime/allocations.cpp has others.
_WRAPPED = tuple(
    f"-Wl,--wrap={name}"
    for name in ("malloc", "calloc", "realloc", "free", "_Znwm", "_Znam", "_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t",
                 "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm")
)  # fmt: skip
#: Folders of headers that a file without CUDA's names is compiled without: they have an assert.h for kernels.
_EMULATED = (f"-I{HERE / 'headers'}", f"-I{HEADERS}", f"-I{OWN}", f"-I{EMULATED}")
#: Flags of single kernels that programs omit: they leave a loop's variables in memory, and programs run longer.
_SLOW = ("-fira-region=one", "-fno-tree-dominator-opts", "-fno-ivopts", "-fno-move-loop-invariants")
#: A function that ends without its return goes on with any value, as without optimization: else g++ ends it nowhere.
_NO_RETURN = ("-fsanitize=unreachable", "-fno-sanitize=return")


@dataclass(frozen=True)
class ProgramOptions:
    """Choices that change the machine code. mode : "fast", "check", or "count", which checks and counts.

    defines : NAME or NAME=VALUE. libraries : of -l, as m or gomp."""

    gpu: EmulatedGpu
    mode: str = "fast"
    defines: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()


@cache
def _own_digest() -> str:
    digest = sha256()
    for path in sorted(p for root in (HERE / "headers", HERE / "runtime") for p in root.rglob("*") if p.is_file()):
        digest.update(f"{path.relative_to(HERE)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


@cache
def _translation() -> str:
    """Digest of the code that rewrites programs, for the cache."""
    emulator = HERE.parent / "device" / "emulator"
    digest = sha256()
    for path in [
        *sorted(HERE.glob("*.py")),
        emulator / "rewrite.py",
        emulator / "conversions.py",
        *sorted((emulator / "ptx").glob("*.py")),
    ]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def _runtime_flags(mode: str) -> tuple[str, ...]:
    """Compiler flags of the CUDA runtime of programs."""
    return (*ALWAYS, "-g0", "-O1", *FEWER_PASSES, *_RUNTIME[mode], "-DEMU_ARCH=900", f"-I{HEADERS}")


@cache
def _runtime_name(mode: str) -> str:
    """File name of the library of `program_runtime`, which need not exist."""
    return f"programs-{mode}-{key(mode, _own_digest(), runtime_name(mode), *_runtime_flags(mode))}.so"


@cache
def program_runtime(mode: str) -> tuple[Path, Path]:
    """Paths of the library with the CUDA runtime that programs are linked with, and of the emulator's runtime.

    Both are compiled at the same time if the cache lacks them.
    """
    name, what = _runtime_name(mode), "the CUDA runtime of programs"
    if is_whole(folder() / name):
        return made(name, [], what), runtime(mode)
    with ThreadPoolExecutor(1) as pool:
        emulator = pool.submit(copy_context().run, runtime, mode)
        flags = [*_runtime_flags(mode), "-c", str(HERE / "runtime" / "program.cpp")]
        built = made(f"{name}-{os.getpid()}.o", flags, what)
        try:
            linked = ["-shared", str(built), str(emulator.result()), "-Wl,-rpath,$ORIGIN", f"-Wl,-soname,{name}"]
            return made(name, linked, what), emulator.result()
        finally:
            built.unlink(missing_ok=True)


@cache
def _allocations() -> Path:
    """Path of the object with the functions that a program's own code gets for malloc and new."""
    # -O2: free() is called by a jump, so that a fault in it has the line of the program
    flags = [*ALWAYS, "-g0", "-O2", "-c", str(HERE / "runtime" / "allocations.cpp")]
    return made(f"allocations-{key(_own_digest(), *flags)}.o", flags, "the allocations of programs")


def program(sources: ProgramFiles, options: ProgramOptions, say: Callable[[str], None] | None = None) -> Path:
    """Path of a program's executable. Raises `KernelError` with the compiler's first error, in the program's own
    file and line.

    say : called with a line before the emulator itself is compiled.
    """
    flags = _flags(sources, options)
    needed = _runtime_name(options.mode)
    whole = key(_own_digest(), _translation(), sources.digest, needed, *flags, *options.libraries)
    name = f"program-{next(iter(sources.files)).stem}-{whole}"
    if is_whole(folder() / name):
        program_runtime(options.mode)
        return made(name, [], "")
    if say is not None and not is_whole(folder() / needed):
        say("compiling the emulator for this processor, which takes some ten seconds: once, then it is stored")
    with ThreadPoolExecutor(1) as pool:
        runtimes = pool.submit(copy_context().run, program_runtime, options.mode)
        with _objects(sources, options, name) as objects:
            linked = [*map(str, objects), str(_allocations()), *_WRAPPED, *map(str, runtimes.result()),
                      "-Wl,-rpath,$ORIGIN", "-pthread",
                      f"-Wl,--version-script={HERE / 'runtime' / 'hidden.map'}",
                      *(f"-l{each}" for each in dict.fromkeys((*options.libraries, *_implied(sources))))]  # fmt: skip
            executable = _linked(name, linked)
            keep(executable, (path.with_suffix(".warnings").read_text(encoding="utf-8") for path in objects), sources)
            return executable


def compile_alone(sources: ProgramFiles, options: ProgramOptions) -> None:
    """Compile files without linking them. Raises `KernelError` with the compiler's first error."""
    with _objects(sources, options, f"alone-{next(iter(sources.files)).stem}"):
        pass


def _flags(sources: ProgramFiles, options: ProgramOptions) -> list[str]:
    arch = 100 * options.gpu.major + 10 * options.gpu.minor
    return [*_common(sources, options.mode, arch), *(f"-I{path}" for path in sources.folders),
            *(f"-D{define}" for define in options.defines)]  # fmt: skip


def _common(sources: ProgramFiles, mode: str, arch: int) -> list[str]:
    """Compiler flags of a program's files and of the precompiled headers."""
    polls = POLLS.get(mode, ()) if any(has_volatile(s.text) for s in sources.files.values()) else ()
    flags = [flag for flag in KERNEL_FLAGS[mode] if flag not in _SLOW]
    return [*ALWAYS, *polls, *flags, *_NO_RETURN, f"-DEMU_ARCH={arch}", *_EMULATED]


@contextmanager
def _objects(sources: ProgramFiles, options: ProgramOptions, name: str) -> Iterator[list[Path]]:
    """Context with the paths of the named files' objects, in a folder that is removed afterwards.

    A header that no searched folder has is left out, as `sources.absent`, if the program compiles without it.
    """
    flags = _flags(sources, options)
    flags = [*(flag for flag in flags if flag != "-w"), "-Wvla", *(WARNINGS if options.mode != "fast" else ())]
    place = folder() / f"{name}-{os.getpid()}"
    place.mkdir(parents=True, exist_ok=True)
    headers = _headers_made(tuple(_common(sources, options.mode, 100 * options.gpu.major + 10 * options.gpu.minor)))

    def objects() -> list[Path]:
        named = _written(sources, place)
        with ThreadPoolExecutor(cores()) as pool:
            jobs = [
                pool.submit(copy_context().run, _compiled, (path, text), [f"-I{headers}", *flags]
                            if sources.uses_cuda(path) else [flag for flag in flags if flag not in _EMULATED])
                for path, text in named
            ]  # fmt: skip
            done = [job.result() for job in jobs]
        for path in done:
            if why := variable_length(path.with_suffix(".warnings").read_text(encoding="utf-8"), sources):
                raise KernelError(why)
        return done

    try:
        try:
            done = objects()
        except MissingHeader as first:
            sources.absent = _absent(sources, flags)
            try:
                done = objects()
            except KernelError:
                raise first from None
        yield done
    finally:
        for file in place.iterdir():
            file.unlink()
        place.rmdir()


def _absent(sources: ProgramFiles, flags: list[str]) -> frozenset[str]:
    """Headers that the files include and the compiler does not find."""
    names = sorted({whole_header(name) for (_, name), found in sources.reached.items() if found is None})
    tests = "".join(f"#if !__has_include(<{name}>)\n@{name}\n#endif\n" for name in names)
    found = compiled([*flags, "-E", "-P", "-x", "c++", "-"], tests).stdout
    return frozenset(line[1:].strip() for line in found.splitlines() if line.startswith("@"))


def _implied(sources: ProgramFiles) -> tuple[str, ...]:
    """Libraries that included headers need: "gomp" for OpenMP."""
    has_openmp = any(name == "omp.h" for _, name in sources.reached)
    return ("gomp",) if has_openmp else ()


def _linked(name: str, arguments: list[str]) -> Path:
    """Path of the executable of linked objects. Raises `KernelError` with the undefined name."""
    return made(name, arguments, "the program", reason=lambda messages: first_error(messages, Path("the program")))


@cache
def _headers_made(common: tuple[str, ...]) -> Path:
    """Path of the folder with headers/program.h precompiled."""
    flags = list(common)
    name = f"headers-{key(_own_digest(), *flags)}/program.h.gch"
    return made(
        name, [*flags, "-x", "c++-header", str(HERE / "headers" / "program.h")], "the headers of programs"
    ).parent


#: Function of the program with the name of a type that nvcc knows only after an include of cuda_fp16.h.
_OWN = re.compile(r"\b(?:void|bool|int|unsigned|long|float|double|size_t|auto|T)\s*[*&]*\s*\b(half2?)\s*\(")


def _written(sources: ProgramFiles, place: Path) -> list[tuple[Path, Path]]:
    """Write the rewritten files into a folder; return the original and the rewritten path of each named file."""
    names = {path: str(place / f"{number}{path.suffix}") for number, path in enumerate(sources.files)}
    texts = [source.text for source in sources.files.values()]
    known, macros = kernels(texts), launch_macros.defined(texts)
    own = sorted({name for source in sources.files.values() for name in _OWN.findall(bare(source.text))})
    defines = "".join(f"#define {name} emu_own_{name}\n" for name in own)
    more = '#include "texture_references.h"\n' if references(sources) else ""
    named = []
    for path, source in sources.files.items():
        text = launch_macros.expanded(sources.redirected(source, names), macros)
        if sources.uses_cuda(path):
            text = constant_sizes.counted(of_host.marked(text, texts), str(path))
        text = program_text(text, str(path), known)
        start = f'#include "program.h"\n{more}{defines}' if source.is_named and sources.uses_cuda(path) else ""
        once = "#pragma once\n" if re.search(r"^[ \t]*#[ \t]*pragma[ \t]+once", text, re.MULTILINE) else ""
        Path(names[path]).write_text(f"{start}{once}{directive(1, str(path))}\n{text}", encoding="utf-8")
        if source.is_named:
            named.append((path, Path(names[path])))
    return named


def _compiled(file: tuple[Path, Path], flags: list[str]) -> Path:
    """Path of the object of one compiled file."""
    path, text = file
    out = text.with_suffix(".o")
    done = compiled([*flags, "-c", "-x", "c++", str(text), "-o", str(out)])
    if done.returncode:
        kind = MissingHeader if re.search("fatal error: .*: No such file", done.stderr) else KernelError
        raise kind(first_error(done.stderr, path))
    out.with_suffix(".warnings").write_text(done.stderr, encoding="utf-8")
    return out
