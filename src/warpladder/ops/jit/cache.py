"""`compiled`: numba.njit with a disk cache that is never stale and that survives changed comments.

The key of numba's own cache is the text of the function's file and the function's line: a changed comment compiles
everything again, and a change in an imported function or constant goes unnoticed. Here each state of the sources has a
folder, named by a hash (sources.py); in it a function's key is its number among the module's functions.
"""

import inspect
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from ...files.cache import DAY, Cache, CacheLimits, why_not_writable
from .compile_time import listen
from .sources import exact_key, functions_of, key

#: A folder for each of the latest states of the sources; others are deleted after a day without use.
FOLDERS = Cache("numba", "compiled code", "the next start compiles it again", limits=CacheLimits(entries=8, young=DAY))
#: Part of the names of this process's files.
PROCESS = uuid.uuid4().hex[:12]
#: Errors of a damaged file, for instance a truncated one.
DAMAGE = (OSError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError, ImportError, UnpicklingError)

_decorating = threading.Lock()


def compiled(function: Callable | None = None, /, **options: Any) -> Any:
    """Compile a function with `numba.njit` and these options, and store the machine code in the user's cache folder.

    Use it as `@compiled` or `@compiled(error_model="numpy", ...)`. Other Python threads run meanwhile (`nogil`): a step
    of the loops can take a second. If the folder cannot be written, a warning reports it, and processes compile anew.
    """
    import numba

    if function is None:
        return lambda f: compiled(f, **options)
    options.setdefault("nogil", True)
    listen()
    folder = cache_folder()
    if folder is None:
        return numba.njit(**options)(function)
    settings: Any = numba.config
    with _decorating:  # numba reads its setting while it decorates; other packages' code keeps its own folder
        before = settings.CACHE_DIR
        settings.CACHE_DIR = str(folder)
        try:
            dispatcher = numba.njit(cache=True, **options)(function)
        finally:
            settings.CACHE_DIR = before
    if stored := getattr(dispatcher, "_cache", None):  # absent under NUMBA_DISABLE_JIT
        _name(stored, function)
        stored.save_overload = _warning(stored.save_overload)
    return dispatcher


def _name(stored: Any, function: Callable) -> None:
    """Name a function's index file by the function's number, not its line; stamp it with its source's hash."""
    index = stored._cache_file
    line, base, stamp = function.__code__.co_firstlineno, stored._impl.filename_base, index._source_stamp
    with suppress(OSError):  # a function typed into a notebook has no file
        lines, stamp = functions_of(inspect.getfile(function))
        base = base.replace(f"-{line}.", f"-number{lines.index(line)}.") if line in lines else base
    index = type(index)(cache_path=stored._cache_path, filename_base=base, source_stamp=stamp)
    # Two processes that compile different signatures at once would give both one file name.
    index._data_name_pattern = index._data_name_pattern.replace("{number", PROCESS + ".{number")
    index._load_index = _or(dict, index._load_index)
    index._load_data = _or(_absent, index._load_data)
    stored._cache_file = index


def _or(instead: Callable[[], Any], read: Callable[..., Any]) -> Callable[..., Any]:
    """Reader of cache files that treats a damaged file as absent: numba then compiles and writes it anew."""

    def read_if_whole(*arguments: Any) -> Any:
        try:
            return read(*arguments)
        except DAMAGE:
            return instead()

    return read_if_whole


def _absent() -> None:
    """Raise `FileNotFoundError`, by which numba learns that a function's machine code is absent."""
    raise FileNotFoundError


def _warning(save: Callable[..., None]) -> Callable[..., None]:
    """Writer of compiled code that warns when the disk is full, so that training goes on."""

    def save_if_possible(*arguments: Any) -> None:
        try:
            save(*arguments)
        except OSError as error:
            FOLDERS.warn(cache_folder() or FOLDERS.place(), str(error.strerror))

    return save_if_possible


def is_known() -> bool:
    """True if a folder for these very sources exists, so that `cache_folder` need not parse them."""
    root = FOLDERS.folder()
    return root is not None and _known(root) is not None


def _known(root: Path) -> Path | None:
    """Mark of these very sources in the folder of their state; None if there is none."""
    return next(root.glob(f"*/seen-{exact_key()}"), None)


@cache
def cache_folder() -> Path | None:
    """Cache folder for the present state of the sources; None, after one warning, if it cannot be written."""
    root = FOLDERS.folder()
    if root is None:
        return None
    # A file of this name marks the folder of these very sources: parsing them takes half a second.
    known = _known(root)
    folder = root / key() if known is None else known.parent
    reason = why_not_writable(folder)
    try:
        if reason is None:
            (folder / f"seen-{exact_key()}").touch()
            folder.touch()
            FOLDERS.prune()
    except OSError as error:
        reason = str(error.strerror)
    if reason is not None:
        FOLDERS.warn(folder, reason)
        return None
    return folder
