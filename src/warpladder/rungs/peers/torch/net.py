"""Nets in PyTorch, as an `nn.Sequential` and as a function of parameters; and the arithmetic of products."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import pairwise

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional

from .... import nets
from ....errors import RungError
from ....nets.params import param_slices
from ..layout import pooled_first
from .masks import Keys, masked
from .residual import ResidualModule


def sequential(net: nets.Net) -> nn.Sequential:
    """PyTorch model equal to the net; its `state_dict` has the net's names, shapes and order."""
    model = nn.Sequential(*_modules(net, iter(range(len(net.layers))))[0])
    wanted = [(place.name, place.shape) for place in param_slices(net)]
    if [(name, tuple(p.shape)) for name, p in model.named_parameters()] != wanted:
        raise RungError(f"net {net.name!r}: PyTorch's parameters are not those of the net")
    return model


def _modules(net: nets.Net, numbers: Iterator[int]) -> tuple[list[nn.Module], nets.Layer | None]:
    """Modules of the layers with the next numbers, up to the end of a residual connection, and the layer that ends it;
    None at the end of the net.
    """
    modules: list[nn.Module] = []
    end: nets.Layer | None = None
    for i in numbers:
        layer = net.layers[i]
        if isinstance(layer, nets.Shortcut | nets.Sum):
            end = layer
            break
        if not isinstance(layer, nets.Branch):
            modules.append(_module(layer, net.shapes[i]))
            continue
        inner, inner_end = _modules(net, numbers)
        projection = _modules(net, numbers) if isinstance(inner_end, nets.Shortcut) else ([], inner_end)
        if projection[1] is None:
            raise RungError(f"net {net.name!r} ends within a Residual, which PyTorch computes as one module")
        through = nn.Sequential(*projection[0]) if isinstance(inner_end, nets.Shortcut) else None
        modules.append(ResidualModule(*inner, projection=through))
    for before, module in pairwise(modules):
        if isinstance(module, nn.ReLU):
            module.inplace = isinstance(before, nn.Linear | nn.Conv2d)  # their backward pass does not read their output
    return modules, end


def _module(layer: nets.Layer, in_shape: tuple[int, ...]) -> nn.Module:
    match layer:
        case nets.Linear():
            return nn.Linear(in_shape[0], layer.out_features, layer.bias)
        case nets.Conv2d():
            sizes = layer.out_channels, layer.kernel_size, layer.stride, layer.padding
            return nn.Conv2d(in_shape[0], *sizes, bias=layer.bias)
        case nets.BatchNorm1d() | nets.BatchNorm2d():
            kind = nn.BatchNorm1d if isinstance(layer, nets.BatchNorm1d) else nn.BatchNorm2d
            return kind(in_shape[0], layer.eps, layer.momentum, layer.affine)
        case nets.ReLU():
            return nn.ReLU()
        case nets.MaxPool2d():
            return nn.MaxPool2d(layer.kernel_size, layer.stride)
        case nets.Upsample2d():
            return nn.Upsample(scale_factor=layer.scale_factor)
        case nets.Flatten():
            return nn.Flatten()
    if reason := lacking(type(layer)):
        raise RungError(reason)
    settings = {field.name: getattr(layer, field.name) for field in fields(layer)}  # type: ignore[arg-type]
    try:
        module: nn.Module = getattr(nn, type(layer).__name__)(**settings)
    except TypeError as error:
        raise RungError(f"torch.nn.{type(layer).__name__} takes other settings than this layer: {error}") from None
    return module


def lacking(kind: type[nets.Layer]) -> str | None:
    """Reason why `torch.nn` has no module named as a layer that is not listed here; None if it has one."""
    found = getattr(nn, kind.__name__, None)
    if isinstance(found, type) and issubclass(found, nn.Module):
        return None
    return f"torch.nn has no {kind.__name__}"


@dataclass
class TrainingBatch:
    """Training arguments of `forward`: keys of random masks, None without any, and a place for running statistics.

    moved : filled with the running statistics after the batch, by name; None if they are to change in place.
    """

    keys: Keys | None = None
    moved: dict[str, torch.Tensor] | None = None


