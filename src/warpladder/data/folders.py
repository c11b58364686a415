"""Data set of a folder with one folder of images for each class; or of train and test folders with such folders. Pillow
reads the images.
"""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from ..errors import DataError
from ..errors.arguments import listed
from . import cifar10, mnist
from .arrays import arrays
from .dataset import Dataset
from .local import archives
from .sniff import other_kind
from .subset import stratified
from .tables.load import is_table

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
#: Names, in lower case, of the folders of the parts of a data set.
PARTS = {"train": ("train", "training"), "test": ("test", "testing"), "valid": ("valid", "val", "validation")}


def read_folder(path: str | os.PathLike[str], seed: int = 0) -> Dataset:
    """Data set of the images in a folder: the names of the inner folders are the classes.

    seed : seed that draws a fifth of each class as test images, if there is no test folder.

    Raises
    ------
    DataError
        There are no images, or one is damaged or of another size; the message names it.
    """
    root = Path(path)
    parts = {part: next((each for each in _folders(root) if each.name.lower() in PARTS[part]), None) for part in PARTS}
    valid: dict[str, Any] = {}
    if parts["train"] is not None and _folders(parts["train"]):
        train_x, train_y = _images(parts["train"])
        test = parts["test"] or parts["valid"]
        if test is None:
            raise DataError(f"{root}: has a folder {parts['train'].name}, but none called test")
        test_x, test_y = _images(test, train_x[0])
        if parts["valid"] not in (None, test):
            valid_x, valid_y = _images(parts["valid"], train_x[0])
            valid = {"valid_x": np.stack(valid_x), "valid_y": valid_y}
    else:
        x, y = _images(root)
        train, _, held = stratified(str(root), np.array(y), seed, 0, True)
        train_x, train_y, test_x, test_y = ([part[at] for at in rows] for rows in (train, held) for part in (x, y))
        if not held.size:
            raise DataError(f"{root}: {len(x)} images are too few to draw a fifth of them to test with: add some")
    name = root.name or str(root)
    return arrays(np.stack(train_x), train_y, np.stack(test_x), test_y, layout="NCHW", name=name, **valid)


def _folders(folder: Path) -> list[Path]:
    """Folders in a folder in the order of their names, without hidden ones."""
    return sorted(each for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))


def _is_image(path: Path) -> bool:
    """True for the name of an image that is not hidden, as ._1.png of a Mac's archive is."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def read_images(path: Path, shape: tuple[int, ...]) -> tuple[list[str], np.ndarray]:
    """Names of the images at a path, and images (samples, *shape) uint8: one file, or those in a folder and its inner
    folders, in the order of their names. shape : of a net's samples, (channels, height, width) if they are images.

    Raises
    ------
    DataError
        There are no images, or one is damaged or of another size; the message names it.
    """
    found = [path] if path.is_file() else sorted(filter(_is_image, path.rglob("*")))
    if not found:
        raise DataError(f"{path}: holds no images ({', '.join(SUFFIXES)})")
    if len(shape) != 3:
        raise DataError(f"{path}: the net takes no images, but samples of shape {shape}")
    images = np.stack([_alike(file, shape, "the net takes") for file in found])
    return [os.fspath(file if path.is_file() else file.relative_to(path)) for file in found], images


def _alike(file: Path, shape: tuple[int, ...] | None, others: str) -> np.ndarray:
    """Image of a file. Raises `DataError` if it is damaged, or its shape is not that of the others."""
    image = _image(file)
    if shape is not None and image.shape != shape:
        raise DataError(
            f"{file}: is {_size(image.shape)}, {others} {_size(shape)}: bring all to one size and mode, as "
            f"`mogrify -resize {shape[2]}x{shape[1]}!` of ImageMagick does, or Image.resize of Pillow"
        )
    return image


def _images(folder: Path, like: np.ndarray | None = None) -> tuple[list[np.ndarray], list[str]]:
    """Images (channels, height, width) uint8 and class names, in the order of the files' names."""
    x: list[np.ndarray] = []
    y: list[str] = []
    for of_class in _folders(folder):
        for file in sorted(filter(_is_image, of_class.iterdir())):
            first = x[0] if x else like
            x.append(_alike(file, None if first is None else first.shape, "the images before it"))
            y.append(of_class.name)
    if not x:
        if instead := other_set(folder):
            raise DataError(f"{folder}: {instead}")
        raise DataError(
            f"{folder}: holds no folders of images: put the images of each class ({', '.join(SUFFIXES)}) into a folder "
            f"that has the class's name{_deeper(folder)}{archives(folder)}"
        )
    return x, y


def _deeper(folder: Path) -> str:
    """Clause on a folder in this one that has folders of images; "" without one."""
    for inner in _folders(folder):
        if any(_is_image(each) for of_class in _folders(inner) for each in of_class.iterdir()):
            return f"; {inner} has such folders"
    return ""


def other_set(folder: Path) -> str:
    """Clause on another data set whose files lie in a folder, and how it is loaded; "" if none is found."""
    name = mnist.found_in(folder) or ("cifar10" if cifar10.at_hand(folder) else "")
    if name:
        return (
            f"holds the files of {name}: --data {name} --data-dir {quote(str(folder))}, in Python "
            f"wl.data.load({name!r}, data_dir={str(folder)!r})"
        )
    if pickled := next((each for each in cifar10.PICKLED if (folder / each).exists()), ""):
        return f"holds {pickled}, a pickle, which is never loaded: --data cifar10 fetches the binary version"
    if hundred := cifar10.hundred_in(folder):
        return f"{'' if hundred == folder else f'{hundred.name} '}is {cifar10.HUNDRED}"
    if arrays := sorted(each for each in folder.iterdir() if each.suffix.lower() == ".npz"):
        return f"holds {_listed(arrays)}: --data {quote(str(arrays[0]))}, in Python wl.data.load({str(arrays[0])!r})"
    if tables := sorted(each for each in folder.iterdir() if is_table(each.name) and each.is_file()):
        first = next((each for each in tables if "train" in each.name), tables[0])
        pixels = f"; tables of pixels: --data csv --data-dir {quote(str(folder))}" if len(tables) > 1 else ""
        return (
            f"holds {_listed(tables)}: --data {quote(str(first))} --label NAME, in Python "
            f"wl.data.table({str(first)!r}, NAME){pixels}"
        )
    return ""


def _listed(files: list[Path]) -> str:
    return listed([each.name for each in files])


def _image(path: Path) -> np.ndarray:
    from PIL import Image

    try:
        with Image.open(path) as file:
            is_deep = file.mode.startswith("I") and not np.isin(np.asarray(file), range(256)).all()
            if file.mode == "F" or is_deep:
                raise ValueError("it has more than 8 bits for each pixel: bring it to 8, or give arrays as .npz")
            grey = file.mode in ("1", "L", "LA") or file.mode.startswith("I")
            pixels = np.asarray(file.convert("L" if grey else "RGB"), np.uint8)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        kind = other_kind(path)
        is_known = kind and not kind.endswith(" image")
        why = f"it looks like {kind}" if is_known else f"{' '.join(str(error).split()):.100}"
        raise DataError(f"{path}: is no image that can be read: {why}") from None
    return pixels[np.newaxis] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _size(shape: tuple[int, ...]) -> str:
    channels, height, width = shape
    return f"{width} x {height} pixels in {'grey' if channels == 1 else 'colour'}"
