"""cuBLASLt through nvmath-python: products of float32 matrices in float32 multiply-adds, with sums in a fixed order."""

from __future__ import annotations

import weakref
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import DeviceError, KernelError
from .. import Array, Device
from .library import INSTALL, MOST_WORKSPACE, LibraryPlan, line, on_gpu

if TYPE_CHECKING:
    from .device import GpuDevice

#: Bits of an algorithm's description: it uses tensor cores, or rounds its factors to TF32.
TENSOR_CORES = 0xFE
TF32 = 0x04 << 16

#: The largest alignment that algorithms require, in bytes.
ALIGNMENT = 256

#: Bytes of workspace beyond the required ones for a product with a bias: nvmath-python adds as many, because of an
#: error in cuBLASLt.
SPARE = 16


@cache
def cublas(device: Device) -> CublasLt:
    """Handle of cuBLASLt on a GPU, created once."""
    return CublasLt(on_gpu(device))


class CublasLt:
    """Handle of cuBLASLt on a GPU."""

    def __init__(self, device: GpuDevice) -> None:
        device.enter()
        try:
            from nvmath.bindings import cublasLt

            self.handle = cublasLt.create()
        except Exception as error:  # the type without the library depends on its version
            raise DeviceError(f"cuBLASLt does not start: {line(error)}; {INSTALL}") from error
        self.device, self.lt = device, cublasLt

    @property
    def version(self) -> int:
        """Version number, 130100 for 13.1.0."""
        return int(self.lt.get_version())


class CublasProduct(LibraryPlan):
    """Product c = A B, plus `bias` (n,) in every row; cuBLASLt stores matrices by columns and computes c' = B' A'.

    a, b : float32; A is (m, k) and B (k, n), or stored transposed: a as (k, m), b as (n, k).
    c : (m, n) float32, or longer memory. workspace : largest number of workspace bytes.
    """

    def __init__(
        self, cublas: CublasLt, name: str, a: Array, b: Array, c: Array, m: int, n: int, k: int,
        turn_a: bool = False, turn_b: bool = False, bias: Array | None = None, workspace: int = MOST_WORKSPACE,
    ) -> None:  # fmt: skip
        from nvmath.bindings import cublas as blas

        self.name = f"cublasLt {name}"
        self.lt, self.handle = cublas.lt, cublas.handle
        self.arrays = a, b, c, bias  # keeps them alive
        self.one, self.zero = np.ones(1, np.float32), np.zeros(1, np.float32)
        lt, turned, straight = self.lt, blas.Operation.T, blas.Operation.N
        real = 0  # CUDA_R_32F
        self.product = lt.matmul_desc_create(blas.ComputeType.COMPUTE_32F, real)
        weakref.finalize(self, lt.matmul_desc_destroy, self.product)
        self._describe("TRANSA", turned if turn_b else straight)
        self._describe("TRANSB", turned if turn_a else straight)
        if bias is not None:
            self._describe("EPILOGUE", lt.Epilogue.BIAS)
            self._describe("BIAS_POINTER", bias.address)
        self.left = self._layout(*((k, n) if turn_b else (n, k)))
        self.right = self._layout(*((m, k) if turn_a else (k, m)))
        self.out = self._layout(n, m)
        self.workspace = self._choose(workspace, f"({m}, {k}) x ({k}, {n})")

    def run(self, stream: int, workspace: int) -> None:
        a, b, c, _ = self.arrays
        self.lt.matmul(
            self.handle, self.product, self.one.ctypes.data, b.address, self.left, a.address, self.right,
            self.zero.ctypes.data, c.address, self.out, c.address, self.out, self.chosen.ptr, workspace,
            self.workspace, stream,
        )  # fmt: skip

    def _describe(self, name: str, value: int) -> None:
        kind = self.lt.MatmulDescAttribute[name]
        held = np.array([value], self.lt.get_matmul_desc_attribute_dtype(kind))
        self.lt.matmul_desc_set_attribute(self.product, kind, held.ctypes.data, held.nbytes)

    def _layout(self, rows: int, columns: int) -> int:
        """Layout of a packed matrix stored by columns, as cuBLASLt's handle."""
        layout = self.lt.matrix_layout_create(0, rows, columns, rows)
        weakref.finalize(self, self.lt.matrix_layout_destroy, layout)
        return layout

    def _choose(self, workspace: int, shape: str) -> int:
        """Choose cuBLASLt's first algorithm, with split-K sums in fixed order; returns its workspace bytes."""
        lt = self.lt
        a, b, c, _ = self.arrays
        spare = 0 if self.arrays[3] is None else SPARE
        wishes: dict[str, int] = {
            "MAX_WORKSPACE_BYTES": max(0, workspace - spare),
            "REDUCTION_SCHEME_MASK": lt.ReductionScheme.COMPUTE_TYPE,
        }
        for name, array in (("A", b), ("B", a), ("C", c), ("D", c)):
            wishes[f"MIN_ALIGNMENT_{name}_BYTES"] = min(ALIGNMENT, array.address & -array.address)
        preference = lt.matmul_preference_create()
        try:
            for name, value in wishes.items():
                kind = lt.MatmulPreferenceAttribute[name]
                held = np.array([value], lt.get_matmul_preference_attribute_dtype(kind))
                lt.matmul_preference_set_attribute(preference, kind, held.ctypes.data, held.nbytes)
            self.chosen = lt.MatmulHeuristicResult(1)
            count = np.zeros(1, np.int32)
            lt.matmul_algo_get_heuristic(
                self.handle, self.product, self.left, self.right, self.out, self.out, preference, 1, self.chosen.ptr,
                count.ctypes.data,
            )  # fmt: skip
        except Exception as error:
            raise KernelError(
                f"{self.name} has no algorithm for {shape} in {workspace:,} bytes of workspace: {line(error)}"
            ) from error
        finally:
            lt.matmul_preference_destroy(preference)
        if count[0] != 1 or int(self.chosen.state) != 0:
            raise KernelError(f"{self.name} has no algorithm for {shape} in {workspace:,} bytes of workspace")
        if self.numerics & (TENSOR_CORES | TF32):
            flags = f"(flags {self.numerics:#x})"
            raise KernelError(f"{self.name} would multiply {shape} on tensor cores {flags}, which round the factors")
        size = int(self.chosen.workspace_size)
        return size + spare if size else 0

    @property
    def numerics(self) -> int:
        """Flags of the chosen algorithm: the units and types of its products and sums."""
        held = np.zeros(1, np.uint64)
        self._attribute(
            self.lt.matmul_algo_cap_get_attribute, self.lt.MatmulAlgoCapAttribute.NUMERICAL_IMPL_FLAGS, held
        )
        return int(held[0])

    def settings(self) -> dict[str, int]:
        """Number, tile, split-K partials and reduction scheme of the chosen algorithm."""
        found = {}
        for name in ("ID", "TILE_ID", "SPLITK_NUM", "REDUCTION_SCHEME"):
            held = np.zeros(1, np.int32)
            self._attribute(self.lt.matmul_algo_config_get_attribute, self.lt.MatmulAlgoConfigAttribute[name], held)
            found[name] = int(held[0])
        return found

    def _attribute(self, function: Any, kind: int, held: np.ndarray) -> None:
        written = np.zeros(1, np.uint64)
        function(self.chosen.ptr, kind, held.ctypes.data, held.nbytes, written.ctypes.data)