def forward(
    net: nets.Net,
    tensors: Mapping[str, torch.Tensor],
    x: torch.Tensor,
    channels_last: bool,
    batch: TrainingBatch | None = None,
) -> torch.Tensor:
    """Outputs (n, *out_shape) of samples (n, *in_shape) in the parameters' format, in training those of a batch.

    tensors : parameters and running statistics by name. channels_last : images' layout.
    """
    image: nets.Shape | None = None  # shape of the image that a flat vector was, if its channels are last
    entering: list[torch.Tensor] = []
    for i, (layer, shape) in enumerate(pooled_first(net)):
        if image is not None and isinstance(layer, nets.RESIDUAL_PARTS):
            x, image = channels_first(x, image), None
        entering.append(x)
        own = {kind: tensors[f"{net.names[i]}.{kind}"] for kind in layer.param_shapes(shape)}
        match layer:
            case nets.Branch():
                pass
            case nets.Shortcut():
                x = entering[net.skips.stored[i]]
            case nets.Sum():
                x = x + entering[net.skips.stored[i]]
            case nets.Linear():
                x, image = functional.linear(x, own["weight"], own.get("bias")), None
            case nets.Conv2d():
                x = functional.conv2d(x, own["weight"], own.get("bias"), layer.stride, layer.padding)
            case nets.ReLU():
                x = functional.relu(x)
            case nets.MaxPool2d():
                x = functional.max_pool2d(x, layer.kernel_size, layer.stride)
            case nets.Upsample2d():
                x = functional.interpolate(x, scale_factor=float(layer.scale_factor), mode="nearest")
            case nets.Flatten():
                if channels_last and len(shape) == 3:
                    x, image = x.permute(0, 2, 3, 1), shape
                x = x.flatten(1)
            case nets.Dropout():
                if batch is not None and batch.keys is not None:
                    x = masked(layer, x, batch.keys, i, image)
            case nets.BatchNorm1d() | nets.BatchNorm2d():
                x = _normalised(
                    layer, x, own, {k: tensors[f"{net.names[i]}.{k}"] for k in RUNNING}, batch, net.names[i]
                )
            case _:
                x = functional_call(_module(layer, shape), own, (x,))
    return x if image is None else channels_first(x, image)


RUNNING = ("running_mean", "running_var")


def _normalised(
    layer: nets.BatchNorm1d | nets.BatchNorm2d, x: torch.Tensor, own: Mapping[str, torch.Tensor],
    held: dict[str, torch.Tensor], batch: TrainingBatch | None, name: str,
) -> torch.Tensor:  # fmt: skip
    """Output of a normalisation; in training its running statistics `held` change, or their next go to the batch."""
    affine = own.get("weight"), own.get("bias")
    if batch is None or batch.moved is None:
        mean, var = (held[kind] for kind in RUNNING)
        return functional.batch_norm(x, mean, var, *affine, batch is not None, layer.momentum, layer.eps)
    found = torch.var_mean(x.detach().float(), [axis for axis in range(x.ndim) if axis != 1])
    for kind, of_batch in zip(RUNNING, found[::-1], strict=True):
        batch.moved[f"{name}.{kind}"] = (1 - layer.momentum) * held[kind] + layer.momentum * of_batch
    return functional.batch_norm(x, None, None, *affine, True, layer.momentum, layer.eps)


def channels_first(x: torch.Tensor, image: nets.Shape) -> torch.Tensor:
    """Flattened images (n, features) of shape `image` with their channels first, from channels last."""
    c, h, w = image
    return x.reshape(-1, h, w, c).permute(0, 3, 1, 2).flatten(1)


@contextmanager
def arithmetic(precision: str, *, search: bool = True) -> Iterator[None]:
    """Context with PyTorch's process-wide settings for products on a GPU.

    precision : "fp32" and "fp64" switch TF32 off, in matrix products and in convolutions; all else leaves it on.
    search : True if cuDNN times its algorithms on a new shape.
    """
    cudnn, exact = torch.backends.cudnn, precision in ("fp32", "fp64")
    if hasattr(
        torch.backends.cuda.matmul, "fp32_precision"
    ):  # since PyTorch 2.9, which warns where the older names are used
        switches = [
            (torch.backends.cuda.matmul, "fp32_precision"),
            (cudnn.conv, "fp32_precision"),  # type: ignore[attr-defined]
        ]
        wanted: object = "ieee" if exact else "tf32"
    else:
        switches = [(torch.backends.cuda.matmul, "allow_tf32"), (cudnn, "allow_tf32")]
        wanted = not exact
    settings = [*((place, name, wanted) for place, name in switches), (cudnn, "benchmark", search)]
    before = [getattr(place, name) for place, name, _ in settings]
    try:
        for place, name, value in settings:
            setattr(place, name, value)
            if getattr(place, name) != value:
                raise RungError(f"PyTorch does not take the setting {name} = {value!r}")
        yield
    finally:
        for (place, name, _), value in zip(settings, before, strict=True):
            setattr(place, name, value)
