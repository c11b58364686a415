"""Share of a step's matrix products on tensor cores, from the machine code of the launched kernels."""

from __future__ import annotations

from ...device import Call, Launch
from ...machine.peaks import TENSOR
from ...ops.engine.chain import Slice, products
from ...trainers.kernelwise.chain import Stage
from ...trainers.kernelwise.trainer import KernelTrainer

#: Products of a layer (of y, dw, dx) that a stage computes, by the stage's phase.
PRODUCTS = {"forward": slice(0, 1), "backward": slice(1, None), "step": slice(None)}


def on_tensor_cores(call: Call) -> bool:
    """True if a call launches a kernel of the package whose machine code multiplies on tensor cores."""
    return isinstance(call, Launch) and call.kernel.uses_tensor_cores


def tensor_share(trainer: KernelTrainer, part: Slice) -> float | None:
    """Lower bound, 0 to 1, of the share of a slice's matrix-product FLOPs in kernels with tensor core instructions.

    A launch counts as one product of its stage, or as many as it declares, those with the fewest FLOPs first; launches
    of one product count once. None if the trainer's kernels are not meant for tensor cores.
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
