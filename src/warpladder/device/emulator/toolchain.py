"""C++ compiler of this machine for kernels, and the folder of the compiled libraries."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from ...errors import DeviceError, KernelError
from ...files.atomic import replacing_path
from ...files.cache import DAY, Cache, CacheLimits, touch, why_not_writable
from .messages import CompilerMessages, first_error
from .whole import END, is_whole

HEADERS = Path(__file__).resolve().parent / "headers"
RUNTIME = HEADERS.parent / "runtime"
MODES = ("fast", "check", "asan", "count")

#: Of the compiler's processes: plain quotation marks in its messages, and none of the sanitizers that this process may
#: have.
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"} | {"LC_ALL": "C"}


def environment() -> dict[str, str]:
    """Environment of the compiler's processes."""
    return dict(_ENVIRONMENT)


#: Compiled kernels; unused ones are deleted when a process makes its first one.
LIBRARIES = Cache("emulator", "emulated kernels", "every start compiles them again", limits=CacheLimits(age=30 * DAY))

# DWARF 5 counts files from 0, and addr2line takes some lines of a source that comes from stdin to be stdin's. Of the
# rest, -g1 keeps the lines and the calls that were inlined there; variables, which are not needed, take a
# fifth of the time that a kernel takes to compile. A frame larger than a stack touches its pages from the top, so the
# guard page below the stack stops it before it writes to memory of others.
ALWAYS = (
    "-std=gnu++20", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-fno-strict-aliasing", "-gdwarf-4", "-g1",
    "-pthread", "-fstack-clash-protection", "-w",
)  # fmt: skip
#: The switch of stacks pushes where a function without calls would keep its variables.
_NO_RED_ZONE = ("-mno-red-zone",) if platform.machine() in ("x86_64", "AMD64") else ()
_RUNTIME_FLAGS = {
    "fast": (), "check": ("-DEMU_CHECK",), "asan": ("-DEMU_ASAN",), "count": ("-DEMU_CHECK", "-DEMU_COUNT"),
}  # fmt: skip
#: Call-outs before each access, to the emulator's own runtime; volatile accesses have separate ones.
_CALLOUTS = ("-fsanitize=thread", "--param=tsan-instrument-func-entry-exit=0", "--param=tsan-distinguish-volatile=1")
#: Flags of sources with volatile accesses, with which threads may poll; the checker's call-outs see these anyway.
POLLS = {"fast": _CALLOUTS, "asan": ("-fsanitize-coverage=trace-pc",)}
#: Of builds that fill local variables: without passes that replace a missing value by any, often the useful, value.
FILLED_FLAGS = ("-O1", "-fno-tree-ccp", "-fno-tree-fre", "-fno-tree-copy-prop")
_VOLATILE = re.compile(r"(?<!asm )(?<!asm)\b(?:volatile|__ldcv)\b")
#: Without passes that take a third of the time to compile and gain nothing that can be measured: those over machine
#: instructions, whose work passes over the syntax tree have done before, and those that look for values and jumps which
#: a kernel's straight code seldom has. Registers are given out over the whole function at once.
FEWER_PASSES = (
    "-fno-if-conversion", "-fno-if-conversion2", "-fno-move-loop-invariants", "-fno-dse", "-fira-region=one",
    "-fno-tree-dominator-opts", "-fno-ivopts", "-fno-thread-jumps", "-fno-tree-pta", "-fno-tree-bit-ccp",
)  # fmt: skip
#: Small functions are inlined: g++ makes no call-out for a struct that is read from memory as an argument by value.
_INLINED = ("-finline-small-functions", "-finline-functions")
#: Undefined operations that the checker reports.
_UNDEFINED = (
    "-fsanitize=bounds-strict,alignment,integer-divide-by-zero,float-cast-overflow", "-fsanitize-recover=all",
)  # fmt: skip
KERNEL_FLAGS = {
    # Nothing that changes a result: no -ffast-math. Multiply-adds are fused, as nvcc fuses them, which below -O2 is one
    # of the expensive optimizations. -O3 takes two thirds more time to compile a kernel, and what it gains is a tenth
    # of a long run.
    "fast": (
        "-O1", "-fexpensive-optimizations", "-march=native", "-fno-math-errno", "-fno-trapping-math",
        "-fno-finite-loops", *FEWER_PASSES,
    ),
    "check": (
        "-DEMU_CHECK", "-O1", *FEWER_PASSES, "-march=native", "-fno-math-errno", "-fno-trapping-math",
        *_INLINED, *_CALLOUTS, *_UNDEFINED,
    ),
    "asan": (
        "-DEMU_ASAN", "-O1", *FEWER_PASSES, "-march=native", "-fno-math-errno", "-fno-omit-frame-pointer",
        "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
    ),
}  # fmt: skip
#: The checker's build, with a call-out at each basic block; a struct is copied in one piece, as a GPU copies a float4.
#: Tests for undefined operations would end basic blocks that a GPU does not end, and so keep a product and a sum from
#: being fused.
KERNEL_FLAGS["count"] = (
    *(flag for flag in KERNEL_FLAGS["check"] if flag not in _UNDEFINED),
    "-DEMU_COUNT",
    "-fno-tree-sra",
    "-fno-reorder-blocks",
    "-fexpensive-optimizations",
    "-fsanitize-coverage=trace-pc",
)


