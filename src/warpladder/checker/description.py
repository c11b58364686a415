"""Description of launches: source, values, arrays and launches, from a TOML file or the command line.

Sizes are still expressions here, and an array's type is the kernel parameter's; plan.py computes both.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..device.expressions import Number
from ..errors import ConfigError
from ..files.whole import read_whole

Expression = str | Number

_CONTENT = re.compile(
    r"\s*(?:(?P<type>[A-Za-z_][\w: ]*?)?\s*\[(?P<shape>[^\[\]]*)\]|(?P<length>[^:\[\]]*?))"
    r"\s*(?::\s*(?P<fill>[^:].*?))?\s*",
    re.DOTALL,
)


@dataclass(frozen=True)
class Content:
    """Content of an array before the first launch.

    shape : elements along each axis; empty if a file gives it.
    fill : random, random(low, high), zeros, ones, iota, uninitialised, or a .npy file.
    type : C type of an element; "" takes the kernel's.
    """

    shape: tuple[Expression, ...]
    fill: str = "random"
    type: str = ""


@dataclass(frozen=True)
class LaunchRequest:
    """Launch in a description.

    kernel : name with template arguments; "" for the only kernel of the source.
    grid, block : up to three sizes; shared : bytes.
    arguments : arrays and values, by parameter, for parameters whose name differs from their array or value.
    cooperative : True if all blocks run at the same time, so that the grid can have a barrier.
    """

    kernel: str
    grid: tuple[Expression, ...]
    block: tuple[Expression, ...]
    shared: Expression = 0
    arguments: Mapping[str, Expression] = field(default_factory=dict)
    cooperative: bool = False


@dataclass(frozen=True)
class Description:
    """Description of launches, in order, over the same arrays.

    source : the .cu file.
    values : numbers by name; each may use earlier ones.
    arrays : contents by name.
    expect : .npy files with the arrays' contents after the last launch.
    constants : values of __constant__ variables: a number, a list of numbers, or a fill as in `Content`.
    """

    source: Path
    launches: tuple[LaunchRequest, ...]
    values: Mapping[str, Expression] = field(default_factory=dict)
    arrays: Mapping[str, Content] = field(default_factory=dict)
    expect: Mapping[str, Path] = field(default_factory=dict)
    constants: Mapping[str, Expression | Sequence[Number]] = field(default_factory=dict)


def content(text: Expression, what: str) -> Content:
    """Content of an array from text: `1024`, `m*n`, `[m, n]`, `float[n]`, optionally with `:zeros` or another fill, or
    a .npy file.
    """
    if isinstance(text, int) and not isinstance(text, bool):
        return Content((text,))
    if not isinstance(text, str):
        raise ConfigError(f"{what}: an array is described by its length or in quotes, got {text!r}")
    if text.strip().endswith(".npy") and ":" not in text.replace(":\\", "").replace(":/", ""):
        return Content((), text.strip())
    match = _CONTENT.fullmatch(text)
    shape = sizes(match["length"] if match["shape"] is None else match["shape"], what) if match else ()
    if match is None or not shape:
        forms = "an array is described as 1024, [m, n], float[n] or x.npy, with :zeros or another fill"
        raise ConfigError(f"{what}: cannot read '{text}'; {forms}")
    return Content(shape, match["fill"] or "random", " ".join((match["type"] or "").split()))


def sizes(given: Any, what: str) -> tuple[Expression, ...]:
    """Sizes, one to three, from a number, an expression, several separated by commas, or a list."""
    if isinstance(given, str):
        parts: list[Any] = _split(given)
    else:
        parts = list(given) if isinstance(given, (list, tuple)) else [given]
    if not parts or any(isinstance(part, bool) or not isinstance(part, (int, str)) or part == "" for part in parts):
        raise ConfigError(f"{what} wants sizes as 4, 4,2 or (n + 255) / 256, got {given!r}")
    return tuple(parts)


def _split(text: str) -> list[str]:
    """Parts of a text between the commas outside of parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def read(path: Path) -> Description:
    """Description in a TOML file. Raises `ConfigError` for a missing, unknown or unreadable entry."""
    try:
        table = tomllib.loads(read_whole(path).decode())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is no TOML: {error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not a text file in UTF-8") from None
    return from_table(table, path)


def from_table(table: Mapping[str, Any], path: Path) -> Description:
    """Description in the table of a TOML file; names of other files are relative to its folder."""
    known = _only(
        table,
        {"source": str, "values": dict, "arrays": dict, "launch": list, "expect": dict, "constants": dict},
        f"{path.name}: it",
    )
    source = path.parent / known["source"] if "source" in known else path.with_suffix(".cu")
    arrays = {name: content(text, f"{path.name}: array {name}") for name, text in known.get("arrays", {}).items()}
    arrays = {
        name: replace(array, fill=str(path.parent / array.fill)) if array.fill.endswith(".npy") else array
        for name, array in arrays.items()
    }
    values = known.get("values", {})
    for name, value in values.items():
        if not isinstance(value, (str, int, float)):
            raise ConfigError(f"{path.name}: value {name} wants a number or an expression in quotes, got {value!r}")
    for name in values.keys() & arrays.keys():
        raise ConfigError(f"{path.name}: {name} is both a value and an array")
    expect = {}
    for name, file in known.get("expect", {}).items():
        if name not in arrays or not isinstance(file, str) or not file.endswith(".npy"):
            raise ConfigError(f'{path.name}: expect wants NAME = "FILE.npy" for names of arrays, got {name} = {file!r}')
        expect[name] = path.parent / file
    constants = {name: _constant(path, name, what) for name, what in known.get("constants", {}).items()}
    launches = tuple(
        _launch(entry, f"{path.name}: launch {number}") for number, entry in enumerate(known.get("launch", []), 1)
    )
    if not launches:
        raise ConfigError(f"{path.name} describes no launch: it wants [[launch]] with kernel, grid and block")
    return Description(source, launches, values, arrays, expect, constants)


def _constant(path: Path, name: str, what: Any) -> Any:
    numbers = [what] if isinstance(what, (int, float)) else what
    if isinstance(what, str):
        return str(path.parent / what) if what.endswith(".npy") else what
    if not isinstance(numbers, list) or not numbers or not all(isinstance(number, (int, float)) for number in numbers):
        forms = "a number, a list of numbers, a fill or a .npy file in quotes"
        raise ConfigError(f"{path.name}: constant {name} wants {forms}, got {what!r}")
    return what


def _launch(entry: Any, where: str) -> LaunchRequest:
    if not isinstance(entry, dict):
        raise ConfigError(f"{where} wants to be a table, [[launch]]")
    any_size = (int, str, list)
    kinds: dict[str, Any] = {
        "kernel": str, "grid": any_size, "block": any_size, "shared": (int, str), "arguments": dict,
    }  # fmt: skip
    kinds["cooperative"] = bool
    known = _only(entry, kinds, where)
    for name in ("grid", "block"):
        if name not in known:
            raise ConfigError(f"{where} has no {name}")
    for name, value in known.get("arguments", {}).items():
        if not isinstance(value, (str, int, float)):
            raise ConfigError(
                f"{where}: argument {name} wants an array's name, a number or an expression, got {value!r}"
            )
    grid, block = (sizes(known[name], f"{where}: {name}") for name in ("grid", "block"))
    return LaunchRequest(**{"kernel": "", **known, "grid": grid, "block": block})


def _only(table: Mapping[str, Any], kinds: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Table of checked entries. Raises `ConfigError` for an unknown key or a value of another type."""
    for name, value in table.items():
        if name not in kinds:
            raise ConfigError(f"{where} has an unknown entry {name!r}; there are {', '.join(kinds)}")
        if not isinstance(value, kinds[name]) or (isinstance(value, bool) and kinds[name] is not bool):
            wanted = kinds[name] if isinstance(kinds[name], tuple) else (kinds[name],)
            names = {str: "text", dict: "a table", list: "a list", int: "a number", bool: "true or false"}
            raise ConfigError(f"{where}: {name} wants {' or '.join(names[kind] for kind in wanted)}, got {value!r}")
    return dict(table)


def packed(description: Description) -> dict[str, Any]:
    """Description as a table for JSON."""
    table = asdict(description)
    return {
        **table,
        "source": str(description.source),
        "expect": {name: str(path) for name, path in description.expect.items()},
    }


def unpacked(table: dict[str, Any]) -> Description:
    """Description from its JSON table."""
    return Description(
        Path(table["source"]),
        tuple(
            LaunchRequest(**{**entry, "grid": tuple(entry["grid"]), "block": tuple(entry["block"])})
            for entry in table["launches"]
        ),
        table["values"],
        {name: Content(tuple(entry["shape"]), entry["fill"], entry["type"]) for name, entry in table["arrays"].items()},
        {name: Path(path) for name, path in table["expect"].items()},
        table["constants"],
    )
