"""Durations, sizes, sentences and time lines, as the command line writes them."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from clicket.cli.commands.call import read_arguments
from clicket.cli.commands.ps import remark
from clicket.cli.formatting import DESCRIPTIONS, duration, parse_duration, shortened, size, what_happened
from clicket.cli.record_view import bars_of
from clicket.cli.terminal import clean, clean_lines
from clicket.errors import UsageError
from clicket.kernel import State
from clicket.model import Event, Record, fold
from clicket.model.event import EventType


class TestWords:
    @pytest.mark.parametrize(
        ("text", "seconds"),
        [
            ("90", 90),
            ("0.5", 0.5),
            ("500ms", 0.5),
            ("90s", 90),
            ("1h30m", 5400),
            ("2d", 172_800),
            ("1.5h", 5400),
            ("0", 0),
        ],
    )
    def test_durations_are_read(self, text: str, seconds: float) -> None:
        assert parse_duration(text) == seconds

    @pytest.mark.parametrize("text", ["", "soon", "-1", "nan", "inf", "1x", "1h x", "m5"])
    def test_other_texts_are_refused(self, text: str) -> None:
        with pytest.raises(UsageError, match="is not a duration"):
            parse_duration(text)

    def test_durations_are_written(self) -> None:
        written = [
            duration(value) for value in (0.0, 4e-8, 0.0000042, 0.0421, 0.9949, 0.9951, 12.34, 61, 3_700, 90_000, None)
        ]
        assert written[:3] == ["0 µs", "<1 µs", "4 µs"]
        assert written[3:] == ["42.1 ms", "995 ms", "0.995 s", "12.3 s", "1 min 1 s", "1 h 1 min", "1 d 1 h", ""]

    def test_sizes_and_ids(self) -> None:
        assert [size(value) for value in (0, 1023, 1536, 5 * 1024**3)] == ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]
        twins = ["a" * 20 + "1" * 12, "a" * 20 + "2" * 12]
        assert shortened([*twins, "mine"]) == {twins[0]: twins[0][:22], twins[1]: twins[1][:22], "mine": "mine"}

    def test_controls_are_marked(self) -> None:
        assert clean_lines("a\x1b[31mb\r\nc\rd\te\x9b\u202e") == "a⟨U+001B⟩[31mb\nc\nd\te⟨U+009B⟩⟨U+202E⟩"
        assert clean("a\x1b[31mb\r\nc\rd\te\x9b\u202e") == "a⟨U+001B⟩[31mb⏎c⏎d e⟨U+009B⟩⟨U+202E⟩"

    def test_arguments_follow_the_schema(self) -> None:
        schema = {"properties": {"zip": {"type": "string"}, "n": {"type": "integer"}, "any": {}}}
        assert read_arguments(["zip=01234", "n=5", "any=[1]", "more=text", "eq=a=b"], schema) == {
            "zip": "01234", "n": 5, "any": [1], "more": "text", "eq": "a=b",
        }  # fmt: skip
        assert read_arguments([' {"a": 1}'], schema) == ' {"a": 1}'
        assert read_arguments([], schema) == {}


def event(kind: str, state: State = State.RUNNING, **data: Any) -> Event:
    return Event(call_id="c", seq=1, at=0.0, type=kind, state=state, data=data)  # type: ignore[arg-type]


class TestDescriptions:
    @pytest.mark.parametrize(
        ("event_", "described"),
        [
            (event("created", tool="t", refused={"size": 9}), "t, arguments refused (9 bytes)"),
            (event("state_changed", to="retrying", attempt=1, delay=0.25), "↻ retrying  attempt 2 in 250 ms"),
            (
                event("state_changed", to="retrying", attempt=1, delay=None),
                "↻ retrying  attempt 2 when it is approved",
            ),
            (event("state_changed", to="pending", waiting_for="approval"), "◌ pending  waiting for approval"),
            (event("state_changed", to="completed", output=[1], duration=2.0), "✓ completed  [1]  2 s"),
            (event("state_changed", to="completed", truncated=True, content="a\nb"), "✓ completed  a⏎b"),
            (event("stage_ended", stage="find", outcome="tool_not_found", duration=0.5), "find tool_not_found  500 ms"),
            (event("progress", step=3, total_steps=None, percentage=None, status="s"), "3  s"),
            (event("cancel_requested", reason=""), "asked to stop"),
            (event("approval_requested"), "waiting for approval"),
            (event("approval_given", approved=True, by="ann", reason="fine"), "approved by ann: fine"),
            (event("approval_given", approved=False), "denied by unknown"),
            (event("late_result", output=5), "came too late: 5"),
            (event("late_result", error={"message": "no"}), "came too late: no"),
            (event("heartbeat"), "alive"),
            (event("note", text="\x1b[1mhi"), "⟨U+001B⟩[1mhi"),
        ],
    )
    def test_every_event_is_described(self, event_: Event, described: str) -> None:
        assert what_happened(event_).plain == described

    def test_no_type_of_event_is_forgotten(self) -> None:
        assert set(DESCRIPTIONS) == set(get_args(EventType))

    def test_remarks_of_ps(self) -> None:
        def record(**changes: Any) -> Record:
            return Record(id="c", tool="t", thread="x", created_at=0.0, **{"state": State.RUNNING, **changes})

        assert remark(record()).plain == ""
        assert remark(record(waiting_for="approval")).plain == "waiting for approval"
        assert remark(record(cancel_requested=True)).plain == "cancel requested"
        assert remark(record(state=State.PENDING), unowned=True).plain == "waiting for a worker"
        assert remark(record(progress={"percentage": 50.0, "status": "half"})).plain == "50 %  half"
        assert remark(record(progress={"percentage": None, "status": "some"})).plain == "some"
        assert remark(record(state=State.COMPLETED, content="out")).plain == "out"


class TestTimeline:
    """Bars are computed from events alone."""

    def events(self, *rows: tuple[float, str, State, dict[str, Any]]) -> list[Event]:
        created = Event(
            call_id="c",
            seq=1,
            at=0.0,
            type="created",
            state=State.PENDING,
            data={"tool": "t", "thread": "x", "arguments": {}},
        )
        return [
            created,
            *(
                Event(call_id="c", seq=number, at=at, type=kind, state=state, data=data)  # type: ignore[arg-type]
                for number, (at, kind, state, data) in enumerate(rows, start=2)
            ),
        ]

    def test_waits_attempts_and_stages(self) -> None:
        record = fold(
            self.events(
                (0.1, "stage_ended", State.PENDING, {"stage": "validate", "outcome": "ok", "duration": 0.1}),
                (0.1, "approval_requested", State.PENDING, {}),
                (2.0, "approval_given", State.PENDING, {"approved": True}),
                (3.0, "state_changed", State.INITIALIZING, {"from": "pending", "to": "initializing"}),
                (4.0, "state_changed", State.RUNNING, {"from": "initializing", "to": "running"}),
                (4.0, "attempt_started", State.RUNNING, {"attempt": 1}),
                (5.0, "state_changed", State.RETRYING, {"from": "running", "to": "retrying", "delay": 2.0}),
                (7.0, "state_changed", State.RUNNING, {"from": "retrying", "to": "running"}),
                (7.0, "attempt_started", State.RUNNING, {"attempt": 2}),
            )
        )
        bars = [(bar.label, bar.begin, bar.end, bar.kind, bar.open) for bar in bars_of(record, now=9.0)]
        assert bars == [
            ("validate", 0.0, 0.1, "work", False),
            ("approval", 0.1, 2.0, "wait", False),
            ("queue", 2.0, 3.0, "wait", False),
            ("execute", 3.0, 9.0, "work", True),
            ("  ready", 3.0, 4.0, "wait", False),
            ("  attempt 1", 4.0, 5.0, "work", False),
            ("  backoff", 5.0, 7.0, "wait", False),
            ("  attempt 2", 7.0, 9.0, "work", True),
        ]

    def test_call_that_ended_in_the_queue_has_no_execution(self) -> None:
        error = {"code": "cancelled", "message": "m", "type": "Cancelled"}
        record = fold(
            self.events((3.0, "state_changed", State.CANCELLED, {"from": "pending", "to": "cancelled", "error": error}))
        )
        assert [(bar.label, bar.end) for bar in bars_of(record, now=9.0)] == [("queue", 3.0)]
