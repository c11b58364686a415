"""JSON document of a checkpoint: everything but the tensors. Reading checks every field."""

from __future__ import annotations

import math
from dataclasses import asdict, fields
from typing import Any, NoReturn

import numpy as np

from ..config import SHORT, TrainConfig
from ..data.labels import unknown_classes
from ..data.tables.encoding import TableEncoding
from ..errors import CheckpointError, DataError
from ..errors.arguments import listed, shown
from ..nets import CrossEntropyLoss, Net, Shape
from ..nets.describe import net_from_json, net_to_json
from ..nets.params import tensor_shapes
from .content import Checkpoint, DataMark, EpochLog, EpochSums, Score, param_shapes
from .plan import plan_from_json, plan_to_json

FIELDS = {"net", "config", "data", "rung", "epoch", "step", "sums", "history", "finished", "test"}
OPTIONAL = {"tuned", "updates"}

#: Further parameters of a run with early stopping, by the first word of their names.
ASIDE = ("best", "last")

#: Optional fields of a data set.
_DATA_OPTIONAL = ("class_names", "mean", "std", "columns", "table")


def to_document(checkpoint: Checkpoint) -> dict[str, Any]:
    """Document of a checkpoint for `json`."""
    document = {
        "net": net_to_json(checkpoint.net),
        "config": {**checkpoint.config.as_dict(), "initial": checkpoint.config.initial},
        "data": {key: value for key, value in asdict(checkpoint.data).items() if key not in _DATA_OPTIONAL or value},
        "rung": checkpoint.rung,
        "epoch": checkpoint.epoch,
        "step": checkpoint.step,
        "sums": asdict(checkpoint.sums)
        | {"loss": None if checkpoint.sums.loss is None else checkpoint.sums.loss.hex()},
        "history": [asdict(log) for log in checkpoint.history],
        "finished": checkpoint.finished,
        "test": None if checkpoint.test is None else _score_to_json(checkpoint.test),
    }
    if checkpoint.tuned is not None:
        document["tuned"] = plan_to_json(checkpoint.tuned)
    if checkpoint.updates:
        document["updates"] = checkpoint.updates
    return document


def from_document(document: dict[str, Any], tensors: dict[str, np.ndarray]) -> Checkpoint:
    """Checkpoint from a document with the fields `FIELDS` and from tensors. Raises an error for a damaged or
    impossible field.
    """
    net, config = net_from_json(document["net"]), _config(document["config"])
    params = {name: array for name, array in tensors.items() if slot_of(name) is None}
    checkpoint = Checkpoint(
        net=net, config=config, data=_data(document["data"], net), rung=document["rung"],
        params=_tensors(params, "parameters", tensor_shapes(net)), slots=_slots(net, config, tensors),
        epoch=document["epoch"], step=document["step"], sums=_sums(document["sums"]),
        history=_history(document["history"]),
        finished=document["finished"], test=None if document["test"] is None else _score(document["test"]),
        tuned=plan_from_json(document["tuned"], "tuned") if "tuned" in document else None,
        updates=document.get("updates", 0), **_aside(net, tensors),
    )  # fmt: skip
    _check_position(checkpoint)
    return checkpoint


def refuse(why: str) -> NoReturn:
    raise CheckpointError(why)


def slot_of(name: str) -> str | None:
    """Slot at the beginning of a tensor's name; None for a parameter, whose name begins with its layer's index."""
    head, dot, _ = name.partition(".")
    return None if not dot or head.isdecimal() else head


