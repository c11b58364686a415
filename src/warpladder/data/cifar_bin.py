"""The CIFAR-10 binary format: records of one label byte and 3,072 pixel bytes (three planes of 32 x 32)."""

from __future__ import annotations

import numpy as np

from ..errors import DataError
from .sniff import looks_like

SHAPE = (3, 32, 32)
CLASSES = 10
RECORD = 1 + 3 * 32 * 32


def parse_batch(content: bytes | bytearray | memoryview, name: str) -> np.ndarray:
    """(records, 3073) uint8, a view of `content`: the label, then the pixels in the order of `SHAPE`.

    Raises
    ------
    DataError
        Where the content is not whole records with labels 0 to 9; `name` is what it calls the file.
    """
    if not content:
        raise DataError(f"{name}: is empty where a CIFAR-10 batch is wanted: fetch the file again")
    if len(content) % RECORD:
        raise DataError(f"{name}: {_wrong_size(content)}")
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    labels = records[:, 0]
    if not labels.max() < CLASSES:
        first = int(np.argmax(labels >= CLASSES))
        raise DataError(
            f"{name}: label {labels[first]} of record {first} is out of range: labels are 0 to 9, so this is no CIFAR-10 batch"
        )
    return records


def _wrong_size(content: bytes | bytearray | memoryview) -> str:
    size = len(content)
    if size % (RECORD + 1) == 0:
        return f"{size:,} bytes are whole records of 3,074: this is CIFAR-100, CIFAR-10 has records of 3,073"
    words = looks_like(bytes(content[:300]))
    if not words.startswith("unknown"):
        return f"looks like {words} where a CIFAR-10 batch (cifar-10-binary.tar.gz) is wanted"
    return f"{size:,} bytes are not whole records of 3,073: it is cut off or no CIFAR-10 batch, fetch it again"
