"""Users' .cu files for an operation: names, launches, and what is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpladder.errors import KernelError, RungError
from warpladder.ladder import find
from warpladder.nets import Conv2d, Linear
from warpladder.ops.own.kernel_file import KernelFile, read, shape
from warpladder.ops.own.roles import Roles, named, roles
from warpladder.rungs.own_op import absolute, is_own_op, split

BODY = "__global__ void mine(const float* X, const float* W, const float* bias, float* out, int {0}) {{ {1} }}"


def linear(folder: Path, text: str, outputs: tuple[str, ...] = ("y",)) -> KernelFile:
    file = folder / "mine.cu"
    file.write_text(text)
    return read(str(file), roles("linear", Linear), outputs)


def test_parameters_are_known_by_the_names_that_people_give_them(tmp_path: Path) -> None:
    (launch,) = linear(tmp_path, BODY.format("batch_size, int inFeatures, int out_features", "")).launches
    assert (launch.takes, launch.writes) == (("x", "w", "b", "y", "n", "inputs", "outputs"), ("y",))
    named_roles = roles("conv2d", Conv2d)
    assert named_roles.of("w", True, "") == "w" and named_roles.of("width", False, "") == named_roles.of("w", False, "")


def test_a_launch_in_the_file_states_grid_block_and_arguments(tmp_path: Path) -> None:
    head = "#define T 16\nconstexpr int TWO = 2 * T;\n"
    line = "// launch: mine<<<dim3((outputs + T - 1) / T, n), dim3(T, TWO / T), 4 * TWO>>>(x, w, b, y, n * outputs);\n"
    file = linear(tmp_path, head + line + BODY.format("total", ""))
    (launch,) = file.launches
    assert launch.takes == ("x", "w", "b", "y", "n * outputs")
    assert shape(file, launch, {}, {**file.defined(), "n": 3, "outputs": 17}) == ((2, 3), (16, 2), 128)


def test_without_a_launch_a_thread_computes_an_element(tmp_path: Path) -> None:
    class Shaped:
        def __init__(self, *sizes: int) -> None:
            self.shape, self.size = sizes, sizes[0] * sizes[1]

    arrays = {"y": Shaped(5, 130)}
    flat = linear(tmp_path, BODY.format("n, int inputs, int outputs", "int i = threadIdx.x;"))
    assert shape(flat, flat.launches[0], arrays, {}) == ((3,), (256,), 0)  # type: ignore[arg-type]
    square = linear(tmp_path, BODY.format("n, int inputs, int outputs", "int i = threadIdx.y;"))
    assert shape(square, square.launches[0], arrays, {}) == ((9, 1), (16, 16), 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("int f(int n) { return n; }", "has no kernel: no function is __global__"),
        (BODY.format("n, int depth", ""), "no number of linear is called 'depth'"),
        (BODY.replace("float* out", "float* outt").format("n", ""), "did you mean y?"),
        (BODY.replace("float* out", "const float* out").format("n", ""), "no kernel writes y"),
        (BODY.format("n", "") + BODY.replace("mine", "other").format("n", ""), "mine and other write y: name one"),
        ("// launch: mine<<<4>>>\n" + BODY.format("n", ""), "wants <<<grid, block>>>"),
        ("// launch: mine<<<4, n>>>(x, y)\n" + BODY.format("n", ""), "gives 2 arguments"),
        ("// launch: gone<<<4, 4>>>\n" + BODY.format("n", ""), "has no kernel 'gone'"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(KernelError, match="mine") as error:
        linear(tmp_path, text)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_operations_have_the_package_s_names() -> None:
    assert named("linear") == (Linear, ("y", "dx", "dw", "db")) and named("relu.backward")[1] == ("dx",)
    assert named("sgd.update") == ("sgd", ("w",))
    for wrong in ("lineer.forward", "linear.sideways", "muon.update"):
        with pytest.raises(KernelError, match="there is no"):
            named(wrong)


def test_a_rung_is_named_by_operations_files_and_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = "linear.forward=a.cu+relu=b.cu:device=emulated"
    assert is_own_op(name) and split(name) == ("linear.forward=a.cu+relu=b.cu", ["device=emulated"])
    assert absolute(name) == f"linear.forward={tmp_path}/a.cu+relu={tmp_path}/b.cu:device=emulated"
    assert not any(map(is_own_op, ("naive:block_size=64", "./mine.py", "mine.py:columns=3", "numpy")))
    with pytest.raises(RungError, match=r"there is no such file: warpladder new kernel linear.forward --out a.cu"):
        find(name)


def test_no_two_names_of_an_operation_are_alike() -> None:
    for kind in (Linear, Conv2d):
        words = roles("op", kind)
        assert isinstance(words, Roles) and len(words.numbers) == len(set(words.numbers))
