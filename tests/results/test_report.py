"""The table and the page say what the results hold, at any width, and say nothing twice as markup."""

import re
from dataclasses import replace

import pytest
from climbs import example, timed
from rich.console import Console

from warpladder.results import Checked, Gpu, RungResult
from warpladder.results.report.page import page, sweep_page
from warpladder.results.sweep import Sweep
from warpladder.results.text import notes, words
from warpladder.results.text.table import table


def shown(results, width):
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(table(results, width))
    return capture.get()


@pytest.mark.parametrize("width", [60, 66, 72, 79, 80, 100, 140])
def test_the_table_fits_and_holds_every_figure(width):
    text = shown(example(), width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    at = next(i for i, line in enumerate(lines) if line.strip().startswith("native "))
    native = "".join(lines[at : at + (1 if width >= 80 else 2)])  # figures stand one above the other where they have to
    assert [
        cell for cell in ("431 ms", "139 k", "71.9x", "3.06x", "3e-07", "94.11 %", "210") if cell not in native
    ] == []
    flat = " ".join(text.split())
    for rung in example().rungs:
        assert rung.name in flat
        words_of_title = rung.title.split() if rung.timing else []
        assert [word for word in words_of_title if word not in flat] == []
    assert "31.0 s*" in flat and "loops: * is scaled up: only the first steps of each epoch were timed." in flat
    assert (
        "update of 1.bias is off" in flat
        and "jax: not here: JAX is not installed" in flat
        and "torch: trained with deviations of its own, which the page lists." in flat
    )
    assert "…" not in text


@pytest.mark.parametrize("width", [40, 48, 59])
def test_a_narrow_table_keeps_names_and_times(width):
    lines = shown(example(), width).splitlines()
    assert max(map(len, lines)) <= width and not any("…" in line for line in lines)
    for rung, time in (("loops", "31.0 s*"), ("numpy", "1.32 s"), ("native", "431 ms"), ("torch", "920 ms")):
        assert any(line.split()[:1] == [rung] and time in line for line in lines)


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
    assert said.startswith(
        "torch, a peer, is fastest: 1.00 s an epoch, 2.00 times as fast as numpy, the fastest rung. "
    )


def test_a_long_name_is_folded_between_its_words():
    last = example().rungs[-1]
    rungs = (
        *example().rungs,
        replace(last, name="torch-channels-last", title="in the memory format that convolutions prefer"),
        replace(last, name="threads_endless"),
    )
    text = shown(example(rungs=rungs), 80)
    assert max(map(len, text.splitlines())) <= 80 and "…" not in text
    dotted = shown(example(rungs=(replace(last, name="linear.forward=linear_forward.cu:device=emulated"),)), 80)
    assert "\n forward= " in dotted and "\n forward.cu " in dotted
    assert "\n channels-last " in text and "\n threads_ " in text and "\n endless " in text


def test_a_machine_at_work_for_others_is_told():
    assert notes.warnings(example()) == []
    rung = timed("numpy", "BLAS", (2.0,))
    busy = example(
        rungs=(*example().rungs, replace(rung, name="busy", timing=replace(rung.timing, other_seconds=(1.8,))))
    )
    (warning,) = notes.warnings(busy)
    assert warning.startswith(
        "Disturbed: other processes kept up to 0.9 of 2 processors busy while busy had the clock."
    )
    assert words.conclusion(busy) == "The least time of this disturbed run is that of native: 431 ms an epoch."
    assert warning in page(busy) and " ".join(warning.split()) in " ".join(shown(busy, 100).split())
    assert '<tr class="fastest">' in page(example()) and '<tr class="fastest">' not in page(busy)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_disturbed_row_says_so_itself(width):
    rung = timed("busy", "BLAS", (2.0,))
    rung = replace(rung, timing=replace(rung.timing, other_seconds=(1.8,)))
    busy = example(rungs=(*example().rungs, rung))
    lines = shown(busy, width).partition("broken: ")[0].splitlines()
    at = next(i for i, line in enumerate(lines) if line.strip().startswith("busy "))
    assert [i for i, line in enumerate(lines) if " disturbed" in line] == [
        next(i for i in (at + 1, at + 2) if " disturbed" in lines[i])
    ]
    assert page(busy).count('<i class="bad">disturbed</i>') == 1
    assert "disturbed by other processes" in words.news(rung, busy)
    assert "disturbed" not in words.news(example().rungs[1], busy)


def test_disturbed_rows_of_a_sweep_and_variants_are_named():
    def busy(name, seconds):
        rung = timed(name, "BLAS", (seconds,))
        return replace(rung, timing=replace(rung.timing, other_seconds=(0.9 * seconds,)))

    results = example(rungs=(busy("native", 2.0), busy("native:threads=1", 3.0), busy("numpy", 4.0)))
    assert "while native, native:threads=1, numpy had the clock" in " ".join(notes.warnings(results))
    sweep = Sweep(
        Sweep.SCHEMA, ("batch_size=8", "batch_size=64"), (example(rungs=(timed("numpy", "BLAS", (1.0,)),)), results)
    )
    last = sweep.table().partition("All tasks")[2]
    assert last.count("disturbed") == 3 and sweep_page(sweep).partition("</table>")[0].count("disturbed") == 3


def test_emulated_times_are_compared_with_nothing():
    rungs = [timed("numpy", "BLAS", (2.0,)), timed("naive:device=emulated", "a thread each", (9.0,))]
    rungs.append(timed("tensor:device=emulated:precision=bf16", "tensor cores", (99.0,), precision="bf16"))
    results = example(rungs=tuple(rungs))
    text, html = " ".join(shown(results, 100).split()), page(results)
    for shown_text in (text, html):
        assert "over first" not in shown_text and "over below" not in shown_text and "is fastest" not in shown_text
        assert '<tr class="fastest">' not in shown_text and "<i>fastest</i>" not in shown_text
        assert shown_text.count(notes.EMULATED) == 1
    assert "times say nothing of a GPU" in notes.EMULATED
    assert results.leader is None and results.fastest(peers=True) is rungs[0]


def test_like_is_compared_with_like():
    """An fp32 rung next to a peer in bf16 was "2.77 times the fastest peer"."""
    rungs = (
        timed("graph", "graphs", (0.4,)),
        timed("torch:mode=graph", "graphs", (0.8,), peer=True),
        timed("torch:mode=graph:precision=bf16", "graphs", (0.5,), peer=True, precision="bf16"),
    )
    assert words.conclusion(example(rungs=rungs)).startswith(
        "graph is fastest: 400 ms an epoch, 2.00 times as fast as torch:mode=graph, the fastest peer. "
    )
    faster = (*rungs[:2], timed("jax:precision=bf16", "compiled", (0.2,), peer=True, precision="bf16"))
    said = words.conclusion(example(rungs=faster))
    assert said.startswith("jax:precision=bf16, a peer, is fastest in bf16: 200 ms an epoch. ")
    assert said.endswith(
        "graph is fastest in fp32: 400 ms an epoch, 2.00 times as fast as torch:mode=graph, the fastest peer."
    )


def test_notes_below_the_table_are_a_line_a_kind():
    """Thirty lines of "timed 2 of 3 times; it deviates" were more than the table."""
    rungs = [
        timed(f"r{at}", "x", (1.0, 1.1), steps=600, peer=at > 7, deviations=(f"sums {at}",) * (at > 7), same_bits=at < 9,
              reason=f"peak memory not measured: no process {at}; timed 2 of 3 times") for at in range(12)
    ]  # fmt: skip
    gone = [RungResult(f"gone{at}", "x", "X.", False, status="missing", reason="a first look had no time left for it") for at in range(2)]  # fmt: skip
    results = example(rungs=(*rungs, *gone, RungResult("broken", "x", "X.", False, status="failed", reason="off by 1")))
    assert notes.notes(results) == [
        ("broken", "off by 1."),
        ("gone0, gone1", "a first look had no time left for it."),
        ("all", "* is scaled up: only the first steps of each epoch were timed."),
        ("all", "peak memory not measured."),
        ("all", "timed 2 of 3 times."),
        ("4 peers", "trained with deviations of its own, which the page lists."),
        ("r9, r10, r11", "its runs do not repeat bit for bit."),
    ]
    html = page(results)
    assert all(f"no process {at};" in html and (at < 8 or f"sums {at}." in html) for at in range(12))


def test_the_star_is_explained_where_it_first_stands():
    html = page(example())
    assert html.index(notes.SCALED) < html.index("31.0 s*", html.index("<table")) and "31.0 s*" in html
    assert "*" not in words.news(example().rungs[0], example()) and "on a part of its steps" in words.news(
        example().rungs[0], example()
    )
    whole = page(example(rungs=example().rungs[1:]))
    assert notes.SCALED not in whole


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
    [
        (281_000, "281 k"),
        (9_000, "9,000"),
        (1_936, "1,936"),
        (45_500, "45.5 k"),
        (1.3e6, "1.30 M"),
        (999_900, "1.00 M"),
        (12, "12.0"),
    ],
)
def test_counts(value, text):
    assert words.count(value) == text


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


