"""Start of a run as a checkpoint: new weights, loaded weights, or the state of a run to continue."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import replace

from ..checkpoint import Checkpoint, DataMark, differences, flat_weights, is_over, read_weights
from ..checkpoint.weights import arrays_of, unflattened
from ..config import TrainConfig
from ..data.dataset import Dataset
from ..errors import CheckpointError
from ..machine.precision import named
from ..nets import Net
from ..nets.params import initial, initial_buffers, tensor_shapes, tensors
from ..rungs.base import Rung
from .request import Weights
from .restore import converted


def fresh_start(net: Net, config: TrainConfig, data: DataMark, rung: Rung, weights: Weights | None) -> Checkpoint:
    """Start of a new run with drawn or loaded weights. Raises `CheckpointError` if the file is missing, damaged or
    unfit.
    """
    element = named(rung.precision).element
    if weights is None:
        params, buffers = (
            array.astype(element) for array in (initial(net, config.seed, config.initial), initial_buffers(net))
        )
        return Checkpoint(net, config, data, rung.name, params=tensors(net, params, buffers))
    if isinstance(weights, Mapping):
        flat = flat_weights(net, arrays_of(weights), dtype=element)
    else:
        flat = read_weights(weights, net, element)
    return Checkpoint(net, config, data, rung.name, params=unflattened(net, flat))


def resumed_start(
    before: Checkpoint, path: str, net: Net, config: TrainConfig, data: DataMark, rung: Rung
) -> Checkpoint:
    """Start of a run that continues a checkpoint.

    Raises CheckpointError: more than its length differs, or it has float64 numbers that the rung would round.
    """
    if unlike := differences(before, net, config, data):
        fits = tensor_shapes(net) == tensor_shapes(before.net)
        remedy = "; its weights can begin a new run with settings of its own: --from FILE, in Python weights=FILE"
        raise CheckpointError(f"{path!r} belongs to another run: {'; '.join(unlike)}{remedy if fits else ''}")
    element = named(rung.precision).element
    if before.element == "float64" != element:
        raise CheckpointError(
            f"{path!r} holds float64 numbers, which rung {rung.name!r} would round to float32: go on on a rung in "
            "fp64, as --rung numpy:precision=fp64, or begin a new run with its weights: --from FILE, in Python "
            "weights=FILE"
        )
    before = converted(before, element)
    finished = before.finished and is_over(config, before.history)
    if not finished and before.last is not None:  # it continues from its last epoch, not from its best
        before = replace(before, params=before.last, best=before.params, last=None)
    return replace(
        before, net=net, config=config, data=data, rung=rung.name, finished=finished,
        test=before.test if finished else None, tuned=before.tuned if rung.name == before.rung else None,
    )  # fmt: skip


def data_mark(data: Dataset) -> DataMark:
    """Identity of a data set in a checkpoint: sizes, types and checksums of its parts."""
    parts = {}
    for name in ("train_x", "train_y", "train_weight", "valid_x", "valid_y", "test_x", "test_y"):
        array = getattr(data, name)
        if array is not None:
            shape, checksum = "x".join(map(str, array.shape)), zlib.crc32(array.data) if array.size else 0
            parts[name] = f"{array.dtype} {shape} crc32 {checksum:08x}"
    standard = data.standard
    mean, std = ((), ()) if standard is None else (standard.mean, standard.std)
    more = (data.class_names, mean, std, data.table, data.columns)
    return DataMark(data.name, len(data.train_x), float(data.scale), parts, *more)
