"""Launches that `warpladder check` proposes for a file: those of its host code as they stand there, or guesses."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from warpladder.checker.proposals import Proposal, proposals
from warpladder.cli import main
from warpladder.device.declarations import readable
from warpladder.device.emulator import why_not
from warpladder.device.emulator.hostcode import device_code, host_code

emulated = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

TWICE = """\
__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""
IMAGE = """\
__global__ void image(const float* a, float* b, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) b[y * w + x] = a[y * w + x];
}
"""
MAIN = """\
#define W 40
int up(int a, int b) { return (a + b - 1) / b; }
int main() {
    const int n = 1000, h = 25;
    size_t bytes = W * h * sizeof(float);
    float *x, *y, *a, *b;
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc((void**)&y, sizeof(float) * n);
    cudaMalloc(&a, bytes);
    cudaMalloc(&b, bytes);
    twice<<<GRID, 256>>>(x, y, n);
    dim3 block(16, 8), grid(up(W, block.x), up(h, block.y));
    image<<<grid, block>>>(a, b, W, h);
}
"""


@pytest.fixture
def proposed(tmp_path: Path) -> Callable[[str], list[Proposal]]:
    def work_out(text: str) -> list[Proposal]:
        path = tmp_path / "program.cu"
        path.write_text(text)
        source = device_code(path)
        return proposals(source, host_code(path), readable(source))

    return work_out


def test_a_grid_stays_as_the_file_has_it(proposed: Callable[[str], list[Proposal]]) -> None:
    twice, image = proposed(TWICE + IMAGE + MAIN.replace("GRID", "n / 256"))
    assert (twice.grid, twice.block, twice.values) == (("n / 256",), ("256",), {"n": "1000"})
    assert twice.arrays == {"x": "n", "y": "n:uninitialised"}
    assert image.grid == ("(W + 16 - 1) / 16", "(h + 8 - 1) / 8")
    assert image.block == ("16", "8")
    assert image.arrays == {"a": "W * h", "b": "W * h:uninitialised"}
    assert image.values == {"W": "40", "h": "25", "w": "W"}


@pytest.mark.parametrize(
    ("text", "grid"),
    [
        ("(n + 255) / 256", "(n + 255) / 256"),
        ("ceil(n / 256.0)", "(n + 256 - 1) / 256"),
        ("(int)ceil((float)n / 256)", "(n + 256 - 1) / 256"),
        ("ceil(n / 256)", "n / 256"),
        ("up(n, 256)", "(n + 256 - 1) / 256"),
        ("dim3(n / 256)", "n / 256"),
    ],
)
def test_divisions_keep_their_rounding(proposed: Callable[[str], list[Proposal]], text: str, grid: str) -> None:
    assert proposed(TWICE + IMAGE + MAIN.replace("GRID", text))[0].grid == (grid,)


def test_sizes_of_vectors_are_their_lengths(proposed: Callable[[str], list[Proposal]]) -> None:
    """A vector of another file has a name of its own, which gets a guessed number."""
    (proposal,) = proposed(
        TWICE + "int main() {\n    const int n = 900;\n    std::vector<float> v(n + 1, 2.0f);\n"
        "    std::array<float, 30> a;\n    float *x, *y;\n    cudaMalloc(&x, v.size() * sizeof(float));\n"
        "    cudaMalloc(&y, other.size() * sizeof(float));\n"
        "    twice<<<(v.size() + 255) / 256, a.size()>>>(x, y, n);\n}\n"
    )
    assert (proposal.grid, proposal.block) == (("((n + 1) + 255) / 256",), ("30",))
    assert [array for array in ("n + 1", "other_size") if array not in str(proposal)] == []


def test_names_of_the_host_that_mean_something_else(proposed: Callable[[str], list[Proposal]]) -> None:
    main = "int main() { int n = 64, m = 300; float *x, *y; twice<<<m / n, n>>>(x + 3, y, m); }"
    found = proposed(TWICE + main)[0]
    assert (found.grid, found.block) == (("m / 64",), ("64",))
    assert found.values == {"m": "300", "n": "m"}
    assert found.arguments == {"x": "x+3"}


def test_large_sizes_become_small_and_keep_their_divisors_without_a_guard(
    proposed: Callable[[str], list[Proposal]],
) -> None:
    main = "int main() { int n = 1 << 20; float *x, *y; cudaMalloc(&x, n * 4); twice<<<n / 256, 256>>>(x, y, n); }"
    assert proposed(TWICE + main)[0].values == {"n": "1000"}
    assert proposed(TWICE.replace("if (i < n) ", "") + main)[0].values == {"n": "4096"}


