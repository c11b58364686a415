"""Reproductions of the reports: their files are whole, figures come into their places, and what was stopped goes on."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from reproduced_reports import SMALL, WRITTEN, reproduced

from warpladder.appendix.reproduce import Reproducer, Watcher, definition
from warpladder.appendix.reproduce.definition import parse
from warpladder.appendix.reproduce.kinds import trainings
from warpladder.appendix.reproduce.resolve import measure_of, parts_of
from warpladder.appendix.reproduce.resolve import places as places_of
from warpladder.appendix.reproduce.results import Reproduction
from warpladder.errors import ConfigError, DeviceError, ResultsError
from warpladder.train import Run, train


@pytest.fixture(autouse=True)
def is_undisturbed(monkeypatch):
    """Nothing is measured twice because another process runs meanwhile."""
    monkeypatch.setattr("warpladder.appendix.reproduce.reproducer.DISTURBED", math.inf)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, small_climbs_in_module):
    folder = tmp_path_factory.mktemp("whole")
    return folder, reproduced(folder)


@pytest.mark.parametrize("name", WRITTEN)
def test_every_place_and_measure_of_a_report_is_there(name):
    """An experiment that a table names exists, has the rung, in its whole form or in that of a first look, and measures
    what the column asks for.
    """
    whole, quick = (definition(name, quick=quick).experiments for quick in (False, True))
    for place, measure in places(definition(name)):
        experiment, _, rung = place.partition("/")
        assert experiment in whole, place
        try:
            whole[experiment].check(rung, measure)
        except ConfigError as error:
            assert experiment in quick, f"{place} {measure}: {error}"
            quick[experiment].check(rung, measure)


def places(report):
    """Where each figure and curve of a report is measured, and as what."""
    for section in report.sections:
        for table in section.tables:
            for row in table.rows:
                for column in table.columns:
                    if column.measure.startswith(("speedup:", "change:")):
                        yield from ((place, timed(column.measure)) for place in places_of(row, column))
                    elif measure := measure_of(row, column):
                        yield from ((place, measure) for place in places_of(row, column))
        for lines in section.lines:
            yield from ((each.here, f"curve:{each.curve}") for each in lines.series if each.here)
        for bars in section.bars:
            yield from (
                (row.here, timed(row.measure or bars.column.measure))
                for row in bars.rows
                if row.here and isinstance(row.here, str)
            )


def timed(measure):
    """What a speed-up or a change is one of; any other measure as it is."""
    return parts_of(measure)[1] if measure.startswith(("speedup:", "change:")) else measure


def test_figures_come_into_their_places(whole):
    _, found = whole
    table, step = found.sections[0].tables
    loops, numpy, cuda, seeds = table.rows
    assert loops.values[0].reported == pytest.approx(12.5e-3) and loops.values[2].reported == pytest.approx(0.9534)
    assert loops.values[1].reported is None and numpy.values[0].theirs == pytest.approx(7e-3)
    assert 0 < loops.values[0].least <= loops.values[0].here <= loops.values[0].most
    assert numpy.values[1].here == pytest.approx(loops.values[0].here / numpy.values[0].here)
    assert loops.values[1].here is None, "the first row is faster than nothing"
    assert 0.5 < numpy.values[2].here <= 1
    assert all(value.here is None for value in cuda.values) and cuda.reason and cuda.rung == "naive"
    assert seeds.values[2].least <= seeds.values[2].here <= seeds.values[2].most
    assert all(0 < row.values[0].here < 1 for row in step.rows)
    loss, sizes = found.sections[0].lines
    assert (
        [len(each.x) for each in loss.series] == [2, 2]
        and loss.series[0].source == "here"
        and loss.series[1].source == "reported"
    )
    assert sizes.series[0].x == (100.0, 200.0)
    assert found.missing == () and set(found.measured) == {"rows", "sizes", "seeds", "parts"}


def test_the_file_is_read_back_the_same(whole):
    folder, found = whole
    assert replace(Reproduction.load(folder / "results.json"), seconds=0.0, created="") == replace(
        found, seconds=0.0, created=""
    )


def test_what_is_whole_is_not_measured_again(whole):
    folder, _ = whole
    begun: list[str] = []
    reproduced(folder, watcher=Watcher(begin=lambda name, at, of: begun.append(name)))
    assert begun == []


class Enough(Exception):
    pass


def test_a_stopped_run_goes_on_where_it_was(tmp_path):
    """Stopped after the first of two seeds: that seed is kept as it was, and only the second one is trained."""

    def stop(news):
        if "seed 0" in str(news):
            raise Enough

    with pytest.raises(Enough):
        reproduced(tmp_path, watcher=Watcher(news=stop), only=("seeds",))
    between = Reproduction.load(tmp_path / "results.json")
    assert "seeds" in between.missing
    before = json.loads((tmp_path / "measured/seeds.json").read_text())["runs"]
    assert [run["seed"] for run in before] == [0]
    found = reproduced(tmp_path, only=("seeds",))
    after = json.loads((tmp_path / "measured/seeds.json").read_text())["runs"]
    assert after[0] == before[0] and [run["seed"] for run in after] == [0, 1] and "seeds" in found.measured


@pytest.mark.slow
def test_a_stopped_climb_keeps_the_rungs_that_were_whole(tmp_path):
    course = parse(SMALL, "s9")
    reproduced(tmp_path, only=("rows",))
    path = tmp_path / "measured/rows.json"
    tree = json.loads(path.read_text())
    rungs = tree["tasks"][0]["rungs"]
    tree["tasks"][0]["stopped"] = "stopped"
    loops = next(rung for rung in rungs if rung["name"] == "loops")
    loops["same_bits"] = None  # as of a rung that the stop came before
    path.write_text(json.dumps(tree))
    kept = next(rung for rung in rungs if rung["name"] == "numpy")["timing"]["seconds"]
    stopped = course.experiments["rows"].found("rows", tmp_path / "measured")
    assert stopped is not None and not stopped.whole
    reproduced(tmp_path, only=("rows",))
    after = {rung["name"]: rung for rung in json.loads(path.read_text())["tasks"][0]["rungs"]}
    assert after["numpy"]["timing"]["seconds"] == kept and after["loops"]["same_bits"] is True
    assert after["loops"]["timing"]["seconds"] != loops["timing"]["seconds"]


def test_a_folder_of_another_report_or_machine_is_left_alone(whole, tmp_path):
    folder, found = whole
    (tmp_path / "results.json").write_text((folder / "results.json").read_text())
    with pytest.raises(ResultsError, match="holds s9: name another folder"):
        Reproducer(parse(SMALL, "s8"), tmp_path, False, None, Watcher()).run()
    replace(found, machine=replace(found.machine, cpu="another processor")).save(tmp_path / "results.json")
    with pytest.raises(ResultsError, match="was begun on another processor"):
        reproduced(tmp_path)


@pytest.mark.parametrize(
    "change, told",
    [
        (("[climbs.rows]", "[climbs.rows"), "is not TOML"),
        (('net = "softmax"', 'nett = "softmax"'), "rows.'nett'"),
        (("reported = [12.5, nan, 95.34]", "reported = [12.5]"), "wants 3 figures, got 1"),
        (('unit = "ms"', 'unit = "fortnights"'), "there is no unit 'fortnights'"),
        (('label = ["loops"]', 'label = ["loops", "two"]'), "wants 1 texts, got 2"),
        (("[trainings.seeds]", "[trainings.rows]"), "two experiments are called 'rows'"),
    ],
)
def test_a_broken_file_is_told_in_a_line(change, told):
    with pytest.raises(ConfigError, match=r"^s9: ") as error:
        parse(SMALL.replace(change[0], change[1], 1), "s9")
    assert told in str(error.value) and "\n" not in str(error.value)


@pytest.mark.slow
def test_a_first_look_scales_times_and_says_so(tmp_path):
    text = SMALL.replace(
        "[climbs.rows]", "[climbs.rows.quick]\nlimit = 100\nsettings = { epochs = 1 }\n\n[climbs.rows]", 1
    )
    found = Reproducer(parse(text, "s9", quick=True), tmp_path, True, None, Watcher()).run(("rows",))
    loops = found.sections[0].tables[0].rows[0]
    assert found.quick and loops.values[0].scaled
    tree = json.loads((tmp_path / "measured/rows.json").read_text())["tasks"][0]
    timing = next(rung for rung in tree["rungs"] if rung["name"] == "loops")["timing"]
    middle = sum(sorted(timing["seconds"])) / 2 / timing["samples"] * timing["epoch_samples"]
    assert loops.values[0].here == pytest.approx(middle * 1437 / 100)


CORES = """
title = "Cores"
about = "On one core."

[trainings.few]
net = "softmax"
data = "digits"
rungs = ["numpy"]
cores = 1
settings = { epochs = 1 }

[[sections]]
title = "Times"

[[sections.tables]]
title = "Training"
heads = ["program"]
columns = [{ head = "right", unit = "%", measure = "test_accuracy" }]
rows = [{ label = ["numpy"], here = "few/numpy" }]
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system binds no process to cores")
def test_a_training_keeps_to_its_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def trained(*args: Any, **options: Any) -> Run:
        seen.append(len(os.sched_getaffinity(0)))
        return train(*args, **options)

    monkeypatch.setattr(trainings, "train", trained)
    found = Reproducer(parse(CORES, "s9"), tmp_path / "few", False, None, Watcher()).run()
    assert seen == [1] and found.sections[0].tables[0].rows[0].values[0].here is not None
    with pytest.raises(DeviceError, match="9999 cores are wanted"):
        Reproducer(
            parse(CORES.replace("cores = 1", "cores = 9999"), "s9"), tmp_path / "many", False, None, Watcher()
        ).run()
