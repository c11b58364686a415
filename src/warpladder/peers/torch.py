"""The PyTorch peers: eager mode on the CPU, in either memory format of images."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec

from ..config import TrainConfig
from ..nets import Conv2d, Net
from ..rungs.base import Rung
from ..rungs.options import ThreadOptions, too_few_cores
from ..trainers.base import State, Trainer


def build(net: Net, config: TrainConfig, state: State, options: ThreadOptions = ThreadOptions(), *, channels_last: bool = False) -> Trainer:
    from .torch_trainer import TorchTrainer

    return TorchTrainer(net, config, state, channels_last=channels_last, threads=options.threads)


def unsupported(net: Net, config: TrainConfig, options: ThreadOptions = ThreadOptions()) -> str | None:
    """It trains every net, if it is installed."""
    return too_few_cores(net, config, options) if find_spec("torch") else "torch is not installed: pip install 'warpladder[torch]'"


def unsupported_channels_last(net: Net, config: TrainConfig, options: ThreadOptions = ThreadOptions()) -> str | None:
    """It trains what has convolutions, all else is in no memory format; but for strided 1 x 1 ones.

    oneDNN writes past its workspace in their weight gradient, which ends the process: https://github.com/uxlfoundation/oneDNN/issues/6035
    """
    convolutions = [layer for layer in net.layers if isinstance(layer, Conv2d)]
    if not convolutions:
        return f"net {net.name!r} has no convolution, so there is no memory format to choose: see torch"
    if any(layer.kernel_size == 1 and layer.stride > 1 for layer in convolutions):
        return "in this memory format oneDNN's gradient of a strided 1 x 1 convolution can crash (oneDNN issue 6035): see torch"
    return unsupported(net, config, options)


PEER = Rung(
    name="torch",
    title="PyTorch, eager",
    idea="PyTorch's own operations, autograd and SGD on the CPU; the training set is one float32 tensor, and a step picks its rows.",
    build=build,
    unsupported=unsupported,
    options=ThreadOptions(),
)

CHANNELS_LAST = Rung(
    name="torch-channels-last",
    title="PyTorch, eager, NHWC",
    idea="As torch, with images and convolution weights in the channels-last memory format, which oneDNN's convolutions prefer.",
    build=partial(build, channels_last=True),
    unsupported=unsupported_channels_last,
    options=ThreadOptions(),
)
