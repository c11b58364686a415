"""Output of commands: tables on a terminal, and shares as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def console(stderr: bool = False) -> Console:
    """Console for tables: with colours only on a terminal, and 80 columns wide elsewhere."""
    from rich.console import Console

    return Console(highlight=False, stderr=stderr)
