"""The page: whole, self-contained, readable without a script; its pictures say what the results hold; climbs are
compared by their noise.
"""

import json
import math
import re
import runpy
import subprocess
import sys
import xml.dom.minidom
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from climbs import example, timed
from matplotlib.text import Text
from stored_results import STORED, full, learned

from warpladder.results import Gpu, RungResult, load
from warpladder.results.profiled import Profile
from warpladder.results.report import compare
from warpladder.results.report.figures import curves, ladder
from warpladder.results.report.figures.svg import Canvas
from warpladder.results.report.page import page, write_page
from warpladder.results.report.style import STYLE
from warpladder.results.text import words

pytestmark = pytest.mark.usefixtures("machine_once")

DOCS = Path(__file__).parents[3] / "docs"


class Elements(HTMLParser):
    """Checks that every element is closed, in order, and collects ids, references and the names of what is seen."""

    VOID = ("meta", "br", "link", "img")

    def __init__(self, text):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, Any]]] = []
        self.ids: list[Any] = []
        self.references: list[Any] = []
        self.feed(text)
        assert self.open == [] and "No picture" not in text

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "action", "data", "srcset", "poster"):
                self.references.append(value)
            self.references += re.findall(r"url\(([^)]*)\)", value or "")

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def of(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def stored():
    profile = Profile.parse((STORED / "h200" / "profiles" / "cnn-gemm.json").read_bytes())
    return page(load(STORED / "h200" / "climb-cnn" / "results.json"), profiles=[profile])


#: How each page is made: by the test that looks at it, since every process of the tests reads this list.
PAGES = {
    "example": lambda: page(example()),
    "full": lambda: page(full()),
    "stored": stored,
    "two": lambda: page([full(), replace(full(), created="2026-11-22T05:00:00+00:00")], ["before", "after"]),
    "none timed": lambda: page(example(rungs=example().rungs[3:5])),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_needs_nothing_else_and_names_everything_once(name):
    text = PAGES[name]()
    seen = Elements(text)
    assert not seen.of("script") and not re.search(
        r"https?:|//\w|@import|javascript:| on\w+=\"", text.split("<main")[0]
    )
    assert not re.search(r"https?:|@import", text)
    assert not any(attribute.startswith("on") for _, attributes in seen.tags for attribute in attributes), (
        "nothing runs"
    )
    assert len(seen.ids) == len(set(seen.ids))
    outside = [each for each in seen.references if not each.startswith("#")]
    assert outside == ["data:,"], "an empty icon, so that no browser asks for one"
    assert {each[1:] for each in seen.references if each.startswith("#")} <= set(seen.ids)
    assert len(text.encode()) < 6e6 and text.endswith("</html>\n")
    for svg in seen.of("svg"):
        assert svg["role"] == "img" and len(svg["aria-label"]) > 20
    assert [len(seen.of(tag)) for tag in ("h1", "main", "nav")] == [1, 1, 3 if name == "two" else 1]
    assert "mathdefault" not in text, "a tick that matplotlib writes for its own typesetting"
    assert all(pre["tabindex"] == "0" and pre["aria-label"] for pre in seen.of("pre")), (
        "the keyboard scrolls what is too wide"
    )
    assert all(
        region["tabindex"] == "0" and region["aria-label"] for _, region in seen.tags if region.get("role") == "region"
    )
    assert len([1 for _, each in seen.tags if each.get("class") == "scroll"]) == text.count('<p class="hint">')


def test_every_section_stands_in_its_place():
    text = page(full())
    heads = re.findall(r"<h2>([^<]*)</h2>", text)
    assert heads == [
        "Loss and accuracy", "Where the time goes", "Roofline", "Memory", "Verdicts", "Each rung, next to the one below", "Net, data and settings",
        "Machine", "Do it again",
    ]  # fmt: skip
    assert re.findall(r'<li><a href="#[\w-]+">([^<]*)</a>', text) == heads
    assert text.index("is fastest") < text.index("<svg") < text.index("<table")
    for part in (
        "warpladder climb mlp --data mnist",
        "Example 9000",
        "0123456789abcdef",
        "207 GFLOP/s for 2 threads of the CPU",
        "update of 1.bias",
    ):
        assert part in text


def texts(svg):
    return [re.sub(r"<[^>]*>", "", each) for each in re.findall(r"<text.*?</text>", svg, re.DOTALL)]


def svgs(text):
    return re.findall(r"<svg .*?</svg>", text, re.DOTALL)


def test_the_ladder_shows_time_gain_and_floor_of_every_rung():
    told = texts(svgs(page(example()))[0])
    for name in ("loops", "numpy", "native", "torch"):
        assert name in told
    joined = " ".join(told)
    for figure in ("31.0 s*", "1.32 s", "431 ms", "920 ms", "23.5x", "3.06x", "fp32, 1.82x its floor"):
        assert figure in joined
    assert "broken" not in joined and "jax" not in joined


def test_a_longer_line_is_a_slower_rung_and_each_row_has_its_floor():
    """All lines begin at one place, and their ends are on one logarithmic axis with the floors."""
    rungs = [timed(name, "", (0.2372 * factor,)) for name, factor in (("a", 10), ("b", 100), ("c", 1000))]
    rungs.append(timed("half", "", (2.372,), peer=True, precision="bf16", floor_seconds=0.02372))
    svg = svgs(page(example(rungs=tuple(rungs))))[0]

    def lines(colour):
        found = re.findall(
            rf'<path d="M ([\d.]+) ([\d.]+)\s+L ([\d.]+) ([\d.]+)\s*"[^>]*stroke: var\(--{colour}\)', svg
        )
        return [tuple(map(float, each)) for each in found]

    own, peers, floors = lines("rung"), lines("peer"), lines("floor")
    assert [len(own), len(peers), len(floors)] == [3, 1, 4]
    starts, ends = {line[0] for line in own + peers}, [line[2] for line in own]
    assert len(starts) == 1, "one axis from one start"
    decade = ends[1] - ends[0]
    assert ends[2] - ends[1] == pytest.approx(decade, rel=0.01) and peers[0][2] == pytest.approx(ends[0], rel=0.01)
    for (x, top, same, bottom), line, decades in zip(floors, own + peers, (1, 2, 3, 2), strict=True):
        assert x == same and min(top, bottom) < line[1] < max(top, bottom), "a tick on its own row"
        assert line[2] - x == pytest.approx(decades * decade, rel=0.01)


def labels(draw):
    """Bounding boxes of all texts of a drawing, with the text."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(dpi=72)
    FigureCanvasAgg(figure)
    draw(Canvas(figure))
    figure.canvas.draw()
    found = [each for each in figure.findobj(Text) if each.get_text() and each.get_visible()]
    return [(each.get_text(), each.get_window_extent()) for each in found]


def variants():
    names = [("tensor:precision=bf16", False), ("native", False), ("torch:device=cuda:mode=compile:precision=bf16", True),
             ("torch:device=cuda:loader=yes:workers=4:pin_memory=yes", True), ("a_rung_of_ones_own_with_a_long_name", False)]  # fmt: skip
    return example(rungs=tuple(timed(name, "x", (10.0**-at,), peer=peer) for at, (name, peer) in enumerate(names)))


@pytest.mark.parametrize("make", [lambda: load(STORED / "h200" / "climb-cnn" / "results.json"), variants], ids=["stored", "variants"])  # fmt: skip
def test_no_labels_of_the_ladder_overlap(make):
    boxes = labels(ladder.ladder(make()))
    assert len(boxes) > 12
    for at, (one, box) in enumerate(boxes):
        for two, other in boxes[at + 1 :]:
            assert not box.overlaps(other.shrunk(0.98, 0.8)), f"{one!r} and {two!r}"


def test_a_disturbed_climb_shows_no_gain_in_its_picture():
    native = timed("native", "fused", (0.4, 0.4, 0.4))
    busy = replace(native, name="busy", timing=replace(native.timing, other_seconds=(1.8, 1.8, 1.8)))
    quiet, disturbed = (page(example(rungs=(timed("numpy", "BLAS", (2.0,)), rung))) for rung in (native, busy))
    assert "400 ms, 5.00x over below" in texts(svgs(quiet)[0])
    shown = texts(svgs(disturbed)[0])
    assert not any("5.00x" in each or "over below" in each for each in shown) and "400 ms" in shown
    assert "Disturbed: " in disturbed and '<tr class="fastest">' not in disturbed


def test_colours_are_the_pages_own_and_can_be_read():
    """Contrast after WCAG 2: 4.5 for text, 3 for what is drawn, in light and in dark."""
    for svg in svgs(page(full())):
        assert not re.search(
            r"#[0-9a-f]{6}", re.sub(r"<text.*?</text>", "", svg, flags=re.DOTALL).replace("<svg", "", 1)
        )
    light, dark, _ = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    for block in (light, dark):
        colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))
        for name in ("ink", "soft", "rung", "peer", "good", "bad", "floor"):
            assert min(contrast(colours[name], colours[ground]) for ground in ("paper", "card")) >= 4.5, name
        assert all(contrast(colours[f"s{at}"], colours["paper"]) >= 3 for at in range(8))
        assert len({colours[f"s{at}"] for at in range(8)}) == 8


def contrast(one, two):
    def light(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    brighter, darker = sorted((light(one), light(two)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def test_the_first_curves_differ_without_colours():
    styles = [style for style, _ in zip(curves.styles(), range(24), strict=False)]
    assert len(set(styles)) == 24 and len({mark for _, mark, _ in styles[:8]}) == 8


def test_curves_have_gaps_where_no_loss_was_computed():
    assert curves._points((2.0, None, 1.0, math.nan), (1.0, 1.0, 1.0, 1.0), False) == [(1, 2.0), (3, 1.0)]
    assert curves._points((2.0, None, 1.0), (0.5, 0.5, 0.5), True) == [(0.5, 2.0), (1.5, 1.0)]
    assert curves._points(None, (0.5,), True) == []
    many = curves._points([1.0] * 10_000, [0.1] * 10_000, False)
    assert len(many) <= curves.POINTS + 1
    assert many[-1] == pytest.approx((10_000, 1.0))
    numpy = learned(timed("numpy", "BLAS", (2.0,)), (None, 1.0, None), (1.0, 1.0, 1.0), (None, 0.75, None))
    silent = learned(timed("native", "fused", (2.0,)), (None, None, None), (1.0, 1.0, 1.0), None)
    text = page(example(rungs=(numpy, silent)))
    assert "Loss at the end: numpy 1 after 2 s." in text


def test_commands_of_a_page_break_between_their_words():
    text = page(example())
    assert "<span>--data</span> <span>D</span>" in text, "a phone breaks '--' from 'data' otherwise"
    assert not re.search(r"warpladder profile [^<]*--", text)


def test_a_climb_without_histories_says_so():
    assert "of no rung are loss and accuracy stored by epoch" in page(example())


def test_each_rung_stands_next_to_the_one_below():
    text = page(full())
    numpy = text[text.index('id="c-rung1"') : text.index('id="c-rung2"')]
    assert numpy.index("for i in range(n):") < numpy.index("x @ w"), "the rung below to the left"
    assert (
        "next to loops's ops/linear/loops.py" in numpy
        and "As loops: ops/relu/loops.py." in numpy
        and "max(x, 0)" not in numpy
    )
    native = text[text.index('id="c-rung2"') : text.index('id="c-rung3"')]
    assert "&lt;b&gt; &amp;" in native and 'class="alone"' in native
    assert "<b>torch</b>, a peer: PyTorch eager, tuned." in text


def test_nothing_in_the_results_is_read_as_markup():
    hostile = "<script>alert(1)</script>[bold]&amp; $x^2$ <!-- url(#a) #050505 3.14159"
    rung = learned(timed("a</text><script>", hostile, (2.0,), deviations=(hostile,)), (1.0,), (1.0,), (0.5,))
    text = page(
        example(
            rungs=(replace(rung, sources=(hostile,)), timed("b" * 300, "long", (1.0,))),
            command=hostile,
            sources={hostile: (hostile,)},
        )
    )
    assert "<script" not in text and "&lt;script&gt;" in text and "3.14159" in text
    Elements(text)


@pytest.mark.parametrize("seconds", [(1e-5,), (9e8, 1e-5), (5.0,)])
def test_extreme_figures_can_be_drawn(seconds):
    rungs = [
        timed(f"r{at}", "x", (s,), steps=1, floor_seconds=None, peak_rss_bytes=2**52, held_bytes={"a": 2**52})
        for at, s in enumerate(seconds)
    ]
    rungs.append(
        learned(
            timed("end", "x", (1.0,), floor_seconds=1e-30, flops=1, held_bytes={}),
            (1e300, 1e-300),
            (1e-300, 1e9),
            (0.0, 1.0),
        )
    )
    Elements(page(example(rungs=tuple(rungs))))


def test_a_gpu_without_a_known_bandwidth_is_a_flat_roof():
    gpu = Gpu("NVIDIA H200", "9.0", 132, 150_754_820_096, "13.0", "13.0", None, None, None, None, None)
    graph = timed("graph", "graphs", (0.01,), floor_seconds=example().net.train_flops * 60000 / 60e12)
    text = page(example(machine=replace(example().machine, gpu=gpu), rungs=(*example().rungs[:2], graph)))
    told = " ".join(texts(svgs(text)[1]))
    assert "the NVIDIA H200 in fp32: 60,000 GFLOP/s" in told and "13.0 GB/s" in told


def test_a_profile_shows_operations_kernels_and_its_roof():
    profile = Profile.parse((STORED / "h200" / "profiles" / "cnn-gemm.json").read_bytes())
    text = page(load(STORED / "h200" / "climb-cnn" / "results.json"), profiles=[profile])
    for part in (
        "gemm: 115 us a step of 64 samples on NVIDIA H200",
        "8. 2 Conv2d, 3 ReLU, 4 MaxPool2d, backward",
        "pack_weights",
        "288x1x1",
        "4,810 GB/s",
    ):
        assert part in text, part
    whole = Profile.parse((STORED / "h200" / "profiles" / "mlp10-graph.json").read_bytes())
    assert (
        page(example(), profiles=[replace(whole, parts=(), reason="it is one program")]).count("it is one program") == 1
    )


# Comparison.


def two(**changes):
    after = (*example().rungs[:2], timed("native", "fused", (0.2, 0.21, 0.19, 0.22)), *example().rungs[3:])
    before = (*example().rungs[:2], timed("native", "fused", (0.431, 0.428, 0.44, 0.43)), *example().rungs[3:])
    return example(rungs=before), example(rungs=after, **changes)


def test_a_change_beyond_the_noise_is_marked():
    text = page(two(), ["before", "after"])
    assert "<b>▼ 2.10x as fast</b>" in text and text.count("▼") == 2, "and once where marks are explained"
    assert "1.00x as fast; too few repetitions to say more" in text
    assert page(tuple(reversed(two())), ["before", "after"]).count("<b>▲ 2.10x the time</b>") == 1


def test_what_overlaps_is_within_the_noise():
    one, other = timed("a", "", (1.0, 1.1, 1.2, 1.3)), timed("a", "", (1.05, 1.25, 1.35, 1.4))
    first, second = example(rungs=(one,)), example(rungs=(other,))
    assert compare.change(first, one, second, other) == ("within the noise", False)
    apart = timed("a", "", (1.31, 1.32, 1.33, 1.34))
    assert compare.change(first, one, example(rungs=(apart,)), apart)[1]


def test_other_tasks_and_disturbed_climbs_are_not_compared():
    before, after = two(config={"batch_size": 128})
    text = page((before, after), ["before", "after"])
    assert (
        "before and after did not train the same task, so their times are not compared: batch_size 64 and 128" in text
    )
    assert "another task" in text and "<b>▼" not in text
    noisy = replace(after.rungs[2].timing, other_seconds=(1.9,) * 4)
    disturbed = replace(two()[1], rungs=(*after.rungs[:2], replace(after.rungs[2], timing=noisy)))
    text = page((two()[0], disturbed), ["before", "after"])
    assert "after was disturbed by other processes: no change of it is marked." in text and "<b>▼" not in text


def test_what_differs_between_machines_is_listed():
    before, after = two(machine=replace(example().machine, cpu="Other 1", commit="fedcba9876543210"))
    text = page((before, after), ["here", "there"])
    for part in ("What differs", "Other 1", "fedcba987654", "Example 9000"):
        assert part in text
    assert "are the same in all of them" in page((example(), example()), ["a", "b"])


# What drawing needs.


@pytest.mark.slow
def test_a_home_that_is_empty_or_cannot_be_written_changes_nothing(tmp_path):
    (tmp_path / "matplotlibrc").write_text("font.size: 40\nlines.linewidth: 9\n")
    code = "import sys; from climbs import example; from warpladder.results.report.page import page; sys.stdout.write(page(example()))"
    made = []
    for home in (tmp_path / "empty", Path("/proc/self")):
        if home.name == "empty":
            home.mkdir()
        env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        made.append(done.stdout)
    assert made[0] == made[1] == page(example())


def test_without_matplotlib_the_page_says_so_and_keeps_its_tables(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    write_page(full(), tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "No picture: matplotlib cannot be imported" in text and "<svg" not in text and "431 ms" in text


def test_a_picture_that_cannot_be_drawn_says_why_in_its_place(monkeypatch):
    monkeypatch.setattr("warpladder.results.report.figures.ladder.time_axis", lambda *arguments: 1 / 0)
    text = page(example())
    assert (
        "No picture: drawing it failed (ZeroDivisionError: division by zero)." in text
        and "431 ms" in text
        and text.count("<svg") == 2
    )


def test_older_and_stored_results_make_pages():
    paths = [*STORED.glob("results/climb-*/results.json"), *STORED.glob("h200/climb-*/results.json")]
    assert len(paths) >= 4
    for path in paths:
        text = page(load(path), pictures=False)
        assert words.conclusion(load(path)).split(":")[0] in text
    for path in STORED.glob("h200/profiles/*.json"):
        assert Profile.parse(path.read_bytes()).step_seconds == json.loads(path.read_text())["step_seconds"]


def test_a_rung_that_was_not_reached_keeps_its_place():
    left = RungResult("native", "fused", "Fused.", False, status="missing", reason="not reached: stopped")
    text = page(example(rungs=(*example().rungs[:2], left), stopped="stopped"))
    assert text.index("This climb did not come to its end: stopped") < text.index("<svg") and "not reached" in text


def test_the_picture_of_the_readme_is_that_of_the_stored_climb():
    found = runpy.run_path(str(DOCS / "make_pictures.py"))
    results = load(found["CLIMB"])
    drawn, kept = (
        re.findall(r">([^<>]+)</text>", text) for text in (found["picture"](results), (DOCS / "ladder.svg").read_text())
    )
    assert drawn == kept and {"loops", "graph"} < set(kept)
    claimed = re.findall(
        r"([\d,.]+) times", (DOCS.parent / "README.md").read_text().partition("*An epoch")[2].partition("*\n")[0]
    )
    said = words.conclusion(results)
    assert [float(each.replace(",", "")) for each in claimed] == [8840, 2.2]
    assert "8,840 times as fast as loops" in said and "2.16 times as fast as jax-gpu, the fastest peer" in said
    xml.dom.minidom.parse(str(DOCS / "ladder.svg"))
