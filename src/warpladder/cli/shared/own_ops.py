"""`climb --op`: a rung for each of the user's kernels, next to the rung with the replaced kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ...errors import RungError

if TYPE_CHECKING:
    from ...rungs.base import Rung


def with_ops(
    rungs: list[Rung] | None, ops: tuple[str, ...], shared: dict[str, Any]
) -> tuple[list[Rung] | None, dict[str, Any]]:
    """Rungs of a climb and rungs with each of the user's operations; and the options of all rungs.

    Unchanged without operations. Without a GPU the kernels run on the emulator, and a message states this.
    Raises RungError: an operation or its file cannot be read.
    """
    from ...ladder import find
    from ...rungs.own_op import files, is_own_op
    from ...timing.foreign.rung import find as find_foreign

    if not ops:
        return rungs, shared
    found = []
    for op in ops:
        if not is_own_op(op):
            raise RungError(
                f"--op wants an operation and a file, as linear.forward=mine.cu, got {op!r}: a file ends in .cu or .py"
            )
        found.append((op, find_foreign(op)))
    bases = [find("naive" if rung.has("device") else "numpy") for _, rung in found]
    if any(rung.has("device") for _, rung in found) and shared.get("device") is None:
        from ...device import gpu

        if (reason := gpu.why_not()) is not None:
            names = ", ".join(file for op, _ in found for file in files(op))
            click.echo(f"{names}: on the emulator, since no GPU is usable here: {reason.partition(';')[0]}", err=True)
            shared = shared | {"device": "emulated"}
    named = {rung.name for rung in rungs or ()}
    ours = [rung for rung in dict.fromkeys(bases) if rung.name not in named]
    return [*(rungs or ()), *ours, *(rung for _, rung in found)], shared
