"""IDX, the file format of MNIST: a big-endian header and unsigned bytes.

Bytes 0-1 are zero, byte 2 is the type (0x08: unsigned byte), byte 3 the number of dimensions. One 32-bit size for each
dimension follows, then the values, the last dimension fastest.
"""

from __future__ import annotations

import math
import struct

import numpy as np

from .reader import LIMIT, Reader
from .sniff import looks_like

_TYPES = {
    0x09: "signed bytes",
    0x0B: "16-bit integers",
    0x0C: "32-bit integers",
    0x0D: "32-bit floats",
    0x0E: "64-bit floats",
}
_KINDS = {1: "labels", 3: "images"}


def read_images(reader: Reader) -> np.ndarray:
    """Images (images, height, width) uint8 of an IDX file. Raises `DataError` for any other file."""
    return _read(reader, 3)


def read_labels(reader: Reader, classes: int = 10) -> np.ndarray:
    """Labels (labels,) uint8 of an IDX file, all below `classes`. Raises `DataError` for any other file."""
    labels = _read(reader, 1)
    if labels.size and not labels.max() < classes:
        first = int(np.argmax(labels >= classes))
        reader.fail(f"label {labels[first]} at position {first} is out of range: labels are 0 to {classes - 1}")
    return labels


def _read(reader: Reader, rank: int) -> np.ndarray:
    wanted = f"an IDX file of {_KINDS[rank]}"
    magic = reader.read(4)
    if not magic:
        reader.fail(f"is empty where {wanted} is wanted: fetch the file again")
    if magic != bytes((0, 0, 8, rank)):
        reader.fail(_wrong_magic(magic, reader, wanted, rank))
    header = reader.read(4 * rank)
    if len(header) < 4 * rank:
        reader.fail(f"ends inside its header: it is cut off or not {wanted}")
    shape = struct.unpack(f">{rank}I", header)
    size = math.prod(shape)
    claim = " x ".join(str(n) for n in shape)
    if size == 0:
        reader.fail(f"its header says {claim}: it holds no {_KINDS[rank]}")
    if size > LIMIT:
        reader.fail(
            f"its header says {claim}, {size:,} bytes, which no data set here has: it is damaged or not {wanted}"
        )
    values = reader.take(size)
    if len(values) < size:
        reader.fail(
            f"its header says {claim}, {size:,} bytes, but {len(values):,} follow: it is cut off, fetch it again"
        )
    if reader.read(1):
        reader.fail(
            f"its header says {claim}, {size:,} bytes, but more follow: header and content disagree, fetch it again"
        )
    return values.reshape(shape)


def _wrong_magic(magic: bytes, reader: Reader, wanted: str, rank: int) -> str:
    if len(magic) == 4 and magic[:2] == b"\x00\x00" and 1 <= magic[3] <= 4:
        if magic[2] in _TYPES:
            return f"holds {_TYPES[magic[2]]} where {wanted} in unsigned bytes is wanted"
        if magic[2] == 8 and magic[3] not in _KINDS:
            return f"holds an array of {magic[3]} dimensions where {wanted} is wanted, which has {rank}"
    return f"looks like {looks_like(magic + reader.read(300))} where {wanted} is wanted"
