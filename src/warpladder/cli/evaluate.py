"""`warpladder evaluate`: how well a trained net does on test samples."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import click

from .options import bring, chosen_data, data_options, net_file_option, percent


@click.command()
@click.argument("checkpoint", type=click.Path(path_type=Path))
@data_options
@click.option("--rung", metavar="R", help="Rung or peer that computes; the one that trained if not given.")
@net_file_option
def evaluate(checkpoint: Path, rung: str | None, net_file: str | None, **options: Any) -> None:
    """Score the net in CHECKPOINT on a data set's test samples.

    \b
    Example:
      warpladder evaluate mlp.safetensors --data mnist
    """
    from ..checkpoint import load
    from ..train import Run, restore, score
    from ..trainers.base import check_fit

    bring(net_file)
    trained = load(checkpoint)
    data = Run(trained).fit_to(chosen_data(options, standardize=bool(trained.data.mean)))
    check_fit(trained.net, data)
    with restore(trained, rung) as trainer:
        start = perf_counter()
        found = score(trainer, data.test_x, data.test_y, data.scale)
        seconds = perf_counter() - start
    accuracy = "" if found.accuracy is None else f", accuracy {percent(found.accuracy)}"
    click.echo(f"{trained.net.name} on {data.name}: loss {found.loss:.4g}{accuracy}, {len(data.test_x):,} samples in {seconds:.3g} s")
