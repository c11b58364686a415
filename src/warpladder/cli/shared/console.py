"""Output of commands: tables on a terminal, and shares as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def console(stderr: bool = False) -> Console:
    """Console for tables: with colours only on a terminal, and 80 columns wide elsewhere, or where the width that is
    stated is none: a terminal without a size has 0 columns.
    """
    from rich.console import Console

    found = Console(highlight=False, stderr=stderr)
    if found.width < NARROWEST:
        found.width = 80
    return found


#: Columns of the narrowest terminal that tables are made for.
NARROWEST = 20
