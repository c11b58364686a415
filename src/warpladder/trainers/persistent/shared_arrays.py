"""Pieces of the kernels' texts: their parameters, and arrays of a block's shared memory with the lines that declare,
fill and store them.
"""

from __future__ import annotations

from collections.abc import Mapping

#: Beginning of each kernel, with its parameters; `kernel` is its name, `pixel` the type of a sample's stored number.
KERNEL_HEAD = """\
extern "C" __global__ void __launch_bounds__(THREADS, 1) {kernel}(
    const {pixel}* samples, float scale, const int* labels, const float* targets, const unsigned* orders, int count,
    int batch, int first, int steps, int total, float* params, float* slot1, float* slot2, float limit,
    const float4* numbers, int constant, float* work, int* chosen, int* target, unsigned* arrived, double* lost,
    long long* hits, double* loss, long long* correct, const unsigned long long* map_words
) {{
"""

#: Arrays of a layer's parameters and of the optimizer's slots: in the block, and flat in global memory.
OWN, FLAT = ("w", "v", "u"), ("params", "slot1", "slot2")


def offsets(sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """Offset in floats of each array, one after the other, and the floats of all. sizes : multiples of four."""
    places, floats = {}, 0
    for name, size in sizes.items():
        places[name] = floats
        floats += size
    return places, floats


def declarations(places: Mapping[str, int]) -> str:
    """Lines that declare the arrays of `held`, the block's shared memory."""
    return "\n".join(f"    float* const {name} = held + {offset};" for name, offset in places.items())


def moves(function: str, slots: int, at: tuple[int, int]) -> dict[str, str]:
    """Lines with the calls of a function that copies a layer's parameters and slots: `into` the block, and `back`.

    at : offsets of weight and bias in the flat arrays.
    """
    pairs = list(zip(FLAT, OWN, strict=True))[: 1 + slots]
    return {
        way: "\n".join(f"    {function}<Divided, {into}>({flat}, {own}, {at[0]}, {at[1]});" for flat, own in pairs)
        for way, into in (("into", "true"), ("back", "false"))
    }


def stepped(slots: int) -> str:
    """Arguments of a `Stepper`: the block's parameters and slots, null for those that the optimizer lacks."""
    return ", ".join([*OWN[: 1 + slots], *["nullptr"] * (2 - slots)])
