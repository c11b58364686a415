"""Programs with what courses teach late, and with NVIDIA's libraries: they print what they do on a GPU, unreported."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpladder.device.emulator.toolchain import why_not
from warpladder.errors import ConfigError
from warpladder.programs.build import ProgramOptions
from warpladder.programs.command import read
from warpladder.programs.gpus import find
from warpladder.programs.run import run

SAMPLES = Path(__file__).parent / "samples"

#: By program: what it prints. Numbers of random.cu are those of cuRAND's own headers, compiled for the host.
PRINTS = {
    "tensor": "no error\nno error\nbad 0\n",
    "barriers": "42 63 128\n126 256\nno error\n31 160\n",
    "clusters": "100 31\nno error 6 22\n5\n20100 120003 121033\n",
    "ptx": "no error\nbc 9696 55441100 6 2 3 0 6 6 46004400 40003c00 2d 2 aaaaaaaa 7 9 5.5 0 5.5 \nno error\nbad 0 7\n",
    "cub": "1902 1549 1531\n14983\n14965\n0 30\n0 30 0 95\n",
    "thrust": "0 99 1 49597\n20 218 218 99\n323\n2:15 1:12 0:18 0 2 7 15 16 20 27 27 30 36 285\n75 5\n49\n1 0\n1 -2.5 7.25 5 1\n",
    "libraries": "1 1 1\n0.50 4.96\n1 2 9 12\n4 6 6 10 52 62 62 74 21\n",
    "rounding": "1 1.00000012 -0.333333313 -0.333333343 0.300000012 1.73205078 1.7320509 0.333333343 -0 0.100000001 "
    "0.099999994 16777216 \n1.0000000000000002 0.33333333333333331 0.33333333333333337 1\n26 38 30 44 74 86 86 100 \n"
    "16\n69 94\n",
    "intrinsics": "1008 at 709\n12 17 27 65538 2 814 3 most 15 2 4\n1 nodes, cudaSuccess\n0\n",
    "graphs": "8 8 1 2\nfirst 30\nsecond 10\nsecond 1\nfirst 30\nfirst 10030\nfirst 20\n7\nread 7 7\nread 7 7\n",
    "registered": "62 32 4194306\n78 40 no error\n",
    "random": "3342338481 2692558140 1807296936 0.861380756 0.31292184884154445 1.1775 -0.95237 0.29216 1926044892 12\n"
    "3311976009 1838895051 775923046 0.203492194 0.3322847755625844 0.77734 0.17171 -0.78712 1832549059 6\n"
    "1721454075 1736818293 68821144 0.652458191 0.99403305136433528 0.81951 -0.35339 -1.0992 2918896965 5\n",
}
emulated = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@emulated
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=pytest.mark.slow if name in ("graphs", "ptx", "registered", "rounding") else pytest.mark.nightly
        )
        for name in PRINTS
    ],
)
def test_a_sample_prints_what_it_does_on_a_gpu(capfd, name):
    outcome = run([SAMPLES / f"{name}.cu"], ProgramOptions(find("H100"), "check"), limit=300)
    assert capfd.readouterr().out == PRINTS[name]
    assert (outcome.code, outcome.problems, outcome.remarks) == (0, (), ())


def test_a_compile_line_is_read():
    line = read(
        "/usr/local/cuda/bin/nvcc -O3 -lineinfo -gencode arch=compute_80,code=sm_80 -I../inc -I lib -DN=3 -D M "
        "-Xcompiler -fopenmp --library-path=/x -lcudart -lm -o prog main.cu \\\n util.cpp"
    )
    assert line.files == ("main.cu", "util.cpp")
    assert line.folders == (Path("../inc"), Path("lib"))
    assert (line.defines, line.libraries) == (("N=3", "M"), ("m", "gomp"))


def test_two_calls_of_a_compiler_are_one_program():
    assert read("nvcc -c a.cu -o a.o && g++ -c b.cpp -o b.o; nvcc a.o b.o -o ab").files == ("a.cu", "b.cpp")


@pytest.mark.parametrize("line", ["nvcc -o x", "nvcc 'a.cu"])
def test_a_line_that_is_no_compilation_is_refused(line):
    with pytest.raises(ConfigError, match=r"^--command"):
        read(line)
