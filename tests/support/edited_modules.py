"""Modules of the package in which a text reads otherwise: faults within the sources of loops and of native code.

    with edited_modules("trainers/native/kernels/update.py", "rate * g[i]", "rate * 2 * g[i]"):
        verify(find("native").build, ...)

The edited module, and those that import from it, take the places of the imported ones, and native operations are
compiled from them. Nothing of it is stored.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from edits import edited, occurrences

import warpladder
from warpladder.ops.jit import cache as jit_cache
from warpladder.ops.update import loops
from warpladder.optimizers import base
from warpladder.trainers.native.compiler import machine_code
from warpladder.trainers.native.compiler.machine_code import CompiledFunction, MachineCode

PACKAGE = Path(warpladder.__file__).parent
#: Folders whose modules may import from an edited one.
READERS = "trainers/native/kernels/*.py", "trainers/native/threads/*.py", "ops/tables/loops.py"
#: Machine code stays loaded: a program that is gone may have left a thread that ends in it.
KEPT: list[Any] = []


@contextmanager
def edited_modules(file: str, before: str, after: str) -> Iterator[None]:
    """Context in which `before` reads `after` in a file of the package, given by its path within it."""
    text = (PACKAGE / file).read_text(encoding="utf-8")
    assert occurrences(text, before), f"{file} has no text {before!r}"
    names = [_name(Path(file)), *_readers(file)]
    held = {name: sys.modules[name] for name in names if name in sys.modules}
    folder, stored = jit_cache.cache_folder, machine_code._stored
    loaded = {function: machine_code._loaded.pop(function) for function in _of(names)}
    fresh: dict[CompiledFunction, MachineCode] = {}

    def compiled(function: CompiledFunction) -> MachineCode | None:
        if function.module not in names:
            return stored(function)
        if function not in fresh:
            from warpladder.trainers.native.compiler.functions import compile_now

            fresh[function] = compile_now(function)
        return fresh[function]

    try:
        _forget_optimizers()
        jit_cache.cache_folder = lambda: None  # type: ignore[assignment]
        machine_code._stored = compiled
        for name in names:
            source = edited(text, before, after) if name == names[0] else _file(name).read_text(encoding="utf-8")
            sys.modules[name] = _executed(name, source)
        yield
    finally:
        jit_cache.cache_folder, machine_code._stored = folder, stored
        KEPT.extend(machine_code._loaded.pop(function) for function in _of(names))
        machine_code._loaded.update(loaded)
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(held)
        _forget_optimizers()


def _forget_optimizers() -> None:
    """Let optimizers' loops be found and compiled anew: an edit of one that has run would change nothing."""
    base._form.cache_clear()
    loops.compiled_rule.cache_clear()


def module(file: str) -> Any:
    """The module that a file of the package has now."""
    __import__(_name(Path(file)))
    return sys.modules[_name(Path(file))]


def _of(names: list[str]) -> list[CompiledFunction]:
    return [function for function in machine_code._loaded if function.module in names]


def _name(path: Path) -> str:
    return ".".join(("warpladder", *path.with_suffix("").parts))


def _file(name: str) -> Path:
    return PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py")


def _readers(file: str) -> list[str]:
    """Modules that import from a file, or from one that does, each after those that it imports from."""
    paths = {path: path.read_text(encoding="utf-8") for pattern in READERS for path in sorted(PACKAGE.glob(pattern))}
    found, new = list[Path](), [Path(file)]
    while new:
        wanted = new.pop(0)
        here = (
            rf"from \.(\.kernels\.)?{wanted.stem} import"
            if "native" in wanted.parts
            else rf"from \.\.{wanted.parent.name}\.{wanted.stem} import"
        )
        for path, text in paths.items():
            inside = path.relative_to(PACKAGE)
            if re.search(here, text) and inside != Path(file):
                new.append(inside)
                found = [*(each for each in found if each != inside), inside]
    return [_name(each) for each in found]


def _executed(name: str, text: str) -> ModuleType:
    """Module of a source, under the name and from the file of one of the package."""
    out = ModuleType(name)
    out.__package__, out.__file__ = name.rpartition(".")[0], str(_file(name))
    sys.modules[name] = out
    exec(compile(text, out.__file__, "exec"), out.__dict__)
    return out