# The first screen: rows are what was timed; all that cannot train here is a line a reason.

NO_DRIVER = "there is no NVIDIA driver (libcuda cannot be loaded)"


def crowded():
    """The example, with what a machine without a GPU lists besides."""
    gpu = [RungResult(name, name, "An idea.", peer, status="unsupported", reason=NO_DRIVER) for name, peer in
           (("naive", False), ("tiled", False), ("graph", False), ("torch-gpu", True), ("jax-gpu", True))]  # fmt: skip
    return example(rungs=(*example().rungs, *gpu, RungResult("cupy", "c", "C.", False, reason="CuPy is not installed")))


def test_what_cannot_train_here_is_a_line_and_its_reasons_are_on_the_page():
    text, html = " ".join(shown(crowded(), 100).split()), page(crowded())
    assert (
        "4 rungs and 3 peers: not here: 'warpladder rungs' lists what cannot train here, each with its reason." in text
    )
    assert NO_DRIVER not in text and html.count(NO_DRIVER) == 1
    assert html.count("'warpladder rungs' lists".replace("'", "&#x27;")) == 1
    for name in ("naive", "tiled", "torch-gpu"):
        assert name not in text
    assert html.count("<b>cupy</b>") == 1, "in the line of its reason, and in no table"


def test_the_picture_stands_before_every_table():
    html = page(crowded())
    assert html.index("is fastest") < html.index("<svg") < html.index("<table")


