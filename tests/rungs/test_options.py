"""Options of rungs: names that say them, values that are refused, and the places that a variant goes through: training,
climbs, checkpoints.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from checkpoints import apart, together
from runs import CONFIG, MLP, data

import warpladder as wl
from warpladder.checkpoint import load
from warpladder.checkpoint.codec import decode, encode
from warpladder.cli import group
from warpladder.cli.shared.files import again
from warpladder.errors import ArgumentError, CheckpointError, ConfigError, RungError, Stopped
from warpladder.ladder import (
    LADDER,
    PEERS,
    KernelOptions,
    OneOf,
    Options,
    Rung,
    SomeOf,
    Whole,
    YesNo,
    find,
    is_peer,
    option,
    outside,
    spelled,
)
from warpladder.results import load as load_results
from warpladder.rungs.options import Kind
from warpladder.train import train

pytestmark = pytest.mark.usefixtures("small_climbs")

SMALL = ("--data", "digits", "--limit", "60")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@dataclass(frozen=True)
class Some(Options):
    size: int | None = option(Whole(2, 8, 2), "a size")
    way: str | None = option(OneOf(("long", "short")), "a way")
    parts: tuple[str, ...] | None = option(SomeOf(("a", "b", "c")), "parts")


RUNG = Rung("some", "a title", "An idea.", find("numpy").build, options=Some())


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({}, "some"),
        ({"size": 4}, "some:size=4"),
        ({"parts": ("b", "a"), "size": 2}, "some:size=2:parts=b+a"),
        ({"parts": "a+c"}, "some:parts=a+c"),
        ({"way": "short", "size": None}, "some:way=short"),
    ],
)
def test_a_name_says_what_is_set_in_one_order(options, name):
    found = RUNG.but(**options)
    assert found.name == name
    assert found.but(**dict.fromkeys(options)) is RUNG
    assert (found.plain or found) is RUNG


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"size": 3}, "size wants a multiple of 2 from 2 to 8, got 3"),
        ({"size": True}, "size wants a multiple of 2 from 2 to 8, got True"),
        ({"size": float("nan")}, "got nan"),
        ({"way": "round"}, "way wants 'long' or 'short', got 'round'"),
        ({"parts": "a+a"}, r"parts wants some of a, b, c, with \+ between them, got 'a\+a'"),
        ({"parts": ()}, "parts wants some of"),
        ({"speed": 1}, "rung 'some' has no option 'speed': it has size, way, parts"),
    ],
)
def test_what_an_option_cannot_be_is_told_in_a_line(options, said):
    with pytest.raises(RungError, match=said) as caught:
        RUNG.but(size=4).but(**options)
    assert "\n" not in str(caught.value)


def test_one_option_after_the_other_is_both():
    build = RUNG.but(size=4).but(way="long").build
    assert build.keywords == {"options": Some(size=4, way="long")}  # type: ignore[attr-defined]


def a_value(kind: Kind) -> object:
    """A value that an option of this kind may have."""
    match kind:
        case Whole():
            return kind.least
        case OneOf():
            return kind.choices[-1]
        case SomeOf():
            return kind.choices[:2]
    assert isinstance(kind, YesNo)
    return False


@pytest.mark.parametrize("rung", LADDER + PEERS, ids=lambda rung: rung.name)
def test_every_variant_is_found_by_its_name(rung):
    plain = rung.plain or rung
    options = {name: a_value(kind) for name, kind, _ in rung.options.known()}
    variant = find(rung.name, **options)
    again = find(variant.name)
    assert (again.name, again.options, again.plain) == (
        variant.name,
        variant.options,
        plain if options else None,
    ) and not outside(variant)
    assert set(variant.options.chosen()) == set(options) and spelled(variant) == variant.name
    for name, kind, told in rung.options.known():
        assert kind.holds(options[name]) and kind.read(kind.write(options[name])) == options[name] and told


def test_another_build_under_a_variants_name_is_not_warpladders():
    variant = find("numpy:threads=1")
    assert not outside(variant)
    assert spelled(replace(variant, build=find("native").build)) is spelled(replace(variant, name="numpy")) is None
    assert outside(replace(variant, build=find("native").build)) and outside(replace(variant, name="numpy"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("naive:", "options are written as in 'naive:block_size=512:feed=streamed', got ''"),
        ("naive:block_size", "got 'block_size'"),
        ("naive:block_size=", "got 'block_size='"),
        ("naive:block_size=12.5", "block_size wants a multiple of 32 from 32 to 1024, got '12.5'"),
        ("native:thread=1", "rung 'native' has no option 'thread': it has threads"),
        ("naive:feed=sync:block_size=64:feed=resident", "rung 'naive': option 'feed' is given twice"),
        ("torch:device=cuda:device=cuda", "option 'device' is given twice"),
        ("nativ:threads=1", "there is no rung 'nativ': did you mean 'native'"),
    ],
)
def test_a_name_that_says_nonsense_is_told_in_a_line(name, said):
    with pytest.raises(RungError, match=said):
        find(name)


@pytest.mark.parametrize("name", ["device", "threads", "library"])
def test_an_option_of_rungs_is_no_setting(name):
    with pytest.raises(ArgumentError, match=f"TrainConfig has no {name}; it has epochs, "):
        wl.TrainConfig(**{name: 2})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=f"there is no setting '{name}'"):
        wl.TrainConfig().but(**{name: 2})


@pytest.mark.parametrize("rung", LADDER + PEERS, ids=lambda rung: rung.name)
def test_a_variant_of_a_peer_is_a_peer(rung):
    variant = rung.but(threads=1) if rung.has("threads") else rung.but()
    assert is_peer(variant) == is_peer(rung) == (rung in PEERS)


@pytest.mark.parametrize("former", ["torch-gpu", "jax-gpu-tf32"])
def test_a_name_that_no_peer_has_is_refused(former):
    with pytest.raises(RungError, match=f"there is no rung '{former}'"):
        find(former)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("mode=graph", "add device=cuda"),
        ("precision=tf32", "add device=cuda"),
        ("device=cuda:mode=graph:precision=fp64", "leave the mode out"),
        ("device=cuda:mode=compile:loader=yes", "leave loader and images out"),
        ("loader=yes:images=last", "leave images and precision out"),
        ("workers=2", "add loader=yes"),
        ("pin_memory=yes", "add loader=yes"),
        ("loader=yes:pin_memory=yes", "add device=cuda"),
        ("device=cuda:threads=1", "leave threads out"),
    ],
)
def test_options_of_pytorch_that_do_not_go_together_are_told(options, said):
    reason = find(f"torch:{options}").unsupported(wl.nets.cnn(), wl.TrainConfig())
    assert reason is not None and said in reason and "\n" not in reason


def test_a_variant_gives_the_account_of_what_it_is():
    peer = find("torch:device=cuda:mode=graph:precision=bf16")
    assert (peer.precision, peer.transforms) == ("bf16", True) and "bf16" in peer.title and "CUDA graph" in peer.title
    assert "rounded to bf16" in " ".join(peer.deviations)
    assert (find("torch").precision, find("torch").deviations, find("torch:threads=1").title) == (
        "fp32",
        (),
        "PyTorch, eager",
    )
    assert find("torch:device=cuda:mode=graph", precision=None).precision == "fp32"


@pytest.mark.parametrize("options", ["workers=0", "workers=2", "workers=1:pin_memory=no"])
def test_a_loader_of_pytorch_on_the_cpu_trains_the_same(options):
    pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")
    wanted = train(MLP, data(), CONFIG, rung="numpy")
    run = train(MLP, data(), CONFIG, rung=f"torch:loader=yes:{options}")
    for name, array in wanted.params.items():
        assert np.allclose(run.params[name], array, rtol=1e-4, atol=1e-6)


# What a variant goes through.


def test_training_says_the_variant_and_a_resumed_run_takes_it_again(tmp_path):
    path = tmp_path / "run.safetensors"
    run = train(MLP, data(), CONFIG.but(epochs=1), rung="native:threads=1", checkpoint=path)
    assert run.rung == load(path).rung == "native:threads=1"
    assert train(MLP, data(), CONFIG.but(epochs=2), resume=path).rung == "native:threads=1"
    assert train(MLP, data(), CONFIG.but(epochs=2), resume=path, rung="native").rung == "native"


def test_a_checkpoint_with_an_option_of_a_rung_among_its_settings_is_refused():
    made = train(MLP, data(), CONFIG.but(epochs=1), rung="native").checkpoint
    document, tensors = apart(encode(made))
    with pytest.raises(CheckpointError, match="has settings that this version of warpladder does not know"):
        decode(together(document | {"config": document["config"] | {"threads": 1}}, tensors))


@pytest.mark.slow
def test_a_sweep_times_a_rung_once_for_each_value(run, monkeypatch):
    monkeypatch.setattr("warpladder.machine.facts.cores", lambda: 2)
    code, out, err = run(
        "climb", "softmax", *SMALL, "--rungs", "loops,numpy", "--sweep", "threads=1,2", "--epochs", "0", "--repeats", "1", "--budget", "0.1", "--out", "found"
    )  # fmt: skip
    assert code == 0, err
    results = load_results("found/results.json")
    names = [rung.name for rung in results.rungs]
    assert names == ["loops", "numpy:threads=1", "numpy:threads=2"]
    assert all(rung.status == "timed" and rung.check is not None and rung.check.passed for rung in results.rungs)
    assert all(part in out for name in names for part in name.split(":"))
    assert all(rung.peak_rss_bytes for rung in results.rungs), results.rungs[1].reason
    assert (
        "--sweep" in results.command
        and not {"threads", "device", "feed", "block_size", "library"} & results.config.keys()
    )
    page = Path("found/report.html").read_text()
    assert '<b>numpy</b><span class="options">:threads=2</span>' in page


def test_the_command_that_repeats_a_climb_has_every_sweep():
    words = ["softmax", "--data", "digits", "--sweep", "block_size=64,96", "--sweep", "feed=sync"]
    context = group.commands["climb"].make_context("climb", list(words))
    assert again(context, "net_name", "data_name", "sweeps") == words


def test_the_command_that_goes_on_takes_the_shared_options_again(run, monkeypatch):
    def stopped(task, saving, *arguments) -> None:
        saving.path.parent.mkdir(parents=True, exist_ok=True)
        saving.path.touch()  # a checkpoint from which the run can go on
        raise Stopped("training stopped", 130)

    monkeypatch.setattr("warpladder.train.loop.train_run", stopped)
    code, _, err = run("train", "softmax", *SMALL, "--rung", "native", "--threads", "1", "--no-progress")
    assert code == 130 and "--rung native --threads 1 --resume runs/" in err.replace("\n", " ")


def test_shared_options_go_to_all_who_have_them_and_yield_to_their_own(run, monkeypatch):
    monkeypatch.setattr("warpladder.machine.facts.cores", lambda: 2)
    code, _, err = run(
        "climb", "softmax", *SMALL, "--rungs", "loops,numpy,native:threads=2", "--threads", "1", "--epochs", "0", "--repeats", "1", "--out", "shared"
    )  # fmt: skip
    assert code == 0, err
    results = load_results("shared/results.json")
    assert [rung.name for rung in results.rungs] == ["loops", "numpy:threads=1", "native:threads=2"]


def test_a_climb_from_python_takes_variants_and_names_the_command_that_repeats_it(monkeypatch):
    monkeypatch.setattr("warpladder.machine.facts.cores", lambda: 2)
    results = wl.climb(
        "softmax", "digits", None, ["numpy:threads=1", find("numpy", threads=2)], epochs=0, repeats=1, budget=0.1
    )
    assert [rung.name for rung in results.rungs] == ["numpy:threads=1", "numpy:threads=2"]
    assert "--rungs numpy:threads=1,numpy:threads=2" in results.command
    with pytest.raises(RungError, match="only once, got numpy:threads=1"):
        wl.climb("softmax", "digits", None, ["numpy:threads=1", find("numpy", threads=1)])


OWN = """
from dataclasses import dataclass
from warpladder.ladder import Options, Rung, Whole, find, option

