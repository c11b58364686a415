"""Tables as they are: text, gaps, the label by name; what `predict` takes is what the user has."""

from __future__ import annotations

import gzip
import pickle
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import warpladder as wl
from warpladder.cli import main
from warpladder.data import Dataset, table
from warpladder.data.tables.encoding import NumberColumn, TableEncoding, TextColumn
from warpladder.data.tables.load import read_frame
from warpladder.errors import DataError

pytestmark = pytest.mark.filterwarnings("ignore:.*scale the samples")


def rows(count: int = 120, seed: int = 0) -> list[list[str]]:
    """Rows of age, job, height and answer, with gaps and a rare class."""
    rng = np.random.default_rng(seed)
    out = []
    for number in range(count):
        age, job, tall = rng.integers(18, 80), rng.choice(["nurse", "cook, head", "baker"]), rng.normal(170, 10)
        answer = "maybe" if number % 20 == 0 else "yes" if (age > 45) != (job == "nurse") else "no"
        out.append(["" if rng.random() < 0.1 else str(age), job if rng.random() > 0.1 else "", f"{tall:.1f}", answer])
    return out


HEADING = ["age", "job", "height", "answer"]


def write(path: Path, lines: list[list[str]], heading: list[str] | None = None) -> Path:
    quoted = [[f'"{cell}"' if "," in cell else cell for cell in line] for line in [heading or HEADING, *lines]]
    path.write_text("\n".join(map(",".join, quoted)) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def people(tmp_path):
    return write(tmp_path / "people.csv", rows())


def test_a_split_has_each_class_in_each_part(people):
    data = table(people, "answer")
    assert data.class_names == ("maybe", "no", "yes") and data.valid_x is not None
    assert (len(data.train_x), len(data.valid_x), len(data.test_x)) == (84, 12, 24)
    every = np.concatenate([y for y in (data.train_y, data.valid_y, data.test_y) if y is not None])
    assert data.test_y is not None
    shares = np.bincount(every) * len(data.test_y) / len(every)
    assert (abs(np.bincount(data.test_y, minlength=3) - shares) < 1).all()
    again, other = table(people, "answer"), table(people, "answer", seed=1)
    assert np.array_equal(again.train_x, data.train_x) and not np.array_equal(other.train_x, data.train_x)
    sized = table(people, "answer", validation=30, limit=40)
    assert sized.valid_x is not None and (len(sized.valid_x), len(sized.train_x)) == (30, 40)


def test_the_encoding_is_scikit_learns(people):
    data = table(people, "answer")
    assert data.table is not None
    frame = read_frame(people)
    numbers = np.column_stack([frame.columns[name].numbers for name in ("age", "height")])
    jobs = np.array(["zz" if text is None else text for text in frame.columns["job"].texts])[:, None]
    answers = frame.columns["answer"].texts
    chosen = [
        at for at in range(len(answers)) if any(np.array_equal(data.table.apply(frame)[at], x) for x in data.train_x)
    ]
    pipe = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    fitted = pipe.fit(numbers[chosen]).transform(numbers)
    found = data.table.apply(frame)
    names = data.table.features
    assert names == ["age", "age missing", "job=baker", "job=cook, head", "job=nurse", "job missing", "height"]
    assert np.allclose(found[:, [0, 6]], fitted, atol=1e-6)
    assert np.array_equal(found[:, 1], np.isnan(numbers[:, 0]))
    hot = OneHotEncoder(sparse_output=False).fit(jobs).transform(jobs)
    assert np.array_equal(found[:, 2:6], hot)


def test_a_table_is_trained_kept_and_predicted(people, tmp_path):
    data = table(people, "answer")
    run = wl.train(
        "mlp", data, wl.TrainConfig(epochs=25, optimizer=wl.Adam(0.01)), checkpoint=tmp_path / "p.safetensors"
    )
    assert run.test_accuracy is not None and run.test_accuracy > 0.75
    same = wl.load(tmp_path / "p.safetensors")
    assert same.checkpoint.data.table == data.table
    mixed = [[height, answer, job, age] for age, job, height, answer in rows()]
    other = write(tmp_path / "other.csv", mixed, ["height", "answer", "job", "age"])
    bare = write(tmp_path / "bare.csv", [line[:3] for line in rows()], HEADING[:3])
    wanted = run.predict(people)
    for path in (other, bare, str(bare)):
        assert same.predict(path).tolist() == wanted.tolist()
    assert same.predict_proba(bare).shape == (120, 3) and set(wanted) <= {"maybe", "no", "yes"}


def test_a_resumed_run_repeats_its_bits(people, tmp_path):
    config = wl.TrainConfig(epochs=4, learning_rate=0.05)
    whole = wl.train("mlp", table(people, "answer"), config)
    wl.train("mlp", table(people, "answer"), config.but(epochs=2), checkpoint=tmp_path / "p.safetensors")
    rest = wl.train("mlp", table(people, "answer"), config, resume=tmp_path / "p.safetensors")
    assert all(np.array_equal(whole.params[name], rest.params[name]) for name in whole.params)
    with pytest.raises(wl.WarpladderError, match="belongs to another run"):
        wl.train("mlp", table(people, "answer", drop=["job"]), config, resume=tmp_path / "p.safetensors")


@pytest.mark.parametrize("how", ["values", "gaps"])
def test_a_column_that_tells_the_label_is_named(people, how):
    frame = frames(people)[0].drop(columns="job")
    tells = {"values": frame["answer"].map({"no": "x", "yes": "y", "maybe": "z"}), "gaps": frame["height"]}[how]
    two = frame.assign(answer=frame["answer"] == "yes", after=tells)
    if how == "gaps":
        two.loc[~two["answer"], "after"] = np.nan
    with pytest.warns(
        UserWarning, match="column 'after' alone determines the label of every training row.*--drop after"
    ) as seen:
        table(two, "answer")
    assert len(seen) == 1


def test_several_frames_and_lazy_ones_are_refused(people):
    frame = frames(people)[0]
    for several in [frame, frame], (frame,):
        with pytest.raises(wl.WarpladderError, match=r"wants one data frame: join several, as pandas\.concat"):
            table(several, "answer")
    lazy = SimpleNamespace(columns=["a"], collect_schema=list)
    with pytest.raises(wl.WarpladderError, match=r"a data frame with rows: collect\(\) the lazy one"):
        table(lazy, "answer")


def frames(path: Path) -> list[Any]:
    """The file as a data frame of pandas and pyarrow, and of polars where it is installed."""
    pandas = pytest.importorskip("pandas")
    polars = [module for module in ("polars",) if find_spec(module)]
    others = [import_module(module).read_csv(path) for module in ("pyarrow.csv", *polars)]
    return [pandas.read_csv(path), *others]


def test_data_frames_give_the_same_numbers(people):
    from_file = table(people, "answer")
    for frame in frames(people):
        data = table(frame, "answer")
        assert data.class_names == from_file.class_names and data.table == from_file.table
        assert np.array_equal(data.train_x, from_file.train_x) and np.array_equal(data.test_x, from_file.test_x)
    run = wl.train("mlp", from_file, wl.TrainConfig(epochs=1))
    for frame in frames(people):
        assert run.predict(frame).tolist() == run.predict(people).tolist()


@pytest.mark.parametrize("gaps", [["?", ""], ["None", "NULL", "n/a", "?", ""]])
def test_gaps_of_files_and_of_frames_that_were_read_from_them(gaps, tmp_path):
    cells = ["none", "mild", *gaps]
    lines = [[cells[row % len(cells)], gaps[0] if row % 5 == 0 else str(row * row % 11), "none" if row % 2 else "some"]
             for row in range(140)]  # fmt: skip
    path = write(tmp_path / "t.csv", lines, ["pain", "size", "label"])
    data = table(path, "label")
    assert data.class_names == ("none", "some") and data.table is not None  # a class, where None is a gap
    pain, size = data.table.columns
    assert isinstance(pain, TextColumn) and pain.categories == ("mild", "none") and isinstance(size, NumberColumn)
    for frame in frames(path) if len(gaps) == 2 else frames(path)[:1]:  # the others read NULL as a text
        found = table(frame, "label")
        assert found.table == data.table and np.array_equal(found.train_x, data.train_x)


def test_categories_bool_and_nullable_columns_of_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "kind": pandas.Categorical(["a", "b", None, "a"] * 10),
            "seen": [True, False, True, True] * 10,
            "count": pandas.array([1, None, 3, 5] * 10, dtype="Int64"),
            "y": [True, False, True, False] * 10,
        }
    )
    data = table(frame, "y")
    assert data.class_names == (False, True) and data.table is not None
    assert data.table.features == ["kind=a", "kind=b", "kind missing", "seen", "count", "count missing"]
    dated = frame.assign(when=pandas.Timestamp("2026-01-01"))
    with pytest.raises(DataError, match=r"column 'when' holds dates or times: make numbers of it, or .* --drop when"):
        table(dated, "y")
    with pytest.raises(DataError, match="the label 'when' holds dates or times: make names or numbers of it"):
        table(dated, "when")


