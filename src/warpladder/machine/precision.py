"""Precisions: the number formats that products are computed in, one name for each, and what a proof, a peak and a
buffer need to know of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Precision:
    """A number format that a rung or a peer computes products in.

    name : in options, tables and results: "fp64", "fp32", "tf32", "bf16" or "fp16".
    numpy : what NumPy and PyTorch call the format; empty where they have no type of it. It is understood wherever a
    precision is given.
    element : NumPy's name of the type of parameters, gradients and slots that such a training keeps, and so of its
    `State`.
    roundoff : unit roundoff of the format that sums are kept in.
    factors : unit roundoff of the format that the factors of a product are rounded to, where it is coarser than that of
    the sums; else 0.
    stored : whether what leaves a product is rounded to that coarser format too.
    wide : whether the gradients of a batch's samples are added in fp64 all the same, and rounded once: an option of
    some rungs, of no format by itself.
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
        """Whether factors are rounded before they are multiplied."""
        return self.factors > 0

    def summing(self, sums: str) -> Precision:
        """This precision with the gradients of a batch's samples added in float64 where sums is "fp64", and as
        everything else where it is "fp32".
        """
        if sums not in SUMS:
            raise ValueError(f"sums wants one of {', '.join(SUMS)}, got {sums!r:.80}")
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
    """The precision of a name, "bf16" or "bfloat16".

    Raises ValueError: there is none of this name: one line with those that there are.
    """
    if isinstance(name, Precision):
        return name
    known = PRECISIONS.get(ALSO.get(name, name)) if isinstance(name, str) else None
    if known is None:
        raise ValueError(f"precision wants one of {', '.join(PRECISIONS)}, got {name!r:.80}")
    return known
