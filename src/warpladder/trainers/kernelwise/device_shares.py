"""Shares of an epoch's samples in the means of their batches, on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...config import TrainConfig
from ...data.order import Order
from ...device import Device
from ...nets import Loss
from ..shares import BatchShares

if TYPE_CHECKING:
    from ...data.dataset import Dataset


class DeviceShares:
    """Shares (samples,) float32 on the device, by position in the epoch's order; the host computes them for each epoch.

    array : the shares on the device.
    """

    def __init__(self, device: Device, shares: BatchShares, samples: int) -> None:
        self.device, self.shares = device, shares
        self.array = device.zeros((samples,), np.float32, "data")
        self.host = device.pinned((samples,), np.float32)  # free at the begin of an epoch: every run waits for its end
        self.order: Order | None = None

    @classmethod
    def of(cls, device: Device, loss: Loss, dataset: Dataset, config: TrainConfig) -> DeviceShares | None:
        """Shares for a loss and a training set; None if the loss is a plain mean over the batch."""
        shares = BatchShares.of(loss, dataset, config)
        return None if shares is None else cls(device, shares, len(dataset.train_x))

    def upload(self, order: Order) -> None:
        """Queue the copy of an epoch's shares to the device, unless it has them."""
        if order != self.order:
            self.host[...] = self.shares.at(order.indices(0, order.n))
            self.array.upload(self.host, self.device.stream)
            self.order = order
