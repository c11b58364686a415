"""Writer of feature files, batch by batch; an interrupted write leaves no partial file."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ...checkpoint import clean_leftovers, replacing
from ...data import label_names
from ...errors import ConfigError, WarpladderError
from ...train.hidden import layer_shape
from .extraction import PARTS, Extraction

FORMAT = 1
KEY = "warpladder-features"
NO_SUM = "0" * 8  # placeholder of the checksum in the header, until it is known
ENDINGS = (".safetensors", ".npy", ".csv")
CSV_BYTES = 12  # approximate bytes of a number in a table

#: Called with the number of finished samples and of all samples.
Report = Callable[[int, int], None]


def check_ending(path: Path, parts: tuple[str, ...]) -> None:
    """Raise `ConfigError` if a file name has no ending of a feature file, or if its format cannot hold two parts."""
    if path.suffix not in ENDINGS:
        raise ConfigError(f"{path}: features are written to files in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}")
    if path.suffix != ".safetensors" and len(parts) > 1:
        raise ConfigError(
            f"{path}: a {path.suffix} file holds one part: name it with --split train or --split test, or "
            "write .safetensors"
        )


def labels_path(path: Path) -> Path:
    """Path of the labels next to a .npy file of features: x.npy has x.labels.npy."""
    return path.with_suffix(".labels.npy")


def write_features(
    path: Path, source: Extraction, parts: tuple[str, ...] = PARTS, report: Report = lambda done, total: None
) -> int:
    """Write the features and labels of parts ("train", "test") of a data set, batch by batch; return the file's size in
    bytes.

    path : its ending is the format: .safetensors holds all parts, with labels and origin; .npy holds (samples, width)
    float32 of one part, with labels in NAME.labels.npy; .csv has a row for each sample of one part, the label first.
    report : called after each batch.
    Raises ConfigError: the ending is none of these, or two parts are requested for a format with one.
    Raises WarpladderError: the disk is full, or the file cannot be written: an older file is unchanged.
    """
    check_ending(path, parts)
    total = sum(source.samples(part) for part in parts)
    clean_leftovers(path)
    with _as_errors(path):
        _check_room(path, total * source.width * (CSV_BYTES if path.suffix == ".csv" else 4))
        batches = _counted(source, parts, total, report)
        {".safetensors": _safetensors, ".npy": _npy, ".csv": _csv}[path.suffix](path, source, parts, batches)
        return path.stat().st_size


def described(source: Extraction) -> dict[str, Any]:
    """Description of the origin of a file's features: format, net, layer and weights. Files with different ones do
    not go together.
    """
    net = source.checkpoint.net
    return {
        "format": FORMAT, "net": net.name, "layer": source.layer, "kind": type(net.layers[source.layer]).__name__,
        "shape": list(layer_shape(net, source.layer)), "data": source.data.name,
        "class_names": list(label_names(source.data)), "weights": source.mark,
    }  # fmt: skip


def _counted(source: Extraction, parts: tuple[str, ...], total: int, report: Report) -> Iterator[np.ndarray]:
    done = 0
    for part in parts:
        for batch in source.batches(part):
            yield batch
            done += len(batch)
            report(done, total)


def _safetensors(path: Path, source: Extraction, parts: tuple[str, ...], batches: Iterator[np.ndarray]) -> None:
    """Write the header, then the labels of all parts, then their features; the checksum is written into the header
    last.
    """
    labels = {part: np.ascontiguousarray(y, "<i4") for part in parts if (y := source.labels(part)) is not None}
    tensors: dict[str, Any] = {}
    at = 0
    shapes: list[tuple[str, str, tuple[int, ...]]] = [(f"{part}_labels", "I32", y.shape) for part, y in labels.items()]
    shapes += [(f"{part}_features", "F32", (source.samples(part), source.width)) for part in parts]
    for name, kind, shape in shapes:
        size = 4 * int(np.prod(shape))
        tensors[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    with replacing(path) as file:
        file.write(_header(tensors, described(source), NO_SUM))
        found = 0
        for chunk in _chunks(labels.values(), batches):
            file.write(chunk)
            found = zlib.crc32(chunk, found)
        file.seek(0)
        file.write(_header(tensors, described(source), f"{found:08x}"))


def _chunks(labels: Any, batches: Iterator[np.ndarray]) -> Iterator[memoryview]:
    for y in labels:
        yield y.data.cast("B")
    for batch in batches:
        yield np.ascontiguousarray(batch, "<f4").data.cast("B")


def _header(tensors: dict[str, Any], document: dict[str, Any], checksum: str) -> bytes:
    """Header of a safetensors file: 8 bytes of length, and JSON with each tensor's offsets, padded to 8 bytes."""
    metadata = {KEY: json.dumps({**document, "crc32": checksum})}
    text = json.dumps({"__metadata__": metadata, **tensors}).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _npy(path: Path, source: Extraction, parts: tuple[str, ...], batches: Iterator[np.ndarray]) -> None:
    (part,) = parts
    labels = source.labels(part)
    with replacing(path) as file:
        shape = (source.samples(part), source.width)
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        for batch in batches:
            file.write(np.ascontiguousarray(batch, "<f4").data)
        if labels is not None:
            with replacing(labels_path(path)) as labels_file:
                np.lib.format.write_array(labels_file, labels, allow_pickle=False)


def _csv(path: Path, source: Extraction, parts: tuple[str, ...], batches: Iterator[np.ndarray]) -> None:
    (part,) = parts
    labels, names = source.labels(part), label_names(source.data)
    with replacing(path) as file:
        heads = [*([] if labels is None else ["label"]), *(f"f{number}" for number in range(source.width))]
        file.write((",".join(heads) + "\n").encode())
        done = 0
        for batch in batches:
            _rows(file, batch, None if labels is None else labels[done : done + len(batch)], names)
            done += len(batch)


def _rows(file: BinaryIO, batch: np.ndarray, labels: np.ndarray | None, names: tuple[str, ...]) -> None:
    """Write a batch as lines of a table, with nine significant digits, which distinguish all float32 numbers."""
    for row, values in enumerate(batch.tolist()):
        cells = [f"{value:.9g}" for value in values]
        if labels is not None:
            label = int(labels[row])
            cells.insert(0, _quoted(names[label]) if names else str(label))
        file.write((",".join(cells) + "\n").encode())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if set(name) & set(',"\n\r') else name


def _check_room(path: Path, size: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if size > free:
        raise WarpladderError(
            f"{path}: features take {size / 1e9:.3g} GB, and the disk has {free / 1e9:.3g} GB left: name a "
            "file elsewhere, or take fewer samples with --limit"
        )


@contextmanager
def _as_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise WarpladderError(f"{path}: could not be written: {error.strerror or error}") from None
