"""Table of all operations as nested loops, compiled, on one thread."""

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
from ..activation.loops import LoopsActivation
from ..avgpool2d.loops import LoopsAvgPool2d
from ..batchnorm.loops import LoopsBatchNorm
from ..conv2d.loops import LoopsConv2d
from ..cross_entropy.loops import LoopsCrossEntropy
from ..dropout.loops import LoopsDropout
from ..engine.base import OpTable
from ..gather.loops import LoopsGather
from ..linear.loops import LoopsLinear
from ..loss.loops import LoopsElementLoss, LoopsLabelLoss
from ..maxpool2d.loops import LoopsMaxPool2d
from ..mse.loops import LoopsMSE
from ..relu.loops import LoopsReLU
from ..residual.loops import LoopsResidual
from ..update.loops import LoopsUpdate
from ..upsample2d.loops import LoopsUpsample2d

TABLE = OpTable(
    layers={
        Linear: LoopsLinear,
        Conv2d: LoopsConv2d,
        ReLU: LoopsReLU,
        **dict.fromkeys(ACTIVATIONS, LoopsActivation),
        **dict.fromkeys(NORMALISATIONS, LoopsBatchNorm),
        **dict.fromkeys(RESIDUAL_PARTS, LoopsResidual),
        Dropout: LoopsDropout,
        MaxPool2d: LoopsMaxPool2d,
        AvgPool2d: LoopsAvgPool2d,
        AdaptiveAvgPool2d: LoopsAvgPool2d,
        Upsample2d: LoopsUpsample2d,
    },
    losses={CrossEntropyLoss: LoopsCrossEntropy, MSELoss: LoopsMSE},
    labelled=LoopsLabelLoss,
    elements=LoopsElementLoss,
    update=LoopsUpdate,
    gather=LoopsGather,
    file="loops.py",
)
