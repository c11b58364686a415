"""Tables as spreadsheets and other programs write them: what cannot be read is named for what it is."""

from __future__ import annotations

import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpladder as wl
from warpladder.cli import main
from warpladder.data import table
from warpladder.data.tables.load import read_frame, samples_of
from warpladder.errors import ArgumentError, CheckpointError, DataError

pytestmark = pytest.mark.filterwarnings("ignore:.*scale the samples")


def write(path: Path, column: list[str], mark: str = ",") -> Path:
    """Table of a number, this column and an answer."""
    lines = [mark.join([f"{n * 7919 % 101}", f'"{cell}"', ["no", "yes"][n % 2]]) for n, cell in enumerate(column)]
    path.write_text("\n".join([mark.join(["a", "c", "answer"]), *lines]) + "\n", encoding="utf-8")
    return path


NO_NUMBERS = {
    "money": ([f"${n / 8}" for n in range(60)], r"line 2, column 'c': '\$0.0' is no plain number.*--category c"),
    "money behind": ([f"{n} €" for n in range(60)], "'0 €' is no plain number"),
    "per cent": ([f"{n % 9}%" for n in range(60)], "'0%' is no plain number"),
    "thousands": (["1,072", "12", "1,000,000", "7.5"] * 15, "line 2, column 'c': '1,072' is no plain number"),
    "decimal commas among commas": (["1,5", "2,25"] * 30, "'1,5' is no plain number"),
    "times": ([f"{n % 24:02d}:{n:02d}" for n in range(60)], "column 'c' holds dates or times"),
    "units": ([f"{n / 8}".replace(".", ",") + " kWh" for n in range(60)], "'0,0 kWh' is no plain number: .* units"),
    "degrees": ([f"{n / 8}°C" for n in range(60)], "'0.0°C' is no plain number"),
    "money after a fixed space": ([f"{n / 8}\u00a0€" for n in range(60)], "is no plain number"),
    "thousands by narrow spaces": ([f"{n}\u202f072" for n in range(60)], "is no plain number"),
    "accountants' negatives": (
        [f"({n})" for n in range(60)],
        r"'\(0\)' is no plain number: .* with - before negative ones",
    ),
    "a minus behind": ([f"{n}-" for n in range(60)], "'0-' is no plain number"),
    "typesetters' minus": ([f"−{n}" for n in range(60)], "'−0' is no plain number"),
    "about": ([f"~{n}" for n in range(60)], "'~0' is no plain number"),
    "days of months": ([f"{1 + n % 28} Jan 2024" for n in range(60)], "column 'c' holds dates or times"),
    "months and days": ([f"Mon, March {1 + n % 28}, 2024" for n in range(60)], "column 'c' holds dates or times"),
    "dates by slashes": ([f"2024/{1 + n % 12}/3 10:00" for n in range(60)], "column 'c' holds dates or times"),
    "times of twelve hours": ([f"{1 + n % 12}:30 PM" for n in range(60)], "column 'c' holds dates or times"),
    "codes with letters": ([f"{n}{'abc'[n % 3]}" for n in range(60)], "nearly every row has a text of its own in 'c'"),
    "one word among many numbers": ([*map(str, range(59)), "inf"], "line 61, column 'c': 'inf' is no number where"),
    "names in few rows": ([f"person {n}" for n in range(60)], "nearly every row has a text of its own in 'c'"),
    "numbers that overflow": ([f"{n}e300" for n in range(60)], r"line \d+, column 'c': '\d+e300' is too large"),
}


@pytest.mark.parametrize("case", NO_NUMBERS)
def test_columns_that_are_no_numbers_are_refused_by_name(tmp_path, case):
    cells, words = NO_NUMBERS[case]
    with pytest.raises(DataError, match=words):
        table(write(tmp_path / "t.csv", cells), "answer")


def test_a_second_heading_is_named(tmp_path):
    path = write(tmp_path / "t.csv", ["red", "blue"] * 30)
    path.write_text(path.read_text() + "a,c,answer\n1,red,no\n")
    with pytest.raises(DataError, match=r"line 62, .*the names of the columns stand here again: take that line out"):
        table(path, "answer")


