"""A Python file of a user's: run as a module of its own, with every way in which it can fail told in one line."""

from __future__ import annotations

import hashlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from .errors import WarpladderError

Result = TypeVar("Result")

#: Modules by path, with the hash of the text that they were made of: a file is run again once it has changed, and only then.
_known: dict[Path, tuple[str, ModuleType]] = {}


def run_file(path: str | os.PathLike[str], error: type[WarpladderError]) -> ModuleType:
    """The module that a Python file makes.

    Files beside it can be imported from it, after everything that is installed: a file called numpy.py takes nobody's place.
    A second call gives the same module, unless the file was changed in between.

    Parameters
    ----------
    path : path
    error : type
        What is raised where the file is missing, is no Python, or fails while it runs: one line with the file, the line and the reason.
    """
    name = os.fspath(path)
    try:
        content = Path(path).expanduser().read_bytes()
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
        with told(name, at, error):
            exec(code, module.__dict__)
    except BaseException:
        del sys.modules[module.__name__]
        raise
    _known[at] = digest, module
    return module


def call(module: ModuleType, name: str | os.PathLike[str], error: type[WarpladderError], work: Callable[[], Result]) -> Result:
    """What a function of a user's module gives; what goes wrong in it is told as `run_file` tells it."""
    with told(os.fspath(name), Path(module.__file__ or ""), error):
        return work()


@contextmanager
def told(name: str, at: Path, error: type[WarpladderError]) -> Iterator[None]:
    """Turn what the code of a file raises into one line that names the file's own last line."""
    try:
        yield
    except (Exception, SystemExit) as trouble:
        lines = [frame.lineno for frame in traceback.extract_tb(trouble.__traceback__) if frame.filename == str(at)]
        where = f", line {lines[-1]}" if lines else ""
        kind = "" if isinstance(trouble, WarpladderError) else f"{type(trouble).__name__}: "
        raise error(f"{name}{where}: {kind}{' '.join(str(trouble).split())}") from trouble
