"""Table of the naive rung: each operation as kernels with one thread for each computed number."""

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
from ..accumulate.cuda import NaiveAccumulate
from ..activation.cuda import NaiveActivation
from ..avgpool2d.cuda import NaiveAvgPool2d
from ..batchnorm.cuda import NaiveBatchNorm
from ..conv2d.cuda import NaiveConv2d
from ..cross_entropy.cuda import NaiveCrossEntropy
from ..dropout.cuda import NaiveDropout
from ..engine.chain import Gather, GeneralLoss
from ..engine.segments import KernelTable
from ..gather.cuda import NaiveGather
from ..linear.cuda import NaiveLinear
from ..loss.cuda import NaiveGeneralLoss
from ..maxpool2d.cuda import NaiveMaxPool2d
from ..mse.cuda import NaiveMSE
from ..relu.cuda import NaiveReLU
from ..residual.cuda import NaiveResidual
from ..update.cuda import NaiveUpdate
from ..upsample2d.cuda import NaiveUpsample2d

TABLE = KernelTable(
    segments={
        (Gather,): NaiveGather,
        (Linear,): NaiveLinear,
        (Conv2d,): NaiveConv2d,
        (ReLU,): NaiveReLU,
        **{(kind,): NaiveActivation for kind in ACTIVATIONS},
        **{(kind,): NaiveBatchNorm for kind in NORMALISATIONS},
        **{(kind,): NaiveResidual for kind in RESIDUAL_PARTS},
        (Dropout,): NaiveDropout,
        (MaxPool2d,): NaiveMaxPool2d,
        (AvgPool2d,): NaiveAvgPool2d,
        (AdaptiveAvgPool2d,): NaiveAvgPool2d,
        (Upsample2d,): NaiveUpsample2d,
        (CrossEntropyLoss,): NaiveCrossEntropy,
        (MSELoss,): NaiveMSE,
        (GeneralLoss,): NaiveGeneralLoss,
    },
    update=NaiveUpdate,
    accumulate=NaiveAccumulate,
)
