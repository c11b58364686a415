"""Shared library of a .cu file: its text is rewritten, compiled and loaded, and its kernels are found."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ...errors import KernelError
from ..declarations import bounds, callee, definition, last_name, readable, scope, templates
from ..source import KernelSource
from . import constant_sizes, of_host
from .conversions import saturating
from .faulty import without_faulty
from .rewrite import rewritten, with_headers, without_ptx
from .symbols import callable_part, constants, without_kernels
from .toolchain import FILLED_FLAGS, check_syntax, is_compiled, library, runtime

#: Symbols of the runtime's functions for instructions of tensor cores: mma and wgmma.
TENSOR = (b"\0emu_multiply\0", b"\0emu_products\0")


class SharedVariable(ctypes.Structure):
    """Record of a __shared__ variable (headers/interface.h)."""


SharedVariable._fields_ = [
    ("name", ctypes.c_char_p), ("function", ctypes.c_char_p), ("file", ctypes.c_char_p), ("line", ctypes.c_int),
    ("bytes", ctypes.c_uint), ("element", ctypes.c_uint), ("alignment", ctypes.c_uint), ("offset", ctypes.c_uint),
    ("next", ctypes.POINTER(SharedVariable)),
]  # fmt: skip


class SharedLayout(ctypes.Structure):
    _fields_ = (("first", ctypes.POINTER(SharedVariable)), ("bytes", ctypes.c_uint))


@dataclass(frozen=True)
class EmulatedFunction:
    """Compiled kernel of the emulator, with its address.

    address : address of the function, which takes the arguments' addresses. layout : address of the module's list of
    shared variables.
    shared : bytes of static shared memory. bounds : largest number of threads in a block.
    library : shared library. constants : addresses and bytes of __constant__ variables without an initial value.
    left_out : compiler's errors in declarations that the kernel does without.
    """

    address: int
    layout: int
    shared: int
    bounds: int
    library: Path
    constants: dict[str, tuple[int, int]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class EmulatedUnit:
    """Callable kernels of a source that are compiled together, by names with template arguments."""

    source: KernelSource
    kernels: tuple[str, ...]

    def library(self, mode: str, local: str = "") -> Path:
        """File of the compiled kernels. Raises `KernelError` with the compiler's first error."""
        return library(_text(self.source, self.kernels), mode, self.source.path.name, _flags(local))

    def check(self) -> None:
        """Raise the `KernelError` of `library` without compiling; a template is read, and no instance made."""
        named = tuple(name for name in self.kernels if name not in templates(self.source))
        check_syntax(_text(self.source, named), self.source.path.name)

    def is_compiled(self, mode: str, local: str = "") -> bool:
        """True if the file of the compiled kernels exists."""
        return is_compiled(_text(self.source, self.kernels), mode, self.source.path.name, _flags(local))


def unit(source: KernelSource, name: str) -> EmulatedUnit:
    """Unit with which a kernel is compiled: all kernels of a source except templates, or one instance of a template."""
    source = callable_part(source)
    return EmulatedUnit(
        source, (name,) if "<" in name else tuple(n for n in readable(source) if n not in templates(source))
    )


def _flags(local: str) -> tuple[str, ...]:
    return (f"-ftrivial-auto-var-init={local}", *FILLED_FLAGS) if local else ()


def function(source: KernelSource, name: str, mode: str, local: str = "") -> EmulatedFunction:
    """Compiled kernel of this name, with template arguments; `local` as in `EmulatedDevice`.

    A kernel that does not compile with the others is compiled separately, so that its error does not stop them.
    """
    compiled = unit(source, name)
    left_out: tuple[str, ...] = ()
    try:
        path = compiled.library(mode, local)
    except KernelError as error:
        compiled, left_out = _separate(compiled.source, name, lambda each: each.library(mode, local), error)
        path = compiled.library(mode, local)
    source, together = compiled.source, compiled.kernels
    loaded = _load(path, mode)
    entry = loaded[f"emu_kernel_{together.index(name)}"]
    layout = ctypes.cast(loaded.emu_layout(), ctypes.POINTER(SharedLayout))
    shared, bounds = _shared(layout.contents, name), loaded[f"emu_bounds_{together.index(name)}"]()
    addresses = _address(entry), ctypes.addressof(layout.contents)
    return EmulatedFunction(*addresses, shared, bounds, path, _constants(loaded, constants(source)), left_out)


#: Largest number of attempts to compile a kernel, each without the declarations that failed before.
ATTEMPTS = 6


