"""`pytest --forks 5`: one process collects the tests, then forks the processes that run them.

Processes of pytest-xdist start afresh, and each of them imports and collects the whole suite: 27 s of processor time for 14,554
tests (`pytest --collect-only -q -n 0 tests`), five times over.
A forked process has everything that the first one has, modules and tests alike, and runs tests at once.

The first process hands out the tests and prints the reports; it runs none. Each of the others begins with a part of its own, in the
order in which the tests were collected, so that servers of a module are started once. When its part is done, it gets the second half
of what the busiest one has left. A process that dies fails the test that it ran, and another takes its place.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import signal
import sys
import threading
import time
import traceback
import uuid
import warnings
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn

import pytest

from clicket.engine.executors.processes import termination

__all__ = ["add_option", "install"]

_AHEAD = 2  # tests that a process has: the one that it runs, and the next one, whose fixtures stay
_MAX_DEATHS = 20
_LEAVE = 120.0  # seconds that a process gets to end after its last test
_LATE = {
    "tests.adapters.kit": ("anthropic.types", "openai.types.chat"),
    "tests.models_kit.vendor_rules": ("anthropic.types", "openai.types.chat"),
}
"""Packages that tests import when they run, by the module of the tests: they take seconds, which each process would take again."""


def add_option(parser: pytest.Parser) -> None:
    parser.addoption(
        "--forks", type=int, default=0, metavar="N", help="run the tests in N processes, forked from this one"
    )


def install(config: pytest.Config) -> None:
    if config.getoption("forks") > 0:
        config.pluginmanager.register(_Leader(config.getoption("forks")), "forked-run")


@dataclass
class _Member:
    """One of the processes that run tests, or the one that took its place."""

    number: int
    waiting: deque[int]  # tests of its part
    given: deque[int] = field(default_factory=deque)  # it has these, the first one runs
    pid: int = 0
    line: Connection | None = None  # until it has nothing more to report
    knows_the_end: bool = False
    error: str = ""


class _Leader:
    """The first process."""

    def __init__(self, forks: int) -> None:
        self._forks = forks
        self._members: list[_Member] = []
        self._deaths = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        options = session.config.option
        if options.collectonly or (session.testsfailed and not options.continue_on_collection_errors):
            return None  # pytest's own loop ends the run
        if reporter := session.config.pluginmanager.get_plugin("terminalreporter"):
            reporter.showfspath = False  # tests of several files end in turn
        os.environ["PYTEST_XDIST_TESTRUNUID"] = uuid.uuid4().hex  # names the run, as it does for processes of xdist
        count = len(session.items)
        parts = min(self._forks, count)
        self._members = [
            _Member(number, deque(range(count * number // parts, count * (number + 1) // parts)))
            for number in range(parts)
        ]
        _import_late()
        try:
            for member in self._members:
                self._fork(session, member)
            self._lead(session)
        finally:
            self._wait_for_all()
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        left = sum(len(member.waiting) + len(member.given) for member in self._members)
        assert not left, f"{left} tests have not run"
        return True

    def _fork(self, session: pytest.Session, member: _Member) -> None:
        session.config._tmp_path_factory.getbasetemp()  # one for all
        mine, theirs = Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # of threads, from Python 3.12 on: these are of libraries that expect a fork
            pid = os.fork()
        if pid == 0:
            for line in (mine, *(other.line for other in self._members)):
                if line is not None:
                    line.close()  # so that the death of the first process closes the last end of each line
            _run_tests(session, member.number, theirs)
        theirs.close()
        member.pid, member.line, member.knows_the_end, member.error = pid, mine, False, ""
        for _ in range(_AHEAD):
            self._hand_out(session, member)

    def _hand_out(self, session: pytest.Session, member: _Member) -> None:
        """One more test, or the news that there is none."""
        if member.knows_the_end or member.line is None:
            return
        if not member.waiting:
            busiest = max(self._members, key=lambda each: len(each.waiting))
            for _ in range((len(busiest.waiting) + 1) // 2):
                member.waiting.appendleft(busiest.waiting.pop())
        if member.waiting and not session.shouldfail and not session.shouldstop:
            index = member.waiting.popleft()
            member.given.append(index)
        else:
            index, member.knows_the_end = None, True
        with suppress(OSError):  # it has died, as will be seen
            _send(member.line, index)

    def _lead(self, session: pytest.Session) -> None:
        while running := [member for member in self._members if member.line is not None]:
            ready = wait([member.line for member in running], timeout=1.0)
            for member in running:
                if member.line in ready:
                    self._receive(session, member)
                elif (
                    _is_dead(member.pid) and not member.line.poll()
                ):  # a process that it left behind keeps the line open
                    self._ended(session, member)

    def _receive(self, session: pytest.Session, member: _Member) -> None:
        try:
            message = _receive(member.line)
        except (EOFError, OSError):
            self._ended(session, member)
            return
        if isinstance(message, str):
            member.error = message
            return
        reports, warned, stop = message
        self._report(session, member.given.popleft(), reports)
        for each in warned:
            _warn_again(session.config, *each)
        if stop and not session.shouldfail:
            session.shouldfail = stop
        self._hand_out(session, member)

    def _report(self, session: pytest.Session, index: int, reports: Iterable[dict[str, Any]]) -> None:
        hook, item = session.config.hook, session.items[index]
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for data in reports:
            report = hook.pytest_report_from_serializable(config=session.config, data=data)
            if isinstance(report.longrepr, list):  # of a test that was skipped; JSON has no tuples
                report.longrepr = tuple(report.longrepr)
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _ended(self, session: pytest.Session, member: _Member) -> None:
        """It has run all that it was given, or has died."""
        member.line.close()
        member.line = None
        if not member.given:
            return
        code = os.waitstatus_to_exitcode(os.waitpid(member.pid, 0)[1])
        member.pid = 0
        item = session.items[member.given.popleft()]
        text = f"The process that ran this test ended: {signal.strsignal(-code) if code < 0 else f'exit code {code}'}."
        report = pytest.TestReport(
            nodeid=item.nodeid, location=item.location, keywords={}, outcome="failed",
            longrepr=f"{member.error}{text}", when="call",
        )  # fmt: skip
        session.config.hook.pytest_runtest_logreport(report=report)
        while member.given:
            member.waiting.appendleft(member.given.pop())
        self._deaths += 1
        if self._deaths > _MAX_DEATHS:
            session.shouldfail = f"{self._deaths} processes have died"
        if not session.shouldfail and not session.shouldstop:
            self._fork(session, member)

    def _wait_for_all(self) -> None:
        """Every process is gone: after Ctrl-C, they end their tests first; what does not end is killed."""
        give_up_at = time.monotonic() + _LEAVE
        for member in self._members:
            if member.line is not None:
                member.line.close()
            while member.pid and not os.waitpid(member.pid, os.WNOHANG)[0]:
                if time.monotonic() > give_up_at:
                    print(f"process {member.pid} did not end and is killed", file=sys.stderr)
                    os.kill(member.pid, signal.SIGKILL)
                time.sleep(0.01)
            member.pid = 0


def _import_late() -> None:
    for module, packages in _LATE.items():
        if module in sys.modules:
            for package in packages:
                with suppress(ImportError):  # the tests that need it report that
                    importlib.import_module(package)
    gc.freeze()  # as after the collection of tests


def _warn_again(
    config: pytest.Config, text: str, category: list[str], place: list[Any], when: str, nodeid: str
) -> None:
    kind = getattr(sys.modules.get(category[0]), category[1], UserWarning)  # one that only the other process imported
    warning = warnings.WarningMessage(text, kind, *place)
    config.hook.pytest_warning_recorded.call_historic(
        kwargs={"warning_message": warning, "when": when, "nodeid": nodeid, "location": None}
    )


def _send(line: Connection, message: Any) -> None:
    line.send_bytes(json.dumps(message).encode())


def _receive(line: Connection) -> Any:
    return json.loads(line.recv_bytes())


def _is_dead(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


# --- the processes that run tests -----------------------------------------------------------------------------------------


class _Reports:
    """What one test has to report."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.reports: list[dict[str, Any]] = []
        self.warnings: list[tuple[Any, ...]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self._config.hook
        hook.pytest_report_teststatus(report=report, config=self._config)  # a test whose subtests failed fails by this
        self.reports.append(hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, when: str, nodeid: str) -> None:
        kind, place = warning_message.category, (warning_message.filename, warning_message.lineno)
        self.warnings.append((str(warning_message.message), (kind.__module__, kind.__qualname__), place, when, nodeid))

    def take(self) -> tuple[list[dict[str, Any]], list[tuple[Any, ...]]]:
        taken = self.reports, self.warnings
        self.reports, self.warnings = [], []
        return taken


class _NoTerminal:
    """Takes the place of pytest's reporter. pytest-timeout writes to it, into the output of its test."""

    def __init__(self, writer: Any) -> None:
        self._tw = writer


def _run_tests(session: pytest.Session, number: int, line: Connection) -> NoReturn:
    code = 1
    try:
        atexit._clear()  # the first process does what it has registered
        reports = _make_own(session.config, number)
        here = _receive(line)
        while here is not None:
            after = _receive(line)
            following = session.items[after] if after is not None else None
            session.config.hook.pytest_runtest_protocol(item=session.items[here], nextitem=following)
            _send(line, (*reports.take(), session.shouldfail or session.shouldstop))
            here = after
        code = 0
    except EOFError:  # the first process is gone
        pass
    except BaseException:
        with suppress(OSError):
            _send(line, traceback.format_exc())
    finally:
        with suppress(BaseException):
            session.config.pluginmanager.get_plugin("runner").pytest_sessionfinish(
                session
            )  # ends what fixtures have started
        line.close()
        with suppress(BaseException):
            threading._shutdown()  # as the interpreter does
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _make_own(config: pytest.Config, number: int) -> _Reports:
    """This process shares neither files nor a folder with the others, and prints nothing."""
    termination.process_id = os.getpid()  # no tool has forked this process
    plugins, folder = config.pluginmanager, config._tmp_path_factory
    folder._basetemp = folder.getbasetemp() / f"fork-{os.getpid()}"
    folder._basetemp.mkdir(mode=0o700)
    if capture := plugins.get_plugin("capturemanager"):
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture()
    if reporter := plugins.unregister(name="terminalreporter"):
        plugins.register(_NoTerminal(reporter._tw), "terminalreporter")
    if plugins.has_plugin("terminalprogress"):
        plugins.unregister(name="terminalprogress")
    reports = _Reports(config)
    plugins.register(reports, "forked-reports")
    return reports
