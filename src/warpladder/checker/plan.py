"""`CheckPlan` of a check: sizes as numbers, arrays with type and content, arguments in the order of the parameters."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..device.declarations import instantiated, readable, signature, templates
from ..device.emulator.symbols import constants, refused
from ..device.expressions import Number, evaluate, whole
from ..device.signature import Parameter, Signature
from ..device.source import KernelSource
from ..device.tensormap import TensorMap
from ..errors import ConfigError, KernelError
from .contents import filled, loaded, same_type, shaped
from .description import Description, LaunchRequest


@dataclass(frozen=True)
class Within:
    """Pointer into an array: `in + 3`. offset : numbers from its begin, four for an element of float4."""

    array: str
    offset: int


#: Argument of a parameter: an array's name, a pointer into it, None for a null pointer, a number, or for a struct a
#: mapping of members.
Argument = str | Within | Number | None | Mapping[str, "Argument"]
#: Pointer into an array: in + 3, in - n, &in[3].
_WITHIN = re.compile(
    r"\s*(?:(?P<name>[A-Za-z_][\w.]*)\s*(?P<sign>[+-])\s*(?P<by>.+)|&\s*(?P<of>[A-Za-z_][\w.]*)\[(?P<at>.+)\])\s*"
)


@dataclass(frozen=True)
class PlannedLaunch:
    """Launch of a plan, with arguments in the signature's order; number : its number in the description, from 1."""

    signature: Signature
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    arguments: tuple[Argument, ...]
    cooperative: bool = False
    number: int = 1


@dataclass(frozen=True)
class CheckPlan:
    """Plan of launches over arrays.

    arrays : content of each before the first launch; None for an uninitialised one. shapes : shape and type of each.
    expect : content that arrays must have after the last launch. values : numbers by name.
    constants : contents of __constant__ variables, by their full names, as in the description.
    refused : reasons by kernel that cannot be launched.
    """

    launches: tuple[PlannedLaunch, ...]
    shapes: dict[str, tuple[tuple[int, ...], np.dtype]]
    arrays: dict[str, np.ndarray | None]
    expect: dict[str, np.ndarray]
    constants: dict[str, Any]
    values: dict[str, Number]
    refused: dict[str, str]


def plan(description: Description, source: KernelSource, seed: int = 0) -> CheckPlan:
    """Plan of a description. Raises `ConfigError` or `KernelError` if an entry is missing or does not fit the
    kernels.
    """
    values: dict[str, Number] = {}
    for name, text in description.values.items():
        values[name] = evaluate(text, values)
    several = len(description.launches) > 1
    launches: list[PlannedLaunch] = []
    without: dict[str, str] = {}
    kinds: dict[str, tuple[Parameter, str]] = {}
    for number, request in enumerate(description.launches, 1):
        name = request.kernel or only_kernel(source)
        why = refused(source).get(name)
        if why and not several:
            raise KernelError(why)
        if why:
            without[name] = why
            continue
        kernel = signature(source, name)
        if any(parameter.type == TensorMap.__name__ for parameter in kernel.parameters):
            raise KernelError(
                f"kernel {kernel.name} takes a tensor map, which a description cannot give: "
                'send it from Python, to EmulatedDevice("check")'
            )
        where = f"launch {number}, kernel {kernel.name}" if several else f"kernel {kernel.name}"
        launches.append(_launch(kernel, request, description, values, _Context(where, number, kinds)))
    if without and not launches:
        raise KernelError("; ".join(without.values()))
    unused = description.arrays.keys() - kinds.keys()
    if unused and not without:
        raise ConfigError(f"no kernel that is launched takes the array {', '.join(sorted(unused))}")
    arrays, shapes = {}, {}
    for position, (name, content) in enumerate(description.arrays.items()):
        if name not in unused:
            parameter, random = kinds[name][0], np.random.default_rng([seed, position])
            if content.type:
                same_type(name, content.type, parameter, source)
            arrays[name] = filled(name, content, parameter, values, random)
            shapes[name] = shaped(name, content, parameter, values, arrays[name])
    expect = _expected(description, shapes)
    return CheckPlan(tuple(launches), shapes, arrays, expect, _constants(description, source), values, without)


def _expected(
    description: Description, shapes: Mapping[str, tuple[tuple[int, ...], np.dtype]]
) -> dict[str, np.ndarray]:
    """Contents that arrays must have after the last launch, from files."""
    expect = {name: loaded(path, name, shapes[name][1]) for name, path in description.expect.items() if name in shapes}
    for name, wanted in expect.items():
        size = math.prod(shapes[name][0])
        if wanted.size != size:
            raise ConfigError(f"{description.expect[name]} holds {wanted.size} numbers, array {name} {size}")
    return expect


