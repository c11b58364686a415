"""Cases of kernels, and which of them scripts/test runs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernel_cases import KernelCase, every_case

from warpladder.ops.engine.kernels import ceil_div

CASES = every_case()

SIZE = re.compile(r", \d+ (?:of \d+, block|samples).*")

SAMPLES = re.compile(r"(\d+) of \d|\bof (\d+), block|(\d+) samples")


def says(case: KernelCase) -> tuple[bool, int]:
    """How much a case shows: whether its input has a gradient, and how many samples or weights it has."""
    found = SAMPLES.search(case.name)
    return not case.name.endswith("no dx"), int(next(filter(None, found.groups()))) if found else 0


RISING = sorted(CASES, key=says)

SHOWS_MOST = frozenset(
    {SIZE.sub("", case.name): case.name for case in RISING}.values()
)  # of what differs in size alone, the one that shows most


def telling_chains() -> Iterator[str]:
    """Names of the quarter of a segment's chains of layers that show most: each chain needs kernels of its own, which
    take most of the time to compile.
    """
    segments: dict[str, list[str]] = {}
    for case in reversed(RISING):
        if case.name in SHOWS_MOST:
            segments.setdefault(" ".join(case.name.split()[:2]), []).append(case.name)
    for chains in segments.values():
        yield from chains[: ceil_div(len(chains), 4)]


BY_DAY = frozenset(telling_chains())
