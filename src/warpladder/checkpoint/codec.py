"""A checkpoint as the bytes of a safetensors file, and back.

The tensors are the parameters under PyTorch's `state_dict` names and what the optimizer keeps beside them under the
slot's name and the same: "momentum_buffer.0.weight". Everything else is one JSON document in the metadata, under
"warpladder" (one key, because safetensors writes several in random order, and equal runs should make equal files). Its
"sha256" covers the rest of the document and the tensors' bytes.

Tensors are float32, or all of them float64 where the run computes in fp64: such a file has format 3, others 2, which
earlier versions read too. Files of format 1 knew SGD alone, whose settings stand among the others, and called its
momentum "velocity.".
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, NoReturn

import numpy as np

from ..config import SHORT, TrainConfig
from ..errors import CheckpointError, ConfigError, NetError, PlanError
from ..nets import CrossEntropyLoss, Net
from ..nets.describe import net_from_json, net_to_json
from .content import Checkpoint, DataMark, EpochLog, Score, Sums, param_shapes
from .plan import plan_from_json, plan_to_json

FORMAT = 3
NARROW = 2  # the format of files whose tensors are float32
TYPES = {"F32": "<f4", "F64": "<f8"}  # of tensors, by safetensors' names, and NumPy's
KEY = "warpladder"
FORMER = {"velocity": "momentum_buffer"}  # what format 1 called a slot
_FIELDS = {"format", "net", "config", "data", "rung", "epoch", "step", "sums", "history", "finished", "test", "sha256"}
_OPTIONAL = {"tuned", "updates"}
_MEANINGS = (
    "class_names",
    "mean",
    "std",
)  # of a data set; written only where it has them, so that older versions read what they can


def encode(checkpoint: Checkpoint) -> bytes:
    """The bytes of the file; equal checkpoints give equal bytes."""
    from safetensors.numpy import save

    tensors = dict(checkpoint.params) | {
        f"{slot}.{name}": array for slot, named in checkpoint.slots.items() for name, array in named.items()
    }
    tensors = {name: np.ascontiguousarray(array, checkpoint.element) for name, array in tensors.items()}
    document = {
        "format": FORMAT if checkpoint.element == "float64" else NARROW,
        "net": net_to_json(checkpoint.net),
        "config": checkpoint.config.as_dict(),
        "data": {key: value for key, value in asdict(checkpoint.data).items() if key not in _MEANINGS or value},
        "rung": checkpoint.rung,
        "epoch": checkpoint.epoch,
        "step": checkpoint.step,
        "sums": asdict(checkpoint.sums)
        | {"loss": None if checkpoint.sums.loss is None else checkpoint.sums.loss.hex()},
        "history": [asdict(log) for log in checkpoint.history],
        "finished": checkpoint.finished,
        "test": None if checkpoint.test is None else asdict(checkpoint.test),
    }
    if checkpoint.tuned is not None:
        document["tuned"] = plan_to_json(checkpoint.tuned)
    if checkpoint.updates:
        document["updates"] = checkpoint.updates
    document["sha256"] = _digest(document, tensors)
    return save(tensors, {KEY: json.dumps(document, allow_nan=False)})


def decode(content: bytes, source: str = "checkpoint") -> Checkpoint:
    """The checkpoint that these bytes are.

    Parameters
    ----------
    content : bytes
    source : str
        What error messages call it: the file's path.

    Raises
    ------
    CheckpointError
        Whatever the bytes are, if they are not a whole, undamaged checkpoint.
    """
    try:
        text, tensors = _open(content)
        return _checkpoint(json.loads(text), tensors)
    except CheckpointError as error:
        raise CheckpointError(f"{source!r} {error}") from None
    except (NetError, ConfigError) as error:
        raise CheckpointError(f"{source!r} describes a run that cannot be: {error}") from None
    except PlanError as error:
        raise CheckpointError(f"{source!r} is damaged: {error}") from None
    except (ValueError, OverflowError, RecursionError, MemoryError):  # JSON that is none, or numbers beyond all measure
        raise CheckpointError(f"{source!r} is damaged: its description of the run cannot be read") from None


def _digest(document: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> str:
    described = {key: value for key, value in document.items() if key != "sha256"}
    digest = hashlib.sha256(json.dumps(described, sort_keys=True, separators=(",", ":")).encode())
    for name in sorted(tensors):
        digest.update(tensors[name].astype(tensors[name].dtype.newbyteorder("<"), copy=False).data)
    return digest.hexdigest()


def unpack(content: bytes) -> tuple[dict[str, Any], str | None]:
    """A safetensors file taken apart: {name: {"dtype", "shape", "data"}}, and the JSON text of the run that it
    describes, None in the files of others.

    Raises
    ------
    CheckpointError
        The bytes are no whole safetensors file: the message goes on after the file's name.
    """
    from safetensors import SafetensorError, deserialize

    try:
        found = dict(deserialize(content))
    except SafetensorError as error:
        reason = " ".join(str(error).split()).removeprefix("Error while deserializing header: ")
        _refuse(f"is not a whole safetensors file ({reason:.80}): it is truncated, damaged or something else")
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    text = (header.get("__metadata__") or {}).get(KEY)
    return found, text if isinstance(text, str) else None


def slot_of(name: str) -> str | None:
    """The slot that a tensor's name begins with; None for a parameter, whose name begins with its layer's number."""
    head, dot, _ = name.partition(".")
    return None if not dot or head.isdecimal() else head


def _open(content: bytes) -> tuple[str, dict[str, np.ndarray]]:
    """The JSON text and the tensors of a checkpoint."""
    found, text = unpack(content)
    if text is None:
        _refuse(
            "is a safetensors file, but not a checkpoint of warpladder (train --from FILE begins a new run with its weights)"
        )
    tensors = {}
    for name, tensor in found.items():
        kind = TYPES.get(tensor["dtype"])
        if kind is None:
            _refuse(f"is damaged: tensor {name!r:.80} has type {tensor['dtype']}, wants {' or '.join(TYPES)}")
        tensors[name] = (
            np.frombuffer(tensor["data"], kind).reshape(tensor["shape"]).astype(np.dtype(kind).newbyteorder("="))
        )
    return text, tensors


def _checkpoint(document: Any, tensors: dict[str, np.ndarray]) -> Checkpoint:
    version = document.get("format") if isinstance(document, dict) else None
    if isinstance(version, int) and version > FORMAT:
        _refuse(f"was written by a later version of warpladder (format {version}, this one reads {FORMAT})")
    if version not in range(1, FORMAT + 1) or document.keys() - _OPTIONAL != _FIELDS:
        _refuse("is damaged: its description of the run is incomplete")
    kinds = {str(array.dtype) for array in tensors.values()}
    if len(kinds) > 1 or kinds - {"float64" if version == FORMAT else "float32"}:
        _refuse(
            f"is damaged: its tensors are {' and '.join(sorted(kinds))}, which a file of format {version} does not hold"
        )
    if document["sha256"] != _digest(document, tensors):
        _refuse("is damaged: its checksum does not fit its content")
    net, config = net_from_json(document["net"]), _config(document["config"])
    params = {name: array for name, array in tensors.items() if slot_of(name) is None}
    checkpoint = Checkpoint(
        net=net,
        config=config,
        data=_data(document["data"], net),
        rung=document["rung"],
        params=_tensors(net, params, "parameters"),
        slots=_slots(net, config, tensors, FORMER if version == 1 else {}),
        epoch=document["epoch"],
        step=document["step"],
        sums=_sums(document["sums"]),
        history=_history(document["history"]),
        finished=document["finished"],
        test=None if document["test"] is None else _score(document["test"]),
        tuned=plan_from_json(document["tuned"], "tuned") if "tuned" in document else None,
        updates=document.get("updates", 0),
    )
    _check_place(checkpoint)
    return checkpoint


def _slots(
    net: Net, config: TrainConfig, tensors: dict[str, np.ndarray], former: Mapping[str, str]
) -> dict[str, dict[str, np.ndarray]]:
    """What the optimizer keeps, after a look at names, shapes and numbers."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for name, array in tensors.items():
        if (slot := slot_of(name)) is not None:
            found.setdefault(former.get(slot, slot), {})[name.partition(".")[2]] = array
    wanted = config.optimizer.slots
    if beyond := [slot for slot in found if slot not in wanted]:
        _refuse(f"holds {beyond[0]!r:.40}, which its optimizer, {config.optimizer.described()}, does not keep")
    out = {slot: _tensors(net, found.get(slot, {}), slot) for slot in wanted}
    for slot, named in out.items():
        if slot.endswith("_sq") and any((array < 0).any() for array in named.values()):
            _refuse(f"holds {slot} below 0, where means of squares are wanted")
    return out


