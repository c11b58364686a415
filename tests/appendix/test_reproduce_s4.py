"""What a reproduction of an autoencoder needs: weights that stay, features that are classified, pictures, shares of
kernels, and data that cannot be had.
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from reproduced_reports import WRITTEN, reproduced

from warpladder.appendix.reproduce import Watcher, definition
from warpladder.appendix.reproduce.definition import parse
from warpladder.appendix.reproduce.kinds import svms
from warpladder.appendix.reproduce.kinds.photos import drawn, of_classes
from warpladder.appendix.reproduce.kinds.profiles import Profiled
from warpladder.appendix.reproduce.kinds.stored_weights import weights_of
from warpladder.appendix.reproduce.kinds.trainings import Train, checkpoint_of
from warpladder.appendix.reproduce.results import Reproduction
from warpladder.checkpoint import load
from warpladder.data.dataset import Dataset
from warpladder.errors import ConfigError, DataError, DeviceError
from warpladder.results.profiled import Floor, KernelTime, Part, Profile

pytestmark = (
    pytest.mark.slow
)  # climbs and trainings; tests/appendix/test_reproduce.py shows the same of a smaller report

SMALL = """
title = "An autoencoder of digits"
about = "A report that is none."

[nets.narrow]
loss = "MSELoss"
layers = [
  { type = "Conv2d", out_channels = 4, kernel_size = 3, padding = 1 }, { type = "ReLU" }, { type = "MaxPool2d", kernel_size = 2 },
  { type = "Upsample2d", scale_factor = 2 }, { type = "Conv2d", out_channels = 1, kernel_size = 3, padding = 1 },
]

[climbs.rows]
net = "narrow"
data = "digits"
limit = 100
tests = 30
rungs = ["numpy"]
repeats = 1
budget = 0.05
settings = { epochs = 2, batch_size = 10 }

[trainings.full]
net = "narrow"
data = "digits"
limit = 100
tests = 30
rungs = ["numpy", "naive"]
settings = { epochs = 3, batch_size = 10 }
keep_every_epoch = true

[svms.features]
checkpoint = "full/numpy"
layer = 2
data = "digits"
limit = 100
tests = 30

[svms.nowhere]
checkpoint = "full/naive"
layer = 2
data = "digits"

[photos.classes]
data = "digits"

[photos.pairs]
checkpoint = "full/numpy"
data = "digits"
count = 3

[photos.none]
checkpoint = "full/naive"
data = "digits"

[[sections]]
title = "All"
text = "Words."

[[sections.tables]]
title = "Table"
heads = ["what"]
columns = [{ head = "figure" }]
rows = [
  { label = ["of 10 samples"], here = "rows/numpy", measure = "seconds_of:10" },
  { label = ["of 1,000 samples"], here = "rows/numpy", measure = "seconds_of:1000" },
  { label = ["an epoch"], here = "rows/numpy", measure = "epoch_seconds" },
  { label = ["share of the floor"], here = "rows/numpy", measure = "floor_share" },
  { label = ["parameters"], here = "rows/numpy", measure = "parameters" },
  { label = ["files"], here = "full/numpy", measure = "kept_files" },
  { label = ["bytes"], here = "full/numpy", measure = "kept_bytes" },
  { label = ["accuracy"], here = "features/svm", measure = "test_accuracy" },
  { label = ["a class"], here = "features/svm", measure = "recall:3" },
  { label = ["fitting"], here = "features/svm", measure = "stage:fit" },
  { label = ["all of it"], here = "features/svm", measure = "total_seconds" },
  { label = ["no GPU"], here = "nowhere/svm", measure = "test_accuracy" },
]

[[sections.bars]]
title = "Times faster"
column = { head = "speed-up", unit = "x", measure = "speedup:seconds_of:10:first" }
rows = [{ label = ["one"], here = "rows/numpy" }, { label = ["two"], here = "rows/numpy" }]

