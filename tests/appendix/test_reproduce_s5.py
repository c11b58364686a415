"""What reproducing the report of the softmax regression needs: averages as it took them, accuracy against time, gains
of one program over another, launches.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from climbs import example, timed

from warpladder.appendix.reproduce import Reproducer, Watcher, definition
from warpladder.appendix.reproduce.definition import parse
from warpladder.appendix.reproduce.kinds import launches
from warpladder.appendix.reproduce.kinds.averages import later_epoch, total
from warpladder.appendix.reproduce.kinds.launched import Launched, Launches
from warpladder.appendix.reproduce.report.pictures import lines
from warpladder.appendix.reproduce.results import Series
from warpladder.device.emulator.toolchain import why_not as why_not_emulated
from warpladder.device.gpu import why_not
from warpladder.errors import ConfigError, ResultsError, WarpladderError
from warpladder.results import History
from warpladder.results.profiled import LaunchShape
from warpladder.results.report.figures.alone import alone

pytestmark = (
    pytest.mark.slow
)  # climbs and trainings; tests/appendix/test_reproduce.py shows the same of a smaller report

TEXT = """
title = "Softmax on digits"
about = "A report that is none."

[climbs.sizes]
net = "softmax"
data = "digits"
rungs = ["numpy", "naive"]
repeats = 1
budget = 0.05
settings = { epochs = 2 }
sweep = { batch_size = [32, 128] }

[climbs.sizes.quick]
limit = 100
sweep = { batch_size = [32] }

[launches.shapes]
net = "softmax"
data = "digits"
rungs = ["naive", "graph", "library"]
settings = { batch_size = 16 }

[[sections]]
title = "Sizes"

[[sections.tables]]
title = "Batch sizes"
heads = ["batch size"]
columns = [
  { head = "epoch", unit = "ms", measure = "later_seconds" },
  { head = "total", unit = "ms", measure = "total_seconds" },
  { head = "gain", unit = "x", measure = "speedup:epoch_seconds:over" },
]
rows = [
  { label = ["32"], here = "sizes/numpy@batch_size=32" },
  { label = ["128"], here = "sizes/numpy@batch_size=128", over = "sizes/numpy@batch_size=32" },
  { label = ["GPU"], here = "sizes/naive@batch_size=32", over = "sizes/numpy@batch_size=32" },
]

[[sections.lines]]
title = "Accuracy against time"
x = { head = "time", unit = "ms" }
y = { head = "accuracy", unit = "%" }
series = [{ label = "NumPy", here = "sizes/numpy", curve = "test_accuracy against train_seconds" }]

[[sections.launches]]
title = "Kernels of naive"
here = "shapes/naive"

[[sections.launches]]
title = "Kernels of graph"
here = "shapes/graph"

