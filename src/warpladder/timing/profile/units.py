"""Share of a step's matrix products that run on tensor cores, by the machine code of the launched kernels."""

from __future__ import annotations

from ...device import Call, Launch
from ...machine.peaks import TENSOR
from ...ops.engine.chain import Slice, products
from ...trainers.kernelwise.chain import Stage
from ...trainers.kernelwise.trainer import KernelTrainer

#: By the phase of a stage, which products of a layer it computes: y, dw, dx.
PRODUCTS = {"forward": slice(0, 1), "backward": slice(1, None), "step": slice(None)}


def on_tensor_cores(call: Call) -> bool:
    """True if a call launches a kernel of ours whose machine code multiplies on tensor cores."""
    return isinstance(call, Launch) and call.kernel.uses_tensor_cores


def tensor_share(trainer: KernelTrainer, part: Slice) -> float | None:
    """Of the FLOPs of a slice's products of matrices, those in kernels with tensor core instructions, at least: 0 to 1.

    Each such launch stands for one product of its stage, or as many as it declares, those of the fewest FLOPs
    first, and launches of one product count once. None where the trainer's kernels are not meant for tensor cores.
    """
    if trainer.table.unit != TENSOR:
        return None
    total = found = 0
    for stage in trainer.stages(part):
        each = _flops(trainer, stage)
        total += sum(each)
        launched = {
            id(call if call.product is None else call.product): call.products
            for call in stage.launches
            if on_tensor_cores(call)
        }
        found += sum(each[: sum(launched.values())])
    return found / total


def _flops(trainer: KernelTrainer, stage: Stage) -> list[int]:
    """FLOPs of one sample in each product of a stage, the fewest first."""
    which = PRODUCTS.get(stage.phase)
    return (
        sorted(flops for layer in stage.layers for flops in products(trainer.net, layer)[which])
        if which is not None
        else []
    )
