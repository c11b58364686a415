"""AddressSanitizer and UBSan for kernels: Python is started anew with their libraries in it.

    python -m warpladder.device.emulator.asan SCRIPT [ARGUMENT ...]

Kernels that an `EmulatedDevice(mode="asan")` runs in there stop the process at the first access that is wrong.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from ...errors import DeviceError
from .toolchain import compiler

#: What AddressSanitizer exits with.
FOUND = 99

#: libstdc++ among them: the interceptors look for its functions when they are loaded.
_LIBRARIES = ("libasan.so", "libubsan.so", "libstdc++.so.6")


def environment() -> dict[str, str]:
    """The environment that a Python with sanitizers needs; `DeviceError` where the compiler has none."""
    found = []
    for library in _LIBRARIES:
        path = subprocess.run(
            [*compiler().command, f"-print-file-name={library}"], capture_output=True, text=True
        ).stdout.strip()
        if not os.path.isabs(path):
            raise DeviceError(
                f"{compiler().command[0]} has no {library}: install the sanitizers of its version, or check without asan"
            )
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
    """Run `python ARGUMENTS` with sanitizers; its output is text. A return code of `FOUND` says that something was
    found; stderr says what.
    """
    return subprocess.run(
        [sys.executable, *arguments], env=environment(), capture_output=True, text=True, errors="replace", **options
    )  # type: ignore[call-overload]


if __name__ == "__main__":
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], environment())
