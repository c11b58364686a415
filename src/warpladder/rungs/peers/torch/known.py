"""Optimizers with fused kernels in torch.optim, and those with an update in captured graphs; imports no torch."""

from ....optimizers import SGD, Adam, AdamW, RMSprop

FUSED = (SGD, Adam, AdamW)
CAPTURED = (*FUSED, RMSprop)
