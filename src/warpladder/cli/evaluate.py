"""`warpladder evaluate`: scores a trained net on test samples."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from ..errors import ConfigError, DataError
from ..show import number, percent
from .shared.console import console
from .shared.net_argument import bring, net_file_option
from .shared.options import computing_rung_option, data_options
from .shared.request import load_requested

if TYPE_CHECKING:
    from ..data.dataset import Dataset
    from ..trainers.base import Trainer


@click.command()
@click.argument("checkpoint", type=click.Path(path_type=Path))
@data_options
@computing_rung_option
@net_file_option
@click.option(
    "--per-class", is_flag=True, help="Show precision, recall and F1 of each class, and the confusion matrix."
)
def evaluate(checkpoint: Path, rung: str | None, net_file: str | None, per_class: bool, **options: Any) -> None:
    """Score the net in CHECKPOINT on a data set's test samples.

    \b
    Examples:
      warpladder evaluate mlp.safetensors --data mnist
      warpladder evaluate cnn.safetensors --data fashion --per-class
    """
    from ..checkpoint import load
    from ..nets import CrossEntropyLoss
    from ..train import Run, restore, score
    from ..train.regression import target_units
    from ..trainers.base import check_fit

    bring(net_file)
    trained = load(checkpoint)
    data = Run(trained).fit_to(load_requested(options, trained.data, trained.config.seed))
    check_fit(trained.net, data)
    if per_class and not isinstance(trained.net.loss, CrossEntropyLoss):
        raise ConfigError(
            f"net {trained.net.name!r} has no classes, so there are no scores of each: leave --per-class out"
        )
    with restore(trained, rung) as trainer:
        if per_class:
            _show_classes(trainer, data)
        if trained.data.has_targets:
            import sklearn.metrics  # noqa: F401, outside the clock

            _show_targets(trainer, data)
        start = perf_counter()
        found = score(trainer, data.test_x, data.test_y, data.scale, units=target_units(data))
        seconds = perf_counter() - start
    click.echo(
        f"{trained.net.name} on {data.name}: {found.described()}, {len(data.test_x):,} samples in {seconds:.3g} s"
    )


def _show_targets(trainer: Trainer, data: Dataset) -> None:
    """Print R2 and MAE of each target of a table with several, in its own unit, on the test samples."""
    import numpy as np

    from ..train.regression import regression_scores, target_units
    from ..train.scoring import slices

    if data.table is None or data.test_y is None or len(data.table.targets) < 2:
        return
    parts = slices(trainer.net, len(data.test_x), trainer)
    out = np.concatenate([trainer.predict(data.test_x[a:b], data.scale) for a, b in parts])
    units = target_units(data)
    assert units is not None
    for i, target in enumerate(data.table.targets):
        r2, mae = regression_scores(out[:, i : i + 1], data.test_y[:, i : i + 1], units[i : i + 1])
        found = [f"{name} {number(value)}" for name, value in (("R2", r2), ("MAE", mae)) if value is not None]
        click.echo(f"{target.name}: {', '.join(found)}")


def _show_classes(trainer: Trainer, data: Dataset) -> None:
    """Print the scores of each class on the test samples, and the confusion matrix."""
    import numpy as np

    from ..data import label_names
    from ..results.classes import balanced_accuracy, class_scores, roc_auc
    from ..results.report.classes import CONFUSION, confusion_table, score_table
    from ..train.scoring import slices

    net = trainer.net
    if data.test_y is None or not len(data.test_x):
        raise DataError(f"{data.name}: has no test samples with labels, which scores of each class need")
    logits = np.concatenate(
        [trainer.predict(data.test_x[a:b], data.scale) for a, b in slices(net, len(data.test_x), trainer)]
    )
    taken = logits.argmax(axis=1)
    scores = class_scores(data.test_y, taken, label_names(data)[: net.out_shape[0]], data.classes)
    out = console()
    out.print(score_table(scores, "On the test samples"))
    if (table := confusion_table(scores)) is not None:
        click.echo(CONFUSION)
        out.print(table)
    auc = roc_auc(data.test_y, logits)
    click.echo(
        f"Balanced accuracy {percent(balanced_accuracy(data.test_y, taken))}"
        + ("" if auc is None else f", ROC AUC {auc:.4f}")
    )
