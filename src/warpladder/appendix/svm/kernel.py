"""RBF kernel between blocks of rows by one matrix product: |a - b|^2 = |a|^2 + |b|^2 - 2 a.b, on CPU or GPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np

from ...errors import DeviceError

#: Numbers that a thread converts at a time: 1 MB in float64, which fits its cache.
CHUNK = 1 << 17

#: Most rows and columns of a product on a GPU.
GPU_TILE = (4096, 4096)

#: Called with the number of finished products and of all.
Report = Callable[[int, int], None]

Job = Callable[[], None]


def squares(x: np.ndarray) -> np.ndarray:
    """Sums of squares (samples,) float64 of the rows of (samples, width) float32."""
    out = np.empty(len(x))
    rows = max(1, CHUNK // x.shape[1])
    for first in range(0, len(x), rows):
        some = x[first : first + rows].astype(np.float64)
        out[first : first + rows] = np.einsum("ij,ij->i", some, some)
    return out


class Rbf(ABC):
    """RBF kernel exp(-gamma |a - b|^2) between samples and training samples, float32; train : (samples, width), scaled.

    Products are in `precision`, "float64" or "float32". In float64 all but one in a million of the rounded values are
    libsvm's own, so that the solver takes the same steps; in float32 its solution differs within its tolerance.
    """

    #: Name of the device, for results.
    device = "cpu"

    #: Most rows and columns of one matrix product.
    tile = (512, 512)

    #: Training samples on the device of the products.
    on_device: Any

    def __init__(self, train: np.ndarray, gamma: float, precision: str) -> None:
        self.gamma, self.precision, self.squares = gamma, precision, squares(train)

    def among(self, rows: slice, columns: slice, out: np.ndarray) -> list[Job]:
        """Jobs that fill out, (rows, columns) float32, with the kernel between two ranges of training samples."""
        return self._jobs(self.on_device[rows], self.squares[rows], columns, out)

    def between(self, x: np.ndarray, out: np.ndarray) -> list[Job]:
        """Jobs that fill out, (len(x), training samples) float32, with the kernel of other samples, scaled like the
        training set.
        """
        return self._jobs(self._put(x), squares(x), slice(0, len(self.squares)), out)

    def run(self, jobs: Sequence[Job], report: Report = lambda done, total: None) -> None:
        """Run jobs, in any order; report is called after each with the number of finished jobs and of all."""
        for done, job in enumerate(jobs, 1):
            job()
            report(done, len(jobs))

    def _jobs(self, x: Any, own: np.ndarray, columns: slice, out: np.ndarray) -> list[Job]:
        """Job for each tile of out; own : squared norms of x's rows."""
        high, wide = self.tile

        def job(row: int, first: int) -> Job:
            last = min(first + wide, columns.stop)
            rows, part = slice(row, row + high), out[row : row + high, first - columns.start : last - columns.start]
            return lambda: self._tile(
                x[rows], self.on_device[first:last], -self.gamma * own[rows], -self.gamma * self.squares[first:last],
                part,
            )  # fmt: skip

        return [job(row, first) for first in range(columns.start, columns.stop, wide) for row in range(0, len(x), high)]

    @abstractmethod
    def _put(self, x: np.ndarray) -> Any:
        """Copy of samples (count, width) on the device that computes the products."""

    @abstractmethod
    def _tile(self, left: Any, right: Any, rows: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
        """Compute a tile: out = exp(2 gamma left . right + rows + columns); rows, columns : -gamma times the squared
        norms.
        """

    def close(self) -> None:
        """Release threads, or memory of the device."""


class CpuRbf(Rbf):
    """Kernel by NumPy's BLAS, limited to one thread: several threads compute different tiles, and none waits."""

    def __init__(self, train: np.ndarray, gamma: float, precision: str, threads: int) -> None:
        super().__init__(train, gamma, precision)
        self.on_device = train
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="rbf")

    def run(self, jobs: Sequence[Job], report: Report = lambda done, total: None) -> None:
        futures = [self.pool.submit(job) for job in jobs]
        try:
            for done, future in enumerate(as_completed(futures), 1):
                future.result()
                report(done, len(jobs))
        finally:
            for future in futures:
                future.cancel()

    def _put(self, x: np.ndarray) -> np.ndarray:
        return x

    def _tile(
        self, left: np.ndarray, right: np.ndarray, rows: np.ndarray, columns: np.ndarray, out: np.ndarray
    ) -> None:
        values = left.astype(self.precision, copy=False) @ right.astype(self.precision, copy=False).T
        rows, columns = rows.astype(values.dtype), columns.astype(values.dtype)
        some = max(1, CHUNK // out.shape[1])
        for first in range(0, len(out), some):
            part = values[first : first + some]
            part *= 2 * self.gamma
            part += rows[first : first + some, None]
            part += columns
            np.minimum(part, 0, out=part)
            out[first : first + some] = np.exp(part, out=part)

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)