def test_every_rung_is_measured_by_the_peak_of_its_own_unit():
    """A rung on a GPU once computed at 1867 % of what 2 threads can do."""
    gpu = Gpu("NVIDIA H200", "9.0", 132, 150_754_820_096, "13.0", "13.0", None, None, None, None, None)
    machine = replace(example().machine, gpu=gpu)
    flops = example().net.train_flops * 60000
    graph = timed("graph", "graphs", (0.01,), floor_seconds=flops / 60e12)
    half = timed("torch-gpu-bf16", "graphs", (0.012,), peer=True, floor_seconds=flops / 990e12, precision="bf16")
    results = example(machine=machine, rungs=(*example().rungs, graph, half))
    said = words.conclusion(results)
    assert "It computes at 8.2 % of the 60,000 GFLOP/s that the NVIDIA H200 can do in fp32." in said
    html = page(results)
    assert not re.search(r"\b\d{3,} %", html) and "8.2 %" in html
    assert "fp32, 12.2x its floor" in html and "bf16, 242x its floor" in html and "fp32, 1.82x its floor" in html
    assert all(results.share(rung) <= 1 for rung in results.timed())


def test_a_climb_that_was_stopped_says_so_before_anything_else():
    left = RungResult(
        "native", "fused", "Fused.", False, status="missing", reason="not reached: stopped, proving numpy"
    )
    results = example(rungs=(*example().rungs[:2], left), stopped="stopped, proving numpy")
    (warning,) = notes.warnings(results)
    assert warning == "This climb did not come to its end: stopped, proving numpy. Without a time: native."
    html, text = page(results), " ".join(shown(results, 80).split())
    assert html.index(warning) < html.index("<svg") and warning in text
    assert words.conclusion(results).startswith("So far numpy is fastest: ")
    assert "not reached" in text and "not reached" in html


def test_what_could_not_be_judged_or_was_proven_before_is_told():
    unsure = RungResult(
        "native",
        "fused",
        "Fused.",
        False,
        status="unjudged",
        check=Checked(False, None, None, "no samples"),
        reason="no samples",
    )
    kept = timed("numpy", "BLAS", (1.0,), check=Checked(True, 1e-7, 1e-6, "every check held", 3.0, True))
    html = page(example(rungs=(kept, unsure)))
    assert "agrees (kept)" in html and "A kept verdict is that of an earlier climb" in html
    assert "cannot judge" in html and "does not agree" not in html
    assert "A kept verdict" not in page(example())


def test_what_is_said_of_several_rungs_is_said_once():
    peers = [
        timed(name, name, (1.0,), peer=True, deviations=("its sums run in another order",)) for name in ("one", "two")
    ]
    said = notes.remarks(example(rungs=(*example().rungs[:1], *peers)))
    assert said[1:] == [("one, two", "it deviates: its sums run in another order.")]


def test_how_a_peer_deviates_is_not_said_where_it_was_not_reached():
    why, order = "not reached: stopped, proving one", ("its sums run in another order",)
    left = [
        RungResult(name, name, name, True, status="missing", reason=why, deviations=order) for name in ("one", "two")
    ]
    said = notes.remarks(example(rungs=(*example().rungs[:1], *left), stopped="stopped, proving one"))
    assert said[1:] == [("one, two", f"{why}.")]


def test_news_of_a_rung_is_a_line():
    line = " ".join(words.news(example().rungs[1], example()).split())
    assert line == "numpy 1.32 s an epoch, 45.5 k samples per s; proven, timed once so far"
    assert words.news(example().rungs[3], example()).startswith("broken         failed: update of 1.bias is off")
    kept = timed("numpy", "BLAS", (1.0,), check=Checked(True, 1e-7, 1e-6, "every check held", 3.0, True))
    assert "proof kept" in words.news(kept, example())


def test_optimizer_and_schedule_are_told_in_short_and_in_full():
    told = example()
    assert "60,000 samples, batch 64, Adam 0.001, Cosine, tested after" in " ".join(shown(told, 120).split())
    text = page(told)
    assert "<dt>optimizer</dt><dd>Adam, learning_rate 0.001, betas 0.9 0.999, eps 1e-08, weight_decay 0.0</dd>" in text
    assert "<dt>schedule</dt><dd>Cosine, warmup 1.0</dd>" in text


def test_settings_of_sgd_are_shown():
    sgd = {"name": "SGD", "learning_rate": 0.1, "momentum": 0.9, "nesterov": True}
    former = example(config={"batch_size": None, "optimizer": sgd})
    assert "batch full, SGD 0.1, momentum 0.9, tested after" in " ".join(shown(former, 120).split())
    assert "<dt>optimizer</dt><dd>SGD, learning_rate 0.1, momentum 0.9, nesterov True</dd>" in page(former)
