"""Weights to begin a new run with: from a checkpoint, or from a PyTorch `state_dict` in a safetensors file."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..config import TrainConfig
from ..data.convert import to_numpy
from ..errors import CheckpointError
from ..errors.arguments import listed, shown
from ..errors.warning import warn
from ..nets import Linear, Net, Shape, hidden_option, with_hidden
from ..nets.params import tensor_shapes
from .codec import decode, unpack
from .content import Checkpoint, DataMark
from .file import read

#: NumPy's types by safetensors' names; bfloat16, which NumPy lacks, is the upper half of a float32.
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}

#: Last part of the name of PyTorch's count of the batches that a normalisation has seen.
COUNT = ".num_batches_tracked"

#: Prefixes of tensors in a checkpoint that are no weights: optimizers' slots, parameters of the best or last epoch; in
#: contrast to the prefix of a wrapped model.
OTHERS = ("momentum_buffer.", "exp_avg.", "exp_avg_sq.", "best.", "last.")


def read_weights(path: str | os.PathLike[str], net: Net, dtype: str = "float32") -> np.ndarray:
    """Flat weights (numbers,) of a file, "float32" or "float64", in the order of `tensor_shapes`.

    path : checkpoint, or safetensors file of a PyTorch `state_dict`. Slots of its optimizer are left out.
    Raises CheckpointError: the file is missing, damaged or foreign, or its names, shapes or numbers do not fit.
    """
    source, content = os.fspath(path), read(path)
    try:
        found, document = unpack(content)
    except CheckpointError as error:
        raise CheckpointError(f"{source!r} {error}") from None
    if document is not None:
        return flat_weights(net, decode(content, source).params, source, dtype)
    # a checkpoint rewritten by another program lacks its document, but has its optimizer's slots
    tensors = {name: tensor for name, tensor in without_counts(found).items() if not name.startswith(OTHERS)}
    return flat_weights(net, {name: _array(name, tensor, source) for name, tensor in tensors.items()}, source, dtype)


def arrays_of(named: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """NumPy arrays of a `state_dict`'s tensors. Raises `CheckpointError` for a mapping that only holds one."""
    if inner := [name for name, value in named.items() if isinstance(value, Mapping)]:
        raise CheckpointError(
            f"'state_dict' holds a mapping under {listed(map(repr, inner))}: give the one with the weights, as "
            f"state_dict[{shown(inner[0])}]"
        )
    return {str(name): to_numpy(array, str(name)) for name, array in named.items()}


def flat_weights(
    net: Net, named: Mapping[str, Any], source: str = "state_dict", dtype: str = "float32",
    shapes: Mapping[str, Shape] | None = None,
) -> np.ndarray:  # fmt: skip
    """Flat copy (numbers,) of named arrays, "float32" or "float64", in the order of `tensor_shapes`.

    named : arrays by the `state_dict` names of the same `torch.nn.Sequential`, "0.weight", in any order. A common
    prefix of all names, as "module.", is removed, and PyTorch's counts of batches are left out. Other names,
    "fc1.weight", are matched by shapes if they fit only once, with a warning that lists the matches.
    source : name of the mapping in error messages.
    shapes : shapes by name of the wanted tensors; by default all of the net's.
    Raises CheckpointError: names, shapes, types or numbers do not fit the net.
    """
    shapes = tensor_shapes(net) if shapes is None else shapes
    given = _without_prefix(without_counts(named), shapes.keys())
    lacking = [name for name in shapes if name not in given]
    beyond = [name for name in given if name not in shapes]
    if lacking or beyond:
        matches = matching(shapes, {name: np.shape(array) for name, array in given.items()})
        if matches is None:
            faults = [
                f"{what} {listed(names)!r}" for what, names in (("lacks", lacking), ("has besides", beyond)) if names
            ]
            raise CheckpointError(
                f"{source!r} does not fit net {net.name!r}: it {' and '.join(faults)}; names are those of the equal "
                f"torch.nn.Sequential's state_dict{_ambiguous(shapes, given) or _otherwise(net, shapes, given)}"
            )
        pairs = dict.fromkeys((theirs.rpartition(".")[0], ours.rpartition(".")[0]) for ours, theirs in matches.items())
        shown = listed(f"{theirs} is layer {ours}" for theirs, ours in pairs)
        warn(f"{source!r}: names are matched by shapes: {shown}")
        given = {ours: given[theirs] for ours, theirs in matches.items()}
    parts, rounds = [], False
    for name, shape in shapes.items():
        array = np.asarray(given[name])
        if array.shape != shape:
            raise CheckpointError(
                f"{source!r} does not fit net {net.name!r}: {name} is {array.shape}, not {shape}"
                f"{_other_widths(net, {each: np.shape(given[each]) for each in shapes})}"
            )
        if not np.issubdtype(array.dtype, np.floating):
            raise CheckpointError(f"{source!r}: {name} holds {array.dtype} where floating-point numbers are wanted")
        with np.errstate(over="ignore"):
            values = array.astype(dtype).ravel()
        if not np.isfinite(values).all():
            raise CheckpointError(f"{source!r}: {name} holds numbers that are not finite in {dtype}")
        if name.endswith(".running_var") and values.min(initial=0) < 0:
            raise CheckpointError(f"{source!r}: {name} holds a variance below 0")
        rounds = rounds or (array.dtype.itemsize > values.itemsize and not np.array_equal(values, array.ravel()))
        parts.append(values)
    if rounds:
        warn(f"{source!r} holds numbers finer than {dtype}: they are rounded to it")
    return np.concatenate(parts) if parts else np.zeros(0, dtype)


