"""`from_torch`: from a PyTorch module to a model; `to_torch`: from a model to a PyTorch module. Only `to_torch`
imports torch.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, RungError
from ..errors.arguments import called_by_name, kind_of, wanted
from ..nets import Loss, Shape
from ..nets.torch_module import check_sequential, net_of_module, parameters_of
from .model import Model

if TYPE_CHECKING:
    from torch import nn


@called_by_name
def from_torch(
    module: nn.Sequential,
    in_shape: Shape | None = None,
    *,
    loss: Loss | nn.Module | None = None,
    optimizer: Any = None,
    scale: float = 1.0,
    classes: Sequence[str] = (),
    name: str = "torch",
) -> Model:
    """Model with the net and weights of a `torch.nn.Sequential`.

    Parameters
    ----------
    module : torch.nn.Sequential
        Module whose parts are layers here too, also nested. `nn.Identity` is left out.
    in_shape : tuple of int, optional
        Shape of one sample, (channels, height, width) or (features,); not needed if a Linear is first.
    loss : optional
        CrossEntropyLoss or another loss, of warpladder or of `torch.nn`; by default CrossEntropyLoss for a flat output,
        and MSELoss for images.
    optimizer : torch.optim.Optimizer, optional
        SGD, Adam, AdamW or RMSprop over `module.parameters()`: its settings and state.
    scale, classes : optional
        Parameters of `Model.from_state_dict`.
    name : str
        Name of the net.

    Returns
    -------
    Model
        Model that predicts; `train(model.net, data, weights=model)` trains on from its weights.

    Raises
    ------
    ArgumentError, NetError
        The module is no Sequential, or has a part that is no layer here; the message has its name and place.
    """
    units = next(iter(getattr(module, "_modules", {}).values()), None)
    has_units = type(units).__module__ == "warpladder.rungs.peers.torch.units"  # a module of `to_torch`
    if has_units:
        check_sequential("the module", module)
    inner = module[1:] if has_units else module
    net = net_of_module(inner, in_shape, loss, name)
    state = None if optimizer is None else _state_of(optimizer, inner)
    scale = units.scale if has_units else scale  # type: ignore[union-attr]
    model = Model.from_state_dict(net, parameters_of(net, inner), state, scale=scale, classes=classes)
    if not has_units:
        return model
    mark = replace(model.checkpoint.data, mean=units.mean, std=units.std)  # type: ignore[union-attr]
    return Model(replace(model.checkpoint, data=mark))


def _state_of(optimizer: Any, module: nn.Module) -> Any:
    """`state_dict` of an optimizer. Raises `ArgumentError` if its parameters are not those of the module, in order."""
    groups = getattr(optimizer, "param_groups", None)
    if groups is None:
        raise ArgumentError(
            "optimizer wants one of torch.optim, as torch.optim.SGD(module.parameters(), lr=0.1), got "
            f"{kind_of(optimizer)}"
        )
    theirs, ours = [each for group in groups for each in group["params"]], list(module.parameters())
    if len(theirs) == len(ours) and any(a is not b for a, b in zip(theirs, ours, strict=True)):
        raise ArgumentError(
            "optimizer has the parameters of another module, or these in another order, so that its state would go to "
            "wrong ones: make it of module.parameters()"
        )
    return optimizer.state_dict()


@called_by_name
def to_torch(model: Model) -> nn.Sequential:
    """PyTorch module with the weights of a model; its outputs are equal for samples in the same units.

    Parameters
    ----------
    model : Model or Run

    Returns
    -------
    torch.nn.Sequential
        Module in evaluation mode, float32, or float64 for a run in fp64. Its `state_dict` has the names of the model's.
        If samples are scaled or standardised, a first module, "units", does it; `module[1:]` is the net alone. After
        training on a table the module takes encoded rows, `model.encode(frame)`, and gives `model.outputs(frame)`.

    Raises
    ------
    RungError
        PyTorch is not installed, or `torch.nn` lacks a layer of the net.
    """
    wanted("to_torch", model, Model, "a Run or a Model, as wl.train and wl.load return")
    mark = model.checkpoint.data
    try:
        import torch

        from ..rungs.peers.torch.net import sequential
        from ..rungs.peers.torch.units import Units
    except ImportError as error:
        raise RungError(f"PyTorch cannot be imported ({error}): pip install 'warpladder[torch]'") from None
    element = torch.float64 if model.checkpoint.element == "float64" else torch.float32
    net = sequential(model.net).to(element)
    net.load_state_dict({name: torch.from_numpy(array) for name, array in model.state_dict().items()})
    for each in net.modules():
        if getattr(each, "inplace", False):
            setattr(each, "inplace", False)  # noqa: B010
    if mark.mean or mark.scale != 1.0:
        units = Units(mark.scale, mark.mean, mark.std, element)
        net = torch.nn.Sequential(OrderedDict([("units", units), *net.named_children()]))
    return net.eval()
