"""What the reports S2 and S3 need of a reproduction: counted facts, single operations, weights of processes, Kaggle's
files, and tables across columns.
"""

from __future__ import annotations

import csv
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpladder import data, nets
from warpladder.appendix.reproduce import Reproducer, Watcher, definition
from warpladder.appendix.reproduce.definition import parse
from warpladder.appendix.reproduce.experiments import Bench
from warpladder.appendix.reproduce.kinds.climbed import Climbed
from warpladder.appendix.reproduce.kinds.facts import Facts
from warpladder.appendix.reproduce.kinds.footprints import Footprints, MeasuredMemory, ProcessMemory, measure_memory
from warpladder.appendix.reproduce.kinds.operations import NAMES, RATE, Operations
from warpladder.appendix.reproduce.kinds.profiles import Profiled
from warpladder.appendix.reproduce.kinds.submissions import Submission, score, write_tables
from warpladder.appendix.reproduce.kinds.trainings import Train
from warpladder.appendix.reproduce.resolve import measure_of, places
from warpladder.errors import ConfigError, DataError, NetError, ResultsError
from warpladder.results.profiled import Floor, KernelTime, Part, Profile

pytestmark = (
    pytest.mark.slow
)  # climbs and trainings; tests/appendix/test_reproduce.py shows the same of a smaller report


def bench(folder: Path) -> Bench:
    return Bench(folder, None, {}, Watcher())


def figure(found, rung: str, measure: str) -> float:
    """A figure that is there."""
    value = found.value(rung, measure)
    assert value is not None and value.here is not None
    return value.here


def done(experiment, folder: Path):
    experiment.measure("it", bench(folder))
    return experiment.found("it", folder)


# Facts


