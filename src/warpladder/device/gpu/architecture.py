"""Which machine code a GPU runs: its compute capability, and the architectures that sources and NVRTC know."""

from __future__ import annotations

import re

from ...errors import DeviceError, KernelError
from .. import Source
from .compile import architectures, version

Capability = tuple[int, int]


def native(capability: Capability, name: str) -> str:
    """The architecture to compile for: the GPU's own, or the nearest one of its generation that this NVRTC knows;
    `DeviceError` without any.
    """
    major, minor = capability
    fit = [number for number in architectures() if number // 10 == major and number % 10 <= minor]
    if not fit:
        raise DeviceError(
            f"NVRTC {version()[0]}.{version()[1]} does not know {name} (compute capability {major}.{minor}): pip install -U nvidia-cuda-nvrtc"
        )
    return f"sm_{max(fit)}"


def target(source: Source, capability: Capability, arch: str) -> str:
    """What a source is compiled for on a GPU of this capability, whose own architecture is `arch`; `KernelError` where
    it is written for others.

    sm_90a runs on 9.0 alone, sm_100f on 10.0 and later 10s; what is written for sm_80 is compiled anew for whatever is
    later.
    """
    number = 10 * capability[0] + capability[1]
    declared = [re.fullmatch(r"sm_(\d+)([af]?)", each) for each in source.archs]
    known = [(int(match[1]), match[2]) for match in declared if match]
    for own, suffix in known:
        if (suffix and own == number) or (suffix == "f" and own // 10 == capability[0] and own <= number):
            return f"sm_{own}{suffix}"
    if any(not suffix and own <= number for own, suffix in known):
        return arch
    raise KernelError(f"{source.path} is written for {', '.join(source.archs)}, and this GPU is an sm_{number}")
