"""The ladder: every rung in order, and the peers beside it."""

from __future__ import annotations

from .rungs.base import Rung

LADDER: tuple[Rung, ...] = ()
PEERS: tuple[Rung, ...] = ()
