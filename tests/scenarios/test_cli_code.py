"""`clicket code`: a Markdown file as a notebook in the terminal, run in the real sandbox by real processes."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from tests.kit.forks import FORKED
from tests.kit.waiting import eventually_sync
from tests.scenarios.cli_kit import PATIENCE, PROGRAM, Place
from tests.unit.interpreter.setup.test_packages import wheel

NOTEBOOK = """# Numbers

Some *prose*, before the first block.

```python
import sys
x = 20
print("live", x)
open("made.txt", "w").write("made")
print("careful", file=sys.stderr)
```

```bash
ls
```

```python
def half(n):
    return n / 0
half(x)
```

Almost done.

```python
x + 1
```

The end.
"""
IGNORES = """
import signal, time
said = False
while True:
    try:
        if not said:
            print("deaf", flush=True)
        said = True
        time.sleep(1)
    except BaseException:
        pass
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A working folder, and one for temporary files that must be empty at the end."""
    folder, temp = tmp_path / "place", tmp_path / "temp"
    folder.mkdir()
    temp.mkdir()
    place = Place(folder, "memory://", "", TMPDIR=str(temp), XDG_CACHE_HOME=str(tmp_path / "cache"))
    yield place
    place.close()
    assert list(temp.iterdir()) == []
    assert sandboxed(temp) == []


def sandboxed(temp: Path) -> list[str]:
    """Processes that have a folder of these temporary files as their own."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(temp) in (entry / "mountinfo").read_text():
                found.append(entry.name)
        except OSError:
            continue  # it ended meanwhile
    return found


def write(place: Place, text: str, name: str = "notebook.md") -> str:
    (place.folder / name).write_text(text)
    return name


