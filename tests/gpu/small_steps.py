"""A few training steps of small forms of the five nets on every GPU rung that is ours: what compute-sanitizer looks at.

Odd sizes, a partial last batch, and each feed. Run by scripts/test_gpu.
"""

from __future__ import annotations

import sys

import numpy as np

from strategies import case
from warpladder import nets
from warpladder.config import TrainConfig
from warpladder.ladder import LADDER
from warpladder.nets import Net
from warpladder.rungs.base import Rung
from warpladder.rungs.tensor import PRECISIONS

NETS = (
    nets.softmax((1, 9, 7)),
    nets.mlp((1, 9, 7)),
    nets.mlp10((1, 9, 7)),
    nets.cnn((1, 11, 10)),
    nets.autoencoder((3, 8, 8)),
)


MANY = 1_100  # samples of a full batch: thin chains have other kernels for more than 1,024


def steps(rung: Rung, net: Net, batch: int | None = 5, samples: int = 13) -> None:
    config = TrainConfig(batch_size=batch, learning_rate=0.01, momentum=0.9, nesterov=True, weight_decay=1e-3, clip_value=1.0)
    drawn = case(net, config, seed=1, samples=samples)
    with rung.build(net, config, drawn.state) as trainer:
        trainer.load(drawn.dataset)
        log = trainer.run(drawn.order, 0, config.steps(samples))
        out = trainer.predict(drawn.dataset.train_x, drawn.dataset.scale)
        assert np.isfinite(log.loss).all() and np.isfinite(out).all() and np.isfinite(trainer.state().params).all()


def ours(rung: Rung) -> bool:
    """Whether it launches kernels of ours on the GPU, and can here."""
    return (rung.name == "library" or rung.has("device")) and rung.unsupported(NETS[0], TrainConfig()) is None


def variants(rung: Rung) -> list[Rung]:
    """The rung, on tensor cores in each precision: each has instructions and kernels of its own."""
    return [rung, *(rung.but(precision=precision) for precision in PRECISIONS[1:])] if rung.name == "tensor" else [rung]


def main(wanted: list[str]) -> None:
    """Run what is asked for, by the names of rungs or of variants; all of them where nothing is."""
    for rung in (variant for each in LADDER if ours(each) for variant in variants(each)):
        if not wanted or {rung.name, rung.name.partition(":")[0]} & set(wanted):
            for net in NETS:
                steps(rung, net)
                print(rung.name, net.name, "ran", flush=True)
            steps(rung, nets.mlp10((1, 9, 7)), None, MANY)
            print(rung.name, "mlp10, full batch,", "ran", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