def _tensors(net: Net, found: dict[str, np.ndarray], what: str) -> dict[str, np.ndarray]:
    """The same in the net's order, after a look at names, shapes and numbers."""
    shapes = param_shapes(net)
    if found.keys() != shapes.keys():
        _refuse(
            f"holds {what} {', '.join(sorted(found)) or 'of nothing'!r:.200}, its net has {', '.join(shapes)!r:.200}"
        )
    for name, shape in shapes.items():
        if found[name].shape != shape:
            _refuse(f"holds {what} {name} of shape {found[name].shape}, its net has {shape}")
        if not np.isfinite(found[name]).all():
            _refuse(f"holds {what} {name} with numbers that are not finite")
    return {name: found[name] for name in shapes}


def _check_place(at: Checkpoint) -> None:
    """Where a run stands must be a place in that run."""
    if not _is(at.updates, int) or not 0 <= at.updates < 2**53 or (at.updates and at.config.epochs):
        _refuse("is damaged: its number of updates is none that weights of no run could have")
    if not (isinstance(at.rung, str) and _is(at.epoch, int) and _is(at.step, int) and isinstance(at.finished, bool)):
        _refuse("is damaged: rung, epoch, step or finished is of the wrong type")
    if at.config.epochs and not at.data.samples:  # weights alone, of no run, have no data set
        _refuse("is damaged: its data set has no samples")
    steps = at.config.steps(at.data.samples) if at.epoch < at.config.epochs else 0
    if not 0 <= at.epoch <= at.config.epochs or not 0 <= at.step <= steps:
        _refuse(
            f"stands at step {at.step} after {at.epoch} of {at.config.epochs} epochs, which is no place in that run"
        )
    if at.finished and at.epoch < at.config.epochs:
        _refuse("calls itself finished before its last epoch")
    if [log.epoch for log in at.history] != list(range(1, at.epoch + 1)):
        _refuse(f"has finished {at.epoch} epochs, but logs others")
    if at.sums.samples != min(at.step * at.config.batch(at.data.samples), at.data.samples):
        _refuse(f"has sums over {at.sums.samples} samples, which does not fit {at.step} steps")
    lossy = [(log.epoch - 1, log.train_loss) for log in at.history] + ([(at.epoch, at.sums.loss)] if at.step else [])
    for epoch, loss in lossy:
        if (loss is not None) != at.config.has_loss(epoch):
            _refuse(
                f"logs {'no' if loss is None else 'a'} loss of epoch {epoch + 1}, where loss_every is {at.config.loss_every}"
            )