@pytest.mark.parametrize("column", ["c", "answer"])
def test_texts_that_differ_in_capitals_or_spaces_get_a_warning(tmp_path, column):
    path = write(tmp_path / "t.csv", ["red", "blue"] * 30)
    path.write_text(path.read_text() + {"c": "1,Red,no\n", "answer": "1,red,N o\n"}[column])
    words = {"c": "'Red', 'red'", "answer": "'N o', 'no'"}[column]
    with pytest.warns(UserWarning, match=f"values of '{column}' differ only in capitals or spaces.*: {words}$"):
        table(path, "answer")


@pytest.mark.parametrize("names", [{"label": "answer"}, {"target": "c"}])
def test_a_number_far_from_all_others_gets_a_warning(tmp_path, names):
    path = write(tmp_path / "t.csv", [str(n % 50) for n in range(60)])
    far = path.read_text().splitlines()
    far[1:] = [line.replace('"7"', '"1e9"') for line in far[1:]]  # rows 7 and 57: one of them trains
    path.write_text("\n".join(far))
    with pytest.warns(UserWarning, match=r"line (9|59), column 'c': '1e9' is far from the others, half of which lie"):
        table(path, **names)


@pytest.mark.parametrize(
    "cells",
    [
        ["10%", "20%"] * 30,
        ["1,000", "2,000"] * 30,
        ["red", "1.2.3", "4-5"] * 20,
        ["<5", ">5"] * 30,
        ["10-19", "20-29"] * 30,
    ],
)
def test_categories_that_look_like_numbers(tmp_path, cells):
    data = table(write(tmp_path / "t.csv", cells), "answer", category=["c"])
    assert data.table is not None and len(data.table.features) == 1 + len(set(cells))


def test_a_target_that_overflows_is_refused_by_its_line(tmp_path):
    with pytest.raises(DataError, match="line 4, column 'c': '1e39' is too large"):
        table(write(tmp_path / "t.csv", ["1", "2", "1e39", *"4" * 57]), target="c")


def test_a_sample_far_from_the_training_rows_is_refused_by_its_line(tmp_path):
    data = table(write(tmp_path / "t.csv", [str(n) for n in range(0, 120, 2)], ";"), "answer")
    assert data.table is not None
    with pytest.raises(DataError, match="line 3, column 'c': '1e300' is too far"):
        samples_of(write(tmp_path / "new.csv", ["1", "1e300"]), data.table)


