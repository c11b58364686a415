"""Why a rung cannot train: reasons that several rungs have in common."""

from __future__ import annotations

from ..config import TrainConfig
from ..nets import Net
from .options import KernelOptions, Options, too_few_cores


def no_step(config: TrainConfig, file: str) -> str | None:
    """A line where the optimizer's folder lacks the file that says its step in a rung's way, as "step.cu"; or None."""
    optimizer = config.optimizer
    if optimizer.has(file):
        return None
    return f"optimizer {type(optimizer).__name__} has no {file} in its folder, {optimizer.folder()}, which says how it steps here"


def of_arrays(net: Net, config: TrainConfig, options: Options = Options()) -> str | None:
    """For a rung of array expressions on the CPU."""
    return no_step(config, "array.py") or too_few_cores(net, config, options)


def of_loops(net: Net, config: TrainConfig, options: Options = Options()) -> str | None:
    """For a rung of compiled loops."""
    return no_step(config, "loops.py") or too_few_cores(net, config, options)


def of_kernels(net: Net, config: TrainConfig, options: KernelOptions = KernelOptions()) -> str | None:
    """For a rung of CUDA kernels, on a GPU or emulated."""
    from ..trainers.kernelwise.where import why_not

    return no_step(config, "step.cu") or why_not(options.device)
