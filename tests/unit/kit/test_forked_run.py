"""Tests that run in forked processes report what they report in one process, and a process that dies fails its test alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.children import environment
from tests.kit.waiting import PATIENCE

pytestmark = pytest.mark.skipif(not hasattr(os, "waitid"), reason="nothing is forked here")

CONFTEST = """
import json, os, pathlib, pytest
from tests.kit import forked_run

seen = []

def pytest_addoption(parser):
    forked_run.add_option(parser)

def pytest_configure(config):
    forked_run.install(config)

def pytest_runtest_logreport(report):
    seen.append([report.nodeid, report.when, report.outcome, report.longreprtext, report.sections])

def pytest_sessionfinish():
    pathlib.Path(os.environ["SEEN"]).write_text(json.dumps(seen))

@pytest.fixture(scope="module")
def server(request):
    with open(os.environ["SEEN"] + ".servers", "a") as file:
        print("begin", request.node.name, file=file)
        yield
        print("end", request.node.name, file=file)
"""
EVERY_KIND = """
import sys, threading, warnings, pytest

def test_passes(server, tmp_path, capfd):
    print("not shown")
    assert capfd.readouterr().out == "not shown\\n"

def test_fails(server):
    print("to stdout")
    print("to stderr", file=sys.stderr)
    one = [1, 2]
    assert one == [1, 3]

@pytest.mark.parametrize("number", range(20))
def test_many(number, tmp_path):
    (tmp_path / "mine").touch(exist_ok=False)

def test_skips():
    pytest.skip("no use")

@pytest.mark.xfail(reason="known", strict=True)
def test_is_expected_to_fail():
    assert False

def test_warns():
    warnings.warn("look out")

@pytest.fixture
def broken():
    yield
    raise ValueError("at the end")

def test_ends_badly(broken):
    pass

def test_of_parts(subtests):
    for number in range(2):
        with subtests.test(number=number):
            assert number

@pytest.mark.timeout(0.2)
def test_hangs():
    threading.Event().wait()
"""
DEADLY = """
import os, signal, time, pytest

@pytest.mark.parametrize("number", range(6))
def test_before(number):
    pass

def test_kills_itself(server):
    os.kill(os.getpid(), signal.SIGKILL)

def test_ends_the_process():
    os._exit(3)

def test_leaves_a_process_that_holds_its_files():
    if os.fork() == 0:
        os.closerange(0, 3)
        while not os.path.exists(os.environ["SEEN"]):
            time.sleep(0.05)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)

def test_is_interrupted():
    raise KeyboardInterrupt

@pytest.mark.parametrize("number", range(6))
def test_after(number):
    pass
"""
FAILING = """
def test_fails():
    assert 0

def test_b():
    pass

def test_c():
    pass
"""
INTERRUPTED = """
import os, signal

def test_waits(server):
    os.killpg(0, signal.SIGINT)
    signal.pause()
"""


def run(folder: Path, text: str, *options: str) -> tuple[int, str, list[list[str]]]:
    """The exit code of pytest, what it prints, and the reports that its first process has."""
    seen = folder / "seen"
    seen.unlink(missing_ok=True)
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p timeout -p no:cacheprovider\n")
    (folder / "test_it.py").write_text(text)
    env = environment(SEEN=str(seen), PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE,
        start_new_session=True,
    )  # fmt: skip
    assert done.stderr == ""
    reports = re.sub(r"0x[0-9a-f]+", "0x...", seen.read_text())
    return done.returncode, done.stdout, json.loads(reports)


def test_every_kind_of_report_is_that_of_one_process(tmp_path: Path) -> None:
    code, output, reports = run(tmp_path, EVERY_KIND)
    forked_code, forked_output, forked = run(tmp_path, EVERY_KIND, "--forks", "3")
    assert forked_code == code == 1
    assert sorted(forked, key=str) == sorted(reports, key=str)
    for text in ("look out", "to stderr", "4 failed, 23 passed, 1 skipped, 1 xfailed, 1 warning, 1 error"):
        assert text in output
        assert text in forked_output


def test_a_process_that_dies_fails_its_test_alone(tmp_path: Path) -> None:
    code, output, reports = run(tmp_path, DEADLY, "--forks", "2")
    assert code == 1
    failed = {nodeid.rpartition("::")[2]: text for nodeid, _, outcome, text, _ in reports if outcome == "failed"}
    assert {name: text.splitlines()[-1].rpartition(": ")[2] for name, text in failed.items()} == {
        "test_kills_itself": "Killed.",
        "test_ends_the_process": "exit code 3.",
        "test_leaves_a_process_that_holds_its_files": "Killed.",
        "test_is_interrupted": "exit code 1.",
    }
    assert "KeyboardInterrupt" in failed["test_is_interrupted"]
    assert "4 failed, 12 passed" in output
    assert "test_it.py ." not in output, "results of several files stand in one line"


def test_it_stops_at_the_first_failure_if_it_should(tmp_path: Path) -> None:
    code, output, _ = run(tmp_path, FAILING, "-x", "--forks", "1")
    assert code == 1
    assert "stopping after 1 failures" in output
    assert "1 failed, 1 passed" in output  # the process had that one already


def test_a_file_that_cannot_be_collected_ends_the_run(tmp_path: Path) -> None:
    code, output, reports = run(tmp_path, "import no_such_module", "--forks", "2")
    assert (code, reports) == (2, [])
    assert "No module named 'no_such_module'" in output


def test_ctrl_c_ends_what_fixtures_have_started(tmp_path: Path) -> None:
    code, output, _ = run(tmp_path, INTERRUPTED, "--forks", "1")
    assert code == 2
    assert "KeyboardInterrupt" in output
    assert (tmp_path / "seen.servers").read_text().split() == ["begin", "test_it.py", "end", "test_it.py"]
