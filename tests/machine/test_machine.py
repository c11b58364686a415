"""The machine's facts are there, and its measured peak is one that a processor can have."""

import math
import os
import platform
import subprocess
import sys
import threading

import processors
import pytest

from warpladder.errors import DeviceError
from warpladder.machine import cores as cores_of
from warpladder.machine import facts as machine
from warpladder.machine import speed
from warpladder.results import Machine

TURNS = 10  # of what is compared, so that a moment in which other programs keep the processor busy does not decide


@pytest.fixture(scope="module")
def facts():
    return Machine(**machine.facts())


def test_facts_describe_this_machine(facts):
    assert facts.cpu and facts.target
    assert facts.cores >= 1 and facts.threads == facts.cores
    assert facts.python.endswith(platform.python_version())
    assert {"numpy", "numba", "scikit-learn"} <= set(facts.packages)
    assert facts.memory_bytes is None or facts.memory_bytes > 100 << 20


def test_the_peak_is_plausible(facts):
    """Between a multiply-add a cycle of the narrowest vectors at 1 GHz, and four a cycle of the widest at 6 GHz."""
    lanes = 16 if "avx512f" in facts.features else 8 if "avx2" in facts.features else 4
    assert 1e9 * 2 * 4 <= facts.fma_peak / facts.threads <= 6e9 * 4 * 2 * lanes
    assert 0.5e9 <= facts.bandwidth <= 2e12


def test_the_peak_grows_with_the_threads():
    if processors.COUNT < 2:
        pytest.skip("one core")
    one, two = (
        max(peaks) for peaks in zip(*((machine.fma_peak(1), machine.fma_peak(2)) for _ in range(TURNS)), strict=True)
    )
    assert 1.5 * one <= two <= 2.2 * one


def test_no_array_library_multiplies_faster_than_the_peak(facts):
    import numpy as np
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    a = np.ones((768, 768), np.float32)
    with threadpool_limits(1):
        rounds = [(speed._best(lambda: a @ a, 2), machine.fma_peak(1)) for _ in range(TURNS)]
    assert 2 * 768**3 / min(seconds for seconds, _ in rounds) <= 1.02 * max(peak for _, peak in rounds)


def test_a_package_outside_a_checkout_has_no_commit(monkeypatch):
    monkeypatch.setattr(machine, "__file__", "/machine/facts.py")
    assert machine._checkout() == (None, None)


def test_a_program_that_is_missing_or_fails_says_nothing():
    assert machine._output("no-such-program-here") is None
    assert machine._output("git", "no-such-command") is None


def test_a_look_at_the_checkout_leaves_its_index_alone(tmp_path, monkeypatch):
    """`git status` would refresh it, and where it is killed meanwhile the next commit finds a lock."""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "__init__.py").write_text("")
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "a"]):
        subprocess.run([*git, *command], check=True)
    os.utime(tmp_path / "__init__.py", (1, 1))  # the index is out of date, though nothing has changed
    before = (tmp_path / ".git" / "index").read_bytes()
    monkeypatch.setattr(machine, "__file__", str(tmp_path / "machine" / "facts.py"))
    commit, dirty = machine._checkout()
    assert commit is not None and len(commit) == 40 and dirty is False
    assert (tmp_path / ".git" / "index").read_bytes() == before


def fake_cgroups(folder, monkeypatch, groups, **files):
    """Made-up files of a container's limits; `__` stands for a slash and `_0` for a dot in their names."""
    (folder / "groups").write_text(groups)
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_0", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(cores_of, "CGROUP", folder)
    monkeypatch.setattr(cores_of, "CGROUPS_OF_PROCESS", folder / "groups")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)


@pytest.mark.parametrize(
    ("groups", "files", "quota", "cores"),
    [
        ("0::/\n", {"cpu_0max": "200000 100000\n"}, 2.0, 2),  # in a container, of its own name space
        ("0::/\n", {"cpu_0max": "150000 100000\n"}, 1.5, 2),
        ("0::/\n", {"cpu_0max": "30000 100000\n"}, 0.3, 1),
        ("0::/\n", {"cpu_0max": "max 100000\n"}, math.inf, 64),
        ("0::/\n", {"cpu_0max": "rubbish"}, math.inf, 64),
        ("0::/\n", {}, math.inf, 64),
        # an outer group's
        ("0::/slice/unit\n", {"slice__unit__cpu_0max": "max 100000", "slice__cpu_0max": "400000 100000"}, 4.0, 4),
        ("0::/slice/unit\n", {"slice__unit__cpu_0max": "300000 100000", "slice__cpu_0max": "800000 100000"}, 3.0, 3),
        ("0::/../elsewhere\n", {"cpu_0max": "500000 100000"}, 5.0, 5),  # seen from inside of a name space
        ("5:cpu,cpuacct:/docker/ab\n0::/\n", {"cpu__cpu_0cfs_quota_us": "250000\n", "cpu__cpu_0cfs_period_us": "100000\n"}, 2.5, 3),
        (
            "2:cpuacct:/\n1:cpu:/job\n",
            {"cpu__job__cpu_0cfs_quota_us": "100000", "cpu__job__cpu_0cfs_period_us": "50000", "cpu__cpu_0cfs_quota_us": "-1",
             "cpu__cpu_0cfs_period_us": "100000"},
            2.0,
            2,
        ),
        ("1:cpu:/\n", {"cpu__cpu_0cfs_quota_us": "-1\n", "cpu__cpu_0cfs_period_us": "100000\n"}, math.inf, 64),
        ("1:cpuset:/\n", {"cpuset__cpu_0cfs_quota_us": "100000", "cpuset__cpu_0cfs_period_us": "100000"}, math.inf, 64),
    ],
)  # fmt: skip
def test_a_container_s_share_of_time_limits_the_cores(tmp_path, monkeypatch, groups, files, quota, cores):
    fake_cgroups(tmp_path, monkeypatch, groups, **files)
    assert (cores_of.quota(), cores_of.cores()) == (quota, cores)


def test_without_cgroups_all_cores_count(tmp_path, monkeypatch):
    fake_cgroups(tmp_path, monkeypatch, "")
    (tmp_path / "groups").unlink()
    assert cores_of.quota() == math.inf
    assert cores_of.cores() == 64


def test_a_share_of_more_than_the_cores_adds_none(tmp_path, monkeypatch):
    fake_cgroups(tmp_path, monkeypatch, "0::/\n", cpu_0max="900000 100000")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3}, raising=False)
    assert cores_of.cores() == 2


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system binds no process to cores")
def test_threads_that_run_and_processes_that_start_share_a_few_cores():
    """PyTorch's threads run already, and its loader's workers are processes: both keep to the cores."""
    before, seen, ready, done = os.sched_getaffinity(0), [], threading.Event(), threading.Event()

    def work():
        ready.set()
        done.wait(20)
        seen.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait(20)
    with cores_of.limited(1):
        assert cores_of.cores() == 1
        code = "import os; print(len(os.sched_getaffinity(0)))"
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1\n"
        done.set()
        thread.join()
    assert len(seen[0]) == 1 and os.sched_getaffinity(0) == before
    with pytest.raises(DeviceError, match="9999 cores are wanted, and this process has"), cores_of.limited(9999):
        pass
