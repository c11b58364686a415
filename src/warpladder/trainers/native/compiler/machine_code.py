"""Machine code that is kept: object files, which LLVM loads without numba, whose import and tables take most of a
second.

A file is in the folder of this state of the sources (ops/jit/cache.py), so that its name need only say which function
it is. A damaged one counts as absent.
"""

from __future__ import annotations

import ctypes
import threading
import warnings
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from ....errors import WarpladderError
from ....files.atomic import write_atomically
from ....ops.jit.cache import cache_folder

MARK = b"warpladder machine code 1\n"


class CompiledFunction(NamedTuple):
    """A function that is compiled on its own. kind : what it is called with, see functions.py."""

    module: str
    name: str
    kind: str


class MachineCode(NamedTuple):
    """A function's machine code. symbol : its name in the object file."""

    symbol: str
    content: bytes


#: the functions loaded so far: where each lies, and the engine that keeps it there
_loaded: dict[CompiledFunction, tuple[int, Any]] = {}
_loading = threading.RLock()

#: how `numba` has its functions called from outside: where the result and a description of an error go, then the
#: arguments; 0 says that all went well
_ENTRY = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64, ctypes.c_int64
)


def address(function: CompiledFunction) -> int:
    """Where a function's machine code lies in this process; compiles it, and keeps it, if need be."""
    with _loading:
        if function not in _loaded:
            _loaded[function] = _load(_read(_path(function)) or _compiled(function))
        return _loaded[function][0]


def entry(function: CompiledFunction) -> Callable[[int, int], None]:
    """A way for Python to call a function of the kind "entry"; other threads run meanwhile."""
    call = _ENTRY(address(function))

    def run(thread: int, job: int) -> None:
        if status := call(ctypes.byref(ctypes.c_int64()), ctypes.byref(ctypes.c_void_p()), thread, job):
            raise WarpladderError(
                f"compiled code of {function.name} stopped with status {status}: please report it with the net and the settings"
            )

    return run


def keep(function: CompiledFunction) -> None:
    """Compile a function for other processes, which find it in the folder."""
    if not is_kept(function):
        _compiled(function)


def is_kept(function: CompiledFunction) -> bool:
    """Whether nothing is won by compiling a function ahead: it is loaded or in the folder, or there is no folder."""
    return function in _loaded or cache_folder() is None or _read(_path(function)) is not None


def _path(function: CompiledFunction) -> Path | None:
    folder = cache_folder()
    return None if folder is None else folder / f"{function.module}.{function.name}.o"


def _compiled(function: CompiledFunction) -> MachineCode:
    from .functions import compile_now

    code = compile_now(function)
    if path := _path(function):
        try:
            write_atomically(path, encode(code))
        except OSError as error:
            _warn_once(
                f"compiled code cannot be kept in {path.parent} ({error.strerror}): the next start compiles it again"
            )
    return code


def encode(code: MachineCode) -> bytes:
    """A file's bytes: a mark, a checksum of the rest, the symbol, the object."""
    rest = code.symbol.encode() + b"\n" + code.content
    return MARK + sha256(rest).hexdigest().encode() + b"\n" + rest


def decode(content: bytes) -> MachineCode | None:
    """What `encode` has written, or None where it is damaged or of another version."""
    mark, (digest, _, rest) = content[: len(MARK)], content[len(MARK) :].partition(b"\n")
    if mark != MARK or sha256(rest).hexdigest().encode() != digest:
        return None
    symbol, _, code = rest.partition(b"\n")
    return MachineCode(symbol.decode(), code)


def _read(path: Path | None) -> MachineCode | None:
    try:
        return None if path is None else decode(path.read_bytes())
    except OSError:
        return None


def _load(code: MachineCode) -> tuple[int, Any]:
    """A function's address, and the engine that holds its memory: each has its own, since several may say the same of
    numba's own functions.
    """
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    engine = llvm.create_mcjit_compiler(
        llvm.parse_assembly(""), llvm.Target.from_default_triple().create_target_machine()
    )
    engine.add_object_file(llvm.ObjectFileRef.from_data(code.content))
    engine.finalize_object()
    return engine.get_function_address(code.symbol), engine


_warned: set[str] = set()


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        warnings.warn(message, stacklevel=2)
