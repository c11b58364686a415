"""Cases of kernels, and which of them scripts/test runs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

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
    """Names of the quarter of a segment's chains of layers that show most, at most two of one kind: each chain needs
    kernels of its own, which take most of the time to compile.
    """
    segments: dict[str, list[str]] = {}
    for case in reversed(RISING):
        if case.name in SHOWS_MOST:
            segments.setdefault(" ".join(case.name.split()[:2]), []).append(case.name)
    for chains in segments.values():
        yield from chains[: min(2, ceil_div(len(chains), 4))]


def neighbours(case: str) -> set[tuple[str, str]]:
    """Pairs of layers that stand next to one another in a case's chain; the last one stands next to its end. Batch
    norms of features and of images count as one: their kernels are the same.
    """
    return set(pairwise([*case.split()[1].replace("Norm2d", "Norm1d").split("+"), "end"]))


def each_pair_once(cases: list[str]) -> Iterator[str]:
    """As few of the cases as have all their pairs of neighbours, those that add most first."""
    left = set().union(*map(neighbours, cases))
    while left:
        chosen = max(cases, key=lambda case: len(neighbours(case) & left))
        yield chosen
        left -= neighbours(chosen)


def by_day() -> Iterator[str]:
    """The telling chains; of normalisations and sums, which fuse with any function, those with each pair once."""
    fused: dict[str, list[str]] = defaultdict(list)
    for case in telling_chains():
        if case.startswith(("FusedBatchNorm ", "FusedSum ")):
            fused[case.split()[0]].append(case)
        else:
            yield case
    for cases in fused.values():
        yield from each_pair_once(cases)


BY_DAY = frozenset(by_day())
