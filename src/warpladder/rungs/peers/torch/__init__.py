"""PyTorch peer: one program, with options for device, start of steps, precision and DataLoader.

It imports torch only when a trainer is built. Begin with trainer.py.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from ....config import TrainConfig
from ....machine.precision import PRECISIONS, named
from ....nets import Conv2d, Net
from ....trainers.base import State, Trainer
from ...base import Rung
from ...options import THREADS, OneOf, Options, PrecisionOf, Whole, YesNo, option, too_few_cores
from .. import driver
from .known import CAPTURED, FUSED

#: How PyTorch deviates on a GPU: cuDNN takes its fastest algorithm, whatever order that sums in, Winograd's and
#: Fourier's forms among them.
ORDERLESS = "the gradients of convolutions may be summed in another order each time"


@dataclass(frozen=True)
class TorchOptions(Options):
    """Options of the PyTorch peer.

    device : "cuda" trains on the GPU; None on the CPU.
    mode : "graph" replays whole steps as CUDA graphs, "compile" does so after torch.compile; None is eager.
    precision : precision of products: "fp64", with all numbers in float64, for eager steps; "tf32", or mixed precision
    in "bf16" or "fp16", on a GPU; None is fp32.
    images : "last" for channels-last images and convolution weights; None for channels first.
    loader : True takes batches from a DataLoader; None keeps the training set as one tensor on the device.
    workers : number of the DataLoader's worker processes; None is four, or the number of cores if it is smaller.
    pin_memory : True for page-locked batches of the DataLoader; None is True on a GPU.
    threads : CPU threads; None takes every core that this process may use.
    """

    device: str | None = option(OneOf(("cuda",)), "where it trains; on the CPU if not given")
    mode: str | None = option(
        OneOf(("graph", "compile")),
        "how steps are started: replayed as CUDA graphs, or compiled too; eager if not given",
    )
    precision: str | None = option(
        PrecisionOf(tuple(PRECISIONS)), "of products; fp32 if not given; fp32 or fp64 on the CPU"
    )
    images: str | None = option(OneOf(("last",)), "where images have their channels; first if not given")
    loader: bool | None = option(YesNo(), "whether a DataLoader feeds it; the data set is one tensor if not given")
    workers: int | None = option(Whole(0), "the DataLoader's processes; four, or a core each, if not given")
    pin_memory: bool | None = option(YesNo(), "whether its batches are page-locked; for a GPU if not given")
    threads: int | None = option(*THREADS)


def build(net: Net, config: TrainConfig, state: State, options: TorchOptions = TorchOptions()) -> Trainer:
    device, precision = options.device or "cpu", options.precision or "fp32"
    if options.mode is not None:
        from .graph import GraphTrainer

        compiled = options.mode == "compile"
        # float32 convolutions of cuDNN like their channels first, its tensor cores and inductor like them last
        last = compiled or precision != "fp32"
        return GraphTrainer(net, config, state, device=device, precision=precision, images_last=last, compiled=compiled)
    if options.loader:
        from .loader import LoaderTrainer

        return LoaderTrainer(
            net, config, state, device=device, threads=options.threads, workers=options.workers,
            pin_memory=options.pin_memory,
        )  # fmt: skip
    from .trainer import TorchTrainer

    last = options.images == "last"
    return TorchTrainer(
        net, config, state, device=device, precision=precision, channels_last=last, threads=options.threads
    )


def unsupported(net: Net, config: TrainConfig, options: TorchOptions = TorchOptions()) -> str | None:
    """Reason why PyTorch cannot train the net with these options on this machine; None if it can."""
    if reason := _at_odds(options) or _images(net, options):
        return reason
    if not find_spec("torch"):
        return "torch is not installed: pip install 'warpladder[torch]'"
    if reason := _layers(net) or _optimizer(config, options):
        return reason
    if options.device is None:
        return too_few_cores(net, config, options)
    if metadata.version("torch").endswith("+cpu"):
        return "torch is installed without CUDA: see https://pytorch.org for a build with it"
    if reason := driver.no_gpu(options.precision or "fp32"):
        return reason
    return _no_compiler() if options.mode == "compile" else None


def _at_odds(options: TorchOptions) -> str | None:
    """Reason why options contradict each other; None if they do not."""
    gpu = options.device == "cuda"
    if not gpu and options.mode is not None:
        return f"mode={options.mode} replays CUDA graphs, on a GPU: add device=cuda"
    if not gpu and options.precision not in (None, "fp32", "fp64"):
        return f"precision={options.precision} is that of a GPU's tensor cores: add device=cuda"
    if options.mode is not None and options.precision == "fp64":
        return "precision=fp64 is for eager steps: leave the mode out"
    if options.mode is not None and (options.loader or options.images):
        return "a graph's samples are on the GPU, in the memory format that is fastest: leave loader and images out"
    if options.loader and (options.images or options.precision not in (None, "fp32")):
        return "with a DataLoader there is fp32 alone, with channels first: leave images and precision out"
    if not options.loader and (options.workers is not None or options.pin_memory is not None):
        return "workers and pin_memory are the DataLoader's: add loader=yes"
    if not gpu and options.pin_memory:
        return "page-locked memory is for copies to a GPU: leave pin_memory out, or add device=cuda"
    if gpu and options.threads is not None:
        return "the GPU does the work: leave threads out"
    return None


def _images(net: Net, options: TorchOptions) -> str | None:
    """Reason why a net's images cannot have their channels last; None if they can: docs/notes/proof.md for BatchNorm.

    oneDNN writes past its workspace in the weight gradient of strided 1 x 1 convolutions, which ends the process:
    https://github.com/uxlfoundation/oneDNN/issues/6035
    """
    if options.images is None:
        return None
    convolutions = [layer for layer in net.layers if isinstance(layer, Conv2d)]
    if not convolutions:
        return f"net {net.name!r} has no convolution, so there is no memory format to choose: see torch"
    if any(layer.kernel_size == 1 and layer.stride > 1 for layer in convolutions):
        return (
            "in this memory format oneDNN's gradient of a strided 1 x 1 convolution can crash (oneDNN issue 6035): "
            "see torch"
        )
    if options.device is None and any(
        layer.normalizes and len(shape) == 3 for layer, shape in zip(net.layers, net.shapes, strict=False)
    ):
        return (
            "on a CPU PyTorch's BatchNorm adds the numbers of images in this memory format one by one, and is off by "
            "more than float32's rounding explains: see torch"
        )
    return None


def _optimizer(config: TrainConfig, options: TorchOptions) -> str | None:
    """Reason why PyTorch lacks the optimizer; None if it has it. torch is loaded only for an unknown optimizer."""
    kind = type(config.optimizer)
    if kind in (FUSED if options.mode is None else CAPTURED):
        return None
    if options.mode is not None:
        known = [each.__name__ for each in CAPTURED]
        return f"graphs have steps of {', '.join(known[:-1])} and {known[-1]}, not {kind.__name__}: leave the mode out"
    from .update import lacking

    return lacking(config.optimizer)


def _layers(net: Net) -> str | None:
    """Reason why PyTorch lacks a layer; None if it has all. torch is loaded only for layers that no table lists."""
    from ....ops.engine.layer_files import others

    found = others(net)
    if not found:
        return None
    from .net import lacking

    return next((reason for kind in found if (reason := lacking(kind))), None)


def _no_compiler() -> str | None:
    """Reason why inductor cannot compile; None if it can. It needs Triton, which needs a C compiler."""
    if not find_spec("triton"):
        return "torch.compile needs Triton: pip install triton"
    if not any(map(shutil.which, (os.environ.get("CC") or "gcc", "gcc", "clang"))):
        return "torch.compile needs a C compiler: install gcc, or name one in CC"
    return None


def vary(rung: Rung, options: TorchOptions) -> dict[str, Any]:
    """Title, idea, precision and deviations of the rung with these options, as fields of `Rung`."""
    gpu, precision = options.device == "cuda", options.precision or "fp32"
    graph = "Whole steps, forward, backward, update and the gathering of their samples, captured as CUDA graphs"
    if options.mode == "graph":
        form, idea = "CUDA graph", f"{graph} and replayed."
    elif options.mode == "compile":
        form, idea = "compiled", f"{graph} after torch.compile has made one function of each."
    elif options.loader:
        form, idea = (
            "DataLoader",
            "As PyTorch's tutorials have it: batches from a DataLoader with worker processes, "
            "and a loss read back each step.",
        )
    elif precision == "fp16":
        form = "mixed precision, fp16"
        idea = (
            "Automatic mixed precision: products in float16, and a loss that is scaled so that small gradients survive."
        )
    elif precision == "bf16":
        form = "mixed precision, bf16"
        idea = (
            "Automatic mixed precision: products in bfloat16, whose range is that of float32, "
            "so that no loss is scaled."
        )
    elif options.images:
        form, idea = (
            "eager, NHWC",
            "As torch, with images and convolution weights in the channels-last memory format, "
            "which oneDNN's convolutions prefer.",
        )
    else:
        form, idea = (
            "eager",
            "As torch, on the GPU: the training set lies there as one float32 tensor, and the loop never waits for it."
            if gpu
            else rung.idea,
        )
    is_named = options.mode is not None or precision in ("fp64", "tf32")
    coarse = (f"the factors of products are rounded to {precision}",) if named(precision).coarse else ()
    scaled = ("a step whose scaled gradients overflow is left out",) if precision == "fp16" else ()
    return {
        "title": f"PyTorch{' on the GPU' if gpu else ''}, {form}"
        + (f", {precision}" if is_named and precision != "fp32" else ""),
        "idea": f"{idea[:-1]}; products in {precision}." if is_named and precision != "fp32" else idea,
        "precision": precision,
        "deviations": (ORDERLESS, *coarse, *scaled) if gpu else (),
        "transforms": gpu,
    }


PEER = Rung(
    name="torch",
    title="PyTorch, eager",
    idea="PyTorch's own operations, autograd and optimizers on the CPU; "
    "the training set is one float32 tensor, and a step picks its rows.",
    build=build,
    peer=True,
    unsupported=unsupported,
    options=TorchOptions(),
    vary=vary,
)

#: Variants that a climb times by default.
CHANNELS_LAST = PEER.but(images="last")
GPU_PEERS = (
    PEER.but(device="cuda"),
    PEER.but(device="cuda", loader=True),
    PEER.but(device="cuda", precision="fp16"),
    *(
        PEER.but(device="cuda", mode=mode, precision=precision)
        for mode in ("graph", "compile")
        for precision in (None, "tf32", "bf16")
    ),
)  # fmt: skip
