"""Recognition of other programs' files that were given as checkpoints, with a remedy for each."""

from __future__ import annotations

import json
from contextlib import suppress

#: Remedy for a PyTorch file: write one that `train --from` takes.
SAFETENSORS = "write safetensors.torch.save_file(module.state_dict(), FILE) instead"

#: Remedy for weights of other programs.
ARRAYS = "give their arrays by name to wl.train(weights=...) or wl.Model.from_state_dict"

#: Pairs (first bytes, kind of file and remedy); the first match is used.
_SIGNATURES = (
    (b"\x89HDF\r\n\x1a\n", f"is an HDF5 file, as Keras writes: {ARRAYS}"),
    (b"\x93NUMPY", f"is a NumPy .npy file with a single array: {ARRAYS}"),
    (b"GGUF", "is a GGUF file of a language model, whose nets are not trained here"),
    (b"\x1f\x8b", "is gzip data: unpack it first"),
    (b"BZh", "is bzip2 data: unpack it first"),
    (b"\xfd7zXZ\x00", "is xz data: unpack it first"),
)
_PICKLE = f"is a pickle, which can run anything when it is read: {SAFETENSORS}"

#: Names of files in a zip archive, and the archive's kind.
_MEMBERS = (
    (b"model.weights.h5", f"is a Keras archive: {ARRAYS}"),
    (b"data.pkl", f"is a file of torch.save, a pickle, which can run anything when it is read: {SAFETENSORS}"),
    (b".npy", f"is a NumPy .npz archive: {ARRAYS}, as dict(numpy.load(FILE))"),
)


def what_it_is(content: bytes) -> str | None:
    """Clause on the kind of a file that is no safetensors file, with a remedy, to follow the file's name; None if
    unknown.
    """
    if content[8:9] == b"{" and 0 < int.from_bytes(content[:8], "little") < 1 << 40:
        return None  # a safetensors file begins with the length of its header, whose bytes may be any
    if not content:
        return "is an empty file"
    for signature, kind in _SIGNATURES:
        if content.startswith(signature):
            return kind
    if content.startswith(b"PK\x03\x04"):
        return next((kind for name, kind in _MEMBERS if name in content), "is a zip archive: unpack it first")
    if content[257:262] == b"ustar":
        return "is a tar archive: unpack it first"
    if content.startswith(b"\x80") and content[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return _PICKLE
    if content[:1] == b"\x08" and (
        b"onnx" in content[:256] or b"pytorch" in content[:256] or b"\x12\x07" in content[:16]
    ):
        return f"is an ONNX file: {ARRAYS}"
    return _text(content)


def _text(content: bytes) -> str | None:
    """Clause on the kind of a text file; None if unknown."""
    start = content[:1000].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return "is an HTML page, perhaps an error page saved under this name: download the file itself"
    if start.startswith((b"{", b"[")):
        with suppress(ValueError, RecursionError):
            tree = json.loads(content)
            if isinstance(tree, dict) and "weight_map" in tree:
                return "is an index of a checkpoint in several files: name one of the files that it lists"
        return "is JSON text, which holds no weights"
    if all(32 <= byte < 127 or byte in b"\t\r\n" for byte in content[:300]):
        return "is plain text, which holds no weights"
    return None
