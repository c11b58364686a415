"""Table of all operations as array expressions on BLAS, for NumPy and CuPy."""

from ...nets import (
    ACTIVATIONS,
    NORMALISATIONS,
    RESIDUAL_PARTS,
    AdaptiveAvgPool2d,
    AvgPool2d,
    Conv2d,
    CrossEntropyLoss,
    Dropout,
    Linear,
    MaxPool2d,
    MSELoss,
    ReLU,
    Upsample2d,
)
from ..activation.array import ArrayActivation
from ..avgpool2d.array import ArrayAvgPool2d
from ..batchnorm.array import ArrayBatchNorm
from ..conv2d.array import ArrayConv2d
from ..cross_entropy.array import ArrayCrossEntropy
from ..dropout.array import ArrayDropout
from ..engine.base import OpTable
from ..gather.array import ArrayGather
from ..linear.array import ArrayLinear
from ..loss.array import ArrayElementLoss, ArrayLabelLoss
from ..maxpool2d.array import ArrayMaxPool2d
from ..mse.array import ArrayMSE
from ..relu.array import ArrayReLU
from ..residual.array import ArrayResidual
from ..update.array import ArrayUpdate
from ..upsample2d.array import ArrayUpsample2d

TABLE = OpTable(
    layers={
        Linear: ArrayLinear,
        Conv2d: ArrayConv2d,
        ReLU: ArrayReLU,
        **dict.fromkeys(ACTIVATIONS, ArrayActivation),
        **dict.fromkeys(NORMALISATIONS, ArrayBatchNorm),
        **dict.fromkeys(RESIDUAL_PARTS, ArrayResidual),
        Dropout: ArrayDropout,
        MaxPool2d: ArrayMaxPool2d,
        AvgPool2d: ArrayAvgPool2d,
        AdaptiveAvgPool2d: ArrayAvgPool2d,
        Upsample2d: ArrayUpsample2d,
    },
    losses={CrossEntropyLoss: ArrayCrossEntropy, MSELoss: ArrayMSE},
    labelled=ArrayLabelLoss,
    elements=ArrayElementLoss,
    update=ArrayUpdate,
    gather=ArrayGather,
    file="array.py",
)
