"""Compiled kernels kept on disk, so that a kernel is compiled once for each state of its source.

An entry's name is a hash of all that decides the machine code: the source with its headers written in, the kernels
asked for, the options, the architecture and the compiler. Processes may write at the same time: a file appears whole.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from pathlib import Path

from ...files.atomic import write_atomically
from .. import Resources, Source
from .compile import OPTIONS, Binary, compile, header_folders, version

#: Bytes that all entries may take together; the least recently used go first.
BOUND = 256 << 20
MARK = b"warpladder cubin 2\n"
DAY = 86_400


def compiled(source: Source, names: tuple[str, ...], arch: str) -> Binary:
    """What `compile` gives, from the cache where it is there."""
    binary = kept(source, names, arch)
    if binary is None:
        binary = compile(source, names, arch)
        if path := _path(source, names, arch):
            _write(path, binary)
    return binary


def kept(source: Source, names: tuple[str, ...], arch: str) -> Binary | None:
    """What is in the cache, or None."""
    path = _path(source, names, arch)
    return _read(path, names) if path else None


def _path(source: Source, names: tuple[str, ...], arch: str) -> Path | None:
    place = folder()
    return place / f"{key(source, names, arch)}.cubin" if place else None


def key(source: Source, names: tuple[str, ...], arch: str) -> str:
    """A hash of everything that decides the machine code."""
    headers = [(str(place), place.stat().st_mtime_ns) for place in header_folders(source)]
    return sha256(json.dumps([source.digest, names, arch, OPTIONS, version(), headers]).encode()).hexdigest()[:40]


@cache
def folder() -> Path | None:
    """Where entries are, made and tried; None where it cannot be written, which a warning says once."""
    import platformdirs

    place = Path(platformdirs.user_cache_dir("warpladder")) / "cubin"
    try:
        place.mkdir(parents=True, exist_ok=True)
        if not os.access(place, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        warnings.warn(
            f"compiled kernels cannot be kept in {place} ({error.strerror}): every start compiles them again",
            stacklevel=3,
        )
        return None
    return place


def encode(binary: Binary) -> bytes:
    """An entry's bytes: a mark, a checksum of the rest, a line of JSON, the machine code."""
    facts = {"symbols": binary.symbols, "resources": {name: asdict(taken) for name, taken in binary.resources.items()}}
    rest = json.dumps(facts).encode() + b"\n" + binary.cubin
    return MARK + sha256(rest).hexdigest().encode() + b"\n" + rest


def decode(content: bytes) -> Binary | None:
    """The binary in an entry's bytes, or None where they are damaged or of another version."""
    mark, (digest, _, rest) = content[: len(MARK)], content[len(MARK) :].partition(b"\n")
    if mark != MARK or sha256(rest).hexdigest().encode() != digest:
        return None
    facts, _, cubin = rest.partition(b"\n")
    try:
        known = json.loads(facts)
        return Binary(cubin, known["symbols"], {name: Resources(**taken) for name, taken in known["resources"].items()})
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _read(path: Path, names: tuple[str, ...]) -> Binary | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    binary = decode(content)
    if binary is None or not set(names) <= set(binary.resources):
        return None
    with suppress(OSError):
        if time.time() - path.stat().st_mtime > DAY / 24:
            os.utime(path)  # used: it stays
    return binary


def _write(path: Path, binary: Binary) -> None:
    try:
        write_atomically(path, encode(binary))
    except OSError as error:
        warnings.warn(
            f"a compiled kernel cannot be kept in {path.parent} ({error.strerror}): it is compiled again next time",
            stacklevel=4,
        )
        return
    prune(path.parent, BOUND)


def prune(place: Path, bound: int) -> None:
    """Delete the least recently used entries until the others take no more than `bound` bytes, and what dead writers
    left.
    """
    found = []
    for entry in place.iterdir():
        with suppress(OSError):  # another process deleted it
            state = entry.stat()
            if entry.suffix == ".cubin":
                found.append((state.st_mtime, state.st_size, entry))
            elif time.time() - state.st_mtime > DAY:
                entry.unlink()
    held = sum(size for _, size, _ in found)
    for _, size, entry in sorted(found):
        if held <= bound:
            break
        with suppress(OSError):
            entry.unlink()
        held -= size
