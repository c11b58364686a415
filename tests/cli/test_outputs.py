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


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_table_of_epochs_has_whole_figures_at_any_width(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    words = ["--rung", "numpy", "--epochs", "2", "--validation", "100", "--no-checkpoint", "--no-progress"]
    assert main(["train", "softmax", "--data", "digits", *words]) == 0
    table = capsys.readouterr().out.partition("Optimizer")[0]
    assert "\N{HORIZONTAL ELLIPSIS}" not in table and table.count("%") == 4
    assert max(map(len, table.splitlines())) <= columns


def test_data_takes_a_table_of_any_numbers_where_it_is_scaled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.csv").write_text("label,a\n" + "".join(f"{i % 2},{i / 4 - 3}\n" for i in range(20)))
    (tmp_path / "test.csv").write_text("a\n0.5\n")
    words = ["data", "csv", "--data-dir", str(tmp_path)]
    assert main(words) == 2 and "(--scale-features, standardize=True)" in capsys.readouterr().err
    assert main([*words, "--scale-features"]) == 0 and "-3 to 1.75" in capsys.readouterr().out
