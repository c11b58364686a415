"""The emulator: .cu files run on the CPU as they are, fast or checked."""

from .device import EmulatedDevice as EmulatedDevice
from .reports import Report as Report
from .toolchain import why_not as why_not
