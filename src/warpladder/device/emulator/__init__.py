"""Emulator: unmodified .cu files run on the CPU, fast, with every access checked, or under AddressSanitizer.

It may import device/; the checker builds on it. Begin with device.py: module.py compiles a file (rewrite.py, symbols.py
and toolchain.py), kernel.py launches it, runtime/ runs it, and reports.py converts the runtime's findings to sentences.
"""

from .device import EmulatedDevice as EmulatedDevice
from .reports import Report as Report
from .toolchain import why_not as why_not
