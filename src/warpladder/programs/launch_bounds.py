"""Launch bounds of kernels: `__launch_bounds__(2 * WARP)` as a number, also of names and of template arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

_BOUNDS = re.compile(r"__launch_bounds__\s*\((?P<first>[^(),]*(?:\([^()]*\))?[^(),]*)")
_NUMBER = re.compile(
    r"(?:#[ \t]*define[ \t]+|\b(?:constexpr|const)\s+(?:unsigned\s+)?(?:int|unsigned|size_t)\s+)(?P<name>\w+)"
    r"(?:[ \t]+|\s*=\s*)\(?(?P<value>\d+)\)?[uU]?[ \t]*(?=[;\n,/])"
)


def numbers(plains: list[str]) -> dict[str, str]:
    """Whole numbers by the names of macros and constants that have one value in all texts."""
    found: dict[str, set[str]] = {}
    for match in _NUMBER.finditer("\n".join(plains)):
        found.setdefault(match["name"], set()).add(match["value"])
    return {name: values.pop() for name, values in found.items() if len(values) == 1}


def stated(declaration: str, numbers: dict[str, str], template: Sequence[str]) -> str:
    """Bound in a kernel's declaration: "256", or "<1>" for its template parameter 1; "" if there is none that is known.

    numbers : by name. template : the template's parameters.
    """
    match = _BOUNDS.search(declaration)
    if match is None:
        return ""
    text = match["first"].strip(" ()")
    names = [re.sub(r"\s*=.*", "", each, flags=re.DOTALL).split()[-1] for each in template if each.strip()]
    if text in names:
        return f"<{names.index(text)}>"
    factors = [numbers.get(each.strip(), each.strip()) for each in text.split("*")]
    return str(prod(map(int, factors))) if all(each.isdigit() for each in factors) else ""


def in_launch(bounds: Sequence[str], arguments: Sequence[str]) -> str:
    """C++ of the bound of a launch, "0" if it is not known.

    bounds : of the kernel's overloads. arguments : of its template.
    """
    bound = next((each for each in bounds if each), "0")
    if not bound.startswith("<"):
        return bound
    number = int(bound.strip("<>"))
    return f"unsigned({arguments[number].strip()})" if number < len(arguments) else "0"
