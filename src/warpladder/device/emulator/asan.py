"""AddressSanitizer and UBSan for kernels: starts a Python process with their libraries loaded.

    python -m warpladder.device.emulator.asan SCRIPT [ARGUMENT ...]

Kernels that an `EmulatedDevice(mode="asan")` runs in this process stop it at the first wrong access.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from ...errors import DeviceError
from .toolchain import compiler

#: Exit code of AddressSanitizer.
FOUND = 99

#: Libraries to preload; the interceptors look for functions of libstdc++ when they are loaded.
_LIBRARIES = ("libasan.so", "libubsan.so", "libstdc++.so.6")


def environment() -> dict[str, str]:
    """Environment of a Python process with sanitizers. Raises `DeviceError` if the compiler has none."""
    found = []
    for library in _LIBRARIES:
        command = [*compiler().command, f"-print-file-name={library}"]
        path = subprocess.run(command, capture_output=True, text=True).stdout.strip()
        if not os.path.isabs(path):
            install = "install the sanitizers of its version, or check without asan"
            raise DeviceError(f"{compiler().command[0]} has no {library}: {install}")
        found.append(path)
    options = (
        f"detect_leaks=0:exitcode={FOUND}:detect_stack_use_after_return=0:use_sigaltstack=0:allocator_may_return_null=1"
    )
    return os.environ | {
        "LD_PRELOAD": " ".join(found),
        "ASAN_OPTIONS": options,
        "UBSAN_OPTIONS": f"print_stacktrace=1:halt_on_error=1:exitcode={FOUND}",
        "PYTHONMALLOC": "malloc",
    }


def run(arguments: Sequence[str], **options: object) -> subprocess.CompletedProcess[str]:
    """Result of `python ARGUMENTS` with sanitizers; return code `FOUND` is a fault, described on stderr."""
    command = [sys.executable, *arguments]
    return subprocess.run(  # type: ignore[call-overload]
        command, env=environment(), capture_output=True, text=True, errors="replace", **options
    )


if __name__ == "__main__":
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], environment())
