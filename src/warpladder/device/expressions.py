"""Numbers as C writes them: `n`, `(n + 255) / 256`, `1 << 20`, `256 * sizeof(float)`, `0.5f`. Nothing is executed."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

from ..errors import ConfigError
from .types import resolve

Number = int | float | bool

#: The largest size of an intermediate result, so that no expression takes long.
_LARGEST = 2.0**64

_SIZEOF = re.compile(r"\bsizeof\s*\(([\w:\s]+)\)")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*|(?<=[A-Za-z_\]]\.)[A-Za-z_]\w*")
#: Mark before each name while Python's parser has it.
MARK = "name_"
_SUFFIX = re.compile(r"\b(\d+|0[xX][0-9A-Fa-f]+)(?:[uU][lL]{0,2}|[lL]{1,2}[uU]?)\b")
_FLOAT = re.compile(r"\b(\d+\.\d*|\d*\.?\d+[eE][+-]?\d+)[fF]\b")


def _divide(a: Number, b: Number) -> Number:
    """Quotient as in C: integers divide to an integer, rounded towards zero."""
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: Number, b: Number) -> Number:
    return a - b * _divide(a, b) if isinstance(a, int) and isinstance(b, int) else _unknown()


def _shift(a: Number, b: Number) -> Number:
    return a << b if isinstance(a, int) and isinstance(b, int) and 0 <= b < 64 else _unknown()


def _unknown() -> Number:
    raise TypeError


_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: _divide, ast.FloorDiv: _divide,
    ast.Mod: _remainder, ast.LShift: _shift,
}  # fmt: skip


def evaluate(text: str | Number, values: Mapping[str, Number]) -> Number:
    """Value of an expression. Raises `ConfigError`: unreadable text, unknown name, division by zero, more than 64 bits.

    text : numbers, names, + - * / % << and parentheses; sizeof(float); true and false. A number is its own value.
    """
    if isinstance(text, (int, float)):
        return text
    try:
        plain = _SUFFIX.sub(r"\1", _FLOAT.sub(r"\1", _SIZEOF.sub(_size, text.strip())))
        marked = _NAME.sub(lambda match: MARK + match[0], plain)  # in, is, from, lambda are words of Python
        return _value(ast.parse(marked, mode="eval").body, values)
    except ConfigError as error:
        raise ConfigError(f"in '{text}': {error}") from None
    except ZeroDivisionError:
        raise ConfigError(f"'{text}' divides by zero") from None
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError):
        raise ConfigError(f"cannot read '{text}': it takes numbers, names, + - * / % << and parentheses") from None


def _size(match: re.Match[str]) -> str:
    kind = resolve(match[1], "")
    if kind is None:
        raise ConfigError(f"{match[0]} is the size of no built-in type")
    return str(kind.size)


def _value(node: ast.expr, values: Mapping[str, Number]) -> Number:
    found: Number
    match node:
        case ast.Constant(value=bool() | int() | float()):
            found = node.value  # type: ignore[assignment]
        case ast.Name() | ast.Attribute() | ast.Subscript():  # the latter are members of a struct
            name = ast.unparse(node).replace(MARK, "")
            if name in ("true", "false"):
                return name == "true"
            if name not in values and not isinstance(node, ast.Name):
                raise TypeError
            if name not in values:
                known = f"; there are {', '.join(values)}" if values else ""
                raise ConfigError(f"nothing says what {name} is{known}")
            found = values[name]
        case ast.UnaryOp(op=ast.USub()):
            found = -_value(node.operand, values)
        case ast.UnaryOp(op=ast.UAdd()):
            found = _value(node.operand, values)
        case ast.BinOp() if type(node.op) in _BINARY:
            found = _BINARY[type(node.op)](_value(node.left, values), _value(node.right, values))
        case _:
            raise TypeError
    if not abs(found) <= _LARGEST and abs(found) != float("inf"):
        raise ConfigError("the number is too large")
    return found


def whole(text: str | Number, values: Mapping[str, Number], what: str) -> int:
    """Value of an expression as an integer of at least 0. Raises `ConfigError`, with `what`, for another value."""
    found = evaluate(text, values)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise ConfigError(f"{what} wants a whole number, got {text if text == found else f'{text} = {found}'}")
    return found
