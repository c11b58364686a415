"""A description worked out: every size a number, every array with its type and its content, every argument in its
place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..device.emulator.constants import constants
from ..device.emulator.symbols import refused
from ..device.signature import Parameter, Signature, instantiated, readable, signature, templates
from ..device.source import Source
from ..device.tensormap import TensorMap
from ..errors import ConfigError, KernelError
from .contents import filled, loaded, same_type, shaped
from .description import Asked, Content, Description
from .expressions import Number, evaluate, whole

#: What a parameter gets: an array's name, None for a null pointer, a number, or for a struct all of these by their
#: members' names.
Argument = str | Number | None | Mapping[str, "Argument"]


@dataclass(frozen=True)
class Planned:
    """One launch.

    arguments : in the order of the signature.
    number : which of the description's it is, counted from 1.
    """

    signature: Signature
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    arguments: tuple[Argument, ...]
    cooperative: bool = False
    number: int = 1


@dataclass(frozen=True)
class Plan:
    """Launches over arrays.

    arrays : what each holds at first; None for one that is left uninitialised, whose shape and type stand in `shapes`.
    expect : what arrays must hold in the end.
    constants : what __constant__ variables hold, by their full names, as the description has it.
    values : numbers by name.
    refused : kernels that cannot be launched, and in a line why.
    """

    launches: tuple[Planned, ...]
    shapes: dict[str, tuple[tuple[int, ...], np.dtype]]
    arrays: dict[str, np.ndarray | None]
    expect: dict[str, np.ndarray]
    constants: dict[str, Any]
    values: dict[str, Number]
    refused: dict[str, str]


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
    several = len(description.launches) > 1
    launches: list[Planned] = []
    without: dict[str, str] = {}
    kinds: dict[str, tuple[Parameter, str]] = {}
    for number, asked in enumerate(description.launches, 1):
        name = asked.kernel or only_kernel(source)
        why = refused(source).get(name)
        if why and several:
            without[name] = why
            continue
        kernel = signature(source, name)
        if any(parameter.type == TensorMap.__name__ for parameter in kernel.parameters):
            raise KernelError(
                f'kernel {kernel.name} takes a tensor map, for which a description has no words: send it from Python, to EmulatedDevice("check")'
            )
        where = f"launch {number}, kernel {kernel.name}" if several else f"kernel {kernel.name}"
        launches.append(_launch(kernel, asked, description, values, where, kinds, number))
    if without and not launches:
        raise KernelError("; ".join(without.values()))
    unused = description.arrays.keys() - kinds.keys()
    if unused and not without:
        raise ConfigError(f"no kernel that is launched takes the array {', '.join(sorted(unused))}")
    arrays, shapes = {}, {}
    for position, (name, content) in enumerate(description.arrays.items()):
        if name not in unused:
            arrays[name], shapes[name] = _array(
                name, content, kinds[name][0], values, source, np.random.default_rng([seed, position])
            )
    expect = {name: loaded(path, name, shapes[name][1]) for name, path in description.expect.items() if name in shapes}
    for name, wanted in expect.items():
        if wanted.size != math.prod(shapes[name][0]):
            raise ConfigError(
                f"{description.expect[name]} holds {wanted.size} numbers, array {name} {math.prod(shapes[name][0])}"
            )
    return Plan(tuple(launches), shapes, arrays, expect, _constants(description, source), values, without)


def only_kernel(source: Source) -> str:
    """The kernel of a source that has one, or the one instance that the source names of its only template."""
    found = readable(source)
    instances = instantiated(source)
    if len(found) == 1 and found[0] in templates(source) and len(instances) == 1:
        return instances[0]
    found += [name for name in refused(source) if name not in found]
    if len(found) != 1:
        raise ConfigError(
            f"{source.path.name} has {len(found) or 'no'} kernels{': ' + ', '.join(found) if found else ''}; name the one to launch"
        )
    return found[0]


def _launch(
    kernel: Signature, asked: Asked, description: Description, values: dict[str, Number], where: str, kinds: dict[str, tuple[Parameter, str]],
    number: int,
) -> Planned:  # fmt: skip
    """One launch worked out; `kinds` learns what its arrays are made of."""
    known = {p.name for parameter in kernel.parameters for p in (parameter, *parameter.leaves)}
    unknown = asked.arguments.keys() - known
    if unknown:
        raise ConfigError(f"{where} has no parameter {', '.join(sorted(unknown))}; it is {kernel}")
    arguments: list[Argument] = []
    for parameter in kernel.parameters:
        given = {leaf.name: _argument(leaf, asked, description, values, where) for leaf in parameter.leaves}
        for leaf in parameter.leaves:
            name = given[leaf.name]
            if leaf.pointer and isinstance(name, str):
                before, user = kinds.setdefault(name, (leaf, where))
                if before.dtype != leaf.dtype:
                    raise ConfigError(f"array {name} is {before.type} for {user}, and {leaf.type} for {where}")
        inside = {name[len(parameter.name) + 1 :]: argument for name, argument in given.items()}
        arguments.append(inside if parameter.members else given[parameter.name])
    grid, block = (
        tuple(whole(size, values, f"{what} of {where}") for size in given)
        for what, given in (("grid", asked.grid), ("block", asked.block))
    )
    shared = whole(asked.shared, values, f"shared of {where}")
    return Planned(kernel, grid, block, shared, tuple(arguments), asked.cooperative, number)


def _array(
    name: str,
    content: Content,
    parameter: Parameter,
    values: dict[str, Number],
    source: Source,
    random: np.random.Generator,
) -> tuple[np.ndarray | None, tuple[tuple[int, ...], np.dtype]]:
    """What an array holds at first, its shape and its type."""
    if content.type:
        same_type(name, content.type, parameter, source)
    held = filled(name, content, parameter, values, random)
    return held, shaped(name, content, parameter, values, held)


def _constants(description: Description, source: Source) -> dict[str, Any]:
    """What the description says of __constant__ variables, by their full names."""
    known, out = constants(source), {}
    for name, what in description.constants.items():
        full = [there for there in known if name == there or there.endswith(f"::{name}")]
        if len(full) != 1:
            raise ConfigError(
                f"{source.path.name} has {'several' if full else 'no'} __constant__ {name} to be filled; it has {', '.join(known) or 'none'}"
            )
        out[full[0]] = what
    return out


def _argument(
    parameter: Parameter, asked: Asked, description: Description, values: dict[str, Number], where: str
) -> str | Number | None:
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
