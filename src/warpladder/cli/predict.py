"""`warpladder predict`: predicts samples without labels with a trained net."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..show import number
from .shared.files import check_place, write
from .shared.net_argument import bring, net_file_option
from .shared.options import computing_rung_option, overwrite_option

if TYPE_CHECKING:
    import numpy as np

    from ..train import Run


@click.command()
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.argument("input_file", metavar="INPUT", type=click.Path(path_type=Path))
@click.option(
    "--submission",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write ImageId,Label as Kaggle's digit-recognizer wants it.",
)
@click.option(
    "--save",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write the net's outputs, logits or images, as a NumPy .npy file.",
)
@click.option("--proba", is_flag=True, help="Print the probability of each class, in columns with their names.")
@overwrite_option
@computing_rung_option
@net_file_option
def predict(
    checkpoint: Path,
    input_file: Path,
    submission: Path | None,
    save: Path | None,
    proba: bool,
    overwrite: bool,
    rung: str | None,
    net_file: str | None,
) -> None:
    """Predict the samples in INPUT: a CSV table with or without labels, IDX images, a CIFAR-10 batch, NumPy arrays, an
    image (PNG, JPEG) or a folder of images.

    Tables, IDX and CIFAR-10 may be gzipped; an .npz has x or x_test. Without --submission or --save the labels are
    printed, one a line, of a folder after the file's name. Features are scaled as in training.

    \b
    Examples:
      warpladder predict mlp.safetensors test.csv --submission submission.csv
      warpladder predict mlp.safetensors people.csv --proba
      warpladder predict cnn.safetensors photos
      warpladder predict autoencoder.safetensors test_batch.bin --save images.npy
    """
    import numpy as np

    from ..checkpoint import load
    from ..data import write_submission
    from ..errors import ConfigError
    from ..nets import CrossEntropyLoss
    from ..train import Run, restore
    from ..train.scoring import slices

    _check_places(save, submission, overwrite, checkpoint, input_file)
    bring(net_file)
    trained = load(checkpoint)
    labels_wanted = isinstance(trained.net.loss, CrossEntropyLoss)
    model = Run(trained)
    if not labels_wanted and (submission is not None or (save is None and not trained.data.has_targets)):
        raise click.UsageError(
            f"{trained.net.name} gives images, not labels: name a file for them with --save",
            click.get_current_context(),
        )
    if proba and not labels_wanted and not model.is_binary:
        raise ConfigError(f"net {trained.net.name!r} has no classes, so there are no probabilities: leave --proba out")
    names, x, scale = _samples(model, input_file)
    with restore(trained, rung) as trainer:
        outputs = np.concatenate([trainer.predict(x[a:b], scale) for a, b in slices(trained.net, len(x), trainer)])
    labels, outputs = _labels(model, outputs), trained.data.in_units(outputs)
    if save is not None:
        _write_outputs(save, outputs)
    if submission is not None and labels is not None:
        write_submission(submission, labels)
    if proba:
        _print_probabilities(model, outputs, names)
    elif save is None and submission is None and labels is not None:
        csv.writer(sys.stdout, lineterminator="\n").writerows(_named(names, [[label] for label in labels.tolist()]))
    elif save is None and trained.data.has_targets:
        _print_targets(model, outputs > 0 if model.is_binary else outputs)
    for path in filter(None, (save, submission)):
        click.echo(f"{len(x):,} samples: {path}")


def _labels(model: Run, outputs: np.ndarray) -> np.ndarray | None:
    """Labels of classes (samples,) by a net's outputs; None for a net that learns targets or images."""
    if model.is_binary:
        return model.classes_[(outputs[:, 0] > 0).astype(int)] if len(model.classes_) else None
    return model.classes_[outputs.argmax(axis=1)] if len(model.classes_) else None


def _check_places(
    save: Path | None, submission: Path | None, overwrite: bool, checkpoint: Path, input_file: Path
) -> None:
    """Check that the output files can be written, and are neither input files nor the same file."""
    if save is not None:
        check_place(save, overwrite, checkpoint, input_file)
    if submission is not None:
        check_place(submission, overwrite, checkpoint, input_file, *([] if save is None else [save]))


def _samples(model: Run, path: Path) -> tuple[list[str], np.ndarray, float]:
    """Names of a folder's images, else none; samples as the net takes them, and their scale."""
    from ..data.folders import SUFFIXES, read_images
    from ..data.reader import opened
    from ..train.samples import as_samples

    if not path.exists():
        with opened(path):
            pass
    if path.suffix.lower() not in SUFFIXES and not path.is_dir():
        return [], *_of_file(model, path)
    names, images = read_images(path, model.net.in_shape)
    samples = as_samples(images, model.net, model.checkpoint.data)
    return names if path.is_dir() else [], *model.seen(samples)


def _of_file(model: Run, path: Path) -> tuple[np.ndarray, float]:
    """Samples of a table, or a file of arrays, as the net takes them, and their scale."""
    from ..data.npz import read_samples
    from ..data.samples import load_samples
    from ..data.tables.load import samples_of
    from ..errors import DataError
    from ..train.samples import as_samples

    mark = model.checkpoint.data
    if path.suffix.lower() in (".npy", ".npz"):
        try:
            return model.seen(as_samples(read_samples(path), model.net, mark))
        except DataError as error:
            raise DataError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from None
    if mark.table is not None:
        return samples_of(path, mark.table), mark.scale
    return model.seen(load_samples(path, model.net.in_shape, bool(mark.mean), mark.columns))


def _write_outputs(path: Path, outputs: np.ndarray) -> None:
    """Write a net's outputs as a NumPy file."""
    import numpy as np

    content = io.BytesIO()
    np.save(content, outputs, allow_pickle=False)
    write(path, content.getvalue())


def _print_targets(model: Run, outputs: np.ndarray) -> None:
    """Print predicted targets in their units: a line for each sample; several targets as CSV, with a header of
    names.
    """
    table, rows = model.checkpoint.data.table, outputs.reshape(len(outputs), -1)
    out = csv.writer(sys.stdout, lineterminator="\n")
    if rows.shape[1] > 1:
        out.writerow(range(rows.shape[1]) if table is None else table.learnt)
    out.writerows([number(float(value), 6) for value in row] for row in rows.tolist())


def _named(names: list[str], rows: list[list[str]]) -> list[list[str]]:
    """Rows, each after its sample's name if there are names."""
    return [[name, *row] for name, row in zip(names, rows, strict=True)] if names else rows


def _print_probabilities(model: Run, outputs: np.ndarray, names: list[str]) -> None:
    """Print probabilities as CSV: a column for each class, a row for each sample, after its name if it has one."""
    import numpy as np

    from ..train.scoring import probabilities, sigmoid

    if model.is_binary and not len(model.classes_):
        _print_targets(model, sigmoid(outputs))
        return
    chances = probabilities(np.hstack([0 * outputs, outputs]) if model.is_binary else outputs)
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["file"] * bool(names) + model.classes_.tolist())
    table.writerows(_named(names, [[f"{share:.6g}" for share in row] for row in chances.tolist()]))
