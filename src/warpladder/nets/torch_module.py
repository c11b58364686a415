"""Net of a PyTorch module: an `nn.Sequential` read by the names of its classes and attributes, without importing torch.

A module is read as the layer of its class's name, its settings by the names of the layer's fields. A new layer of
warpladder with PyTorch's name is read without new code, unless its settings have another form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, fields
from typing import Any, cast

from ..errors import ArgumentError, NetError
from ..errors.arguments import kind_of, listed, shown
from ..errors.warning import warn
from .layers import OWN, Layer, Shape
from .losses import LOSSES, CrossEntropyLoss, Loss, MSELoss
from .net import Net, checked_in_shape
from .residual import RESIDUAL_PARTS, Residual, flat

#: Layers whose classes have another name in `torch.nn`.
OTHER_NAMES = {"Upsample": "Upsample2d", "UpsamplingNearest2d": "Upsample2d"}

#: Attributes of modules that are not settings, or that make no difference.
NO_SETTINGS = {
    "training", "inplace", "in_features", "in_channels", "num_features", "output_padding", "transposed", "num_classes",
    "recompute_scale_factor", "name",
}  # fmt: skip

#: Values of settings that a layer lacks, at which PyTorch computes what the layer computes.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "dilation": (1,), "groups": (1,), "padding_mode": ("zeros",), "padding": (0,), "return_indices": (False,),
    "ceil_mode": (False,), "start_dim": (1,), "end_dim": (-1,), "size": (None,), "mode": ("nearest",),
    "align_corners": (None, False), "count_include_pad": (True,), "divisor_override": (None,), "approximate": ("none",),
    "track_running_stats": (True,),
}  # fmt: skip

#: Advice on frequent modules that are no layers of warpladder.
REMEDIES = {
    "Softmax": "CrossEntropyLoss computes it from the logits: leave it out",
    "LogSoftmax": "CrossEntropyLoss computes it from the logits: leave it out",
    "Lazy": "run the module once, so that its sizes are known",
    "Parametrized": "torch.nn.utils.parametrize.remove_parametrizations makes it plain",
}

#: Attributes in which wrappers of PyTorch hold the module that was given to them.
WRAPPED = {"OptimizedModule": "_orig_mod", "DataParallel": "module", "DistributedDataParallel": "module"}


def net_of_module(module: Any, in_shape: Shape | None = None, loss: Any = None, name: str = "torch") -> Net:
    """Net of an `nn.Sequential`, also of nested ones, without `nn.Identity`.

    in_shape : shape of one sample; by default the input of a first `nn.Linear`. loss : of warpladder or `torch.nn`;
    by default CrossEntropyLoss for a flat output, else MSELoss.
    Raises ArgumentError: this is no `nn.Sequential`. Raises NetError: a module is none of the layers, has a setting
    that its layer lacks, occurs twice, or the layers do not fit each other; the message has its place.
    """
    if not is_torch(module, "Sequential"):
        inner, kind = WRAPPED.get(type(module).__name__), kind_of(module)
        kind = f"a Sequential of {type(module).__module__}" if type(module).__name__ == "Sequential" else kind
        raise ArgumentError(
            f"from_torch wants a torch.nn.Sequential, got {kind}: of another module only its state_dict can "
            f"be read, by Model.from_state_dict(net, module.state_dict()){f'; give module.{inner}' * bool(inner)}"
        )
    check_sequential("the module", module)
    places = list(_chain(module))
    parts = list(_parts(places))
    layers = tuple(_layer(place, each) for place, each in places)
    _check_shared(parts)
    first = _in_shape(places, layers) if in_shape is None else checked_in_shape("in_shape", in_shape)
    chosen, shape = _loss(loss), first
    if chosen is None:
        for layer in flat(layers, shape):
            shape = layer.out_shape(shape)
        chosen = CrossEntropyLoss() if len(shape) == 1 else MSELoss()
    net = Net(name, first, layers, chosen)
    _check_sizes(net, parts)
    _warn_of_frozen(module)
    return net


def parameters_of(net: Net, module: Any) -> dict[str, Any]:
    """Parameters and buffers of an `nn.Sequential` under their names in its net."""
    return {
        f"{name}.{kind}": tensor
        for name, (_, each) in zip(net.names, _parts(_chain(module)), strict=True)
        if each is not None
        for kind, tensor in each.state_dict().items()
    }


def is_torch(value: Any, name: str) -> bool:
    """True for a module of the class of `torch.nn` of this name, not of a derived or a traced one."""
    return type(value).__name__ == name and type(value).__module__.startswith("torch.nn.modules.")


def _check_shared(parts: list[tuple[str, Any]]) -> None:
    """Raise `NetError` if a module occurs twice, or two have a parameter, or its numbers, in common."""
    held: dict[int, str] = {}
    for place, each in parts:
        mine = [] if each is None else list(each.parameters())
        if mine and held.setdefault(id(each), place) != place:
            raise NetError(f"module {place} is module {held[id(each)]} again: layers here share no weights")
        for parameter in mine:
            at = 0 if getattr(parameter, "is_meta", False) else parameter.data_ptr()
            if at and (other := held.setdefault(at, place)) != place:
                raise NetError(f"module {place} has a parameter of module {other}: layers here share no weights")


def check_sequential(where: str, module: Any) -> None:
    """Raise `NetError` if a Sequential computes something else than its chain."""
    _check_hooks(where, module)
    if "forward" in vars(module):
        raise NetError(f"{where} has a forward of its own: only a Sequential's own chain is read")


def _chain(module: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Modules of a Sequential in order, with their names, as "0" or "features.0"."""
    for name, each in module._modules.items():
        if is_torch(each, "Sequential"):
            check_sequential(f"module {before}{name}, Sequential,", each)
            yield from _chain(each, f"{before}{name}.")
        elif not is_torch(each, "Identity"):
            yield before + name, each


