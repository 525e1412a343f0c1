"""`clicket chat` as users run it: one message from a shell or a pipe, events for programs, and a conversation at a terminal."""

from __future__ import annotations

import asyncio
import io
import json
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.pictures import png
from tests.kit.waiting import PATIENCE
from tests.scenarios.cli_kit import Place
from tests.scenarios.kit import sqlite_url
from tests.scenarios.pty_kit import PseudoTerminal

from clicket import sync
from clicket.testing import ScriptedModel

ASKS = json.dumps({"rules": [{"verdict": "ask", "tools": ["pay"], "reason": "it is money"}]})
TWO = [["count", {"word": "seven"}], ["count", {"word": "four"}]]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "place"
    folder.mkdir()
    place = Place(folder, sqlite_url(tmp_path), "tests.scenarios.chat_tools", CLICKET_POLICY=ASKS)
    yield place
    place.close()


def script(place: Place, *answers: Any) -> tuple[str, ...]:
    """The command line for a model with these answers."""
    (place.folder / "answers.json").write_text(json.dumps(list(answers)))
    return "chat", "--model", "script:answers.json"


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


# One turn.


def test_the_answer_can_be_piped_and_all_else_goes_to_stderr(place: Place) -> None:
    done = place.inside(*script(place, TWO, "Nine\x1b[31m letters."), "How", "many?")
    assert (done.returncode, done.stdout) == (0, "Nine\x1b[31m letters.\n"), done.stderr
    assert "\x1b" not in done.stderr, "foreign text moves no cursor"
    for said in ('→ count {"word":"seven"}', '✓ count {"word":"seven"}  → 5  ', '✓ count {"word":"four"}  → 4  '):
        assert said in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("finished · 2 steps · 2 tool calls · ")
    assert "tokens in" in last


def test_a_file_goes_with_the_message(place: Place) -> None:
    (place.folder / "photo.png").write_bytes(png())
    done = place.inside(
        "--json", *script(place, "I read a line."), "What is this?", "--attach", "photo.png", "--id", "a"
    )
    assert (done.returncode, done.stderr) == (0, "")
    (asked,) = [event for event in lines(done.stdout) if event["type"] == "message" and event["data"]["role"] == "user"]
    (ref,) = asked["data"]["files"]
    assert (ref["name"], ref["media_type"], ref["width"]) == ("photo.png", "image/png", 4)
    assert asked["data"]["text"].startswith("What is this?\n[image photo.png, image/png, 4x3")
    again = place.inside("--json", *script(place, "-"), "What is this?", "--attach", "photo.png", "--id", "a")
    assert lines(again.stdout)[-1]["data"]["text"] == "I read a line."
    missing = place.inside(*script(place, "-"), "What?", "--attach", "none.png")
    assert missing.returncode == 2


def test_files_are_attached_in_the_prompt(place: Place) -> None:
    (place.folder / "photo.png").write_bytes(png())
    with PseudoTerminal(place, *script(place, "One.", "Two.")) as terminal:
        terminal.wait_for("\n> ")
        terminal.type("/attach none.png\n")
        terminal.wait_for("there is no file none.png")
        terminal.wait_for("\n> ")
        terminal.type("/attach photo.png\n")
        terminal.wait_for("with the next message: photo.png")
        terminal.wait_for("\n> ")
        terminal.type("What is this?\n")
        terminal.wait_for("One.")
        terminal.wait_for("\n> ")
        terminal.type("And now?\n")
        terminal.wait_for("Two.")
        terminal.wait_for("\n> ")
        terminal.type("/history\n")
        terminal.wait_for("[image photo.png, image/png, 4x3")
        terminal.wait_for("> And now?")
        terminal.wait_for("\n> ")
        terminal.type("\x04")
        assert terminal.wait() == 0


def test_events_are_json_lines(place: Place) -> None:
    done = place.inside("--json", *script(place, TWO, "Nine."), "How many?")
    assert (done.returncode, done.stderr) == (0, "")
    events = lines(done.stdout)
    kinds = [event["type"] for event in events]
    assert kinds[:3] == ["state", "message", "delta"]
    assert kinds[-2:] == ["state", "final"]
    assert kinds.count("tool_started") == kinds.count("tool_result") == 2
    assert events[-1]["data"]["text"] == "Nine."
    ids = [event["id"] for event in events if event["id"]]
    assert len(ids) == len(set(ids))


def test_a_thread_is_remembered_and_another_is_not_the_same(place: Place) -> None:
    chat = script(place, "One.", "Two.")
    assert place.inside(*chat, "a").stdout == "One.\n"
    assert place.inside(*chat, "b").stdout == "Two.\n"
    assert place.inside(*chat, "c", "--thread", "other").stdout == "One.\n"


