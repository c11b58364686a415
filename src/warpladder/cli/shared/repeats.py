"""`train --repeat`: one run for each of several seeds, and mean and spread of their figures."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...errors import DivergedError
from ...show import number, percent
from .console import console

if TYPE_CHECKING:
    from rich.table import Table

    from ...train import Run
    from ...train.request import RunRequest
    from ...train.resolve import ResolvedRun


def seeded(path: Path, seed: int) -> Path:
    """Path of one seed's file: net.safetensors becomes net-seed-3.safetensors."""
    return path.with_name(f"{path.stem}-seed-{seed}{path.suffix}")


def train_seeds(
    request: RunRequest, first: ResolvedRun, count: int, once: Callable[[ResolvedRun], tuple[Run, Path | None]]
) -> int:
    """Train `count` runs with consecutive seeds, from the first run's seed on, and print a table of them.

    Splits of the data are drawn from the seed too: each run equals one with `--seed N`. Returns 1 if a run diverged.
    """
    from ...train.resolve import resolve

    seeds = range(first.config.seed, first.config.seed + count)
    runs: dict[int, Run | None] = {}
    try:
        for seed in seeds:
            settings = {**request.settings, "seed": seed}
            run = first if seed == first.config.seed else resolve(replace(request, settings=settings))
            try:
                runs[seed], place = once(run)
            except DivergedError as error:
                runs[seed] = None
                click.echo(f"seed {seed}: {error}", err=True)
            else:
                click.echo(f"seed {seed}: {_score(runs[seed])}{'' if place is None else f', weights in {place}'}")
    finally:
        if trained := {seed: run for seed, run in runs.items() if run is not None}:
            console().print(_table(trained))
    return 1 if None in runs.values() else 0


def _score(run: Run | None) -> str:
    assert run is not None
    return "not tested" if run.checkpoint.test is None else f"test {run.checkpoint.test.described()}"


def _r2(run: Run) -> float | None:
    """R2 on the test samples; None without targets or test samples."""
    return None if run.checkpoint.test is None else run.checkpoint.test.r2


def _table(runs: dict[int, Run]) -> Table:
    """Table with a row for each seed, then mean and standard deviation (divided by n - 1) over the seeds."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    found: dict[str, list[float | None]] = {
        "epochs": [float(len(run.history)) for run in runs.values()],
        "loss": [run.history[-1].train_loss if run.history else None for run in runs.values()],
        "valid. loss": [run.history[(run.best_epoch or 0) - 1].valid_loss for run in runs.values() if run.history],
        "test loss": [run.test_loss for run in runs.values()],
        "test accuracy": [run.test_accuracy for run in runs.values()],
        "test R2": [_r2(run) for run in runs.values()],
        "seconds": [sum(log.seconds for log in run.history) for run in runs.values()],
    }
    columns = {head: [each for each in values if each is not None] for head, values in found.items()}
    columns = {head: values for head, values in columns.items() if len(values) == len(runs)}
    one = next(iter(runs.values()))
    table = Table(title=f"{one.net.name} on the {one.rung} rung, {len(runs)} seeds", box=SIMPLE_HEAD)
    for head in ("seed", *columns):
        table.add_column(head, justify="right")
    for index, seed in enumerate(runs):
        table.add_row(str(seed), *(_cell(head, values[index]) for head, values in columns.items()))
    if len(runs) > 1:
        table.add_section()
        for name, figure in (("mean", statistics.fmean), ("spread", statistics.stdev)):
            table.add_row(name, *(_cell(head, figure(values), True) for head, values in columns.items()))
    return table


def _cell(head: str, value: float, has_fraction: bool = False) -> str:
    if head == "test accuracy":
        return percent(value)
    return f"{value:.1f}" if head == "epochs" and has_fraction else number(value)