@pytest.mark.parametrize("odd", ["dates", "lists"])
def test_a_column_of_no_cells_is_left_out_in_training_and_prediction(odd):
    """Dates and lists of a data frame, which no net takes, are no hindrance once they are dropped."""
    pandas = pytest.importorskip("pandas")
    people = pandas.DataFrame({"age": np.arange(60) * 7 % 50, "answer": ["no", "yes"] * 30})
    values = pandas.date_range("2024-01-01", periods=60) if odd == "dates" else [[1, 2]] * 60
    data = table(people.assign(odd=values), "answer", drop=["odd"])
    plain = table(people.assign(odd=1), "answer", drop=["odd"])
    assert (data.train_x == plain.train_x).all() and data.table == plain.table
    run = wl.train("mlp", plain, wl.TrainConfig(epochs=1), rung="numpy")
    assert (run.predict(people.assign(odd=values)) == run.predict(people)).all()
    kept = wl.train("mlp", table(people.assign(odd="x"), "answer"), wl.TrainConfig(epochs=1), rung="numpy")
    if odd == "lists":
        with pytest.raises(DataError, match="column 'odd' holds list: make numbers of it, or leave it out"):
            kept.predict(people.assign(odd=values))


def test_several_files_gzip_and_other_separators(people, tmp_path):
    lines = rows()
    first, second = write(tmp_path / "a.csv", lines[:50]), tmp_path / "b.csv.gz"
    mixed = write(tmp_path / "m.csv", [[line[3], *line[:3]] for line in lines[50:]], ["answer", *HEADING[:3]])
    second.write_bytes(gzip.compress(mixed.read_bytes()))
    wanted = table(people, "answer")
    for source in ([first, second], f"{first},{second}"):
        assert np.array_equal(table(source, "answer").train_x, wanted.train_x)
    german = tmp_path / "g.csv"
    german.write_text("age;job;height;answer\n" + "".join(
        f"{age};{job};{height.replace('.', ',')};{answer}\n" for age, job, height, answer in lines
    ))  # fmt: skip
    assert np.array_equal(table(german, "answer").train_x, wanted.train_x)


