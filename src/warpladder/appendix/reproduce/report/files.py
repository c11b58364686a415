"""Pictures of a reproduced report as files: SVG for documents, PNG for other programs."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from ....files.atomic import write_atomically
from ....results.report.figures.alone import alone, as_png
from ....results.report.figures.svg import Canvas, NoPictures
from ..results import Reproduction
from . import pictures


def write_pictures(found: Reproduction, folder: Path) -> int:
    """Write every picture of a reproduction into a folder; return their number, 0 without matplotlib."""
    count = 0
    folder.mkdir(exist_ok=True)
    for name, alt, draw in _drawn(found):
        try:
            write_atomically(folder / f"{name}.svg", alone(alt, draw))
            _write(folder / f"{name}.png", as_png(draw))
        except NoPictures:
            return count
        count += 1
    for section in found.sections:
        for photo in section.photos:
            _write(folder / f"{_file_name(photo.title)}.png", base64.b64decode(photo.png))
            count += 1
    return count


def _drawn(found: Reproduction) -> Iterator[tuple[str, str, Callable[[Canvas], None]]]:
    for section in found.sections:
        for lines in section.lines:
            yield _file_name(lines.title), pictures.lines_alt(lines), pictures.lines(lines)
        for bars in section.bars:
            yield _file_name(bars.title), pictures.bars_alt(bars), pictures.bars(bars)


def _file_name(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:80]


def _write(path: Path, content: bytes) -> None:
    fresh = path.with_name(f".{path.name}.tmp")
    try:
        fresh.write_bytes(content)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