def unflattened(net: Net, flat: np.ndarray) -> dict[str, np.ndarray]:
    """Tensors by name, as views into the flat array from `flat_weights`."""
    out, start = {}, 0
    for name, shape in tensor_shapes(net).items():
        out[name] = flat[start : start + math.prod(shape)].reshape(shape)
        start += math.prod(shape)
    return out


def of_weights(net: Net, arrays: Mapping[str, np.ndarray], data: DataMark) -> Checkpoint:
    """Checkpoint without epochs from named float32 weights; its number of updates is PyTorch's count of batches."""
    counts = [int(array) for name, array in arrays.items() if name.endswith(COUNT)]
    params = unflattened(net, flat_weights(net, arrays))
    return Checkpoint(
        net, TrainConfig(epochs=0), data, "numpy", params, finished=True, updates=max(counts, default=0)
    )  # fmt: skip


def with_counts(checkpoint: Checkpoint) -> dict[str, np.ndarray]:
    """Copies of a checkpoint's weights by name, with each normalisation's count of the batches that made them."""
    out: dict[str, np.ndarray] = {}
    for name, array in checkpoint.params.items():
        out[name] = array.copy()
        if name.endswith(".running_var"):
            out[name.rpartition(".")[0] + COUNT] = np.array(checkpoint.made_params, np.int64)
    return out


def without_counts(named: Mapping[str, Any]) -> dict[str, Any]:
    """Named tensors without PyTorch's counts of batches in normalisations."""
    return {name: value for name, value in named.items() if not name.endswith(COUNT)}


def _other_widths(net: Net, found: Mapping[str, tuple[int, ...]]) -> str:
    """Hint to set the widths of hidden layers, if this makes all shapes fit; else ""."""
    widths = [
        found[f"{net.names[index]}.weight"][:1] for index, layer in enumerate(net.layers) if isinstance(layer, Linear)
    ][:-1]
    if not widths or not all(width and width[0] for width in widths):
        return ""
    other = with_hidden(net, [width[0] for width in widths])
    return f"; it fits the net with {hidden_option(other)}" if tensor_shapes(other) == dict(found) else ""


