"""Streamed rung: batches are copied while the GPU computes."""

from .cuda import cuda_rung

RUNG = cuda_rung(
    "streamed",
    title="copies overlap computing",
    idea="The naive kernels. Three page-locked host buffers and three device buffers take turns: batches "
    "travel while one trains. The loss stays on the GPU.",
    table="naive",
    feed="streamed",
)
