"""Frozen dataclasses from JSON or TOML trees: every field is checked, and one line names the first fault and its
place.
"""

from __future__ import annotations

import json
import math
import types
import typing
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any

from ..errors import ResultsError

#: Metadata of a field that only one kind of file has: a file of directions, or a file of results, which must have it.
DIRECTION, RESULT = "direction", "result"


def read_json(raw: bytes) -> Any:
    """JSON tree of these bytes. Raises `ResultsError` if they are no JSON."""
    try:
        return json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise ResultsError("is not a results file: its bytes are not UTF-8 text") from None
    except json.JSONDecodeError as error:
        if reason := _plainly(raw.strip()):
            raise ResultsError(f"is not a results file: {reason}") from None
        raise ResultsError(f"is not a results file: {error.msg} in line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise ResultsError("is not a results file: it is nested too deeply") from None
    except ValueError as error:  # a constant that JSON lacks, or a whole number of thousands of digits
        reason = "it has a number of thousands of digits" if "digits" in str(error) else " ".join(str(error).split())
        raise ResultsError(f"is not a results file: {reason}") from None


def _plainly(raw: bytes) -> str | None:
    """Reason why bytes are no JSON, where it is plain without a place."""
    if not raw:
        return "it is empty"
    raw = raw.removeprefix(b"\xef\xbb\xbf")  # a mark of UTF-8, which JSON has not
    if raw[:1] == b"<":
        return "it is a page (HTML or XML): name the results.json that the page was made of"
    return None if raw[:1] in b"{[" else "it is other text, for JSON begins with {"


def _no_constant(token: str) -> float:
    raise ValueError(f"{token} is not a number that JSON knows")


def read(kind: Any, value: Any, where: str, source: str = RESULT) -> Any:
    """`value`, from JSON or TOML, as the annotated type `kind`: a dataclass, tuple[X, ...], dict[str, X], a union or a
    plain type. A field of a dataclass may be missing if it has a default.

    source : kind of the file, `RESULT` or `DIRECTION`: fields that belong to the other kind are refused.
    """
    if is_dataclass(kind):
        return _read_record(kind, value, where, source)
    if kind is Any:
        return value
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        if not isinstance(value, list):
            raise _wrong(where, "a list", value)
        if args[-1] is not Ellipsis and len(value) != len(args):
            raise _wrong(where, f"a list of {len(args)}", value)
        each = args if args[-1] is not Ellipsis else (args[0],) * len(value)
        return tuple(
            read(kind, item, f"{where}[{i}]", source) for i, (kind, item) in enumerate(zip(each, value, strict=True))
        )
    if origin is dict:
        if not isinstance(value, dict):
            raise _wrong(where, "an object", value)
        return {
            read(str, key, f"a key of {where}"): read(args[1], item, f"{where}.{short(key)}", source)
            for key, item in value.items()
        }
    if origin is types.UnionType:
        if value is None and type(None) in args:
            return None
        kinds = [kind for kind in args if kind is not type(None)]
        python = tuple if type(value) is list else type(value)
        exact = [kind for kind in kinds if python is (typing.get_origin(kind) or kind)]
        return read((exact or kinds)[0], value, where, source)
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


def _read_record(kind: Any, value: Any, where: str, source: str) -> Any:
    if not isinstance(value, dict):
        raise _wrong(where, "an object", value)
    known = {field.name: field for field in fields(kind) if field.metadata.get("only", source) == source}
    hints, prefix = _hints(kind), f"{where}." if where else ""
    for name in value:
        if name not in known:
            raise ResultsError(f"{prefix}{short(name)} is not a field of this schema")
    for name, field in known.items():
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        if name not in value and (field.metadata.get("only") == RESULT or not has_default):
            raise ResultsError(f"{prefix}{name} is missing")
    values = {name: read(hints[name], value[name], prefix + name, source) for name in known if name in value}
    try:
        return kind(**values)
    except ResultsError as error:  # fields that contradict each other
        raise ResultsError(f"{where}: {error}" if where else str(error)) from None


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """Types of a dataclass's fields, by name."""
    every = typing.get_type_hints(kind)
    return {field.name: every[field.name] for field in fields(kind)}


def _wrong(where: str, wanted: str, value: Any) -> ResultsError:
    return ResultsError(f"{where} wants {wanted}, got {short(value)}")


def short(value: Any) -> str:
    """Value as text for a message: printable, at most 40 characters."""
    try:
        text = ascii(value)
    except (ValueError, RecursionError):  # Python refuses to print whole numbers of thousands of digits
        text = f"a {type(value).__name__}"
    return text if len(text) <= 40 else text[:37] + "..."
