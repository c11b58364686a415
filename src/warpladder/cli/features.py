"""`warpladder features`: writes the outputs of a layer of a trained net for a data set to a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from .shared.files import as_file_name, check_place, fresh_folder
from .shared.options import computing_rung_option, data_options, limit_options, overwrite_option, progress_option
from .shared.progress import shown, stoppable
from .shared.request import load_requested


@click.command()
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option(
    "--layer",
    metavar="N",
    type=int,
    required=True,
    help="Number of the layer whose outputs are written, from 0, as in 'warpladder nets NET'.",
)
@data_options
@click.option(
    "--split", type=click.Choice(("train", "test", "both")), default="both", show_default=True, help="Which samples."
)
@limit_options("Take a seeded subset of N training samples.")
@click.option(
    "-o",
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Where they go: .safetensors for both parts with their labels; .npy or .csv for one part. A "
    "folder below runs/ if not given.",
)
@overwrite_option
@computing_rung_option
@progress_option
def features(
    checkpoint: Path,
    layer: int,
    split: str,
    out: Path | None,
    overwrite: bool,
    rung: str | None,
    progress: bool | None,
    **options: Any,
) -> None:
    """Write the outputs of a layer of the net in CHECKPOINT as features, for 'warpladder svm' or your own program.

    Features are computed and written in batches, so that memory never has to hold all; the file is written completely
    or not at all.

    \b
    Examples:
      warpladder features encoder.safetensors --layer 5 --data cifar10
      warpladder features cnn.safetensors --layer 4 --data mnist -o f.safetensors
    """
    from ..appendix.features import check_ending, extract, write_features
    from ..appendix.features.extraction import parts_of
    from ..appendix.features.write import labels_path
    from ..checkpoint import load
    from ..train.hidden import layer_shape

    if out is not None:
        check_place(out, overwrite, checkpoint)
        check_ending(out, ("train", "test") if split == "both" else (split,))
        if out.suffix == ".npy":
            check_place(labels_path(out), overwrite, checkpoint)
    trained = load(checkpoint)
    layer_shape(trained.net, layer)
    data = load_requested(options, trained.data, trained.config.seed)
    parts = parts_of(split, data)
    with (
        stoppable(),
        _place(out, f"{trained.net.name}-{data.name}-layer{layer}") as place,
        extract(trained, layer, data, rung) as source,
    ):
        with shown(progress) as progress_bar:

            def report(done: int, total: int) -> None:
                if progress_bar is not None:
                    progress_bar(f"layer {layer}, {source.width:,} numbers a sample", done, total, 0.0)

            size = write_features(place, source, parts, report)
        samples = " and ".join(f"{source.samples(part):,} {part}" for part in parts)
        click.echo(
            f"Layer {layer} ({trained.net.layers[layer]}): {samples} samples of {source.width:,} features, "
            f"{size / 1e6:,.1f} MB"
        )
        click.echo(f"Features: {place}")


@contextmanager
def _place(wanted: Path | None, name: str) -> Iterator[Path]:
    """Path of the named file, or of a file in a new folder below runs/."""
    if wanted is not None:
        yield wanted
        return
    with fresh_folder(as_file_name(name), "name a file with --out") as folder:
        yield folder / "features.safetensors"
