"""The arguments of bubblewrap: as root without a user namespace, as other users in one, and as little of the host as
possible."""

from __future__ import annotations

from pathlib import Path

import msgspec

from clicket.interpreter.sandbox import bubblewrap
from clicket.interpreter.sandbox.bubblewrap import FilesystemView
from clicket.interpreter.sandbox.python_runtime import PythonRuntime

PYTHON = PythonRuntime(
    executable="/root/py/bin/python", prefix="/root/py", base_prefix="/root/py", version="3.11.7", magic="a70d0d0a"
)


def view(python: PythonRuntime = PYTHON, readable: tuple[Path, ...] = ()) -> FilesystemView:
    return FilesystemView(
        work=Path("/var/h/program-1/work"),
        etc=Path("/var/h/program-1/etc"),
        library=Path("/var/h/library"),
        python=python,
        readable=readable,
        scratch=1000,
    )


def pairs(words: list[str], option: str) -> list[tuple[str, str]]:
    return [(words[at + 1], words[at + 2]) for at, word in enumerate(words) if word == option]


def test_root_gets_no_user_namespace_and_keeps_only_what_the_change_of_user_takes() -> None:
    words = bubblewrap.arguments(view(), root=True)
    assert "--unshare-user" not in words
    assert "--unshare-all" not in words
    assert words[words.index("--cap-drop") + 1] == "ALL"
    kept = [words[at + 1] for at, word in enumerate(words) if word == "--cap-add"]
    assert kept == ["CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"]
    assert "--cap-add" not in bubblewrap.arguments(view(), root=True, drops=False)


def test_a_user_gets_one_in_which_no_other_can_be_made() -> None:
    words = bubblewrap.arguments(view(), root=False)
    assert {"--unshare-user", "--disable-userns"} <= set(words)
    assert "--cap-add" not in words
    assert "--disable-userns" not in bubblewrap.arguments(view(), root=False, disable_userns=False)


def test_both_are_apart_from_the_host_and_die_with_it() -> None:
    for root in (True, False):
        words = set(bubblewrap.arguments(view(), root=root))
        assert {"--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"} <= words
        assert {"--die-with-parent", "--new-session"} <= words


def test_only_the_work_folder_can_be_written_and_the_root_is_closed_last() -> None:
    words = bubblewrap.arguments(view(), root=True)
    assert pairs(words, "--bind") == [("/var/h/program-1/work", "/work")]
    assert words[-2:] == ["--remount-ro", "/"]
    assert {target for _, target in pairs(words, "--ro-bind")} >= {
        "/run/clicket",
        "/root/py",
        "/etc/passwd",
        "/etc/group",
    }
    for secret in ("/etc", "/home", "/root", "/var", "/opt", "/sys", "/run", "/"):
        assert secret not in {source for source, _ in pairs(words, "--ro-bind") + pairs(words, "--ro-bind-try")}


def test_folders_above_what_is_shown_can_be_passed() -> None:
    words = bubblewrap.arguments(view(readable=(Path("/srv/data/one"), Path("/usr/share"))), root=True)
    made = [words[at + 3] for at, word in enumerate(words) if words[at : at + 3] == ["--perms", "0755", "--dir"]]
    assert {"/root", "/srv", "/srv/data", "/run"} <= set(made)
    assert ("/srv/data/one", "/srv/data/one") in pairs(words, "--ro-bind")
    assert ("/usr/share", "/usr/share") not in pairs(words, "--ro-bind")


def test_an_environment_where_the_work_folder_will_be_is_shown_elsewhere() -> None:
    venv = msgspec.structs.replace(PYTHON, executable="/work/app/.venv/bin/python", prefix="/work/app/.venv")
    assert bubblewrap.shown_python(venv).executable == "/run/venv/bin/python"
    assert ("/work/app/.venv", "/run/venv") in pairs(bubblewrap.arguments(view(venv), root=True), "--ro-bind")
    assert bubblewrap.shown_python(PYTHON) == PYTHON
    assert bubblewrap.obstacle(venv) is None
    inside = msgspec.structs.replace(PYTHON, base_prefix="/work/python")
    assert "/work/python" in str(bubblewrap.obstacle(inside))