def test_another_model_answers_if_the_first_cannot_be_reached(place: Place) -> None:
    _, *_, name = script(place, "Nine.")
    gone = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}  # nobody listens there
    done = place.inside("chat", "--model", "openai:gone", "--model", name, "How many?", **gone)
    assert (done.returncode, done.stdout) == (0, "Nine.\n"), done.stderr
    assert "openai:gone gave no answer (unavailable: " in done.stderr
    assert f"; {name} is asked" in done.stderr
    shown = place.inside("show", "turn-1", "--thread", "agent:default/default", "--events").stdout
    assert "Step 1: openai:gone gave no answer (unavailable: " in shown
    assert f"Step 1: {name} asks for nothing" in shown


def test_a_message_with_an_id_is_one_turn(place: Place) -> None:
    line = (*script(place, "First.", "Second."), "hello", "--id", "order 7")
    for _ in range(2):
        done = place.inside(*line)
        assert (done.returncode, done.stdout) == (0, "First.\n"), done.stderr
    other = place.inside(*line[:-3], "goodbye", *line[-2:])
    assert other.returncode == 2
    assert "used for another message" in other.stderr


def test_a_message_comes_from_a_pipe(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = script(place, "Heard.")
    messages = []
    for words in ([], ["Read", "this:", "-"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"line 1\nline 2\n")))
        done = place.inside("--json", *chat, "--thread", f"t{len(words)}", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        messages.append(next(event["data"]["text"] for event in lines(done.stdout) if event["type"] == "message"))
    assert messages == ["line 1\nline 2", "Read this: line 1\nline 2"]


def test_how_a_turn_ends_is_the_exit_code(place: Place) -> None:
    stopped = place.inside(*script(place, TWO, TWO, "Never."), "go", "--max-steps", "1")
    assert (stopped.returncode, stopped.stdout) == (1, "")
    assert "Terminated: Reached max steps (1)" in stopped.stderr
    assert "max_steps · 1 step" in stopped.stderr
    failed = place.inside(*script(place, "Only this."), "go", "--thread", "x")
    assert failed.returncode == 0
    failed = place.inside(*script(place, "Only this."), "go on", "--thread", "x")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "error agent_failed: " in failed.stderr
    assert "has had them all" in failed.stderr
    refused = place.inside("--json", *script(place, "Only this."), "go on", "--thread", "x")
    assert (refused.returncode, lines(refused.stdout)[-1]["type"]) == (1, "error")


def test_a_plan_is_drawn_and_then_only_what_moves(place: Place) -> None:
    create = [["plan", {"command": "create", "title": "Letters", "steps": ["Count", "Tell"]}]]
    chat = script(place, create, [["count", {"word": "seven"}]], "five", "told", "It has five.")
    done = place.inside(*chat, "--plan", "How many?")
    assert (done.returncode, done.stdout) == (0, "It has five.\n"), done.stderr
    drawn = [line.strip() for line in done.stderr.splitlines() if line.strip().startswith(("○", "▶", "✓", "Letters"))]
    assert [line for line in drawn if "count" not in line] == [
        "Letters", "○ 1. Count", "○ 2. Tell", "▶ 1. Count", "✓ 1. Count", "▶ 2. Tell", "✓ 2. Tell",
    ]  # fmt: skip
    assert "plan {" not in done.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["chat", "hi"], "--model script:answers.json"),
        (["chat", "hi", "--agent", "helper"], "[agents.helper]"),
        (["chat", "hi", "--model", "gpt"], "name the model's vendor"),
        (["chat", "hi", "--model", "script:none.json"], "none.json"),
        (["chat", " ", "--model", "script:answers.json"], "the message is empty"),
    ],
)
def test_what_cannot_be_done_is_said_with_what_to_do(place: Place, words: list[str], reason: str) -> None:
    script(place, "Hello.")
    done = place.inside(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert reason in " ".join(done.stderr.split())
    assert not (place.folder.parent / "calls.db").exists()


def test_agents_of_the_settings(place: Place) -> None:
    script(place, TWO, "Nine.")
    table = {"model": "script:answers.json", "tools": ["count"]}
    both = json.dumps({"letters": table, "other": {"model": "openai:none", "kind": "plan"}})
    done = place.inside("chat", "hi", CLICKET_AGENTS=json.dumps({"letters": table}))
    assert done.stdout == "Nine.\n", "the only agent is the default"
    done = place.inside("chat", "hi", CLICKET_AGENTS=both)
    assert (done.returncode, "several agents ('letters', 'other')" in done.stderr) == (2, True)
    done = place.inside("chat", "hi", "--agent", "letter", CLICKET_AGENTS=both)
    assert (done.returncode, "Did you mean 'letters'?" in done.stderr) == (2, True)
    done = place.inside("chat", "hi", "--agent", "letters", "--thread", "new", CLICKET_AGENTS=both, OPENAI_API_KEY="")
    assert done.stdout == "Nine.\n", "a missing key of another agent does not affect this one"


def test_ctrl_c_stops_the_turn(place: Place) -> None:
    command = place.start(*script(place, [["crawl", {"pages": 3}]], "Done."), "go")
    command.until((place.folder / "crawled").exists)
    command.signal(signal.SIGINT)
    assert command.ended() == 130
    assert "cancelled · 1 step" in command.err
    states = [(call["tool"], call["state"]) for call in place.ask("ps", "--all")["calls"]]
    assert ("crawl", "cancelled") in states


def test_a_turn_that_a_crash_cut_off_is_finished_and_not_begun_again(place: Place) -> None:
    chat = script(place, TWO, [["crawl", {"pages": 3}]], "Counted and crawled.")
    first = place.start(*chat, "go")
    first.until((place.folder / "crawled").exists)
    busy = place.run(*chat, "go")
    assert busy.returncode == 2
    assert "a turn under way in another process" in busy.stderr
    assert "--thread" in busy.stderr
    first.kill()
    place.touch("go")
    second = place.inside(*chat, "go")
    assert (second.returncode, second.stdout) == (0, "Counted and crawled.\n"), second.stderr
    assert "Turn 1 of thread default was cut off before it ended. It goes on now" in second.stderr
    assert (place.folder / "counted").read_text() == "xx", "a finished call does not run again"
    assert (place.folder / "crawled").read_text() == "xx", "an interrupted call does, if it may be repeated"
    assert "2 attempts" in second.stderr


def test_without_a_terminal_the_message_names_the_approve_command(place: Place) -> None:
    command = place.start(*script(place, [["pay", {"amount": 5}]], "Paid."), "pay it")
    command.until(lambda: "clicket approve" in command.err)
    line = next(line for line in command.err.splitlines() if "clicket approve" in line)
    words = line.partition("clicket ")[2].partition(",")[0].split()
    assert place.inside(*words).returncode == 0
    assert command.ended() == 0
    assert command.out == "Paid.\n"
    assert (place.folder / "paid").read_text() == "x"


# At a terminal.


def test_a_conversation(place: Place) -> None:
    chat = script(place, "Hello.", TWO, "Nine.", [["crawl", {"pages": 40}]], "Never said.", "Once more.")
    with PseudoTerminal(place, *chat) as terminal:
        terminal.wait_for("agent default · script:answers.json · thread default, new · /help")
        terminal.wait_for("\n> ")
        terminal.type("Hi\n")
        terminal.wait_for("Hello.\n")
        terminal.wait_for("finished · 1 step")
        terminal.wait_for("\n> ")
        terminal.type("How \\\n")
        terminal.wait_for("… ")
        terminal.type("many?\n")
        terminal.wait_for('✓ count {"word":"four"}  → 4')
        terminal.wait_for("Nine.\n")
        terminal.wait_for("\n> ")
        terminal.type("crawl\n")
        assert "running" in terminal.wait_for("page 40"), "the call is shown while it runs"
        terminal.press_ctrl_c()
        terminal.wait_for("stopping; Ctrl-C again leaves")
        terminal.wait_for("Terminated: Cancelled")
        terminal.wait_for("\n> ")
        for word, said in (
            ("/help", "/quit     leave"),
            ("/state", "idle · 3 turns · "),
            ("/history", "> How many?"),
            ("/tools", "pay"),
            ("/plan", "there is no plan here"),
            ("/stop", "nothing runs here"),
            ("/hlep", "Did you mean '/help'"),
            ("/new other", "thread other, new"),
            ("Hi again", "Hello."),
        ):
            terminal.type(f"{word}\n")
            terminal.wait_for(said)
            terminal.wait_for("\n> ")
        terminal.type("/quit\n")
        assert terminal.wait() == 0
        assert "Traceback" not in terminal.seen


def test_messages_that_wait_are_listed_and_taken_back(place: Place) -> None:
    chat = script(place, "Hello.")
    asked, released = threading.Event(), asyncio.Event()

    async def answer(request: Any) -> str:
        asked.set()
        await released.wait()
        return ""

    with sync.Runtime(store=place.store) as rt:
        agent = sync.ReActAgent(rt, ScriptedModel([answer]), name="default")
        agent.begin("first")
        assert asked.wait(PATIENCE)
        agent.send("two", id="b")
        agent.send("never mind", id="c", when="now")
        agent.stop()  # holds the queue
        agent.wait()
    with PseudoTerminal(place, *chat) as terminal:
        for word, said in (
            ("/queue", "never mind  (now)"),
            ("/unsend c", "taken back"),
            ("/unsend c", "no such message waits"),
            ("/unsend", "no such message waits"),
            ("/queue", "b  two"),
            ("/new other", "thread other, new"),
            ("/queue", "no message waits"),
        ):
            terminal.wait_for("\n> ")
            terminal.type(f"{word}\n")
            terminal.wait_for(said)
        terminal.type("/quit\n")
        assert terminal.wait() == 0
        assert "Traceback" not in terminal.seen


def test_ctrl_c_twice_leaves_and_ctrl_d_too(place: Place) -> None:
    chat = script(place, "Hello.")
    with PseudoTerminal(place, *chat) as terminal:
        terminal.wait_for("\n> ")
        terminal.press_ctrl_c_until("Ctrl-C again, or /quit, leaves")
        terminal.press_ctrl_c_until("interrupted")
        assert terminal.wait() == 130
    with PseudoTerminal(place, *chat) as terminal:
        terminal.wait_for("\n> ")
        terminal.type("\x04")
        assert terminal.wait() == 0


def test_approval_is_requested_in_the_terminal(place: Place) -> None:
    chat = script(place, [["pay", {"amount": 5}]], "Paid.", [["pay", {"amount": 500}]], "Not paid.")
    with PseudoTerminal(place, *chat) as terminal:
        terminal.wait_for("\n> ")
        terminal.type("pay\n")
        terminal.wait_for('? pay {"amount":5}  it is money')
        terminal.wait_for("let it run? [y/n] ")
        terminal.type("perhaps\n")
        terminal.wait_for("let it run? [y/n] ")
        terminal.type("y\n")
        terminal.wait_for("→ paid 5")
        terminal.wait_for("Paid.")
        terminal.wait_for("\n> ")
        terminal.type("pay more\n")
        terminal.wait_for("let it run? [y/n] ")
        terminal.type("n\n")
        terminal.wait_for("why not? The model is told: ")
        terminal.type("too dear\n")
        terminal.wait_for("✗ pay")
        assert "approval_denied" in terminal.wait_for("too dear")
        terminal.wait_for("Not paid.")
        terminal.wait_for("\n> ")
        terminal.type("/quit\n")
        assert terminal.wait() == 0
    assert (place.folder / "paid").read_text() == "x"


def test_an_approval_open_at_a_kill_is_requested_again_when_the_thread_is_opened(place: Place) -> None:
    chat = script(place, TWO, [["pay", {"amount": 5}]], "Paid.")
    with PseudoTerminal(place, *chat) as terminal:
        terminal.wait_for("\n> ")
        terminal.type("count and pay\n")
        terminal.wait_for("let it run? [y/n] ")
        terminal.kill()
    with PseudoTerminal(place, *chat) as terminal:
        terminal.wait_for("Turn 1 of thread default was cut off")
        terminal.wait_for("> count and pay")
        terminal.wait_for('✓ count {"word":"seven"}')
        terminal.wait_for("let it run? [y/n] ")
        terminal.type("y\n")
        terminal.wait_for("Paid.")
        terminal.wait_for("\n> ")
        terminal.type("/quit\n")
        assert terminal.wait() == 0
    assert (place.folder / "counted").read_text() == "xx"
    assert (place.folder / "paid").read_text() == "x"


def test_a_turn_of_another_process_is_watched_and_left_alone(place: Place) -> None:
    chat = script(place, [["crawl", {"pages": 3}]], "Crawled.")
    first = place.start(*chat, "go")
    first.until((place.folder / "crawled").exists)
    with PseudoTerminal(place, *chat) as terminal:
        terminal.wait_for("Turn 1 of thread default runs in another process; you watch it.")
        terminal.wait_for("crawl")
        terminal.press_ctrl_c()
        terminal.wait_for("goes on in its process")
        terminal.wait_for("\n> ")
        terminal.type("and?\n")
        terminal.wait_for("error agent_busy: ")
        terminal.wait_for("\n> ")
        place.touch("go")
        assert first.ended() == 0
        terminal.type("/state\n")
        terminal.wait_for("finished · 1 turn")
        terminal.type("/quit\n")
        assert terminal.wait() == 0
    assert first.out == "Crawled.\n"


def test_sigterm_leaves_the_turn_to_the_next_process(place: Place) -> None:
    chat = script(place, [["crawl", {"pages": 3}]], "Crawled.")
    command = place.start(*chat, "go", CLICKET_CLOSE_TIMEOUT="0.1")
    command.until((place.folder / "crawled").exists)
    command.signal(signal.SIGTERM)
    assert (command.ended(), command.out) == (130, "")
    place.touch("go")
    done = place.inside(*chat, "go")
    assert (done.returncode, done.stdout) == (0, "Crawled.\n"), done.stderr
    assert "Turn 1 of thread default was cut off" in done.stderr
