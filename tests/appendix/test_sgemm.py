"""The ladder of matrix products: every level in fp32 multiply-adds is right, and the command shows them all."""

from __future__ import annotations

import json

import numpy as np
import pytest

from warpladder.appendix.gemm import climb
from warpladder.appendix.gemm.climb import SHAPES
from warpladder.appendix.gemm.levels import LEVELS, Level
from warpladder.appendix.gemm.proof import KINDS, prove
from warpladder.appendix.gemm.tensor import EVERY_LEVEL
from warpladder.cli import main
from warpladder.device import Array, Device, Launch
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.errors import WarpladderError

if (reason := why_not()) is not None:  # before a device is made
    pytest.skip(reason, allow_module_level=True)

DEVICE = EmulatedDevice()
levels = pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A level's time means nothing on the emulator: a hundredth of the usual is spent on it."""
    monkeypatch.setattr(climb, "PATIENCE", climb.PATIENCE / 100)


@levels
@pytest.mark.parametrize("size", [(131, 76, 92), (1, 4, 4), (33, 132, 8), (64, 64, 300)])
def test_every_level_is_right_at_sizes_that_no_tile_divides(level: Level, size: tuple[int, int, int]) -> None:
    assert prove(DEVICE, level, *size) < 1e-6


@levels
@pytest.mark.parametrize("kind", KINDS)
def test_every_level_is_right_whatever_the_factors(level: Level, kind: str) -> None:
    assert prove(DEVICE, level, 33, 20, 200, kind=kind) < 1e-6


def test_what_is_predicted_is_a_share_that_rises() -> None:
    shares = [level.predicted for level in LEVELS]
    assert all(0 < share <= 1 for share in shares) and shares == sorted(shares)


def test_a_level_that_leaves_out_a_column_of_blocks_is_refused() -> None:
    honest = LEVELS[1]

    class Liar(Level):
        def bind(self, device: Device, a: Array, b: Array, c: Array) -> list[Launch]:
            (m, k), n = a.shape, b.shape[1]
            return [device.kernel(honest.path, "sgemm").bind((1, 5), (32, 32), a, b, c, m, n, k)]

    with pytest.raises(WarpladderError, match=r"level liar is wrong at .*never written"):
        prove(DEVICE, Liar("liar", "", 1, (32, 32), (32, 32)), 131, 76, 92)


class OneNumber(Level):
    """The honest level, and then one number of C a little wrong: too little for the norm of all to show it."""

    def bind(self, device: Device, a: Array, b: Array, c: Array) -> list[Launch]:
        honest = LEVELS[1].bind(device, a, b, c)

        class Spoiled(Launch):
            def send(self, stream: object = None) -> None:
                honest[0].send()
                out = c.download()
                out[40, 7] *= 1.00002
                c.upload(out)

        return [Spoiled(honest[0].kernel, honest[0].config)]


def test_one_wrong_number_is_enough() -> None:
    with pytest.raises(WarpladderError, match="the largest error, in column 7, is"):
        prove(DEVICE, OneNumber("liar", "", 1, (32, 32), (32, 32)), 63, 76, 92, kind="positive")


@pytest.mark.slow
def test_the_command_on_the_emulator(tmp_path, capsys):
    out = tmp_path / "sgemm.json"
    assert main(["gemm", "--size", "36", "--device", "emulated", "--out", str(out)]) == 0
    stored = json.loads(out.read_text())
    assert stored["machine"]["cpu"] and stored["command"] == "warpladder gemm --size 36 --device emulated"
    found = stored["levels"]
    assert {row["level"]: row["precision"] for row in found} == {
        level.name: level.precision.name for level in EVERY_LEVEL
    }
    assert all(np.isfinite(row["seconds"]) and row["error"] < 1e-2 for row in found)
    assert all(row["error"] < 1e-6 for row in found if row["precision"] == "fp32")
    said = capsys.readouterr().out
    assert (
        said.index("pipelined")
        < said.index("in tf32")
        < said.index("ring_tf32")
        < said.index("in bf16")
        < said.rindex("fragments")
    )
    assert all(f"{level.name:17} {level.idea}" in said for level in EVERY_LEVEL)


@pytest.mark.slow
def test_the_command_takes_one_precision(tmp_path, capsys):
    out = tmp_path / "tf32.json"
    assert main(["gemm", "--size", "20", "--precision", "tf32", "--device", "emulated", "--out", str(out)]) == 0
    assert [row["level"] for row in json.loads(out.read_text())["levels"]] == ["ring_tf32", "specialised_tf32"]
    assert "naive" not in capsys.readouterr().out


@pytest.mark.slow
def test_levels_that_cannot_do_a_size_are_left_out_with_a_reason(tmp_path, capsys):
    out = tmp_path / "odd.json"
    assert main(["gemm", "--size", "5", "--precision", "fp32", "--device", "emulated", "--out", str(out)]) == 0
    left_out = {level.name for level in LEVELS if level.multiple > 1}
    assert left_out == {"wide", "pipelined"}
    assert left_out.isdisjoint(row["level"] for row in json.loads(out.read_text())["levels"])
    said = capsys.readouterr().out
    for name in left_out:
        assert f"Left out: {name} in fp32 at 5, which wants n and k to be multiples of 4" in said


def test_a_size_below_one_is_refused(capsys):
    assert main(["gemm", "--size", "0", "--device", "emulated"]) == 2
    assert "--size wants whole numbers from 1, got 0" in capsys.readouterr().err


def test_every_level_can_be_proven_at_the_sizes_of_the_proof() -> None:
    for (_, n, k), kinds in SHAPES:
        assert kinds and [level.name for level in EVERY_LEVEL if level.lacks(DEVICE, n, k)] == []
