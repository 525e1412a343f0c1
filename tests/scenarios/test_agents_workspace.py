"""An agent with a workspace: what it can do with files, what it cannot reach, and where its turns go on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.kit.tools import echo
from tests.kit.waiting import eventually
from tests.scenarios.agent_kit import Gate, Says
from tests.scenarios.kit import make, sqlite_url

from clicket import Policy, Runtime, tool
from clicket.agents import AgentResult, PlanExecuteAgent, ReActAgent, Workspace
from clicket.errors import AgentBusy, MiddlewareFailed, UsageError
from clicket.model.chat import ChatRequest
from clicket.sandbox import Sandbox
from clicket.testing import ScriptedModel


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    (made / "src").mkdir(parents=True)
    (made / "src" / "app.py").write_text("one\ntwo\nthree\n")
    (made / "notes.txt").write_text("two notes\n")
    return made


def results(result: AgentResult[Any]) -> list[str]:
    return [message.content for message in result.new_messages if message.role == "tool"]


async def played(rt: Runtime, workspace: Workspace, *steps: Any, **options: Any) -> list[str]:
    """What a model reads that asks for these calls, step by step."""
    agent = ReActAgent(rt, ScriptedModel([*steps, "done"]), middleware=[workspace], **options)
    return results(await agent.run("go", thread="t"))


def edit(path: str, old: str, new: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "edit_file", {"path": path, "old": old, "new": new, **more}


def read(path: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "read_file", {"path": path, **more}


async def test_files_are_read_found_and_edited(folder: Path) -> None:
    async with make() as rt:
        seen = await played(
            rt,
            Workspace(folder),
            [read("src/app.py", start_line=2, lines=1)],
            [edit("src/app.py", "two", "2")],
            [edit("src/app.py", "three", "3")],
            [
                ("list_files", {}),
                ("find_files", {"pattern": "*.py"}),
                ("search_files", {"text": "TWO", "ignore_case": True}),
            ],
            [("write_file", {"path": "new/deep/made.txt", "content": "hello\n"})],
            [
                ("write_file", {"path": "new/deep/made.txt", "content": "again\n"}),
                ("find_files", {"pattern": "src/**/*"}),
            ],
        )
    assert seen[0].splitlines()[0].startswith("[src/app.py: lines 2 to 2 of 3, version ")
    assert seen[0].splitlines()[1:] == ["     2\ttwo", "[read on with start_line=3]"]
    assert seen[1].startswith("[src/app.py: edited at line 2, version ")
    assert seen[2].startswith("[src/app.py: edited at line 3, version "), (
        "the version after the model's own edit counts"
    )
    assert seen[3:6] == ["notes.txt (10 bytes)\nsrc/", "src/app.py", "notes.txt:1: two notes"]
    assert seen[7].startswith("[new/deep/made.txt: written anew")
    assert seen[8] == "src/app.py"
    assert (folder / "src" / "app.py").read_text() == "one\n2\n3\n"
    assert (folder / "new" / "deep" / "made.txt").read_text() == "again\n"
    assert [each.name for each in (folder / "src").iterdir()] == ["app.py"], "nothing is left beside it"


async def test_the_digests_of_an_edit_are_on_record(folder: Path) -> None:
    async with make() as rt:
        await played(rt, Workspace(folder), [read("notes.txt"), edit("src/app.py", "two", "2")])
        (call,) = [call for call in (await rt.history(thread="t")).items if call.tool.startswith("edit_file.")]
        (note,) = [event.data for event in call.events if "before" in event.data]
    assert note["path"] == "src/app.py"
    assert len(note["before"]) == len(note["after"]) == 32
    assert note["before"] != note["after"]
    assert call.output.endswith(f"version {note['after'][:12]}]")


async def test_a_mode_and_windows_line_ends_stay(folder: Path) -> None:
    script = folder / "run.sh"
    script.write_bytes(b"#!/bin/sh\r\necho one\r\necho two\r\n")
    script.chmod(0o750)
    async with make() as rt:
        await played(rt, Workspace(folder), [edit("run.sh", "echo one\necho two", "echo 1\necho 2")])
    assert script.read_bytes() == b"#!/bin/sh\r\necho 1\r\necho 2\r\n"
    assert script.stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (edit("src/app.py", "four", "4"), "old is not in 'src/app.py' exactly so"),
        (edit("src/app.py", "", "4"), "old is not in 'src/app.py' exactly so"),
        (edit("src/app.py", "t", "T"), "old is in 'src/app.py' 2 times"),
        (edit("src/app.py", "one", "one"), "old and new are the same"),
        (edit("gone.py", "one", "1"), "there is no 'gone.py'"),
        (("write_file", {"path": "notes.txt", "content": "x"}), "is there already. Read it first"),
        (read("picture.png"), "'picture.png' is a binary file (6 bytes)"),
        (read("latin.txt"), "'latin.txt' is not text in UTF-8 (byte 1"),
        (read("huge.txt"), "'huge.txt' has 5,000,000 bytes"),
        (read("src"), "'src' is a folder"),
        (read("."), "name a file"),
        (read("src/app.py", start_line=9), "has 3 lines"),
        (read("gone/app.py"), "there is no 'gone'"),
        (("list_files", {"path": "notes.txt"}), "'notes.txt' is not a folder"),
        (("write_file", {"path": "notes.txt/x", "content": "x"}), "'notes.txt' is not a folder"),
        (("find_files", {"pattern": "../*"}), "is not a pattern"),
        (("search_files", {"text": ""}), "text is what one line has in it"),
    ],
)
async def test_what_cannot_be_done_says_why(folder: Path, step: Any, why: str) -> None:
    (folder / "picture.png").write_bytes(b"\x89P\0NG\n")
    (folder / "latin.txt").write_bytes(b"a\xe4b")
    with (folder / "huge.txt").open("wb") as file:
        file.truncate(5_000_000)
    before = (folder / "src" / "app.py").read_text()
    async with make() as rt:
        (seen,) = await played(rt, Workspace(folder), [step])
        assert seen.startswith("file_refused: ")
        assert why in seen
        # A model that errs does not take the tool out of use.
        again = await played(rt, Workspace(folder), *[[step]] * 4, [read("notes.txt")], name="again", max_repeats=None)
    assert "two notes" in again[-1]
    assert (folder / "src" / "app.py").read_text() == before


def ways_out(folder: Path) -> Iterator[str]:
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret\n")
    (folder / "to_file").symlink_to(outside / "secret.txt")
    (folder / "to_folder").symlink_to(outside)
    (folder / "to_parent").symlink_to("..")
    (folder / "to_nothing").symlink_to(outside / "made.txt")
    (folder / "to_itself").symlink_to("src")
    yield from ("../outside/secret.txt", "src/../../outside/secret.txt", str(outside / "secret.txt"), "/etc/passwd")
    yield from ("to_file", "to_folder/secret.txt", "to_parent/outside/secret.txt", "to_nothing", "to_itself/app.py")
    yield from (
        "~/secret.txt",
        f"{folder}/../outside/secret.txt",
        "src/\0app.py",
        "//etc/passwd",
        "a" * 2_000,
        "to_parent",
    )
    yield from (f"{folder}2/x", "..", "src/..", "./../outside/secret.txt", "to_folder/./secret.txt")


async def test_no_path_leads_out(folder: Path) -> None:
    paths = list(ways_out(folder))
    tries = [
        [
            read(path),
            ("list_files", {"path": path}),
            ("find_files", {"pattern": "*", "path": path}),
            ("search_files", {"text": "secret", "path": path}),
            ("write_file", {"path": path, "content": "changed"}),
            ("write_file", {"path": path, "content": "changed", "version": "0" * 12}),
            edit(path, "secret", "changed"),
        ]
        for path in paths
    ]
    everywhere = [("find_files", {"pattern": "**"}), ("search_files", {"text": "secret"}), ("list_files", {})]
    async with make() as rt:
        seen = await played(rt, Workspace(folder), *tries, everywhere, max_steps=50, max_calls=None, max_repeats=None)
    *refused, found, hits, listed = seen
    assert len(refused) == 7 * len(paths)
    assert [text for text in refused if not text.startswith(("file_refused: ", "invalid_input: "))] == []
    assert not any("secret\n" in text for text in refused)
    assert (found, hits) == ("notes.txt\nsrc/app.py", "[no line contains 'secret']")
    assert "to_folder (a link, not followed)" in listed
    outside = folder.parent / "outside"
    assert [each.name for each in outside.iterdir()] == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == "secret\n"
    assert sorted(each.name for each in folder.parent.iterdir()) == ["outside", "work"]


async def test_a_pipe_or_a_device_does_not_hang_a_turn(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    async with asyncio.timeout(30), make() as rt:
        seen = await played(
            rt, Workspace(folder), [read("pipe"), ("search_files", {"text": "two"}), edit("pipe", "a", "b")]
        )
    assert seen[0] == seen[2] == "file_refused: 'pipe' is a pipe or device, not a file"


async def test_an_edit_of_a_file_that_has_changed_is_refused(folder: Path) -> None:
    app = folder / "src" / "app.py"

    def answer(request: ChatRequest) -> Any:
        match sum(message.role == "tool" for message in request.messages):
            case 0:
                return [("read_file", '{"path": "src/app.py"}')]
            case 1:
                app.write_text("one\ntwo\nthree\nfour\n")  # somebody else
                return [("edit_file", '{"path": "./src/app.py", "old": "two", "new": "2"}')]
            case 2:
                return [("write_file", '{"path": "src/app.py", "content": "mine"}')]
            case 3:
                return [("read_file", '{"path": "src/app.py"}')]
            case 4:
                return [("edit_file", '{"path": "src/app.py", "old": "two", "new": "2"}')] * 2
        return "done"

    async with make() as rt:
        agent = ReActAgent(rt, Says(answer), middleware=[Workspace(folder)])
        seen = results(await agent.run("go", thread="t"))
    for refused in seen[1:3]:
        assert refused.startswith("file_refused: nothing was written: ")
        assert "Read the file again" in refused
    assert sorted(text.partition(" ")[0] for text in seen[4:]) == ["[src/app.py:", "file_refused:"], (
        "of two at once, one"
    )
    assert app.read_text() == "one\n2\nthree\nfour\n"


async def test_of_many_agents_that_edit_one_file_none_loses_an_edit(folder: Path, tmp_path: Path) -> None:
    (folder / "list.txt").write_text("begin\n")

    def answer(name: str) -> Any:
        def reply(request: ChatRequest) -> Any:
            last = request.messages[-1].content
            if f"{name}\n" in last or f"edited: {name}" in last:
                return "done"
            if request.messages[-1].role == "tool" and "version" in last and last.startswith("[list.txt: lines"):
                text = "".join(f"{line.partition(chr(9))[2]}\n" for line in last.splitlines()[1:])
                return [
                    ("write_file", msgspec.json.encode({"path": "list.txt", "content": f"{text}{name}\n"}).decode())
                ]
            return "done" if "written anew" in last else [("read_file", '{"path": "list.txt"}')]

        return reply

    async with make(store=sqlite_url(tmp_path, "a.db")) as one, make(store=sqlite_url(tmp_path, "b.db")) as other:
        agents = [
            ReActAgent(rt, Says(answer(f"agent-{number}")), name=f"agent-{number}", middleware=[Workspace(folder)], max_repeats=None,
                       max_steps=200)
            for number, rt in enumerate([one, other] * 3)
        ]  # fmt: skip
        await asyncio.gather(*(agent.run("go") for agent in agents))
    assert sorted((folder / "list.txt").read_text().splitlines()) == [*(f"agent-{n}" for n in range(6)), "begin"]


async def test_reading_alone(folder: Path) -> None:
    async with make([echo]) as rt:
        writer = Workspace(folder)
        ReActAgent(rt, ScriptedModel([]), name="writer", middleware=[writer])
        model = ScriptedModel(
            [
                [
                    edit("notes.txt", "two", "2"),
                    (next(each.name for each in writer.own_tools if "edit" in each.name), {"path": "x"}),
                ],
                "done",
            ]
        )
        agent = ReActAgent(rt, model, middleware=[Workspace(folder, write=False, shell=False)])
        seen = results(await agent.run("go", thread="t"))
        offered = [offer.name for offer in model.requests[0].tools]
        assert offered == ["echo", "read_file", "list_files", "find_files", "search_files"]
        assert all("there is no tool" in text for text in seen), seen
        # Nor can a caller of the runtime.
        for each in writer.own_tools:
            refused = await rt.call(each.name, {"path": "notes.txt"})
            assert refused.error is not None
            assert refused.error.code == "tool_not_found"
    assert (folder / "notes.txt").read_text() == "two notes\n"


async def test_a_turn_may_do_no_more_than_when_it_began(folder: Path, sqlite: str) -> None:
    """It began with an agent that only reads; the one that goes on with it could write."""
    gate = Gate()

    async def stuck(request: ChatRequest) -> str:
        await gate()
        return "done"

    async with make(store=sqlite, close_timeout=0.0) as rt:
        reader = ReActAgent(rt, Says(stuck), middleware=[Workspace(folder, write=False, shell="ask")])
        await reader.begin("go", thread="t")
        await gate.reached.wait()
    async with make(store=sqlite) as rt:
        model = ScriptedModel([[edit("notes.txt", "two", "2")], "done"])
        agent = ReActAgent(rt, model, middleware=[Workspace(folder, shell="allow")])
        result = await agent.resume("t")
        assert result is not None
        assert "there is no tool 'edit_file'" in results(result)[0]
        assert "edit_file" not in [offer.name for offer in model.requests[0].tools]
    assert (folder / "notes.txt").read_text() == "two notes\n"


async def test_each_agent_of_a_runtime_has_its_own_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("other notes\n")
    async with make() as rt:
        one, other = Workspace(folder), Workspace(tmp_path / "other")
        assert "two notes" in (await played(rt, one, [read("notes.txt")], name="one"))[0]
        assert "other notes" in (await played(rt, other, [read("notes.txt")], name="other"))[0]
        assert "two notes" in (await played(rt, Workspace(folder), [read("notes.txt")], name="again"))[0]


async def test_a_plan_works_in_a_workspace(folder: Path) -> None:
    planner = ScriptedModel(
        [
            [("plan", {"command": "create", "title": "edit", "steps": [{"id": "a", "text": "edit it"}]})],
            [("plan", {"command": "finish", "summary": "ok"})],
        ]
    )
    executor = ScriptedModel([[read("notes.txt")], [edit("notes.txt", "two", "2")], "done"])
    async with make() as rt:
        agent = PlanExecuteAgent(rt, planner, executor=executor, middleware=[Workspace(folder)])
        await agent.run("go", thread="t")
    assert (folder / "notes.txt").read_text() == "2 notes\n"


async def test_names_that_are_taken_and_wrong_options_are_refused(folder: Path) -> None:
    @tool
    def read_file(path: str) -> str:
        return path

    async with make([read_file]) as rt:
        with pytest.raises(MiddlewareFailed, match="brings the tool 'read_file', and the agent has another one"):
            await played(rt, Workspace(folder), [read("notes.txt")])
        assert "two notes" in (await played(rt, Workspace(folder), [read("notes.txt")], tools=[], name="none"))[0]
    for wrong in (folder / "gone", folder / "notes.txt"):
        with pytest.raises(UsageError, match="is not a folder"):
            Workspace(wrong)
    with pytest.raises(UsageError, match="shell='ask', 'allow' or False, not write=True, shell=True"):
        Workspace(folder, shell=True)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="takes the path of a folder or a Sandbox"):
        Workspace(3)  # type: ignore[arg-type]


async def test_a_long_file_is_read_on(folder: Path) -> None:
    (folder / "long.txt").write_text("".join(f"line {number}\n" for number in range(1, 5_001)))
    async with make() as rt:
        seen = await played(
            rt, Workspace(folder), [read("long.txt")], [read("long.txt", start_line=2_001)], max_observation=1_000
        )
    assert seen[0].startswith("[long.txt: lines 1 to 2000 of 5000, version ")
    assert "Read it with read_result" in seen[0]
    assert "  2001\tline 2001" in seen[1]


async def test_a_policy_decides_about_the_tools_of_a_workspace(folder: Path) -> None:
    steps = [[read("notes.txt"), edit("notes.txt", "two", "2")]]
    async with make(policy=Policy(deny=["edit_file.*"])) as rt:
        seen = await played(rt, Workspace(folder), *steps)
    assert "two notes" in seen[0]
    assert "permission_denied" in seen[1]
    async with make(policy=Policy(allow=["read_file.*"], default="deny")) as rt:
        seen = await played(rt, Workspace(folder), *steps)
    assert "two notes" in seen[0]
    assert "permission_denied" in seen[1]


# Where a turn goes on.


def stuck_model(gate: Gate) -> Says:
    async def stuck(request: ChatRequest) -> str:
        await gate()
        return "done"

    return Says(stuck)


async def test_a_turn_goes_on_where_its_folder_is_alone(folder: Path, tmp_path: Path, sqlite: str) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("other notes\n")
    script: list[Any] = [[read("notes.txt")], [edit("notes.txt", "two", "2")], "done"]
    gate = Gate()
    async with make(store=sqlite, close_timeout=0.0) as rt:
        first = ReActAgent(rt, stuck_model(gate), middleware=[Workspace(folder)])
        await first.begin("go", thread="t")
        await gate.reached.wait()
        place = Workspace(folder).place
    strange = make(store=sqlite)
    elsewhere = ReActAgent(strange, ScriptedModel(script), middleware=[Workspace(tmp_path / "other")])
    async with strange as rt:
        # Nobody has asked for it: this process has claimed the turn, and says what it waits for.
        async def waits() -> bool:
            return (await elsewhere.look("t")).waiting_for == [place]

        await eventually(waits)
        assert place.startswith("workspace:")
        with pytest.raises(AgentBusy, match="was interrupted by a crash, and waits for a process with its workspace"):
            await elsewhere.run("another", thread="t")
        joined = asyncio.ensure_future(elsewhere.run("go", thread="t"))
        async with make(store=sqlite) as there:
            agent = ReActAgent(there, ScriptedModel(script), middleware=[Workspace(folder)])
            result = await agent.resume("t")
            assert result is not None
            assert (await joined).text == result.text == "done"
        assert (await elsewhere.look("t")).waiting_for == []
    assert (folder / "notes.txt").read_text() == "2 notes\n"
    assert (tmp_path / "other" / "notes.txt").read_text() == "other notes\n"


async def test_a_process_that_has_the_folder_takes_the_turn_up_by_itself(
    folder: Path, tmp_path: Path, sqlite: str
) -> None:
    (tmp_path / "other").mkdir()
    gate = Gate()
    async with make(store=sqlite, close_timeout=0.0) as rt:
        first = ReActAgent(rt, stuck_model(gate), middleware=[Workspace(folder)])
        await first.begin("go", thread="t")
        await gate.reached.wait()
    strange = make(store=sqlite)
    elsewhere = ReActAgent(strange, ScriptedModel(["wrong"]), middleware=[Workspace(tmp_path / "other")])
    async with strange:

        async def waits() -> bool:
            return bool((await elsewhere.look("t")).waiting_for)

        await eventually(waits)
    home = make(store=sqlite)
    agent = ReActAgent(home, ScriptedModel(["right"]), middleware=[Workspace(folder)])
    async with home:

        async def ended() -> bool:
            return (await agent.look("t")).text == "right"

        await eventually(ended)


async def test_a_turn_that_waits_for_its_place_can_be_stopped(folder: Path, tmp_path: Path, sqlite: str) -> None:
    (tmp_path / "other").mkdir()
    gate = Gate()
    async with make(store=sqlite, close_timeout=0.0) as rt:
        first = ReActAgent(rt, stuck_model(gate), middleware=[Workspace(folder)])
        await first.begin("go", thread="t")
        await gate.reached.wait()
    strange = make(store=sqlite)
    elsewhere = ReActAgent(strange, ScriptedModel(["new"]), middleware=[Workspace(tmp_path / "other")])
    async with strange:

        async def waits() -> bool:
            return bool((await elsewhere.look("t")).waiting_for)

        await eventually(waits)
        assert await elsewhere.stop("t")

        async def stopped() -> bool:
            return (await elsewhere.look("t")).stopped == "cancelled"

        await eventually(stopped)
        assert (await elsewhere.run("another", thread="t")).text == "new"


async def test_a_turn_waits_until_its_folder_is_back(folder: Path, tmp_path: Path) -> None:
    async with make() as rt:
        agent = ReActAgent(rt, ScriptedModel([[read("notes.txt")], "done"]), middleware=[Workspace(folder)])
        place = Workspace(folder).place
        folder.rename(tmp_path / "away")
        await agent.begin("go", thread="t")

        async def waits() -> bool:
            return (await agent.look("t")).waiting_for == [place]

        await eventually(waits)
        (tmp_path / "away").rename(folder)
        result = await agent.wait("t")
        assert result is not None
        assert "two notes" in results(result)[0]


# Commands.


@pytest.fixture
def open_folder(folder: Path) -> Path:
    """One in which a command may write: where the tests run as root it belongs to another user."""
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, 4321, 4321)
    return folder


def command(text: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "run_command", {"command": text, **more}


async def test_a_command_runs_in_the_folder_and_nowhere_else(open_folder: Path) -> None:
    outside = open_folder.parent / "outside.txt"
    outside.write_text("secret")
    async with make() as rt:
        seen = await played(
            rt,
            Workspace(open_folder, shell="allow"),
            [command("cat notes.txt; echo wrong >&2; echo made > made.txt; exit 3")],
            [read("made.txt"), command(f"cat {outside}; echo x > {outside}; ls {open_folder.parent}")],
            [command("sleep 60", timeout=1), command("kill -9 $$")],
            [edit("made.txt", "made", "edited")],
            [command("cat made.txt; echo more >> made.txt")],
            [edit("made.txt", "more", "less")],
        )
    assert seen[0] == "[exit code 3]\ntwo notes\nwrong\n"
    assert seen[1].endswith("\tmade")
    assert "secret" not in seen[2]
    assert outside.read_text() == "secret"
    assert seen[3:5] == ["[stopped after 1 s]\n", "[killed by signal 9]\n"]
    assert seen[6] == "[exit code 0]\nedited\n"
    assert "nothing was written" in seen[7], "a command has changed the file meanwhile"
    assert (open_folder / "made.txt").read_text() == "edited\nmore\n"
    assert sorted(each.name for each in open_folder.iterdir()) == ["made.txt", "notes.txt", "src"]


async def test_each_command_waits_for_a_person_unless_it_is_allowed(open_folder: Path) -> None:
    async with make() as rt:
        model = ScriptedModel([[command("echo yes > yes.txt")], [command("echo no > no.txt")], "done"])
        agent = ReActAgent(rt, model, middleware=[Workspace(open_folder)])
        turn = asyncio.ensure_future(agent.run("go", thread="t"))
        for decide in (rt.approve, rt.deny):

            async def asked() -> list[str]:
                return (await agent.look("t")).waiting_for

            (id,) = await eventually(asked)
            waiting = await rt.get(id, thread="t")
            assert waiting.arguments["command"].startswith("echo ")
            (question,) = [event.data for event in waiting.events if event.type == "approval_requested"]
            assert question["reason"] == "a command in the workspace"
            assert not (open_folder / "yes.txt").exists() or decide == rt.deny
            await decide(id, thread="t")
        seen = results(await turn)
    assert seen[0] == "[exit code 0]\n"
    assert "approval_denied" in seen[1]
    assert sorted(each.name for each in open_folder.iterdir()) == ["notes.txt", "src", "yes.txt"]


async def test_a_command_cannot_make_a_way_out(open_folder: Path) -> None:
    """Links that it makes are not followed, also not one that takes the place of a folder."""
    (open_folder.parent / "outside").mkdir()
    async with make() as rt:
        seen = await played(
            rt,
            Workspace(open_folder, shell="allow"),
            [
                command(
                    f"ln -s {open_folder.parent}/outside out; mv src old; ln -s {open_folder.parent}/outside src; ls -l"
                )
            ],
            [("write_file", {"path": "src/x", "content": "x"}), ("write_file", {"path": "out/x", "content": "x"})],
        )
    assert all(text.startswith("file_refused: ") for text in seen[1:]), seen
    assert list((open_folder.parent / "outside").iterdir()) == []


async def test_a_sandbox_of_ones_own_says_what_commands_may(open_folder: Path) -> None:
    weak, strong = (
        Sandbox(folder=open_folder, require="process", without=["seccomp"]),
        Workspace(open_folder, shell="allow"),
    )
    async with make() as rt:
        seen = await played(rt, Workspace(weak, shell="allow"), [command("cat notes.txt")], name="weak")
        assert seen == ["[exit code 0]\ntwo notes\n"]
        other = Sandbox(folder=open_folder, without=["seccomp"])
        (refused,) = await played(rt, Workspace(other, shell="allow"), [command("cat notes.txt")], name="other")
        assert refused.startswith("not_isolated: "), "the sandbox of another agent with this folder is not used"
        assert await played(rt, strong, [command("cat notes.txt")], name="strong") == seen
    await weak.close()
    await other.close()


async def test_in_a_folder_of_root_a_command_has_less_isolation_and_says_so(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root makes such a folder")
    async with make() as rt:
        (seen,) = await played(rt, Workspace(folder, shell="allow"), [command("id")])
    assert seen.startswith("not_isolated: ")
    assert "give the folder to another user (chown)" in seen