@dataclass(frozen=True)
class Compiler:
    """Command of g++, and its version."""

    command: tuple[str, ...]
    version: str


@cache
def compiler() -> Compiler:
    """Compiler of this machine. Raises `DeviceError` with what to install if there is none."""
    reason = _search()
    if isinstance(reason, str):
        raise DeviceError(reason)
    return reason


def why_not() -> str | None:
    """Reason why kernels cannot be emulated on this machine; None if they can."""
    found = _search()
    return found if isinstance(found, str) else None


@cache
def _search() -> Compiler | str:
    install = "the emulator compiles kernels with g++ 11 or newer; "
    install += "install it (apt install g++, dnf install gcc-c++) or name it in CXX"
    if platform.system() != "Linux":
        return f"the emulator runs on Linux, and this is {platform.system()}"
    asked = os.environ.get("CXX")
    if asked:
        command = tuple(shlex.split(asked))
    else:
        names = ("g++", *(f"g++-{number}" for number in range(16, 10, -1)))
        command = next(((name,) for name in names if shutil.which(name)), ())
    if not command or not shutil.which(command[0]):
        return f"{'CXX names ' + repr(asked) + ', which is not there' if asked else 'there is no g++'}: {install}"
    try:
        said = subprocess.run(
            [*command, "-dM", "-E", "-x", "c++", os.devnull], capture_output=True, text=True, timeout=60,
            env=_ENVIRONMENT,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{shlex.join(command)} does not run ({error}): {install}"
    macros = dict(re.findall(r"^#define (\S+) (.*)$", said.stdout, re.MULTILINE))
    version = macros.get("__VERSION__", "").strip('"')
    if "__clang__" in macros or int(macros.get("__GNUC__", "0")) < 11:
        return f"{shlex.join(command)} is {version or 'no compiler'}: {install}"
    return Compiler(command, version)


@cache
def folder() -> Path:
    """Folder of compiled kernels: the user's cache folder, or a temporary one if it cannot be written."""
    if why_not_writable(LIBRARIES.place()) is None:
        return LIBRARIES.place()
    _temporary.append(tempfile.TemporaryDirectory(prefix="warpladder-emulator-"))
    return Path(_temporary[0].name)


_temporary: list[tempfile.TemporaryDirectory] = []


@cache
def runtime(mode: str) -> Path:
    """Path of the shared library with the emulator's runtime in one of `MODES`; compiled if the cache lacks it."""
    name, flags = runtime_name(mode), _runtime_command(mode)
    return made(name, [*flags, f"-Wl,-soname,{name}"], "the emulator's own runtime")


@cache
def runtime_name(mode: str) -> str:
    """File name of the runtime's library, which need not exist."""
    return f"runtime-{mode}-{key(mode, *_runtime_command(mode))}.so"


def _runtime_command(mode: str) -> list[str]:
    return [  # without passes that take a quarter of the time to compile it
        *ALWAYS, "-g0", "-O2", "-ftls-model=initial-exec", *FEWER_PASSES, "-fno-tree-pre", "-fno-gcse",
        "-fno-schedule-insns2", "-fno-ipa-sra", "-fno-ipa-cp", *_NO_RED_ZONE, *_RUNTIME_FLAGS[mode], "-shared",
        str(RUNTIME / "runtime.cpp"),
    ]  # fmt: skip


def library(text: str, mode: str, what: str, extra: tuple[str, ...] = ()) -> Path:
    """Shared library of rewritten source text.

    text : C++ that includes headers/emulator.h; its #line directives name the kernel's file.
    what : the kernel's file, for messages. extra : flags after those of the mode.
    Raises KernelError: the compiler's first error, with the kernel's file and line.
    """
    linked, flags = runtime(mode), _flags(text, mode, extra)
    name = _name(text, mode, what, flags)
    if is_whole(folder() / f"{name}.so"):
        return _used(folder() / f"{name}.so")
    # Compiled and linked in two steps: linking under -fsanitize=thread would bring the sanitizer's own runtime.
    # The object is this process's own: another one that makes the same library removes its own when it is done.
    command = [f"-I{_parsed_headers(*flags)}", *flags, "-c", "-x", "c++", "-"]
    built = made(f"{name}-{os.getpid()}-{threading.get_ident()}.o", command, what, text)
    # All other libraries come with the runtime: to look for them here takes most of the time of linking.
    libraries = ["-fsanitize=address,undefined"] if mode == "asan" else ["-nodefaultlibs", "-lgcc"]
    try:
        return made(f"{name}.so", ["-shared", str(built), str(linked), "-Wl,-rpath,$ORIGIN", *libraries], what)
    finally:
        built.unlink(missing_ok=True)


def check_syntax(text: str, what: str) -> None:
    """Raise the `KernelError` of `library` for a text that does not compile, without compiling it."""
    flags = _flags(text, "check", ())
    done = compiled([f"-I{_parsed_headers(*flags)}", *flags, "-fsyntax-only", "-x", "c++", "-"], text)
    if done.returncode != 0:
        raise KernelError(first_error(done.stderr, what)) from CompilerMessages(done.stderr)


def is_compiled(text: str, mode: str, what: str, extra: tuple[str, ...] = ()) -> bool:
    """True if `library` has compiled this text already."""
    return is_whole(folder() / f"{_name(text, mode, what, _flags(text, mode, extra))}.so")


def _flags(text: str, mode: str, extra: tuple[str, ...]) -> list[str]:
    polls = POLLS.get(mode, ()) if has_volatile(text) else ()  # a thread that waits must let others run
    return [*ALWAYS, "-fwhole-program", *KERNEL_FLAGS[mode], *extra, *polls, f"-I{HEADERS}", f"-I{HEADERS / 'cuda'}"]


@lru_cache(maxsize=64)
def has_volatile(text: str) -> bool:
    """True if a source has volatile accesses."""
    return _VOLATILE.search(text) is not None


def _name(text: str, mode: str, what: str, flags: list[str]) -> str:
    """Name of a library, without its ending."""
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', what)}-{mode}-{key(mode, text, runtime_name(mode), *flags)}"


def _parsed_headers(*flags: str) -> Path:
    """Folder with the precompiled headers; concurrent threads wait for the first one's result."""
    with _parsing:
        return _parsed(*flags)


_parsing = threading.Lock()


@cache
def _parsed(*flags: str) -> Path:
    """Folder with headers/emulator.h precompiled: parsing it is most of a kernel's compile time."""
    header = made(
        f"headers-{key(*flags)}/emulator.h.gch",
        [*flags, "-x", "c++-header", str(HEADERS / "emulator.h")],
        "the emulator's headers",
    )
    return header.parent


@cache
def _sources() -> bytes:
    """Hash of the emulator's own sources, on which every library depends."""
    digest = hashlib.sha256()
    for path in sorted(p for root in (HEADERS, RUNTIME) for p in root.rglob("*") if p.is_file()):
        digest.update(f"{path.relative_to(HEADERS.parent).as_posix()}\n".encode() + path.read_bytes())
    return digest.digest()


@cache
def _cpu() -> str:
    """Processor for which -march=native compiles, as /proc/cpuinfo describes it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "cpu family", "model\t", "stepping", "flags", "Features", "CPU part", "CPU implementer")
    return "\n".join(sorted({line for line in lines if line.startswith(wanted)}))


def key(*parts: str) -> str:
    digest = hashlib.sha256(_sources())
    for part in (compiler().version, shlex.join(compiler().command), _cpu(), *parts):
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()[:20]


#: Limit of compilations, a value of time.monotonic().
deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


def compiled(arguments: list[str], text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Finished call of the compiler with its messages. Raises `TimeoutError` if the deadline ends it."""
    until = deadline.get()
    with subprocess.Popen(
        [*compiler().command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, errors="replace", env=_ENVIRONMENT, start_new_session=until is not None,
    ) as process:  # fmt: skip
        try:
            out, messages = process.communicate(text, None if until is None else max(0.0, until - time.monotonic()))
        except BaseException as error:
            os.kill(process.pid if until is None else -process.pid, signal.SIGKILL)
            raise (TimeoutError if isinstance(error, subprocess.TimeoutExpired) else error) from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, messages)


def made(
    name: str, arguments: list[str], what: str, text: str | None = None, reason: Callable[[str], str] | None = None
) -> Path:
    """Path of a file in the folder, made by the compiler if it is missing or damaged. It ends in a checksum.

    reason : function from the compiler's messages to a sentence on its failure.
    """
    target = folder() / name
    if is_whole(target):
        return _used(target)
    target.parent.mkdir(exist_ok=True)
    with replacing_path(target) as temporary:
        done = compiled([*arguments, "-o", str(temporary)], text)
        if done.returncode != 0:
            said = reason(done.stderr) if reason else first_error(done.stderr, what)
            raise KernelError(said) from CompilerMessages(done.stderr)
        with open(temporary, "ab") as file:
            file.write(END + hashlib.sha256(temporary.read_bytes()).hexdigest().encode())
    _prune()
    return target


def _used(path: Path) -> Path:
    """Mark a file, and the folder's entry which holds it, as used; returns the file."""
    touch(path)
    if path.parent != folder():
        touch(path.parent)
    return path


@cache
def _prune() -> None:
    if folder() == LIBRARIES.place():
        LIBRARIES.prune()