def matching(shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, tuple[int, ...]]) -> dict[str, str] | None:
    """Names of a class's parameters by ours, if the shapes allow exactly one assignment; else None.

    A module's tensors belong to a layer with tensors of the same names and shapes. Among several such layers the
    numbers in the modules' names decide, fc2 before fc10, if the names are otherwise equal.
    """
    ours, theirs = _by_module(shapes), _by_module(given)
    kinds: dict[frozenset[Any], tuple[list[str], list[str]]] = {}
    for side, modules in enumerate((ours, theirs)):
        for module, tensors in modules.items():
            kinds.setdefault(frozenset(tensors.items()), ([], []))[side].append(module)
    out: dict[str, str] = {}
    for layers, names in kinds.values():
        parts = [re.split(r"(\d+)", name) for name in names]
        if len(layers) != len(names) or len({tuple(part[::2]) for part in parts}) > 1:
            return None
        numbers = [tuple(map(int, part[1::2])) for part in parts]
        if len(set(numbers)) != len(numbers):
            return None
        for layer, (_, module) in zip(layers, sorted(zip(numbers, names, strict=True)), strict=True):
            out |= {f"{layer}.{kind}": f"{module}.{kind}" for kind in ours[layer]}
    return {name: out[name] for name in shapes}


def _by_module(tensors: Mapping[str, tuple[int, ...]]) -> dict[str, dict[str, tuple[int, ...]]]:
    """Shapes of tensors by module, then by the last part of their names."""
    out: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, shape in tensors.items():
        module, _, kind = name.rpartition(".")
        out.setdefault(module, {})[kind] = tuple(shape)
    return out


def check_order(net: Net, named: Mapping[str, Any]) -> None:
    """Raise `CheckpointError` if the parameters of a module with an optimizer are not in the net's order."""
    shapes = tensor_shapes(net)
    given = _without_prefix(without_counts(named), shapes.keys())
    matches = matching(shapes, {name: np.shape(array) for name, array in given.items()})
    if given.keys() != shapes.keys() and matches is not None and list(matches.values()) != list(given):
        raise CheckpointError(
            f"net {net.name!r}: the optimizer's state goes by the order of parameters, and the state_dict has another "
            "one: name its tensors as the equal torch.nn.Sequential does, in its order"
        )


def _ambiguous(shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, Any]) -> str:
    """Hint to rename tensors, if their shapes fit but several layers have equal ones; else ""."""
    found = {name: np.shape(array) for name, array in given.items()}
    ours, theirs = (sorted(sorted(each.items()) for each in _by_module(some).values()) for some in (shapes, found))
    return "; shapes fit, but several layers have the same ones: rename the tensors" if ours == theirs else ""


def _otherwise(net: Net, shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, Any]) -> str:
    """Hint if tensors of other names fit once matrices are transposed, or the hidden layers have other widths; else
    "".
    """
    found = {name: np.shape(array) for name, array in given.items()}
    if matching(shapes, {name: shape[::-1] if len(shape) == 2 else shape for name, shape in found.items()}):
        return "; its matrices fit transposed: weights here are (outputs, inputs)"
    widths = [shape[0] for shape in found.values() if len(shape) == 2][:-1]
    if not widths or len(widths) != sum(isinstance(layer, Linear) for layer in net.layers) - 1 or not all(widths):
        return ""
    other = with_hidden(net, widths)
    return f"; it fits the net with {hidden_option(other)}" if matching(tensor_shapes(other), found) else ""


def _array(name: str, tensor: Mapping[str, Any], source: str) -> np.ndarray:
    """NumPy array of a tensor in a safetensors file; bfloat16 becomes float32."""
    kind = tensor["dtype"]
    if kind not in _TYPES:
        raise CheckpointError(f"{source!r}: {name} has type {kind} where one of {', '.join(_TYPES)} is wanted")
    array = np.frombuffer(tensor["data"], _TYPES[kind])
    if kind == "BF16":
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.reshape(tensor["shape"])


def _without_prefix(named: Mapping[str, Any], wanted: Any) -> dict[str, Any]:
    """Arrays by name, without a common prefix of all names, if the wanted names remain."""
    first = next(iter(wanted), "")
    for name in named:
        prefix = name.removesuffix(first)
        if first and prefix != name and prefix.endswith(".") and all(other.startswith(prefix) for other in named):
            shorter = {other.removeprefix(prefix): value for other, value in named.items()}
            if shorter.keys() & set(wanted):
                return shorter
    return dict(named)
