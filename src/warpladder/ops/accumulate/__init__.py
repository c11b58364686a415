"""Gradient accumulation: sums of the gradients of a batch's slices. It imports ops/engine. Begin with naive.cu."""