class TestNotebook:
    def test_prose_code_output_values_and_errors_come_in_order(self, place: Place) -> None:
        done = place.run("code", write(place, NOTEBOOK), "--out", "kept")
        assert done.returncode == 1, done.stderr
        expected = [
            "# Numbers", "Some *prose*", "[1]", '    print("live", x)', "\nlive 20\n", "\ncareful\n", "```bash", "[2]",
            'File "<block 2>", line 2, in half', "ZeroDivisionError: division by zero", "Almost done.", "[3]", "→ 21",
            "The end.",
        ]  # fmt: skip
        at = [done.stdout.find(text) for text in expected]
        assert -1 not in at, done.stdout
        assert at == sorted(at), done.stdout
        assert "clicket" not in done.stdout  # lines of the program only
        assert "left out: bash block at line 13" in done.stderr
        last = done.stderr.strip().splitlines()[-1]
        assert last.startswith("✗ error  3 blocks · ")
        assert "isolation full · 1 file  saved kept/made.txt" in last
        assert (place.folder / "kept" / "made.txt").read_text() == "made"

    def test_the_run_is_saved_as_a_notebook_and_as_a_page(self, place: Place) -> None:
        place.inside("code", write(place, NOTEBOOK), "--notebook", "run.ipynb", "--html", "run.html")
        notebook = nbformat.read(place.folder / "run.ipynb", as_version=4)
        nbformat.validate(notebook)
        assert [cell.cell_type for cell in notebook.cells] == [
            "markdown", "code", "markdown", "code", "markdown", "code", "markdown",
        ]  # fmt: skip
        assert "ZeroDivisionError: division by zero" in (place.folder / "run.html").read_text()
        assert "<title>notebook</title>" in (place.folder / "run.html").read_text()

    def test_python_is_taken_as_it_is(self, place: Place) -> None:
        text = 'text = """\n```python\n1 / 0\n```\n"""\nprint(len(text))\n'
        for arguments in ([write(place, text, "program.py")], ["--code", text]):
            done = place.inside("code", *arguments)
            assert done.returncode == 0, done.stdout + done.stderr
            assert "\n21\n" in done.stdout
            assert "✓ ok  1 block" in done.stderr

    def test_a_file_can_come_by_stdin(self, place: Place) -> None:
        done = subprocess.run(
            [*PROGRAM, "code", "-"], input="```py\nprint(6 * 7)\n```\n", cwd=place.folder, env=place.environment,
            capture_output=True, text=True, check=False, timeout=PATIENCE,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (0, "[1]\n    print(6 * 7)\n42\n\n"), done.stderr

    def test_files_go_in_and_nothing_is_replaced_without_consent(self, place: Place) -> None:
        (place.folder / "data.csv").write_text("1\n2\n")
        out = place.folder / "kept"
        out.mkdir()
        (out / "link").symlink_to(out / "sum")
        (out / "way").symlink_to(place.folder)
        (out / "sum").write_text("mine")
        code = """
import os
os.mkdir("deep")
os.mkdir("way")
for name in ("sum", "link", "deep/sum", "way/out"):
    open(name, "w").write(str(sum(map(int, open("data.csv")))))
"""
        arguments = ("code", "--code", code, "--file", "data.csv", "--out", "kept")
        done = place.inside(*arguments)
        assert done.returncode == 0, done.stderr
        assert (out / "sum").read_text() == "mine"
        assert "kept/sum exists already; --overwrite replaces it" in done.stderr
        assert (out / "deep" / "sum").read_text() == "3"
        again = place.inside(*arguments, "--overwrite")
        assert (out / "sum").read_text() == "3"
        assert "not saved: kept/link is a link" in again.stderr
        assert "not saved: kept/way/out leads out of kept" in again.stderr
        assert not (place.folder / "out").exists()

    def test_nothing_is_saved_under_a_name_that_would_be_imported_or_obeyed(self, place: Place) -> None:
        code = """
import os
for name in ("apsw.py", "solution.py", "clicket.toml", "data.csv"):
    open(name, "w").write("")
"""
        done = place.inside("code", "--code", code, "--out", ".")
        assert done.returncode == 0, done.stderr
        assert (place.folder / "data.csv").exists()
        assert [name for name in ("apsw.py", "solution.py", "clicket.toml") if (place.folder / name).exists()] == []
        assert "not saved: clicket.toml would be read as settings" in done.stderr

    def test_pictures_are_named_and_saved(self, place: Place) -> None:
        code = """
class Drawing:
    def _repr_svg_(self):
        return "<svg xmlns='http://www.w3.org/2000/svg'/>"
display(Drawing())
Drawing()
"""
        done = place.inside("code", "--code", code, "--out", "kept")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "figure-1.svg (image/svg+xml, " in done.stdout
        assert (place.folder / "kept" / "figure-2.svg").read_text().startswith("<svg")


class TestPrograms:
    """Output for other programs."""

    def test_json_is_the_result(self, place: Place) -> None:
        done = place.inside("code", write(place, NOTEBOOK), "--json", "--out", "kept")
        result = json.loads(done.stdout)
        assert done.returncode == 1
        assert (result["status"], result["success"], result["value"]) == ("error", False, "21")
        assert result["isolation"]["level"] == "full"
        assert result["saved"] == ["kept/made.txt"]
        assert done.stderr == ""

    def test_stream_is_a_line_for_each_message(self, place: Place) -> None:
        done = place.inside("code", write(place, NOTEBOOK), "--json", "--stream")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert lines[0]["type"] == "state_change"
        assert lines[-1]["type"] == "final_result"
        assert [line["content"] for line in lines if line["type"] == "stdout"] == ["live 20\n"]


class TestWrongUse:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ((), "--code TEXT"),
            (("a.md", "--code", "1"), "--code TEXT"),
            (("none.md",), "'none.md' is not there"),
            (("--code", "1", "--file", "none.csv"), "'none.csv' is not there"),
            (("--code", "1", "--require", "ful"), "Did you mean 'full'"),
            (("--code", "1", "--timeout", "soon"), "is not a duration"),
            (("--code", "1", "--timeout", "0"), "above 0"),
            (("--code", "1", "--memory", "much"), "is not a size"),
            (("--code", "1", "--notebook", "none/run.ipynb"), "cannot be written"),
            (("--code", "1", "--python", "/none/python"), "/none/python"),
            (("--code", "1", "--install", "a"), "install needs wheels"),
            (("latin.md",), "not UTF-8"),
        ],
    )
    def test_the_command_reports_it_and_runs_nothing(
        self, place: Place, arguments: tuple[str, ...], words: str
    ) -> None:
        (place.folder / "a.md").write_text("x")
        (place.folder / "latin.md").write_bytes(b"\xe9t\xe9")
        done = place.inside("code", *arguments)
        assert done.returncode == 2, done.stdout + done.stderr
        assert words in done.stderr
        assert done.stdout == ""

    def test_what_does_not_parse_runs_not_even_in_part(self, place: Place) -> None:
        done = place.inside("code", write(place, "```python\nprint('ran')\n```\n\n```python\nx ===\n```\n"))
        assert done.returncode == 1
        assert "\nran\n" not in done.stdout
        assert "error SyntaxError: invalid syntax" in done.stderr

    def test_a_block_that_was_stopped_says_why(self, place: Place) -> None:
        done = place.inside("code", "--code", "while True: pass", "--timeout", "200ms")
        assert done.returncode == 1
        assert "error interrupted: the block was stopped after 0.2 s" in done.stderr

    def test_a_file_that_was_not_taken_in_is_pointed_out(self, place: Place) -> None:
        (place.folder / "sales.csv").write_text("1")
        done = place.inside("code", "--code", "open('sales.csv')")
        assert "--file sales.csv" in done.stderr
        done = place.inside("code", "--code", "open('other.csv')")
        assert "--file" not in done.stderr