def test_a_table_to_test_with(people, tmp_path):
    bare = write(tmp_path / "bare.csv", [line[:3] for line in rows(9)], HEADING[:3])
    data = table(people, "answer", test=bare)
    assert data.test_y is None and len(data.test_x) == 9 and len(data.train_x) == 108
    labelled = table(people, "answer", test=write(tmp_path / "t.csv", rows(9)))
    assert labelled.test_y is not None and np.array_equal(labelled.test_x, data.test_x)


def test_columns_that_count_rows_are_left_out(tmp_path):
    counted = [[str(number), str(number + 7), *line] for number, line in enumerate(rows())]
    path = write(tmp_path / "c.csv", counted, ["", "PassengerId", *HEADING])
    with pytest.warns(UserWarning, match="'Unnamed: 0', 'PassengerId' counts the rows, and is left out") as caught:
        data = table(path, "answer")
    assert caught[0].filename == __file__
    assert data.table is not None and data.table.dropped == ("Unnamed: 0", "PassengerId")
    assert len(data.table.columns) == 3
    with pytest.raises(DataError, match="every row has another value of 'PassengerId': this is no label"):
        table(path, "PassengerId")


def test_the_index_of_rows_that_were_chosen_is_left_out_if_it_has_no_name(tmp_path):
    order = np.random.default_rng(0).permutation(500)
    chosen = [[str(number), str(number), *line] for number, line in zip(order, rows(), strict=False)]
    with pytest.warns(UserWarning, match="'Unnamed: 0' counts the rows, and is left out"):
        data = table(write(tmp_path / "c.csv", chosen, ["", "size", *HEADING]), "answer")
    assert data.table is not None and data.table.dropped == ("Unnamed: 0",)  # a size may have a value for each row


