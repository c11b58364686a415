"""The state of `torch.optim.SGD`, from and to: settings by name, and the momentum of each parameter by its number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..checkpoint import Checkpoint, flat_weights
from ..config import TrainConfig
from ..data.foreign import to_numpy
from ..errors import CheckpointError, ConfigError
from ..nets import Net
from ..params import slots, views

#: PyTorch's names of what both have.
_SETTINGS = {"lr": "learning_rate", "momentum": "momentum", "weight_decay": "weight_decay", "nesterov": "nesterov"}

#: What only PyTorch has, and what means that it is off.
_OFF = {"dampening": 0, "maximize": False}


def to_torch(checkpoint: Checkpoint) -> dict[str, Any]:
    """What `torch.optim.SGD.state_dict` gives for the same parameters, with NumPy's arrays."""
    config, velocity = checkpoint.config, checkpoint.velocity
    if config.clip_value is not None:
        raise ConfigError(
            f"torch.optim.SGD clips no gradients, this run clips them to {config.clip_value:g}: call clip_grad_value_ before step"
        )
    group: dict[str, Any] = {theirs: getattr(config, ours) for theirs, ours in _SETTINGS.items()}
    state = {number: {"momentum_buffer": array.copy()} for number, array in enumerate(velocity.values())}
    return {"state": state, "param_groups": [group | _OFF | {"params": list(range(len(checkpoint.params)))}]}


def from_torch(net: Net, state_dict: Mapping[str, Any]) -> tuple[TrainConfig, dict[str, np.ndarray]]:
    """The settings and the momentum of an optimizer's `state_dict`.

    Returns
    -------
    config : TrainConfig
        Of no epochs.
    velocity : dict
        float32 arrays under the names of the parameters; zeros where PyTorch has made no buffer yet, empty without momentum.

    Raises
    ------
    CheckpointError
        It is no state of `torch.optim.SGD` for this net.
    ConfigError
        It asks for what ours does not do.
    """
    groups = state_dict.get("param_groups") if isinstance(state_dict, Mapping) else None
    if not isinstance(groups, list) or not groups or not isinstance(state_dict.get("state"), Mapping):
        raise CheckpointError("optimizer is no optimizer.state_dict(): it wants state and param_groups")
    if len(groups) > 1:
        raise ConfigError(
            f"the optimizer has {len(groups)} groups of parameters with settings of their own; here all parameters share theirs"
        )
    group, places = groups[0], slots(net)
    if lacking := [name for name in _SETTINGS if name not in group]:
        raise CheckpointError(f"optimizer is not of torch.optim.SGD: its settings lack {', '.join(lacking)}")
    if on := [name for name, off in _OFF.items() if group.get(name, off) != off]:
        raise ConfigError(f"the optimizer uses {' and '.join(on)}, which SGD here does not have")
    if len(group.get("params", ())) != len(places):
        raise CheckpointError(f"the optimizer has {len(group.get('params', ()))} parameters, net {net.name!r} has {len(places)}")
    config = TrainConfig(epochs=0, **{ours: _plain(group[theirs]) for theirs, ours in _SETTINGS.items()})
    buffers = {slot.name: _buffer(state_dict["state"], number) for number, slot in zip(group["params"], places, strict=True)}
    if not config.momentum:
        return config, {}
    filled = {slot.name: np.zeros(slot.shape, np.float32) if buffers[slot.name] is None else buffers[slot.name] for slot in places}
    return config, views(net, flat_weights(net, filled, "optimizer"))


def _buffer(state: Mapping[Any, Any], number: Any) -> np.ndarray | None:
    found = state.get(number, {}).get("momentum_buffer")
    return None if found is None else to_numpy(found, f"the momentum of parameter {number}")


def _plain(value: Any) -> Any:
    """A number of Python's: a learning rate may be a tensor."""
    return value if isinstance(value, (bool, int, float)) else float(value)
