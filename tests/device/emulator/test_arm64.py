"""The emulator on arm64: built by a cross compiler, run by qemu, with the same results as here."""

import shutil
import subprocess
from pathlib import Path

import pytest

from warpladder.device import source
from warpladder.device.declarations import names
from warpladder.device.emulator import module
from warpladder.device.emulator.toolchain import _CALLOUTS, HEADERS, RUNTIME

HERE = Path(__file__).parent
CROSS, QEMU, ROOT = "aarch64-linux-gnu-g++", "qemu-aarch64", "/usr/aarch64-linux-gnu"

needs_tools = pytest.mark.skipif(
    not (shutil.which(CROSS) and shutil.which(QEMU)),
    reason=f"needs {CROSS} and {QEMU}: apt install g++-aarch64-linux-gnu qemu-user",
)


def printed(folder: Path, compiler: str, run: list[str], mode: tuple[str, ...], callouts: tuple[str, ...]) -> str:
    kernels = source.read(HERE / "correct" / "grid.cu")
    (folder / "kernels.cpp").write_text(module._text(kernels, tuple(names(kernels))))
    common = [
        "-std=gnu++20",
        "-fno-strict-aliasing",
        "-O1",
        "-w",
        "-pthread",
        f"-I{HEADERS}",
        f"-I{HEADERS / 'cuda'}",
        *mode,
    ]
    objects = []
    for file, more in ((RUNTIME / "runtime.cpp", ()), (folder / "kernels.cpp", callouts), (HERE / "arm64.cpp", ())):
        objects.append(str(folder / f"{file.stem}-{compiler}.o"))
        subprocess.run([compiler, *common, *more, "-c", str(file), "-o", objects[-1]], check=True)
    program = str(folder / f"program-{compiler}")
    subprocess.run([compiler, "-rdynamic", "-pthread", *objects, "-ldl", "-o", program], check=True)
    return subprocess.run([*run, program], check=True, capture_output=True, text=True).stdout


@needs_tools
@pytest.mark.parametrize(("mode", "callouts"), [((), ()), (("-DEMU_CHECK",), _CALLOUTS)], ids=["fast", "check"])
def test_arm64_computes_what_this_processor_does(tmp_path, mode, callouts):
    here = printed(tmp_path, "g++", [], mode, callouts)
    assert len(here.splitlines()) == 3, here
    assert printed(tmp_path, CROSS, [QEMU, "-L", ROOT], mode, callouts) == here