def test_guesses_for_kernels_that_nothing_launches(proposed: Callable[[str], list[Proposal]]) -> None:
    twice, image = proposed(TWICE + IMAGE)
    assert (twice.grid, twice.block) == (("(n + 255) / 256",), ("256",))
    assert (image.grid, image.block) == (("(w + 15) / 16", "(h + 15) / 16"), ("16", "16"))
    assert image.arrays == {"a": "w * h", "b": "w * h:uninitialised"}
    assert image.values == {"w": "50", "h": "40"}  # no square, which hides exchanged axes
    counted = proposed("__global__ void k(int* in, int* c) { int i = threadIdx.x; atomicAdd(c, in[i]); }")[0]
    assert (counted.grid, counted.arrays) == (("1",), {"in": "256", "c": "1:zeros"})


@emulated
def test_pasted_proposals_show_a_floor_and_pass_a_right_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.cu").write_text(TWICE + IMAGE + MAIN.replace("GRID", "n / 256"))
    assert main(["check", "--list", "program.cu"]) == 0
    text = capsys.readouterr().out.replace("\\\n", " ")
    commands = [shlex.split(line) for line in text.splitlines() if "--kernel" in line]
    assert [main([*words[1:], "--mode", "check"]) for words in commands] == [1, 0]
    assert "232 of the 1,000 elements of array y were never written" in " ".join(capsys.readouterr().out.split())
    assert main(["check", "--toml", "program.cu"]) == 0
    written = capsys.readouterr().out
    assert [launch["kernel"] for launch in tomllib.loads(written)["launch"]] == ["twice", "image"]
    (tmp_path / "all.toml").write_text(written.replace('"n / 256"', '"(n + 255) / 256"'))
    assert main(["check", "all.toml", "--mode", "check"]) == 0


@emulated
def test_a_file_with_all_launches_keeps_arrays_of_other_types_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    members = "struct P { float* x; float* unused; int n; };\n__global__ void all(P p) { p.x[threadIdx.x] = p.n; }\n"
    one = "__global__ void k(TYPE* x) { x[threadIdx.x] += 1; }\n"
    (tmp_path / "k.cu").write_text(members + one.replace("TYPE", "float") + one.replace("TYPE", "int"))
    assert main(["check", "--toml", "k.cu"]) == 0
    written = capsys.readouterr().out
    assert [launch.get("arguments") for launch in tomllib.loads(written)["launch"]] == [None, None, {"x": "x_k"}]
    (tmp_path / "k.toml").write_text(written)
    assert main(["check", "k.toml", "--mode", "check"]) == 0


@emulated
def test_a_syntax_error_is_seen_when_the_file_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.cu").write_text(TWICE.replace("threadIdx.x;", "threadIdx.x"))
    assert main(["check", "k.cu"]) == 2
    out, err = capsys.readouterr()
    assert "twice(const float* x, float* y, int n)" in out
    assert "k.cu:3: expected ',' or ';' before 'if'" in err
    (tmp_path / "p.cu").write_text(TWICE.replace("threadIdx.x;", "threadIdx.x") + "int main() {}\n")
    assert main(["check", "p.cu"]) == 2
    assert capsys.readouterr().err.endswith("p.cu:3: expected ',' or ';' before 'if'\n")


def test_a_guess_has_the_block_of_the_kernels_shared_array(tmp_path):
    text = """
#define T 32
template <class X> __global__ void tile(const X* x, X* sums, int n) {
    __shared__ X s[T];
    int t = threadIdx.x, i = blockIdx.x * T + t;
    s[t] = i < n ? x[i] : 0;
    __syncthreads();
    if (t == 0) sums[blockIdx.x] = s[0] + s[T - 1];
}
template __global__ void tile<double>(const double*, double*, int);
__global__ void plane(const float* x, float* y, int rows, int columns) {
    __shared__ float s[8][T + 1];
    int c = blockIdx.x * T + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
    if (r < rows && c < columns) y[r * columns + c] = s[threadIdx.y][threadIdx.x] = x[r * columns + c];
}
__global__ void carved(double* x) { extern __shared__ char room[]; x[threadIdx.x] = room[threadIdx.x]; }
"""
    file = tmp_path / "k.cu"
    file.write_text(text)
    tile, plane, carved = proposals(device_code(file), "", ["tile<double>", "plane", "carved"])
    assert (tile.block, tile.arrays["sums"]) == (("32",), f"{tile.grid[0]}:uninitialised")
    assert plane.block == ("32", "8") and plane.grid == ("(columns + 31) / 32", "(rows + 7) / 8")
    assert (carved.block, carved.shared) == (("256",), "4096")
