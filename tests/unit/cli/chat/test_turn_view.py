"""How a turn is drawn: each text once, whatever is retried or runs concurrently; animation only on a terminal."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from clicket.agents import AgentEvent
from clicket.cli.chat.live_calls import LiveCalls
from clicket.cli.chat.turn_view import PlanView, TurnView
from clicket.cli.terminal import Terminal
from clicket.kernel import State
from clicket.model import Event

Send = Callable[..., None]


class Screen(Terminal):
    """A terminal that shows both streams on one screen."""

    def __init__(self, *, out: bool = True) -> None:
        super().__init__()
        self.screen = io.StringIO()
        self.err = Console(file=self.screen, width=160, force_terminal=False, highlight=False)
        if out:
            self.out = Console(file=self.screen, width=160, force_terminal=True)

    def write(self, text: str) -> None:
        self.screen.write(text)


def sender(view: TurnView) -> Send:
    def take(type: Any, at: float = 1.0, **data: Any) -> None:
        view.take(AgentEvent(type=type, thread="t", turn=1, at=at, data=data))

    return take


def view_of(screen: Terminal) -> TurnView:
    return TurnView(screen, lambda call_id: None)


def test_words_are_written_as_they_come_and_once() -> None:
    screen = Screen()
    take = sender(view_of(screen))
    for piece in ("Hel", "lo", "."):
        take("delta", kind="text", text=piece)
    take("delta", kind="thought", text="hidden")
    take("message", role="assistant", text="Hello. More.")
    take("final", at=3.0, text="Hello. More.", stopped="finished", steps=1, calls=0, usage={"cost": 0.25})
    assert screen.screen.getvalue() == "Hello. More.\nfinished · 1 step · cost 0.25 · 2 s\n"


def test_a_repeated_request_begins_on_a_line_of_its_own() -> None:
    screen = Screen()
    take = sender(view_of(screen))
    take("delta", kind="text", text="Hel")
    take("retry", retry=1, delay=1.0, error="503")
    take("delta", kind="text", text="Hi")
    take("message", role="assistant", text="Hello")
    assert screen.screen.getvalue() == "Hel\n  the model did not answer: 503; again in 1 s\nHi\nHello\n"


def test_forks_speak_aside_and_a_summary_is_written_at_the_end() -> None:
    screen = Screen()
    take = sender(view_of(screen))
    take("delta", kind="text", text="half", branch="1-1")
    take("message", role="assistant", text="half\x1b[31m\nof it", branch="1-1")
    take("final", text="All of it.", stopped="finished", steps=3, calls=2, usage={})
    assert screen.screen.getvalue() == "  » half⟨U+001B⟩[31m of it\nAll of it.\nfinished · 3 steps · 2 tool calls\n"


def test_a_pipe_gets_the_answer_alone(capsys: pytest.CaptureFixture[str]) -> None:
    take = sender(view_of(Terminal()))
    take("delta", kind="text", text="Let me ")
    take("message", role="assistant", text="Let me see.")
    take("thought", text="a  long\nthought")
    take("tool_started", id="1", tool="look", call_id="c", arguments="{}")
    take("tool_result", id="1", tool="look", call_id="", success=False, content="tool_error: no")
    take("message", role="assistant", text="There.")
    used = {"input_tokens": 1200, "output_tokens": 3, "cached_tokens": 1000, "cache_write_tokens": 100}
    take("final", text="There.", stopped="finished", steps=2, calls=1, usage=used)
    out, err = capsys.readouterr()
    assert out == "There.\n"
    assert err.splitlines() == [
        "  a long thought", "  → look {}", "  ✗ look {}  → tool_error: no",
        "finished · 2 steps · 1 tool call · 1,200 tokens in (1,000 from the cache, 100 written to the cache), 3 out",
    ]  # fmt: skip


def test_a_turn_that_failed_or_was_stopped_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    take = sender(view_of(Terminal()))
    take("final", text="Terminated: Reached max steps (1)", stopped="max_steps", steps=1, calls=0, usage={})
    take("error", message="no\x1b answer")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0] == "Terminated: Reached max steps (1)"
    assert err.splitlines()[-1] == "error agent_failed: no⟨U+001B⟩ answer"


@pytest.mark.parametrize(
    ("on", "value", "line"),
    [
        ("input", {"do": "refuse", "text": "Ask\npolitely."}, "guard refuses the message: Ask politely."),
        ("output", {"do": "change", "value": "x"}, "guard changes the answer"),
        ("tool_call", {"do": "ask", "text": "900 euros"}, "guard asks a person about a call: 900 euros"),
        ("output", {"do": "pass"}, "a person lets the answer pass, about which guard asked"),
        ("after_tool", {"do": "change", "value": 1}, "guard changes a result"),
        ("instructions", "Hurry.", "guard changes the instructions"),
        ("tools", ["a", "b"], "guard changes the tools"),
        ("before_model", {"do": "edit", "add": []}, "guard changes the request"),
        ("something new", None, "guard changes something new"),
    ],
)
def test_decisions_are_said_in_words(on: str, value: Any, line: str) -> None:
    screen = Screen()
    sender(view_of(screen))("decision", by="guard", on=on, value=value)
    assert screen.screen.getvalue() == f"  {line}\n"


def test_a_handoff_is_a_line() -> None:
    screen = Screen()
    take = sender(view_of(screen))
    take("handoff", **{"from": "triage", "to": "billing", "reason": "a refund\nplease", "id": "u"})
    take("handoff", **{"from": "triage", "to": "billing", "reason": "", "id": ""})
    assert screen.screen.getvalue() == "  triage hands over to billing: a refund please\n  billing goes on\n"


def test_a_typed_answer_is_readable_on_a_terminal_and_plain_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    text = '{"item":"tea","euros":3.5}'
    for take in (sender(view_of(screen)), sender(view_of(Terminal()))):
        take("answer", value={"item": "tea", "euros": 3.5})
        take("message", role="assistant", text=text)
        take("final", text=text, stopped="finished", steps=1, calls=0, usage={}, value={"item": "tea", "euros": 3.5})
    assert screen.screen.getvalue() == '{\n  "item": "tea",\n  "euros": 3.5\n}\nfinished · 1 step\n'
    assert capsys.readouterr().out == f"{text}\n"


@pytest.mark.parametrize(("stopped", "word"), [("refused", "refused"), ("invalid_output", "no answer fits the type")])
def test_a_refused_turn_says_why(stopped: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    sender(view_of(Terminal()))("final", text="Ask politely.", stopped=stopped, steps=1, calls=0, usage={})
    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == ("", ["Ask politely.", f"{word} · 1 step"])


def test_a_plan_that_changes_is_drawn_anew() -> None:
    plans = PlanView(plain=True)

    def drawn_steps(title: str, *steps: tuple[str, str]) -> list[str]:
        body = [{"text": text, "status": status, "notes": "why"} for text, status in steps]
        return [line.plain.strip() for line in plans.take({"title": title, "steps": body})]

    assert drawn_steps("A", ("x", "not_started"), ("y", "not_started")) == ["A", "- 1. x", "- 2. y"]
    assert drawn_steps("A", ("x", "completed"), ("y", "not_started")) == ["x 1. x"]
    assert drawn_steps("A", ("x", "completed"), ("z", "blocked")) == ["A", "x 1. x", "! 2. z  why"]


def test_each_open_call_is_drawn_with_its_state() -> None:
    clock = iter(float(n) for n in range(1_000))
    live = LiveCalls(Terminal(), now=lambda: next(clock))
    live.think()
    assert "thinking" in drawn(live)
    for number in range(10):
        live.open(f"c{number}", "crawl", '{"pages":3}')
    send_event(live, "c0", "progress", State.RUNNING, percentage=50.0, status="page 2")
    send_event(live, "c1", "approval_requested", State.PENDING)
    send_event(live, "c2", "state_changed", State.RETRYING, error={"message": "busy"})
    send_event(live, "c3", "output", State.STREAMING, content="some words")
    send_event(live, "c4", "state_changed", State.COMPLETED, duration=0.25)
    send_event(live, "another", "progress", State.RUNNING, percentage=1.0)
    text = drawn(live)
    for words in ("page 2", "waiting for approval", "busy", "some words", "✓", "250 ms", "and 2 more"):
        assert words in text
    send_event(live, "c1", "approval_given", State.PENDING)
    assert "waiting for approval" not in drawn(live)
    assert live.busy
    live.clear()
    assert not live.busy


def test_events_that_came_before_the_call_was_opened_are_shown() -> None:
    live = LiveCalls(Terminal())
    send_event(live, "c", "state_changed", State.RUNNING)
    send_event(live, "c", "progress", State.RUNNING, percentage=50.0, status="page 2")
    live.open("c", "crawl", "{}")
    assert "page 2" in drawn(live)


def send_event(live: LiveCalls, call_id: str, type: Any, state: State, **data: Any) -> None:
    live.take(Event(call_id=call_id, seq=1, at=1.0, type=type, state=state, data=data))


def drawn(live: LiveCalls) -> str:
    console = Console(file=io.StringIO(), width=160)
    with console.capture() as text:
        console.print(live.rows.get_renderable())
    return text.get()
