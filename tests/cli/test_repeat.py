"""train --repeat: a run for each seed, a file for each run, and mean and spread over them."""

import re
import statistics
from pathlib import Path

import pytest
from runs import hooked

import warpladder as wl
from warpladder import ladder
from warpladder.errors import Stopped

WORDS = ("train", "mlp10", "--data", "digits", "--limit", "90", "--epochs", "2", "--seed", "7", "--rung", "numpy")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def rows(out):
    """Cells of the table by the first cell of their row."""
    found = [line.split() for line in out.splitlines()]
    return {cells[0]: cells[1:] for cells in found if cells and re.fullmatch(r"\d+|mean|spread", cells[0])}


def test_each_run_is_that_of_its_seed_and_the_table_has_mean_and_spread(run):
    code, out, _ = run(*WORDS, "--validation", "30", "--repeat", "3", "--checkpoint", "c.safetensors")
    table = rows(out)
    assert code == 0 and list(table) == ["7", "8", "9", "mean", "spread"]
    losses = []
    for seed in (7, 8, 9):
        words = [*WORDS[:9], str(seed), *WORDS[10:], "--validation", "30", "--checkpoint", f"alone-{seed}.safetensors"]
        assert run(*words)[0] == 0
        repeated, alone = (wl.load(f"{name}-{seed}.safetensors") for name in ("c-seed", "alone"))
        assert all((repeated.params[name] == alone.params[name]).all() for name in alone.params)
        assert repeated.checkpoint.data == alone.checkpoint.data and repeated.config.seed == seed
        losses.append(alone.test_loss or 0.0)
        assert float(table[str(seed)][3]) == pytest.approx(losses[-1], rel=1e-3)
    assert float(table["mean"][3]) == pytest.approx(statistics.fmean(losses), rel=1e-3)
    assert float(table["spread"][3]) == pytest.approx(statistics.stdev(losses), rel=1e-3)
    # each goes on by itself
    code, _, err = run(*WORDS[:6], "--validation", "30", "--resume", "c-seed-8.safetensors", "--epochs", "3")
    assert code == 0, err


def test_files_that_are_there_are_seen_before_the_first_run(run):
    Path("c-seed-9.safetensors").write_text("mine")
    code, out, err = run(*WORDS, "--repeat", "3", "--checkpoint", "c.safetensors")
    assert code == 2 and "'c-seed-9.safetensors' is there already" in err and "seed 7" not in out
    assert sorted(path.name for path in Path().iterdir()) == ["c-seed-9.safetensors"]


def test_without_a_file_each_run_has_a_folder_and_each_log_too(run):
    assert run(*WORDS, "--repeat", "2")[0] == 0
    found = sorted(re.sub(r"-\d{8}-\d{6}(-\d+)?", "", str(path)) for path in Path("runs").glob("*/*"))
    assert found == [f"runs/mlp10-digits-seed-{seed}/mlp10-seed-{seed}.safetensors" for seed in (7, 8)]
    code, out, _ = run(*WORDS, "--repeat", "2", "--no-checkpoint")
    assert code == 0 and "weights in" not in out


def test_a_run_that_diverges_is_reported_and_the_others_are_shown(run, monkeypatch):
    def spoil(trainer, order, first, last):
        if order.seed == 8:
            trainer.set_state(trainer.state().but(params=trainer.state().params * 1e30))

    monkeypatch.setattr(ladder, "LADDER", (hooked("numpy", before=spoil),))
    code, out, err = run(*WORDS, "--repeat", "3", "--no-checkpoint")
    assert code == 1 and err.startswith("seed 8: training diverged in epoch 1") and list(rows(out))[:2] == ["7", "9"]


def test_what_was_trained_is_shown_where_the_next_run_is_stopped(run, monkeypatch):
    def stop(trainer, order, first, last):
        if order.seed == 8:
            raise Stopped("stopped", 130)

    monkeypatch.setattr(ladder, "LADDER", (hooked("numpy", before=stop),))
    code, out, _ = run(*WORDS, "--repeat", "3", "--no-checkpoint")
    assert code == 130 and list(rows(out)) == ["7"]


@pytest.mark.parametrize("count", ["1", "0", "-2", "x"])
def test_it_repeats_at_least_twice_and_only_new_runs(count, run):
    code, _, err = run(*WORDS, "--repeat", count)
    assert code == 2 and "--repeat" in err
    code, _, err = run(*WORDS, "--repeat", "2", "--resume", "c.safetensors")
    assert code == 2 and "--repeat repeats new runs: leave out --resume" in err
