"""Table of all operations as nested loops, compiled, on one thread."""

from ... import nets
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
        nets.Linear: LoopsLinear,
        nets.Conv2d: LoopsConv2d,
        nets.ReLU: LoopsReLU,
        **dict.fromkeys(nets.ACTIVATIONS, LoopsActivation),
        **dict.fromkeys(nets.NORMALISATIONS, LoopsBatchNorm),
        **dict.fromkeys(nets.RESIDUAL_PARTS, LoopsResidual),
        nets.Dropout: LoopsDropout,
        nets.MaxPool2d: LoopsMaxPool2d,
        nets.AvgPool2d: LoopsAvgPool2d,
        nets.AdaptiveAvgPool2d: LoopsAvgPool2d,
        nets.Upsample2d: LoopsUpsample2d,
    },
    losses={nets.CrossEntropyLoss: LoopsCrossEntropy, nets.MSELoss: LoopsMSE},
    labelled=LoopsLabelLoss,
    elements=LoopsElementLoss,
    update=LoopsUpdate,
    gather=LoopsGather,
    file="loops.py",
)
