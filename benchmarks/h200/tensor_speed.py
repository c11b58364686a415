"""The rung tensor in every precision beside graph and the fastest peers of the same precision, in one run on one GPU.

    # DIR has mnist/ and cifar10/
    python benchmarks/h200/tensor_speed.py --data-dir DIR --out DIR
    # some of it
    python benchmarks/h200/tensor_speed.py --workloads cnn-64,autoencoder-256
    # a few steps of each, to see that it works
    python benchmarks/h200/tensor_speed.py --smoke

How times are taken is told in speed.py, which takes them. The loss of a coarse precision may be further from that of
float32 than another order of sums brings it; further than speed.COARSE it is other work.
"""

from __future__ import annotations

from speed import CUT, GRAPH, JAX, Workload, main, settings

from warpladder import nets
from warpladder.nets import CrossEntropyLoss, Flatten, Linear, Net, ReLU

#: The rung whose losses all others are held against, and tensor in each precision.
OURS = ("graph", "tensor", *(f"tensor:precision={precision}" for precision in ("tf32", "bf16", "fp16")))

#: PyTorch's compiler, which was faster than its graphs for cnn.
COMPILED = (
    "torch:device=cuda:mode=compile",
    "torch:device=cuda:mode=compile:precision=tf32",
    "torch:device=cuda:mode=compile:precision=bf16",
)


def perceptron() -> Net:
    """784-1024-1024-10: its weights are 7 MB, so that products are most of a step."""
    hidden = Linear(out_features=1024)
    return Net(
        "mlp1024", (1, 28, 28), (Flatten(), hidden, ReLU(), hidden, ReLU(), Linear(out_features=10)), CrossEntropyLoss()
    )


def wide(batch: int) -> Workload:
    return Workload(f"mlp1024-{batch}", perceptron(), "mnist", settings(batch, 0.01), (*OURS, *GRAPH, *JAX), CUT)


def autoencoder(batch: int, samples: int, *peers: str) -> Workload:
    name = f"autoencoder-{batch}"
    return Workload(name, nets.autoencoder(), "cifar10", settings(batch, 1e-3), (*OURS, *peers), samples, epoch=50_000)


WORKLOADS = (
    autoencoder(256, 16_384, *GRAPH, *JAX),
    Workload("cnn-64", nets.cnn(), "mnist", settings(64, 0.01), (*OURS, *GRAPH, *COMPILED, *JAX), CUT),
    wide(512),
    autoencoder(1, 1024, "torch:device=cuda:mode=graph", "jax:device=cuda"),
    wide(64),
    wide(4096),
)  # fmt: skip


if __name__ == "__main__":
    main(WORKLOADS, __doc__, "tensor_speed.json")
