"""A description worked out: every size a number, every array with its type and its content, every argument in its place."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..device.signature import Parameter, Signature, names, signature
from ..device.source import Source
from ..device.types import resolve
from ..errors import ConfigError
from .arithmetic import Number, evaluate, whole
from .describe import Asked, Content, Description

_RANGE = re.compile(r"random\s*\(([^,]+),([^,]+)\)")
FILLS = "random, random(low, high), zeros, ones, iota, uninitialised, or a .npy file"


@dataclass(frozen=True)
class Planned:
    """One launch.

    arguments : an array's name, None for a null pointer, or a number, in the order of the signature.
    """

    signature: Signature
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    arguments: tuple[str | Number | None, ...]


@dataclass(frozen=True)
class Plan:
    """Launches over arrays.

    arrays : what each holds at first; None for one that is left uninitialised, whose shape and type stand in `shapes`.
    expect : what arrays must hold in the end.
    """

    launches: tuple[Planned, ...]
    shapes: dict[str, tuple[tuple[int, ...], np.dtype]]
    arrays: dict[str, np.ndarray | None]
    expect: dict[str, np.ndarray]


def plan(description: Description, source: Source, seed: int = 0) -> Plan:
    """Work a description out; `ConfigError` or `KernelError` says what in it is missing or does not fit the kernels.

    Parameters
    ----------
    description : Description
    source : Source
        Of the kernels, as the emulator will compile it.
    seed : int
        Of random content, the same for the same seed.
    """
    values: dict[str, Number] = {}
    for name, text in description.values.items():
        values[name] = evaluate(text, values)
    launches = []
    kinds: dict[str, tuple[Parameter, str]] = {}
    for number, asked in enumerate(description.launches, 1):
        kernel = signature(source, asked.kernel or only_kernel(source))
        where = f"kernel {kernel.name}" if len(description.launches) == 1 else f"launch {number}, kernel {kernel.name}"
        unknown = asked.arguments.keys() - {parameter.name for parameter in kernel.parameters}
        if unknown:
            raise ConfigError(f"{where} has no parameter {', '.join(sorted(unknown))}; it is {kernel}")
        arguments = tuple(_argument(parameter, asked, description, values, where) for parameter in kernel.parameters)
        for parameter, argument in zip(kernel.parameters, arguments, strict=True):
            if parameter.pointer and isinstance(argument, str):
                before, user = kinds.setdefault(argument, (parameter, where))
                if before.dtype != parameter.dtype:
                    raise ConfigError(f"array {argument} is {before.type} for {user}, and {parameter.type} for {where}")
        grid, block = (
            tuple(whole(size, values, f"{what} of {where}") for size in given)
            for what, given in (("grid", asked.grid), ("block", asked.block))
        )
        launches.append(Planned(kernel, grid, block, whole(asked.shared, values, f"shared of {where}"), arguments))
    unused = description.arrays.keys() - kinds.keys()
    if unused:
        raise ConfigError(f"no kernel that is launched takes the array {', '.join(sorted(unused))}")
    arrays, shapes = {}, {}
    for position, (name, content) in enumerate(description.arrays.items()):
        parameter = kinds[name][0]
        if content.type:
            _same_type(name, content.type, parameter, source)
        arrays[name] = _filled(name, content, parameter, values, np.random.default_rng([seed, position]))
        shapes[name] = _shape(name, content, parameter, values, arrays[name])
    expect = {name: _loaded(path, name, shapes[name][1]) for name, path in description.expect.items()}
    for name, wanted in expect.items():
        if wanted.size != math.prod(shapes[name][0]):
            raise ConfigError(f"{description.expect[name]} holds {wanted.size} numbers, array {name} {math.prod(shapes[name][0])}")
    return Plan(tuple(launches), shapes, arrays, expect)


def only_kernel(source: Source) -> str:
    found = names(source)
    if len(found) != 1:
        raise ConfigError(
            f"{source.path.name} has {len(found) or 'no'} kernels{': ' + ', '.join(found) if found else ''}; name the one to launch"
        )
    return found[0]


def _argument(parameter: Parameter, asked: Asked, description: Description, values: dict[str, Number], where: str) -> str | Number | None:
    given = asked.arguments.get(parameter.name, parameter.name)
    if not parameter.pointer:
        if given == parameter.name and given not in values:
            raise ConfigError(f"{where}: nothing says what the number {parameter} is")
        return evaluate(given, values)
    if given in ("null", "nullptr"):
        return None
    if given not in description.arrays:
        raise ConfigError(
            f"{where}: nothing says what the array {parameter} holds"
            if given == parameter.name
            else f"{where}: {parameter} is given {given!r}, which is no array; there are {', '.join(description.arrays) or 'none'}"
        )
    return str(given)


def _same_type(name: str, declared: str, parameter: Parameter, source: Source) -> None:
    kind = resolve(declared, source.text)
    if kind is None:
        raise ConfigError(
            f"array {name}: {declared!r} is no type of C or of {source.path.name}; it may be left out, the kernel's is {parameter.type}"
        )
    if (kind.dtype, kind.width) != (parameter.dtype, parameter.width):
        raise ConfigError(f"array {name} is said to be {declared}, and the kernel takes {parameter}")


def _shape(
    name: str, content: Content, parameter: Parameter, values: dict[str, Number], held: np.ndarray | None
) -> tuple[tuple[int, ...], np.dtype]:
    if held is not None:
        return held.shape, held.dtype
    shape = tuple(whole(size, values, f"array {name}") for size in content.shape)
    if math.prod(shape) < 1:
        raise ConfigError(f"array {name} is empty: {' x '.join(map(str, shape))}")
    return (*shape, parameter.width) if parameter.width > 1 else shape, parameter.dtype


def _filled(name: str, content: Content, parameter: Parameter, values: dict[str, Number], random: np.random.Generator) -> np.ndarray | None:
    if content.fill.endswith(".npy"):
        held = _loaded(Path(content.fill), name, parameter.dtype)
        if content.shape:
            shape = _shape(name, content, parameter, values, None)[0]
            if held.size != math.prod(shape):
                raise ConfigError(f"array {name}: {content.fill} holds {held.shape}, not {shape}")
        return held
    if content.fill == "uninitialised":
        return None
    shape, dtype = _shape(name, content, parameter, values, None)
    if dtype.names:
        out = np.zeros(shape, dtype)
        for field in dtype.names:
            out[field] = _numbers(name, content.fill, out[field].shape, out.dtype[field].base, values, random)
        return out
    if "bfloat16" in parameter.type:  # NumPy has none: the upper half of a float32
        return (_numbers(name, content.fill, shape, np.dtype(np.float32), values, random).view(np.uint32) >> 16).astype(np.uint16)
    return _numbers(name, content.fill, shape, dtype, values, random)


def _numbers(
    name: str, fill: str, shape: tuple[int, ...], dtype: np.dtype, values: dict[str, Number], random: np.random.Generator
) -> np.ndarray:
    """Random floats are standard normal, random whole numbers 0 to 9, where no range is given."""
    interval = _RANGE.fullmatch(fill)
    if interval:
        low, high = (evaluate(text, values) for text in interval.groups())
        if not low < high:
            raise ConfigError(f"array {name}: {fill} wants its low end below its high end, {low} and {high}")
        found: Any = random.uniform(low, high, shape) if dtype.kind == "f" else random.integers(math.ceil(low), math.ceil(high), shape)
        return _cast(name, fill, found, dtype)
    if fill == "random":
        found = random.standard_normal(shape) if dtype.kind == "f" else random.integers(0, 2 if dtype.kind == "b" else 10, shape)
        return found.astype(dtype)
    if fill == "iota":
        return _cast(name, fill, np.arange(math.prod(shape)).reshape(shape), dtype)
    if fill in ("zeros", "ones"):
        return np.full(shape, fill == "ones", dtype)
    raise ConfigError(f"array {name}: an array is filled with {FILLS}, not {fill!r}")


def _cast(name: str, fill: str, found: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if dtype.kind in "iu" and (found.min() < np.iinfo(dtype).min or found.max() > np.iinfo(dtype).max):
        raise ConfigError(f"array {name}: {fill} has numbers from {found.min()} to {found.max()}, which {dtype} cannot hold")
    return found.astype(dtype)


def _loaded(path: Path, name: str, dtype: np.dtype) -> np.ndarray:
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
