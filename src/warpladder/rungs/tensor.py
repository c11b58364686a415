"""Tensor rung: products on tensor cores."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import TrainConfig
from ..machine.peaks import TENSOR
from ..nets import NORMALISATIONS, Conv2d, Linear, Net
from ..trainers.base import State, Trainer
from .base import Rung
from .options import GraphOptions, PrecisionOf, option
from .reasons import of_kernels

#: Precisions of products, the default first.
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")

#: Compute capability from which GPUs have the instructions.
FIRST = (8, 0)


@dataclass(frozen=True)
class TensorOptions(GraphOptions):
    """Options of the tensor rung.

    device : "emulated" runs the kernels on the CPU; None is the GPU.
    block_size : threads in a block of kernels other than products, a multiple of 32 from 32 to 1,024; None is 256.
    precision : precision of products: "fp32", each factor split into two halves; "tf32", "bf16" or "fp16", each factor
    rounded.
    """

    precision: str | None = option(PrecisionOf(PRECISIONS), "of products; fp32 if not given, by halves of factors")


def build(net: Net, config: TrainConfig, state: State, options: TensorOptions = TensorOptions()) -> Trainer:
    from ..ops.tables.tensor import TABLE
    from ..trainers.graphed import GraphedTrainer
    from ..trainers.kernelwise.where import open_device

    device = open_device(options.device)
    return GraphedTrainer(net, config, state, device, TABLE, options.block_size, options.precision or "fp32")


def unsupported(net: Net, config: TrainConfig, options: TensorOptions = TensorOptions()) -> str | None:
    """Reason why the tensor rung cannot train: a layer without a kernel on tensor cores, a GPU; None if it can."""
    from ..trainers.kernelwise.where import peaks

    for number, (layer, shape) in enumerate(zip(net.layers, net.shapes, strict=False)):
        if layer.param_shapes(shape) and type(layer) not in (Linear, Conv2d, *NORMALISATIONS):
            kind = type(layer).__name__
            return f"it multiplies for Linear and Conv2d, and layer {number} is {kind}: gemm and graph take this net"
    reason = of_kernels(net, config, options)
    gpu = None if reason else peaks(options.device)
    return reason or (None if gpu is None else gpu.precedes(FIRST, "its tensor core instructions need"))


def vary(rung: Rung, options: TensorOptions) -> dict[str, str]:
    """Precision, title and idea of the rung with these options, as fields of `Rung`."""
    if options.precision in (None, "fp32"):
        return {}
    return {
        "precision": options.precision,
        "title": f"tensor cores, {options.precision}",
        "idea": "Steps as graph sends them, with products on tensor cores: the kernel that writes a factor stores "
        "it in "
        f"{options.precision}, all else stays float32.",
    }


RUNG = Rung(
    name="tensor",
    title="tensor cores, in halves",
    idea="Steps as graph sends them, with products on tensor cores: the kernel that writes a factor stores "
    "it as two halves, "
    "and three products make one in fp32.",
    build=build,
    unsupported=unsupported,
    unit=TENSOR,
    options=TensorOptions(),
    tunes=True,
    vary=vary,
)
