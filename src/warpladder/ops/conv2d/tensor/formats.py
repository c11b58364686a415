"""Storage formats of the factors of products on tensor cores, by the precision of the chain."""

from dataclasses import dataclass


@dataclass(frozen=True)
class FactorFormat:
    """Storage format of a factor of a product in kernels.

    name : template argument, as in device/include/tensor_panels.cuh.
    work : time of a product on tensor cores, in units of a bf16 product's time.
    bytes : bytes of a number in shared memory.
    has_scales : True if each line of numbers is multiplied by a power of two.
    """

    name: str
    work: int
    bytes: int
    has_scales: bool

    @property
    def copies(self) -> int:
        """16-bit numbers that store one number: two, a high and a low half, if it is split, else one."""
        return 2 if self.name == "SPLIT" else 1


#: By precision: fp32 is split into two halves, the others are rounded.
FORMATS = {
    "fp32": FactorFormat("SPLIT", 3, 4, True),
    "tf32": FactorFormat("TF32", 2, 4, False),
    "bf16": FactorFormat("BF16", 1, 2, False),
    "fp16": FactorFormat("HALF", 1, 2, True),
}

#: As `FORMATS`, for kernels that multiply tf32 as scaled halves: a half has tf32's 11 bits, at twice the speed. Below
#: 2^-28 of the largest number of its line a number has fewer bits.
HALF_FORMATS = FORMATS | {"tf32": FORMATS["fp16"]}
