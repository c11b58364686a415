"""Machine code on disk: object files that LLVM loads without importing numba, which takes most of a second.

Files are in the folder of this state of the sources (ops/jit/cache.py), so that a function's name is its key.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ....errors import WarpladderError
from ....files.cache import Cache
from ....ops.jit.cache import FOLDERS, cache_folder


class CompiledFunction(NamedTuple):
    """Function that is compiled separately. kind : key of its signature in functions.SIGNATURES."""

    module: str
    name: str
    kind: str

    @property
    def key(self) -> str:
        return f"{self.module}.{self.name}"


class MachineCode(NamedTuple):
    """Machine code of a function. symbol : its name in the object file."""

    symbol: str
    content: bytes


class _ObjectFiles(Cache):
    """Disk cache of the object files for this state of the sources."""

    def place(self) -> Path:
        return cache_folder() or FOLDERS.place()


FILES = _ObjectFiles(FOLDERS.name, FOLDERS.contents, FOLDERS.consequence, b"warpladder machine code 2\n", ".o")

#: the functions loaded so far: the address of each, and the engine that owns its memory
_loaded: dict[CompiledFunction, tuple[int, Any]] = {}
_loading = threading.RLock()

#: numba's calling convention: pointers to the result and to a description of an error, then the arguments; returns 0
#: without an error
_ENTRY = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64, ctypes.c_int64
)


def address(function: CompiledFunction) -> int:
    """Address of a function's machine code in this process; compiles and stores the code if necessary."""
    with _loading:
        if function not in _loaded:
            _loaded[function] = _load(_stored(function) or _compiled(function))
        return _loaded[function][0]


def entry(function: CompiledFunction) -> Callable[[int, int], None]:
    """Python callable of a compiled function of the kind "entry"; other Python threads run during its calls."""
    call = _ENTRY(address(function))

    def run(thread: int, job: int) -> None:
        if status := call(ctypes.byref(ctypes.c_int64()), ctypes.byref(ctypes.c_void_p()), thread, job):
            raise WarpladderError(
                f"compiled code of {function.name} stopped with status {status}: "
                "please report it with the net and the settings"
            )

    return run


def store(function: CompiledFunction) -> None:
    """Compile a function into the cache folder, for other processes."""
    if not is_stored(function):
        _compiled(function)


def is_loaded(function: CompiledFunction) -> bool:
    """True if a function's machine code is in this process."""
    return function in _loaded


def is_stored(function: CompiledFunction) -> bool:
    """True if a function need not be compiled early: it is in the cache folder, or there is no folder."""
    return cache_folder() is None or _stored(function) is not None


def _stored(function: CompiledFunction) -> MachineCode | None:
    content = FILES.read(function.key) if cache_folder() else None
    if content is None:
        return None
    symbol, _, code = content.partition(b"\n")
    return MachineCode(symbol.decode(), code)


def _compiled(function: CompiledFunction) -> MachineCode:
    from .functions import compile_now

    code = compile_now(function)
    FILES.write(function.key, code.symbol.encode() + b"\n" + code.content)
    return code


def _load(code: MachineCode) -> tuple[int, Any]:
    """Address of a function, and the LLVM engine that owns it: object files may define equal functions of numba."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    engine = llvm.create_mcjit_compiler(
        llvm.parse_assembly(""), llvm.Target.from_default_triple().create_target_machine()
    )
    engine.add_object_file(llvm.ObjectFileRef.from_data(code.content))
    engine.finalize_object()
    return engine.get_function_address(code.symbol), engine
