"""A few kills of what scripts/kill_test does by the hundred; and that it would notice."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

SUPPORT = Path(__file__).parents[1] / "support"

LOST_MOMENTUM = """
from dataclasses import replace
from warpladder.train import loop
honest = loop.to_state
loop.to_state = lambda checkpoint: replace(honest(checkpoint), slots={})
"""

REPEATED_STEP = """
from dataclasses import replace
from warpladder.train import resolve
honest = resolve.load
resolve.load = lambda path: replace(honest(path), step=max(0, honest(path).step - 1))
"""

WRITTEN_IN_PLACE = """
import time
from warpladder.checkpoint import file
def write(path, content):
    with open(path, "wb") as out:
        out.write(content[:1000])
        out.flush()
        time.sleep(0.005)
        out.write(content[1000:])
file.write_atomically = write
"""


def kills(tmp_path: Path, *arguments: str, before: str = "") -> tuple[int, dict]:
    """Run kills.py in a process of its own, which has no threads yet, and give its exit code and what it saw."""
    out = tmp_path / "seen.json"
    code = f"import sys; sys.path.insert(0, {str(SUPPORT)!r}); import kills\n{before}\nsys.exit(kills.main())"
    done = subprocess.run([sys.executable, "-c", code, *arguments, "--out", str(out)], capture_output=True, text=True)
    assert out.exists(), done.stderr
    return done.returncode, json.loads(out.read_text())


@pytest.mark.parametrize(
    "optimizer", [[], pytest.param(["--optimizer", "adam"], marks=pytest.mark.slow)], ids=["SGD", "Adam"]
)
def test_killed_runs_go_on_to_the_same_bits(tmp_path, optimizer):
    code, seen = kills(tmp_path, "--count", "3", *optimizer)
    assert [each["rung"] for each in seen["rungs"]] == ["numpy", "native"]
    for each in seen["rungs"]:
        assert each["failures"] == []
        assert each["kills"] == each["equal_ends"] == 3
        assert each["equal_checkpoints"] + each["before_the_first_checkpoint"] == 3
    assert code == 0


@pytest.mark.parametrize(
    ("fault", "count", "shows"),
    [
        (LOST_MOMENTUM, 4, "params"),
        pytest.param(REPEATED_STEP, 4, "params", marks=pytest.mark.slow),
        pytest.param(WRITTEN_IN_PLACE, 12, "whole safetensors file", marks=pytest.mark.slow),
    ],
    ids=["lost momentum", "a repeated step", "written in place"],
)
def test_a_fault_in_resuming_is_noticed(tmp_path, fault, count, shows):
    code, seen = kills(tmp_path, "--count", str(count), "--rung", "numpy", before=fault)
    assert code == 1
    assert any(shows in failure for failure in seen["rungs"][0]["failures"])
