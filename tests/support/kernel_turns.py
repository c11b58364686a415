"""Cases of kernels, and which of them scripts/test runs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernel_cases import KernelCase, every_case

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
    """Of each segment with a convolution the half of the chains of layers that show most, since each wants kernels of
    its own; of other segments all.
    """
    segments: dict[str, list[str]] = {}
    for case in reversed(RISING):
        if case.name in SHOWS_MOST:
            segments.setdefault(" ".join(case.name.split()[:2]), []).append(case.name)
    for segment, chains in segments.items():
        yield from chains[: (len(chains) + 1) // 2] if "Conv2d" in segment else chains


BY_DAY = frozenset(telling_chains())
