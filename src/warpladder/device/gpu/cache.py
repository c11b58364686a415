"""Disk cache of compiled kernels: a kernel is compiled once for each state of its source.

An entry's key is a hash of everything that decides the machine code: the source with its headers inserted, the
requested kernels, the options, the architecture and the compiler.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from hashlib import sha256

from ...files.cache import Cache, CacheLimits
from .. import KernelSource, Resources
from .compile import OPTIONS, Binary, compile, header_folders, version

CUBINS = Cache(
    "cubin", "compiled kernels", "every start compiles them again", mark=b"warpladder cubin 2\n", suffix=".cubin",
    limits=CacheLimits(size=256 << 20),
)  # fmt: skip


def compiled(source: KernelSource, names: tuple[str, ...], arch: str) -> Binary:
    """Binary of `compile`, from the cache if it has one."""
    binary = cached(source, names, arch)
    if binary is None:
        binary = compile(source, names, arch)
        CUBINS.write(key(source, names, arch), encode(binary))
    return binary


def cached(source: KernelSource, names: tuple[str, ...], arch: str) -> Binary | None:
    """Binary in the cache; None if there is none with all of these kernels."""
    content = CUBINS.read(key(source, names, arch))
    binary = None if content is None else decode(content)
    return binary if binary is not None and set(names) <= set(binary.resources) else None


def key(source: KernelSource, names: tuple[str, ...], arch: str) -> str:
    """Hash of everything on which the machine code depends."""
    headers = [(str(folder), folder.stat().st_mtime_ns) for folder in header_folders(source)]
    return sha256(json.dumps([source.digest, names, arch, OPTIONS, version(), headers]).encode()).hexdigest()[:40]


def encode(binary: Binary) -> bytes:
    """Content of a cache entry: a line of JSON, then the machine code."""
    facts = {"symbols": binary.symbols, "resources": {name: asdict(used) for name, used in binary.resources.items()}}
    return json.dumps(facts).encode() + b"\n" + binary.cubin


def decode(content: bytes) -> Binary | None:
    """Binary of a cache entry's content; None if another version wrote it."""
    facts, _, cubin = content.partition(b"\n")
    try:
        known = json.loads(facts)
        return Binary(cubin, known["symbols"], {name: Resources(**used) for name, used in known["resources"].items()})
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
