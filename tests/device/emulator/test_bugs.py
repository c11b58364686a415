"""Every planted bug is found, in its own lines, by its own name."""

import json

import bug_samples
import pytest
from bug_samples import BUGS, FOLDER, Bug, send

from warpladder.checker.faults import found
from warpladder.device.emulator import EmulatedDevice, asan


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_checker_finds_it(bug: Bug):
    device = EmulatedDevice(mode="check", collect=True)
    send(device, bug)
    assert device.reports, "nothing was found"
    assert bug.kind in {report.kind for report in device.reports}
    for report in device.reports:
        assert report.kind in (bug.kind, *bug.also), report
        assert report.array == bug.array, report
        assert report.kernel == bug.kernel
        assert report.locations, report
        assert {line for _, line in report.locations} <= bug.marked(), report
        assert {file for file, _ in report.locations} == {str(bug.path)}, report
        assert all(f"{bug.path.name}:{line}" in report.message for _, line in report.locations)
        if report.kind == "race":
            assert len(report.locations) == 2
        assert report.block is not None
        if report.kind not in ("barrier", "deadlock"):  # what no single thread does
            assert report.thread is not None
    wrote = [{"kind": r.kind, "message": r.message, "places": r.locations, "array": r.array} for r in device.reports]
    problems, _ = found({"check": [{"launch": 1, "kernel": bug.kernel, "order": "forward"}, *wrote]})
    assert len(problems) == 1, "one fault is told once"
    assert (problems[0].kind, problems[0].array) == (bug.kind, bug.array)


@pytest.fixture(scope="module")
def ends() -> dict[str, dict]:
    run = asan.run([bug_samples.__file__])
    assert run.returncode == 0, run.stderr
    return {end["name"]: end for end in map(json.loads, run.stdout.splitlines())}


@pytest.mark.slow
@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.asan], ids=lambda bug: bug.name)
def test_asan_stops_at_it(bug: Bug, ends):
    end = ends[bug.name]
    assert end["code"] == asan.FOUND, end["said"]
    assert any(f"{bug.path.name}:{line}" in end["said"] for line in bug.marked()), end["said"]


def test_every_kernel_of_the_samples_is_run():
    kernels = {
        line.partition("(")[0].split()[-1]
        for path in FOLDER.glob("*.cu")
        for line in path.read_text().splitlines()
        if "__global__ void" in line
    }
    assert kernels == {bug.name for bug in BUGS}
