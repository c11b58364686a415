"""Optimizer's step of one parameter, a struct in its step.cu, for kernels that update what they have computed."""

import re
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
