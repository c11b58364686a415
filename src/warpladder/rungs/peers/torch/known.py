"""Optimizers with fused kernels in torch.optim and an update in captured graphs; imports no torch."""

from ....optimizers import SGD, Adam, AdamW

KNOWN = (SGD, Adam, AdamW)
