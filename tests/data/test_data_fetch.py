"""Downloads: mirrors in turn, checked sums, and a cache that never holds half a file. All on this machine."""

from __future__ import annotations

import hashlib
import http.server
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import requests

from warpladder import data
from warpladder.cli import main
from warpladder.data import cifar10, fetch, load, mnist
from warpladder.errors import DataError

CONTENT = bytes(range(256)) * 2000
SUM = hashlib.sha256(CONTENT).hexdigest()


class Mirrors(http.server.BaseHTTPRequestHandler):
    """/good/NAME serves a file; the other folders are mirrors that fail, each in its way."""

    files: dict[str, bytes]
    asked: Counter[str]
    hang: threading.Event

    def do_GET(self) -> None:
        _, kind, name = self.path.split("/", 2)
        self.asked[kind] += 1
        content = self.files.get(name, CONTENT)
        if kind == "missing":
            self.send_error(404)
            return
        if kind == "wrong":
            content = content[:-1] + bytes([content[-1] ^ 1])
        if kind == "html":
            content = b"<html>Sign in to this network</html>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if kind == "cut":
            content = content[: len(content) // 2]
        if kind == "slow":
            for _ in range(200):
                self.wfile.write(content[:1000])
                if self.hang.wait(0.02):
                    return
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of the mirrors; the cache is a folder of this test."""
    monkeypatch.setattr(fetch, "cache_folder", lambda dataset: tmp_path / "cache" / dataset)
    monkeypatch.delenv("WARPLADDER_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    Mirrors.files, Mirrors.asked, Mirrors.hang = {}, Counter(), threading.Event()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Mirrors) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        Mirrors.hang.set()
        running.shutdown()
        thread.join()


def remote(server: str, *kinds: str, name: str = "file.bin") -> fetch.Remote:
    return fetch.Remote(name, SUM, tuple(f"{server}/{kind}/{name}" for kind in kinds))


def cached(tmp_path: Path) -> list[str]:
    return sorted(os.listdir(tmp_path / "cache" / "set")) if (tmp_path / "cache" / "set").exists() else []


def test_mirrors_are_tried_in_turn(server, tmp_path):
    (path,) = fetch.fetch_all("set", [remote(server, "missing", "cut", "wrong", "html", "good")], progress=False)
    assert path.read_bytes() == CONTENT
    assert Mirrors.asked == {"missing": 1, "cut": 1, "wrong": 1, "html": 1, "good": 1}
    assert cached(tmp_path) == ["file.bin"]


def test_what_is_cached_is_not_asked_for_again(server):
    for _ in range(2):
        fetch.fetch_all("set", [remote(server, "good")], progress=False)
    assert Mirrors.asked == {"good": 1}


def test_a_damaged_cache_is_mended(server, tmp_path):
    (path,) = fetch.fetch_all("set", [remote(server, "good")], progress=False)
    path.write_bytes(CONTENT[:100])
    fetch.fetch_all("set", [remote(server, "good")], progress=False)
    assert path.read_bytes() == CONTENT and cached(tmp_path) == ["file.bin"]


@pytest.mark.parametrize("kind", ["missing", "cut", "wrong", "html"])
def test_a_failed_download_leaves_nothing_and_names_three_ways_out(server, tmp_path, kind):
    with pytest.raises(DataError) as caught:
        fetch.fetch_all("set", [remote(server, kind)], progress=False)
    message = str(caught.value)
    assert not (tmp_path / "cache" / "set").exists()
    assert "\n" not in message and "127.0.0.1: " in message
    for way_out in (
        "--data-dir",
        "WARPLADDER_DATA",
        "get online",
        "--data digits",
        "'warpladder data --fetch set --data-dir FOLDER'",
    ):
        assert way_out in message


def test_each_failure_is_told(server):
    with pytest.raises(DataError) as caught:
        fetch.fetch_all("set", [remote(server, "missing", "cut", "wrong")], progress=False)
    assert "127.0.0.1: HTTP 404; 127.0.0.1: broke off; 127.0.0.1: sent something else (wrong sha256)" in str(
        caught.value
    )


def test_offline():
    nobody = fetch.Remote("file.bin", SUM, ("http://127.0.0.1:9/file.bin",))
    with pytest.raises(DataError, match=r"127\.0\.0\.1: no connection.*Three ways out"):
        fetch.fetch_all("set", [nobody], progress=False)


@pytest.mark.parametrize("error", [requests.ConnectTimeout(), requests.ReadTimeout()])
def test_silence_is_told(error):
    assert fetch._reason(error) == "no answer in time"


def test_an_interrupted_download_leaves_nothing(server, tmp_path, monkeypatch):
    def interrupt(self, count):
        raise KeyboardInterrupt

    monkeypatch.setattr(fetch._Bar, "update", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch.fetch_all("set", [remote(server, "good", "good")], progress=False)
    assert cached(tmp_path) == [] and Mirrors.asked == {"good": 1}


def test_a_slow_mirror_is_left_while_there_are_others(server, tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "PATIENCE", 0.1)
    monkeypatch.setattr(fetch, "SLOW_RATE", 10**7)
    monkeypatch.setattr(fetch, "_CHUNK", 1000)
    start = time.monotonic()
    (path,) = fetch.fetch_all("set", [remote(server, "slow", "good")], progress=False)
    assert path.read_bytes() == CONTENT and time.monotonic() - start < 3
    assert Mirrors.asked == {"slow": 1, "good": 1} and cached(tmp_path) == ["file.bin"]


def test_the_last_mirror_may_be_slow(server, monkeypatch):
    monkeypatch.setattr(fetch, "PATIENCE", 0.0)
    monkeypatch.setattr(fetch, "SLOW_RATE", 10**12)
    (path,) = fetch.fetch_all("set", [remote(server, "good")], progress=False)
    assert path.read_bytes() == CONTENT


def test_a_cache_that_cannot_be_written(server, tmp_path):
    (tmp_path / "cache").write_bytes(b"a file where the folder should be")
    with pytest.raises(DataError, match="cannot be written"):
        fetch.fetch_all("set", [remote(server, "good")], progress=False)


def test_progress_is_shown_on_stderr_and_only_if_asked_for(server, capsys):
    fetch.fetch_all("set", [remote(server, "good", name="quiet.bin")], progress=False)
    assert capsys.readouterr() == ("", "")
    fetch.fetch_all("set", [remote(server, "wrong", "good", name="shown.bin")], progress=True)
    out, err = capsys.readouterr()
    assert out == "" and err.count("shown.bin") == 1
    fetch.fetch_all("set", [remote(server, "good", name="shown.bin")], progress=True)
    assert capsys.readouterr() == ("", "")


def test_a_data_set_is_downloaded_whole(server, tmp_path, monkeypatch):
    from mnist_files import ZIPPED, write_mnist

    x, _ = write_mnist(tmp_path / "origin", ZIPPED, ".gz")
    for path in (tmp_path / "origin").iterdir():
        Mirrors.files[path.name] = path.read_bytes()
    sums = [hashlib.sha256(Mirrors.files[f"{name}.gz"]).hexdigest() for name in mnist.FILES]
    remotes = mnist.remotes((f"{server}/missing/", f"{server}/good/"), sums)
    monkeypatch.setitem(mnist.REMOTES, "mnist", remotes)
    assert (load("mnist", progress=False).train_x[:, 0] == x).all()
    monkeypatch.setenv("WARPLADDER_DATA", str(tmp_path / "cache"))
    assert (load("mnist", progress=False).train_x[:, 0] == x).all()


@pytest.fixture
def served(server, tmp_path, monkeypatch) -> np.ndarray:
    """Images of a small MNIST and of a small Fashion-MNIST, which the mirrors serve."""
    from mnist_files import ZIPPED, write_mnist

    x, _ = write_mnist(tmp_path / "origin", ZIPPED, ".gz")
    Mirrors.files = {path.name: path.read_bytes() for path in (tmp_path / "origin").iterdir()}
    sums = [hashlib.sha256(Mirrors.files[f"{name}.gz"]).hexdigest() for name in mnist.FILES]
    remotes = mnist.remotes((f"{server}/good/",), sums)
    sources = [
        replace(source, remotes=remotes if source.name in ("mnist", "fashion") else ()) for source in data.SOURCES
    ]
    monkeypatch.setattr(data, "SOURCES", tuple(sources))
    monkeypatch.chdir(tmp_path)
    return x


def test_what_is_fetched_is_what_is_loaded():
    for source, remotes in (
        (mnist.MNIST, mnist.REMOTES["mnist"]),
        (mnist.FASHION, mnist.REMOTES["fashion"]),
        (cifar10.SOURCE, (cifar10.REMOTE,)),
    ):
        assert source.remotes == remotes


def test_a_folder_that_was_fetched_serves_a_machine_without_a_network(served, tmp_path, capsys):
    assert main(["data", "--fetch", "mnist", "--data-dir", "class/data"]) == 0
    out, _ = capsys.readouterr()
    size = sum(len(content) for content in Mirrors.files.values())
    assert (
        out.splitlines()[0] == f"mnist: 4 files, {size / 1e6:,.1f} MB, sums right, in {tmp_path / 'class/data/mnist'}"
    )
    assert f"copy {tmp_path / 'class/data'} there, and name the copy with --data-dir or WARPLADDER_DATA" in out
    Mirrors.files, asked = {}, sum(Mirrors.asked.values())
    (tmp_path / "class").rename(tmp_path / "copied")
    assert (load("mnist", data_dir="copied/data").train_x[:, 0] == served).all()
    assert sum(Mirrors.asked.values()) == asked


def test_all_is_every_set_that_is_downloaded_and_a_second_time_asks_for_nothing(served, capsys):
    for _ in range(2):
        assert main(["data", "--fetch", "all"]) == 0
        said = capsys.readouterr().out.splitlines()
        assert [line.split(":")[0] for line in said[:2]] == ["mnist", "fashion"] and len(said) == 3
    assert sum(Mirrors.asked.values()) == 8


def test_a_damaged_file_is_fetched_again(served):
    (first, *_) = data.download("mnist", "here", progress=False)
    whole = first.read_bytes()
    first.write_bytes(whole[:50])
    assert data.download("mnist", "here", progress=False)[0].read_bytes() == whole


def test_a_set_that_cannot_be_fetched_does_not_keep_the_others_from_it(served, server, monkeypatch, capsys):
    broken = replace(mnist.MNIST, remotes=(remote(server, "missing"),))
    monkeypatch.setattr(data, "SOURCES", (broken, *data.SOURCES[2:]))
    assert main(["data", "--fetch", "mnist", "fashion", "digits"]) == 2
    out, err = capsys.readouterr()
    assert "fashion: 4 files" in out and "digits: comes with scikit-learn" in out and "copy" not in out
    assert err.startswith("warpladder: mnist: file.bin could not be downloaded") and err.count("warpladder: ") == 1


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], "--fetch wants names, of mnist, fashion, or all"),
        (["mnst"], "there is no data set 'mnst'"),
        (["csv"], "csv: these are files of your own: there is nothing to fetch"),
    ],
)
def test_what_cannot_be_fetched_is_one_line(served, names, words, capsys):
    assert main(["data", "--fetch", *names]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1


def test_a_folder_to_fetch_into_that_cannot_be_made(served, capsys):
    Path("taken").write_text("a file")
    assert main(["data", "--fetch", "mnist", "--data-dir", "taken"]) == 2
    err = capsys.readouterr().err
    assert "taken/mnist: cannot be written" in err and err.count("\n") == 1


def test_a_folder_that_lacks_the_set_is_an_error_only_if_named_for_this_call(server, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.setitem(mnist.REMOTES, "fashion", (remote(server, "missing"),))
    monkeypatch.setenv("WARPLADDER_DATA", str(tmp_path / "empty"))
    with pytest.raises(DataError, match="could not be downloaded"):
        load("fashion", progress=False)
    with pytest.raises(DataError, match="holds no fashion"):
        load("fashion", data_dir=tmp_path / "empty", progress=False)


def test_every_set_that_is_downloaded_has_two_mirrors_on_different_hosts():
    from urllib.parse import urlsplit

    for each in (*mnist.REMOTES["mnist"], *mnist.REMOTES["fashion"], cifar10.REMOTE):
        assert len({urlsplit(url).hostname for url in each.urls}) >= 2
        assert len(each.sha256) == 64 and all(url.endswith("/" + each.name) for url in each.urls)
