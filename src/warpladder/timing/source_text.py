"""Source text of a rung, for the results: the page of a climb shows the timed code."""

from __future__ import annotations

import inspect
from functools import lru_cache
from pathlib import Path

from ..trainers.base import Trainer

PACKAGE = Path(__file__).resolve().parent.parent

#: Lines of one text at most: no file of warpladder has more, but a user's file may.
MOST = 1000


def texts(trainer: Trainer, path: str | None) -> dict[str, tuple[str, ...]]:
    """Source lines of a loaded trainer by name: "ops/linear/tiled.cu", "trainers/kernelwise/feeds.py, SyncFeed".

    Parameters
    ----------
    trainer : Trainer
    path : str or None
        User's file of the rung, listed first; None for a rung of warpladder.
    """
    try:
        named = list(trainer.sources())
    except Exception:  # optional for readers: a rung keeps its time without it
        named = []
    found: dict[str, tuple[str, ...]] = {}
    for each in (*([] if path is None else [Path(path)]), *named):
        try:
            name, text = _read(each)
        except (
            OSError,
            TypeError,
            UnicodeDecodeError,
        ):  # a class of a file that was run as a program has no source text
            continue
        found.setdefault(name, _lines(text))
    return found


def _read(source: type | Path) -> tuple[str, str]:
    if isinstance(source, Path):
        return _name(source), source.read_text(encoding="utf-8-sig")
    return _name_and_text(source)


@lru_cache(256)  # Python parses a class's whole file to find it
def _name_and_text(kind: type) -> tuple[str, str]:
    return f"{_name(Path(inspect.getfile(kind)))}, {kind.__name__}", inspect.getsource(kind)


def _name(path: Path) -> str:
    full = path.resolve()
    if full.is_relative_to(PACKAGE):
        return full.relative_to(PACKAGE).as_posix()
    return path.name if path.is_absolute() else path.as_posix()


def _lines(text: str) -> tuple[str, ...]:
    """Printable lines of a text without trailing blanks, at most `MOST`."""
    lines = ["".join(c if c.isprintable() else "?" for c in line.expandtabs(4)).rstrip() for line in text.splitlines()]
    return tuple(lines if len(lines) <= MOST else [*lines[:MOST], f"({len(lines) - MOST:,} more lines)"])
