"""Kind of a file by its first bytes, for error messages."""

from __future__ import annotations

from pathlib import Path

_ARRAY = "a NumPy array file"
#: Pairs (first bytes, kind of file); the first match is used.
_SIGNATURES = (
    (b"\x1f\x8b", "gzip data (compressed twice?)"),
    (b"PK\x03\x04", "a zip archive (unpack it first)"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"PAR1", "a Parquet file (read it in Python: wl.data.table(pandas.read_parquet(FILE), LABEL))"),
    (b"ARROW1", "an Arrow file (read it in Python: wl.data.table(pandas.read_feather(FILE), LABEL))"),
    (b"\xd0\xcf\x11\xe0", "a workbook of an old Excel (save the sheet as CSV)"),
    (b"SQLite format 3", "a database of SQLite (write a table of it as CSV)"),
    (b"\x89HDF", "an HDF5 file (write its arrays as CSV or .npz)"),
    (b"MATLAB 5.0", "a file of MATLAB (write its arrays as CSV or .npz)"),
    (b"BZh", "bzip2 data (unpack it first)"),
    (b"\xfd7zXZ\x00", "xz data (unpack it first)"),
    (b"\x28\xb5\x2f\xfd", "zstd data (unpack it first)"),
    (b"\x93NUMPY", _ARRAY),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"%PDF", "a PDF document"),
    (b"version https://git-lfs", "a Git LFS pointer (run: git lfs pull)"),
    (b"\xff\xfe", "text in UTF-16 (save it as UTF-8)"),
    (b"\xfe\xff", "text in UTF-16 (save it as UTF-8)"),
    (b"\x00\x00\x08\x01", "an IDX file of labels"),
    (b"\x00\x00\x08\x03", "an IDX file of images"),
)
_SHEETS = (b"[Content_Types].xml", b"_rels/.rels", b"xl/", b"opendocument.spreadsheet")
_PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def other_kind(path: Path) -> str:
    """Kind of a file that could not be read as what it should be, by its first bytes; "" if they do not tell it."""
    with open(path, "rb") as file:
        kind = looks_like(file.read(300))
    return "" if kind.startswith(("unknown", _ARRAY)) else kind


def looks_like(head: bytes) -> str:
    """Kind of a file that begins with these bytes (some 300 are enough), for instance "an HTML page"."""
    if not head:
        return "an empty file"
    if head.startswith(b"PK\x03\x04") and any(mark in head for mark in _SHEETS):
        return "a workbook (save the sheet as CSV)"
    for signature, words in _SIGNATURES:
        if head.startswith(signature):
            return words
    if head[257:262] == b"ustar":
        return "a tar archive"
    if head.startswith(_PICKLES):
        return "a Python pickle (these are never loaded)"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if text.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return "an HTML page, perhaps an error page saved under this name"
    if text.startswith(b"<"):
        return "an XML or HTML document"
    if text.startswith((b"{", b"[")):
        return "JSON text"
    if all(32 <= byte < 127 or byte in b"\t\r\n" for byte in head):
        return "plain text"
    return f"unknown data (it starts with {head[:4].hex(' ')})"