def _slots(net: Net, config: TrainConfig, tensors: dict[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """Slots of the optimizer, with checked names, shapes and numbers."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for name, array in tensors.items():
        if (slot := slot_of(name)) is not None and slot not in ASIDE:
            found.setdefault(slot, {})[name.partition(".")[2]] = array
    wanted = config.optimizer.slots
    if beyond := [slot for slot in found if slot not in wanted]:
        refuse(f"holds {shown(beyond[0])}, which its optimizer, {config.optimizer.described()}, does not keep")
    out = {slot: _tensors(found.get(slot, {}), slot, param_shapes(net)) for slot in wanted}
    for slot, named in out.items():
        if slot.endswith(("_sq", "square_avg")) and any((array < 0).any() for array in named.values()):
            refuse(f"holds {slot} below 0, where means of squares are wanted")
    return out


def _aside(net: Net, tensors: dict[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """Parameters of the best and the last epoch if present, with checked names, shapes and numbers."""
    out = {}
    for kind in ASIDE:
        found = {name.partition(".")[2]: array for name, array in tensors.items() if slot_of(name) == kind}
        if found:
            out[kind] = _tensors(found, kind, tensor_shapes(net))
    return out


def _tensors(found: dict[str, np.ndarray], what: str, shapes: dict[str, Shape]) -> dict[str, np.ndarray]:
    """Tensors in the net's order, with checked names, shapes and numbers."""
    if found.keys() != shapes.keys():
        refuse(f"holds {what} {(listed(sorted(found)) or 'of nothing')!r}, its net has {listed(shapes)!r}")
    for name, shape in shapes.items():
        if found[name].shape != shape:
            refuse(f"holds {what} {name} of shape {found[name].shape}, its net has {shape}")
        if not np.isfinite(found[name]).all():
            refuse(f"holds {what} {name} with numbers that are not finite")
        if name.endswith(".running_var") and (found[name] < 0).any():
            refuse(f"holds {name} below 0, where variances are wanted")
    return {name: found[name] for name in shapes}


def _check_position(at: Checkpoint) -> None:
    """Check that the position of a run (epoch, step, updates) is possible."""
    if not _is(at.updates, int) or not 0 <= at.updates < 2**53 or (at.updates and at.config.epochs):
        refuse("is damaged: its number of updates is impossible")
    if not (isinstance(at.rung, str) and _is(at.epoch, int) and _is(at.step, int) and isinstance(at.finished, bool)):
        refuse("is damaged: rung, epoch, step or finished is of the wrong type")
    if at.config.epochs and not at.data.samples:  # weights without a run have no data set
        refuse("is damaged: its data set has no samples")
    steps = at.config.steps(at.data.samples) if at.epoch < at.config.epochs else 0
    if not 0 <= at.epoch <= at.config.epochs or not 0 <= at.step <= steps:
        refuse(f"is at step {at.step} after {at.epoch} of {at.config.epochs} epochs, no position in that run")
    if at.finished and at.step:
        refuse("calls itself finished before the end of an epoch")
    _check_aside(at)
    if [log.epoch for log in at.history] != list(range(1, at.epoch + 1)):
        refuse(f"has finished {at.epoch} epochs, but logs others")
    if at.sums.samples != min(at.step * at.config.batch(at.data.samples), at.data.samples):
        refuse(f"has sums over {at.sums.samples} samples, which does not fit {at.step} steps")
    lossy = [(log.epoch - 1, log.train_loss) for log in at.history] + ([(at.epoch, at.sums.loss)] if at.step else [])
    for epoch, loss in lossy:
        if (loss is not None) != at.config.has_loss(epoch):
            refuse(
                f"logs {'no' if loss is None else 'a'} loss of epoch {epoch + 1}, "
                f"where loss_every is {at.config.loss_every}"
            )


def _check_aside(at: Checkpoint) -> None:
    """Check that a run has the parameters of its best or last epoch exactly if early stopping needs them."""
    stops = at.config.early_stopping is not None and at.epoch > 0
    wanted = {"best": stops and not at.finished, "last": stops and at.finished}
    for kind, is_wanted in wanted.items():
        if (getattr(at, kind) is not None) != is_wanted:
            refuse(f"{'lacks' if is_wanted else 'holds'} the parameters of its {kind} epoch")
    if stops and any(log.valid_loss is None for log in at.history):
        refuse("stops early, but logs epochs without a validation loss")


def _config(value: Any) -> TrainConfig:
    """Training settings from a document."""
    known = {field.name for field in fields(TrainConfig)} | set(SHORT)
    if not isinstance(value, dict) or not value.keys() <= known:
        refuse("has settings that this version of warpladder does not know")
    return TrainConfig.from_dict({"initial": "he"} | value)  # earlier versions drew no others


def _data(value: Any, net: Net) -> DataMark:
    plain = (
        {key: part for key, part in value.items() if key not in _DATA_OPTIONAL} if isinstance(value, dict) else value
    )
    if not _is_record(plain, name=str, samples=int, scale=float, parts=dict) or value["samples"] < 0:
        refuse("is damaged: its description of the data set is incomplete")
    if not all(isinstance(part, str) for part in value["parts"].values()):
        refuse("is damaged: its description of the data set is incomplete")
    names, mean, std, columns = (value.get(key, []) for key in _DATA_OPTIONAL[:4])
    if not all(isinstance(each, list) for each in (names, mean, std, columns)):
        refuse("is damaged: its names of classes, means, deviations or columns are no lists")
    if columns and (not all(isinstance(each, str) for each in columns) or (len(set(columns)),) != net.in_shape):
        refuse("is damaged: its names of columns do not fit its net")
    outputs = net.out_shape[0] if isinstance(net.loss, CrossEntropyLoss) else len(names)
    if reason := unknown_classes(names, outputs):
        refuse(reason)
    if (
        not all(_is(number, float) for number in (*mean, *std))
        or len(mean) != len(std)
        or (mean and len(mean) != net.in_shape[0])
    ):
        refuse("is damaged: its means and deviations do not fit its net")
    if not min(std, default=1.0) > 0:
        refuse("is damaged: a deviation is not above 0")
    table = None
    if "table" in value:
        try:
            table = TableEncoding.from_dict(value["table"])
        except DataError as error:
            refuse(str(error))
        if (len(table.features),) != net.in_shape:
            refuse(f"encodes a table as {len(table.features)} numbers, its net takes {net.in_shape}")
    return DataMark(
        **plain, class_names=tuple(names), mean=tuple(mean), std=tuple(std), table=table, columns=tuple(columns)
    )


def _sums(value: Any) -> EpochSums:
    if (
        isinstance(value, dict)
        and value.get("loss", "") is None
        and _is_record(value, loss=type(None), correct=type(None), samples=int, seconds=float)
    ):
        return EpochSums(**value)
    if not _is_record(value, loss=str, correct=int, samples=int, seconds=float):
        refuse("is damaged: its sums over the epoch are incomplete")
    loss = float.fromhex(value["loss"])
    if not math.isfinite(loss) or not 0 <= value["correct"] <= value["samples"]:
        refuse("is damaged: its sums over the epoch make no sense")
    return EpochSums(**value | {"loss": loss})


def _history(value: Any) -> tuple[EpochLog, ...]:
    maybe = (float, type(None))
    types = {
        "epoch": int, "train_loss": maybe, "train_accuracy": maybe, "valid_loss": maybe, "valid_accuracy": maybe,
        "seconds": float,
    }  # fmt: skip
    if not isinstance(value, list) or not all(_is_record(log, **types) for log in value):
        refuse("is damaged: its history is incomplete")
    return tuple(EpochLog(**log) for log in value)


def _score_to_json(score: Score) -> dict[str, Any]:
    """Score as JSON; R2 and MAE are left out if None, as older versions wrote it."""
    return {key: value for key, value in asdict(score).items() if value is not None or key in ("loss", "accuracy")}


def _score(value: Any) -> Score:
    more = {name: float for name in ("r2", "mae") if isinstance(value, dict) and name in value}
    if not _is_record(value, loss=float, accuracy=(float, type(None)), **more):
        refuse("is damaged: its test score is incomplete")
    return Score(**value)


def _is_record(value: Any, **types: Any) -> bool:
    """True for a dict with exactly these keys and types, and with finite floats."""
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
