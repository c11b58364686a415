"""Optimizers whose classes in torch.optim have fused kernels, and for which captured graphs have an update.

The file does not import torch: the rungs can be listed without it.
"""

from ...optimizers import SGD, Adam, AdamW

KNOWN = (SGD, Adam, AdamW)
