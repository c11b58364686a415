"""Table of the naive rung: each operation as kernels with one thread for each computed number."""

from ... import nets
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
        (nets.Linear,): NaiveLinear,
        (nets.Conv2d,): NaiveConv2d,
        (nets.ReLU,): NaiveReLU,
        **{(kind,): NaiveActivation for kind in nets.ACTIVATIONS},
        **{(kind,): NaiveBatchNorm for kind in nets.NORMALISATIONS},
        **{(kind,): NaiveResidual for kind in nets.RESIDUAL_PARTS},
        (nets.Dropout,): NaiveDropout,
        (nets.MaxPool2d,): NaiveMaxPool2d,
        (nets.AvgPool2d,): NaiveAvgPool2d,
        (nets.AdaptiveAvgPool2d,): NaiveAvgPool2d,
        (nets.Upsample2d,): NaiveUpsample2d,
        (nets.CrossEntropyLoss,): NaiveCrossEntropy,
        (nets.MSELoss,): NaiveMSE,
        (GeneralLoss,): NaiveGeneralLoss,
    },
    update=NaiveUpdate,
    accumulate=NaiveAccumulate,
)