class CupyRbf(Rbf):
    """Kernel by cuBLAS through CuPy; the training samples stay on the GPU, as float32."""

    tile = GPU_TILE

    def __init__(self, train: np.ndarray, gamma: float, precision: str) -> None:
        import cupy

        super().__init__(train, gamma, precision)
        self.xp = cupy
        self.device = f"{cupy.cuda.runtime.getDeviceProperties(0)['name'].decode()}, by CuPy"
        self.on_device = self._put(train)

    def _put(self, x: np.ndarray) -> Any:
        return self.xp.asarray(x)

    def _tile(self, left: Any, right: Any, rows: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
        values = left.astype(self.precision, copy=False) @ right.astype(self.precision, copy=False).T
        values *= 2 * self.gamma
        values += self.xp.asarray(rows.astype(self.precision))[:, None]
        values += self.xp.asarray(columns.astype(self.precision))
        self.xp.minimum(values, 0, out=values)
        out[...] = self.xp.exp(values, out=values).astype(np.float32, copy=False).get()

    def close(self) -> None:
        del self.on_device
        self.xp.get_default_memory_pool().free_all_blocks()


class TorchRbf(Rbf):
    """Kernel by cuBLAS through PyTorch, never in TF32; the training samples stay on the GPU, as float32."""

    tile = GPU_TILE

    def __init__(self, train: np.ndarray, gamma: float, precision: str, where: str = "cuda") -> None:
        import torch

        super().__init__(train, gamma, precision)
        self.torch, self.where, self.kind = torch, where, getattr(torch, precision)
        name = torch.cuda.get_device_name() if where == "cuda" else where
        self.device = f"{name}, by PyTorch"
        self.on_device = self._put(train)

    def _put(self, x: np.ndarray) -> Any:
        return self.torch.from_numpy(x).to(self.where)

    def _tile(self, left: Any, right: Any, rows: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
        with self.torch.no_grad(), _whole_float32(self.torch):
            values = left.to(self.kind) @ right.to(self.kind).T
            values *= 2 * self.gamma
            values += self._put(rows).to(self.kind)[:, None]
            values += self._put(columns).to(self.kind)
            out[...] = values.clamp_(max=0).exp_().to(self.torch.float32).cpu().numpy()

    def close(self) -> None:
        del self.on_device
        if self.where == "cuda":
            self.torch.cuda.empty_cache()


@contextmanager
def _whole_float32(torch: Any) -> Iterator[None]:
    """Context that turns TF32 off in PyTorch, since TF32 has 10 bits of each factor."""
    matmul = torch.backends.cuda.matmul
    before, matmul.allow_tf32 = matmul.allow_tf32, False
    try:
        yield
    finally:
        matmul.allow_tf32 = before


def gpu_library() -> str:
    """Name of a library that finds a GPU here, "cupy" or "torch". Raises `DeviceError` if neither does."""
    try:
        if find_spec("cupy"):
            import cupy

            if cupy.cuda.runtime.getDeviceCount():
                return "cupy"
    except Exception:  # without a driver the library raises many kinds of errors
        pass
    if find_spec("torch"):
        import torch

        if torch.cuda.is_available():
            return "torch"
    raise DeviceError(
        "--device cuda wants a GPU, and CuPy or PyTorch for CUDA to compute on it: none is found here; "
        "the CPU does the same without --device"
    )


def gpu_free(library: str) -> int:
    """Free bytes of the GPU's memory."""
    if library == "cupy":
        import cupy

        return int(cupy.cuda.runtime.memGetInfo()[0])
    import torch

    return int(torch.cuda.mem_get_info()[0])


def rbf(train: np.ndarray, gamma: float, library: str, precision: str, threads: int) -> Rbf:
    """RBF kernel whose products "numpy", "cupy" or "torch" computes."""
    if library == "numpy":
        return CpuRbf(train, gamma, precision, threads)
    return CupyRbf(train, gamma, precision) if library == "cupy" else TorchRbf(train, gamma, precision)
