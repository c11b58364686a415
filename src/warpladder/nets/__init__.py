"""Nets as data: layers (layers.py, activations.py, pooling.py, batchnorm.py, dropout.py, residual.py), losses
(losses.py), `Net` (net.py), and the five nets of the ladder (ladder_nets.py).

It imports errors, files and show. Begin with layers.py; params.py has the order of the parameters in memory.
"""

from .activations import ACTIVATIONS as ACTIVATIONS
from .activations import GELU as GELU
from .activations import LeakyReLU as LeakyReLU
from .activations import Sigmoid as Sigmoid
from .activations import SiLU as SiLU
from .activations import Tanh as Tanh
from .batchnorm import NORMALISATIONS as NORMALISATIONS
from .batchnorm import BatchNorm1d as BatchNorm1d
from .batchnorm import BatchNorm2d as BatchNorm2d
from .dropout import Dropout as Dropout
from .ladder_nets import CLASSIFIERS as CLASSIFIERS
from .ladder_nets import ZOO as ZOO
from .ladder_nets import autoencoder as autoencoder
from .ladder_nets import cnn as cnn
from .ladder_nets import hidden_option as hidden_option
from .ladder_nets import hidden_widths as hidden_widths
from .ladder_nets import is_named as is_named
from .ladder_nets import is_net_file as is_net_file
from .ladder_nets import mlp as mlp
from .ladder_nets import mlp10 as mlp10
from .ladder_nets import named as named
from .ladder_nets import softmax as softmax
from .ladder_nets import with_hidden as with_hidden
from .layers import Conv2d as Conv2d
from .layers import Flatten as Flatten
from .layers import Layer as Layer
from .layers import Linear as Linear
from .layers import ReLU as ReLU
from .layers import Shape as Shape
from .layers import Upsample2d as Upsample2d
from .losses import LOSSES as LOSSES
from .losses import BCEWithLogitsLoss as BCEWithLogitsLoss
from .losses import CrossEntropyLoss as CrossEntropyLoss
from .losses import ElementLoss as ElementLoss
from .losses import HuberLoss as HuberLoss
from .losses import L1Loss as L1Loss
from .losses import Loss as Loss
from .losses import MSELoss as MSELoss
from .net import Net as Net
from .pooling import AdaptiveAvgPool2d as AdaptiveAvgPool2d
from .pooling import AvgPool2d as AvgPool2d
from .pooling import MaxPool2d as MaxPool2d
from .residual import RESIDUAL_PARTS as RESIDUAL_PARTS
from .residual import Branch as Branch
from .residual import Residual as Residual
from .residual import Shortcut as Shortcut
from .residual import Sum as Sum
