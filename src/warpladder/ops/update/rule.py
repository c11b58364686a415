"""Optimizer's step of one parameter, a struct in its step.cu, for kernels that update what they have computed."""

import re
from dataclasses import dataclass
from pathlib import Path

from ...optimizers import Optimizer
from .cuda import FILE

_RULE = re.compile(r"\bupdate_one<(\w+)>")


def rule_file(optimizer: Optimizer) -> Path:
    """File with the optimizer's step in CUDA."""
    return optimizer.folder() / FILE


def rule_name(optimizer: Optimizer) -> str | None:
    """Name of the struct that update_one of update.cuh takes; None if the optimizer's step.cu has none."""
    found = _RULE.search(rule_file(optimizer).read_text(encoding="utf-8"))
    return None if found is None else found[1]


@dataclass(frozen=True)
class GradientEnd:
    """CUDA of what an assembled kernel does with each number of the gradient: it stores it, or makes a step too.

    include : lines before the kernel. parameters : further parameters of the kernel, each with a comma after it.
    declaration : of `ends`, whose `finish` gets the numbers.
    """

    include: str = '#include "parameter.cuh"\n'
    parameters: str = ""
    declaration: str = "Flat ends = {}"


def gradient_end(optimizer: Optimizer | None) -> GradientEnd:
    """End of a gradient with this optimizer's step, or with none."""
    if optimizer is None:
        return GradientEnd()
    return GradientEnd(
        f'#include "{rule_file(optimizer).as_posix()}"\n#include "stepped.cuh"\n',
        "float* grads, float* params, float* first_slot, float* second_slot, float limit, const float4* row, ",
        f"Stepped<{rule_name(optimizer)}> ends(grads, params, first_slot, second_slot, limit, row)",
    )
