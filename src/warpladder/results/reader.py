"""Frozen dataclasses out of JSON: every field checked, the first fault told in one line with its place."""

from __future__ import annotations

import json
import math
import types
import typing
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from ..errors import ResultsError

#: Metadata of a dataclass's field that files of older versions lack: it has a default.
LATER: dict[str, bool] = {"added later": True}


def read_json(raw: bytes, nan: bool = False) -> Any:
    """The tree that these bytes spell; `ResultsError` where they are no JSON. With `nan`, NaN, which older files hold,
    is read as null.
    """
    try:
        return json.loads(
            raw.decode("utf-8"),
            parse_constant=(lambda token: None if token == "NaN" else _no_constant(token)) if nan else _no_constant,
        )
    except UnicodeDecodeError:
        raise ResultsError("is not a results file: its bytes are not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ResultsError(f"is not a results file: {error.msg} in line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise ResultsError("is not a results file: it is nested too deeply") from None
    except ValueError as error:  # a constant that JSON does not know, or a whole number of thousands of digits
        raise ResultsError(f"is not a results file: {' '.join(str(error).split())}") from None


def _no_constant(token: str) -> float:
    raise ValueError(f"{token} is not a number that JSON knows")


def read(kind: Any, value: Any, where: str) -> Any:
    """`value`, out of JSON, as the annotated type `kind`: a dataclass, tuple[X, ...], dict[str, X], a union or a plain
    type.
    """
    if is_dataclass(kind):
        return _read_record(kind, value, where)
    if kind is Any:
        return value
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        if not isinstance(value, list):
            raise _wrong(where, "a list", value)
        if args[-1] is not Ellipsis and len(value) != len(args):
            raise _wrong(where, f"a list of {len(args)}", value)
        each = args if args[-1] is not Ellipsis else (args[0],) * len(value)
        return tuple(read(kind, item, f"{where}[{i}]") for i, (kind, item) in enumerate(zip(each, value, strict=True)))
    if origin is dict:
        if not isinstance(value, dict):
            raise _wrong(where, "an object", value)
        return {
            read(str, key, f"a key of {where}"): read(args[1], item, f"{where}.{short(key)}")
            for key, item in value.items()
        }
    if origin is types.UnionType:
        if value is None and type(None) in args:
            return None
        kinds = [kind for kind in args if kind is not type(None)]
        python = tuple if type(value) is list else type(value)
        exact = [kind for kind in kinds if python is (typing.get_origin(kind) or kind)]
        return read((exact or kinds)[0], value, where)
    if kind is float and type(value) in (int, float):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise _wrong(where, "a finite number", value)
        return number
    if type(value) is not kind:
        raise _wrong(where, {float: "a number", int: "a whole number", bool: "true or false", str: "text"}[kind], value)
    if kind is int and abs(value) >= 2**53:
        raise _wrong(where, "a whole number below 2^53", value)
    if kind is str and not value.isprintable():
        raise _wrong(where, "one line of printable text", value)
    return value


def _read_record(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise _wrong(where, "an object", value)
    hints = _hints(kind)
    prefix = f"{where}." if where else ""
    for name in value:
        if name not in hints:
            raise ResultsError(f"{prefix}{short(name)} is not a field of this schema")
    later = {field.name for field in fields(kind) if field.metadata.get("added later")}
    for name in hints:
        if name not in value and name not in later:
            raise ResultsError(f"{prefix}{name} is missing")
    values = {name: read(hints[name], value[name], prefix + name) for name in hints if name in value}
    try:
        return kind(**values)
    except ResultsError as error:  # fields that do not go together
        raise ResultsError(f"{where}: {error}" if where else str(error)) from None


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """The types of a dataclass's fields, in order."""
    every = typing.get_type_hints(kind)
    return {field.name: every[field.name] for field in fields(kind)}


def _wrong(where: str, wanted: str, value: Any) -> ResultsError:
    return ResultsError(f"{where} wants {wanted}, got {short(value)}")


def short(value: Any) -> str:
    """A value in an error's line: printable, and no longer than a few words."""
    try:
        text = ascii(value)
    except (ValueError, RecursionError):  # Python refuses to print whole numbers of thousands of digits
        text = f"a {type(value).__name__}"
    return text if len(text) <= 40 else text[:37] + "..."
