"""How nets, data sets, runs and climbs show themselves: a short table, in a notebook an HTML table with every word
escaped.
"""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from climbs import example
from runs import AUTOENCODER, CONFIG, MLP, data

import warpladder as wl
from warpladder.show import as_html, as_text, number


class Cells(HTMLParser):
    """The text of each cell and caption; a tag that is not one of a table's is a fault."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []

    def handle_starttag(self, tag, attrs):
        assert tag in ("table", "caption", "thead", "tbody", "tfoot", "tr", "th", "td", "p", "br") and not attrs
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.texts.append((self.open[-1], text))


def cells(html):
    parser = Cells()
    parser.feed(html)
    parser.close()
    assert not parser.open
    return parser.texts


def test_a_net_shows_its_layers_with_shapes_and_parameters():
    assert repr(wl.nets.cnn()).splitlines() == [
        "Net 'cnn': 1x28x28 to 10, CrossEntropyLoss",
        "  #  layer                                     output  parameters",
        "  0  Conv2d(out_channels=16, kernel_size=3)  16x26x26         160",
        "  1  ReLU()                                  16x26x26",
        "  2  Conv2d(out_channels=32, kernel_size=3)  32x24x24       4,640",
        "  3  ReLU()                                  32x24x24",
        "  4  MaxPool2d(kernel_size=2, stride=2)      32x12x12",
        "  5  Flatten()                                   4608",
        "  6  Linear(out_features=10)                       10      46,090",
        "     total                                                 50,890",
    ]


def test_a_data_set_shows_its_parts_and_what_a_net_sees():
    shown = repr(wl.data.load("digits", validation=100)).splitlines()
    assert shown[0] == "Dataset 'digits': samples of 1x8x8 uint8, 10 classes, a net sees x * 0.0625"
    assert [line.split() for line in shown[2:]] == [
        ["train", "labelled", "1,337", "0", "16"],
        ["valid", "labelled", "100", "0", "16"],
        ["test", "labelled", "360", "0", "16"],
    ]
    x = np.zeros((2, 3))
    assert "2 classes ('a, b'), a net sees (x - mean) / std" in repr(
        wl.data.arrays(x, ["a", "b"], x[:0], None, standardize=True)
    )


def test_a_run_shows_its_epochs():
    run = wl.train(MLP, data(), CONFIG)
    first, heads, *rows = repr(run).splitlines()
    assert first.startswith(
        "Run: net 'small mlp' on 'noise' by the numpy rung, 3 of 3 epochs; test loss "
    ) and first.endswith("%")
    assert heads.split("  ")[1:2] == ["epoch"] and len(rows) == 3 and f"{run.history[2].train_loss:.4g}" in rows[2]
    many = wl.train(MLP, data(), CONFIG.but(epochs=100))
    assert len(repr(many).splitlines()) <= 15 and repr(many).splitlines()[-1].split()[0] == "100"
    assert repr(wl.train(MLP, data(), CONFIG.but(epochs=0))).startswith("Run: net 'small mlp'")
    coded = repr(wl.train(AUTOENCODER, data(valid=0).but(valid_x=None, valid_y=None), CONFIG))
    assert "accuracy" not in coded and "valid" not in coded


def test_a_climb_shows_the_table_of_the_command_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    results = example()
    shown = results.table()
    assert repr(results) == shown and max(map(len, shown.splitlines())) <= 80 and "\x1b" not in shown
    for rung in results.timed():
        assert rung.name in shown
    assert "is fastest" in " ".join(shown.split())
    monkeypatch.setenv("COLUMNS", "30")
    assert results.table() == shown, "in fewer columns words would be lost"


EVIL = "<script>alert('&')</script>"


def test_cells_of_a_notebook_are_escaped(tmp_path):
    x = np.zeros((2, 4), np.float32)
    net = wl.Net(EVIL, (4,), (wl.Linear(out_features=2),), wl.CrossEntropyLoss())
    made = wl.data.arrays(x, [EVIL, "b"], x, [EVIL, "b"], name=EVIL)
    run = wl.train(net, made, CONFIG)
    results = example()
    results = replace(
        results,
        net=replace(results.net, name=EVIL),
        rungs=tuple(replace(r, title=EVIL, reason=EVIL) for r in results.rungs),
    )
    for shown in (net, made, run, wl.Model(run.checkpoint), results):
        html = shown._repr_html_()
        assert "<script" not in html
        assert any(EVIL in text for _, text in cells(html)), type(shown)


def test_a_climbs_cell_has_every_figure_of_the_table():
    results = example()
    texts = [text for _, text in cells(results._repr_html_())]
    plain = " ".join(results.table().split())
    for rung in results.timed():
        assert rung.name in texts and rung.title in texts
    assert "is fastest" in texts[-1] and texts[-1].split(":")[0] in plain


def test_numbers_have_all_digits_before_the_point():
    assert [number(value) for value in (0.87234, 50446.2, 1.234e-9, float("inf"))] == [
        "0.8723", "50446", "1.234e-09", "inf",
    ]  # fmt: skip
    assert number(12345678.9, 6) == "12345679"


def test_a_warning_names_the_users_line():
    weights = {"a.weight": np.zeros((10, 64)), "a.bias": np.zeros(10)}
    layers = (wl.Flatten(), wl.Linear(out_features=10))
    net = wl.Net("n", (1, 8, 8), layers, wl.CrossEntropyLoss())
    with pytest.warns(UserWarning, match="names are matched") as found:
        wl.Model.from_state_dict(net, weights)
    assert {warning.filename for warning in found} == {__file__}


def test_text_and_html_of_a_small_table():
    assert (
        as_text("t", ("a", "b", "c"), [("1", "x", "10")], ("", "sum", "7"))
        == "t\n  a  b     c\n  1  x    10\n     sum   7"
    )
    assert cells(as_html("t", ("a",), [("1\n2",)], ("s",), below="n")) == [
        ("caption", "t"), ("th", "a"), ("td", "1"), ("td", "2"), ("th", "s"), ("p", "n"),
    ]  # fmt: skip


@pytest.mark.parametrize("make", wl.nets.ZOO, ids=lambda make: make.__name__)
def test_every_net_is_shown_in_a_notebook(make):
    net = make()
    texts = [text for tag, text in cells(net._repr_html_()) if tag in ("td", "th")]
    assert f"{net.param_count:,}" in texts and all(str(layer) in texts for layer in net.layers)
