"""Resident rung: the data set stays on the GPU."""

from .cuda import cuda_rung

RUNG = cuda_rung(
    "resident",
    title="the data set lives on the GPU",
    idea="The naive kernels, with loss, gradient and accuracy in one. The data set is on the GPU as bytes and "
    "is shuffled there: nothing is copied while it trains.",
    table="resident",
    feed="resident",
)
