"""The JAX peers: on the CPU, and on the GPU in three precisions."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec

from ..config import TrainConfig
from ..machine import cores
from ..nets import Net
from ..rungs.base import Rung
from ..rungs.options import ThreadOptions
from ..trainers.base import State, Trainer
from . import driver

IDEA = "An epoch compiled by XLA as one program, a scan over gathered batches with the weights donated; the data set and its order stay on the device."

#: How it deviates on the GPU.
COMPILED = "a step may round differently in a block of another length, since each length is compiled apart"


def build(
    net: Net, config: TrainConfig, state: State, options: ThreadOptions = ThreadOptions(), *, platform: str, precision: str = "float32"
) -> Trainer:
    from .jax_trainer import JaxTrainer

    return JaxTrainer(net, config, state, platform=platform, precision=precision)


def unsupported(net: Net, config: TrainConfig, options: ThreadOptions = ThreadOptions()) -> str | None:
    """It trains every net, if it is installed; XLA chooses its threads when it starts."""
    if not find_spec("jax"):
        return "jax is not installed: pip install 'warpladder[jax]'"
    if options.threads not in (None, cores()):
        return f"XLA takes all {cores()} cores that this process may use: leave the number of threads out"
    return None


def unsupported_gpu(net: Net, config: TrainConfig) -> str | None:
    """It needs JAX with its CUDA plugin, and a GPU."""
    if not find_spec("jax"):
        return "jax is not installed: pip install 'jax[cuda13]'"
    if not (find_spec("jax_cuda13_plugin") or find_spec("jax_cuda12_plugin")):
        return "jax is installed without its CUDA plugin: pip install 'jax[cuda13]'"
    return driver.no_gpu()


PEER = Rung(
    name="jax",
    title="JAX on the CPU",
    idea=IDEA,
    build=partial(build, platform="cpu"),
    unsupported=unsupported,
    options=ThreadOptions(),
)


def on_gpu(precision: str, suffix: str, title: str, products: str) -> Rung:
    """The peer on the GPU with products of a precision."""
    return Rung(
        name=f"jax-gpu{suffix}",
        title=f"JAX on the GPU{title}",
        idea=f"As jax, on the GPU{products}.",
        build=partial(build, platform="gpu", precision=precision),
        unsupported=unsupported_gpu,
        precision=precision,
        deviations=(COMPILED, *((f"the factors of products are rounded to {precision}",) if suffix else ())),
        transforms=True,
    )


GPU = on_gpu("float32", "", "", "; products in float32")
GPU_TF32 = on_gpu("tf32", "-tf32", ", TF32", "'s tensor cores; factors rounded to TF32")
GPU_BF16 = on_gpu(
    "bfloat16", "-bf16", ", bfloat16", "'s tensor cores; data, activations and products in bfloat16, weights and loss in float32"
)

GPU_PEERS = (GPU, GPU_TF32, GPU_BF16)
