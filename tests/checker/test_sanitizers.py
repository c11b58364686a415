"""What AddressSanitizer and UBSan of several compilers say, in our words."""

from __future__ import annotations

import pytest

from warpladder.checker.sanitizers import translated

FRAMES = """
    #0 0x7f in dot(float const*, int) /home/someone/dot.cu:15
    #1 0x7f in emu::Call<&(dot(float const*, int))>::run(void**) /home/someone/the list of kernels:1
"""

SAID = {
    "gcc 12": (
        f"==1==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x62 at pc 0x7f\nREAD of size 4 at 0x62 thread T0{FRAMES}\n"
        "0x62 is located 0 bytes to the right of 4000-byte region [0x61,0x62)\n",
        (
            "out of bounds",
            "a thread reads 4 bytes just after an array of 4,000 bytes, at dot.cu:15",
            [("/home/someone/dot.cu", 15)],
        ),
    ),
    "gcc 13": (
        f"ERROR: AddressSanitizer: heap-buffer-overflow\nWRITE of size 1 at 0x62 thread T0{FRAMES}0x62 is located 8 bytes after 1-byte region [0,1)\n",
        (
            "out of bounds",
            "a thread writes 1 byte 8 bytes after an array of 1 byte, at dot.cu:15",
            [("/home/someone/dot.cu", 15)],
        ),
    ),
    "before": (
        f"ERROR: AddressSanitizer: heap-buffer-overflow\nREAD of size 16 at 0x62{FRAMES}0x62 is located 4 bytes to the left of 64-byte region [0,1)\n",
        (
            "out of bounds",
            "a thread reads 16 bytes 4 bytes before an array of 64 bytes, at dot.cu:15",
            [("/home/someone/dot.cu", 15)],
        ),
    ),
    "a wild pointer": (
        f"ERROR: AddressSanitizer: SEGV on unknown address 0x10{FRAMES}",
        (
            "out of bounds",
            "a thread uses memory at an address that belongs to no array, at dot.cu:15",
            [("/home/someone/dot.cu", 15)],
        ),
    ),
    "shared memory": (
        f"ERROR: AddressSanitizer: use-after-poison on address 0x10\nWRITE of size 4 at 0x10{FRAMES}",
        (
            "out of bounds",
            "a thread writes 4 bytes of shared memory that belongs to no array, at dot.cu:15",
            [("/home/someone/dot.cu", 15)],
        ),
    ),
    "an index": (
        "/home/someone/dot.cu:3:7: runtime error: index 16 out of bounds for type 'float [16]'\n",
        ("out of bounds", "index 16 out of bounds for type 'float [16]', at dot.cu:3", [("/home/someone/dot.cu", 3)]),
    ),
    "alignment": (
        "/a/dot.cu:3:7: runtime error: load of misaligned address 0x61 for type 'struct float4', which requires 16 byte alignment\n",
        (
            "misaligned",
            "load of misaligned address 0x61 for type 'struct float4', which requires 16 byte alignment, at dot.cu:3",
            [("/a/dot.cu", 3)],
        ),
    ),
    "arithmetic": (
        "/a/dot.cu:3:7: runtime error: division by zero\n",
        ("undefined behaviour", "division by zero, at dot.cu:3", [("/a/dot.cu", 3)]),
    ),
    "nothing": ("Traceback (most recent call last):\nKeyError\n", None),
}


@pytest.mark.parametrize("what", SAID)
def test_what_sanitizers_say(what: str) -> None:
    said, wanted = SAID[what]
    assert translated(said) == wanted
