"""Tensor maps: what the copy engine cannot copy is refused in a line, and so is a map where it does not belong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from warpladder.cli import main
from warpladder.device.emulator import EmulatedDevice, why_not
from warpladder.errors import KernelError, LaunchError

if (reason := why_not()) is not None:  # before a device is made
    pytest.skip(reason, allow_module_level=True)

SAMPLES = Path(__file__).parent / "emulator" / "correct" / "warpgroups.cu"


@pytest.mark.parametrize(
    ("shape", "dtype", "how", "said"),
    [
        ((8, 32), np.float64, {"rows": 8}, "numbers of 16 or 32 bits are wanted, got float64"),
        ((8, 32), np.int32, {"rows": 8}, "numbers of 16 or 32 bits are wanted, got int32"),
        ((256,), np.float32, {"rows": 8}, r"with rows and columns is wanted, got an array of shape \(256,\)"),
        ((8, 33), np.float32, {"rows": 8}, "rows have to begin at multiples of 16 bytes, and they are 132 long"),
        ((8, 32), np.float32, {"rows": 0}, "a tile has 1 to 256 rows, got 0"),
        ((8, 32), np.float32, {"rows": 257}, "a tile has 1 to 256 rows, got 257"),
        ((8, 32), np.float32, {"rows": 8, "columns": 33}, "33 columns of 32"),
        ((8, 32), np.float32, {"rows": 8, "columns": 0}, "0 columns of 32"),
        (
            (8, 32),
            np.float32,
            {"rows": (1, 2, 4)},
            r"images \(images, rows, columns, channels\) are wanted, got an array of shape \(8, 32\)",
        ),
        (
            (2, 3, 4, 32),
            np.float32,
            {"rows": 8},
            r"with rows and columns is wanted, got an array of shape \(2, 3, 4, 32\)",
        ),
        ((2, 3, 4, 32), np.float32, {"rows": (2, 16, 16)}, "a tile has 1 to 256 rows, got 2 x 16 x 16"),
        (
            (2, 3, 4, 33),
            np.uint16,
            {"rows": (1, 8, 8)},
            "rows have to begin at multiples of 16 bytes, and they are 66 long",
        ),
        ((8, 32), np.uint16, {"rows": 8, "to_tf32": True}, "only floats are rounded to tf32, got uint16"),
    ],
)
def test_what_cannot_be_mapped_is_refused(shape, dtype, how, said):
    device = EmulatedDevice()
    with pytest.raises(LaunchError, match=said):
        device.tensor_map(device.zeros(shape, dtype), **how)


def test_a_map_says_what_it_maps_and_keeps_it():
    device = EmulatedDevice()
    made = device.tensor_map(device.array(np.ones((5, 64), np.float32)), 8, columns=50)
    assert (made.tile, made.columns, made.to_tf32, made.words.shape) == ((8, 32), 50, False, (16,))
    assert made.array.download().sum() == 5 * 64


def test_maps_and_kernels_that_do_not_fit_each_other():
    device, other = EmulatedDevice(), EmulatedDevice()
    x, y = device.zeros((8, 32)), device.zeros((8, 32))
    kernel = device.kernel(SAMPLES, "tile<8, float>")
    with pytest.raises(KernelError, match="wants a tensor map that the emulator made, got Array"):
        kernel.bind(1, 32, x, y, 0, 0)
    with pytest.raises(KernelError, match="wants a tensor map that the emulator made"):
        kernel.bind(1, 32, other.tensor_map(other.zeros((8, 32)), 8), y, 0, 0)
    with pytest.raises(KernelError, match="wants no tensor map"):
        kernel.bind(1, 32, device.tensor_map(x, 8), device.tensor_map(y, 8), 0, 0)
    with pytest.raises(LaunchError, match="is not in the memory of"):
        device.tensor_map(other.zeros((8, 32)), 8)


def test_what_a_launch_reads_through_a_map_is_known():
    device = EmulatedDevice()
    x, y = device.zeros((8, 32)), device.zeros((8, 32))
    touched = device.kernel(SAMPLES, "tile<8, float>").bind(1, 32, device.tensor_map(x, 8), y, 0, 0).touches
    assert touched is not None
    assert touched.reads == (range(x.address, x.address + x.nbytes),)
    assert touched.writes == (range(y.address, y.address + y.nbytes),)


def test_a_description_has_no_words_for_a_map(tmp_path, capsys):
    source = tmp_path / "mapped.cu"
    source.write_text(
        '#include "bulk.cuh"\nextern "C" __global__ void mapped(const __grid_constant__ TensorMap map, float* y) { y[0] = 1.0f; }\n'
    )
    assert main(["check", str(source), "--grid", "1", "--block", "32", "--arg", "y=32"]) == 2
    assert "kernel mapped takes a tensor map, which a description cannot give" in " ".join(
        capsys.readouterr().err.split()
    )


def test_a_tile_of_other_axes_than_its_map_has_is_refused():
    device = EmulatedDevice()
    out = device.zeros((8, 64), np.uint16)
    with pytest.raises(KernelError, match=r"a tile of 4 axes by a tensor map that has 2"):
        device.kernel(SAMPLES, "pixels<8>").bind(
            1, 32, device.tensor_map(device.zeros((8, 64), np.uint16), 8), out, 0, 0, 0, 0
        ).send()