def _config(value: Any) -> TrainConfig:
    """The settings of the training."""
    known = {field.name for field in fields(TrainConfig)} | set(SHORT)
    if not isinstance(value, dict) or not value.keys() <= known:
        _refuse("has settings that this version of warpladder does not know")
    return TrainConfig.from_dict(value)


def _data(value: Any, net: Net) -> DataMark:
    plain = {key: part for key, part in value.items() if key not in _MEANINGS} if isinstance(value, dict) else value
    if not _record(plain, name=str, samples=int, scale=float, parts=dict) or value["samples"] < 0:
        _refuse("is damaged: its description of the data set is incomplete")
    if not all(isinstance(part, str) for part in value["parts"].values()):
        _refuse("is damaged: its description of the data set is incomplete")
    names, mean, std = (value.get(key, []) for key in _MEANINGS)
    if not all(isinstance(each, list) for each in (names, mean, std)) or not all(
        isinstance(name, str) for name in names
    ):
        _refuse("is damaged: its names of classes, means or deviations are no lists")
    outputs = net.out_shape[0] if isinstance(net.loss, CrossEntropyLoss) else len(names)
    if len(names) > outputs or sorted(set(names)) != names:
        _refuse(f"has names of {len(names)} classes that do not fit a net of {outputs} outputs")
    if (
        not all(_is(number, float) for number in (*mean, *std))
        or len(mean) != len(std)
        or (mean and len(mean) != net.in_shape[0])
    ):
        _refuse("is damaged: its means and deviations do not fit its net")
    if not min(std, default=1.0) > 0:
        _refuse("is damaged: a deviation is not above 0")
    return DataMark(**plain, class_names=tuple(names), mean=tuple(mean), std=tuple(std))


def _sums(value: Any) -> Sums:
    if (
        isinstance(value, dict)
        and value.get("loss", "") is None
        and _record(value, loss=type(None), correct=type(None), samples=int, seconds=float)
    ):
        return Sums(**value)
    if not _record(value, loss=str, correct=int, samples=int, seconds=float):
        _refuse("is damaged: its sums over the epoch are incomplete")
    loss = float.fromhex(value["loss"])
    if not math.isfinite(loss) or not 0 <= value["correct"] <= value["samples"]:
        _refuse("is damaged: its sums over the epoch make no sense")
    return Sums(**value | {"loss": loss})


def _history(value: Any) -> tuple[EpochLog, ...]:
    maybe = (float, type(None))
    types = {
        "epoch": int,
        "train_loss": maybe,
        "train_accuracy": maybe,
        "valid_loss": maybe,
        "valid_accuracy": maybe,
        "seconds": float,
    }
    if not isinstance(value, list) or not all(_record(log, **types) for log in value):
        _refuse("is damaged: its history is incomplete")
    return tuple(EpochLog(**log) for log in value)


def _score(value: Any) -> Score:
    if not _record(value, loss=float, accuracy=(float, type(None))):
        _refuse("is damaged: its test score is incomplete")
    return Score(**value)


def _record(value: Any, **types: Any) -> bool:
    """Whether this is a dict of exactly these keys and types, floats finite."""
    return (
        isinstance(value, dict)
        and value.keys() == types.keys()
        and all(_is(value[key], kind) for key, kind in types.items())
    )


def _is(value: Any, kind: Any) -> bool:
    return (
        isinstance(value, kind)
        and not isinstance(value, bool)
        and not (isinstance(value, float) and not math.isfinite(value))
    )


def _refuse(why: str) -> NoReturn:
    raise CheckpointError(why)