@pytest.mark.parametrize(("heading", "hint"), [
    (["label", "a", "b"], "label"), (["a", "Species", "b"], "Species"), (["a", "b", "c"], "c"), (["a", "b", ""], "b"),
])  # fmt: skip
def test_the_likely_label_is_one_that_is_called_so(heading, hint, tmp_path):
    path = write(tmp_path / "t.csv", [[str(row), str(row % 3), str(row % 2 if heading[-1] else "")] for row in (1, 5, 2)],
                 heading)  # fmt: skip
    with pytest.raises(DataError, match=f"perhaps '{hint}'"):
        table(path)


def test_whole_numbers_of_which_few_are_alike_are_a_target(tmp_path):
    path = write(tmp_path / "h.csv", [[str(row % 7), str(17_800 + 100 * (row * row % 97))] for row in range(90)],
                 ["rooms", "price"])  # fmt: skip
    with pytest.raises(DataError, match=r"90 rows have 49 values of 'price': this is no label; .* --target price"):
        table(path, "price")
    assert table(path, target="price").has_targets
    data = table(path, "rooms")
    run = wl.train("softmax", data, wl.TrainConfig(epochs=1), rung="numpy")
    each = write(tmp_path / "e.csv", [[str(row), "20000"] for row in range(7)], ["rooms", "price"])
    assert 0 <= run.score(str(each)) <= 1  # few rows to score may all differ
    assert data.classes == 7 and len(table(path, "rooms", test=each).test_x) == 7


def test_texts_that_training_lacked_are_said(people, tmp_path):
    data = table(people, "answer")
    assert data.table is not None
    strange = read_frame(write(tmp_path / "s.csv", [["30", "judge", "170", "no"]]))
    with pytest.warns(UserWarning, match="line 2, column 'job': training had no 'judge'; it counts as none"):
        found = data.table.apply(strange)
    assert found[0, 2:6].tolist() == [0, 0, 0, 0]


def broken(name: str, text: str) -> list[list[str]]:
    lines = rows()
    lines[4][HEADING.index(name)] = text
    return lines


