"""Reader of feature files: sizes and labels when the file is opened, features batch by batch."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...data.sniff import other_kind
from ...errors import DataError
from ...files.npy import map_npy
from .extraction import PARTS
from .write import ENDINGS, FORMAT, KEY, NO_SUM, labels_path

#: Numbers in a batch that is read: 64 MB.
BATCH = 1 << 24


@dataclass(frozen=True)
class FeatureFile:
    """Opened file of features; the features themselves are not in memory.

    parts : (samples, width) of each part. labels : (samples,) whole numbers, for each part with labels.
    document : origin of the features, as `write.described` makes it; empty for a .npy file.
    """

    path: Path
    parts: dict[str, tuple[int, int]]
    labels: dict[str, np.ndarray]
    document: dict[str, Any]

    def batches(self, part: str) -> Iterator[np.ndarray]:
        """Features of a part in order, in batches (rows, width) float32. Raises `DataError` if the file changed or
        is damaged.
        """
        samples, width = self.parts[part]
        rows = max(1, BATCH // width)
        try:
            if self.path.suffix == ".npy":
                values = np.load(self.path, mmap_mode="r", allow_pickle=False)
                for first in range(0, samples, rows):
                    yield np.ascontiguousarray(values[first : first + rows], np.float32)
                return
            yield from self._slices(f"{part}_features", samples, rows)
        except OSError as error:
            raise DataError(f"{self.path}: cannot be read: {error.strerror or error}") from None

    def _slices(self, name: str, samples: int, rows: int) -> Iterator[np.ndarray]:
        from safetensors import safe_open

        with safe_open(self.path, framework="numpy") as file:
            values = file.get_slice(name)
            for first in range(0, samples, rows):
                yield values[first : min(first + rows, samples)]

    def check(self) -> None:
        """Read the whole file and raise `DataError` if its checksum is not the stored one."""
        wanted = self.document.get("crc32")
        if wanted in (None, NO_SUM):
            return
        found = 0
        with open(self.path, "rb") as file:
            file.seek(8 + int.from_bytes(file.read(8), "little"))
            while chunk := file.read(1 << 24):
                found = zlib.crc32(chunk, found)
        if f"{found:08x}" != wanted:
            raise DataError(
                f"{self.path}: is damaged: its numbers are not those that were written; write it again with "
                "warpladder features"
            )


def open_features(path: Path) -> FeatureFile:
    """Open a .safetensors file of features, or a .npy file with labels next to it.

    Raises DataError: the file is missing, damaged or of another kind.
    """
    if path.suffix not in (".safetensors", ".npy"):
        why = (
            "a table is for other programs"
            if path.suffix == ".csv"
            else f"features lie in files that end in {', '.join(ENDINGS[:2])}"
        )
        raise DataError(f"{path}: {why}: give a .safetensors or .npy file of warpladder features")
    try:
        if not path.is_file():
            raise DataError(
                f"{path}: {'is a folder' if path.is_dir() else 'there is no such file'}: warpladder features writes one"
            )
        return _npy(path) if path.suffix == ".npy" else _safetensors(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None


def _safetensors(path: Path) -> FeatureFile:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get(KEY)
            if text is None:
                raise DataError(
                    f"{path}: is a safetensors file, but none of features: warpladder features makes one of a "
                    "checkpoint"
                )
            names = set(file.keys())
            parts, labels = {}, {}
            for part in PARTS:
                if f"{part}_features" in names:
                    values = file.get_slice(f"{part}_features")
                    if values.get_dtype() != "F32" or len(values.get_shape()) != 2:
                        raise DataError(f"{path}: is damaged: its {part} features are no table of float32")
                    parts[part] = (values.get_shape()[0], values.get_shape()[1])
                if f"{part}_labels" in names:
                    labels[part] = file.get_tensor(f"{part}_labels")
            document = json.loads(text)
    except DataError:  # which is a ValueError
        raise
    except SafetensorError as error:
        reason = " ".join(str(error).split()).removeprefix("Error while deserializing header: ")
        kind = other_kind(path)
        why = f": it looks like {kind}" if kind else f" ({reason:.80}): it is truncated, damaged or something else"
        raise DataError(f"{path}: is not a whole file of features{why}") from None
    except ValueError:
        raise DataError(f"{path}: is damaged: its description cannot be read") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise DataError(f"{path}: is of another version of warpladder: write it again with warpladder features")
    return _checked(FeatureFile(path, parts, labels, document))


def _npy(path: Path) -> FeatureFile:
    """Matrix of a .npy file as the part "train", with the labels of its label file if that exists."""
    values = _array(path)
    if values.ndim != 2 or values.dtype.kind not in "fiu":
        raise DataError(f"{path}: features are a table of numbers (samples, width), got {values.shape} {values.dtype}")
    labels_file = labels_path(path)
    labels = {"train": np.asarray(_array(labels_file))} if labels_file.is_file() else {}
    return _checked(FeatureFile(path, {"train": values.shape}, labels, {}))


def _array(path: Path) -> np.ndarray:
    try:
        return map_npy(path)
    except ValueError as error:
        kind = other_kind(path)
        why = f"it looks like {kind}" if kind else " ".join(str(error).split())
        raise DataError(f"{path}: cannot be read as a .npy file: {why}") from None


def _checked(file: FeatureFile) -> FeatureFile:
    if not file.parts:
        raise DataError(f"{file.path}: holds no features")
    for part, (samples, width) in file.parts.items():
        if not samples or not width:
            raise DataError(f"{file.path}: its {part} features are empty: {samples} samples of {width} numbers")
        labels = file.labels.get(part)
        if labels is not None and (labels.shape != (samples,) or labels.dtype.kind not in "iu"):
            raise DataError(
                f"{file.path}: there are {samples:,} {part} samples, but labels are {labels.shape} "
                f"{labels.dtype}: one whole number each is wanted"
            )
    return file
