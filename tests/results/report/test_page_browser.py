"""The page in a browser, headless Chromium where it is installed: nothing is asked for, nothing is cut, at the widths
of a desk and of a phone, and on paper.
"""

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from climbs import example, timed
from stored_results import full

from warpladder.appendix.reproduce.report.page import page as reproduced
from warpladder.appendix.reproduce.results import Reproduction
from warpladder.results import load
from warpladder.results.profiled import Profile
from warpladder.results.report.page import page

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
STORED = Path(__file__).parents[3] / "benchmarks" / "h200"

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")

#: Runs in a copy of the page and writes what it sees to the end of it.
PROBE = """<script>
const cut = [];
for (const svg of document.querySelectorAll("svg")) {
  const box = svg.getBoundingClientRect();
  for (const text of svg.querySelectorAll("text")) {
    const each = text.getBoundingClientRect();
    if (each.left < box.left - 1 || each.right > box.right + 1 || each.top < box.top - 1 || each.bottom > box.bottom + 1) cut.push(text.textContent);
    if (each.height < 10) cut.push("too small: " + text.textContent);
  }
}
for (const row of document.querySelectorAll("tbody tr")) {
  const ends = [...row.cells].map(cell => cell.getBoundingClientRect().bottom);
  if (Math.max(...ends) - Math.min(...ends) > 0.5) cut.push("a row's line is broken: " + row.textContent);
}
for (const cell of document.querySelectorAll("tr > :first-child")) if (getComputedStyle(cell).position === "sticky" &&
  getComputedStyle(cell.closest("table")).borderCollapse !== "separate") cut.push("a line does not stick: " + cell.textContent);
const sizes = [...document.querySelectorAll("svg")].map(svg => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width);
parent.postMessage(JSON.stringify({cut, scale: sizes.length ? Math.min(...sizes) : 1, width: innerWidth, page: document.documentElement.scrollWidth,
  paper: getComputedStyle(document.body).backgroundColor, asked: performance.getEntriesByType("resource").map(entry => entry.name)}), "*");
</script>"""

#: A window of a browser has a least width: a frame has not.
FRAME = """<!doctype html><script>onmessage = event => { document.getElementById("probe").textContent = event.data; }</script><pre id="probe"></pre>
<iframe src="page.html" style="width: WIDTHpx; height: 900px; border: 0"></iframe>"""


def browse(file, folder, *options):
    """What Chromium prints: without a network, with a profile of its own."""
    assert CHROMIUM is not None
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", *options, file.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    told = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert told == [], told
    return done.stdout


def made():
    climb = load(STORED / "climb-cnn" / "results.json")
    profile = Profile.parse((STORED / "profiles" / "cnn-gemm.json").read_bytes())
    long = timed(
        "torch:device=cuda:mode=compile:precision=bfloat16:loader=yes:workers=4", "t", (400.0,), peer=True, steps=1
    )
    crowded = full(rungs=(*full().rungs, long, replace(timed("n" * 40, "long", (3.0,)), idea="An idea.")))
    return {
        "stored": lambda: page(climb, profiles=[profile]),
        "crowded": lambda: page(crowded),
        "two": lambda: page([full(), example()], ["before", "a-long-name/" * 5]),
        "report": lambda: reproduced(Reproduction.load(STORED / "reproduce" / "s4" / "results.json")),
        "reports": lambda: reproduced(
            [Reproduction.load(STORED / "reproduce" / "s5" / "results.json")] * 2, ["one", "two"]
        ),
    }


@pytest.fixture(scope="module", params=["stored", "crowded", "two", "report", "reports"])
def text(request):
    return made()[request.param]()


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
@pytest.mark.slow
def test_nothing_is_cut_or_asked_for(text, width, dark, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(text.replace("</body>", f"{PROBE}</body>"), encoding="utf-8")
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    frame = tmp_path / "frame.html"
    frame.write_text(FRAME.replace("WIDTH", str(width)), encoding="utf-8")
    found = browse(frame, tmp_path, "--window-size=1400,1000", scheme, "--virtual-time-budget=5000", "--dump-dom")
    match = re.search(r'<pre id="probe">(.*?)</pre>', found, re.DOTALL)
    assert match is not None
    seen = json.loads(html.unescape(match[1]))
    assert seen["width"] == width
    assert seen["cut"] == [] and seen["asked"] == []
    assert seen["page"] <= seen["width"], "the page itself never scrolls sideways"
    assert seen["scale"] >= 1, "the smallest text of a picture has 10 pixels on a phone's screen"
    assert seen["paper"] == ("rgb(21, 24, 27)" if dark else "rgb(252, 252, 250)")


def test_it_prints(tmp_path):
    file, paper = tmp_path / "page.html", tmp_path / "page.pdf"
    file.write_text(page(full()), encoding="utf-8")
    browse(file, tmp_path, f"--print-to-pdf={paper}", "--no-pdf-header-footer")
    assert paper.read_bytes().startswith(b"%PDF") and paper.stat().st_size > 20_000
