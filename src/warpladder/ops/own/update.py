"""Optimizer's step by a user's kernel.

Its numbers differ from step to step and are on the device. So the user's kernel becomes a device function, and a
generated kernel calls it with the numbers of the running step.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import ClassVar

from ...config import TrainConfig
from ...device import Array, Device, KernelSource
from ...device.signature import Parameter
from ...errors import KernelError
from ...optimizers.base import NUMBERS
from ..engine.kernels import Launches
from ..update.cuda import NaiveUpdate
from .kernel_file import KernelFile, OwnLaunch, numbers_of, shape
from .roles import columns

NAME = "own_update"
_HEAD = "float* w, const float* g, float* first, float* second, long long count, float limit, const float* table, "


class OwnUpdate(NaiveUpdate):
    """Update by a user's kernel; `file` has one launch."""

    file: ClassVar[KernelFile]

    def __init__(
        self, device: Device, config: TrainConfig, params: Array, grads: Array, slots: tuple[Array, ...],
        block_size: int
    ) -> None:  # fmt: skip
        super().__init__(device, config, params, grads, slots, block_size)
        self.kernel = device.kernel(wrapped(self.file, config), NAME)

    def step(self, numbers: Array, step: Array | None) -> Launches:
        (launch,), count = self.file.launches, self.params.size
        known = numbers_of(self.file, launch, {"count": count})
        grid, block, shared = shape(self.file, launch, {"w": self.params}, known)
        return [self.kernel.bind(grid, block, *self.arguments(count, numbers, step), shared=shared)]


def lacks(file: KernelFile, config: TrainConfig) -> str | None:
    """Reason why a file's kernel cannot make the optimizer's step with these settings; None if it can."""
    if len(file.launches) != 1:
        return f"{file.path} has {len(file.launches)} kernels that write w: an update is one"
    (launch,), optimizer = file.launches, config.optimizer
    missing = [
        name for slot, name in zip(("first", "second"), optimizer.slots, strict=False) if slot not in launch.takes
    ]
    if missing:
        return f"kernel {launch.signature.name} of {file.path} does not take {missing[0]}, which {optimizer.name} keeps"
    if config.clip_value is not None and "limit" not in launch.takes:
        return f"kernel {launch.signature.name} of {file.path} does not take limit, and gradients are clipped"
    return None


def wrapped(file: KernelFile, config: TrainConfig) -> KernelSource:
    """Source of the file with its kernel as a device function, and a generated kernel that calls it."""
    (launch,) = file.launches
    plain = launch.signature.name.partition("<")[0]
    pattern = (
        rf"(?:extern\s+\"C\"\s+)?__global__(?P<middle>[^;{{}}()]*(?:\([^()]*\)[^;{{}}()]*)?\b{re.escape(plain)}\s*\()"
    )
    text, count = re.subn(pattern, _as_function, file.source.text)
    if count != 1:
        raise KernelError(f"{file.path}: cannot read the head of kernel {plain}")
    taken = [_taken(p, text, launch, config) for p, text in zip(launch.signature.parameters, launch.takes, strict=True)]
    kernel = (
        f'\n#line 1 "the launch of {plain}"\nextern "C" __global__ void {NAME}({_HEAD}const int* at) {{\n'
        f"    const float* row = at == nullptr ? table : table + {NUMBERS} * (*at - 1);\n"
        f"    (void)row;\n    {launch.signature.name}({', '.join(taken)});\n}}\n"
    )
    return replace(file.source, text=text + kernel)


def _as_function(match: re.Match[str]) -> str:
    return "static __device__ " + re.sub(r"__launch_bounds__\s*\([^()]*\)", "", match["middle"])


def _taken(parameter: Parameter, text: str, launch: OwnLaunch, config: TrainConfig) -> str:
    """C++ argument for a parameter of the user's kernel in the generated call."""
    kind = f"{parameter.type}*" if parameter.pointer else parameter.type
    if parameter.pointer or text in ("count", "limit"):
        return f"({'const ' * parameter.const}{kind})({text})"
    known = columns(config.optimizer)
    if text in known:
        return f"({kind})row[{known.index(text)}]"
    if re.fullmatch(r"[\d.]+(?:[eE][-+]?\d+)?f?", text):
        return text
    raise KernelError(f"kernel {launch.signature.name}: {parameter}: no number of {config.optimizer.name} is {text!r}")
