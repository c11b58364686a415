"""Where output goes: closed, full, narrow or without a size. Nothing is lost in silence, and no name is cut."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from warpladder.cli import main

WARPLADDER = f"{sys.executable} -m warpladder"


def shell(line: str, folder: Path) -> tuple[int, str]:
    """Exit code and stderr of a shell's line."""
    done = subprocess.run(["sh", "-c", line], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


def test_a_closed_output_ends_in_no_traceback(tmp_path: Path) -> None:
    """And its place is no file's: what a library prints would be written there."""
    assert shell(f"{WARPLADDER} nets softmax >&-", tmp_path) == (0, "")
    line = f"{WARPLADDER} new kernel relu --out relu.cu >&-"
    assert shell(line, tmp_path) == (0, "") and (tmp_path / "relu.cu").read_text().startswith("//")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_full_output_is_a_line(tmp_path: Path) -> None:
    code, err = shell(f"{WARPLADDER} nets softmax > /dev/full", tmp_path)
    assert (code, err) == (2, "warpladder: the output cannot be written: No space left on device\n")


@pytest.mark.parametrize("columns", ["0", "40", "80"])
def test_tables_of_any_width_have_whole_names(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A terminal that states no size has 0 columns: tables are 80 wide there."""
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["rungs"]) == 0
    out = capsys.readouterr().out
    assert "\N{HORIZONTAL ELLIPSIS}" not in out and "persistent" in out
    assert max(map(len, out.splitlines())) <= (int(columns) or 80)
