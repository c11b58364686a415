"""Output of commands: tables on a terminal, and shares as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def percent(share: float) -> str:
    """A share from 0 to 1 as 97.93 %."""
    return f"{100 * share:.2f} %"


def console(stderr: bool = False) -> Console:
    """A console for tables: colours only on a terminal, 80 columns wide elsewhere."""
    from rich.console import Console

    return Console(highlight=False, stderr=stderr)