[[sections.launches]]
title = "Kernels of the libraries"
here = "shapes/library"
"""


def reproduced(folder, *only, quick=False):
    return Reproducer(parse(TEXT, "s9", quick=quick), folder, quick, None, Watcher()).run(only)


@pytest.fixture(scope="module")
def sizes(tmp_path_factory):
    return reproduced(tmp_path_factory.mktemp("sizes"), "sizes")


def test_averages_are_of_the_later_half_and_totals_of_all_epochs():
    """Eight epochs whose first are slow; two more than the four that were asked for do not count."""
    told = replace(example(), epochs=4)
    whole = timed("numpy", "an idea", (9.0, 9.0), history=History((1.0,) * 6, None, (8.0, 4.0, 2.0, 3.0, 50.0, 50.0)))
    found, every = later_epoch(told, whole), total(told, whole)
    assert found is not None and (found.here, found.least, found.most, found.scaled) == (2.5, 2.0, 3.0, False)
    assert every is not None and (every.here, every.scaled) == (17.0, False)
    short = replace(whole, history=History((1.0,) * 3, None, (6.0, 3.0, 3.0)))
    found, every = later_epoch(told, short), total(told, short)
    assert found is not None and (found.here, found.scaled) == (3.0, False), "the later half of three are two"
    assert every is not None and (every.here, every.scaled) == (16.0, True)


def test_averages_of_a_rung_whose_epochs_are_not_whole_are_marked():
    told = replace(example(), epochs=4)
    part = timed("loops", "an idea", (30.0, 20.0, 40.0), steps=100)
    found, every = later_epoch(told, part), total(told, part)
    assert found is not None and found.here == pytest.approx(30.0, rel=2e-2) and found.scaled
    assert every is not None and every.here == pytest.approx(120.0, rel=2e-2) and every.scaled
    none = next(rung for rung in told.rungs if rung.timing is None)
    assert later_epoch(told, none) is None is total(told, none)


def test_a_gain_is_over_what_the_row_names(sizes):
    first, second, gpu = sizes.sections[0].tables[0].rows
    assert first.values[2].here is None, "it names nothing"
    assert second.values[2].here is not None and second.values[2].here > 0
    assert gpu.values[2].here is None and gpu.reason
    assert all(row.values[1].here >= row.values[0].here > 0 for row in (first, second)), (
        "two epochs take longer than one"
    )


def test_accuracy_against_time_has_a_marked_point_for_each_size(sizes):
    told = sizes.sections[0].lines[0]
    (series,) = told.series
    assert series.marks == ("32", "128") and len(series.x) == 2
    assert all(0 < x < 60 for x in series.x) and all(0.3 < y <= 1 for y in series.y)
    drawn = alone("", lines(told))
    assert re.search(r">\s*32\s*<", drawn) and re.search(r">\s*128\s*<", drawn)


def test_marks_are_as_many_as_points():
    with pytest.raises(ResultsError, match="a mark for each point"):
        Series("a", (1.0, 2.0), (1.0, 2.0), marks=("1",))


@pytest.mark.parametrize(
    "curve", ["test_accuracy against beauty", "beauty against train_seconds", "a against b against c"]
)
def test_a_measure_that_there_is_not_has_no_curve(curve):
    with pytest.raises(ConfigError, match="there is no measure"):
        parse(TEXT, "s9").experiments["sizes"].check("numpy", f"curve:{curve}")


def test_what_a_first_look_leaves_out_says_so(tmp_path):
    found = reproduced(tmp_path, "sizes", quick=True)
    first, second, gpu = found.sections[0].tables[0].rows
    assert first.values[0].scaled and not first.reason
    assert second.reason == "not measured in a first look" and "first look" not in gpu.reason


def test_a_skipped_experiment_says_so(tmp_path):
    text = TEXT.replace("[launches.shapes]", "[climbs.sizes.quick]\nskip = true\n\n[launches.shapes]").replace(
        "[climbs.sizes.quick]\nlimit = 100\nsweep = { batch_size = [32] }\n", ""
    )
    found = Reproducer(parse(text, "s9", quick=True), tmp_path, True, None, Watcher()).run(())
    assert {row.reason for row in found.sections[0].tables[0].rows} == {"not measured in a first look"}


@pytest.mark.nvrtc
@pytest.mark.skipif(why_not_emulated() is not None, reason=str(why_not_emulated()))
def test_launches_are_compiled_for_a_gpu_that_is_not_here(tmp_path):
    pytest.importorskip("cuda.core", reason="NVRTC is not installed: scripts/setup test nvrtc")
    if why_not() is None:
        pytest.skip("there is a GPU here")
    found = reproduced(tmp_path, "shapes")
    naive, graph, library = found.sections[0].tables[1:]
    assert {"linear_forward", "sgd_step", "cross_entropy_softmax"} <= {row.label[0] for row in naive.rows}
    for row in (*naive.rows, *graph.rows):
        registers, shared, occupancy = (value.here for value in row.values)
        assert 8 <= registers <= 255 and 0 <= shared < 228 << 10 and 0 < occupancy <= 1
        assert all(re.fullmatch(r"\d+( x \d+){0,2}", axes) for axes in row.label[1:])
    assert len(graph.rows) < len(naive.rows) and "is not here: nothing ran" in naive.text
    assert library.rows[0].reason and library.rows[0].values[0].here is None
    assert "shapes" in found.measured
    begun: list[str] = []
    Reproducer(parse(TEXT, "s9"), tmp_path, False, None, Watcher(begin=lambda name, at, of: begun.append(name))).run(
        ("shapes",)
    )
    assert begun == [], "what was looked at is not looked at again"


def test_without_a_compiler_each_rung_says_why(tmp_path, monkeypatch):
    def none():
        raise WarpladderError("no compiler")

    monkeypatch.setattr(launches, "_offline", none)
    monkeypatch.setattr(launches, "why_not", lambda: "no GPU")
    found = reproduced(tmp_path, "shapes")
    assert [table.rows[0].reason for table in found.sections[0].tables[1:]][:2] == ["no compiler"] * 2


def test_a_librarys_call_is_a_row_without_figures(tmp_path):
    shape = LaunchShape((8, 2, 1), (8, 32, 1), 1024, 31, 512, 0, 0.75)
    stored = Launches(
        1, "A100", True, {"library": (Launched("forward", "cublasLt y", None), Launched("loss", "softmax", shape))}, {}
    )
    (tmp_path / "measured").mkdir()
    stored.save(tmp_path / "measured/shapes.json")
    assert Launches.load(tmp_path / "measured/shapes.json") == stored
    found = reproduced(tmp_path, "shapes")
    call, kernel = found.sections[0].tables[3].rows
    assert call.label[0] == "cublasLt y" and call.values[0].here is None and "library" in call.remark
    assert kernel.label == ("softmax", "8 x 2", "8 x 32") and [value.here for value in kernel.values] == [
        31.0,
        1536.0,
        0.75,
    ]
    assert "nothing ran" not in found.sections[0].tables[3].text


def test_a_file_of_launches_that_is_none_is_an_error_of_one_line(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(ResultsError, match=r"a\.json: is not a file of launches"):
        Launches.load(tmp_path / "a.json")


def test_the_report_has_its_nine_rows_and_a_headline():
    report = definition("s5")
    results = report.sections[1].tables[0]
    assert [row.reported[:2] for row in results.rows] == [
        (38, 874), (27, 554), (20.73, 439), (19, 398), (18, 386), (17, 367), (12500, 251360), (10500, 211260), (600, 14610),
    ]  # fmt: skip
    title, row, column = report.headline
    assert (
        title == results.title
        and row in {row.label[0] for row in results.rows}
        and column in {each.head for each in results.columns}
    )


@pytest.mark.parametrize("quick", [False, True])
def test_every_program_that_a_row_is_compared_with_is_measured(quick):
    report = definition("s5", quick=quick)
    every = [row for section in report.sections for table in section.tables for row in table.rows if row.over]
    assert len(every) > 10
    for row in every:
        name, _, rung = row.over.partition("/")
        if not (quick and name not in report.experiments):
            report.experiments[name].check(rung, "epoch_seconds")
    for told in (each for section in report.sections for each in section.launches):
        name, _, rung = told.here.partition("/")
        report.experiments[name].check(rung, "launches")
