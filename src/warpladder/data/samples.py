"""Samples to predict, from one file: IDX images, a CIFAR batch, or a CSV table with or without labels."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import DataError
from .cifar10 import SHAPE, parse_batch
from .columns import places_of
from .idx import read_images
from .reader import opened
from .tables.numeric import read_table

_LIMIT = 2**32  # bytes of text, unpacked
_IDX_IMAGES = b"\x00\x00\x08\x03"


def load_samples(
    path: str | os.PathLike[str], shape: tuple[int, ...], numbers: bool = False, columns: Sequence[str] = ()
) -> np.ndarray:
    """Samples in a file, for a net that takes samples of this shape.

    Parameters
    ----------
    path : path
        File, plain or gzipped; its content decides the format. The first column of a table is left out if it is a
        label.
    shape : tuple of int
        Shape of one sample.
    numbers : bool
        True if cells of a table may be any finite numbers.
    columns : sequence of str
        Names of the features of the training data, by which a table's columns are found if its first line has names.

    Returns
    -------
    ndarray
        (samples, *shape) uint8; float32 from a table of any numbers.

    Raises
    ------
    DataError
        The file is missing, damaged, or has samples of another size.
    """
    path = Path(path)
    with opened(path, _LIMIT) as reader:
        if reader.peek(4) == _IDX_IMAGES:
            x = read_images(reader)
        elif shape == SHAPE and ".bin" in path.suffixes:
            x = parse_batch(reader.rest(), reader.name)[:, 1:]
        else:
            table = read_table(reader, names=True, numbers=numbers)
            x = table.cells
            header = list(table.header or ())[-x.shape[1] :]
            if columns and header:
                first = int(header[0].lower() == "label" and header[0] not in columns)
                x = x[:, first:][:, places_of(str(path), header[first:], columns)]
            elif table.names is None and x.shape[1] == math.prod(shape) + 1:
                if table.header and table.header[0].lower() != "label":
                    reader.fail(
                        f"has {x.shape[1]} columns where {x.shape[1] - 1} pixels are wanted, "
                        f"and the first is {table.header[0]!r}, not the label"
                    )
                x = x[:, 1:]
    fits = math.prod(x.shape[1:]) == math.prod(shape) and (x.ndim == 2 or len(shape) == 1 or x.shape[1:] == shape[1:])
    if not fits:
        found, wanted = (" x ".join(map(str, dims)) for dims in (x.shape[1:], shape))
        raise DataError(f"{path}: holds samples of {found} pixels, the net takes {wanted}")
    return np.ascontiguousarray(x).reshape(len(x), *shape)
