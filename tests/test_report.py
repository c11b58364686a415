"""The table and the page say what the results hold, at any width, and say nothing twice as markup."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from rich.console import Console

from climbs import example, timed
from warpladder.report import words
from warpladder.report.page import page, write_page
from warpladder.report.table import table
from warpladder.results import Gpu


def shown(results, width):
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(table(results))
    return capture.get()


@pytest.mark.parametrize("width", [80, 100, 140])
def test_the_table_fits_and_holds_every_figure(width):
    text = shown(example(), width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    native = next(line for line in lines if line.strip().startswith("native "))
    assert [cell for cell in ("431 ms", "139 k", "71.9x", "3.06x", "3e-07", "94.11 %", "210") if cell not in native] == []
    flat = " ".join(text.split())
    for rung in example().rungs:
        assert rung.name in flat
    assert "31.0 s*" in flat and "scaled up from 600 of its 938 steps" in flat
    assert "update of 1.bias is off" in flat and "JAX is not installed" in flat and "it deviates: its sums" in flat
    assert "…" not in text


def test_the_last_sentence_says_which_is_fastest_and_why():
    said = words.conclusion(example())
    assert said.startswith(
        "native is fastest: 431 ms an epoch, 71.9 times as fast as loops, the first rung and 2.13 times as fast as torch, the fastest peer."
    )
    assert "55 % of the 207 GFLOP/s that 2 threads of the CPU can do" in said
    assert said.endswith("Its idea: Fused, vectorised, all cores: as fast as this CPU goes.")
    assert shown(example(), 100).split()[-5:] == said.split()[-5:]


def test_a_peer_that_is_faster_is_said_to_be():
    rungs = (timed("numpy", "BLAS", (2.0,)), timed("torch", "eager", (1.0,), peer=True))
    said = words.conclusion(example(rungs=rungs))
    assert said.startswith("torch, a peer, is fastest: 1.00 s an epoch, 2.00 times as fast as numpy, the fastest rung. ")


def test_a_long_name_is_folded_at_its_hyphens():
    rungs = (
        *example().rungs,
        replace(example().rungs[-1], name="torch-channels-last", title="in the memory format that convolutions prefer"),
    )
    text = shown(example(rungs=rungs), 80)
    assert max(map(len, text.splitlines())) <= 80 and "…" not in text
    assert "\n channels-last " in text


def test_a_machine_at_work_for_others_is_told():
    assert words.warnings(example()) == []
    rung = timed("numpy", "BLAS", (2.0,))
    busy = example(rungs=(*example().rungs, replace(rung, name="busy", timing=replace(rung.timing, other_seconds=(1.8,)))))
    (warning,) = words.warnings(busy)
    assert warning.startswith("Disturbed: other processes kept up to 0.9 of 2 processors busy while rungs were timed.")
    assert words.conclusion(busy) == "The least time of this disturbed run is that of native: 431 ms an epoch."
    assert warning in page(busy) and " ".join(warning.split()) in " ".join(shown(busy, 100).split())
    assert '<tr class="fastest">' in page(example()) and '<tr class="fastest">' not in page(busy)


def test_a_climb_without_a_time_says_so():
    results = example(rungs=example().rungs[3:5])
    assert words.conclusion(results) == "No rung was timed."
    assert "No rung was timed." in shown(results, 80)
    assert "<svg" not in page(results)


def test_a_net_without_classes_shows_its_loss():
    rung = timed("numpy", "BLAS", (2.0,), test_accuracy=None, test_loss=0.00812)
    results = example(rungs=(rung,), net=replace(example().net, loss="MSELoss"))
    assert "MSE" in shown(results, 80) and "0.00812" in shown(results, 80)
    assert "test MSE" in page(results) and "0.00812" in page(results)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (31.0, "31.0 s"),
        (0.9996, "1.00 s"),
        (0.431, "431 ms"),
        (4.53e-4, "453 us"),
        (2e-9, "2.00 ns"),
        (12345.0, "12,300 s"),
        (9.999, "10.0 s"),
    ],
)
def test_seconds(value, text):
    assert words.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(281_000, "281 k"), (9_000, "9,000"), (1_936, "1,936"), (45_500, "45.5 k"), (1.3e6, "1.30 M"), (999_900, "1.00 M"), (12, "12.0")],
)
def test_counts(value, text):
    assert words.count(value) == text


class Elements(HTMLParser):
    """Checks that every element is closed, in order, and collects what the page refers to."""

    VOID = ("meta", "br", "link", "img")

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.references = [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.references += [value for name, value in attrs if name in ("src", "href", "xlink:href", "action", "data")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()


def test_the_page_is_whole_and_needs_nothing_else(tmp_path):
    write_page(example(), tmp_path / "climb.html")
    text = (tmp_path / "climb.html").read_text(encoding="utf-8")
    elements = Elements()
    elements.feed(text)
    assert elements.open == [] and elements.references == []
    assert "script" not in elements.seen
    assert not re.search(r"https?:|url\(|@import", text)
    assert text.count('<rect class="rung"') == 3 and text.count('<rect class="peer"') == 1
    assert text.count('class="sample"') == 12
    for part in (
        "warpladder climb mlp --data mnist",
        "Example 9000",
        "0123456789abcdef",
        "prefers-color-scheme: dark",
        "floor of 2 threads of the CPU: 237 ms",
        "update of 1.bias",
    ):
        assert part in text


def test_bars_begin_at_the_floor_and_grow_with_the_logarithm():
    results = example(rungs=tuple(timed(name, "", (0.2372 * factor,)) for name, factor in (("a", 10), ("b", 100), ("c", 1000))))
    bars = re.findall(r'<rect class="rung" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', page(results))
    starts, widths = {bar[0] for bar in bars}, [float(bar[1]) for bar in bars]
    assert len(starts) == 1
    assert widths[1] == pytest.approx(2 * widths[0], rel=0.01) and widths[2] == pytest.approx(3 * widths[0], rel=0.01)


def test_nothing_in_the_results_is_read_as_markup():
    hostile = "<script>alert(1)</script>[bold red]&amp;"
    rung = timed("numpy", hostile, (2.0,), deviations=(hostile,))
    results = example(rungs=(replace(rung, name="[red]x"),), command=hostile)
    text = page(results)
    assert "<script" not in text and "&lt;script&gt;" in text
    assert "[red]x" in shown(results, 140) and "[bold" in shown(results, 140)


def test_the_gpu_is_told_where_there_was_one():
    gpu = Gpu("NVIDIA H200", "9.0", 132, 150_754_820_096, "13.0", "13.0", "580.159.04", 1980.0, 1980.0, 3201.0, 700.0)
    told = page(example(machine=replace(example().machine, gpu=gpu)))
    assert (
        "NVIDIA H200 (compute capability 9.0), 132 multiprocessors, 140.4 GiB, at 1980 of 1980 MHz; driver 580.159.04, CUDA 13.0, NVRTC 13.0"
        in told
    )
    assert "<dt>GPU</dt>" not in page(example())
