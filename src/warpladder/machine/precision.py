"""Precisions: number formats of products, with their facts for proofs, peaks and buffers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..errors.arguments import shown


@dataclass(frozen=True)
class Precision:
    """Number format in which a rung or a peer computes products.

    name : name in options, tables and results: "fp64", "fp32", "tf32", "bf16" or "fp16".
    numpy : name in NumPy and PyTorch, an alias for users; empty if they have no such type.
    element : NumPy dtype of parameters, gradients and slots, and so of `State`.
    roundoff : unit roundoff of the format of sums.
    factors : unit roundoff of the format of a product's factors, if it is coarser; else 0.
    stored : True if a product's results are rounded to this coarser format too.
    wide : True if the option sums="fp64" is set: gradients of a batch's samples are summed in fp64, and rounded once.
    """

    name: str
    numpy: str
    element: str = "float32"
    roundoff: float = 2.0**-24
    factors: float = 0.0
    stored: bool = False
    wide: bool = False

    @property
    def coarse(self) -> bool:
        """True if factors are rounded before they are multiplied."""
        return self.factors > 0

    def summing(self, sums: str) -> Precision:
        """Copy of this precision that adds gradients over the batch in float64 if `sums` is "fp64", in its own format
        if it is "fp32".
        """
        if sums not in SUMS:
            raise ValueError(f"sums wants one of {', '.join(SUMS)}, got {shown(sums)}")
        return replace(self, wide=sums == "fp64" and self.element != "float64")

    @property
    def itemsize(self) -> int:
        """Bytes of a parameter, a gradient or a number in a slot: 4 or 8."""
        return 8 if self.element == "float64" else 4


#: Precisions by name, the finest first.
PRECISIONS = {
    each.name: each
    for each in (
        Precision("fp64", "float64", element="float64", roundoff=2.0**-53),
        Precision("fp32", "float32"),
        Precision("tf32", "", factors=2.0**-11),
        Precision("bf16", "bfloat16", factors=2.0**-8, stored=True),
        Precision("fp16", "float16", factors=2.0**-11, stored=True),
    )
}

#: Types in which gradients of a batch's samples may be summed.
SUMS = ("fp32", "fp64")

#: Other names of the precisions.
ALSO = {each.numpy: each.name for each in PRECISIONS.values() if each.numpy}


def named(name: str | Precision) -> Precision:
    """Precision of a name, "bf16" or "bfloat16". Raises `ValueError` with the known names for an unknown one."""
    if isinstance(name, Precision):
        return name
    known = PRECISIONS.get(ALSO.get(name, name)) if isinstance(name, str) else None
    if known is None:
        raise ValueError(f"precision wants one of {', '.join(PRECISIONS)}, got {shown(name)}")
    return known