[[sections.photos]]
title = "Classes"
here = "classes"

[[sections.photos]]
title = "Pairs"
here = "pairs"

[[sections.photos]]
title = "None"
here = "none"

[[sections.classified]]
title = "Told apart"
here = "features/svm"
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder, reproduced(folder, SMALL)


def image(photo) -> np.ndarray:
    from matplotlib.image import imread

    return imread(BytesIO(base64.b64decode(photo.png)), format="png")


def figures(found):
    return {row.label[0]: row for row in found.sections[0].tables[0].rows}


def test_figures_of_climbs_and_weights_come_into_their_places(whole):
    folder, found = whole
    rows = figures(found)
    ten, many, epoch = (rows[name].values[0] for name in ("of 10 samples", "of 1,000 samples", "an epoch"))
    assert ten.here == pytest.approx(epoch.here / 10) and many.here == pytest.approx(epoch.here * 10)
    assert ten.scaled and many.scaled
    assert 0 < rows["share of the floor"].values[0].here < 1
    assert rows["parameters"].values[0].here == 4 * 9 + 4 + 4 * 9 + 1
    files = sorted((folder / "measured").glob("full.numpy.0*.safetensors"))
    assert [load(each).epoch for each in files] == [1, 2, 3, 3] and rows["files"].values[0].here == 4
    assert rows["bytes"].values[0].here == sum(each.stat().st_size for each in files)


def test_features_of_a_layer_are_classified(whole):
    folder, found = whole
    rows = figures(found)
    (scores,) = found.sections[0].classified
    assert scores.scores.accuracy == rows["accuracy"].values[0].here and sum(scores.scores.support) == 30
    assert rows["a class"].values[0].here == scores.scores.recall[3]
    assert 0 < rows["fitting"].values[0].here < rows["all of it"].values[0].here
    stored = json.loads((folder / "measured/features.json").read_text())
    assert (stored["width"], stored["train_samples"]) == (4 * 4 * 4, 100)
    missing = rows["no GPU"]
    assert missing.values[0].here is None and missing.reason.startswith("full has no weights of naive: ")


def test_pictures_show_samples_and_reconstructions(whole):
    _, found = whole
    section = found.sections[0]
    classes, pairs = section.photos
    assert (classes.title, pairs.title) == ("Classes", "Pairs")
    assert classes.alt == "The first training image of each class of digits: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9."
    assert pairs.alt.startswith(
        "3 test images of digits above what narrow makes of them after 3 epochs, with a mean squared error of "
    )
    assert image(pairs).shape[1] < image(classes).shape[1] and image(pairs).std() > 0.05
    assert section.text.startswith("Words. None: full has no weights of naive: ")


def test_speed_ups_have_bars_too(whole):
    _, found = whole
    (bars,) = found.sections[0].bars
    assert [value.here for value in bars.values] == [None, 1.0]


def test_what_was_made_of_kept_weights_is_whole_and_read_back(whole):
    folder, found = whole
    assert found.missing == () and found.notes == ()
    again = Reproduction.load(folder / "results.json")
    assert replace(again, seconds=0.0, created="") == replace(found, seconds=0.0, created="")
    begun: list[str] = []
    reproduced(folder, SMALL, watcher=Watcher(begin=lambda name, at, of: begun.append(name)))
    assert begun == []


def test_an_image_lies_where_it_belongs():
    """A red image left of a blue one: the picture's left half is red, its right one blue."""
    red, blue = (np.broadcast_to(np.array(colour, np.float32), (4, 4, 3)) for colour in ((1, 0, 0), (0, 0, 1)))

    class Png:
        png = drawn([[red, blue]], [["", ""]])

    seen = image(Png)
    height, width = seen.shape[:2]
    assert seen[height // 2, width // 4, :3].tolist() == [1, 0, 0] and seen[
        height // 2, 3 * width // 4, :3
    ].tolist() == [0, 0, 1]


