"""Tiled rung: tiles in shared memory."""

from .cuda import cuda_rung

RUNG = cuda_rung(
    "tiled",
    title="tiles in shared memory",
    idea="Blocks bring tiles of images, weights and matrices to shared memory and read them many times; warps "
    "add up gradients by shuffles; ReLU needs no pass.",
    table="tiled",
    feed="resident",
)
