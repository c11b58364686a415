"""Contents of arrays and constants: from files, random or constant before the first launch, and their comparison
afterwards.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..device.expressions import Number, evaluate, whole
from ..device.signature import Parameter
from ..device.source import KernelSource
from ..device.types import enumerators, resolve
from ..errors import ConfigError
from ..files.npy import read_npy
from .description import Content

_RANGE = re.compile(r"random\s*\(([^,]+),([^,]+)\)")
FILLS = "random, random(low, high), zeros, ones, iota, uninitialised, or a .npy file"


def same_type(name: str, declared: str, parameter: Parameter, source: KernelSource) -> None:
    """Raise `ConfigError` if an array's declared type differs from the kernel's parameter."""
    kind = resolve(declared, source.text)
    if kind is None and " ".join(declared.split()) == parameter.type:
        return
    if kind is None:
        leave = f"it may be left out, the kernel's is {parameter.type}"
        raise ConfigError(f"array {name}: {declared!r} is no type of C or of {source.path.name}; {leave}")
    if (kind.dtype, kind.width) != (parameter.dtype, parameter.width):
        raise ConfigError(f"array {name} is said to be {declared}, and the kernel takes {parameter}")


def shaped(
    name: str, content: Content, parameter: Parameter, values: Mapping[str, Number], held: np.ndarray | None
) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type of an array: of its content `held`, or from the description; vector types add a last axis."""
    if held is not None:
        return held.shape, held.dtype
    shape = tuple(whole(size, values, f"array {name}") for size in content.shape)
    if math.prod(shape) < 1:
        raise ConfigError(f"array {name} is empty: {' x '.join(map(str, shape))}")
    return (*shape, parameter.width) if parameter.width > 1 else shape, parameter.dtype


def filled(
    name: str, content: Content, parameter: Parameter, values: Mapping[str, Number], random: np.random.Generator
) -> np.ndarray | None:
    """Content of an array before the first launch; None for an uninitialised one."""
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
        _fill(out, name, content.fill, values, random)
        return out
    if "bfloat16" in parameter.type:  # NumPy has no bf16: the upper half of a float32
        wide = _numbers(name, content.fill, shape, np.dtype(np.float32), values, random)
        return (wide.view(np.uint32) >> 16).astype(np.uint16)
    return _numbers(name, content.fill, shape, dtype, values, random)


def _fill(
    out: np.ndarray, name: str, fill: str, values: Mapping[str, Number], random: np.random.Generator
) -> None:  # fmt: skip
    """Fill each number in an array of structs."""
    for field in out.dtype.names or ():
        kind = out.dtype[field].base
        if kind.names:
            _fill(out[field], name, fill, values, random)
        elif kind.kind != "V":
            out[field] = _numbers(name, fill, out[field].shape, kind, values, random)


def _numbers(
    name: str, fill: str, shape: tuple[int, ...], dtype: np.dtype, values: Mapping[str, Number],
    random: np.random.Generator,
) -> np.ndarray:  # fmt: skip
    """Numbers of a fill, as an array; without a range random floats are standard normal, random integers 0 to 9."""
    interval = _RANGE.fullmatch(fill)
    if interval:
        low, high = (evaluate(text, values) for text in interval.groups())
        if not low < high:
            raise ConfigError(f"array {name}: {fill} wants its low end below its high end, {low} and {high}")
        if dtype.kind == "f":
            return _cast(name, fill, random.uniform(low, high, shape), dtype)
        return _cast(name, fill, random.integers(math.ceil(low), math.ceil(high), shape), dtype)
    if fill == "random":
        if enumerators(dtype):
            return random.choice(np.asarray(enumerators(dtype), dtype), shape)
        if dtype.kind == "f":
            return random.standard_normal(shape).astype(dtype)
        return random.integers(0, 2 if dtype.kind == "b" else 10, shape).astype(dtype)
    if fill == "iota":
        return _cast(name, fill, np.arange(math.prod(shape)).reshape(shape), dtype)
    if fill in ("zeros", "ones"):
        return np.full(shape, fill == "ones", dtype)
    raise ConfigError(f"array {name}: an array is filled with {FILLS}, not {fill!r}")


