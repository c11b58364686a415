"""JAX peer: one program, with options for device and precision.

It imports jax only when a trainer is built. Begin with steps.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from ....config import TrainConfig
from ....machine.facts import cores
from ....nets import Net
from ....trainers.base import State, Trainer
from ...base import Rung
from ...options import THREADS, OneOf, Options, PrecisionOf, option
from .. import driver

#: Deviation of JAX's compiled programs; on a CPU it shows with weights of samples, or with few samples.
COMPILED = "a step may round differently in a block of another length, since each length is compiled apart"


@dataclass(frozen=True)
class JaxOptions(Options):
    """Options of the JAX peer.

    device : "cuda" trains on the GPU; None on the CPU.
    precision : precision of products: "fp32", or on a GPU "tf32" or "bf16"; None is fp32.
    threads : CPU threads; only all cores or None, since XLA chooses its threads when it starts.
    """

    device: str | None = option(OneOf(("cuda",)), "where it trains; on the CPU if not given")
    precision: str | None = option(
        PrecisionOf(("fp32", "tf32", "bf16")), "of products; fp32 if not given, or on the CPU"
    )
    threads: int | None = option(*THREADS)


def build(net: Net, config: TrainConfig, state: State, options: JaxOptions = JaxOptions()) -> Trainer:
    from .trainer import JaxTrainer

    platform = "cpu" if options.device is None else "gpu"
    return JaxTrainer(net, config, state, platform=platform, precision=options.precision or "fp32")


def unsupported(net: Net, config: TrainConfig, options: JaxOptions = JaxOptions()) -> str | None:
    """Reason why JAX cannot train with these options on this machine; None if it can."""
    if reason := _layers(net) or config.optimizer.lacks("jax.py"):
        return reason
    if options.device is None:
        if options.precision not in (None, "fp32"):
            return f"precision={options.precision} is that of a GPU's tensor cores: add device=cuda"
        if not find_spec("jax"):
            return "jax is not installed: pip install 'warpladder[jax]'"
        if options.threads not in (None, cores()):
            return f"XLA takes all {cores()} cores that this process may use: leave the number of threads out"
        return None
    if options.threads is not None:
        return "the GPU does the work: leave threads out"
    if not find_spec("jax"):
        return "jax is not installed: pip install 'jax[cuda13]'"
    if not (find_spec("jax_cuda13_plugin") or find_spec("jax_cuda12_plugin")):
        return "jax is installed without its CUDA plugin: pip install 'jax[cuda13]'"
    return driver.no_gpu(options.precision or "fp32")


def _layers(net: Net) -> str | None:
    """Reason why JAX cannot train a layer that no table lists; None if it can."""
    from ....ops.engine.layer_files import missing, others

    trained = [
        type(layer).__name__
        for layer, shape in zip(net.layers, net.shapes, strict=False)
        if type(layer) in others(net) and layer.param_shapes(shape)
    ]
    return (
        f"JAX's peer knows parameters of Linear and Conv2d alone, not those of {trained[0]}"
        if trained
        else missing(net, "jax.py")
    )


#: Sentence about products on the GPU, by their precision.
PRODUCTS = {
    "fp32": "; products in float32",
    "tf32": "'s tensor cores; factors rounded to TF32",
    "bf16": "'s tensor cores; data, activations and products in bfloat16, weights and loss in float32",
}


def vary(rung: Rung, options: JaxOptions) -> dict[str, Any]:
    """Title, idea, precision and deviations of the rung with these options, as fields of `Rung`."""
    if options.device is None:
        return {}
    precision = options.precision or "fp32"
    coarse = () if precision == "fp32" else (f"the factors of products are rounded to {precision}",)
    return {
        "title": f"JAX on the GPU{f', {precision}' if coarse else ''}",
        "idea": f"As jax, on the GPU{PRODUCTS[precision]}.",
        "precision": precision,
        "deviations": (COMPILED, *coarse),
        "transforms": True,
    }


PEER = Rung(
    name="jax",
    title="JAX on the CPU",
    idea="An epoch compiled by XLA as one program, a scan over gathered batches with the weights donated; "
    "the data set and its order stay on the device.",
    build=build,
    peer=True,
    unsupported=unsupported,
    deviations=(COMPILED,),
    options=JaxOptions(),
    vary=vary,
)

#: Variants that a climb times by default.
GPU_PEERS = tuple(PEER.but(device="cuda", precision=precision) for precision in (None, "tf32", "bf16"))
