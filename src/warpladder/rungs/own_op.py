"""Rung with operations of a user's files: "linear.forward=mine.cu", or several joined by +.

A .cu file, or a Python file with a segment, replaces the naive rung's kernels; other Python files replace the numpy
rung's array expressions.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config import TrainConfig
from ..errors import KernelError, RungError
from ..nets import Layer, Net
from ..trainers.base import State, Trainer
from .base import Rung
from .numpy import NumpyOptions
from .options import KernelOptions, Options
from .reasons import of_arrays, of_kernels

if TYPE_CHECKING:
    from ..ops.engine.base import OpTable
    from ..ops.engine.segments import KernelTable

#: One operation and its file, as the user wrote it.
Pairs = tuple[tuple[str, str], ...]

_NAME = re.compile(r"[A-Za-z]\w*(?:\.\w+)?=[^=]+?\.(?:cu|py)(?:\+[A-Za-z]\w*(?:\.\w+)?=[^=]+?\.(?:cu|py))*")


def is_own_op(name: str) -> bool:
    """True if a rung's name, without options, consists of operations and files."""
    return _NAME.match(name) is not None


def split(name: str) -> tuple[str, list[str]]:
    """Operations and files of a name, and the options after them."""
    found = _NAME.match(name)
    assert found is not None
    return found[0], [part for part in name[found.end() :].split(":") if part]


def absolute(name: str) -> str:
    """Name with absolute paths, which is valid in another folder."""
    spec, options = split(name)
    pairs = (part.split("=", 1) for part in spec.split("+"))
    return ":".join(["+".join(f"{op}={os.path.abspath(os.path.expanduser(file))}" for op, file in pairs), *options])


def files(name: str) -> list[str]:
    """Files of a name, as the user wrote them."""
    return [part.split("=", 1)[1] for part in split(name)[0].split("+")]


def load(spec: str) -> Rung:
    """Rung of operations and files. Raises `RungError` with one line on the first fault."""
    pairs: Pairs = tuple((op.lower(), file) for op, file in (part.split("=", 1) for part in spec.split("+")))
    for op, file in pairs:
        if not Path(file).expanduser().is_file():
            remedy = f": warpladder new kernel {op} --out {file} writes one" if file.endswith(".cu") else ""
            raise RungError(f"{file}: there is no such file{remedy}")
    on_arrays = _check(pairs)
    words = " and ".join(f"{op} of {Path(file).name}" for op, file in pairs)
    base = "numpy" if on_arrays else "naive"
    options: Options = NumpyOptions() if on_arrays else KernelOptions()
    return Rung(
        spec, f"{base}, with {words}", f"The {base} rung, but {words} in place of its own.",
        partial(_build, pairs, on_arrays), partial(_unsupported, pairs, on_arrays), options=options,
    )  # fmt: skip


def _check(pairs: Pairs) -> bool:
    """Check files as far as possible without a net; returns True if they are array expressions."""
    from ..ops.own import python_file
    from ..ops.own.roles import named

    kinds = set()
    taken: dict[tuple[Any, str], str] = {}
    for op, file in pairs:
        try:
            kind, outputs = named(op)
        except KernelError as error:
            raise RungError(f"{op}={file}: {error}") from None
        for each in outputs:
            if (kind, each) in taken:
                raise RungError(f"{taken[kind, each]} and {op} both write {each}: give each of them a rung of its own")
            taken[kind, each] = op
        if file.endswith(".cu"):
            kinds.add(False)
            if not isinstance(kind, str):
                _kernels(op, file)
        elif isinstance(kind, str):
            raise RungError(f"{op}={file}: an update is a .cu file; in Python it is an optimizer of your own")
        else:
            kinds.add(not python_file.is_segment(python_file.read(file, op, outputs)))
    if len(kinds) > 1:
        raise RungError("kernels and array expressions cannot be in one rung: give each of them a rung of its own")
    return kinds.pop()


