"""A profile of every net on the GPU rungs, as JSON: what `warpladder profile` shows.

python benchmarks/h200/profiles.py --data-dir DIR --out benchmarks/h200/profiles    # about a minute and a half
python benchmarks/h200/profiles.py --nets cnn,autoencoder-256 --rungs graph,tensor  # some of them
"""

from __future__ import annotations

from pathlib import Path

import click
from tensor_speed import perceptron

from warpladder import data, nets
from warpladder.config import TrainConfig
from warpladder.errors import WarpladderError
from warpladder.ladder import find
from warpladder.timing.profile import profile

CASES = (
    ("softmax", nets.softmax(), "mnist", 128), ("mlp", nets.mlp(), "mnist", 64), ("mlp10", nets.mlp10(), "mnist", None),
    ("cnn", nets.cnn(), "mnist", 64), ("mlp1024-512", perceptron(), "mnist", 512),
    ("autoencoder-1", nets.autoencoder(), "cifar10", 1), ("autoencoder-256", nets.autoencoder(), "cifar10", 256),
)  # fmt: skip
TENSOR = ("tensor", *(f"tensor:precision={precision}" for precision in ("tf32", "bf16", "fp16")))
RUNGS = ("cupy", "naive", "streamed", "tiled", "gemm", "library", "graph", *TENSOR)


@click.command()
@click.option("--data-dir", metavar="DIR", help="Folder with mnist/ and cifar10/.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path(__file__).parent / "profiles",
    help="Where the JSON files go.",
)
@click.option("--nets", "names", default=",".join(case[0] for case in CASES), help="Cases, with commas between them.")
@click.option("--rungs", default=",".join(RUNGS), help="Rungs, with commas between them.")
def main(data_dir: str | None, out: Path, names: str, rungs: str) -> None:
    """Profile nets on GPU rungs."""
    out.mkdir(parents=True, exist_ok=True)
    if unknown := set(names.split(",")) - {case[0] for case in CASES}:
        raise click.UsageError(f"there is no case {', '.join(sorted(unknown))}")
    for name, net, source, batch in CASES:
        if name not in names.split(","):
            continue
        images = data.load(source, data_dir=data_dir) if data_dir else data.load(source)
        for rung in rungs.split(","):
            if batch == 256 and rung in ("cupy", "naive", "streamed"):
                continue
            try:
                found = profile(find(rung), net, images, TrainConfig(batch_size=batch))
            except WarpladderError as error:
                click.echo(f"{name} {rung}: {error}")
                continue
            found.save(out / f"{name}-{rung.replace(':precision=', '-')}.json")
            click.echo(
                f"{name} {rung}: {found.step_seconds * 1e6:.1f} us a step, {found.parts_seconds * 1e6:.1f} in its parts"
            )


if __name__ == "__main__":
    main()
