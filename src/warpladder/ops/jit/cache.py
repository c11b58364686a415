"""`compiled`: numba.njit with a cache on disk that cannot go stale, and that a comment does not empty.

numba keys its cache by the text of the function's own source file and by the line where the function stands: it
compiles again after an edit of a comment, and does not notice a change in a function or constant that the compiled one
imports. Here every state of the sources has a folder of its own, named by a hash of what all modules that compiled code
can reach say, without comments and docstrings, of numba and LLVM, and of the CPU; in it a function goes by its place
among the module's functions.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import shutil
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from .compile_time import listen
from .target import versions

PACKAGE = Path(__file__).resolve().parents[2]

#: What compiled code can reach: imports run one way, and kernels live in ops and trainers, which may import no more
#: than these.
REACHABLE = (
    "errors/**/*.py",
    "nets/**/*.py",
    "config/**/*.py",
    "optimizers/**/*.py",
    "data/order.py",
    "ops/**/*.py",
    "trainers/**/*.py",
)

#: Of the latest states of the sources. Others are deleted when nobody has used them for a day.
KEPT_FOLDERS = 8
DAY = 86_400

PROCESS = uuid.uuid4().hex[:12]

_decorating = threading.Lock()


def compiled(function: Callable | None = None, /, **options: Any) -> Any:
    """Compile a function with `numba.njit` and these options, and keep the machine code in the user's cache folder.

    Use it as `@compiled` or `@compiled(error_model="numpy", ...)`. Other threads of Python go on while it runs
    (`nogil`): a step of the loops can take a second. Where the folder cannot be written a warning says so, once, and
    the function is compiled anew in every process.
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
    with _decorating:  # numba reads the folder while it decorates; code that is not ours keeps its own
        before = settings.CACHE_DIR
        settings.CACHE_DIR = str(folder)
        try:
            dispatcher = numba.njit(cache=True, **options)(function)
        finally:
            settings.CACHE_DIR = before
    if kept := getattr(dispatcher, "_cache", None):  # absent under NUMBA_DISABLE_JIT
        _name(kept, function)
        kept.save_overload = _forgiving(kept.save_overload)
    return dispatcher


def _name(kept: Any, function: Callable) -> None:
    """Give a function's index a name that its line has no part in, and a stamp of what its file says: the folder does
    not know files of others.
    """
    line, base, stamp = function.__code__.co_firstlineno, kept._impl.filename_base, kept._cache_file._source_stamp
    with suppress(OSError):  # typed into a notebook, it has no file
        lines, stamp = _file(inspect.getfile(function))
        base = base.replace(f"-{line}.", f"-number{lines.index(line)}.") if line in lines else base
    index = type(kept._cache_file)(cache_path=kept._cache_path, filename_base=base, source_stamp=stamp)
    # Two processes that compile different signatures at once would give both the same file name, and one the other's
    # code.
    index._data_name_pattern = index._data_name_pattern.replace("{number", PROCESS + ".{number")
    index._load_index = _or(dict, index._load_index)
    index._load_data = _or(_absent, index._load_data)
    kept._cache_file = index


def _or(instead: Callable[[], Any], read: Callable[..., Any]) -> Callable[..., Any]:
    """A way to read a file of the cache at which one that is damaged, cut short say, counts as absent: it is compiled
    and written anew.
    """

    def read_if_whole(*arguments: Any) -> Any:
        try:
            return read(*arguments)
        except (
            OSError,
            EOFError,
            ValueError,
            TypeError,
            KeyError,
            IndexError,
            AttributeError,
            ImportError,
            UnpicklingError,
        ):
            return instead()

    return read_if_whole


def _absent() -> None:
    """Machine code of a function for numba, which takes an OSError for code that is not there."""
    raise FileNotFoundError


def _forgiving(save: Callable[..., None]) -> Callable[..., None]:
    """A way to save compiled code at which a full disk costs a warning and not the training."""

    def save_if_possible(*arguments: Any) -> None:
        try:
            save(*arguments)
        except OSError as error:
            _warn_once(
                f"compiled code cannot be kept in {cache_folder()} ({error.strerror}): the next start compiles it again"
            )

    return save_if_possible


@cache
def _warn_once(message: str) -> None:
    warnings.warn(message, stacklevel=2)


@cache
def _file(path: str) -> tuple[list[int], str]:
    """The first line of every function of a file, decorators included, in order; and a hash of what the file says."""
    source = Path(path).read_bytes()
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    lines = sorted(min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) for node in functions)
    return lines, hashlib.sha256(meaning(source)).hexdigest()


@cache
def cache_folder() -> Path | None:
    """The folder of this state of the sources, made and tried; None where it cannot be written."""
    import platformdirs

    root = Path(platformdirs.user_cache_dir("warpladder")) / "numba"
    # a file that says that its folder is for sources like these: parsing them takes half a second
    seen = f"seen-{letter_by_letter()}"
    known = next(root.glob(f"*/{seen}"), None)
    folder = root / key() if known is None else known.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        (folder / seen).touch()
        folder.touch()
        _prune(root)
    except OSError as error:
        warnings.warn(
            f"compiled code cannot be kept in {folder} ({error.strerror}): every start compiles it again", stacklevel=3
        )
        return None
    return folder


def key() -> str:
    """A hash of everything that decides the machine code."""
    return _hash((name, meaning(source)) for name, source in _sources())


def letter_by_letter() -> str:
    """A hash of the same, but of all that stands in the sources: where it is the same, so is the key."""
    return _hash(_sources())


def _sources() -> Iterator[tuple[str, bytes]]:
    """The modules that compiled code can reach, each with its path in the package."""
    for path in sorted(p for pattern in REACHABLE for p in PACKAGE.glob(pattern)):
        yield path.relative_to(PACKAGE).as_posix(), path.read_bytes()


def _hash(modules: Iterable[tuple[str, bytes]]) -> str:
    """Of what modules say, of numba and LLVM, and of the CPU."""
    digest = hashlib.sha256(versions().encode())
    for name, said in modules:
        digest.update(f"{name} {len(said)}\n".encode() + said)
    return digest.hexdigest()[:20]


@lru_cache(maxsize=256)
def meaning(source: bytes) -> bytes:
    """What a module says to the compiler: its syntax tree, without comments, docstrings and places; of what does not
    parse, all of it.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return source
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and body and _is_text(body[0]):
            node.body = body[1:]
    return ast.dump(tree).encode()


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _prune(root: Path) -> None:
    folders = sorted((p for p in root.iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime, reverse=True)
    for old in folders[KEPT_FOLDERS:]:
        if time.time() - old.stat().st_mtime > DAY:
            shutil.rmtree(old, ignore_errors=True)
