"""`torch_peer`: peer for a user's own PyTorch module, in a file that is climbed next to the ladder."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ....config import TrainConfig
from ....errors import ArgumentError
from ....errors.arguments import kind_of
from ....nets import Net
from ....nets.params import buffer_slices, param_slices
from ....trainers.base import State, Trainer
from ...base import Rung
from ...reasons import of_masks
from . import PEER

if TYPE_CHECKING:
    from torch import nn


def torch_peer(name: str, title: str, make: Callable[[Net], nn.Module]) -> Rung:
    """Make a peer that trains a PyTorch module on the CPU, by the loop and optimizers of the peer torch.

    Parameters
    ----------
    name, title : str
        As in `Rung`.
    make : callable
        Function from a net to the module, for instance a class whose `__init__` takes a net. The module's parameters
        have the shapes of the net's, in the net's order, and any names. It maps samples (n, *in_shape) float32 to
        outputs.

    Returns
    -------
    Rung
        `RUNG = torch_peer(...)` in a file makes that file a peer: `climb --rungs numpy,./mine.py`.
    """
    if not callable(make) or (hasattr(make, "forward") and not isinstance(make, type)):
        raise ArgumentError(
            f"torch_peer wants a function from a net to a module, for instance its class, got {kind_of(make)}"
        )
    idea = f"{getattr(make, '__name__', name)}, a PyTorch module of one's own, with autograd and torch.optim."
    return Rung(name, title, idea, partial(_build, make), partial(_unsupported, make), peer=True)


def _build(make: Callable[[Net], nn.Module], net: Net, config: TrainConfig, state: State) -> Trainer:
    from .trainer import TorchTrainer

    return TorchTrainer(net, config, state, model=make(net))


def _unsupported(make: Callable[[Net], nn.Module], net: Net, config: TrainConfig) -> str | None:
    """Reason why the module cannot train the net; None if it can."""
    if reason := PEER.unsupported(net, config):
        return reason
    if reason := of_masks(net):
        return reason
    module = make(net)
    found = [(name, tuple(each.shape)) for name, each in module.named_parameters()]
    wanted = [(place.name, place.shape) for place in param_slices(net)]
    if len(found) != len(wanted):
        return f"its module has {len(found)} parameters, net {net.name!r} has {len(wanted)}"
    for (theirs, shape), (ours, other) in zip(found, wanted, strict=True):
        if shape != other:
            return f"its parameter {theirs} has shape {shape}, and {ours} of net {net.name!r} has {other}"
    from .trainer import statistics

    held, running = [tuple(each.shape) for each in statistics(module)], [place.shape for place in buffer_slices(net)]
    if held != running:
        return f"its module keeps buffers of shapes {held}, and net {net.name!r} running statistics of {running}"
    return _other_outputs(module, net)


def _other_outputs(module: nn.Module, net: Net) -> str | None:
    """Reason why a module's outputs are not the net's; None if they have their shape, or if computing them fails: the
    proof then shows where, and other rungs go on.
    """
    import torch

    try:
        with torch.no_grad():
            out = module.eval()(torch.zeros(2, *net.in_shape))
    except Exception:
        return None
    shape = tuple(getattr(out, "shape", ()))
    if shape == (2, *net.out_shape):
        return None
    return (
        f"its module makes outputs {shape or kind_of(out)} of 2 samples, net {net.name!r} makes {(2, *net.out_shape)}"
    )
