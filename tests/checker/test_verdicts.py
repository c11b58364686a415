"""`warpladder check` says "no problem found" of honest kernels alone: what cannot be known, or is not done at all, is
told.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from warpladder.checker import uninitialised
from warpladder.checker.description import from_table
from warpladder.cli import main
from warpladder.device.emulator import why_not
from warpladder.device.emulator.rewrite import instruction, without_ptx
from warpladder.errors import ConfigError

PLANTED = Path(__file__).parent / "verdicts" / "planted.cu"
Run = Callable[..., tuple[int, str, str]]

emulated = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
fillable = pytest.mark.skipif(
    why_not() is not None or not uninitialised.comparable(), reason="g++ 12 can fill local variables"
)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Check planted.cu in a folder of its own: the exit code, stdout without line breaks, and stderr."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(PLANTED, tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(["check", *arguments])
        out, err = capsys.readouterr()
        return code, " ".join(out.split()), err

    return call


def kernel(name: str, grid: int, block: int, *arguments: str) -> list[str]:
    """The options of a launch; an argument begins with dashes where it is an option itself."""
    given = [
        word for argument in arguments for word in ([argument] if argument.startswith("--") else ["--arg", argument])
    ]
    return ["planted.cu", "--kernel", name, "--grid", str(grid), "--block", str(block), *given]


def line(mark: str) -> int:
    """The line of planted.cu with this arrow."""
    return next(i for i, text in enumerate(PLANTED.read_text().splitlines(), 1) if f"// <- {mark}" in text)


BLUR = ("x=100", "y=n:uninitialised", "n=100")
#: A launch, and what must be said of it; `HONEST` has each kernel launched as it should be.
FOUND: dict[str, tuple[list[str], str]] = {
    "a constant that nobody fills": (
        kernel("blurred", 4, 32, *BLUR, "--mode=check"),
        r"1\. unfilled on filter::taps, kernel blurred block \(0, 0, 0\) thread \(0, 0, 0\) reads __constant__ filter::taps, element 1 at "
        rf"planted.cu:{line('unfilled')}, which was never filled .* Seen 3 times, by check\.",
    ),
    "an element that nobody writes": (
        kernel("positive", 4, 32, *BLUR, "--mode=check"),
        r"1\. unwritten on y, kernel positive 1 of the 100 elements of array y were never written, the first of them element 99",
    ),
    "an output that is forgotten": (
        kernel("twice", 4, 32, *BLUR, "z=n:uninitialised", "--mode=check"),
        r"1\. unwritten on z, kernel twice no thread wrote to array z of 100 elements",
    ),
    "an output that is forgotten and held something": (
        kernel("twice", 4, 32, *BLUR, "z=n:zeros", "--mode=check"),
        r"1\. unwritten on z, kernel twice array z was neither read nor written, and twice takes it as one to write to",
    ),
    "a launch that does nothing": (
        kernel("early", 4, 32, "y=100:uninitialised", "n=0", "--mode=check"),
        r"1\. nothing written, kernel early no thread of the launch writes to an array: 128 threads of 4 blocks ran and left",
    ),
    "a loop that does not end": (
        kernel("halved", 1, 32, "x=32", "n=2", "--timeout=1", "--mode=check"),
        r"1\. time limit, kernel halved the launch did not end within 1 s: block \(0, 0, 0\) thread \(0, 0, 0\) is at planted.cu:(38|39|40), "
        r"0 of 1 block has ended; --timeout gives it more time .* Seen by check\.",
    ),
    "blocks that wait for each other": (
        kernel("met", 4, 32, "arrived=1:zeros", "y=128:uninitialised", "--mode=check"),
        r"1\. deadlock, kernel met nothing can go on: .* polls array arrived, which no thread changes",
    ),
    "an assertion": (
        kernel("asserted", 1, 10, "x=10:iota", "y=10:uninitialised", "n=1"),
        rf"1\. trap, kernel asserted assertion 'x\[threadIdx.x\] != 9' failed at planted.cu:{line('trap')}, by block \(0, 0, 0\) thread "
        r"\(9, 0, 0\) .* Seen by check, asan and forward order\.",
    ),
    "one fault that three modes see": (
        kernel("divided", 1, 4, "x=4", "y=4:uninitialised", "by=0"),
        rf"1\. trap, kernel divided division of an integer by zero at planted.cu:{line('one fault')}, .* Seen by check, asan and forward order\.",
    ),
}  # fmt: skip


@emulated
@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=[pytest.mark.slow] * (what == "an assertion")) for what in FOUND]
)
def test_a_planted_fault_is_found(run: Run, what: str) -> None:
    planted, said = FOUND[what]
    code, out, err = run(*planted)
    assert (code, err) == (1, "")
    assert re.match(said, out), out
    assert " 1 problem in 1 launch: " in out
    assert "Remark" not in out


HONEST = """\
source = "planted.cu"
[values]
n = 100
more = "n + 1"
one = 1
value = 1.5
[constants]
taps = [0.25, 0.5, 0.25]
[arrays]
x = "more"
y = "n: uninitialised"
positives = "n: uninitialised"
ones = "n: uninitialised"
whole = "n: random(1, 9)"
places = "n: uninitialised"
ratios = "n: uninitialised"
best = "1: uninitialised"
last = "1: uninitialised"
times = "32: uninitialised"
doubles = "n: uninitialised"
arrived = "1: zeros"
together = "128: uninitialised"
"""
LAUNCHES = (
    ("blurred", 4, 32, ""), ("positive", 4, 32, 'y = "positives", n = "more"'), ("early", 4, 32, 'y = "ones"'), ("shifted", 4, 32, 'x = "whole", y = "places"'),
    ("twice", 4, 32, 'z = "null"'), ("met", 4, 32, 'y = "together"'), ("asserted", 1, 100, 'x = "whole", y = "places"'),
    ("divided", 1, 100, 'x = "whole", y = "ratios", by = 3'), ("largest", 1, 1, 'y = "best"'), ("partly", 1, 1, 'y = "last", n = 3'),
    ("timed", 1, 32, 'y = "times"'), ("filled<double>", 1, 100, 'y = "doubles"'),
)  # fmt: skip


@emulated
def test_honest_launches_are_clean(run: Run, tmp_path: Path) -> None:
    text = HONEST + "".join(
        f'[[launch]]\nkernel = "{name}"\ngrid = {grid}\nblock = {block}\narguments = {{ {given} }}\ncooperative = {str(name == "met").lower()}\n'
        for name, grid, block, given in LAUNCHES
    )
    (tmp_path / "honest.toml").write_text(text)
    assert run("honest.toml") == (0, f"no problem found: {len(LAUNCHES)} launches, check + asan + 3 orders", "")


@emulated
def test_a_cooperative_launch_on_the_command_line(run: Run) -> None:
    assert run(*kernel("met", 4, 32, "arrived=1:zeros", "y=128:uninitialised", "--cooperative", "--mode=check"))[0] == 0


@fillable
def test_a_local_variable_without_a_value(run: Run) -> None:
    code, out, _ = run(*kernel("largest", 1, 1, "x=8:random(-2,-1)", "y=1:uninitialised", "n=8", "--mode=fast"))
    assert code == 1
    said = r"1\. uninitialised local on y, kernel largest y\[0\] is 0 if local variables without a value hold zeros, and -16843010 if they hold rubbish; 1 of 1"
    assert re.match(said, out), out
    assert "The compiler suspects best at planted.cu:" in out
    assert str(line("local")) in out


def test_sources_without_such_variables_are_not_compiled_for_them() -> None:
    from warpladder.device.source import KernelSource

    def suspected(body: str) -> bool:
        return uninitialised.suspected(KernelSource(Path("k.cu"), f"__global__ void k(float* x) {{ {body} }}"))

    assert suspected("float v; x[0] = v;")
    assert suspected("unsigned long long a = 1, b; x[0] = b;")
    assert suspected("float4 v[2]; x[0] = v[1].x;")
    assert not suspected("float v = 0; x[0] = v; return; __shared__ float s[4]; /* int n; */")


@emulated
@pytest.mark.slow
def test_structs_and_vectors_by_value(run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.arange(14, dtype=np.float32))
    np.save(tmp_path / "out.npy", 0.5 * np.arange(2, 12, dtype=np.float32) + 3)
    (tmp_path / "scaled.toml").write_text(
        'source = "planted.cu"\n[values]\n"table.n" = 10\n"table.scale.factor" = 0.5\n"table.scale.first[0]" = 7\n"table.scale.first[1]" = 2\n'
        '"plus.x" = 1\n"plus.y" = 2\n"plus.z" = 3\n"plus.w" = 4\n"size.x" = 8\n"size.y" = 1\n"size.z" = 1\n'
        '[arrays]\n"table.in" = "in.npy"\n"y" = "table.n: uninitialised"\n[expect]\ny = "out.npy"\n'
        '[[launch]]\nkernel = "scaled"\ngrid = 2\nblock = "size.x"\narguments = { "table.out" = "y" }\n'
    )
    assert run("scaled.toml", "--mode", "fast") == (0, "no problem found: 1 launch, 3 orders", "")
    (tmp_path / "scaled.toml").write_text(
        (tmp_path / "scaled.toml")
        .read_text()
        .replace('"table.n" = 10', '"table.n" = 11')
        .replace("table.n: un", "10: un")
    )
    code, out, _ = run("scaled.toml", "--mode", "check")
    assert code == 1
    assert (
        "1. out of bounds on table.out, kernel scaled block (1, 0, 0) thread (2, 0, 0) writes 4 bytes after the end of array table.out of 10 elements"
        in out
    )


@emulated
def test_one_kernel_is_refused_and_its_neighbours_are_checked(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run("planted.cu")
    assert code == 2 and "nothing was checked: a launch is missing" in err, err
    assert "refused: kernel rows of planted.cu: 'float** rows' is a pointer to pointers" in out
    assert "refused: kernel looked_up of planted.cu: the type of 'cudaTextureObject_t table' is neither" in out
    assert "filled<double>, an instance that the file names" in out
    code, out, err = run(*kernel("rows", 1, 1, "rows=1"))
    assert (code, out) == (2, "")
    assert "kernel rows of planted.cu: 'float** rows' is a pointer to pointers" in err
    (tmp_path / "two.toml").write_text(
        'source = "planted.cu"\nvalues = { n = 10, value = 1.5 }\narrays = { y = "n: uninitialised", table = 4 }\n'
        '[[launch]]\nkernel = "looked_up"\ngrid = 1\nblock = 1\n[[launch]]\nkernel = "filled<double>"\ngrid = 1\nblock = 10\n'
    )
    code, out, err = run("two.toml", "--mode", "fast")
    assert (code, err) == (2, "")
    assert re.fullmatch(
        r"refused: kernel looked_up of planted.cu: .* so it cannot be passed "
        r"not checked: 1 kernel; no problem found in the others: 2 launches, 3 orders",
        out,
    ), out
    code = main(["check", "two.toml", "--mode", "check", "--json"])
    outcome = json.loads(capsys.readouterr().out)
    assert (code, outcome["problems"], outcome["stopped"]) == (2, [], False)
    assert [name for name, _ in outcome["refused"]] == ["looked_up"]


COMMAND = [sys.executable, "-c", "import sys; from warpladder.cli import main; sys.exit(main())", "check"]


@emulated
def test_inline_ptx_stops_the_kernel_that_comes_to_it(run: Run) -> None:
    code, out, err = run(*kernel("lanes", 1, 4, "y=4:uninitialised", "--mode=check"))
    assert (code, out) == (2, "")
    assert re.fullmatch(r"warpladder: PTX szext\.wrap\.u32 at planted.cu:\d+ has no body here; .*\n", err)


def test_ptx_is_told_from_fences() -> None:
    assert instruction('("mov.u32 %0, %%laneid;" : "=r"(x))') == "mov.u32"
    assert instruction('("{ .reg .pred p; @p bra done; }" :: "r"(x))') == "bra"
    assert instruction('("// a fence\\n" ::: "memory")') == ""
    assert instruction('("" ::: "memory")') == ""
    assert instruction('("\\n\\t"\n "wgmma.fence.sync.aligned;\\n" ::: "memory")') == "wgmma.fence.sync.aligned"
    assert without_ptx('x = "asm(\\"ret;\\")"; // asm("ret;")') == 'x = "asm(\\"ret;\\")"; // asm("ret;")'
    changed = without_ptx('asm volatile("szext.wrap.u32 %0,\\n"\n  "%1, 5;" : "=r"(x) : "r"(y));\nint z;')
    assert changed == 'emu_no_body("PTX szext.wrap.u32", __FILE__, __LINE__)\n;\nint z;'


@pytest.mark.slow
@emulated
def test_constants_in_a_file_of_launches(run: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "taps.npy", np.array([0, 2, 0], np.float32))
    np.save(tmp_path / "x.npy", np.arange(8, dtype=np.float32))
    np.save(tmp_path / "y.npy", 2 * np.arange(8, dtype=np.float32))
    text = (
        'source = "planted.cu"\nvalues = { n = 8 }\narrays = { x = "x.npy", y = "n: uninitialised" }\nconstants = { taps = TAPS }\n'
        'expect = { y = "y.npy" }\n[[launch]]\nkernel = "blurred"\ngrid = 1\nblock = 8\n'
    )
    for taps in ('"taps.npy"', "[0, 2.0, 0]"):
        (tmp_path / "blurred.toml").write_text(text.replace("TAPS", taps))
        assert run("blurred.toml", "--mode", "fast") == (0, "no problem found: 1 launch, 3 orders", "")
    (tmp_path / "blurred.toml").write_text(text.replace("TAPS", "[0, 1.0, 0]"))
    assert run("blurred.toml", "--mode", "fast")[1].startswith("1. wrong result on y, kernel blurred")
    for taps, said in (
        ("[1.0]", "has 3 numbers, and is given 1"),
        ('"x.npy"', "has 3 numbers, and is given 8"),
        ("[1, 2]", "has 3 numbers"),
    ):
        (tmp_path / "blurred.toml").write_text(text.replace("TAPS", taps))
        code, _, err = run("blurred.toml", "--mode", "check")
        assert (code, err.count("\n")) == (2, 1)
        assert said in err
    (tmp_path / "blurred.toml").write_text(text.replace("taps = TAPS", "tips = 1"))
    assert "has no __constant__ tips to be filled; it has filter::taps" in run("blurred.toml")[2]
    with pytest.raises(ConfigError, match="constant taps wants a number"):
        from_table({"constants": {"taps": []}, "launch": []}, Path("blurred.toml"))
    code, out, _ = run(*kernel("blurred", 4, 32, *BLUR, "--mode=fast", "--order=forward"))
    assert code == 0
    assert out.startswith(
        "Remark: No value was given for __constant__ filter::taps, and only the check mode sees whether it is read."
    )


STOPPED = """\
__global__ void k(float* x, int n) {
    x[0] = threadIdx.x;
    __syncthreads();
    while (n > 1) x[threadIdx.x] *= 0.5f;
}
"""


@emulated
def test_ctrl_c_keeps_what_was_found(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(STOPPED)
    launch = [
        "k.cu",
        "--grid",
        "1",
        "--block",
        "32",
        "--arg",
        "x=32",
        "--arg",
        "n=2",
        "--mode",
        "check",
        "--timeout",
        "0",
    ]
    process = subprocess.Popen(
        [*COMMAND, *launch], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while not (found := _running(process.pid)):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    while '"sent"' not in _written(found[0]):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err.strip()) == (130, "warpladder: interrupted")
    assert out.startswith("1. race on x, kernel k\n")
    said = " ".join(out.split())
    assert "Remark: When it was stopped block (0, 0, 0) thread (0, 0, 0) is at k.cu:4, 0 of 1 block has ended." in said
    assert said.endswith("stopped: 1 problem in 1 launch until then, no mode was done")


def _running(process: int) -> list[int]:
    """The processes in which modes run."""
    children = [
        child for task in Path(f"/proc/{process}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    return [int(child) for child in children if "warpladder.checker.run" in Path(f"/proc/{child}/cmdline").read_text()]


def _written(process: int) -> str:
    """What it has written down."""
    file = Path(Path(f"/proc/{process}/cmdline").read_text().split("\0")[4])
    return file.read_text() if file.is_file() else ""


GROUPED = """\
#include <cub/cub.cuh>
__global__ void plain(float* x) { x[threadIdx.x] = 1; }
__global__ void grouped(float* x) { x[threadIdx.x] = cub::Sum()(0.5f, 0.5f); }
"""


@emulated
@pytest.mark.slow
def test_a_header_that_has_no_body_stops_only_those_who_need_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "grouped.cu").write_text(GROUPED)
    launch = ("grouped.cu", "--grid", "1", "--block", "8", "--arg", "x=8:uninitialised", "--mode", "fast")
    assert run(*launch, "--kernel", "plain")[0] == 0
    code, out, err = run(*launch, "--kernel", "grouped")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.endswith("grouped.cu:3: 'cub' has not been declared; grouped.cu:1: <cub/cub.cuh> cannot be emulated\n")


@emulated
def test_an_unforeseen_end_of_a_mode_is_no_fault_of_the_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from warpladder.checker.check import check
    from warpladder.checker.description import Content, Description, LaunchRequest

    monkeypatch.setattr("warpladder.checker.check.packed", lambda description: {})
    (tmp_path / "k.cu").write_text("__global__ void k(float* x) { x[0] = 1; }\n")
    with pytest.raises(RuntimeError, match=r"the fast mode ended with 1:\nTraceback"):
        check(Description(tmp_path / "k.cu", (LaunchRequest("k", (1,), (1,)),), {}, {"x": Content((1,))}), ("fast",))


@emulated
def test_who_waits_at_a_terminal_sees_what_a_mode_found_when_it_ends(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    _, _, err = run(*kernel("divided", 1, 4, "x=4", "y=4:uninitialised", "by=0", "--mode=check"))
    said = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", err)
    assert "check: trap, kernel divided\n" in said
    assert "check is done: 1 problem\n" in said


# The page.

PAGE = Path(__file__).parents[2] / "docs" / "check.md"
EXAMPLE = re.compile(r"^```sh\n(warpladder check smooth\.cu .*?)\n```\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)


@fillable
@pytest.mark.slow
def test_the_page_shows_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (source,) = (
        block for block in re.findall(r"^```cuda\n(.*?)^```", text, re.MULTILINE | re.DOTALL) if "taps" in block
    )
    examples = EXAMPLE.findall(text)
    assert len(examples) == 5
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smooth.cu").write_text(source)
    for command, shown in examples:
        assert main(shlex.split(command.replace("\\\n", ""))[1:]) == 1
        assert capsys.readouterr().out == shown


@emulated
def test_the_launches_of_the_page_can_be_read() -> None:
    (first, second) = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    found = from_table(tomllib.loads(first), Path("sums.toml"))
    assert [launch.kernel for launch in found.launches] == ["part_sums", "total"]
    more = from_table(tomllib.loads(second), Path("relax.toml"))
    assert (more.constants, more.launches[0].cooperative) == ({"taps": [0.25, 0.5, 0.25], "limit": 9}, True)
