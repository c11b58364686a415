"""What arrays and constants hold before the first launch: read from files, drawn at random, or filled as a description
says.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..device.signature import Parameter
from ..device.source import Source
from ..device.types import resolve
from ..errors import ConfigError
from .description import Content
from .expressions import Number, evaluate, whole

_RANGE = re.compile(r"random\s*\(([^,]+),([^,]+)\)")
FILLS = "random, random(low, high), zeros, ones, iota, uninitialised, or a .npy file"


def same_type(name: str, declared: str, parameter: Parameter, source: Source) -> None:
    """Raise `ConfigError` where an array is said to be of another type than the kernel takes."""
    kind = resolve(declared, source.text)
    if kind is None:
        raise ConfigError(
            f"array {name}: {declared!r} is no type of C or of {source.path.name}; it may be left out, the kernel's is {parameter.type}"
        )
    if (kind.dtype, kind.width) != (parameter.dtype, parameter.width):
        raise ConfigError(f"array {name} is said to be {declared}, and the kernel takes {parameter}")


def shaped(
    name: str, content: Content, parameter: Parameter, values: Mapping[str, Number], held: np.ndarray | None
) -> tuple[tuple[int, ...], np.dtype]:
    """The shape and the type of an array: those of what it holds, or as the description says; a last axis for the
    elements of a vector.
    """
    if held is not None:
        return held.shape, held.dtype
    shape = tuple(whole(size, values, f"array {name}") for size in content.shape)
    if math.prod(shape) < 1:
        raise ConfigError(f"array {name} is empty: {' x '.join(map(str, shape))}")
    return (*shape, parameter.width) if parameter.width > 1 else shape, parameter.dtype


def filled(
    name: str, content: Content, parameter: Parameter, values: Mapping[str, Number], random: np.random.Generator
) -> np.ndarray | None:
    """What an array holds at first; None for one that is left uninitialised."""
    if content.fill.endswith(".npy"):
        held = loaded(Path(content.fill), name, parameter.dtype)
        if content.shape:
            shape = shaped(name, content, parameter, values, None)[0]
            if held.size != math.prod(shape):
                raise ConfigError(f"array {name}: {content.fill} holds {held.shape}, not {shape}")
        return held
    if content.fill == "uninitialised":
        return None
    shape, dtype = shaped(name, content, parameter, values, None)
    if dtype.names:
        out = np.zeros(shape, dtype)
        for field in dtype.names:
            out[field] = _numbers(name, content.fill, out[field].shape, out.dtype[field].base, values, random)
        return out
    if "bfloat16" in parameter.type:  # NumPy has none: the upper half of a float32
        return (_numbers(name, content.fill, shape, np.dtype(np.float32), values, random).view(np.uint32) >> 16).astype(
            np.uint16
        )
    return _numbers(name, content.fill, shape, dtype, values, random)


def _numbers(
    name: str,
    fill: str,
    shape: tuple[int, ...],
    dtype: np.dtype,
    values: Mapping[str, Number],
    random: np.random.Generator,
) -> np.ndarray:
    """Random floats are standard normal, random whole numbers 0 to 9, where no range is given."""
    interval = _RANGE.fullmatch(fill)
    if interval:
        low, high = (evaluate(text, values) for text in interval.groups())
        if not low < high:
            raise ConfigError(f"array {name}: {fill} wants its low end below its high end, {low} and {high}")
        found: Any = (
            random.uniform(low, high, shape)
            if dtype.kind == "f"
            else random.integers(math.ceil(low), math.ceil(high), shape)
        )
        return _cast(name, fill, found, dtype)
    if fill == "random":
        found = (
            random.standard_normal(shape)
            if dtype.kind == "f"
            else random.integers(0, 2 if dtype.kind == "b" else 10, shape)
        )
        return found.astype(dtype)
    if fill == "iota":
        return _cast(name, fill, np.arange(math.prod(shape)).reshape(shape), dtype)
    if fill in ("zeros", "ones"):
        return np.full(shape, fill == "ones", dtype)
    raise ConfigError(f"array {name}: an array is filled with {FILLS}, not {fill!r}")


def _cast(name: str, fill: str, found: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if dtype.kind in "iu" and (found.min() < np.iinfo(dtype).min or found.max() > np.iinfo(dtype).max):
        raise ConfigError(
            f"array {name}: {fill} has numbers from {found.min()} to {found.max()}, which {dtype} cannot hold"
        )
    return found.astype(dtype)


def loaded(path: Path, name: str, dtype: np.dtype) -> np.ndarray:
    """The content of a .npy file for the array `name`; `ConfigError` where it cannot be read, is empty or of another
    type.
    """
    try:
        with path.open("rb") as file:
            held = np.lib.format.read_array(file, allow_pickle=False)
    except FileNotFoundError:
        raise ConfigError(f"array {name}: there is no file {path}") from None
    except (ValueError, EOFError, OSError) as error:
        raise ConfigError(f"array {name}: {path} cannot be read as a .npy file: {str(error).splitlines()[0]}") from None
    if held.dtype != dtype or not held.size:
        raise ConfigError(f"array {name}: {path} holds {held.size} numbers of {held.dtype}, the kernel takes {dtype}")
    return np.ascontiguousarray(held)


def constant(
    name: str, what: Any, shape: tuple[int, ...], dtype: np.dtype, values: Mapping[str, Number], seed: int
) -> np.ndarray:
    """What a __constant__ variable holds: a number, as many numbers as it has, or a fill; `ConfigError` where they do
    not fit.
    """
    what_it_is = f"constant {name}"
    if isinstance(what, str) and what.endswith(".npy"):
        held = loaded(Path(what), name, dtype)
    elif isinstance(what, str) and (_RANGE.fullmatch(what) or what in ("random", "zeros", "ones", "iota")):
        if dtype.names:
            raise ConfigError(f"{what_it_is} is a struct: it wants a .npy file")
        held = _numbers(name, what, shape, dtype, values, np.random.default_rng([seed, *name.encode()]))
    else:
        numbers = np.asarray(
            [evaluate(number, values) for number in (what if isinstance(what, (list, tuple)) else [what])]
        )
        if dtype.names or (numbers.dtype.kind == "f") > (dtype.kind == "f"):
            raise ConfigError(f"{what_it_is} holds {dtype}, and cannot be {what!r}")
        held = _cast(name, f"{what!r}", numbers, dtype)
    if held.size != math.prod(shape):
        raise ConfigError(f"{what_it_is} has {math.prod(shape)} numbers, and is given {held.size}")
    return np.ascontiguousarray(held.reshape(shape))
