"""Length of the processor's vectors and width of a panel of weights, found without importing numba."""

from __future__ import annotations

import platform

from ....ops.jit.target import target

#: the sum of two vectors of 512 bits, which shows in which registers a processor adds them
_SIXTEEN = (
    "define <16 x float> @f(<16 x float> %a, <16 x float> %b) { %c = fadd <16 x float> %a, %b\n ret <16 x float> %c }"
)


def _lanes() -> int:
    """Number of float32 lanes of a vector register of numba's target: this machine's processor, or NUMBA_CPU_NAME's."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return 4
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    processor, features = target()
    machine = llvm.Target.from_default_triple().create_target_machine(cpu=processor, features=features)
    # found by compiling an example: a processor's name stands for features that no list has
    return 16 if "zmm" in machine.emit_assembly(llvm.parse_assembly(_SIXTEEN)) else 8


LANES = _lanes()
WIDE = LANES == 16  # AVX-512: 32 registers, twice as long as AVX2's
VECTORS = 2  # of a tile's row
WIDTH = LANES if WIDE else 2 * LANES  # columns of a panel of weights: the same, and so the padding, for every x86
TOGETHER = VECTORS * LANES // WIDTH  # panels that a tile multiplies at once
