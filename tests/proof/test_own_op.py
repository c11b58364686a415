"""Users' kernels by themselves: right ones pass at the net's shapes and ragged ones, wrong ones are named in a line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NoReturn

import pytest

import warpladder as wl
from warpladder.config import TrainConfig
from warpladder.device.emulator import why_not
from warpladder.errors import RungError
from warpladder.ladder import find
from warpladder.ops.own.start import known, start
from warpladder.optimizers import SGD, Adam, AdamW, Optimizer
from warpladder.proof import verify
from warpladder.proof.own import watched
from warpladder.proof.own.kernels import inspect

pytestmark = pytest.mark.skipif(why_not() is not None, reason="the emulator needs g++")

LAYERS = (
    wl.Conv2d(out_channels=4, kernel_size=3, padding=1), wl.ReLU(), wl.MaxPool2d(2), wl.Upsample2d(scale_factor=2),
    wl.AvgPool2d(3, 2), wl.LeakyReLU(), wl.Conv2d(out_channels=3, kernel_size=2, stride=2, bias=False), wl.Tanh(),
    wl.GELU(), wl.SiLU(), wl.Flatten(), wl.Linear(out_features=7, bias=False), wl.Sigmoid(), wl.Linear(out_features=3),
)  # fmt: skip
NET = wl.Net("every", (2, 11, 9), LAYERS, wl.CrossEntropyLoss())
SMALL = wl.Net("small", (1, 3, 3), (wl.Flatten(), wl.Linear(out_features=5)), wl.CrossEntropyLoss())
OPTIMIZERS: dict[str, Optimizer] = {"adam.update": Adam(weight_decay=0.1), "adamw.update": AdamW()}
BY_DAY = ("linear.backward", "maxpool2d.backward", "adamw.update")


def not_called(message: str) -> NoReturn:
    raise AssertionError(message)


def checked(folder: Path, op: str, text: str, net: wl.Net = SMALL) -> str:
    file = folder / "mine.cu"
    file.write_text(text)
    config = TrainConfig(batch_size=8, optimizer=OPTIMIZERS.get(op, SGD(0.1, momentum=0.9, weight_decay=0.01)))
    rung = find(f"{op}={file}:device=emulated")
    assert rung.unsupported(net, config) is None
    return inspect(rung, net, config, not_called).text


@pytest.mark.parametrize("op", [pytest.param(op, marks=[pytest.mark.slow] * (op not in BY_DAY)) for op in known()])
def test_every_file_to_start_from_is_right(tmp_path: Path, op: str) -> None:
    assert re.search(
        r"checked on the emulator, at \d shapes? of the net and \d ragged ones", checked(tmp_path, op, start(op), NET)
    )


@pytest.mark.parametrize("seed", [1611212435, pytest.param(4, marks=pytest.mark.slow)])
def test_one_accumulator_passes_where_outputs_are_large(tmp_path: Path, seed: int) -> None:
    file = tmp_path / "linear_forward.cu"
    file.write_text(start("linear.forward"))
    data = wl.data.load("digits")
    config = TrainConfig(epochs=20, batch_size=32, optimizer=SGD(0.2, momentum=0.9))
    rung = find(f"linear.forward={file}:device=emulated")
    found = verify(rung.build, wl.nets.mlp((1, 8, 8)), config, dataset=data, seed=seed, reach=0)
    assert found.passed, found.reason


RIGHT = start("linear.forward")
TILED = """
#define T 8
// launch: tiled<<<dim3((outputs + T - 1) / T, (n + T - 1) / T), dim3(T, T)>>>
__global__ void tiled(const float* x, const float* w, const float* b, float* y, int n, int inputs, int outputs) {
    __shared__ float a[T][T], c[T][T + 1];
    int row = blockIdx.y * T + threadIdx.y, o = blockIdx.x * T + threadIdx.x, up = blockIdx.x * T + threadIdx.y;
    float sum = b[o < outputs ? o : 0];
    for (int k = threadIdx.x; k < inputs + threadIdx.x; k += T) {
        a[threadIdx.y][threadIdx.x] = row < n && k < inputs ? x[row * inputs + k] : 0.0f;
        c[threadIdx.y][threadIdx.x] = up < outputs && k < inputs ? w[up * inputs + k] : 0.0f;
        __syncthreads();
        for (int i = 0; i < T; ++i) sum += a[threadIdx.y][i] * c[threadIdx.x][i];
        __syncthreads();
    }
    if (row < n && o < outputs) y[row * outputs + o] = sum;
}
"""
WRONG = [
    (TILED.replace("        __syncthreads();\n    }", "    }"), "race on shared array"),
    (RIGHT.replace("    if (i >= n * outputs) return;\n", ""), "out of bounds"),
    (RIGHT.replace("k < inputs", "k < inputs - inputs / 33"), r"y\[\d, \d+\] is \S+, and should be"),
    (RIGHT.replace("    y[i] = sum", "    if (o) y[i] = sum"), "elements of y are never written"),
    (RIGHT.replace("    y[i] = sum", "    ((float*)x)[row * inputs] = 1.0f;\n    y[i] = sum"), "read only|writes|race"),
    (RIGHT.replace("// launch: linear_forward<<<(n * outputs", "// launch: linear_forward<<<(n"), "never written"),
]


def test_a_tiled_kernel_is_right(tmp_path: Path) -> None:
    assert "2 ragged" not in checked(tmp_path, "linear.forward", TILED)


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_a_wrong_kernel_is_one_line_with_the_command(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RungError) as error:
        checked(tmp_path, "linear.forward", text)
    line = str(error.value)
    assert re.search(message, line) and "\n" not in line
    how = "to run it alone: " if "should be" in line else "run "  # a check of the kernel alone knows no right result
    assert re.search(how + r"`warpladder check \S+mine.cu --grid \d+(,\d+)* --block \S+ --arg x=\d+ .*`$", line)


def test_a_file_for_the_net_s_shapes_is_tried_on_no_others(tmp_path: Path) -> None:
    fixed = "// shapes: net\n" + RIGHT.replace("{\n", "{\n    if (outputs % 5) return;\n", 1)
    assert "ragged ones are left out" in checked(tmp_path, "linear.forward", fixed)
    with pytest.raises(RungError, match="never written"):
        checked(tmp_path, "linear.forward", fixed.replace("// shapes: net", ""))


def test_an_update_with_a_wrong_bound_or_sum_is_named(tmp_path: Path) -> None:
    right = start("sgd.update")
    with pytest.raises(RungError, match="out of bounds"):
        checked(tmp_path, "sgd.update", right.replace("i >= count", "i > count"))
    with pytest.raises(RungError, match=r"w\[\d+\] is"):
        checked(tmp_path, "update", right.replace("w[i] -= lr", "w[i] -= 1.001f * lr"))


def test_an_update_that_ignores_a_slot_is_no_update_of_this_net(tmp_path: Path) -> None:
    file = tmp_path / "sgd.cu"
    file.write_text("__global__ void sgd(float* w, const float* g, float lr, int n) {}")
    rung = find(f"update={file}:device=emulated")
    assert "does not take momentum_buffer" in str(
        rung.unsupported(SMALL, TrainConfig(optimizer=SGD(0.1, momentum=0.9)))
    )
    assert rung.unsupported(SMALL, TrainConfig(optimizer=SGD(0.1))) is None
    assert "has no Conv2d" in str(find(f"conv2d={_conv(tmp_path)}:device=emulated").unsupported(SMALL, TrainConfig()))


def _conv(folder: Path) -> Path:
    file = folder / "conv.cu"
    file.write_text(start("conv2d"))
    return file


class Stuck(Exception):
    pass


@pytest.mark.slow
def test_a_kernel_without_an_end_is_named_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launch cannot be ended here: it ends by itself, long after the message. Other modes have watched before."""
    checked(tmp_path, "linear.forward", RIGHT)
    monkeypatch.setattr(watched, "LIMIT", 0.5)
    found: list[str] = []
    slow = RIGHT.replace(
        "    y[i] = sum", "    for (int k = 0; k < 400000000; ++k) sum += 0.0f * x[0];\n    y[i] = sum", 1
    )
    file = tmp_path / "mine.cu"
    file.write_text("// shapes: net\n" + slow.replace("(n * outputs + 255) / 256, 256", "1, 1"))
    with pytest.raises(RungError):  # one thread for all elements
        inspect(find(f"linear.forward={file}:device=emulated"), SMALL, TrainConfig(), found.append)
    assert "no end within" in found[0] and "mine.cu:" in found[0] and "run `warpladder check" in found[0]
