"""The script that trains to the end in each precision: what it stores, how it goes on, what it refuses, and when a
precision keeps its mark.
"""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import made_up_sets
import numpy as np
import pytest

from warpladder.config import TrainConfig
from warpladder.device.emulator import why_not
from warpladder.nets import CrossEntropyLoss, Flatten, Linear, Net, ReLU

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "h200" / "tensor_training.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tensor_training", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = sys.modules["tensor_training"] = importlib.util.module_from_spec(spec)  # a dataclass asks for its module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("made-up")
    made_up_sets.write(place, 60, 30)
    return place


def tiny(script: ModuleType) -> Any:
    net = Net(
        "tiny", (1, 28, 28), (Flatten(), Linear(out_features=9), ReLU(), Linear(out_features=10)), CrossEntropyLoss()
    )
    return script.Case("tiny", net, "mnist", TrainConfig(epochs=1, batch_size=32, learning_rate=0.01))


def test_it_trains_pairs_keeps_them_and_goes_on(
    script: ModuleType, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, cases = tmp_path / "kept.json", (tiny(script),)
    command = ["--data-dir", str(folder), "--out", str(out), "--device", "emulated"]
    assert script.main([*command, "--seeds", "1"], cases) == 1, "one seed tells nothing"
    first = json.loads(out.read_text())["cases"]["tiny"]["runs"]
    assert set(first) == {"graph", "tensor-fp32", "tensor-tf32", "tensor-bf16", "tensor-fp16"} and all(
        set(each) == {"0"} for each in first.values()
    )
    assert "standard error nan" in capsys.readouterr().out
    refused = json.loads(out.read_text())
    refused["cases"]["tiny"]["refused"] = {"tensor-fp16": "an earlier version did not take this net"}
    out.write_text(json.dumps(refused))
    script.main([*command, "--seeds", "2"], cases)
    second = json.loads(out.read_text())["cases"]["tiny"]
    assert all(
        second["runs"][name]["0"] == first[name]["0"] and set(second["runs"][name]) == {"0", "1"} for name in first
    ), "seed 0 is kept"
    assert not second["refused"], "what is taken by now"
    assert second["samples"] == 60 and all(
        0 <= run["score"] <= 100 and run["seconds"] > 0 for runs in second["runs"].values() for run in runs.values()
    )
    losses = {name: runs["1"]["loss"] for name, runs in second["runs"].items()}
    assert (
        losses["tensor-fp32"] == pytest.approx(losses["graph"], rel=1e-5) and losses["tensor-bf16"] != losses["graph"]
    )
    assert losses["tensor-bf16"] == pytest.approx(losses["graph"], rel=2e-2)
    script.main([*command, "--seeds", "3", "--budget", "-1"], cases)
    assert "no time for seed 2" in capsys.readouterr().err and set(
        json.loads(out.read_text())["cases"]["tiny"]["runs"]["graph"]
    ) == {"0", "1"}
    with pytest.raises(SystemExit, match="with another config"):
        script.main(command, (replace(cases[0], config=cases[0].config.but(epochs=2)),))
    for name in ("error.svg", "error.png"):
        assert script.main(["--out", str(out), "--picture", str(tmp_path / name)], cases) == 0
    assert "tiny, tensor-bf16" in (tmp_path / "error.svg").read_text() and (
        tmp_path / "error.png"
    ).read_bytes().startswith(b"\x89PNG")


def test_a_share_of_the_seeds_keeps_no_seconds_and_shares_are_joined(
    script: ModuleType, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of four seeds one process has 1 and 3; another one's file has 0, 2 and 10."""
    out = tmp_path / "kept.json"
    parts = [script.part_of(out, number) for number in range(3)]
    command = [
        "--data-dir",
        str(folder),
        "--out",
        str(parts[1]),
        "--device",
        "emulated",
        "--seeds",
        "4",
        "--share",
        "1/2",
    ]
    script.main(command, (tiny(script),))
    assert "nan s" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="nothing is stored that could be drawn"):
        script.main(["--out", str(parts[1]), "--picture", str(tmp_path / "error.svg")], (tiny(script),))
    runs = json.loads(parts[1].read_text())["cases"]["tiny"]["runs"]["graph"]
    assert set(runs) == {"1", "3"} and {run["seconds"] for run in runs.values()} == {None}
    other = json.loads(parts[1].read_text())
    other["cases"]["tiny"]["runs"] = {
        "graph": {seed: {"score": 90.0, "loss": 0.1, "seconds": 0.5} for seed in ("0", "2", "10")}
    }
    parts[0].write_text(json.dumps(other))
    script.joined(out, parts)
    assert list(json.loads(out.read_text())["cases"]["tiny"]["runs"]["graph"]) == ["0", "1", "2", "3", "10"]
    assert script.timed(json.loads(out.read_text())["cases"]["tiny"]["runs"]["graph"]) == [0.5] * 3, "of those alone"
    assert not any(part.exists() for part in parts)


def test_a_loss_that_is_not_finite_ends_it(
    script: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Run:
        test_accuracy = math.nan
        history = ()

    monkeypatch.setattr(script, "train", lambda *args, **kwargs: Run())
    with pytest.raises(
        ArithmeticError, match="tiny, graph:device=emulated, seed 0: the loss or the score is not finite"
    ):
        script.main(
            ["--data-dir", str(folder), "--out", str(tmp_path / "o.json"), "--device", "emulated"], (tiny(script),)
        )
    assert not (tmp_path / "o.json").exists()


def test_a_rung_that_cannot_run_is_told_and_nothing_passes(
    script: ModuleType,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    refusing = SimpleNamespace(unsupported=lambda net, config: "there is no such GPU")
    monkeypatch.setattr(script, "contenders", lambda device: dict.fromkeys(("graph", "tensor-fp32"), refusing))
    assert (
        script.main(
            ["--data-dir", str(folder), "--out", str(tmp_path / "o.json"), "--device", "emulated"], (tiny(script),)
        )
        == 1
    )
    said = capsys.readouterr().out
    assert (
        said.count("did not run: there is no such GPU") == 2
        and "nothing is stored" in said
        and not (tmp_path / "o.json").exists()
    )


def test_a_file_with_something_else_is_left_alone(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "o.json").write_text('{"cases": 3}')
    with pytest.raises(SystemExit, match="holds no trainings"):
        script.main(["--out", str(tmp_path / "o.json")], (tiny(script),))


def test_marks(script: ModuleType) -> None:
    """Differences by seed in points of accuracy: with chance alone, with a shift, and with NaN."""
    case, noise = tiny(script), np.random.default_rng(0).normal(0, 0.1, 100)
    noise -= noise.mean()

    def kept(name: str, differing: np.ndarray) -> bool:
        return bool(script.judged(case, name, differing)[0])

    assert kept("tensor-fp32", noise) and kept("tensor-fp32", np.zeros(100)) and not kept("tensor-fp32", noise + 0.05)
    assert not kept("tensor-fp32", np.zeros(3)), "three seeds cannot tell"
    assert (
        kept("tensor-bf16", noise - 0.1)
        and not kept("tensor-bf16", noise - 0.14)
        and not kept("tensor-bf16", noise + 0.2)
    )
    for name in ("tensor-fp32", "tensor-bf16"):
        assert (
            not kept(name, np.array([*noise, math.nan]))
            and not kept(name, np.zeros(0))
            and not kept(name, np.zeros(1) + math.nan)
        )
    runs = {
        "graph": {"0": {"score": 2.0}, "1": {"score": 4.0}},
        "tensor-bf16": {"1": {"score": 4.4}, "0": {"score": 2.0}, "2": {"score": 9.0}},
    }
    assert script.differences(case, runs, "tensor-bf16").tolist() == pytest.approx([0.0, 0.4]), (
        "of the seeds that both have"
    )
    coder = script.CASES[-1]
    assert script.differences(coder, runs, "tensor-bf16").tolist() == pytest.approx([0.0, 10.0]) and coder.limit == 2