def test_facts_are_those_of_the_formulas(tmp_path):
    """S2's step by hand: products of 64 x 784 x 256 and 64 x 256 x 10, a thread for each output."""
    found = done(Facts("mlp", 64, rungs=("naive", "tiled"), gpus={}), tmp_path)

    def of(measure, rung=""):
        return figure(found, rung, measure)

    first, second = 2 * 64 * 784 * 256, 2 * 64 * 256 * 10
    assert of("flops:forward 1") == of("flops:backward 1") == first and of("flops:forward 3") == second
    assert of("flops:backward 3") == 2 * second, "of the weights, and of what enters"
    assert of("flops:forward 1+forward 2+forward 3") == first + second
    assert of("flops") == 2 * first + 3 * second + 4 * 640 + 2 * 203530
    assert of("bytes:1.weight") == 4 * 784 * 256 and of("bytes:parameters") == 4 * 203530
    assert of("bytes:input+labels+loss") == 4 * (64 * 784 + 64 + 1) and of("bytes:2+2") == 2 * 4 * 64 * 256
    assert of("floats:16x16") == 1024
    assert (
        of("threads:forward 1", "naive") == 64 * 256
        and of("blocks:forward 1", "naive") == 64
        and of("block:forward 1", "naive") == 256
    )
    assert of("threads:update", "naive") == -(-203530 // 256) * 256
    assert of("threads:linear_weight_gradient", "naive") == 784 * 256
    assert of("launches", "tiled") < of("launches", "naive")
    assert of("memory:parameters", "naive") == 4 * 203552 and of("memory:activations+input", "naive") > of(
        "memory:input", "naive"
    )
    assert of("transfers:samples to the device", "naive") == 64 * 784
    assert found.whole and found.value("gemm", "launches") is None


def test_facts_know_the_peaks_of_data_sheets(tmp_path):
    found = done(parse(FACTS, "s9").experiments["step"], tmp_path)
    peak = figure(found, "", "peak:A100:fp32")
    assert peak == pytest.approx(19.5e12, rel=1e-2) and figure(found, "", "peak:A100:fp16") == pytest.approx(
        312e12, rel=1e-2
    )
    assert figure(found, "", "least_seconds:A100:fp32") == pytest.approx(figure(found, "", "flops") / peak)
    assert found.value("", "peak:T4:tf32") is None, "a T4 has no TF32"


FACTS = """
title = "Facts"
about = "A step."
sections = []

[facts.step]
net = "mlp"
batch = 64
gpus = { A100 = { capability = [8, 0], multiprocessors = 108, clock_mhz = 1410 }, T4 = { capability = [7, 5], multiprocessors = 40, clock_mhz = 1590 } }
"""


def test_what_facts_do_not_know_is_told(tmp_path):
    facts = Facts("mlp", 64, rungs=("naive",))
    found = done(facts, tmp_path)
    for rung, measure in (("", "flops:forward 9"), ("naive", "threads:nothing"), ("", "seconds")):
        with pytest.raises(ConfigError):
            found.value(rung, measure)
    for rung, measure in (("", "threads:update"), ("naive", "flops"), ("tiled", "launches"), ("", "nothing")):
        with pytest.raises(ConfigError):
            facts.check(rung, measure)
    facts.check("naive", "threads:update")
    with pytest.raises(ConfigError, match="not of 'cupy'"):
        Facts("mlp", 64, rungs=("cupy",)).measure("it", bench(tmp_path))


@pytest.mark.parametrize("name", ["s2", "s3"])
def test_every_fact_that_a_report_asks_for_is_there(name, tmp_path):
    """Facts need no data and no GPU, so that each of them can be asked for here."""
    report = definition(name)
    found = {key: done(each, tmp_path) for key, each in report.experiments.items() if isinstance(each, Facts)}
    count = 0
    for row, column in chain.from_iterable(
        ((r, c) for r in t.rows for c in t.columns) for s in report.sections for t in s.tables
    ):
        for place in places(row, column):
            experiment, _, rung = place.partition("/")
            if experiment in found and (measure := measure_of(row, column)):
                assert figure(found[experiment], rung, measure) >= 0, (place, measure)
                count += 1
    assert count > 5


# Operations


def test_operations_compute_what_they_are_called():
    """Each expression against its formula in float64, on arrays of small sizes."""
    operations = Operations(batch=5, inputs=7, hidden=4, classes=3)
    t = operations.tensors(np)
    works = operations.works(np, t)
    assert tuple(works) == NAMES

    def did(name):
        before = {key: value.astype(np.float64) for key, value in t.items()}
        works[name]()
        return before

    was = did("matmul")
    assert np.allclose(t["z"], was["x"] @ was["w1"], atol=1e-5) and np.allclose(
        t["out"], was["h"] @ was["w2"], atol=1e-5
    )
    assert np.allclose(t["dw2"], was["h"].T @ was["dz"], atol=1e-5) and np.allclose(
        t["dh"], was["dz"] @ was["w2"].T, atol=1e-5
    )
    assert np.allclose(t["dw1"], was["x"].T @ t["dh"], atol=1e-5)
    was = did("bias")
    assert np.allclose(t["z"], was["z"] + was["b1"])
    was = did("relu")
    assert np.array_equal(t["h"], np.maximum(was["z"], 0).astype(np.float32)) and (t["h"] == 0).any()
    was = did("relu_backward")
    assert np.array_equal(t["dh"], (was["dh"] * (was["z"] > 0)).astype(np.float32))
    was = did("softmax")
    powers = np.exp(was["out"])
    assert np.allclose(t["p"], powers / powers.sum(axis=1, keepdims=True), atol=1e-6)
    was = did("bias_gradient")
    assert np.allclose(t["db1"], was["dh"].sum(axis=0), atol=1e-6)
    was = did("update")
    assert np.allclose(t["w1"], was["w1"] - RATE * was["dw1"], atol=1e-9)


def test_operations_are_timed_and_absent_libraries_say_why(tmp_path, monkeypatch):
    from warpladder.trainers.kernelwise import where

    monkeypatch.setattr(where, "why_not_cupy", lambda: "no CuPy")
    operations = Operations(batch=4, inputs=8, hidden=4, classes=3)
    found = done(operations, tmp_path)
    assert all(0 < figure(found, library, name) < 1 for library in ("numpy", "numpy:threads=1") for name in NAMES)
    assert found.value("cupy", "matmul") is None and found.reason("cupy") == "no CuPy" and found.whole
    with pytest.raises(ConfigError):
        found.value("numpy", "nothing")
    with pytest.raises(ConfigError):
        operations.check("torch", "matmul")


# Trainings


def test_one_rung_can_be_enough(tmp_path):
    """Of three rungs the first that can train here does; the GPU's may be it, where there is one."""
    settings: dict[str, bool | int | float | str] = {"epochs": 1}
    task = Train(
        net="softmax", data="digits", rungs=("graph", "numpy", "loops"), settings=settings, seeds=(0, 1), first=True
    )
    found = done(task, tmp_path)
    assert (
        len({run.rung for run in found.trainings.runs}) == 1
        and [run.seed for run in found.trainings.runs] == [0, 1]
        and found.whole
    )
    assert found.trainings.runs[0].rung in ("graph", "numpy")


# Kaggle's files


def test_kaggles_tables_are_read_back_as_they_were(tmp_path):
    digits = data.load("digits")
    labels = write_tables(digits, 1000, 500, tmp_path)
    with open(tmp_path / "train.csv", newline="") as file:
        head = next(csv.reader(file))
    assert head[:3] == ["label", "pixel0", "pixel1"] and len(head) == 65
    read = data.load("csv", data_dir=tmp_path)
    assert (
        read.train_x.shape == (1000, 1, 8, 8)
        and read.test_x.shape == (500, 1, 8, 8)
        and read.test_y is None
        and read.train_y is not None
    )
    assert digits.train_y is not None and digits.test_y is not None
    x, y = np.concatenate([digits.train_x, digits.test_x]), np.concatenate([digits.train_y, digits.test_y])
    every = {(image.tobytes(), int(label)) for image, label in zip(x, y, strict=True)}
    assert all((x.tobytes(), int(y)) in every for x, y in zip(read.train_x, read.train_y, strict=True))
    assert all((x.tobytes(), int(y)) in every for x, y in zip(read.test_x, labels, strict=True)), (
        "labels go with the rows of test.csv"
    )
    with pytest.raises(DataError, match="1,797 samples"):
        write_tables(digits, 1500, 500, tmp_path)


def test_a_submission_is_scored_line_by_line(tmp_path):
    path, labels = tmp_path / "s.csv", np.array([3, 1, 4])
    data.write_submission(path, np.array([3, 1, 5]))
    assert score(path, labels) == 2
    for text in ("ImageId,Label\n1,3\n2,1\n", "Id,Label\n1,3\n2,1\n3,4\n", "ImageId,Label\n1,3\n3,4\n2,1\n"):
        path.write_text(text)
        with pytest.raises(DataError, match="is no submission of 3 images"):
            score(path, labels)


def test_csv_in_submission_out(tmp_path):
    settings: dict[str, bool | int | float | str] = {"epochs": 30, "learning_rate": 1.0}
    task = Submission(
        net="mlp", data="digits", rungs=("naive", "numpy"), validation=100, rows=1200, tests=500, settings=settings
    )
    found = done(task, tmp_path)
    assert (found.rows, found.trained, found.tests, found.lines) == (1200, 1100, 500, 500) and found.name_of(
        ""
    ) == found.rung
    assert 0.7 < figure(found, "", "accuracy") <= 1 and 0.7 < figure(found, "", "valid_accuracy") <= 1
    assert found.train_bytes > 1200 * 64 * 2 and not list(tmp_path.glob("*.csv")), "the tables go when they were read"
    with pytest.raises(ConfigError):
        task.check("", "nothing")


# Weights of processes


def test_a_process_is_weighed_at_each_stage(tmp_path):
    task = Footprints(net="mlp", data="digits", rungs=("numpy", "cupy"))
    found = done(task, tmp_path)
    weight = found.weights["numpy"]
    assert 1e6 < weight.host["interpreter"] < weight.host["built"] <= weight.host["trained"] < 4e9
    net = nets.mlp((1, 8, 8))
    assert figure(found, "numpy", "held:parameters") == 4 * net.param_count and weight.before >= 8 * net.param_count
    assert figure(found, "numpy", "host_framework") == weight.host["built"] - weight.before
    if weight.gpu is None:
        assert found.value("numpy", "gpu_bytes") is None
    if "cupy" in found.reasons:
        assert found.value("cupy", "held") is None and found.reason("cupy")
    with pytest.raises(ConfigError):
        task.check("numpy", "nothing")


def test_gpu_memory_is_what_the_driver_gives_away():
    """A driver that says less is free at each stage: all that is missing is the process's, and what it does not hold is
    its framework's.
    """
    order = {"rung": "numpy", "net": _net(), "config": {"batch_size": 8, "epochs": 2}, "shape": [20, 1, 4, 4]}
    weight = measure_memory(order, chain([1000, 1000, 700, 100], repeat(0)).__next__)
    assert weight.gpu == {"interpreter": 0, "built": 300, "trained": 900}
    found = MeasuredMemory({"numpy": replace(weight, held={"parameters": 150, "data": 50})}, {})
    assert figure(found, "numpy", "gpu_bytes") == 900 and figure(found, "numpy", "gpu_framework") == 700
    assert figure(found, "numpy", "host_framework") == weight.host["built"], "what is held lies on the GPU"


def test_a_process_that_fails_gives_its_last_words():
    with pytest.raises(ResultsError, match="no rung 'nonesuch'"):
        measure_memory({"rung": "nonesuch", "net": _net(), "config": {}, "shape": [20, 1, 4, 4]}, None)


def _net():
    from warpladder.checkpoint import net_to_json

    return net_to_json(nets.softmax((1, 4, 4)))


def test_a_cpus_process_has_no_gpu_memory():
    weight = ProcessMemory(
        {"interpreter": 1, "built": 30, "trained": 50},
        {"interpreter": 0, "built": 0, "trained": 0},
        {"parameters": 8},
        10,
    )
    found = MeasuredMemory({"numpy": weight}, {})
    assert found.value("numpy", "gpu_bytes") is None and figure(found, "numpy", "host_framework") == 20


# Profiles


def test_kinds_of_operations_are_sums_of_parts():
    floor = Floor()
    parts = (
        Part("1 Linear", "forward", 3.0, floor, (KernelTime("product", 1, 3.0, None),)),
        Part("2 ReLU", "forward", 0.5, floor, (KernelTime("relu", 1, 0.5, None),)),
        Part("loss", "loss", 1.0, floor),
        Part(
            "1 Linear", "backward", 4.0, floor, (KernelTime("product", 1, 2.5, None), KernelTime("sums", 2, 1.5, None))
        ),
    )
    profile = Profile("mlp", "numpy", "a CPU", 64, 10.0, 50, 1e9, 1e9, parts, {"parameters": 7}, 99, {})
    found = Profiled({"numpy": profile}, {}, True)

    def of(measure):
        return figure(found, "numpy", measure)

    assert (
        of("phase:forward+phase:loss") == 4.5
        and of("layer:Linear:forward+layer:ReLU") == 3.5
        and of("layer:Linear") == 7.0
    )
    assert of("kernel:product") == 5.5 and of("kernel:sums") == 1.5 and found.value("numpy", "kernel:nothing") is None
    assert (
        of("rest_seconds") == pytest.approx(1.5) and of("rest_share") == pytest.approx(0.15) and of("achieved") == 5.0
    )
    assert of("phase:update+phase:loss") == 1.0, "a phase that a rung joins with another has no part"
    assert found.value("cupy", "phase:forward") is None
    with pytest.raises(ConfigError):
        found.value("numpy", "nothing+phase:forward")


# Sweeps, and figures across rows and columns

SWEPT = """
title = "Sizes"
about = "A report that is none."

[climbs.widths]
net = "mlp"
data = "digits"
limit = 100
rungs = ["numpy", "naive"]
repeats = 1
budget = 0.05
settings = { epochs = 1, batch_size = 50 }
sweep = { hidden = [4, 8] }

[climbs.left]
net = "softmax"
data = "digits"
rungs = ["numpy"]
quick = { skip = true }

[[sections]]
title = "Widths"

[[sections.tables]]
title = "By width"
heads = ["hidden"]
columns = [
  { head = "CPU", unit = "ms", here = "widths/numpy", measure = "step_seconds" },
  { head = "GPU", unit = "ms", here = "widths/naive", measure = "step_seconds" },
  { head = "gain", unit = "x", measure = "ratio:CPU:GPU" },
  { head = "itself", unit = "x", measure = "ratio:CPU:CPU" },
]
rows = [
  { label = ["4"], reported = [1, 2, 3, nan], here = "@hidden=4" },
  { label = ["8"], here = "@hidden=8" },
  { label = ["16"], here = "@hidden=16" },
]

[[sections.tables]]
title = "Others"
heads = ["what"]
columns = [{ head = "accuracy", unit = "%", measure = "test_accuracy" }, { head = "change", unit = "%", measure = "change:test_accuracy:first" }]
rows = [
  { label = ["narrow"], here = "widths/numpy@hidden=4" },
  { label = ["wide"], here = "widths/numpy@hidden=8" },
  { label = ["left out"], here = "left/numpy" },
]
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("swept")
    return Reproducer(parse(SWEPT, "s9", quick=True), folder, True, None, Watcher()).run(), folder


def test_hidden_widths_are_swept(swept):
    _, folder = swept
    experiment = parse(SWEPT, "s9").experiments["widths"]
    climbed = experiment.found("widths", folder / "measured")
    assert isinstance(climbed, Climbed)
    assert [task.net.parameters for task in climbed.sweep.tasks] == [
        64 * width + width + width * 10 + 10 for width in (4, 8)
    ]
    points = climbed.curve("numpy", "step_seconds")
    assert points is not None and points[0] == [4.0, 8.0]
    with pytest.raises(NetError):
        nets.with_hidden(nets.softmax(), 5)


def test_figures_of_columns_are_set_beside_each_other(swept):
    found, _ = swept
    table, others = found.sections[0].tables
    four, eight, sixteen = table.rows
    assert four.values[0].here > 0 and eight.values[0].here > 0 and four.values[0].here != eight.values[0].here
    assert four.values[0].reported == pytest.approx(1e-3) and four.values[2].reported == 3
    assert four.values[3].here == 1 and sixteen.values[3].here is None
    assert sixteen.reason == "not measured in a first look" and four.reason == "" and four.rung == ""
    if four.values[1].here is None:
        assert four.values[2].here is None and table.text.startswith("GPU: ")
    narrow, wide, left = others.rows
    assert (
        wide.values[1].here == pytest.approx(wide.values[0].here - narrow.values[0].here)
        and narrow.values[1].here is None
    )
    assert left.reason == "not measured in a first look"


AT = [1.0, 2.0, 4.0, 8.0]
KNOWN = {"a": (AT, [5.0, 1.0, 5.0, 5.0]), "b": (AT, [3.0, 3.0, 6.0, 6.0]), "c": None}


class Curves(Climbed):
    """A sweep of which only the curves are known."""

    def curve(self, rung, measure):
        return KNOWN[rung]

    def reason(self, rung):
        return f"no {rung}" if KNOWN[rung] is None else ""


def test_the_size_from_which_one_is_faster():
    """a is below b at 2 and, from there on, at every larger size; b is below a at 1 alone, so from no size on."""
    no_climbs: Any = None
    found = Curves(no_climbs, (), {})
    assert figure(found, "a", "from:step_seconds:b") == 2.0
    assert found.value("b", "from:step_seconds:a") is None
    assert found.without("b", "from:step_seconds:a") == "at none of these sizes faster than a"
    assert found.value("c", "from:step_seconds:a") is None and found.without("c", "from:step_seconds:a") == "no c"
    assert found.without("a", "from:step_seconds:c") == "no c"
