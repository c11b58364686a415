"""Table of all operations as array expressions on BLAS, for NumPy and CuPy."""

from ... import nets
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
        nets.Linear: ArrayLinear,
        nets.Conv2d: ArrayConv2d,
        nets.ReLU: ArrayReLU,
        **dict.fromkeys(nets.ACTIVATIONS, ArrayActivation),
        **dict.fromkeys(nets.NORMALISATIONS, ArrayBatchNorm),
        **dict.fromkeys(nets.RESIDUAL_PARTS, ArrayResidual),
        nets.Dropout: ArrayDropout,
        nets.MaxPool2d: ArrayMaxPool2d,
        nets.AvgPool2d: ArrayAvgPool2d,
        nets.AdaptiveAvgPool2d: ArrayAvgPool2d,
        nets.Upsample2d: ArrayUpsample2d,
    },
    losses={nets.CrossEntropyLoss: ArrayCrossEntropy, nets.MSELoss: ArrayMSE},
    labelled=ArrayLabelLoss,
    elements=ArrayElementLoss,
    update=ArrayUpdate,
    gather=ArrayGather,
    file="array.py",
)