def _kernels(op: str, file: str, config: TrainConfig | None = None) -> Any:
    """Kernels of a .cu file; for an update, for the config's optimizer."""
    from ..ops.own import kernel_file
    from ..ops.own.roles import named, roles

    kind, outputs = named(op)
    try:
        if isinstance(kind, str):
            assert config is not None
            return kernel_file.read(file, roles(op, None, config.optimizer), outputs)
        return kernel_file.read(file, roles(op, kind), outputs)
    except KernelError as error:
        raise RungError(str(error)) from None


def kernel_files(pairs: Pairs, config: TrainConfig) -> list[tuple[str, type[Layer] | str, Any]]:
    """Operation, layer class or optimizer name, and kernels of each .cu file."""
    from ..ops.own.roles import named

    return [(op, named(op)[0], _kernels(op, file, config)) for op, file in pairs if file.endswith(".cu")]


def own_table(pairs: Pairs, config: TrainConfig) -> KernelTable:
    """Table of the naive rung with the user's kernels."""
    from ..ops.own import python_file
    from ..ops.own.roles import named
    from ..ops.own.segment import OwnSegment
    from ..ops.own.update import OwnUpdate
    from ..ops.tables.naive import TABLE

    table, found = TABLE, {op: file for op, _, file in kernel_files(pairs, config)}
    for op, file in pairs:
        kind, outputs = named(op)
        if isinstance(kind, str):
            table = replace(table, update=type("OwnUpdateOfFile", (OwnUpdate,), {"file": found[op]}))
            continue
        before = table.segments[kind,]
        own: dict[str, Any] = {"ours": before, "files": (), "segments": ()}
        if issubclass(before, OwnSegment):
            own = {"ours": before.ours, "files": before.files, "segments": before.segments}
        if op in found:
            own["files"] = (*own["files"], found[op])
        else:
            own["segments"] = (*own["segments"], (python_file.read(file, op, outputs).OP, outputs))
        table = replace(table, segments={**table.segments, (kind,): type("OwnSegmentOfFile", (OwnSegment,), own)})
    return table


def _array_table(pairs: Pairs) -> OpTable:
    from ..ops.own import python_file
    from ..ops.own.roles import named
    from ..ops.tables.array import TABLE

    layers = dict(TABLE.layers)
    for op, file in pairs:
        kind, outputs = named(op)
        assert not isinstance(kind, str)
        own = {"ours": layers[kind], "module": python_file.read(file, op, outputs), "outputs": outputs}
        layers[kind] = type("OwnOpOfFile", (python_file.OwnOp,), own)
    return replace(TABLE, layers=layers)


def _build(pairs: Pairs, on_arrays: bool, net: Net, config: TrainConfig, state: State, options: Any = None) -> Trainer:
    if on_arrays:
        from .numpy import build

        return build(net, config, state, options or NumpyOptions(), _array_table(pairs))
    from ..trainers.kernelwise.trainer import KernelTrainer
    from ..trainers.kernelwise.where import open_device

    chosen = options or KernelOptions()
    device = open_device(chosen.device)
    return KernelTrainer(net, config, state, device, own_table(pairs, config), chosen.feed or "sync", chosen.block_size)


def _unsupported(pairs: Pairs, on_arrays: bool, net: Net, config: TrainConfig, options: Any = None) -> str | None:
    from ..ops.own.roles import named
    from ..ops.own.update import lacks

    for op, _ in pairs:
        kind, _ = named(op)
        if isinstance(kind, str):
            if kind and kind != config.optimizer.name:
                return f"{op} is the step of {kind}, and {net.name} is trained with {config.optimizer.name}"
        elif not any(type(layer) is kind for layer in net.layers):
            return f"net {net.name} has no {kind.__name__}, which {op} computes"
    if on_arrays:
        return of_arrays(net, config, options or NumpyOptions())
    for _, kind, file in kernel_files(pairs, config):
        if isinstance(kind, str) and (reason := lacks(file, config)):
            return reason
    return of_kernels(net, config, options or KernelOptions())
