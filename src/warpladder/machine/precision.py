"""Precisions: number formats of products, with the facts that proofs, peaks and buffers need."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..errors.arguments import shown


@dataclass(frozen=True)
class Precision:
    """Number format in which a rung or a peer computes products.

    name : in options, tables and results: "fp64", "fp32", "tf32", "bf16" or "fp16".
    numpy : name in NumPy and PyTorch, an alias for users; empty if they have no such type.
    element : NumPy's name of the type of parameters, gradients, slots, and so of `State`.
    roundoff : unit roundoff of the format of sums.
    factors : unit roundoff of the format of a product's factors, if it is coarser; else 0.
    stored : True if a product's results are rounded to that coarser format too.
    wide : True if the gradients of a batch's samples are added in fp64 all the same, and rounded once, as an option.
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
        """This precision with batch gradients added in float64 if sums is "fp64", in its own format if it is "fp32"."""
        if sums not in SUMS:
            raise ValueError(f"sums wants one of {', '.join(SUMS)}, got {shown(sums)}")
        return replace(self, wide=sums == "fp64" and self.element != "float64")

    @property
    def itemsize(self) -> int:
        """Bytes of a parameter, a gradient or a number in a slot."""
        return 8 if self.element == "float64" else 4


#: Every precision by its name, the finest first.
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

#: Orders in which gradients of a batch's samples may be added.
SUMS = ("fp32", "fp64")

#: Other names of the precisions.
ALSO = {each.numpy: each.name for each in PRECISIONS.values() if each.numpy}


def named(name: str | Precision) -> Precision:
    """Precision of a name, "bf16" or "bfloat16"; `ValueError` with a list of names for an unknown one."""
    if isinstance(name, Precision):
        return name
    known = PRECISIONS.get(ALSO.get(name, name)) if isinstance(name, str) else None
    if known is None:
        raise ValueError(f"precision wants one of {', '.join(PRECISIONS)}, got {shown(name)}")
    return known
