"""The machine that a climb's figures were taken on, as results keep it."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ResultsError


@dataclass(frozen=True)
class Gpu:
    """The GPU that some rungs ran on.

    capability : compute capability, "9.0".
    cuda, nvrtc : versions: of the CUDA that the driver knows, and of the compiler. driver : the driver's own.
    clock_mhz, memory_clock_mhz : right after the timing. clock_most_mhz : the highest that it may reach.
    """

    name: str
    capability: str
    multiprocessors: int
    memory_bytes: int
    cuda: str
    nvrtc: str
    driver: str | None
    clock_mhz: float | None
    clock_most_mhz: float | None
    memory_clock_mhz: float | None
    power_limit_watts: float | None


@dataclass(frozen=True)
class Machine:
    """Facts about the machine that figures were taken on.

    cpu, target : the model's name, and LLVM's name of its kind of core.
    cores : cores that this process may use. threads : threads that the rungs were allowed.
    features : vector instruction sets.
    fma_peak : measured float32 FLOP/s of `threads` threads that do nothing but multiply and add.
    bandwidth : measured bytes/s of `threads` threads that copy arrays larger than the caches, reads plus writes.
    packages : versions of what is installed and bears on the figures.
    commit, dirty : of the checkout that warpladder runs from, True if it was changed since; None outside a
    checkout.
    load_average : runnable processes over the last minute when the climb began: above about 0.5, others were at work.
    gpu : None where no rung ran on one.
    fma_peak_fp64 : the same as fma_peak with float64; None where no rung computed so.
    """

    cpu: str
    target: str
    cores: int
    threads: int
    features: tuple[str, ...]
    memory_bytes: int | None
    fma_peak: float
    bandwidth: float
    system: str
    python: str
    packages: dict[str, str]
    commit: str | None
    dirty: bool | None
    load_average: float | None
    gpu: Gpu | None = None
    fma_peak_fp64: float | None = None

    def __post_init__(self) -> None:
        if not (
            1 <= self.fma_peak <= 1e30
            and 1 <= self.bandwidth <= 1e30
            and (self.fma_peak_fp64 is None or 1 <= self.fma_peak_fp64 <= 1e30)
        ):
            raise ResultsError("fma_peak and bandwidth want at least 1 a second, and at most 1e30")

    def peak(self, precision: str) -> float:
        """FLOP/s that the processor's vector units can do in a precision: in fp64 what was measured so, in all others
        what was measured in fp32.
        """
        return self.fma_peak_fp64 if precision == "fp64" and self.fma_peak_fp64 is not None else self.fma_peak
