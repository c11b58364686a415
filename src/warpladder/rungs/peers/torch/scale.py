"""Scale of a loss in fp16 on the device, where a CUDA graph changes it: `torch.amp.GradScaler` without the host."""

from __future__ import annotations

import torch

#: First scale of the loss: the usual 65,536 overflows in the first steps of every net here, which are then skipped.
SCALE = 1024.0
GROWTH, BACKOFF, INTERVAL = 2.0, 0.5, 2000  # GradScaler's defaults


class LossScale:
    """Factor of the loss that keeps small gradients within fp16's range; non-finite gradients skip the step and halve
    it.

    scale : () float32, the factor. steps : () int32, since the last change: after INTERVAL steps the factor doubles.
    bad : () float32, 1 if the last gradients were not all finite, else 0.
    """

    def __init__(self, device: torch.device) -> None:
        self.scale = torch.full((), SCALE, device=device)
        self.steps = torch.zeros((), dtype=torch.int32, device=device)
        self.bad = torch.zeros((), device=device)

    def reset(self) -> None:
        """Reset the scale to its value at the start of a run."""
        self.scale.fill_(SCALE)
        self.steps.zero_()

    def unscale(self, grads: list[torch.Tensor]) -> None:
        """Divide gradients by the scale, in place, and record whether they are finite, by kernels of many tensors."""
        self.bad.zero_()
        torch._amp_foreach_non_finite_check_and_unscale_(grads, self.bad, self.scale.reciprocal())

    def move(self) -> None:
        """Update the scale for the next step."""
        torch._amp_update_scale_(self.scale, self.steps, self.bad, GROWTH, BACKOFF, INTERVAL)


def unscaled(
    grads: dict[str, torch.Tensor], scale: torch.Tensor, steps: torch.Tensor
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Gradients divided by the scale, and () bool, True if finite. It updates `scale` and `steps`, for inductor."""
    good = torch.stack([g.isfinite().all() for g in grads.values()]).all()
    out = {name: g / scale for name, g in grads.items()}
    grown = steps + 1 >= INTERVAL
    scale.copy_(torch.where(good, torch.where(grown, scale * GROWTH, scale), scale * BACKOFF))
    steps.copy_(torch.where(good & ~grown, steps + 1, 0))
    return out, good
