"""The results file: what is written comes back, and damage ends in one typed line."""

import json
import os
import random
import re

import pytest
from climbs import example, timed

from warpladder.errors import ResultsError
from warpladder.results import RungResult, Timing, load, parse


def spoiled(change):
    """The example as JSON text, with one change made to its tree."""
    from dataclasses import asdict

    tree = json.loads(json.dumps(asdict(example())))
    change(tree)
    return json.dumps(tree).encode()


def test_results_replace_no_file_unless_that_is_wanted(tmp_path):
    example().save(tmp_path / "results.json")
    with pytest.raises(ResultsError, match=r"results.json: is there already: .* or insist \(overwrite=True\)"):
        example(epochs=11).save(tmp_path / "results.json")
    assert load(tmp_path / "results.json") == example()
    example(epochs=11).save(tmp_path / "results.json", overwrite=True)
    assert load(tmp_path / "results.json").epochs == 11


def test_what_is_saved_comes_back(tmp_path):
    example().save(tmp_path / "results.json")
    assert load(tmp_path / "results.json") == example()
    assert os.listdir(tmp_path) == ["results.json"]


def test_a_failed_write_leaves_the_old_file_whole(tmp_path, monkeypatch):
    example().save(tmp_path / "results.json")

    def fails(file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="No space"):
        example(epochs=11).save(tmp_path / "results.json", overwrite=True)
    assert load(tmp_path / "results.json").epochs == 10
    assert os.listdir(tmp_path) == ["results.json"]


def test_a_figure_that_is_not_finite_is_never_written(tmp_path):
    with pytest.raises(ValueError):
        example(rungs=(timed("a", "b", (1.0,), test_loss=float("nan")),)).save(tmp_path / "results.json")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("machine"), "machine is missing"),
        (lambda t: t.update(more=1), "'more' is not a field of this schema"),
        (lambda t: t.update(schema=2), "has schema 2, this warpladder reads 1"),
        (lambda t: t.update(schema=True), "has schema True"),
        (
            lambda t: t["rungs"][0].update(flops=-818176),
            "rung 'loops': flops wants at least 1, and at most 1e30, got -818176",
        ),
        (lambda t: t["rungs"][0].update(floor_seconds=0.0), "rung 'loops': floor_seconds wants at least 1e-30"),
        (lambda t: t["rungs"][0].update(test_seconds=-1.0), "rung 'loops': test_seconds wants at least 0"),
        (lambda t: t.update(epochs="ten"), "epochs wants a whole number, got 'ten'"),
        (lambda t: t.update(epochs=True), "epochs wants a whole number, got True"),
        (lambda t: t.update(epochs=10**400), "epochs wants a whole number below"),
        (lambda t: t["machine"].update(fma_peak=0), "machine: fma_peak and bandwidth want at least 1"),
        (lambda t: t["machine"].update(fma_peak=10**400), "machine.fma_peak wants a finite number"),
        (lambda t: t["machine"].update(features="avx2"), "machine.features wants a list, got 'avx2'"),
        (lambda t: t["machine"]["packages"].update(numpy=2), "machine.packages.'numpy' wants text, got 2"),
        (lambda t: t["rungs"][1].update(name="loops"), "rungs: two have the same name"),
        (
            lambda t: t["rungs"][1]["timing"].update(seconds=[]),
            "rungs[1].timing: a timing wants at least one repetition",
        ),
        (
            lambda t: t["rungs"][1]["timing"].update(samples=0),
            "rungs[1].timing: a timing wants at least one step and one sample",
        ),
        (
            lambda t: t["rungs"][1]["timing"]["seconds"].__setitem__(2, "1.0"),
            "rungs[1].timing.seconds[2] wants a number, got '1.0'",
        ),
        (
            lambda t: t["rungs"][1]["timing"]["seconds"].__setitem__(2, -1.0),
            "rungs[1].timing: a timing wants times between",
        ),
        (lambda t: t["rungs"][1].update(timing=None), "a timing belongs to the status 'timed'"),
        (lambda t: t["rungs"][1].update(status="quick"), "status wants one of timed, unsupported, failed, refused"),
        (lambda t: t["rungs"][1].update(title="two\nlines"), "rungs[1].title wants one line of printable text"),
        (lambda t: t["rungs"][1].update(title="\x1b[2J"), "rungs[1].title wants one line of printable text"),
        (lambda t: t["rungs"][1].update(title="\ud800"), "rungs[1].title wants one line of printable text"),
        (lambda t: t["config"].update(batch_size=["64"]), "config.'batch_size'[0] wants a number"),
        (lambda t: t["config"]["optimizer"].update(learning_rate={}), "config.'optimizer'.'learning_rate' wants"),
        (lambda t: t.update(rungs=[None]), "rungs[0] wants an object, got None"),
    ],
)
def test_the_first_fault_is_named_with_its_place(change, message, tmp_path):
    path = tmp_path / "results.json"
    path.write_bytes(spoiled(change))
    with pytest.raises(ResultsError, match=re.escape(message)) as caught:
        load(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"\x80", b"{", b"[]", b"null", b"1", b'{"schema": NaN}', b'{"schema": 1e999}', b"[" * 100_000, b'{"schema": ' + b"1" * 5000 + b"}",
        b"<!doctype html>", b"\xef\xbb\xbf{}",
    ],
)  # fmt: skip
def test_what_is_no_results_file_is_said_to_be_none(raw):
    with pytest.raises(ResultsError):
        parse(raw)


