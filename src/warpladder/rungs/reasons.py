"""Reasons why a rung cannot train, common to several rungs."""

from __future__ import annotations

from ..config import TrainConfig
from ..nets import Net
from .options import GraphOptions, KernelOptions, Options, too_few_cores


def of_arrays(net: Net, config: TrainConfig, options: Options = Options()) -> str | None:
    """Reason why a rung of array expressions on the CPU cannot train; None if it can."""
    return of_layers(net, "array.py") or config.optimizer.lacks("array.py") or too_few_cores(net, config, options)


def of_loops(net: Net, config: TrainConfig, options: Options = Options()) -> str | None:
    """Reason why a rung of compiled loops cannot train; None if it can."""
    return of_layers(net, "loops.py") or config.optimizer.lacks("loops.py") or too_few_cores(net, config, options)


def of_native(net: Net, config: TrainConfig, options: Options = Options()) -> str | None:
    """Reason why the rung that compiles a whole epoch cannot train; None if it can."""
    from ..nets.residual import RESIDUAL_PARTS
    from ..ops.engine.layer_files import LISTED, others

    known = ", ".join([*(kind.__name__ for kind in LISTED if kind not in RESIDUAL_PARTS), "Residual"])
    reason = next((f"it compiles {known}, and has nothing for {kind.__name__}" for kind in others(net)), None)
    return reason or of_loops(net, config, options)


def of_kernels(net: Net, config: TrainConfig, options: KernelOptions | GraphOptions = KernelOptions()) -> str | None:
    """Reason why a rung of CUDA kernels, on a GPU or emulated, cannot train; None if it can."""
    from ..trainers.kernelwise.where import why_not

    return of_layers(net, "cuda.py") or config.optimizer.lacks("step.cu") or why_not(options.device)


def of_masks(net: Net) -> str | None:
    """Reason why a user's module cannot train a net with random masks; None if the net has none."""
    layer = next((layer for layer in net.layers if layer.is_random), None)
    return None if layer is None else f"its generator draws other masks for {layer} than the order's"


def of_layers(net: Net, file: str) -> str | None:
    """Reason if the net has a layer that no table lists and that has no `file` next to its class; else None."""
    from ..ops.engine.layer_files import missing

    return missing(net, file)