def _parts(places: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Modules of a net's layers, each with its name; None for `Branch`, `Shortcut` and `Sum`."""
    for place, each in places:
        if not _is_residual(each):
            yield place, each
            continue
        for name in ("layers", "projection"):
            if (chain := getattr(each, name)) is not None:
                yield place, None
                yield from _parts(_chain(chain, f"{place}.{name}."))
        yield place, None


def _is_residual(module: Any) -> bool:
    """True for a module of `to_torch` for a residual connection."""
    return (
        type(module).__name__ == "ResidualModule" and type(module).__module__ == "warpladder.rungs.peers.torch.residual"
    )


def _layer(place: str, module: Any) -> Layer | Residual:
    kind = type(module).__name__
    where = f"module {place}, {kind},"
    if _is_residual(module):
        _check_hooks(where, module)
        chains = [
            [_layer(*each) for each in _chain(chain, f"{place}.{name}.")] if chain is not None else None
            for name, chain in (("layers", module.layers), ("projection", module.projection))
        ]
        return Residual(*chains[0] or (), projection=chains[1] or False)
    known = Layer.known.get(OTHER_NAMES.get(kind, kind))
    if known is None or not is_torch(module, kind):
        start = next((each for each in REMEDIES if kind.startswith(each)), "")
        remedy = REMEDIES.get(start, f"there are {', '.join(_names())}, and Sequentials of them")
        raise NetError(f"module {place} is {'a ' if known else ''}{kind}, which is no layer here: {remedy}")
    _check_hooks(where, module)
    settings = {}
    for field in fields(known):  # type: ignore[arg-type]
        value = getattr(module, field.name, MISSING)
        if field.name == "bias":
            value = getattr(module, "bias", None) is not None
        if value is not MISSING:
            settings[field.name] = _plain(where, field.name, value, module)
    for name, value in vars(module).items():
        if name.startswith("_") or name in settings or name in NO_SETTINGS:
            continue
        usual = NEUTRAL.get(name)
        if usual is None or _one(value) not in usual:
            raise NetError(f"{where} has {name}={shown(value)}: {known.__name__} here has {_fields(known)}")
    parameters = module._parameters
    if "bias" in parameters and parameters["bias"] is None and settings.get("bias", True) and settings.get("affine", 1):
        raise NetError(f"{where} has no bias: {known.__name__} here has one")
    try:
        return known(**settings)
    except NetError as error:
        raise NetError(f"module {place}, {error}") from None


def _check_hooks(where: str, module: Any) -> None:
    if module._forward_hooks or module._forward_pre_hooks:
        raise NetError(f"{where} has hooks, which may change what it computes: remove them")


def _plain(where: str, name: str, value: Any, module: Any) -> Any:
    """Setting in a layer's form: one number for a tuple of equal ones, padding by its size."""
    one = _one(value)
    if name == "padding" and isinstance(one, str):
        size = _one(module.kernel_size)
        if one == "valid":
            return 0
        if isinstance(size, int) and size % 2 and _one(module.stride) == 1:
            return size // 2
    if isinstance(one, tuple):
        raise NetError(f"{where} has {name}={shown(value)}: layers here are square, with one number for both sides")
    return int(one) if name == "scale_factor" and isinstance(one, float) and one == int(one) else one


def _one(value: Any) -> Any:
    """Number of a tuple of equal ones; any other value unchanged."""
    return value[0] if isinstance(value, tuple) and len(set(value)) == 1 else value


def _in_shape(places: list[tuple[str, Any]], layers: tuple[Layer | Residual, ...]) -> Shape:
    """Shape of one sample from a first Linear before which no layer changes shapes; else raises `NetError`."""
    for (_, module), layer in zip(places, layers, strict=True):
        if type(layer).__name__ in ("Linear", "BatchNorm1d"):
            return (int(getattr(module, "in_features", None) or module.num_features),)
        if isinstance(layer, Residual) or type(layer).__name__ == "Flatten" or not _keeps(layer, (2,)):
            break
    raise NetError("the shape of one sample is not known from the module: give it, as in_shape=(1, 28, 28)")


def _keeps(layer: Layer, shape: Shape) -> bool:
    """True if a layer takes samples of this shape and does not change it."""
    try:
        return layer.out_shape(shape) == shape
    except NetError:
        return False


def _loss(loss: Any) -> Loss | None:
    if loss is None or isinstance(loss, tuple(LOSSES.values())):
        return cast("Loss | None", loss)
    kind: Callable[..., Loss] | None = LOSSES.get(type(loss).__name__)
    if kind is None:
        raise NetError(f"loss wants one of {', '.join(LOSSES)}, got {kind_of(loss)}")
    if getattr(loss, "reduction", "mean") != "mean":
        raise NetError(f"{type(loss).__name__} has reduction={loss.reduction!r}: losses here are means")
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    settings = {name: getattr(loss, name) for name in known if hasattr(loss, name)}
    usual = {"ignore_index": -100, "weight": None}
    for name, value in usual.items():
        given = getattr(loss, name, value)
        if name not in known and given is not None and given is not value and given != value:
            raise NetError(f"{type(loss).__name__} has {name}={shown(given)}, which it lacks here")
    return kind(**settings)


def _check_sizes(net: Net, places: list[tuple[str, Any]]) -> None:
    """Raise `NetError` if a module's number of features or channels differs from its input's."""
    for (place, module), shape in zip(places, net.shapes, strict=False):
        for name in ("in_features", "in_channels", "num_features"):
            wanted = getattr(module, name, None)
            if wanted is not None and wanted != shape[0]:
                raise NetError(f"module {place}, {type(module).__name__}, has {name}={wanted}, and {shape[0]} enter it")
        if getattr(module, "weight", None) is not None and math.prod(module.weight.shape) == 0:
            raise NetError(f"module {place}, {type(module).__name__}, has no weights yet: run the module once")


def _warn_of_frozen(module: Any) -> None:
    """Warn of parameters that PyTorch would leave unchanged in training, and of gradients that it would change."""
    if hooked := [name or "the module" for name, each in module.named_modules() if _hooks_gradients(each)]:
        warn(f"{listed(hooked)} has hooks on gradients, which layers here lack: predictions are the same, training not")
    frozen = [name for name, parameter in module.named_parameters() if not parameter.requires_grad]
    if frozen:
        has = "has" if len(frozen) == 1 else "have"
        warn(
            f"{listed(frozen)} {has} requires_grad=False, which layers here lack: predictions are the same, but "
            "training changes every parameter"
        )


def _hooks_gradients(module: Any) -> bool:
    own = module.parameters(recurse=False)
    return bool(module._backward_hooks or module._backward_pre_hooks) or any(each._backward_hooks for each in own)


def _names() -> list[str]:
    theirs = {ours: name for name, ours in OTHER_NAMES.items() if name == "Upsample"}
    own = (name for name, kind in Layer.known.items() if kind.__module__.startswith(OWN) and kind not in RESIDUAL_PARTS)
    return [*(theirs.get(name, name) for name in own), "Residual"]


def _fields(kind: type[Layer]) -> str:
    return ", ".join(field.name for field in fields(kind)) or "no settings"  # type: ignore[arg-type]
