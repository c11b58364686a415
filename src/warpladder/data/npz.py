"""Data set of arrays in an .npz file, as Keras stores MNIST: x_train, y_train, x_test and y_test. No pickle is
loaded.
"""

from __future__ import annotations

import os
import zipfile
import zlib

import numpy as np

from ..errors import DataError
from ..errors.arguments import listed
from .arrays import arrays
from .dataset import Dataset

_PARTS = ("train", "test", "valid")


def read_npz(path: str | os.PathLike[str]) -> Dataset:
    """Data set of a file's arrays; images may have their channels last.

    Raises
    ------
    DataError
        The file is damaged, has objects, or lacks an array; the message names its arrays.
    """
    name = os.fspath(path)
    try:
        with np.load(name, allow_pickle=False) as file:
            found = {key.lower(): file[key] for key in file.files}
    except (OSError, ValueError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise DataError(f"{name}: cannot be read ({' '.join(str(error).split()):.120})") from None
    if lacks := [key for key in ("x_train", "y_train", "x_test") if key not in found]:
        raise DataError(
            f"{name}: lacks {', '.join(lacks)}, and holds {listed(found)!r}: name the arrays x_train, y_train, "
            "x_test and y_test, or give them to wl.data.arrays"
        )
    x = found["x_train"]
    last = x.ndim == 4 and x.shape[3] in (1, 3, 4) and x.shape[1] not in (1, 3, 4)
    given = {f"{part}_{kind}": found.get(f"{kind}_{part}") for part in _PARTS for kind in "xy"}
    return arrays(**given, layout="NHWC" if last else None, name=name)  # type: ignore[arg-type]