def _separate(
    source: KernelSource, name: str, compile: Callable[[EmulatedUnit], object], error: KernelError
) -> tuple[EmulatedUnit, tuple[str, ...]]:
    """Unit of one kernel, without other kernels and without declarations that do not compile, and the errors in these.
    Raises the first error of the kernel without other kernels if it needs such a declaration.
    """
    others = [other for other in readable(source) if other != definition(name)]
    alone = without_kernels(source, others)
    left_out: tuple[str, ...] = ()
    first = error if alone.text == source.text else None
    for _ in range(ATTEMPTS):
        try:
            found = EmulatedUnit(alone, (name,))
            compile(found)
            return found, left_out
        except KernelError as why:
            first = first or why
            less = without_faulty(alone, definition(name), why)
            if less is None:
                raise first from None
            alone, left_out = less, (*left_out, str(why))
    raise first or error


@cache
def multiplies(source: KernelSource, name: str, mode: str, local: str = "") -> bool:
    """True if a kernel's machine code, compiled without the other kernels, calls a function for tensor cores."""

    def calls(text: KernelSource) -> bool:
        code = function(text, name, mode, local).library.read_bytes()
        return any(symbol in code for symbol in TENSOR)

    source, plain = callable_part(source), definition(name)
    return calls(source) and calls(without_kernels(source, [other for other in readable(source) if other != plain]))


def errors_of(source: KernelSource) -> dict[str, str]:
    """Compiler's first error in each callable kernel that does not compile, by name; a template is read,
    and no instance made.
    """
    source = callable_part(source)
    names = [name for name in readable(source) if name not in templates(source)]
    found: dict[str, str] = {}
    try:
        EmulatedUnit(source, tuple(names)).check()
    except KernelError as error:
        for name in readable(source):
            try:
                _separate(source, name, EmulatedUnit.check, error)
            except KernelError as why:
                found[name] = str(why)
    return found


def whole_text(source: KernelSource, kernels: tuple[str, ...]) -> str:
    """C++ text for the compiler, with these kernels."""
    return _text(callable_part(source), kernels)


def _constants(loaded: ctypes.CDLL, named: Iterable[str]) -> dict[str, tuple[int, int]]:
    out = {}
    for number, name in enumerate(named):
        where = loaded[f"emu_constant_{number}"]
        where.restype = ctypes.c_void_p
        out[name] = where(), loaded[f"emu_constant_bytes_{number}"]()
    return out


def _text(source: KernelSource, kernels: tuple[str, ...]) -> str:
    exports = ""
    for number, name in enumerate(kernels):
        exports += f"EMU_KERNEL({number}, {callee(name)})\n"
        names = f"using namespace {scope(name)};" if scope(name) else ""
        exports += f"EMU_BOUNDS({number}, {names}, {bounds(source, name) or 1024})\n"
    exports += "".join(f"EMU_CONSTANT({number}, {name})\n" for number, name in enumerate(constants(source)))
    return f'{_body(source)}\n#line 1 "the list of kernels"\n{exports}EMU_MODULE\n'


#: Namespace before a function that is a macro of the emulator: std::fmaxf(a, b).
_QUALIFIED = re.compile(r"(?:(?:::\s*)?\bstd\s*|(?<![\w>]))::\s*(?=f(?:max|min)f\s*\()")


@cache
def _body(source: KernelSource) -> str:
    """C++ text of a source after the emulator's headers, from which every instance of its kernels is compiled."""
    text = constant_sizes.counted(of_host.marked(source.text, (source.text,)), str(source.path))
    return with_headers(without_ptx(rewritten(saturating(_QUALIFIED.sub("", text)), str(source.path))))


@cache
def _load(path: Path, mode: str) -> ctypes.CDLL:
    runtime_of(mode)  # first, so that the library finds it
    loaded = ctypes.CDLL(str(path))
    loaded.emu_layout.restype = ctypes.c_void_p
    return loaded


@cache
def runtime_of(mode: str) -> ctypes.CDLL:
    """Loaded runtime library of a mode."""
    loaded = ctypes.CDLL(str(runtime(mode)))
    loaded.emu_allocate.restype = ctypes.c_void_p
    loaded.emu_allocate.argtypes = (ctypes.c_size_t, ctypes.c_uint)
    loaded.emu_free.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    loaded.emu_written.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    loaded.emu_adopt.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint)
    loaded.emu_unwritten.restype = ctypes.c_size_t
    number = ctypes.POINTER(ctypes.c_size_t)
    loaded.emu_unwritten.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, number, number)
    loaded.emu_stuck.restype = ctypes.c_char_p
    loaded.emu_copied.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    return loaded


def _address(entry: object) -> int:
    address = ctypes.cast(entry, ctypes.c_void_p).value  # type: ignore[arg-type]
    assert address is not None
    return address


def _shared(layout: SharedLayout, name: str) -> int:
    """Bytes of the shared variables that the kernel itself declares, without its functions' ones."""
    plain = re.escape(last_name(name))
    total, variable = 0, layout.first
    while variable:
        if re.search(rf"\b{plain}\(", variable.contents.function.decode()):
            total += variable.contents.bytes
        variable = variable.contents.next
    return total
