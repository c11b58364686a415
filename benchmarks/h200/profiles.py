"""A profile of every net on the GPU rungs, as JSON: what `warpladder profile` shows.

python benchmarks/h200/profiles.py --data-dir DIR --out benchmarks/h200/profiles    # about a minute
"""

from __future__ import annotations

from pathlib import Path

import click

from warpladder import data, nets
from warpladder.config import TrainConfig
from warpladder.errors import WarpladderError
from warpladder.ladder import find
from warpladder.profile import profile
from warpladder.results.profiled import save

CASES = (
    ("softmax", nets.softmax(), "mnist", 128), ("mlp", nets.mlp(), "mnist", 64), ("mlp10", nets.mlp10(), "mnist", None),
    ("cnn", nets.cnn(), "mnist", 64), ("autoencoder-1", nets.autoencoder(), "cifar10", 1), ("autoencoder-256", nets.autoencoder(), "cifar10", 256),
)  # fmt: skip
RUNGS = ("cupy", "naive", "streamed", "tiled", "gemm", "library", "graph")


@click.command()
@click.option("--data-dir", metavar="DIR", help="Folder with mnist/ and cifar10/.")
@click.option("--out", type=click.Path(path_type=Path), default=Path(__file__).parent / "profiles", help="Where the JSON files go.")
def main(data_dir: str | None, out: Path) -> None:
    """Profile every net on every GPU rung."""
    out.mkdir(parents=True, exist_ok=True)
    for name, net, source, batch in CASES:
        images = data.load(source, data_dir=data_dir) if data_dir else data.load(source)
        for rung in RUNGS:
            if batch == 256 and rung in ("cupy", "naive", "streamed"):
                continue
            try:
                found = profile(find(rung), net, images, TrainConfig(batch_size=batch))
            except WarpladderError as error:
                click.echo(f"{name} {rung}: {error}")
                continue
            save(found, out / f"{name}-{rung}.json")
            click.echo(f"{name} {rung}: {found.step_seconds * 1e6:.1f} us a step, {found.parts_seconds * 1e6:.1f} in its parts")


if __name__ == "__main__":
    main()
