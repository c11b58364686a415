"""Time of cuBLAS's matrix product in each precision, called through CuPy, for comparison with the levels."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from ...errors import WarpladderError
from ...machine.precision import Precision
from ...proof.tolerance import bound
from .formats import bf16, held
from .proof import CHECKED, question

#: Constants of cudaDataType_t, cublasComputeType_t and cublasGemmAlgo_t.
FLOAT, BF16 = 0, 14
IN_FP32, IN_TF32 = 68, 77
DEFAULT = -1

#: Type of the factors and of the computation, by precision. Sums are always in fp32.
HOW = {"fp32": (FLOAT, IN_FP32), "tf32": (FLOAT, IN_TF32), "bf16": (BF16, IN_FP32)}


def seconds(size: int, precision: Precision, rounds: int, patience: float) -> float | None:
    """Seconds of C = A B by cuBLAS, factors stored in the precision and C in float32; None without CuPy."""
    try:
        import cupy

        if cupy.cuda.runtime.getDeviceCount() < 1:
            return None
    except Exception:  # not installed, or no driver: no cuBLAS to compare with
        return None
    from cupy_backends.cuda.libs import cublas

    asked = question("normal", size, size, size, size)
    kind, how = HOW[precision.name]
    a, b = (cupy.asarray(bf16(x) if kind == BF16 else x) for x in (asked.a, asked.b))
    c = cupy.empty((size, size), np.float32)
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    handle: Any = cupy.cuda.device.get_cublas_handle()
    cublas.setPointerMode(handle, cublas.CUBLAS_POINTER_MODE_HOST)

    def multiply() -> None:  # cuBLAS is column-major: the requested product is C' = B' A'
        cublas.gemmEx(
            handle, cublas.CUBLAS_OP_N, cublas.CUBLAS_OP_N, size, size, size, one.ctypes.data, b.data.ptr, kind, size,
            a.data.ptr, kind, size,
            zero.ctypes.data, c.data.ptr, FLOAT, size, how, DEFAULT,
        )  # fmt: skip

    def once(repeats: int) -> float:
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        for _ in range(repeats):
            multiply()
        end.record()
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(begin, end)) / 1e3 / repeats

    once(3)
    repeats = max(1, min(200, int(patience / rounds / max(once(1), 1e-6))))
    rows = asked.rows[:CHECKED]
    truth = held(asked.a[rows], precision).astype(np.float64) @ held(asked.b, precision).astype(np.float64)
    error = float(np.sqrt(np.mean(((c.get()[rows] - truth) / asked.size) ** 2)))
    if not error <= bound(precision, size):
        raise WarpladderError(
            f"cuBLAS's product is not in {precision.name}: at size {size} the error is {error:.2g}, "
            f"and rounding explains at most {bound(precision, size):.2g}"
        )
    return statistics.median(once(repeats) for _ in range(rounds))