class TestPackages:
    def test_wheels_are_there_and_others_may_be_kept_out(self, place: Place) -> None:
        wheel(place.folder / "wheels", "tiny", code="answer = 42")
        code = "import tiny\nprint(tiny.answer)\nimport rich"
        arguments = ("--install", "tiny==1.*", "--wheels", "wheels")
        done = place.inside("code", "--code", code, *arguments, "--package", "msgspec")
        assert done.returncode == 1, done.stdout + done.stderr
        assert "\n42\n" in done.stdout
        assert "package 'rich' may not be imported here" in done.stdout


class TestSignals:
    def test_ctrl_c_interrupts_the_block_and_ends_the_run(self, place: Place) -> None:
        text = "```python\nprint('on', flush=True)\nwhile True: pass\n```\n\n```python\nprint('next')\n```\n"
        command = place.start("code", write(place, text))
        command.until(lambda: "\non\n" in command.out)
        command.signal(signal.SIGINT)
        assert command.ended() == 130
        assert "KeyboardInterrupt" in command.out
        assert "next" not in command.out
        assert "interrupted (cancel)  1 block" in command.err

    def test_a_second_ctrl_c_kills(self, place: Place) -> None:
        command = place.start("code", "--code", IGNORES, "--grace", "1h")
        command.until(lambda: "\ndeaf\n" in command.out)
        command.signal(signal.SIGINT)
        command.until(lambda: "Ctrl-C again kills" in command.err)
        command.signal(signal.SIGINT)
        assert command.ended() == 130
        assert "killed (cancel)" in command.err

    def test_on_a_signal_it_ends_the_program_first(self, place: Place) -> None:
        command = place.start("code", "--code", IGNORES)
        command.until(lambda: "\ndeaf\n" in command.out)
        command.signal(signal.SIGTERM)
        assert command.ended() == 130

    def test_killed_it_leaves_no_program(self, place: Place) -> None:
        command = place.start("code", "--code", IGNORES)
        command.until(lambda: "\ndeaf\n" in command.out)
        temp = Path(place.environment["TMPDIR"])
        assert sandboxed(temp) != []
        command.kill()
        eventually_sync(lambda: not sandboxed(temp))
        assert place.run("code", "--code", "1").returncode == 0  # the next run cleans up


class TestTerminal:
    def test_a_terminal_gets_colours_and_none_of_the_programs_controls(self, place: Place) -> None:
        code = (
            "print('\\x1b]0;gotcha\\x07\\x1b[2J', end='')\nimport sys\nprint('\\x1b[31mwarn', file=sys.stderr)\n"
            "class E(Exception): pass\nE.__name__ = '\\x1b[5mE'\nraise E('\\x9b2J')"
        )
        text = f"**Bold** prose [here](https://example.test/)\n\n```python\n{code}\n```\n"
        environment = {name: value for name, value in place.environment.items() if name != "NO_COLOR"}
        seen = in_terminal(place, ("code", write(place, text)), {**environment, "TERM": "xterm-256color"})
        assert "\x1b[1mBold" in seen
        assert "https://example.test/" in seen
        for control in ("\x1b]", "\x07", "\x1b[2J", "\x1b[31mwarn", "\x1b[5m", "\x9b"):
            assert control not in seen, (control, seen)
        assert "warn" in seen


def in_terminal(place: Place, arguments: tuple[str, ...], environment: dict[str, str]) -> str:
    """Everything that a command writes to a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, *FORKED, "-m", "clicket", *arguments], cwd=place.folder, env=environment,
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    try:
        while select.select([ours], [], [], PATIENCE)[0]:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            seen += piece
    finally:
        process.kill()
        process.wait(PATIENCE)
        os.close(ours)
    return seen.decode(errors="replace")


def test_doctor_says_how_well_programs_are_kept(place: Place) -> None:
    checks = {check["name"]: check for check in place.ask("doctor")["checks"]}
    assert checks["code sandbox"]["verdict"] == "ok"
    assert checks["code sandbox"]["found"].startswith("isolation full: environment, namespaces")


def test_doctor_names_the_gaps_and_what_closes_them(place: Place) -> None:
    checks = {check["name"]: check for check in place.json("doctor", PATH="/nowhere")["checks"]}
    check = checks["code sandbox"]
    assert check["verdict"] == "warn"
    assert check["found"].startswith("isolation partial: ")
    assert "the program bwrap is not installed" in check["found"]
    assert "--require partial" in check["advice"]
    assert "apt-get install bubblewrap" in check["advice"]
    done = place.run("code", "--code", "print('ran')", PATH="/nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert "error not_isolated: " in done.stderr
    done = place.run("code", "--code", "print('ran')", "--require", "partial", PATH="/nowhere")
    assert done.returncode == 0, done.stderr
    assert "isolation partial" in done.stderr
