"""Experiments that show pictures of samples: one of each class, or originals above an autoencoder's reconstructions."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ....data import label_names
from ....data.dataset import Dataset, pixels
from ....errors import DataError
from ....results.stored import to_tree
from ....train import load
from ..experiments import Bench, Experiment, Found, file_of, keep, no_measure, read_stored
from ..results import Photo, Value
from .stored_weights import absent, weights_of


@dataclass(frozen=True)
class Pictures(Experiment):
    """Experiment that makes a picture of samples.

    data : name of a data set of images.
    checkpoint : "TRAINING/RUNG", whose stored weights of the first seed reconstruct the first test images. If empty,
    the picture has the first training image of each class.
    count : number of test images.
    """

    kind: ClassVar[str] = "photos"
    has_times: ClassVar[bool] = False
    data: str
    checkpoint: str = ""
    count: int = 7

    def measure(self, name: str, bench: Bench) -> None:
        if not self.checkpoint:
            made = of_classes(bench.data(self.data))
        else:
            place = weights_of(self.checkpoint, bench.folder)
            if isinstance(place, str):
                keep({"absent": place}, name, bench.folder)
                bench.watcher.news(f"no reconstructions: {place}")
                return
            made = reconstructions(load(place), bench.data(self.data), self.count)
        keep(to_tree(made), name, bench.folder)
        bench.watcher.news(made.alt)

    def found(self, name: str, folder: Path) -> Found | None:
        path = file_of(name, folder)
        if not path.exists() or (lacking := absent(path)):
            return lacking if path.exists() else None
        picture = read_stored(Photo, name, folder)
        return None if picture is None else Shown(picture)

    def summary(self) -> str:
        return f"{self.kind}: {self.data}, {self.checkpoint or 'a sample of each class'}"

    def check(self, rung: str, measure: str) -> None:
        raise no_measure(measure, ("a picture has none",))


@dataclass(frozen=True)
class Shown(Found):
    """Picture of samples, as an experiment's result."""

    picture: Photo

    def value(self, rung: str, measure: str) -> Value | None:
        """Raise an error: a picture has no figures."""
        raise no_measure(measure, ("a picture has none",))

    def photo(self, which: str) -> Photo | None:
        """Picture of the experiment."""
        return self.picture


def of_classes(data: Dataset) -> Photo:
    """Picture of the first training image of each class, with the class's name.

    Raises
    ------
    DataError
        The samples are no images, or have no labels.
    """
    if data.train_y is None:
        raise DataError(f"{data.name}: has no labels, so there is no sample of each class")
    firsts = [int(np.argmax(data.train_y == label)) for label in np.unique(data.train_y)]
    given = label_names(data)
    names = [given[label] if given else str(label) for label in np.unique(data.train_y).tolist()]
    images = [_image(pixels(data.train_x[at], data.scale), data.name) for at in firsts]
    return Photo(
        "", drawn([images], [names]), f"The first training image of each class of {data.name}: {', '.join(names)}."
    )


def reconstructions(run: Any, data: Dataset, count: int) -> Photo:
    """Picture of the first test images above an autoencoder's reconstructions, with the mean squared error of each.

    Parameters
    ----------
    run : Run
        Trained net with MSELoss.
    data : Dataset
        Data set of images.
    count : int
        Number of test images.
    """
    x = data.test_x[:count]
    originals = pixels(x, data.scale)
    made = run.predict(x)
    errors = [f"{error:.4f}" for error in ((made - originals) ** 2).reshape(len(x), -1).mean(axis=1)]
    rows = [[_image(each, data.name) for each in images] for images in (originals, made)]
    epochs = f"{len(run.history)} epoch{'s' * (len(run.history) != 1)}"
    alt = (
        f"{len(x)} test images of {data.name} above what {run.net.name} makes of them after {epochs}, "
        f"with a mean squared error of {', '.join(errors)}."
    )
    return Photo("", drawn(rows, [[""] * len(x), errors]), alt)


def _image(sample: np.ndarray, name: str) -> np.ndarray:
    """Sample (channels, height, width) with one or three channels as an image (height, width, 3) of numbers from 0
    to 1.
    """
    if sample.ndim != 3 or sample.shape[0] not in (1, 3):
        raise DataError(f"{name}: samples of shape {sample.shape} cannot be shown: an image has one channel or three")
    top = max(1.0, float(sample.max())) if len(sample) == 1 else 1.0  # pixels of digits are 0 to 16
    coloured = sample if len(sample) == 3 else np.repeat(sample, 3, axis=0)
    return np.clip(coloured / top, 0, 1).transpose(1, 2, 0)


#: Most columns of a picture, and the side of an image in inches.
ACROSS, SIDE = 7, 1.1


def drawn(rows: Sequence[Sequence[np.ndarray]], texts: Sequence[Sequence[str]]) -> str:
    """PNG in base 64 of rows of images (height, width, 3) from 0 to 1, each with a text below; a long single row is
    broken into several.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if len(rows) == 1:
        across = -(-len(rows[0]) // -(-len(rows[0]) // ACROSS))
        starts = range(0, len(rows[0]), across)
        rows, texts = [rows[0][at : at + across] for at in starts], [texts[0][at : at + across] for at in starts]
    across = max(map(len, rows))
    figure = Figure(figsize=(SIDE * across, (SIDE + 0.22) * len(rows)), dpi=110, facecolor="white")
    FigureCanvasAgg(figure)
    for i, (images, words) in enumerate(zip(rows, texts, strict=True)):
        for j, (image, text) in enumerate(zip(images, words, strict=True)):
            ax = figure.add_axes(
                (j / across + 0.004, 1 - (i + 1) / len(rows) + 0.16 / len(rows), 1 / across - 0.008, 0.83 / len(rows))
            )
            ax.imshow(image, interpolation="nearest")
            ax.set_axis_off()
            figure.text(
                (j + 0.5) / across,
                1 - (i + 1) / len(rows) + 0.03 / len(rows),
                text,
                ha="center",
                va="bottom",
                fontsize=11,
                color="black",
            )
    file = io.BytesIO()
    figure.savefig(file, format="png", metadata={"Software": None})
    return base64.b64encode(file.getvalue()).decode("ascii")
