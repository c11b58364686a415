"""Conversion of a checkpoint to the bytes of a safetensors file and back.

Tensors are the parameters, with their names in PyTorch's `state_dict`, and the optimizer's slots, named by slot and
parameter: "momentum_buffer.0.weight"; with early stopping also "best.0.weight" or "last.0.weight". All
other fields are one JSON document (document.py) in the metadata, with the only key "warpladder": safetensors writes
several keys in random order, but equal runs must give equal files. Its "sha256" covers the rest of the document and the
tensors' bytes.

Tensors are float32 (format 2), or float64 if the run computes in fp64 (format 3).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import CheckpointError, ConfigError, NetError, PlanError
from ..errors.arguments import shown
from .content import Checkpoint
from .document import ASIDE, FIELDS, OPTIONAL, from_document, refuse, to_document
from .foreign import what_it_is

#: Formats by the type of the tensors.
FORMATS = {"float32": 2, "float64": 3}
#: NumPy's types of tensors by safetensors' names.
TYPES = {"F32": "<f4", "F64": "<f8"}
KEY = "warpladder"


def encode(checkpoint: Checkpoint) -> bytes:
    """Bytes of the checkpoint's file; equal checkpoints give equal bytes."""
    from safetensors.numpy import save

    tensors = dict(checkpoint.params) | {
        f"{slot}.{name}": array for slot, named in checkpoint.slots.items() for name, array in named.items()
    }
    for kind in ASIDE:
        tensors |= {f"{kind}.{name}": array for name, array in (getattr(checkpoint, kind) or {}).items()}
    tensors = {name: np.ascontiguousarray(array, checkpoint.element) for name, array in tensors.items()}
    document = {"format": FORMATS[checkpoint.element], **to_document(checkpoint)}
    document["sha256"] = _digest(document, tensors)
    return save(tensors, {KEY: json.dumps(document, allow_nan=False)})


def decode(content: bytes, source: str = "checkpoint") -> Checkpoint:
    """Checkpoint from the bytes of its file; source : name in messages, the file's path.

    Raises CheckpointError: the bytes are no complete, undamaged checkpoint of a format that this version reads.
    """
    try:
        text, tensors = _open(content)
        return _checked(json.loads(text), tensors)
    except CheckpointError as error:
        raise CheckpointError(f"{source!r} {error}") from None
    except (NetError, ConfigError) as error:
        raise CheckpointError(f"{source!r} describes a run that cannot be: {error}") from None
    except PlanError as error:
        raise CheckpointError(f"{source!r} is damaged: {error}") from None
    except (ValueError, OverflowError, RecursionError, MemoryError):  # no JSON, or numbers that are too large
        raise CheckpointError(f"{source!r} is damaged: its description of the run cannot be read") from None


def _digest(document: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> str:
    described = {key: value for key, value in document.items() if key != "sha256"}
    digest = hashlib.sha256(json.dumps(described, sort_keys=True, separators=(",", ":")).encode())
    for name in sorted(tensors):
        digest.update(tensors[name].astype(tensors[name].dtype.newbyteorder("<"), copy=False).data)
    return digest.hexdigest()


def unpack(content: bytes) -> tuple[dict[str, Any], str | None]:
    """Tensors of a safetensors file, {name: {"dtype", "shape", "data"}}, and a checkpoint's JSON text, or None.

    Raises CheckpointError: the bytes are no complete safetensors file. The message is to follow the file's name.
    """
    from safetensors import SafetensorError, deserialize

    try:
        found = dict(deserialize(content))
    except SafetensorError as error:
        if (kind := what_it_is(content)) is not None:
            refuse(kind)
        reason = " ".join(str(error).split()).removeprefix("Error while deserializing header: ")
        refuse(f"is not a whole safetensors file ({reason}): it is truncated, damaged or something else")
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    text = (header.get("__metadata__") or {}).get(KEY)
    return found, text if isinstance(text, str) else None


def _open(content: bytes) -> tuple[str, dict[str, np.ndarray]]:
    """JSON text and tensors of a checkpoint's file."""
    found, text = unpack(content)
    if text is None:
        refuse(
            "is a safetensors file, but not a checkpoint of warpladder "
            "(train --from FILE begins a new run with its weights)"
        )
    tensors = {}
    for name, tensor in found.items():
        kind = TYPES.get(tensor["dtype"])
        if kind is None:
            refuse(f"is damaged: tensor {shown(name)} has type {tensor['dtype']}, wants {' or '.join(TYPES)}")
        tensors[name] = (
            np.frombuffer(tensor["data"], kind).reshape(tensor["shape"]).astype(np.dtype(kind).newbyteorder("="))
        )
    return text, tensors


def _checked(document: Any, tensors: dict[str, np.ndarray]) -> Checkpoint:
    """Checkpoint from a document and tensors, after checks of format, completeness and checksum."""
    version = document.get("format") if isinstance(document, dict) else None
    readable = " and ".join(map(str, FORMATS.values()))
    if isinstance(version, int) and version > max(FORMATS.values()):
        refuse(f"was written by a later version of warpladder (format {version}, this one reads {readable})")
    if version == 1:
        refuse(f"is a checkpoint of format 1, this version of warpladder reads {readable}: train it anew")
    if version not in FORMATS.values() or document.keys() - OPTIONAL != {*FIELDS, "format", "sha256"}:
        refuse("is damaged: its description of the run is incomplete")
    kinds = {str(array.dtype) for array in tensors.values()}
    if any(FORMATS[kind] != version for kind in kinds):
        refuse(f"is damaged: its tensors are {' and '.join(sorted(kinds))}, not those of format {version}")
    if document["sha256"] != _digest(document, tensors):
        refuse("is damaged: its checksum does not fit its content")
    return from_document(document, tensors)
