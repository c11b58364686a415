"""Facts of the machine and the GPU on which figures were measured, as results store them."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ResultsError


@dataclass(frozen=True)
class Gpu:
    """GPU on which some rungs ran.

    capability : compute capability, "9.0".
    cuda, nvrtc : newest CUDA version that the driver supports, and version of the compiler. driver : version of the
    driver.
    clock_mhz, memory_clock_mhz : clocks right after the timing. clock_most_mhz : highest possible clock.
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
    """Facts about the machine on which figures were measured.

    cpu, target : name of the processor's model, and LLVM's name of its kind of core.
    cores : cores that this process may use. threads : threads that the rungs may use.
    features : vector instruction sets.
    fma_peak : measured float32 FLOP/s of `threads` threads that only multiply and add.
    bandwidth : measured bytes/s of `threads` threads that copy arrays larger than the caches, reads plus writes.
    packages : versions of the installed packages that affect the figures.
    commit, dirty : commit of warpladder's checkout, and True if it has changes; None outside a checkout.
    load_average : runnable processes over the last minute at the start of the climb; above about 0.5 the machine was
    busy.
    gpu : facts of the GPU; None if no rung ran on one.
    fma_peak_fp64 : measured float64 FLOP/s, like fma_peak; None if no rung computed in float64.
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
        """Peak FLOP/s of the processor's vector units in a precision: the measured fp64 peak for "fp64", else the
        fp32 peak.
        """
        return self.fma_peak_fp64 if precision == "fp64" and self.fma_peak_fp64 is not None else self.fma_peak
