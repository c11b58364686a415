"""Gemm rung: fp32 matrix products by register tiles."""

from .cuda import cuda_rung

RUNG = cuda_rung(
    "gemm",
    title="register tiles, implicit im2col",
    idea="Layers are products of matrices, with sums in registers: convolutions unfold on their way to shared "
    "memory; bias, ReLU and pooling ride along.",
    table="gemm",
    feed="resident",
)