def _cast(name: str, fill: str, found: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if dtype.kind in "iu" and (found.min() < np.iinfo(dtype).min or found.max() > np.iinfo(dtype).max):
        raise ConfigError(f"array {name}: {fill} has {found.min()} to {found.max()}, which {dtype} cannot hold")
    return found.astype(dtype)


def loaded(path: Path, name: str, dtype: np.dtype) -> np.ndarray:
    """Content of a .npy file for the array `name`. Raises `ConfigError` if it is unreadable, empty or of another
    type.
    """
    try:
        held = read_npy(path)
    except FileNotFoundError:
        raise ConfigError(f"array {name}: there is no file {path}") from None
    except (ValueError, OSError) as error:
        raise ConfigError(f"array {name}: {path} cannot be read as a .npy file: {str(error).splitlines()[0]}") from None
    if held.dtype != dtype or not held.size:
        raise ConfigError(f"array {name}: {path} holds {held.size} numbers of {held.dtype}, the kernel takes {dtype}")
    return np.ascontiguousarray(held)


def constant(
    name: str, what: Any, shape: tuple[int, ...], dtype: np.dtype, values: Mapping[str, Number], seed: int
) -> np.ndarray:
    """Content of a __constant__ variable from a number, a list of numbers, or a fill. Raises `ConfigError` if it
    does not fit.
    """
    what_it_is = f"constant {name}"
    if isinstance(what, str) and what.endswith(".npy"):
        held = loaded(Path(what), name, dtype)
    elif isinstance(what, str) and (_RANGE.fullmatch(what) or what in ("random", "zeros", "ones", "iota")):
        if dtype.names:
            raise ConfigError(f"{what_it_is} is a struct: it wants a .npy file")
        held = _numbers(name, what, shape, dtype, values, np.random.default_rng([seed, *name.encode()]))
    else:
        listed = what if isinstance(what, (list, tuple)) else [what]
        numbers = np.asarray([evaluate(number, values) for number in listed])
        if dtype.names or (numbers.dtype.kind == "f") > (dtype.kind == "f"):
            raise ConfigError(f"{what_it_is} holds {dtype}, and cannot be {what!r}")
        held = _cast(name, f"{what!r}", numbers, dtype)
    if held.size != math.prod(shape):
        raise ConfigError(f"{what_it_is} has {math.prod(shape)} numbers, and is given {held.size}")
    return np.ascontiguousarray(held.reshape(shape))


def differs_by_rounding(found: np.ndarray, wanted: np.ndarray, length: int) -> bool:
    """True if rounding explains every difference of two arrays: normwise, for sums of `length` terms; integers must
    be equal.
    """
    from ..proof.tolerance import bound  # here: with the proof a mode's process takes twice as long to start

    for (_, a), (_, b) in zip(_parts(found), _parts(wanted), strict=True):
        if a.dtype.kind != "f":
            same = np.array_equal(a, b)
        elif a.dtype == np.float16:  # sums are not stored in this type: one unit in the last place
            near = (abs(a - b) <= np.spacing(abs(b))) | (a == b) | np.isnan(b)
            same = np.array_equal(np.isnan(a), np.isnan(b)) and bool(np.all(near))
        else:
            finite = np.isfinite(b)
            same = np.array_equal(a[~finite], b[~finite], equal_nan=True)
            limit = bound(b.dtype, length) * np.linalg.norm(b[finite].astype(np.float64))
            same = same and bool(np.linalg.norm(a[finite].astype(np.float64) - b[finite]) <= limit)
        if not same:
            return False
    return True


def first_difference(name: str, found: np.ndarray, wanted: np.ndarray) -> tuple[str, str, str, int]:
    """Element with the largest difference of two arrays, its two values, and the number of elements that differ."""
    for field, a, b in ((field, a, b) for (field, a), (_, b) in zip(_parts(found), _parts(wanted), strict=True)):
        differ = ~((a == b) | ((a != a) & (b != b)))
        if differ.any():
            with np.errstate(invalid="ignore", over="ignore"):
                size = np.where(differ, abs(a.astype(np.float64) - b.astype(np.float64)), -1.0)
            at = np.unravel_index(int(np.where(np.isnan(size), np.inf, size).argmax()), a.shape)
            place = ", ".join(map(str, at))
            return f"{name}[{place}]{'.' + field if field else ''}", f"{a[at]:.9g}", f"{b[at]:.9g}", int(differ.sum())
    return name, "equal", "equal", 0  # except for the bits of NaN or the sign of zero


def _parts(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Array, or each field of a structured one, with its name."""
    for field in array.dtype.names or ("",):
        yield field, np.asarray(array[field] if field else array)
