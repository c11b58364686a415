"""Profiles as files: JSON, whole or not at all."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from ..results.files import write_whole
from .content import Profile

SCHEMA = 1


def save(found: Profile, path: Path) -> None:
    """Write a profile as JSON."""
    write_whole(path, json.dumps({"schema": SCHEMA, **asdict(found)}, indent=1))
