"""Devices and kernels: sources, typed signatures, launches, memory, and the limits of a device.

It imports errors, files and machine. Begin with base.py (`Device`) and kernel.py (`Kernel`, `Launch`); gpu/ and
emulator/ are the two devices that run kernels.
"""

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
from .source import KernelSource as KernelSource
from .tensormap import TensorMap as TensorMap
