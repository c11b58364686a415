"""The PyTorch peers on the GPU: eager, with a DataLoader, with mixed precision, in CUDA graphs and compiled."""

from __future__ import annotations

import os
import shutil
from functools import partial
from importlib import metadata
from importlib.util import find_spec

from ..config import TrainConfig
from ..nets import Net
from ..rungs.base import Rung
from ..trainers.base import State, Trainer
from . import driver

#: How all of them deviate: cuDNN takes the fastest algorithm that it finds, whatever it promises, Winograd's and Fourier's forms among them.
ORDERLESS = "the gradients of convolutions may be summed in another order each time"


def build_eager(net: Net, config: TrainConfig, state: State, *, precision: str = "float32") -> Trainer:
    from .torch_trainer import TorchTrainer

    return TorchTrainer(net, config, state, device="cuda", precision=precision)


def build_loader(net: Net, config: TrainConfig, state: State) -> Trainer:
    from .torch_loader import LoaderTrainer

    return LoaderTrainer(net, config, state, device="cuda")


def build_graph(net: Net, config: TrainConfig, state: State, *, precision: str, compiled: bool) -> Trainer:
    from .torch_graph import GraphTrainer

    # float32 convolutions of cuDNN like their channels first, its tensor cores and inductor like them last
    last = compiled or precision != "float32"
    return GraphTrainer(net, config, state, precision=precision, images_last=last, compiled=compiled)


def unsupported(net: Net, config: TrainConfig) -> str | None:
    """It needs PyTorch with CUDA, and a GPU."""
    if not find_spec("torch"):
        return "torch is not installed: pip install 'warpladder[torch]'"
    if metadata.version("torch").endswith("+cpu"):
        return "torch is installed without CUDA: see https://pytorch.org for a build with it"
    return driver.no_gpu()


def unsupported_compiled(net: Net, config: TrainConfig) -> str | None:
    """Inductor needs Triton, which needs a C compiler."""
    if reason := unsupported(net, config):
        return reason
    if not find_spec("triton"):
        return "torch.compile needs Triton: pip install triton"
    if not any(map(shutil.which, (os.environ.get("CC") or "gcc", "gcc", "clang"))):
        return "torch.compile needs a C compiler: install gcc, or name one in CC"
    return None


EAGER = Rung(
    name="torch-gpu",
    title="PyTorch on the GPU, eager",
    idea="As torch, on the GPU: the training set lies there as one float32 tensor, and the loop never waits for it.",
    build=build_eager,
    unsupported=unsupported,
    deviations=(ORDERLESS,),
    transforms=True,
)

LOADER = Rung(
    name="torch-gpu-loader",
    title="PyTorch on the GPU, DataLoader",
    idea="As PyTorch's tutorials have it: a DataLoader with worker processes and pinned memory, a copy to the GPU and a loss read back each step.",
    build=build_loader,
    unsupported=unsupported,
    deviations=(ORDERLESS,),
    transforms=True,
)

AMP = Rung(
    name="torch-gpu-amp",
    title="PyTorch on the GPU, mixed precision",
    idea="As torch-gpu, with automatic mixed precision: products in float16, and a loss that is scaled so that small gradients survive.",
    build=partial(build_eager, precision="float16"),
    unsupported=unsupported,
    precision="float16",
    deviations=(ORDERLESS, "the factors of products are rounded to float16", "a step whose scaled gradients overflow is left out"),
    transforms=True,
)


def captured(precision: str, suffix: str, title: str, *, compiled: bool) -> Rung:
    """A peer whose steps are replayed as CUDA graphs."""
    graph = "Whole steps, forward, backward, update and the gathering of their samples, captured as CUDA graphs"
    idea = f"{graph} and replayed" if not compiled else f"{graph} after torch.compile has made one function of each"
    return Rung(
        name=f"torch-gpu-{'compile' if compiled else 'graph'}{suffix}",
        title=f"PyTorch on the GPU, {'compiled' if compiled else 'CUDA graph'}{title}",
        idea=f"{idea}{f'; products in {precision}' if suffix else ''}.",
        build=partial(build_graph, precision=precision, compiled=compiled),
        unsupported=unsupported_compiled if compiled else unsupported,
        precision=precision,
        deviations=(ORDERLESS, *((f"the factors of products are rounded to {precision}",) if suffix else ())),
        transforms=True,
    )


GRAPH = captured("float32", "", "", compiled=False)
GRAPH_TF32 = captured("tf32", "-tf32", ", TF32", compiled=False)
GRAPH_BF16 = captured("bfloat16", "-bf16", ", bfloat16", compiled=False)
COMPILE = captured("float32", "", "", compiled=True)
COMPILE_TF32 = captured("tf32", "-tf32", ", TF32", compiled=True)
COMPILE_BF16 = captured("bfloat16", "-bf16", ", bfloat16", compiled=True)

PEERS = (EAGER, LOADER, AMP, GRAPH, GRAPH_TF32, GRAPH_BF16, COMPILE, COMPILE_TF32, COMPILE_BF16)
