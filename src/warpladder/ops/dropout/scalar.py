"""Hash of one number, for compiled loops: `mix32` of data/order.py in int64.

Compiled code on the CPU, on the rungs loops and native, inlines this function; Python does not call it.
"""


def mixed(x: int) -> int:
    """32-bit hash of x, from 0 to 2^32 - 1."""
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x846CA68B) & 0xFFFFFFFF
    return x ^ (x >> 16)
