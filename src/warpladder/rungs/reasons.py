"""Why a rung cannot train: reasons that several rungs have in common."""

from __future__ import annotations

from ..config import TrainConfig
from ..nets import Net
from .options import KernelOptions, Options, too_few_cores


def of_arrays(net: Net, config: TrainConfig, options: Options = Options()) -> str | None:
    """For a rung of array expressions on the CPU."""
    return config.optimizer.lacks("array.py") or too_few_cores(net, config, options)


def of_loops(net: Net, config: TrainConfig, options: Options = Options()) -> str | None:
    """For a rung of compiled loops."""
    return config.optimizer.lacks("loops.py") or too_few_cores(net, config, options)


def of_kernels(net: Net, config: TrainConfig, options: KernelOptions = KernelOptions()) -> str | None:
    """For a rung of CUDA kernels, on a GPU or emulated."""
    from ..trainers.kernelwise.where import why_not

    return config.optimizer.lacks("step.cu") or why_not(options.device)
