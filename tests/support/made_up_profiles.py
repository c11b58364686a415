"""Profiles with made-up times."""

from __future__ import annotations

from warpladder.results.profiled import KernelTime, LaunchShape, Part, ProductTiles, Profile
from warpladder.timing.profile import floor

LONG = "gemm_patches_relu_pool_bias_kernel<64, 128, 8, float4>"


def made_up() -> Profile:
    """A profile with figures as long as they get."""
    kernel = KernelTime(LONG, 12, 1.234e-4, LaunchShape((65535, 128, 64), (32, 8, 4), 98_304, 255, 1_024, 1_280, 0.375))
    part = Part(
        "0 Conv2d, 1 ReLU, 2 MaxPool2d",
        "backward",
        9.87e-5,
        floor.Floor(123_456_789, 98_765_432),
        (kernel, KernelTime("cudnn", 1, 2e-6, None)),
    )
    tiled = ProductTiles((0, 2), "input gradient", 60_000, "128x128x16", 784, 32, True)
    return Profile(
        "autoencoder", "gemm", "NVIDIA H200", 64, 3e-4, 10**9, 6e13, 4e12, (part,), {"activations": 123_456_789}, 10**9,
        {"to the device": 1_234_567}, tiles=(tiled,),
    )  # fmt: skip
