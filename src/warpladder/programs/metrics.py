"""Counts of a program's launches, from the records that its run wrote in the mode "count"."""

from __future__ import annotations

from pathlib import Path

from ..device.emulator.counts import KernelCounts, Shape, kernel_counts


def counted(text: str, executable: Path) -> tuple[KernelCounts, ...]:
    """Counts of each kernel and launch size, summed over launches, in the order of their first launches."""
    rows: dict[tuple[str, Shape], dict[tuple[int, int], list[int]]] = {}
    launches: dict[tuple[str, Shape], int] = {}
    for record in text.split("\x1c"):
        level, _, rest = record.partition("\x1d")
        if level != "counts":
            continue
        kernel, _, content = rest.split("\x1d", 2)
        sizes, *lines = (tuple(map(int, line.split())) for line in content.splitlines() if line.strip())
        key = kernel, ((*sizes[:3],), (*sizes[3:6],), sizes[6], sizes[7])
        launches[key] = launches.get(key, 0) + 1  # type: ignore[index, arg-type]
        known = rows.setdefault(key, {})  # type: ignore[arg-type]
        for act, code, *fields in lines:
            before = known.get((act, code), [0] * len(fields))
            sums = [a + b for a, b in zip(before, fields, strict=True)]
            sums[-1] = max(before[-1], fields[-1])  # the most lanes at one address
            known[act, code] = sums
    out = []
    for (kernel, shape), places in rows.items():
        found = kernel_counts(kernel, shape, [(*place, *fields) for place, fields in places.items()], executable)
        found.launches = launches[kernel, shape]
        out.append(found)
    return tuple(out)