def only_kernel(source: KernelSource) -> str:
    """Name of a source's only kernel, or of the only instance of its only template."""
    found = readable(source)
    instances = instantiated(source)
    if len(found) == 1 and found[0] in templates(source) and len(instances) == 1:
        return instances[0]
    found += [name for name in refused(source) if name not in found]
    if len(found) != 1:
        listed = f": {', '.join(found)}" if found else ""
        raise ConfigError(f"{source.path.name} has {len(found) or 'no'} kernels{listed}; name the one to launch")
    return found[0]


@dataclass(frozen=True)
class _Context:
    """Context of a launch while it is planned; where : its name in messages, number : its number, from 1.

    kinds : first parameter and launch that took each array, by the array's name; `_launch` adds to it.
    """

    where: str
    number: int
    kinds: dict[str, tuple[Parameter, str]]


def _launch(
    kernel: Signature, request: LaunchRequest, description: Description, values: dict[str, Number], context: _Context
) -> PlannedLaunch:
    """Plan of one launch: its sizes, and its arguments in order."""
    where = context.where
    known = {p.name for parameter in kernel.parameters for p in (parameter, *parameter.leaves)}
    unknown = request.arguments.keys() - known
    if unknown:
        raise ConfigError(f"{where} has no parameter {', '.join(sorted(unknown))}; it is {kernel}")
    arguments: list[Argument] = []
    for parameter in kernel.parameters:
        given = {leaf.name: _argument(leaf, request, description, values, where) for leaf in parameter.leaves}
        for leaf in parameter.leaves:
            name = given[leaf.name]
            if leaf.pointer and isinstance(name, (str, Within)):
                name = name if isinstance(name, str) else name.array
                before, user = context.kinds.setdefault(name, (leaf, where))
                if before.dtype != leaf.dtype:
                    raise ConfigError(f"array {name} is {before.type} for {user}, and {leaf.type} for {where}")
        inside = {name[len(parameter.name) + 1 :]: argument for name, argument in given.items()}
        arguments.append(inside if parameter.is_struct else given[parameter.name])
    for what, axes in (("grid", request.grid), ("block", request.block)):
        if len(axes) > 3:
            raise ConfigError(f"{what} of {where} wants one to three numbers, got {len(axes)}")
    grid, block = (
        tuple(whole(size, values, f"{what} of {where}") for size in given)
        for what, given in (("grid", request.grid), ("block", request.block))
    )
    shared = whole(request.shared, values, f"shared of {where}")
    return PlannedLaunch(kernel, grid, block, shared, tuple(arguments), request.cooperative, context.number)


def _constants(description: Description, source: KernelSource) -> dict[str, Any]:
    """Contents of __constant__ variables from the description, by their full names."""
    known, out = constants(source), {}
    for name, what in description.constants.items():
        full = [there for there in known if name == there or there.endswith(f"::{name}")]
        if len(full) != 1:
            count, listed = "several" if full else "no", ", ".join(known) or "none"
            raise ConfigError(f"{source.path.name} has {count} __constant__ {name} to be filled; it has {listed}")
        out[full[0]] = what
    return out


def _argument(
    parameter: Parameter, request: LaunchRequest, description: Description, values: dict[str, Number], where: str
) -> str | Within | Number | None:
    """Argument of a parameter that is no struct: a number, an array, a pointer into one, or None for a null pointer."""
    given = request.arguments.get(parameter.name, parameter.name)
    if not parameter.pointer:
        if given == parameter.name and given not in values:
            raise ConfigError(f"{where}: nothing says what the number {parameter} is{_given(description)}")
        return evaluate(given, values)
    if given in ("null", "nullptr"):
        return None
    if place := within(given, description.arrays):
        return Within(place[0], parameter.width * _offset(place[1], values, f"{where}: {parameter}"))
    if given not in description.arrays:
        if given == parameter.name:
            raise ConfigError(f"{where}: nothing says what the array {parameter} holds{_given(description)}")
        listed = ", ".join(description.arrays) or "none"
        raise ConfigError(f"{where}: {parameter} is given {given!r}, which is no array; there are {listed}")
    return str(given)


def _given(description: Description) -> str:
    """Words on the arrays and numbers of a description, for a message that another is missing."""
    names = [*description.arrays, *description.values]
    return f"; what is given is {', '.join(names)}" if names else ""


def within(text: Any, arrays: Container[str]) -> tuple[str, str] | None:
    """Array and expression of a pointer into an array, as in `x + 3`; None for anything else."""
    match = _WITHIN.fullmatch(text) if isinstance(text, str) else None
    if match is None or (match["name"] or match["of"]) not in arrays:
        return None
    return (match["of"], match["at"]) if match["of"] else (match["name"], f"{match['sign']}({match['by']})")


def _offset(text: str, values: dict[str, Number], where: str) -> int:
    found = evaluate(text, values)
    if not isinstance(found, int):
        raise ConfigError(f"{where} wants a whole number of elements, got {text} = {found}")
    return found
