"""The ladder of matrix products: every level is right, and the command shows them all."""

from __future__ import annotations

import json

import numpy as np
import pytest

from warpladder.cli import main
from warpladder.device import Array, Device, Launch
from warpladder.emulator import EmulatedDevice
from warpladder.errors import WarpladderError
from warpladder.gemm.climb import prove
from warpladder.gemm.levels import LEVELS, Level

DEVICE = EmulatedDevice()
levels = pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)


@levels
@pytest.mark.parametrize("size", [(131, 76, 92), (1, 4, 4), (33, 132, 8), (64, 64, 300)])
def test_every_level_is_right_at_sizes_that_no_tile_divides(level: Level, size: tuple[int, int, int]) -> None:
    assert prove(DEVICE, level, *size) < 1e-6


def test_what_is_predicted_is_a_share_that_rises() -> None:
    shares = [level.predicted for level in LEVELS]
    assert all(0 < share <= 1 for share in shares) and shares == sorted(shares)


def test_a_level_that_leaves_out_a_column_of_blocks_is_refused() -> None:
    honest = LEVELS[1]

    class Liar(Level):
        def bind(self, device: Device, a: Array, b: Array, c: Array) -> list[Launch]:
            (m, k), n = a.shape, b.shape[1]
            return [device.kernel(honest.path, "sgemm").bind((1, 5), (32, 32), a, b, c, m, n, k)]

    with pytest.raises(WarpladderError, match="level liar is wrong at"):
        prove(DEVICE, Liar("liar", "", 1, (32, 32), (32, 32)), 131, 76, 92)


def test_the_command_on_the_emulator(tmp_path, capsys):
    out = tmp_path / "sgemm.json"
    assert main(["gemm", "--size", "36", "--device", "emulated", "--out", str(out)]) == 0
    found = json.loads(out.read_text())
    assert [row["level"] for row in found[: len(LEVELS)]] == [level.name for level in LEVELS]
    assert all(np.isfinite(row["seconds"]) and row["error"] < 1e-6 for row in found[: len(LEVELS)])
    assert "pipelined" in capsys.readouterr().out


def test_a_size_that_the_levels_cannot_do_is_refused(capsys):
    assert main(["gemm", "--size", "37", "--device", "emulated"]) == 2
    assert "--size wants multiples of 4, got 37" in capsys.readouterr().err
