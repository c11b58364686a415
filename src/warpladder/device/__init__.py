"""What a kernel is, whoever runs it: its source, its typed signature, its launches and the limits they are held to."""

from .array import Array as Array
from .base import Device as Device
from .base import Event as Event
from .base import Graph as Graph
from .base import Stream as Stream
from .kernel import Call as Call
from .kernel import Kernel as Kernel
from .kernel import Launch as Launch
from .limits import Limits as Limits
from .limits import Resources as Resources
from .source import Source as Source
from .tensormap import TensorMap as TensorMap
