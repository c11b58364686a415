"""The script that climbs rungs from outside on a GPU (gpu/clock_rungs.py), on the emulator."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "gpu" / "clock_rungs.py"


@pytest.mark.slow
def test_verdicts_are_as_expected() -> None:
    ways = "two-streams,compiles-late,skips-steps,full-divisor,patched-clocks"
    command = [sys.executable, str(SCRIPT), "--by", "emulated", "--jobs", "2", "--only", ways]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "6 rungs, 0 not as expected" in done.stdout, done.stdout + done.stderr
