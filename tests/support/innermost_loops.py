"""Innermost loops of compiled assembly."""

from __future__ import annotations

import re


def innermost(assembly: str) -> list[str]:
    """The loops that consist of one block, which ends in a jump to its own label."""
    blocks = (part.partition(":") for part in re.split(r"\n(?=\.?\w+:)", assembly))
    found = (re.match(rf"(?s).*?\tj\w+\t{re.escape(label)}\n", body) for label, _, body in blocks)
    return [loop[0] for loop in found if loop]