def test_a_missing_file_and_a_folder_are_typed_errors(tmp_path):
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(ResultsError, match=re.escape(str(path))):
            load(path)


def test_damaged_files_give_typed_errors_only():
    """Bytes flipped, cut, repeated and swapped for hostile tokens: a Results or a ResultsError, and nothing else."""
    good = spoiled(lambda tree: None)
    rng = random.Random(0)
    refused = 0
    for _ in range(4000):
        try:
            parse(damaged(good, rng))
        except ResultsError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused > 3000


TOKENS = (
    b"null",
    b"-1",
    b"1e999",
    b"1e308",
    b"1e-320",
    b"[]",
    b"{}",
    b'""',
    b'"\\ud800"',
    b"true",
    b"NaN",
    b"[" * 2000,
    b"9" * 5000,
    b"0",
)


def damaged(good: bytes, rng: random.Random) -> bytes:
    raw = bytearray(good)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(raw))
        kind = rng.randrange(5)
        if kind == 0:
            raw[at] = rng.randrange(256)
        elif kind == 1:
            del raw[at : at + rng.randint(1, 40)]
        elif kind == 2:
            raw[at:at] = raw[at : at + rng.randint(1, 40)]
        else:  # a value swapped for a hostile one: between a colon and the next comma
            colon = raw.find(b": ", at)
            comma = min((i for i in (raw.find(b",", colon), raw.find(b"}", colon)) if i >= 0), default=-1)
            if colon >= 0 and comma >= 0:
                raw[colon + 2 : comma] = rng.choice(TOKENS)
    return bytes(raw)


def test_seconds_per_epoch_are_the_median_and_scale_with_the_samples():
    timing = Timing(
        (3.0, 1.0, 2.0), (3.0, 1.0, 2.0), None, steps=100, samples=6400, epoch_steps=938, epoch_samples=60000
    )
    assert timing.scaled
    assert timing.seconds_per_epoch == 2.0 * 60000 / 6400
    assert timing.spread == 1.0
    assert timing.samples_per_second == 3200
    several = Timing((4.0,), (4.0,), (0.5,), steps=2 * 938, samples=120000, epoch_steps=938, epoch_samples=60000)
    assert not several.scaled and several.seconds_per_epoch == 2.0


def test_what_others_did_meanwhile_is_told_in_processors():
    timing = Timing((1.0, 1.0), (1.0, 1.0), (0.5, 0.1), steps=1, samples=1, epoch_steps=1, epoch_samples=1)
    assert timing.disturbance == pytest.approx(0.3)


def test_speed_ups_pass_over_rungs_without_a_time_and_leave_peers_off_the_ladder():
    loops, _, native, broken, jax, torch = (results := example()).rungs
    assert results.over_first(loops) == 1
    assert results.over_first(native) == pytest.approx(31.0 / 0.431, rel=1e-4)
    assert results.over_first(torch) == pytest.approx(31.0 / 0.92, rel=1e-4)
    assert results.over_below(native) == pytest.approx(1.32 / 0.431)
    assert [results.over_below(rung) for rung in (loops, broken, jax, torch)] == [None] * 4
    assert [results.over_first(rung) for rung in (broken, jax)] == [None] * 2
    assert results.fastest(peers=True) is native
    without = example(rungs=(loops, RungResult("numpy", "", "", False), native))
    assert without.over_below(native) == pytest.approx(31.0 / 0.431, rel=1e-4)


def test_the_share_of_the_peak_counts_the_rungs_own_flops():
    native = example().rungs[2]
    assert example().share(native) == pytest.approx(818176 * 60000 / 0.431 / 207e9)
    assert example().share(example().rungs[3]) is None


def test_files_from_before_the_gpu_are_read():
    def older(tree):
        del tree["machine"]["gpu"]

    assert parse(spoiled(older)) == example()
    with pytest.raises(ResultsError, match=r"machine\.gpu\.name is missing"):
        parse(spoiled(lambda tree: tree["machine"].update(gpu={})))
