"""Two extern __shared__ arrays of one kernel that are used as if they were apart, and right uses of several names."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpladder.checker.shared_names import overlaps

START = "__global__ void k(const float* x, float* y) {\n    int t = threadIdx.x, n = blockDim.x;\n"
TWO = "    extern __shared__ float a[];\n    extern __shared__ int b[];\n"


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (TWO + "    a[t] = x[t];\n    b[t] = t;\n    __syncthreads();\n    y[t] = a[n - t] + b[t];\n", (8, 6, 5)),
        (TWO + "    a[t * n] = x[t];\n    b[t * n] = t;\n    a[t] += b[t];\n", (7, 6, 5)),
        (TWO + "    a[t] = x[t];\n    b[t] = a[t];\n    y[t] = b[t];\n", None),  # in turn
        (TWO + "    a[t] = x[t];\n    b[n + t] = t;\n    y[t] = a[t];\n", None),  # behind the first
        (TWO + "    b[t] = x[t];\n    y[t] = a[t];\n", None),  # the bits of a number
        (TWO + "    a[t] = 1;\n    y[t] = a[t];\n    b[t] = 2;\n    y[t] += b[t];\n    a[t] = 3;\n    y[t] += a[t];\n",
         None),
        ("    extern __shared__ float a[];\n    int* b = (int*)&a[n];\n    a[t] = b[t] = 1;\n    y[t] = a[t];\n", None),
    ],
)  # fmt: skip
def test_shared_arrays_of_the_same_bytes_are_named(body: str, lines: tuple[int, ...] | None) -> None:
    found = overlaps(Path("k.cu"), f"{START}{body}}}\n")
    assert [tuple(line for _, line in each.places) for each in found] == ([lines] if lines else [])


def test_names_of_other_kernels_and_of_the_file_are_told_apart() -> None:
    one = START + "    extern __shared__ float a[];\n    a[t] = x[t];\n    y[t] = a[t];\n}\n"
    other = one.replace("float a[]", "int b[]").replace(" a[t]", " b[t]").replace("void k", "void m")
    assert overlaps(Path("k.cu"), one + other) == []
    whole = TWO + START + "    a[t] = x[t];\n    b[t] = t;\n    y[t] = a[t];\n}\n"
    assert [each.array for each in overlaps(Path("k.cu"), whole)] == ["a"]
