"""Source text of a rung, for the results: the page of a climb shows the timed code."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
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


def confirmed(named: Mapping[str, Sequence[str]], path: str | None) -> dict[str, tuple[str, ...]]:
    """Texts that the process of a user's file names, but only where they stand in the file of that name, if it is the
    user's or of the package; and the user's file as it is.
    """
    files = [] if path is None else [Path(path).expanduser().resolve()]
    own, found = {_name(file): file for file in files}, dict[str, tuple[str, ...]]()
    for name, file in own.items():
        with suppress(OSError, UnicodeDecodeError):
            found[name] = _lines(_read(file)[1])
    for name, lines in named.items():
        place = name.partition(", ")[0]
        file = own.get(place, PACKAGE / place)
        if not file.is_file() or _stands_in(_read(file)[1], lines):
            found.setdefault(name, tuple(lines))
    return found


def _stands_in(text: str, lines: Sequence[str]) -> bool:
    """True if these lines follow each other in a text."""
    return _joined(lines[:MOST]) in _joined(_lines(text, most=0))


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(["", *lines, ""])


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


def _lines(text: str, most: int = MOST) -> tuple[str, ...]:
    """Printable lines of a text without trailing blanks, at most `most`, or all if it is 0."""
    lines = ["".join(c if c.isprintable() else "?" for c in line.expandtabs(4)).rstrip() for line in text.splitlines()]
    left = len(lines) - most if most else 0
    return tuple([*lines[:most], f"({left:,} more lines)"] if left > 0 else lines)
