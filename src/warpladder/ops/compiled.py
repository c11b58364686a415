"""`compiled`: numba.njit with a cache on disk that cannot go stale.

numba keys its cache by the function's own source file; it does not notice a change in a function
or constant that the compiled one imports. Here every state of the sources has a folder of its own,
named by a hash of all modules that compiled code can reach, of numba and LLVM, and of the CPU.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parent.parent

#: What compiled code can reach: imports run one way, and kernels live in ops and trainers, which may import no more than these.
REACHABLE = ("errors.py", "nets.py", "config.py", "order.py", "params.py", "ops/**/*.py", "trainers/**/*.py")

#: Of the latest states of the sources. Others are deleted when nobody has used them for a day.
KEPT_FOLDERS = 8
DAY = 86_400

PROCESS = uuid.uuid4().hex[:12]

_decorating = threading.Lock()


def compiled(function: Callable | None = None, /, **options: Any) -> Any:
    """Compile a function with `numba.njit` and these options, and keep the machine code in the user's cache folder.

    Use it as `@compiled` or `@compiled(nogil=True, ...)`. Where the folder cannot be written a warning
    says so, once, and the function is compiled anew in every process.
    """
    import numba

    if function is None:
        return lambda f: compiled(f, **options)
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
        # Two processes that compile different signatures at once would give both the same file name, and one the other's code.
        kept._cache_file._data_name_pattern = kept._cache_file._data_name_pattern.replace("{number", PROCESS + ".{number")
    return dispatcher


@cache
def cache_folder() -> Path | None:
    """The folder of this state of the sources, made and tried; None where it cannot be written."""
    import platformdirs

    root = Path(platformdirs.user_cache_dir("warpladder")) / "numba"
    folder = root / key()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        folder.touch()
        _prune(root)
    except OSError as error:
        warnings.warn(f"compiled code cannot be kept in {folder} ({error.strerror}): every start compiles it again", stacklevel=3)
        return None
    return folder


def key() -> str:
    """A hash of everything that decides the machine code."""
    import llvmlite
    import llvmlite.binding as llvm
    import numba

    features = llvm.get_host_cpu_features().flatten()
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__} {llvm.get_host_cpu_name()} {features}".encode())
    for path in sorted(p for pattern in REACHABLE for p in PACKAGE.glob(pattern)):
        source = path.read_bytes()
        digest.update(f"{path.relative_to(PACKAGE).as_posix()} {len(source)}\n".encode() + source)
    return digest.hexdigest()[:20]


def _prune(root: Path) -> None:
    folders = sorted((p for p in root.iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime, reverse=True)
    for old in folders[KEPT_FOLDERS:]:
        if time.time() - old.stat().st_mtime > DAY:
            shutil.rmtree(old, ignore_errors=True)
