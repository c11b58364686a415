"""Machine code of kernels: instructions of tensor cores, and bytes of a kernel."""

from __future__ import annotations

import struct

import pytest

from warpladder.device import Resources
from warpladder.device.gpu import compile as compiler
from warpladder.device.gpu.ptxas import resources
from warpladder.ops.linear.tensor import packed as packed

HALF, BF16 = (f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32" for kind in ("f16", "bf16"))

#: By precision: the instruction that its products are made of.
INSTRUCTIONS = {"fp32": HALF, "fp16": HALF, "bf16": BF16, "tf32": "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"}


@pytest.fixture
def assembled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The assembler's text (PTX) of each source that the test compiles, in their order. In none of them does a product
    of warpgroups wait for the one before it.
    """
    texts: list[str] = []

    def seen(report: str, ptx: str, symbols: dict[str, str]) -> dict[str, Resources]:
        texts.append(ptx)
        assert "serialized" not in report, report
        return resources(report, ptx, symbols)

    monkeypatch.setattr(compiler, "resources", seen)
    return texts


#: Bytes of a kernel's machine code, at most. `convolve<BF16, 2>` once had 154 kB, and its sums took far longer on their
#: way out than those of a kernel of 70 kB: docs/notes/tensor-conv2d.md.
MOST_CODE = 64 << 10


def code_size(cubin: bytes, symbol: str) -> int:
    """Bytes of a kernel's machine code: the size of its section in the ELF file."""
    (table,), (each, count, names) = struct.unpack_from("<Q", cubin, 0x28), struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [
        struct.unpack_from("<IIQQQQ", cubin, table + each * i) for i in range(count)
    ]  # name, type, flags, address, offset, size
    text = cubin[sections[names][4] :]
    (size,) = (section[5] for section in sections if text[section[0] :].startswith(f".text.{symbol}\0".encode()))
    return int(size)
