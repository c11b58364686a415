"""Arrays of an .npz file: a data set, as Keras stores MNIST (x_train, y_train, x_test and y_test), or samples to
predict. No pickle is loaded.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path

import numpy as np

from ..errors import DataError
from ..errors.arguments import listed
from ..errors.warning import warn
from .arrays import arrays
from .dataset import Dataset
from .reader import opened
from .sniff import looks_like

#: Names of the parts in the names of arrays.
_PARTS = {"train": ("train",), "test": ("test",), "valid": ("valid", "val", "validation")}


def read_npz(path: str | os.PathLike[str]) -> Dataset:
    """Data set of a file's arrays; images may have their channels last.

    Raises
    ------
    DataError
        The file is damaged, has objects, or lacks an array; the message names its arrays.
    """
    name, found = os.fspath(path), _arrays(path)
    if lacks := [key for key in ("x_train", "y_train", "x_test") if key not in found]:
        raise DataError(
            f"{name}: lacks {', '.join(lacks)}, and holds {listed(found)!r}: name the arrays x_train, y_train, "
            "x_test and y_test, or give them to wl.data.arrays"
        )
    named = {f"{part}_{kind}": [f"{kind}_{each}" for each in _PARTS[part]] for part in _PARTS for kind in "xy"}
    known = {key: next((each for each in names if each in found), "") for key, names in named.items()}
    if beyond := [key for key in found if key not in known.values()]:
        warn(f"{name}: {listed(map(repr, beyond))}: no part of a data set has such a name, and it is left out")
    last = _has_channels_last(found["x_train"])
    given = {key: found.get(each) for key, each in known.items()}
    return arrays(**given, layout="NHWC" if last else None, name=name)  # type: ignore[arg-type]


def read_samples(path: str | os.PathLike[str]) -> np.ndarray:
    """Samples to predict, (samples, ...): the array x or x_test of an .npz file, or its only one; that of an .npy file.

    Images with their channels last are returned with channels first.

    Raises
    ------
    DataError
        The file is damaged, has objects, or holds several arrays, none of them x or x_test; the message names them.
    """
    name, found = os.fspath(path), _arrays(path)
    only = list(found) if len(found) == 1 else []
    named = [key for key in ("x", "x_test", *only) if key in found]
    if not named:
        raise DataError(f"{name}: holds {listed(found)!r}: name the samples to predict x or x_test")
    x = found[named[0]]
    if x.ndim < 2:
        raise DataError(f"{name}: holds an array of shape {x.shape} where (samples, ...) is wanted")
    return np.ascontiguousarray(np.moveaxis(x, 3, 1)) if _has_channels_last(x) else x


def _arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Arrays of an .npz file by their names in lower case; that of an .npy file as "x"."""
    name = os.fspath(path)
    with opened(Path(path)) as reader:
        kind = "gzip data (unpack it first)" if reader.gzipped else looks_like(reader.peek(300))
    if not kind.startswith(("a zip archive", "a NumPy array file")):
        raise DataError(f"{name}: looks like {kind} where NumPy's arrays are wanted")
    try:
        loaded = np.load(name, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return {"x": loaded}
        with loaded as file:
            return {key.lower(): file[key] for key in file.files}
    except (OSError, ValueError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        what = "it is cut off, damaged or something else: make it once more"
        if "allow_pickle" in str(error):
            raise DataError(f"{name}: holds Python objects, which are never read: store numbers or names") from None
        raise DataError(f"{name}: cannot be read ({' '.join(str(error).split()):.120}): {what}") from None


def _has_channels_last(x: np.ndarray) -> bool:
    return x.ndim == 4 and x.shape[3] in (1, 3, 4) and x.shape[1] not in (1, 3, 4)