@dataclass(frozen=True)
class Mine(Options):
    width: int | None = option(Whole(1, 9), "how wide it is")

def build(net, config, state, options=Mine()):
    print("width", options.width)
    return find("numpy").build(net, config, state)

RUNG = Rung("mine", "a title", "The idea.", build, options=Mine())
"""


def test_a_rung_from_outside_has_options_of_its_own(run):
    Path("mine.py").write_text(OWN)
    code, out, err = run(
        "train", "softmax", *SMALL, "--rung", "./mine.py:width=3", "--epochs", "1", "--no-checkpoint", "--no-progress"
    )
    assert code == 0 and "width 3" in out, err
    variant = find("./mine.py", width=3)
    assert outside(variant) and spelled(variant) == f"{Path('mine.py').resolve()}:width=3"
    assert "width=1..9" in " ".join(run("rungs", "./mine.py")[1].split())
    code, _, err = run("train", "softmax", *SMALL, "--rung", "./mine.py:width=10")
    assert code == 2 and "rung 'mine': width wants a whole number from 1 to 9, got 10" in err and err.count("\n") == 1


def test_the_block_size_of_a_variant_reaches_its_kernels():
    trainer = find("naive:device=emulated:block_size=64").build(
        MLP, CONFIG, wl.ladder.State(np.zeros(MLP.param_count, np.float32))
    )
    assert trainer.block_size == 64  # type: ignore[attr-defined]
    assert isinstance(find("naive").options, KernelOptions)
    assert json.loads(json.dumps(find("naive:block_size=64").options.chosen())) == {"block_size": 64}
