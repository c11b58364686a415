"""Why a rung cannot train: reasons that several rungs have in common."""

from __future__ import annotations

from ..config import TrainConfig
from ..nets import Net
from .options import KernelOptions, Options, too_few_cores


def of_arrays(net: Net, config: TrainConfig, options: Options = Options()) -> str | None:
    """For a rung of array expressions on the CPU."""
    return of_layers(net, "array.py") or config.optimizer.lacks("array.py") or too_few_cores(net, config, options)


def of_loops(net: Net, config: TrainConfig, options: Options = Options()) -> str | None:
    """For a rung of compiled loops."""
    return of_layers(net, "loops.py") or config.optimizer.lacks("loops.py") or too_few_cores(net, config, options)


def of_native(net: Net, config: TrainConfig, options: Options = Options()) -> str | None:
    """For the rung that compiles a whole epoch."""
    return of_others(net, "it compiles the layers of warpladder alone") or of_loops(net, config, options)


def of_kernels(net: Net, config: TrainConfig, options: KernelOptions = KernelOptions()) -> str | None:
    """For a rung of CUDA kernels, on a GPU or emulated."""
    from ..trainers.kernelwise.where import why_not

    told = "its table has kernels for the layers of warpladder alone; a rung of your own can have a table with more (docs/own-rung.md)"
    return of_others(net, told) or config.optimizer.lacks("step.cu") or why_not(options.device)


def of_layers(net: Net, file: str) -> str | None:
    """Where a layer from outside of warpladder has no such file beside its class."""
    from ..ops.forms import missing

    return missing(net, file)


def of_others(net: Net, told: str) -> str | None:
    """Why a rung that takes no layers from outside of warpladder does not take one of this net's."""
    from ..ops.forms import others

    return next((f"{kind.__name__} is a layer of your own: {told}" for kind in others(net)), None)
