"""User's Python file: run as a module, with every error reported in one line."""

from __future__ import annotations

import hashlib
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from ..errors import WarpladderError
from .whole import read_whole

Result = TypeVar("Result")

#: Modules by path, with the hash of their text: a file runs again only after a change.
_known: dict[Path, tuple[str, ModuleType]] = {}


def run_file(path: str | os.PathLike[str], error: type[WarpladderError]) -> ModuleType:
    """Module of a Python file; a second call returns the same one, unless the file has changed.

    It can import files of its folder, with lower priority than installed packages: a file numpy.py does not hide NumPy.
    error : class of the error if the file is missing, no Python, or fails: one line with file, line number and reason.
    """
    name = os.fspath(path)
    try:
        content = read_whole(Path(path).expanduser())
        at = Path(path).expanduser().resolve()
    except OSError as trouble:
        raise error(f"{name}: {trouble.strerror or trouble}") from None
    digest = hashlib.sha256(content).hexdigest()
    known = _known.get(at)
    if known is not None and known[0] == digest:
        return known[1]
    try:
        code = compile(content, str(at), "exec")
    except SyntaxError as trouble:
        where = f", line {trouble.lineno}" if trouble.lineno else ""
        raise error(f"{name}{where}: is not Python: {trouble.msg}") from None
    except ValueError as trouble:
        raise error(f"{name}: is not Python: {trouble}") from None
    module = ModuleType(f"{at.stem}_{digest[:12]}")
    module.__file__ = str(at)
    sys.modules[module.__name__] = module  # dataclasses and pickles of worker processes look their module up
    if str(at.parent) not in sys.path:
        sys.path.append(str(at.parent))
    try:
        with reported(name, at, error):
            exec(code, module.__dict__)
    except BaseException:
        del sys.modules[module.__name__]
        raise
    _known[at] = digest, module
    return module


def call(
    module: ModuleType, name: str | os.PathLike[str], error: type[WarpladderError], work: Callable[[], Result]
) -> Result:
    """Result of a function of a user's module; errors are reported as by `run_file`."""
    with reported(os.fspath(name), Path(module.__file__ or ""), error):
        return work()


@contextmanager
def reported(name: str, at: Path, error: type[WarpladderError]) -> Iterator[None]:
    """Context that replaces errors of a user's file by one line with the last line number in this file."""
    try:
        yield
    except (Exception, SystemExit) as trouble:
        lines = [frame.lineno for frame in traceback.extract_tb(trouble.__traceback__) if frame.filename == str(at)]
        where = f", line {lines[-1]}" if lines else ""
        kind = "" if isinstance(trouble, WarpladderError) else f"{type(trouble).__name__}: "
        lacks = f": install it for {sys.executable}" if isinstance(trouble, ModuleNotFoundError) else ""
        raise error(f"{name}{where}: {kind}{' '.join(str(trouble).split())}{lacks}") from trouble


#: Prefix of the names of warpladder's own modules.
OURS = f"{__name__.partition('.')[0]}."


def home(kind: type) -> str:
    """Origin of a class: the name of the user's file, else the module."""
    ran = next((at.name for at, (_, module) in _known.items() if module.__name__ == kind.__module__), None)
    return ran or kind.__module__


def origins(kinds: Iterable[type]) -> dict[str, Any]:
    """JSON from which `bring` imports classes of user files in another process; empty without any.

    Raises ImportError: a class is defined in the program itself, which no other process can import.
    """
    modules = dict.fromkeys(kind.__module__ for kind in kinds if not kind.__module__.startswith(OURS))
    if "__main__" in modules:
        raise ImportError(
            "a layer, optimizer or schedule stands in the program itself, which no other process can import: "
            "put it into a file of its own"
        )
    files = {module.__name__: str(at) for at, (_, module) in _known.items()}
    return {"path": sys.path, "files": [files.get(name) or name for name in modules]} if modules else {}


def bring(origin: Mapping[str, Any]) -> None:
    """Import the modules and files that `origins` lists, in their order."""
    sys.path.extend(place for place in origin.get("path", ()) if place not in sys.path)
    for name in origin.get("files", ()):
        if name.endswith(".py"):
            run_file(name, WarpladderError)
        else:
            import_module(name)