BAD: dict[str, tuple[list[list[str]], str | None, dict[str, Any], str]] = {
    "no label named": (rows(), None, {}, "which column is the label. Name it, --label NAME.*perhaps 'answer'"),
    "a label that is not there": (rows(), "anser", {}, "there is no column 'anser' for the label: did you mean 'answer'"),
    "a column to drop": (rows(), "answer", {"drop": ["jobs"]}, "there is no column 'jobs' to leave out: did you mean 'job'"),
    "columns in one word": (rows(), "answer", {"drop": ["age,job"]},
                            r"no column 'age,job' to leave out: several are --drop age --drop job, in Python drop=\['age', 'job'\]\. "
                            "The columns are age, job, height, answer"),
    "dates in two columns": ([["3.4.2026", f"2026-01-{1 + n % 28}", *line[2:]] for n, line in enumerate(rows())], "answer", {},
                             "columns 'age', 'job' hold dates or times.*make numbers of them, .*leave them out, --drop age --drop job"),
    "a missing label": (broken("answer", ""), "answer", {}, "line 6, column 'answer': the label is missing"),
    "text among numbers": (broken("height", "tall"), "answer", {}, "line 6, column 'height': 'tall' is no number where"),
    "infinity": (broken("height", "inf"), "answer", {}, "line 6, column 'height': 'inf' is no number where"),
    "a regression": (rows(), "height", {}, "column 'height': .* is no label: .*a regression's"),
    "a row too short": ([*rows(), ["1", "2"]], "answer", {}, "line 122 has 2 cells where the lines before it have 4"),
    "dates": ([[*line[:1], "2026-01-02", *line[2:]] for line in rows()], "answer", {}, "column 'job' holds dates or times.*make.*leave it out, --drop job"),
    "free text": ([[str(n), f"name {n}", *line[2:]] for n, line in enumerate(rows(150))], "answer", {"drop": ["age"]},
                  "nearly every row has a text of its own in 'job': leave it out, --drop job"),
    "an empty column": ([["", *line[1:]] for line in rows()], "answer", {}, "no training row has a value in 'age': leave it out, --drop age"),
    "only a label": ([[line[3]] for line in rows()], "answer", {"drop": []}, "no column but the label"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_tables_that_cannot_be(tmp_path, case):
    lines, label, options, words = BAD[case]
    path = write(tmp_path / "t.csv", lines, ["answer"] if case == "only a label" else None)
    with pytest.raises(DataError, match=words) as caught:
        table(path, label, **options)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value) and len(str(caught.value)) < 500


def test_columns_of_another_table_are_refused_by_name(people, tmp_path):
    run = wl.train("mlp", table(people, "answer"), wl.TrainConfig(epochs=1))
    other = write(tmp_path / "o.csv", [line[:3] for line in rows()], ["age", "work", "height"])
    with pytest.raises(DataError, match="it lacks 'job' and it has 'work'"):
        run.predict(other)


def test_all_labels_alike(people, tmp_path):
    path = write(tmp_path / "t.csv", [[*line[:3], "yes"] for line in rows()])
    with pytest.warns(UserWarning, match="all training labels are yes, so there is nothing to learn"):
        wl.train("softmax", table(path, "answer"), wl.TrainConfig(epochs=1))
    x = np.zeros((4, 2), np.float32)
    with pytest.warns(UserWarning, match="all training labels are 0, so there is nothing to learn"):
        wl.train("softmax", wl.data.arrays(x, [0] * 4, x, [0] * 4), wl.TrainConfig(epochs=1))


def test_numbers_as_categories(people):
    data = table(people, "answer", category=["age"], drop=["job"])
    assert isinstance(data, Dataset) and data.table is not None
    assert isinstance(data.table.columns[0], TextColumn) and isinstance(data.table.columns[1], NumberColumn)


def test_a_damaged_encoding_is_refused(people):
    encoding = table(people, "answer").table
    assert (
        encoding is not None
        and TableEncoding.from_dict(encoding.as_dict() | {"columns": list(encoding.as_dict()["columns"])}) == encoding
    )
    good, change = encoding.as_dict(), dict[str, Any]()
    first = good["columns"][0]
    for change in (
        {"columns": []}, {"label": 3}, {"more": 1}, {"columns": [first | {"std": 0.0}]}, {"columns": [first | {"x": 1}]},
        {"columns": [first | {"mean": float("nan")}]}, {"columns": [{"name": "a", "has_gaps": True, "categories": ["b", "a"]}]},
        {"columns": 3}, {"columns": [{"name": "a", "has_gaps": 1, "categories": ["a"]}]},
    ):  # fmt: skip
        with pytest.raises(DataError, match="encoding of a table is damaged"):
            TableEncoding.from_dict(good | change)


def test_the_command_line_takes_and_returns_what_the_user_has(people, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    call = [
        "train",
        "mlp",
        "--data",
        "people.csv",
        "--label",
        "answer",
        "--epochs",
        "3",
        "--checkpoint",
        "p.safetensors",
    ]
    assert main(call) == 0
    assert main(["evaluate", "p.safetensors", "--data", "people.csv"]) == 0
    assert "24 samples" in capsys.readouterr().out
    write(tmp_path / "more.csv", rows(50, seed=1))
    assert main(["evaluate", "p.safetensors", "--data", "more.csv"]) == 0
    assert "50 samples" in capsys.readouterr().out
    assert main(["predict", "p.safetensors", "more.csv"]) == 0
    labels = capsys.readouterr().out.split()
    assert len(labels) == 50 and set(labels) <= {"maybe", "no", "yes"}
    assert main(["predict", "p.safetensors", "more.csv", "--proba"]) == 0
    heading, *shares = capsys.readouterr().out.splitlines()
    assert heading == "maybe,no,yes" and len(shares) == 50
    assert all(abs(sum(map(float, line.split(","))) - 1) < 1e-4 for line in shares)
    assert main(["train", "mlp", "--data", "people.csv", "--no-checkpoint"]) != 0
    assert "which column is the label" in capsys.readouterr().err


def test_messages_show_long_names_whole(tmp_path):
    names = [f"a column with a long name, number {index}, as surveys have them" for index in range(5)]
    path = tmp_path / "long.csv"
    path.write_text(",".join(f'"{name}"' for name in names) + "\n" + "1,2,3,4,a\n2,3,4,5,b\n" * 8)
    with pytest.raises(DataError) as raised:
        table(path, "another")
    assert all(name in str(raised.value) for name in names)


def test_labels_that_no_training_sample_has():
    x = np.zeros((4, 2), np.float32)
    with pytest.warns(UserWarning, match="no training sample has the test labels '2, 3', so no net can learn them"):
        wl.train("softmax", wl.data.arrays(x, [0, 1, 0, 1], x, [0, 1, 2, 3]), wl.TrainConfig(epochs=1))


def test_samples_that_no_array_of_float32_holds():
    sparse = pytest.importorskip("scipy.sparse").csr_matrix(np.eye(2))
    with pytest.raises(DataError, match=r"a csr_matrix is sparse: give a dense array, by its method toarray\(\)"):
        wl.data.arrays(sparse, [0, 1], np.eye(2), [0, 1])
    with pytest.raises(DataError, match=r"leave the range of float32: 1e\+300 in row 1, column 1; divide"):
        wl.data.arrays(np.diag([1, 1e300]), [0, 1], np.eye(2), [0, 1])


def test_arrays_of_the_data_set_alone_stand_for_its_tables():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal([1000, 5], [100, 1], (200, 2)), columns=["a", "b"])
    frame["kind"] = (frame.a > 1000) + 1
    data = table(frame, "kind")
    run = wl.train("mlp", data, wl.TrainConfig(epochs=40, optimizer=wl.Adam(0.01)), rung="numpy")
    assert data.test_y is not None
    assert run.score(data.test_x, data.test_y) == run.test_accuracy and run.score(frame) > 0.9
    assert run.score(data.test_x[::2], data.test_y[::2]) > 0.9
    copied = pickle.loads(pickle.dumps(data))
    assert run.score(copied.test_x, copied.test_y) == run.test_accuracy
    raw, pair = frame[["a", "b"]], {"a": 1000.0, "b": 5.0}
    for wrong in (raw.to_numpy(), raw.to_numpy(np.float32), raw.values.tolist(), data.test_x * 2, pair, [pair], None):
        with pytest.raises(DataError, match=r"trained on a table.*data frame with columns a, b, or"):
            run.predict(wrong)
    with pytest.raises(DataError, match="got samples of another data set"):
        run.predict(table(frame, "kind", seed=1).test_x)


def test_infinity_in_a_data_frame_is_refused_by_its_row():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, np.inf, 3.0] * 10, "kind": ["x", "y", "z"] * 10})
    with pytest.raises(DataError, match=r"row \d+, column 'a': 'inf' is no finite number"):
        table(frame, "kind")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"label": ["answer", "job"]}, "label wants the name of one column .several columns of numbers are target="),
    ({"label": "answer", "validation": 0.2}, "validation wants a whole number, got 0.2"),
    ({"label": "answer", "validation": True}, "validation wants a whole number, got True"),
    ({"label": "answer", "limit": 0.5}, "limit wants a whole number, got 0.5"),
    ({"label": "answer", "seed": None}, "seed wants a whole number, got None"),
    ({"label": "answer", "drop": 3}, "drop wants names of columns, as drop=.* got 3"),
    ({"target": ["height", 3]}, "target wants names of columns"),
    ({"label": "answer", "source": {"a": [1]}}, "a table wants a path, a list of paths or a data frame, got"),
    ({"label": "answer", "source": []}, "a table wants a path, a list of paths or a data frame, got None"),
    ({"lable": "answer"}, "table has no argument lable: did you mean .label"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_arguments_of_another_type(people, case):
    given, words = WRONG[case]
    with pytest.raises(wl.WarpladderError, match=words):
        table(**{"source": people, **given})


def test_one_name_to_drop_is_one_column(people):
    one, several = table(people, "answer", drop="age"), table(people, "answer", drop=["age"])
    assert one.table is not None and one.table == several.table and one.table.dropped == ("age",)


def test_numbers_of_rows_of_a_named_data_set():
    for given in (0.2, True, "200"):
        with pytest.raises(DataError, match="digits: validation wants a whole number"):
            wl.data.load("digits", validation=given)  # type: ignore[arg-type]
