"""Naive rung: CUDA kernels with one thread for each number."""

from .cuda import cuda_rung

RUNG = cuda_rung(
    "naive",
    title="one thread per output, blocking copies",
    idea="Hand-written CUDA, one thread for each output element. Each batch is copied, trained and its loss "
    "read back, one after the other.",
    table="naive",
    feed="sync",
)
