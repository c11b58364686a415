"""Arithmetic expressions on named figures in texts and claims of a report, as "cpu / gpu > 2".

A report's table `figures` gives each name a place and a measure, "EXPERIMENT/RUNG MEASURE", or several with | between
them; the first measured one is used.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from ...errors import ConfigError
from ...errors.arguments import shown
from .report.figures import measured
from .results import UNITS, Value

#: Function from a figure's name to its value; None if it was not measured.
Lookup = Callable[[str], Value | None]

#: Most combinations of the smallest and largest values of an expression's figures that are tried.
CORNERS = 256

_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.USub: operator.neg, ast.Not: operator.not_,
}  # fmt: skip

_FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs}


class Unmeasured(Exception):
    """Error: a figure of an expression was not measured. name : the figure's name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass
class Expression:
    """Expression, checked when it is created.

    text : text in the report's file. known : usable names, each with its places.
    """

    text: str
    known: Mapping[str, str]
    names: tuple[str, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        try:
            self.tree = ast.parse(self.text.strip(), mode="eval").body
        except (SyntaxError, ValueError):
            raise ConfigError(f"{shown(self.text)} is no expression") from None
        self.names = tuple(dict.fromkeys(self._check(self.tree)))

    def _check(self, node: ast.AST) -> list[str]:
        """Names of the figures below a node of the syntax tree; raises `ConfigError` for an unknown one."""
        if isinstance(node, ast.Name):
            if node.id not in self.known:
                raise ConfigError(f"{shown(self.text)}: there is no figure {node.id!r}")
            return [node.id]
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return []
        parts: list[ast.AST] = []
        if isinstance(node, ast.BinOp):
            parts = [node.left, node.right]
        elif isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.BoolOp):
            parts = list(node.values)
        elif isinstance(node, ast.UnaryOp):
            parts = [node.operand]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            ends = node.func.id in ("least", "most") and len(node.args) == 1 and isinstance(node.args[0], ast.Name)
            if ends or node.func.id in _FUNCTIONS:
                parts = list(node.args)
        if not parts or any(type(op) not in _OPERATORS for op in _operators(node)):
            raise ConfigError(f"{shown(self.text)}: {shown(ast.unparse(node))} is no arithmetic on figures")
        return [name for part in parts for name in self._check(part)]

    def value(self, lookup: Lookup) -> Any:
        """Value of the expression for measured figures: a number, True or False.

        Raises
        ------
        Unmeasured
            A figure was not measured.
        ArithmeticError
            For example a division by zero.
        """
        return self._of(self.tree, lookup)

    def ends(self, lookup: Lookup) -> tuple[float | None, float | None]:
        """Smallest and largest value of the expression while each figure varies in its range; (None, None) without
        ranges.

        Correct for expressions that are monotonic in each figure: an expression with `abs`, or with many figures, has
        no range.
        """
        values = {name: value for name in self.names if (value := lookup(name)) is not None}
        ranges = [
            [replace(value, here=end, least=end, most=end) for end in dict.fromkeys((value.least, value.most))]
            if value.least is not None and value.most is not None
            else [value]
            for value in values.values()
        ]
        if "abs" in self.text or not 1 < math.prod(map(len, ranges)) <= CORNERS:
            return None, None
        corners = (dict(zip(values, corner, strict=True)) for corner in product(*ranges))
        try:
            found = [float(self.value(corner.get)) for corner in corners]
        except ArithmeticError:
            return None, None
        return (min(found), max(found)) if all(map(math.isfinite, found)) else (None, None)

    def _of(self, node: Any, lookup: Lookup) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return _figure(node.id, "here", lookup)
        if isinstance(node, ast.Call):
            called: str = node.func.id  # type: ignore[attr-defined]
            if called in ("least", "most"):
                return _figure(node.args[0].id, called, lookup)  # type: ignore[attr-defined]
            return _FUNCTIONS[called](*(self._of(each, lookup) for each in node.args))
        if isinstance(node, ast.BoolOp):
            parts = [self._of(each, lookup) for each in node.values]
            return all(parts) if isinstance(node.op, ast.And) else any(parts)
        if isinstance(node, ast.Compare):
            ends = [self._of(each, lookup) for each in (node.left, *node.comparators)]
            return all(_OPERATORS[type(op)](a, b) for op, a, b in zip(node.ops, ends, ends[1:], strict=False))
        if isinstance(node, ast.UnaryOp):
            return _OPERATORS[type(node.op)](self._of(node.operand, lookup))
        return _OPERATORS[type(node.op)](self._of(node.left, lookup), self._of(node.right, lookup))


def _operators(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.Compare):
        return list(node.ops)
    return [node.op] if isinstance(node, (ast.BinOp, ast.UnaryOp)) else []


def _figure(name: str, which: str, lookup: Lookup) -> float:
    value = lookup(name)
    found = None if value is None else getattr(value, which)
    if found is None and value is not None:
        found = value.here
    if found is None:
        raise Unmeasured(name)
    return float(found)


#: Pattern of a figure in a text: {cpu / gpu | x}, an expression and the unit in which it is shown.
PLACE = re.compile(r"\{([^{}|]+)\|([^{}|]*)\}")


def expressions(text: str, known: Mapping[str, str]) -> list[Expression]:
    """Expressions in a text. Raises `ConfigError` with the first wrong one."""
    out = []
    for found in PLACE.finditer(text):
        if found[2].strip() not in UNITS:
            raise ConfigError(f"{found[0]!r}: there is no unit {found[2].strip()!r}")
        out.append(Expression(found[1], known))
    if "{" in PLACE.sub("", text):
        raise ConfigError(f"{shown(text)}: a figure is written {{EXPRESSION|UNIT}}")
    return out


def filled(text: str, known: Mapping[str, str], lookup: Lookup) -> str:
    """Text with its figures filled in. Raises `Unmeasured` if one was not measured."""

    def figure(found: re.Match[str]) -> str:
        unit, expression = found[2].strip(), Expression(found[1], known)
        values = [value for name in expression.names if (value := lookup(name)) is not None]
        flags = Value(here=float(expression.value(lookup)), disturbed=any(value.disturbed for value in values))
        number = measured(flags, unit)
        return f"{number} {unit}" if unit not in ("", "x") else number

    return PLACE.sub(figure, text)
