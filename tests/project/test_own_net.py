"""Nets from files: what TOML and Python files make, and what each kind of wrong file says."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import ROOT, code

import warpladder as wl
from warpladder.errors import NetError
from warpladder.results import load as load_results

pytestmark = pytest.mark.usefixtures("small_climbs")

LAYERS = '[[layers]]\ntype = "Flatten"\n[[layers]]\ntype = "Linear"\nout_features = 10\n'
LOSS = 'loss = "CrossEntropyLoss"\n'
WHOLE = LOSS + LAYERS
NET = "import warpladder as wl\nlayers = (wl.Flatten(), wl.Linear(out_features=10))\n"
SMALL = ["--data", "digits", "--limit", "200", "--epochs", "1", "--batch-size", "32"]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def written(name: str, text: str | bytes) -> str:
    Path(name).write_bytes(text.encode() if isinstance(text, str) else text)
    return name


def test_toml_makes_the_net_that_it_lists():
    text = f"""
name = "my net"
in_shape = [1, 8, 8]
{LOSS}
[[layers]]
type = "Conv2d"
out_channels = 4
kernel_size = 3
padding = 1
[[layers]]
type = "ReLU"
[[layers]]
type = "MaxPool2d"
kernel_size = 2
{LAYERS}"""
    layers = (
        wl.Conv2d(out_channels=4, kernel_size=3, padding=1), wl.ReLU(), wl.MaxPool2d(kernel_size=2), wl.Flatten(), wl.Linear(out_features=10)
    )  # fmt: skip
    assert wl.load_net(written("a.toml", text)) == wl.Net("my net", (1, 8, 8), layers, wl.CrossEntropyLoss())


@pytest.mark.parametrize(
    "text", [WHOLE.replace("\n", "\r\n"), b"\xef\xbb\xbf" + WHOLE.encode()], ids=["Windows line ends", "a BOM"]
)
def test_name_and_shape_may_be_left_out(text):
    net = wl.load_net(written("tiny.toml", text), (1, 4, 4))
    assert (net.name, net.in_shape, net.out_shape) == ("tiny", (1, 4, 4), (10,))


@pytest.mark.parametrize(
    "text",
    [
        NET + 'net = wl.Net("mine", (1, 8, 8), layers, wl.CrossEntropyLoss())',
        NET + 'def net(in_shape):\n    return wl.Net("mine", in_shape, layers, wl.CrossEntropyLoss())',
        NET + 'def net(in_shape, classes):\n    return wl.Net("mine", in_shape, (layers[0], wl.Linear(out_features=classes)), wl.CrossEntropyLoss())',
        NET + 'def build(in_shape=(1, 2, 2)):\n    return wl.Net("mine", in_shape, layers, wl.CrossEntropyLoss())',
        NET + 'from dataclasses import dataclass\n@dataclass\nclass Size:\n    n: int\ndef net(s):\n    return wl.Net("mine", s, layers, wl.CrossEntropyLoss())',
    ],
    ids=["a net", "a function", "a function of shape and classes", "build", "a module with dataclasses"],
)  # fmt: skip
def test_python_gives_a_net_or_makes_one(text):
    net = wl.load_net(written("a.py", text), (1, 8, 8), classes=10)
    assert (net.name, net.in_shape, net.param_count) == ("mine", (1, 8, 8), 650)


def test_a_net_of_the_ladder_may_stand_in_a_file_under_its_own_name():
    written("a.py", "import warpladder as wl\nnet = wl.nets.mlp")
    assert wl.load_net("a.py", (1, 8, 8)) == wl.nets.mlp((1, 8, 8))


def test_a_file_is_run_again_only_once_it_has_changed():
    written("a.py", NET + "print('ran')\n" + 'net = wl.Net("one", (1, 8, 8), layers, wl.CrossEntropyLoss())')
    first = wl.load_net("a.py")
    assert wl.load_net("a.py") is first
    written("a.py", NET + 'net = wl.Net("two", (1, 8, 8), layers, wl.CrossEntropyLoss())')
    assert wl.load_net("a.py").name == "two"


def test_files_beside_it_can_be_imported_and_take_nobodys_place():
    written("beside_the_net.py", "WIDTH = 10")
    written("json.py", "raise RuntimeError('not the json that was meant')")
    text = "import json\nfrom beside_the_net import WIDTH\nimport warpladder as wl\n"
    text += 'net = lambda s: wl.Net("a", s, (wl.Linear(out_features=WIDTH),), wl.CrossEntropyLoss())'
    assert wl.load_net(written("a.py", text), (3,)).out_shape == (10,)


TOML = {
    "no TOML": ("loss = CrossEntropyLoss", "is not TOML: Invalid value (at line 1, column 8)"),
    "nothing": ("", "there are no layers"),
    "no loss": (LAYERS, 'there is no loss: add loss = "CrossEntropyLoss"'),
    "the loss within a layer": (LAYERS + LOSS, "layer 1: loss stands within the layer"),
    "an unknown loss": (WHOLE.replace("CrossEntropyLoss", "crossentropy"), "did you mean 'CrossEntropyLoss'?"),
    "a loss that is no text": (WHOLE.replace('"CrossEntropyLoss"', "3"), "there is no loss 3"),
    "an unknown setting": ("lose = 1\n" + WHOLE, "a net has no 'lose' (did you mean 'loss'?)"),
    "a name that is no text": ("name = 7\n" + WHOLE, "name wants text"),
    "a name that is a path": ('name = "../x"\n' + WHOLE, "the name '../x' will not do"),
    "a name that the ladder has": ('name = "mlp"\n' + WHOLE, "is that of another net"),
    "a shape that is no list": (
        'in_shape = "1x8x8"\n' + WHOLE,
        "in_shape wants a list of whole numbers, as [1, 28, 28], got '1x8x8'",
    ),
    "a shape of fractions": ("in_shape = [1.5]\n" + WHOLE, "in_shape wants a list of whole numbers"),
    "a shape of truths": ("in_shape = [true]\n" + WHOLE, "in_shape wants a list of whole numbers"),
    "a shape of two": ("in_shape = [8, 8]\n" + WHOLE, "in_shape wants (features,) or (channels, height, width)"),
    "one bracket": (LOSS + '[layers]\ntype = "Flatten"', "write [[layers]], with two brackets"),
    "layers that are none": (LOSS + "layers = [1]", "layer 0: has no type"),
    "no type": (WHOLE + "[[layers]]\nout_features = 3", "layer 2: has no type"),
    "an unknown layer": (
        WHOLE.replace("Linear", "linear"),
        "layer 1: there is no layer 'linear' (did you mean 'Linear'?): there are",
    ),
    "a layer like none": (
        WHOLE.replace("Linear", "Attention"),
        "layer 1: there is no layer 'Attention': there are Linear, Conv2d",
    ),
    "an unknown keyword": (
        WHOLE.replace("out_features", "out_feature"),
        "Linear has no 'out_feature' (did you mean 'out_features'?)",
    ),
    "a keyword too many": (
        WHOLE.replace('"Flatten"', '"Flatten"\nstart_dim = 1'),
        "layer 0: Flatten has no 'start_dim': it has no settings",
    ),
    "a missing keyword": (WHOLE.replace("out_features = 10", ""), "layer 1: Linear wants out_features"),
    "an inferred keyword": (
        WHOLE + "in_features = 64",
        "layer 1: Linear infers in_features from what enters it: leave it out",
    ),
    "a keyword of another type": (
        WHOLE.replace("= 10", '= "ten"'),
        "layer 1: Linear(out_features='ten'): wants a whole number",
    ),
    "a width of 0": (
        WHOLE.replace("= 10", "= 0"),
        "layer 1: Linear(out_features=0): wants a whole number of at least 1",
    ),
    "a width beyond all memory": (
        WHOLE.replace("= 10", "= 9223372036854775807"),
        "parameters, and no memory holds more than",
    ),
    "layers that do not fit": (WHOLE.replace("Flatten", "ReLU"), "layer 1: Linear wants a flat input"),
    "nothing to train": (LOSS + '[[layers]]\ntype = "Flatten"', "no layer with parameters"),
    "Latin-1": ("# Netz f\xfcr \xdcbung\n".encode("latin-1") + WHOLE.encode(), "line 1: is not UTF-8 text"),
}


@pytest.mark.parametrize(("text", "words"), TOML.values(), ids=TOML)
def test_wrong_toml_is_one_line_that_names_the_file(text, words):
    written("a.toml", text)
    with pytest.raises(NetError) as caught:
        wl.load_net("a.toml", (1, 8, 8))
    message = str(caught.value)
    assert message.startswith("a.toml") and words in message and "\n" not in message, message


PYTHON = {
    "no Python": ("net = (", "a.py, line 1: is not Python: "),
    "no UTF-8": (b"# \xfc\n", "a.py"),
    "a name that is not there": ("import warpladder as wl\n\nnet = nothing", "a.py, line 3: NameError: name 'nothing' is not defined"),
    "an import that is not there": ("import no_such_module", "a.py, line 1: ModuleNotFoundError"),
    "an end of its own": ("raise SystemExit(3)", "a.py, line 1: SystemExit: 3"),
    "no net": ("model = 1", "a.py: no net"),
    "a net of another name": (NET + "mine = wl.Net('x', (64,), layers[1:], wl.MSELoss())", "here 'mine' is a Net: call it net"),
    "a net that is none": ("net = [1, 2]", "a.py: net wants to be a warpladder.Net"),
    "a function that gives nothing": ("def net(in_shape):\n    pass", "does it return the net?"),
    "a function that fails": ("def net(in_shape):\n    return 1 / 0", "a.py, line 2: ZeroDivisionError: division by zero"),
    "a function of three": ("def net(a, b, c):\n    pass", "a.py: TypeError: net() missing 2 required positional arguments"),
    "a chain that cannot work": (NET + "def net(s):\n    return wl.Net('x', s, layers[1:], wl.CrossEntropyLoss())", "a.py, line 4: net 'x', layer 0: Linear wants"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "words"), PYTHON.values(), ids=PYTHON)
def test_wrong_python_is_one_line_that_names_the_file(text, words):
    written("a.py", text)
    with pytest.raises(NetError) as caught:
        wl.load_net("a.py", (1, 8, 8))
    message = str(caught.value)
    assert words in message and "\n" not in message, message


@pytest.mark.parametrize(
    ("path", "words"),
    [("none.toml", "none.toml: No such file"), ("none.py", "none.py: No such file"), ("net.json", "net.json: a net is read from a .toml or a .py")],
)  # fmt: skip
def test_a_file_that_is_not_there_is_named(path, words):
    with pytest.raises(NetError, match=words):
        wl.load_net(path)


def test_a_net_without_a_shape_says_so():
    with pytest.raises(NetError, match=r"a.toml: in_shape.* is neither in the file nor given"):
        wl.load_net(written("a.toml", WHOLE))
    with pytest.raises(NetError, match=r"a.py: net is a function of in_shape"):
        wl.load_net(written("a.py", "def net(in_shape): ..."))


def test_the_page_on_nets_says_what_works():
    page = ROOT / "docs" / "own-net.md"
    (toml, residual), (python, *_, use) = code(page, "toml"), code(page, "python")
    assert wl.load_net(written("mine.toml", toml), (1, 8, 8)).shapes[1] == (16, 8, 8)
    assert wl.load_net(
        written("mine.toml", toml.replace("# in_shape", "in_shape").replace("# name", "name"))
    ).in_shape == (1, 28, 28)
    with_residual = toml.replace("[[layers]]", f"{residual}\n[[layers]]", 1)
    assert wl.load_net(written("mine.toml", with_residual), (1, 8, 8)).skips.stored
    assert wl.load_net(written("funnel.py", python), (1, 8, 8), 7).out_shape == (7,)
    written("mine.toml", toml)
    exec(compile(use, "own-net.md", "exec"), {})


# On the command line.


@pytest.mark.parametrize("words", [["--net", "own.toml"], ["own.toml"], ["./own.toml"]], ids=" ".join)
def test_a_net_of_ones_own_trains_and_its_checkpoint_needs_no_file(run, words):
    written("own.toml", WHOLE)
    code, out, err = run("train", *words, *SMALL[:-2], "--checkpoint", "own.safetensors", "--no-progress")
    assert code == 0 and "own on the numpy rung" in out
    assert err == f"{words[-1]} is trained with --batch-size 64, --learning-rate 0.01, by default\n"
    Path("own.toml").unlink()
    code, out, _ = run("evaluate", "own.safetensors", "--data", "digits")
    assert code == 0 and out.startswith("own on digits: ")


def test_settings_that_are_all_given_need_no_word(run):
    written("own.toml", WHOLE)
    assert run("train", "--net", "own.toml", *SMALL, "--lr", "0.1", "--no-progress")[2] == ""


def test_a_climb_of_a_net_of_ones_own_says_what_it_climbed(run):
    written("own.toml", WHOLE)
    code, out, _ = run("climb", "--net", "own.toml", *SMALL, "--rungs", "numpy", "--repeats", "1")
    assert code == 0 and "own on digits" in out
    (folder,) = Path("runs").iterdir()
    assert folder.name.startswith("own-digits-")
    results = load_results(folder / "results.json")
    assert (results.net.name, results.net.loss, results.net.in_shape) == ("own", "CrossEntropyLoss", (1, 8, 8))
    assert results.net.layers == ("Flatten()", "Linear(out_features=10)")
    assert results.command.startswith("warpladder climb own.toml --data digits ")


def test_profile_and_nets_take_a_file(run):
    written("own.toml", WHOLE)
    code, out, _ = run("profile", "--net", "own.toml", "--data", "digits")
    assert code == 0 and "own on the numpy rung" in out
    code, out, _ = run("nets", "--net", "own.toml", "--shape", "1x8x8")
    assert code == 0 and "own: 1x8x8 to 10" in out and "650" in out
    code, out, _ = run("nets", "mlp", "--shape", "1x8x8")
    assert code == 0 and "mlp: 1x8x8 to 10" in out


WRONG = {
    "two nets": (["train", "mlp", "--net", "own.toml", *SMALL], "there are two nets, mlp and --net own.toml"),
    "no net": (["train", *SMALL], "Missing argument 'NET'"),
    "a file that is not there": (["train", "--net", "none.toml", *SMALL], "none.toml: there is no such file"),
    "a file that is not there, before any download": (
        ["train", "none.py", "--data", "nothing"],
        "none.py: there is no such file",
    ),
    "a name that is a file's": (
        ["train", "own", *SMALL],
        "'own' is not one of 'softmax', 'mlp', 'mlp10', 'cnn', 'autoencoder'; did you mean the file, --net own.toml?",
    ),
    "a data set for a net": (["train", "mnist"], "if mnist holds the data, write a net before it: mlp --data mnist"),
    "a folder": (["train", "--net", "./", *SMALL], "./: is a folder"),
    "a file of another kind": (
        ["train", "--net", "./own.json", *SMALL],
        "own.json: a net is read from a .toml or a .py file",
    ),
    "a file that is wrong": (["climb", "--net", "wrong.toml", *SMALL], "wrong.toml: there is no loss"),
    "data of another shape": (
        ["train", "--net", "large.toml", *SMALL],
        "net 'large' takes samples of shape (1, 28, 28), digits has (1, 8, 8)",
    ),
    "data of more classes": (
        ["train", "--net", "narrow.toml", *SMALL],
        "net 'narrow' has 3 outputs, but digits has labels up to 9",
    ),
    "no shape": (["nets", "own.toml"], "in_shape"),
}


@pytest.mark.parametrize(("arguments", "words"), WRONG.values(), ids=WRONG)
def test_wrong_nets_on_the_command_line_are_one_line(run, arguments, words):
    written("own.toml", WHOLE)
    written("own.json", "{}")
    written("wrong.toml", LAYERS)
    written("large.toml", "in_shape = [1, 28, 28]\n" + WHOLE)
    written("narrow.toml", WHOLE.replace("10", "3"))
    code, out, err = run(*arguments)
    said = err.splitlines()[-1]
    assert (code, out) == (2, "") and said.startswith("warpladder: ") and words in said, err
    assert len(err.splitlines()) == 1 or ", by default" in err
