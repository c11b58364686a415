"""Conversion of an optimizer's state from and to PyTorch: settings by name, slots by the parameter's number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..checkpoint import Checkpoint, flat_weights
from ..checkpoint.content import param_shapes
from ..config import TrainConfig
from ..data.convert import to_numpy
from ..errors import CheckpointError, ConfigError
from ..nets.params import param_slices, views
from ..optimizers import SGD, Adam, AdamW, Optimizer, RMSprop

#: PyTorch's names of the common settings, with ours.
_SETTINGS: dict[type[Optimizer], dict[str, str]] = {
    SGD: {"lr": "learning_rate", "momentum": "momentum", "weight_decay": "weight_decay", "nesterov": "nesterov"},
    Adam: {"lr": "learning_rate", "betas": "betas", "eps": "eps", "weight_decay": "weight_decay"},
    AdamW: {"lr": "learning_rate", "betas": "betas", "eps": "eps", "weight_decay": "weight_decay"},
    RMSprop: {
        "lr": "learning_rate",
        "alpha": "alpha",
        "eps": "eps",
        "weight_decay": "weight_decay",
        "momentum": "momentum",
    },
}

#: Settings that only PyTorch has, and the values that switch them off; foreach and fused make no difference.
_OFF: dict[type[Optimizer], dict[str, Any]] = {
    SGD: {"dampening": 0, "maximize": False},
    Adam: {"amsgrad": False, "maximize": False, "decoupled_weight_decay": False},
    AdamW: {"amsgrad": False, "maximize": False, "decoupled_weight_decay": True},
    RMSprop: {"centered": False, "maximize": False},
}


def to_torch(checkpoint: Checkpoint) -> dict[str, Any]:
    """`state_dict` of PyTorch's optimizer of the same name for the same parameters, with NumPy arrays."""
    config, kind = checkpoint.config, type(checkpoint.config.optimizer)
    if kind not in _SETTINGS:
        raise ConfigError(
            f"{kind.__name__} is none of PyTorch's optimizers that are known here: "
            f"{', '.join(each.__name__ for each in _SETTINGS)}"
        )
    if config.clip_value is not None:
        raise ConfigError(
            f"torch.optim.{kind.__name__} clips no gradients, this run clips them to {config.clip_value:g}: "
            "call clip_grad_value_ before step"
        )
    if config.clip_norm is not None:
        raise ConfigError(
            f"torch.optim.{kind.__name__} clips no gradients, this run clips their norm to {config.clip_norm:g}: "
            "call clip_grad_norm_ before step"
        )
    if checkpoint.last is not None and checkpoint.best_epoch != checkpoint.epoch:
        raise ConfigError(
            f"the weights are those of epoch {checkpoint.best_epoch}, and the optimizer's state is that of epoch "
            f"{checkpoint.epoch}: begin with a new optimizer"
        )
    group = {theirs: getattr(config.optimizer, ours) for theirs, ours in _SETTINGS[kind].items()}
    state: dict[int, dict[str, np.ndarray]] = {}
    for slot, named in checkpoint.slots.items():
        for number, array in enumerate(named.values()):
            state.setdefault(number, {} if kind is SGD else {"step": np.array(checkpoint.made, np.float32)})[slot] = (
                array.copy()
            )
    return {
        "state": state,
        "param_groups": [group | _OFF[kind] | {"params": list(range(len(param_slices(checkpoint.net))))}],
    }


def from_torch(made: Checkpoint, state_dict: Mapping[str, Any]) -> Checkpoint:
    """Checkpoint without epochs: its weights, with settings, slots and number of updates of an optimizer's
    `state_dict`.

    Slots that PyTorch has not made yet are zeros.
    Raises CheckpointError: the mapping is no state of a known optimizer, or belongs to other parameters.
    Raises ConfigError: the optimizer here lacks a setting, for example dampening.
    """
    groups = state_dict.get("param_groups") if isinstance(state_dict, Mapping) else None
    if not isinstance(groups, list) or not groups or not isinstance(state_dict.get("state"), Mapping):
        raise CheckpointError("optimizer is no optimizer.state_dict(): it wants state and param_groups")
    if len(groups) > 1:
        raise ConfigError(
            f"the optimizer has {len(groups)} groups of parameters with settings of their own; here all "
            "parameters share theirs"
        )
    net, group, tensors = made.net, groups[0], param_slices(made.net)
    kind = _kind(group)
    if on := [name for name, off in _OFF[kind].items() if group.get(name, off) != off]:
        raise ConfigError(f"the optimizer uses {' and '.join(on)}, which {kind.__name__} here does not have")
    if len(group.get("params", ())) != len(tensors):
        raise CheckpointError(
            f"the optimizer has {len(group.get('params', ()))} parameters, net {net.name!r} has {len(tensors)}"
        )
    optimizer = kind(**{ours: _plain(group[theirs]) for theirs, ours in _SETTINGS[kind].items()})
    state = [state_dict["state"].get(number, {}) for number in group["params"]]
    slots = {}
    for name in optimizer.slots:
        found = {place.name: _kept(entry, name, place.name) for place, entry in zip(tensors, state, strict=True)}
        filled = {
            place.name: np.zeros(place.shape, np.float32) if found[place.name] is None else found[place.name]
            for place in tensors
        }
        slots[name] = views(net, flat_weights(net, filled, "optimizer", shapes=param_shapes(net)))
        if name.endswith(("_sq", "square_avg")) and any((array < 0).any() for array in slots[name].values()):
            raise CheckpointError(f"the optimizer holds {name} below 0, where means of squares are wanted")
    updates = made.updates if kind is SGD else _updates(state)
    return replace(made, config=TrainConfig(epochs=0, optimizer=optimizer), slots=slots, updates=updates)


def _kind(group: Mapping[str, Any]) -> type[Optimizer]:
    """Class of the optimizer with these settings; Adam and AdamW differ only by a setting of newer PyTorch versions."""
    if all(name in group for name in _SETTINGS[SGD]):
        return SGD
    if all(name in group for name in (*_SETTINGS[RMSprop], "centered")):
        return RMSprop
    if not all(name in group for name in (*_SETTINGS[Adam], "amsgrad")):
        raise CheckpointError("optimizer is not of torch.optim.SGD, Adam, AdamW or RMSprop: its settings are others")
    decoupled = group.get("decoupled_weight_decay")
    if decoupled is None and group["weight_decay"]:
        raise CheckpointError(
            "this version of PyTorch does not say whether the optimizer is Adam or AdamW: set "
            "decoupled_weight_decay in its param_groups, "
            "to False for Adam or to True for AdamW"
        )
    return AdamW if decoupled else Adam


def _updates(state: list[Mapping[str, Any]]) -> int:
    """Number of updates of PyTorch's Adam or RMSprop, which count them for each parameter."""
    counts = {float(entry.get("step", 0)) for entry in state}
    count = counts.pop() if len(counts) == 1 else -1.0
    if not (0 <= count < 2**53 and count == int(count)):
        raise CheckpointError("the optimizer has updated some parameters more often than others: here all go together")
    return int(count)


def _kept(entry: Mapping[str, Any], name: str, parameter: str) -> np.ndarray | None:
    found = entry.get(name)
    return None if found is None else to_numpy(found, f"{name} of {parameter}")


def _plain(value: Any) -> Any:
    """Python number or tuple of a PyTorch setting: a learning rate may be a tensor."""
    if isinstance(value, (tuple, list)):
        return tuple(map(_plain, value))
    return value if isinstance(value, (bool, int, float)) else float(value)
