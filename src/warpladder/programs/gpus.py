"""GPUs by name, with the properties that cudaGetDeviceProperties returns to a program."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ..errors import ConfigError
from ..errors.arguments import meant

KB, MB, GB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True)
class EmulatedGpu:
    """Facts of a GPU from its data sheet and CUDA's table of compute capabilities.

    shared_opt_in, shared_per_multiprocessor, l2, memory : bytes. clock_khz, memory_clock_khz : highest clocks.
    bus_bits : width of the memory's bus.
    """

    name: str
    major: int
    minor: int
    multiprocessors: int
    memory: int
    shared_opt_in: int
    shared_per_multiprocessor: int
    threads_per_multiprocessor: int
    blocks_per_multiprocessor: int
    clock_khz: int
    memory_clock_khz: int
    bus_bits: int
    l2: int


#: GPUs by the short name that `--gpu` takes.
GPUS = {
    "P100": EmulatedGpu(
        "Tesla P100-PCIE-16GB", 6, 0, 56, 16 * GB, 48 * KB, 64 * KB, 2048, 32, 1328500, 715000, 4096, 4 * MB
    ),
    "V100": EmulatedGpu(
        "Tesla V100-SXM2-16GB", 7, 0, 80, 16 * GB, 96 * KB, 96 * KB, 2048, 32, 1530000, 877000, 4096, 6 * MB
    ),
    "T4": EmulatedGpu("Tesla T4", 7, 5, 40, 15 * GB, 64 * KB, 64 * KB, 1024, 16, 1590000, 5001000, 256, 4 * MB),
    "A100": EmulatedGpu(
        "NVIDIA A100-SXM4-40GB", 8, 0, 108, 40 * GB, 163 * KB, 164 * KB, 2048, 32, 1410000, 1215000, 5120, 40 * MB
    ),
    "RTX3090": EmulatedGpu(
        "NVIDIA GeForce RTX 3090", 8, 6, 82, 24 * GB, 99 * KB, 100 * KB, 1536, 16, 1695000, 9751000, 384, 6 * MB
    ),
    "RTX4090": EmulatedGpu(
        "NVIDIA GeForce RTX 4090", 8, 9, 128, 24 * GB, 99 * KB, 100 * KB, 1536, 24, 2520000, 10501000, 384, 72 * MB
    ),
    "L4": EmulatedGpu("NVIDIA L4", 8, 9, 58, 23 * GB, 99 * KB, 100 * KB, 1536, 24, 2040000, 6251000, 192, 48 * MB),
    "H100": EmulatedGpu(
        "NVIDIA H100 80GB HBM3", 9, 0, 132, 79 * GB, 227 * KB, 228 * KB, 2048, 32, 1980000, 2619000, 5120, 50 * MB
    ),
    "H200": EmulatedGpu(
        "NVIDIA H200", 9, 0, 132, 140 * GB, 227 * KB, 228 * KB, 2048, 32, 1980000, 3201000, 6144, 60 * MB
    ),
}


def find(name: str) -> EmulatedGpu:
    """GPU of this short name, in any case, with or without blanks. Raises `ConfigError` with the known names."""
    plain = "".join(name.upper().replace("-", " ").replace("_", " ").split())
    if plain in GPUS:
        return GPUS[plain]
    raise ConfigError(
        f"there is no GPU {name!r}: {meant(plain, GPUS, before='', after=' ')}there are {', '.join(GPUS)}"
    )


def described(gpu: EmulatedGpu, threads: int) -> str:
    """Text of a GPU's facts for the program's runtime; threads : number of CPU threads that run a launch."""
    return ";".join(f"{name}={value}" for name, value in {**asdict(gpu), "threads": threads}.items())
