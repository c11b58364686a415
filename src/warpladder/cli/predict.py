"""`warpladder predict`: predictions of a trained net for samples without labels."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import click

from .shared.files import check_place, write
from .shared.net_argument import bring, net_file_option
from .shared.options import computing_rung_option, overwrite_option


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
@overwrite_option
@computing_rung_option
@net_file_option
def predict(
    checkpoint: Path,
    input_file: Path,
    submission: Path | None,
    save: Path | None,
    overwrite: bool,
    rung: str | None,
    net_file: str | None,
) -> None:
    """Predict the samples in INPUT: a CSV table with or without labels, IDX images or a CIFAR-10 batch, gzipped or not.

    Without --submission or --save the labels are printed, one a line: by name, where the training table had names.
    Features are scaled as they were in training.

    \b
    Examples:
      warpladder predict mlp.safetensors test.csv --submission submission.csv
      warpladder predict autoencoder.safetensors test_batch.bin --save images.npy
    """
    import numpy as np

    from ..checkpoint import load
    from ..data import write_submission
    from ..data.samples import load_samples
    from ..nets import CrossEntropyLoss
    from ..train import Run, restore
    from ..train.scoring import slices

    if save is not None:
        check_place(save, overwrite, checkpoint, input_file)
    if submission is not None:
        check_place(submission, overwrite, checkpoint, input_file, *([] if save is None else [save]))
    bring(net_file)
    trained = load(checkpoint)
    labels_wanted = isinstance(trained.net.loss, CrossEntropyLoss)
    if not labels_wanted and (submission is not None or save is None):
        raise click.UsageError(
            f"{trained.net.name} gives images, not labels: name a file for them with --save",
            click.get_current_context(),
        )
    model = Run(trained)
    x, scale = model.seen(load_samples(input_file, trained.net.in_shape, numbers=bool(trained.data.mean)))
    with restore(trained, rung) as trainer:
        outputs = np.concatenate([trainer.predict(x[first:last], scale) for first, last in slices(trained.net, len(x))])
    labels = model.classes_[outputs.argmax(axis=1)] if labels_wanted else None
    if save is not None:
        content = io.BytesIO()
        np.save(content, outputs, allow_pickle=False)
        write(save, content.getvalue())
    if submission is not None and labels is not None:
        write_submission(submission, labels)
    if save is None and submission is None and labels is not None:
        sys.stdout.write("".join(f"{label}\n" for label in labels.tolist()))
    for path in (save, submission):
        if path is not None:
            click.echo(f"{len(x):,} samples: {path}")