def test_colours_and_greys_become_images_and_other_samples_do_not():
    random = np.random.default_rng(0)
    colour = random.integers(0, 256, (6, 3, 8, 8), np.uint8)
    labels = np.array([1, 0, 1, 2, 0, 2], np.int32)
    made = of_classes(Dataset("photographs", colour, labels, colour[:1], labels[:1], 1 / 255))
    assert made.alt == "The first training image of each class of photographs: 0, 1, 2."
    seen = image(made)
    height, width = seen.shape[:2]
    middle = seen[height // 3, width // 6, :3] * 255  # in the first class's image, which is sample 1
    assert min(np.abs(middle - pixel).max() for pixel in colour[1].reshape(3, 64).T) <= 1
    with pytest.raises(DataError, match="cannot be shown"):
        of_classes(Dataset("rows", colour.reshape(6, 192), labels, colour.reshape(6, 192)[:1], labels[:1], 1.0))
    with pytest.raises(DataError, match="no labels"):
        of_classes(Dataset("photographs", colour, None, colour[:1], None, 1 / 255))


def test_the_machine_takes_a_gpu_where_there_is_one(monkeypatch):
    def none():
        raise DeviceError("there is none")

    monkeypatch.setattr(svms, "gpu_library", none)
    assert svms._device() == "cpu"
    monkeypatch.setattr(svms, "gpu_library", lambda: "cupy")
    assert svms._device() == "cuda"


class Enough(Exception):
    pass


def test_a_stopped_training_goes_on_from_its_weights(tmp_path):
    """Stopped after the second of three epochs, of which each file is there: the third alone is trained."""

    def stop(what, done, of, left):
        if "epoch 2 of 3" in what:
            raise Enough

    with pytest.raises(Enough):
        reproduced(tmp_path, SMALL, watcher=Watcher(progress=stop), only=("full",))
    place = checkpoint_of(tmp_path / "measured", "full", "numpy", 0)
    assert load(place).epoch == 2  # the error of the callback lost no epoch
    told: list[str] = []
    reproduced(tmp_path, SMALL, watcher=Watcher(progress=lambda what, *_: told.append(what)), only=("full",))
    assert [each for each in told if "numpy" in each] == [
        f"training with numpy, seed 0{each}" for each in ("", ", epoch 3 of 3")
    ]
    assert load(place).epoch == 3


def test_weights_that_are_not_there_yet_are_told_and_made_later(tmp_path):
    found = reproduced(tmp_path, SMALL, only=("features",))
    assert found.notes == ("features: there are no weights of numpy yet: the experiment 'full' makes them",)
    assert figures(found)["accuracy"].reason == "there are no weights of numpy yet: the experiment 'full' makes them"
    found = reproduced(tmp_path, SMALL, only=("full", "features"))
    assert figures(found)["accuracy"].values[0].here is not None and found.notes == ()
    assert weights_of("full/numpy", tmp_path / "measured") == checkpoint_of(tmp_path / "measured", "full", "numpy", 0)


def test_data_that_cannot_be_had_are_told_once_and_the_rest_goes_on(tmp_path, monkeypatch):
    """A folder without CIFAR-10: its experiments say so in one line each, the others are made, and the data are looked
    for once.
    """
    from warpladder.appendix.reproduce import Reproducer
    from warpladder.data import load as load_data

    asked: list[str] = []

    def counted(name, **more):
        asked.append(name)
        return load_data(name, **more)

    monkeypatch.setattr("warpladder.appendix.reproduce.experiments.load_data", counted)
    text = SMALL.replace(
        '[svms.nowhere]\ncheckpoint = "full/naive"\nlayer = 2\ndata = "digits"', '[photos.far]\ndata = "cifar10"'
    )
    text = text.replace(
        '[climbs.rows]\nnet = "narrow"\ndata = "digits"', '[climbs.rows]\nnet = "narrow"\ndata = "cifar10"'
    ).replace('{ label = ["no GPU"], here = "nowhere/svm", measure = "test_accuracy" },', "")
    (tmp_path / "empty").mkdir()
    news: list[str] = []
    found = Reproducer(
        parse(text, "s9"),
        tmp_path / "out",
        False,
        tmp_path / "empty",
        Watcher(news=lambda item: news.append(str(item))),
    ).run()
    reason = f"{tmp_path / 'empty'}: holds no cifar10: "
    assert set(found.missing) == {"rows", "far"} and asked.count("cifar10") == 1
    assert len(found.notes) == 1 and found.notes[0].startswith(f"rows, far: {reason}")
    assert (
        figures(found)["an epoch"].reason.startswith(reason) and figures(found)["accuracy"].values[0].here is not None
    )
    assert [each.partition(":")[0] for each in news if "holds no cifar10" in each] == [
        "rows cannot be made",
        "far cannot be made",
    ]


def test_a_first_look_says_what_it_left_out(tmp_path):
    from warpladder.appendix.reproduce import Reproducer

    text = SMALL.replace("[svms.nowhere]", "[svms.nowhere.quick]\nskip = true\n\n[svms.nowhere]")
    found = Reproducer(parse(text, "s9", quick=True), tmp_path, True, None, Watcher()).run(("classes",))
    assert figures(found)["no GPU"].reason == "not measured in a first look" and "nowhere" not in found.missing


def profiled() -> Profiled:
    def part(name, phase, seconds, flops, size, *kernels):
        return Part(
            name, phase, seconds, Floor(flops, size), tuple(KernelTime(each, 1, time, None) for each, time in kernels)
        )

    parts = (
        part("0 Conv2d, 1 ReLU", "forward", 2.0, 40, 10, ("convolve<3, false>", 1.5), ("add_parts", 0.25)),
        part("0 Conv2d, 1 ReLU", "backward", 5.0, 80, 20, ("correlate<8>", 3.0), ("add_parts", 0.25)),
        part("update", "update", 1.0, 0, 10, ("sgd_step", 1.0)),
    )
    return Profiled({"naive": Profile("n", "naive", "d", 1, 10.0, 120, 40.0, 10.0, parts, {}, 1, {})}, {}, True)


@pytest.mark.parametrize(
    "measure, figure",
    [
        ("kernel:convolve", 1.5), ("kernel:add_parts", 0.5), ("kernel:convolve+correlate", 4.5), ("share:kernel:correlate", 0.5),
        ("share:kernel:sgd_step", 1 / 6), ("share:phase:backward", 5 / 8), ("share:layer:Conv2d", 7 / 8), ("intensity", 3.0),
        ("floor_share", (1 + 2 + 1) / 10),
    ],
)  # fmt: skip
def test_kernels_and_parts_have_shares(measure, figure):
    value = profiled().value("naive", measure)
    assert value is not None and value.here == pytest.approx(figure)


def test_a_kernel_that_is_not_there_has_no_share():
    assert profiled().value("naive", "share:kernel:nothing") is None
    with pytest.raises(ConfigError, match="there is no measure 'share:flops'"):
        profiled().value("naive", "share:flops")


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", WRITTEN)
def test_every_picture_and_weight_of_a_report_is_there(name, quick):
    report = definition(name, quick=quick)
    pictures = [(each.here, "photos") for section in report.sections for each in section.photos]
    pictures += [(each.here, "svms") for section in report.sections for each in section.classified]
    for here, kind in pictures:
        called = here.partition("/")[0]
        assert called in report.skipped or report.experiments[called].kind == kind, here
    for experiment in report.experiments.values():
        if training := getattr(experiment, "checkpoint", ""):
            called, _, rung = training.partition("/")
            made = report.experiments[called]
            assert isinstance(made, Train)
            assert rung in made.rungs and (made.keep or made.keep_every_epoch), training
