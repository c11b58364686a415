"""Peaks of GPUs by unit and precision, for floors, and the precisions that a GPU lacks."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import DeviceError
from .precision import named

Capability = tuple[int, int]

#: Compute capability of Hopper: the only GPUs with wgmma, and the first with a copy engine for tiles.
HOPPER: Capability = (9, 0)

#: Multiplying units of a multiprocessor: the ordinary ones, called CUDA cores, and the units for small matrices.
CORES, TENSOR = "cores", "tensor cores"

#: FLOPs of a multiprocessor per clock without sparsity, by compute capability, unit and precision, from NVIDIA's data
#: sheets; of the fastest GPU of a capability, since times below the floor are refused. Newer GPUs take the last entry.
RATES: dict[Capability, dict[str, dict[str, int]]] = {
    (7, 0): {CORES: {"fp64": 64, "fp32": 128}, TENSOR: {"fp16": 1024}},
    (7, 5): {CORES: {"fp64": 4, "fp32": 128}, TENSOR: {"fp16": 1024}},
    (8, 0): {CORES: {"fp64": 64, "fp32": 128}, TENSOR: {"fp64": 128, "tf32": 1024, "bf16": 2048, "fp16": 2048}},
    (8, 6): {CORES: {"fp64": 4, "fp32": 256}, TENSOR: {"tf32": 512, "bf16": 1024, "fp16": 1024}},
    (8, 7): {CORES: {"fp64": 4, "fp32": 256}, TENSOR: {"tf32": 1024, "bf16": 2048, "fp16": 2048}},
    (8, 9): {CORES: {"fp64": 4, "fp32": 256}, TENSOR: {"tf32": 512, "bf16": 1024, "fp16": 1024}},
    (9, 0): {CORES: {"fp64": 128, "fp32": 256}, TENSOR: {"fp64": 256, "tf32": 2048, "bf16": 4096, "fp16": 4096}},
    (10, 0): {CORES: {"fp64": 128, "fp32": 256}, TENSOR: {"fp64": 256, "tf32": 4096, "bf16": 8192, "fp16": 8192}},
}

#: Tensor core products for one product of fp32's accuracy: each factor is split into two of 11 bits, and the smallest
#: of the four products left out.
SPLIT = 3


@dataclass(frozen=True)
class Peaks:
    """Peak rates of a GPU with this compute capability; multiprocessors : their number. clock : highest clock in Hz."""

    capability: Capability
    multiprocessors: int
    clock: float

    def of(self, precision: str, unit: str | None = None) -> float:
        """Peak FLOP/s of products in a precision, at the highest clock. Raises `DeviceError` if the GPU, or the unit,
        lacks it.

        unit : "cores", "tensor cores", or None for the usual one: cores for fp32, else tensor cores if they support it.
        """
        rates, name = self._rates(), named(precision).name
        if unit is None:
            unit = TENSOR if name != "fp32" and name in rates[TENSOR] else CORES
        split = name == "fp32" and unit == TENSOR
        rate = rates[TENSOR]["fp16"] / SPLIT if split else rates[unit].get(name)
        if rate is None:
            raise DeviceError(
                self.lacks(name) or f"the {unit} of a GPU of compute capability {self._capability()} have no {name}"
            )
        return self.multiprocessors * self.clock * rate

    def lacks(self, precision: str) -> str | None:
        """Reason why the GPU lacks products in a precision; None if it has them."""
        name = named(precision).name
        if any(name in rates for rates in self._rates().values()):
            return None
        first = min(capability for capability, units in RATES.items() if any(name in rates for rates in units.values()))
        return self.precedes(first, f"{name} needs")

    def precedes(self, first: Capability, needs: str) -> str | None:
        """Reason why the GPU is older than a compute capability, or None. needs : subject and verb, as "bf16 needs"."""
        if self.capability >= first:
            return None
        wanted = f"{first[0]}.{first[1]}"
        return f"{needs} a GPU of compute capability {wanted} or later, and this one has {self._capability()}"

    def _rates(self) -> dict[str, dict[str, int]]:
        known = max((capability for capability in RATES if capability <= self.capability), default=min(RATES))
        return RATES[known]

    def _capability(self) -> str:
        return f"{self.capability[0]}.{self.capability[1]}"
