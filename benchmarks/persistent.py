"""The persistent rung next to graph, tensor and JAX, on chains of Linear layers, in one run on one GPU.

    python benchmarks/persistent.py --out DIR
    python benchmarks/persistent.py --rungs graph,persistent --nets table
    python benchmarks/persistent.py --waits --nets softmax,mlp,wide,deep,table --out DIR

Samples are noise: the time of a step does not depend on them. A time is that of `run_epochs` of two whole epochs by a
step, with the partial last batch; all take turns, round by round, and medians and the spread are stored. With --waits:
each kind of wait, and first what each trains from the same weights as NumPy, in two epochs of 1,000 samples.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np

from warpladder.config import TrainConfig
from warpladder.data.dataset import Dataset
from warpladder.data.order import Order
from warpladder.ladder import find
from warpladder.machine import facts as machine
from warpladder.nets import CrossEntropyLoss, Linear, MSELoss, Net, ReLU
from warpladder.optimizers import SGD, Adam
from warpladder.trainers.base import State

ROUNDS = 7
WAITS = ["wait=grid", "wait=both:cluster=1", "wait=both:cluster=4", "wait=both:cluster=8", "wait=both:cluster=16"]
RUNGS = "graph,tensor,tensor:precision=bf16,persistent,persistent:wait=cluster,jax:device=cuda"


def chain(name: str, inputs: int, *widths: int, loss: object = CrossEntropyLoss()) -> Net:
    """Linear layers of these widths with a ReLU after each but the last."""
    layers = [layer for width in widths for layer in (Linear(out_features=width), ReLU())][:-1]
    return Net(name, (inputs,), tuple(layers), loss)  # type: ignore[arg-type]


#: Net, batch, samples of an epoch, bytes or floats, optimizer.
NETS = [
    (chain("softmax", 784, 10), 128, 60_000, np.uint8, SGD(0.1)),
    (chain("mlp", 784, 256, 10), 64, 60_000, np.uint8, SGD(0.1)),
    (chain("wide", 784, 512, 512, 512, 10), 256, 60_000, np.uint8, Adam(1e-3)),
    (chain("deep", 784, *[128] * 8, 10), 128, 60_000, np.uint8, Adam(1e-3)),
    (chain("table", 54, 128, 64, 7), 256, 32_768, np.float32, Adam(1e-3)),
    (chain("three hundred", 37, 100, 100, 100, 3), 100, 32_768, np.float32, Adam(1e-3)),
    (chain("broad", 300, 1000, 20), 512, 60_000, np.float32, SGD(0.01, momentum=0.9)),
    (chain("bottleneck", 784, 64, 16, 64, 784, loss=MSELoss()), 128, 60_000, np.uint8, Adam(1e-3)),
]


def made_up(net: Net, samples: int, dtype: type) -> Dataset:
    """Noise in the net's shape."""
    rng, size = np.random.default_rng(0), (samples, *net.in_shape)
    x = rng.integers(0, 256, size, dtype=np.uint8) if dtype is np.uint8 else rng.random(size, np.float32)
    y = rng.integers(0, net.out_shape[0], samples) if isinstance(net.loss, CrossEntropyLoss) else None
    return Dataset("noise", x, y, x[:4], None if y is None else y[:4], 1 / 255 if dtype is np.uint8 else 1.0)


def measured(net: Net, batch: int, samples: int, dtype: type, optimizer: object, rungs: list[str]) -> dict[str, object]:
    """Microseconds of a step by rung: the median, the fastest and the slowest round; or the reason why not."""
    config = TrainConfig(batch_size=batch, epochs=2 * ROUNDS + 2, optimizer=optimizer)  # type: ignore[arg-type]
    start = State(np.random.default_rng(1).normal(0, 0.05, net.param_count).astype(np.float32))
    data, out, ready = made_up(net, samples, dtype), {}, {}
    for name in rungs:
        rung = find(name)
        if reason := rung.unsupported(net, config):
            out[name] = reason
            continue
        began = time.perf_counter()
        ready[name] = trainer = rung.build(net, config, start)
        trainer.load(data)
        losses = [float(log.loss.mean()) for log in trainer.run_epochs([Order(0, 0, samples), Order(0, 1, samples)])]
        out[name] = {"first epochs, s": time.perf_counter() - began, "losses": losses, "rounds": []}
    for number in range(1, ROUNDS + 1):
        orders = [Order(0, 2 * number + each, samples) for each in (0, 1)]
        for name, trainer in ready.items():
            began = time.perf_counter()
            trainer.run_epochs(orders)
            seconds = (time.perf_counter() - began) / (2 * config.steps(samples))
            out[name]["rounds"].append(1e6 * seconds)  # type: ignore[index]
    for name, trainer in ready.items():
        trainer.close()
        rounds = out[name].pop("rounds")  # type: ignore[attr-defined]
        out[name] |= {"us": statistics.median(rounds), "least": min(rounds), "most": max(rounds)}  # type: ignore[operator]
    return out


def against_numpy(net: Net, batch: int, dtype: type, optimizer: object, rungs: list[str]) -> dict[str, object]:
    """Norm of the difference in weights to NumPy's, by the norm of NumPy's update; the largest difference of a loss;
    True if a second training has the same bits.
    """
    config = TrainConfig(batch_size=batch, epochs=2, optimizer=optimizer)  # type: ignore[arg-type]
    start = State(np.random.default_rng(1).normal(0, 0.05, net.param_count).astype(np.float32))
    data, orders = made_up(net, 1000, dtype), [Order(0, epoch, 1000) for epoch in (0, 1)]

    def trained(name: str) -> tuple[State, np.ndarray]:
        trainer = find(name).build(net, config, start)
        trainer.load(data)
        losses = np.concatenate([log.loss for log in trainer.run_epochs(orders)])
        state = trainer.state()
        trainer.close()
        return state, losses

    expected, losses = trained("numpy")
    out: dict[str, object] = {}
    for name in rungs:
        (state, found), (again, _) = trained(name), trained(name)
        error = np.linalg.norm(state.params - expected.params) / np.linalg.norm(expected.params - start.params)
        out[f"{net.name} {name}"] = {
            "error of the update": float(error),
            "of the loss": float(np.abs(found - losses).max()),
            "repeats equal": again.bits() == state.bits(),
        }
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder for persistent.json, or persistent_waits.json")
    parser.add_argument("--rungs", default=RUNGS)
    parser.add_argument("--waits", action="store_true", help="each kind of wait of the persistent rung")
    parser.add_argument("--nets", help="names, with commas between them; all if not given")
    chosen = parser.parse_args()
    rungs = chosen.rungs.split(",")
    waits = [f"persistent:{wait}" for wait in WAITS] if chosen.waits else []
    if chosen.waits and chosen.rungs == RUNGS:
        rungs = ["graph", "tensor", *waits]
    results, proofs = {}, {}
    for net, *rest in NETS:
        if chosen.nets is None or net.name in chosen.nets.split(","):
            batch, _, dtype, optimizer = rest
            proofs |= against_numpy(net, batch, dtype, optimizer, waits) if waits else {}
            results[net.name] = found = measured(net, *rest, rungs)
            times = {name: f"{v['us']:.1f}" if isinstance(v, dict) else v for name, v in found.items()}
            print(f"{net.name}, batch {rest[0]}: {times}", flush=True)
            if chosen.out is not None:
                stored = {"machine": machine.facts(), "us a step": results, "against numpy": proofs}
                name = "persistent_waits.json" if waits else "persistent.json"
                (chosen.out / name).write_text(json.dumps(stored, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