def test_lines_of_rows_after_a_cell_of_several_lines(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,b,answer\n\n1,"two\nlines",x\n2,"say ""so""",y\n\n3,last,z\n', encoding="utf-8")
    frame = read_frame(path)
    assert frame.lines is not None and frame.lines.tolist() == [3, 5, 7]


def test_the_line_of_a_longer_row_below_a_title(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("Report of sales\n\n\na,b,answer\n1,2,3\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 4 has 3 cells where the lines before it have 1"):
        table(path, "answer")


@pytest.mark.parametrize("ends", ["txt", "txt.gz", "TSV"])
def test_a_table_by_its_ending(tmp_path, ends):
    import gzip

    plain = write(tmp_path / "plain.csv", [str(n * n) for n in range(60)], "|").read_bytes()
    path = tmp_path / f"t.{ends}"
    path.write_bytes(gzip.compress(plain) if ends.endswith("gz") else plain)
    assert np.array_equal(
        wl.data.load(str(path), label="answer").train_x, table(tmp_path / "plain.csv", "answer").train_x
    )


def files(folder: Path) -> dict[str, bytes]:
    """Contents of files that are no CSV tables, by the words that name them."""
    for name, member in (("zip", "bank.csv"), ("xlsx", "[Content_Types].xml")):
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr(member, "a,b\n1,2\n")
    return {
        "a zip archive": (folder / "zip").read_bytes(),
        "a workbook": (folder / "xlsx").read_bytes(),
        "a Parquet file": b"PAR1\x15\x04" + bytes(300),
        "an HDF5 file": b"\x89HDF\r\n\x1a\n" + bytes(300),
        "JSON text": b'[{"a":1,"answer":"no"},{"a":2,"answer":"yes"}]',
    }


@pytest.mark.parametrize("kind", ["a zip archive", "a workbook", "a Parquet file", "an HDF5 file", "JSON text"])
def test_files_of_other_programs_are_named(tmp_path, kind):
    (tmp_path / "bank.csv").write_bytes(files(tmp_path)[kind])
    with pytest.raises(DataError, match=f"looks like {kind}.* where a CSV table is wanted"):
        table(tmp_path / "bank.csv", "answer")
    (tmp_path / "bank.data").write_bytes(files(tmp_path)[kind])
    with pytest.raises(DataError, match=rf"bank.data: looks like {kind}.*; the file of a data set ends in .csv"):
        wl.data.load(str(tmp_path / "bank.data"), label="answer")


def test_a_data_frame_whose_names_are_numbers():
    pandas = pytest.importorskip("pandas")
    numbers = np.random.default_rng(0).normal(size=(60, 4))
    frame = pandas.DataFrame(numbers).assign(answer=[0, 1] * 30)
    third: Any = 3
    both: Any = [0, 1]
    data = table(frame, "answer", drop=[third])
    assert data.table is not None and data.table.features == ["0", "1", "2"]
    named = table(frame.set_axis(range(5), axis=1), 4, category=[], drop=third)
    assert named.train_y is not None and data.train_y is not None
    assert np.array_equal(named.train_x, data.train_x) and np.array_equal(named.train_y, data.train_y)
    two = table(frame.set_axis(range(5), axis=1), target=both)
    assert two.table is not None and [each.name for each in two.table.targets] == ["0", "1"]


ODD_CELLS: dict[str, list[Any]] = {
    "lists": [[1], [2]],
    "complex numbers": [1j, 2j],
    "arrays": [np.zeros(2), np.ones(2)],
    "objects": [object(), object()],
}


@pytest.mark.parametrize("kind", ODD_CELLS)
def test_cells_that_are_no_value_are_refused(kind):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": range(60), "c": ODD_CELLS[kind] * 30, "answer": [0, 1] * 30})
    with pytest.raises(DataError, match=r"column 'c' holds (list|complex|ndarray|object): make numbers of it"):
        table(frame, "answer")


def test_columns_of_one_name_are_refused_in_a_data_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": range(60), "answer": [0, 1] * 30})
    with pytest.raises(DataError, match="'a' 2 times"):
        table(pandas.concat([frame, frame[["a"]]], axis=1), "answer")
    with pytest.raises(DataError, match="two columns are called '0'"):
        table(frame.set_axis([0, "0"], axis=1), "0")


@pytest.mark.parametrize("learnt", [{"label": "answer", "drop": ["a"]}, {"target": ["a"], "category": ["c"]}])
def test_a_resumed_run_knows_the_columns_of_its_table(tmp_path, learnt):
    path, kept = write(tmp_path / "t.csv", [str(n % 7) for n in range(60)], ";"), tmp_path / "kept.safetensors"
    net, config = "mlp", wl.TrainConfig(epochs=2, learning_rate=0.05)
    whole = wl.train(net, table(path, **learnt), config.but(epochs=3))
    wl.train(net, table(path, **learnt), config, checkpoint=kept)
    rest = wl.train(net, str(path), config.but(epochs=3), resume=kept)
    assert all(np.array_equal(whole.params[name], rest.params[name]) for name in whole.params)
    other = write(tmp_path / "other.csv", [str(n % 5) for n in range(60)], ";")
    with pytest.raises(wl.WarpladderError, match="belongs to another run"):
        wl.train(net, str(other), config.but(epochs=4), resume=kept)


def test_an_archive_of_images_is_named(tmp_path):
    import tarfile

    (tmp_path / "cat.png").write_bytes(b"\x89PNG")
    with tarfile.open(tmp_path / "pets.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "cat.png", "pets/cat.png")
    with pytest.raises(
        DataError, match=r"pets.tar.gz: looks like a tar archive \(unpack it first\).*a folder with one"
    ):
        wl.data.load(str(tmp_path / "pets.tar.gz"))


def test_one_output_for_two_classes_has_a_column_for_each(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "t.csv", [str(n * n) for n in range(60)])
    words = ["--label", "answer", "--loss", "bce", "--epochs", "1", "--rung", "numpy", "--checkpoint", "t.safetensors"]
    assert main(["train", "mlp", "--data", "t.csv", *words]) == 0
    capsys.readouterr()
    assert main(["predict", "t.safetensors", "t.csv", "--proba"]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading == "no,yes" and len(lines) == 60
    assert all(abs(sum(map(float, line.split(","))) - 1) < 1e-5 for line in lines)


def test_a_second_heading_among_numbers_and_a_table_alone_in_a_folder(tmp_path):
    lines = "label,a,b\n0,1.5,2\n1,2.5,3\nlabel,a,b\n"
    (tmp_path / "train.csv").write_text(lines)
    with pytest.raises(DataError, match=r"test\.csv .*is missing; a table in one file is split by --data FILE\.csv"):
        wl.data.load("csv", data_dir=tmp_path)
    (tmp_path / "test.csv").write_text("label,a,b\n0,1.5,2\n")
    with pytest.raises(DataError, match=r"line 4, column \d .*: the names of the columns stand here again"):
        wl.data.load("csv", data_dir=tmp_path, standardize=True)


def test_a_quote_that_nothing_closes_is_named(tmp_path):
    """All rows behind it would be one cell: the table had one row, and training on it went well."""
    path = tmp_path / "t.csv"
    path.write_text('a,answer\n1,yes\n2,"no\n3,yes\n4,no\n')
    with pytest.raises(DataError, match="line 3 opens a quote that is not closed"):
        table(path, "answer")
    path.write_text("a,answer\n" + '1,5" pipe\n2,"a ""b"""\n' * 3 + '1,5" pipe\n')  # an odd number, all of them text
    assert len(read_frame(path).columns["answer"].texts) == 7


def test_a_label_that_is_left_out_is_refused(tmp_path):
    path = write(tmp_path / "t.csv", ["a", "b"] * 30)
    with pytest.raises(DataError, match="'answer' is named as label and to be left out"):
        table(path, "answer", drop=["answer"])
    with pytest.raises(DataError, match="'c' is named as category and to be left out"):
        table(path, "answer", drop=["c"], category=["c"])


HEADING, BODY = "age,weight,answer", "".join(f"{n * 7 % 60},{n % 9},{['no', 'yes'][n % 2]}\n" for n in range(60))
QUOTED = '"age","weight","answer"'
ABOVE = {
    "a title": (f"Sheet of May\n{HEADING}\n{BODY}", "line 2 has 3 cells .*: if it names the columns, take out what"),
    "a title and quotes": (f"Sheet of May\n{QUOTED}\n{BODY}", "line 2 has 3 cells .*: if it names the columns, take"),
    "two comments": (f"# by me\n\n# May\n{HEADING}\n{BODY}", "line 4 has 3 cells .* 1: if it names the columns, take"),
    "a title with a comma": (f"May, 2026\n{HEADING}\n{BODY}", "line 2 has 3 cells .* 2: if it names the columns, take"),
    "a title in cells": (
        f"May,,\n,,\n{HEADING}\n{BODY}",
        "no column 'answer' for .*: it stands in line 3; take out what",
    ),
    "a title and semicolons": (
        f"May\n{HEADING}\n{BODY}".replace(",", ";"),
        "'answer' for .*: it stands in line 2; take",
    ),
    "a separator": (f"sep=;\n{HEADING}\n{BODY}".replace(",", ";"), "line 1, 'sep=;', is a note for Excel: take it out"),
    "a comma as separator": (f"\ufeffsep=,\n{HEADING}\n{BODY}", "line 1, 'sep=,', is a note for Excel: take it out"),
}


@pytest.mark.parametrize("kind", ABOVE)
def test_lines_above_the_names_of_the_columns_are_to_be_taken_out(tmp_path, kind):
    content, words = ABOVE[kind]
    path = tmp_path / "sheet.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=words):
        table(path, "answer")


@pytest.mark.parametrize("row", ["1,2,yes,3\n", "1,2\n"])
def test_a_row_of_another_length_is_not_taken_for_the_names(tmp_path, row):
    path = tmp_path / "sheet.csv"
    path.write_text(f"{HEADING}\n{row}{BODY}")
    with pytest.raises(DataError, match=r"line 2 has \d cells where the lines before it have 3$"):
        table(path, "answer")


NULS = {
    "in the first lines": (f"{HEADING}\n1,\0,no\n{BODY}", "line 2 holds a NUL byte"),
    "behind many lines": (f"{HEADING}\r\n{BODY}{BODY}1,2,n\0o\n", "line 122 holds a NUL byte"),
    "at the end": (f"{HEADING}\n{BODY}" + "\0" * 50, "line 62 holds a NUL byte"),
}


@pytest.mark.parametrize("where", NULS)
def test_a_nul_byte_is_named_with_its_line(tmp_path, where):
    content, words = NULS[where]
    (tmp_path / "t.csv").write_bytes(content.encode())
    with pytest.raises(DataError, match=f"t.csv: {words}, as no text does: the file is damaged or no table"):
        table(tmp_path / "t.csv", "answer")


@pytest.mark.parametrize("code", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_its_mark_is_named(tmp_path, code):
    (tmp_path / "t.csv").write_bytes(f"{HEADING}\n{BODY}".encode(code))
    with pytest.raises(DataError, match=r"looks like text in UTF-16 \(save it as UTF-8\)"):
        table(tmp_path / "t.csv", "answer")


def labelled(path: Path, labels: list[str]) -> Path:
    path.write_text("age,answer\n" + "".join(f"{n * 7 % 60},{label}\n" for n, label in enumerate(labels)))
    return path


def test_a_label_that_no_training_row_has_is_named_with_its_line(tmp_path):
    free = labelled(tmp_path / "free.csv", [f"p{n}" for n in range(60)])
    words = (
        r"free.csv: line (\d+), column 'answer': no training row has the label 'p(\d+)': 60 rows have 60 labels, where"
    )
    with pytest.raises(DataError, match=words) as caught:
        table(free, "answer")
    found = re.search(words, str(caught.value))
    assert found is not None and int(found[1]) == int(found[2]) + 2
    good, other = labelled(tmp_path / "good.csv", ["a", "b"] * 30), labelled(tmp_path / "other.csv", [*"abcab"])
    with pytest.raises(
        DataError, match=r"other.csv: line 4, column 'answer': .* 'c'; the 2 labels of the .* are a, b$"
    ):
        table(good, "answer", test=other)


def test_a_few_rows_of_many_labels_are_scored(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    labelled(tmp_path / "t.csv", [*"abcde"] * 12)
    labelled(tmp_path / "few.csv", [*"abcde"])
    labelled(tmp_path / "odd.csv", [*"abfde"])
    words = ["--label", "answer", "--epochs", "1", "--rung", "numpy", "--checkpoint", "t.safetensors"]
    assert main(["train", "mlp", "--data", "t.csv", *words]) == 0
    assert main(["evaluate", "t.safetensors", "--data", "few.csv"]) == 0
    assert "5 samples" in capsys.readouterr().out
    assert main(["evaluate", "t.safetensors", "--data", "odd.csv"]) == 2
    assert "'f', the label of sample 2, is none of the classes a, b, c, d, e" in capsys.readouterr().err


@pytest.mark.parametrize("mark", [" ", "^", "   "])
def test_cells_that_another_mark_separates_are_named(tmp_path, mark):
    path = tmp_path / "t.txt"
    path.write_text("\n".join(mark.join(cells) for cells in [["a", "c", "answer"], *[["1", "2", "no"]] * 9]))
    with pytest.raises(
        DataError, match="no column 'answer' for the label: cells are separated by commas, semicolons, tabs"
    ):
        table(path, "answer")


@pytest.mark.parametrize("first", [2**53, 10**25])
def test_whole_numbers_that_float64_cannot_tell_apart_get_a_warning(tmp_path, first):
    cells = [str(first + n * 31 % 60) for n in range(60)]
    with pytest.warns(UserWarning, match=r"column 'c' has whole numbers beyond 2\^53, as '\d+', .*--drop c"):
        data = table(write(tmp_path / "t.csv", cells), "answer")
    assert np.abs(data.train_x[:, 1]).max() < 4, "a mean that is rounded gives numbers far from 1"


@pytest.mark.parametrize("value", [0.1, 1e25, 1.7e18, -3e-9])
def test_a_constant_column_is_0_exactly(tmp_path, value):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = table(write(tmp_path / "t.csv", [repr(value)] * 60), "answer")
    assert not data.train_x[:, 1].any() and not data.test_x[:, 1].any()


def test_advice_about_far_numbers_names_the_column(tmp_path):
    cells = ["0"] * 599 + ["9e5"]
    with pytest.warns(
        UserWarning, match="look at the column 'c', which reaches .* deviations: leave out rows far from"
    ):
        wl.train(
            "mlp", table(write(tmp_path / "t.csv", cells), "answer", seed=1), wl.TrainConfig(epochs=0), rung="numpy"
        )


@pytest.mark.parametrize("name", ["https://example.org/t.csv", "s3://bucket/t.npz", "https://example.org/t.zip"])
def test_an_address_is_no_file(name):
    for use in (
        lambda: wl.data.load(name, label="answer"),
        lambda: table(name, "answer"),
        lambda: read_frame(Path(name)),
    ):
        with pytest.raises(DataError, match="is an address: download the file first, and name it"):
            use()
    with pytest.raises(CheckpointError, match="is an address: download the file first, and name it"):
        wl.load(name)


def test_files_that_are_missing_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "t.csv", ["1", "2"] * 30)
    assert table("~/t.csv", "answer").in_shape == (2,)
    for name in ("no.npz", "no.csv", "~/no.csv"):
        with pytest.raises(DataError, match=r"no\.(npz|csv): cannot be opened \(No such file or directory\)"):
            wl.data.load(name, label="answer" if name.endswith("csv") else None)


def test_the_same_file_twice_is_refused(tmp_path):
    path = write(tmp_path / "t.csv", ["1", "2"] * 30)
    other = write(tmp_path / "u.csv", ["3", "4"] * 30)
    assert len(read_frame([path, other]).columns["a"].texts) == 120
    for both in ([path, path], f"{path},{path}"):
        with pytest.raises(DataError, match=r"t\.csv: is named twice: its rows would both train and test"):
            table(both, "answer")


def test_labels_with_zeros_before_them_get_a_warning(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"{n * 7 % 50},{('01', '2')[n % 2]}\n" for n in range(60)))
    with pytest.warns(UserWarning, match="values of 'y' count as whole numbers, so that '01' is predicted as 1"):
        assert table(path, "y").class_names == (1, 2)
    path.write_text(path.read_text().replace("01\n", "D01\n"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table(path, "y").class_names == ("2", "D01")


def test_targets_that_float32_cannot_tell_from_0_are_refused(tmp_path):
    path = write(tmp_path / "t.csv", [f"{n}e-200" for n in range(60)])
    with pytest.raises(DataError, match=r"t\.csv: the targets 'c' reach only 5.9e-199: change the unit"):
        table(path, target="c")
    assert table(write(tmp_path / "u.csv", ["0"] * 30 + ["1e-3"] * 30), target="c").train_y is not None


@pytest.mark.parametrize("name", [None, 3, np.zeros((3, 2))])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(ArgumentError, match="name wants the name of a data set, or the path of a file or folder, got"):
        wl.data.load(name)
