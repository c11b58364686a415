"""Tables with names and features on the command line: trained, scored and predicted in the units and words of the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warpladder as wl
from warpladder.results import load as load_results

pytestmark = pytest.mark.usefixtures("small_climbs")

TABLE = ["--data", "csv", "--data-dir", "."]
SETTINGS = ["--epochs", "30", "--batch-size", "8", "--lr", "0.1", "--no-progress"]


@pytest.fixture(autouse=True)
def flowers(tmp_path, monkeypatch):
    """Three kinds by two lengths in different units: 60 rows with names to train on, 30 to test, the same without
    names.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WARPLADDER_DATA", raising=False)
    rng = np.random.default_rng(3)
    kind = rng.integers(0, 3, 90)
    x = np.column_stack([kind * 1e-3 + rng.normal(0, 1e-4, 90), 4e4 - 100 * kind + rng.normal(0, 10, 90)])
    names = np.array(["setosa", "iris", "rose"])[kind]
    rows = [f"{name},{a!r},{b!r}" for name, (a, b) in zip(names, x.tolist(), strict=True)]
    Path("train.csv").write_text("\n".join(["species,length,width", *rows[:60]]))
    Path("test.csv").write_text("\n".join(["species,length,width", *rows[60:]]))
    Path("new.csv").write_text("\n".join(["length,width", *(row.partition(",")[2] for row in rows[60:])]))
    return names[60:]


def trained(run, net="mlp"):
    code, out, err = run("train", net, *TABLE, "--scale-features", *SETTINGS, "--checkpoint", "f.safetensors")
    assert code == 0, err
    return out


def test_names_and_features_there_and_back(run, flowers):
    assert "accuracy 100.00 %, 30 samples" in trained(run)
    assert "accuracy 100.00 %, 30 samples" in run("evaluate", "f.safetensors", *TABLE)[1]
    for file in ("new.csv", "test.csv"):
        assert run("predict", "f.safetensors", file) == (0, "".join(f"{name}\n" for name in flowers), "")
    assert run("predict", "f.safetensors", "new.csv", "--submission", "out.csv")[0] == 0
    assert Path("out.csv").read_text().splitlines()[:2] == ["ImageId,Label", f"1,{flowers[0]}"]
    assert wl.load("f.safetensors").predict([[0.0, 4e4]]).tolist() == ["setosa"]


def test_a_table_is_scored_by_the_means_and_names_of_training(run):
    """Another table has another mean, and only some of the classes."""
    trained(run)
    Path("other").mkdir()
    rows = [line for line in Path("test.csv").read_text().splitlines()[1:] if not line.startswith("iris")]
    for file in ("train.csv", "test.csv"):
        Path("other", file).write_text("\n".join(["species,length,width", *rows]))
    code, out, err = run("evaluate", "f.safetensors", "--data", "csv", "--data-dir", "other")
    assert (code, err) == (0, "") and f"accuracy 100.00 %, {len(rows)} samples" in out
    Path("other/test.csv").write_text("tulip,1,2\n")
    Path("other/train.csv").write_text("tulip,1,2\n")
    code, _, err = run("evaluate", "f.safetensors", "--data", "csv", "--data-dir", "other")
    assert (
        code == 2
        and "'tulip', the label of sample 0, is none of the classes iris, rose, setosa" in err
        and err.count("\n") == 1
    )


def test_a_resumed_run_scales_without_being_told(run):
    trained(run)
    code, _, err = run(
        "train",
        "mlp",
        *TABLE,
        "--resume",
        "f.safetensors",
        "--epochs",
        "31",
        "--no-progress",
        "--checkpoint",
        "g.safetensors",
    )
    assert code == 0, err
    assert len(wl.load("g.safetensors").history) == 31


def test_features_without_scaling_are_refused_with_the_way_out(run):
    code, _, err = run("train", "mlp", *TABLE, *SETTINGS)
    assert (
        code == 2
        and err.count("\n") == 1
        and "--scale-features" in err
        and "train.csv: line 2, column 2 ('length')" in err
    )


@pytest.mark.slow
def test_a_climb_and_a_profile_scale_too(run):
    code, _, err = run(
        "climb", "mlp", *TABLE, "--scale-features", "--rungs", "numpy,native", "--repeats", "1", "--epochs", "3", "--out", "found",
    )  # fmt: skip
    assert code == 0, err
    results = load_results("found/results.json")
    assert [rung.status for rung in results.rungs] == ["timed", "timed"] and results.data.dtype == "float32"
    assert "--scale-features" in results.command
    assert run("profile", "mlp", *TABLE, "--scale-features", "--rung", "numpy")[0] == 0
