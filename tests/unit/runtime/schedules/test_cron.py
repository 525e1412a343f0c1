"""Cron forms against an oracle that steps through minutes and looks at a clock on the wall; also where the clock is set."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.kit.examples import examples

from clicket.errors import UsageError
from clicket.runtime.schedules import Cron

MINUTE = 60
# A day on which each zone's clock is set, and an ordinary one.
DAYS = [
    ("Europe/Berlin", "2026-03-29"),
    ("Europe/Berlin", "2026-10-25"),
    ("America/New_York", "2026-03-08"),
    ("America/New_York", "2026-11-01"),
    ("America/Sao_Paulo", "2018-11-04"),  # 00:00 is skipped
    ("America/Sao_Paulo", "2018-02-18"),  # 23:00 to 24:00 of the day before comes twice
    ("Australia/Lord_Howe", "2026-10-04"),  # by half an hour
    ("Australia/Lord_Howe", "2026-04-05"),
    ("Pacific/Apia", "2011-12-30"),  # a whole day is skipped
    ("America/Goose_Bay", "2010-11-07"),  # set back at 00:01, into the day before
    ("Asia/Kolkata", "2026-07-01"),
    ("UTC", "2024-02-29"),
]


def wall(instant: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(instant, zone)


class Oracle:
    """Sets of numbers in place of a form, so that it shares nothing with the parser."""

    def __init__(
        self, minutes: set[int], hours: set[int] | None, days: set[int] | None, weekdays: set[int] | None
    ) -> None:
        self.minutes, self.hours, self.days, self.weekdays = minutes, hours, days, weekdays

    @property
    def text(self) -> str:
        fields = (self.minutes, self.hours, self.days, None, self.weekdays)
        return " ".join("*" if field is None else ",".join(map(str, sorted(field))) for field in fields)

    def shows(self, local: datetime) -> bool:
        if local.minute not in self.minutes or (self.hours is not None and local.hour not in self.hours):
            return False
        by_day = self.days is not None and local.day in self.days
        by_week = self.weekdays is not None and (local.isoweekday() % 7) in self.weekdays
        if self.days is None and self.weekdays is None:
            return True
        return by_day or by_week

    def times(self, start: int, end: int, zone: ZoneInfo) -> list[int]:
        found = []
        for instant in range(start, end, MINUTE):
            local = wall(instant, zone)
            by_wall = self.hours is None
            fires = self.shows(local) and (by_wall or local.fold == 0)
            if fires or (not by_wall and self._skipped_shows(instant, zone)):
                found.append(instant)
        return found

    def _skipped_shows(self, instant: int, zone: ZoneInfo) -> bool:
        """Is this the first minute after a stretch that the clock skipped, with a time of ours in it?"""
        now, before = (wall(at, zone).replace(tzinfo=None, fold=0) for at in (instant, instant - MINUTE))
        skipped = before + timedelta(minutes=1)
        while skipped < now:
            if self.shows(skipped):
                return True
            skipped += timedelta(minutes=1)
        return False


numbers = lambda least, most, size: st.sets(st.integers(least, most), min_size=1, max_size=size)  # noqa: E731  # a short name for a strategy


@settings(max_examples=examples(60), deadline=None)
@given(
    where=st.sampled_from(DAYS),
    minutes=numbers(0, 59, 4),
    hours=st.none() | numbers(0, 23, 5) | st.just({0, 1, 2, 3, 23}),
    days=st.none() | numbers(1, 31, 6),
    weekdays=st.none() | numbers(0, 6, 3),
)
@example(("Europe/Berlin", "2026-03-29"), {0, 30}, {2}, None, None)
@example(("Europe/Berlin", "2026-10-25"), {0, 30}, {2}, None, None)
@example(("Europe/Berlin", "2026-10-25"), {0, 30}, None, None, None)
@example(("Pacific/Apia", "2011-12-30"), {0}, {12}, None, None)
@example(("America/Goose_Bay", "2010-11-07"), {0, 30}, None, None, None)
@example(("America/Sao_Paulo", "2018-02-18"), {15}, {0, 23}, None, None)
def test_it_fires_as_the_oracle_says(
    where: tuple[str, str], minutes: set[int], hours: set[int] | None, days: set[int] | None, weekdays: set[int] | None
) -> None:
    name, day = where
    zone, oracle = ZoneInfo(name), Oracle(minutes, hours, days, weekdays)
    middle = int(datetime.fromisoformat(f"{day}T12:00").replace(tzinfo=UTC).timestamp())
    start, end = middle - 36 * 3600, middle + 36 * 3600
    expected = oracle.times(start, end, zone)
    cron = Cron(oracle.text, name)
    forward, at = [], cron.after(start - 1)
    while at is not None and at < end:
        forward.append(at)
        at = cron.after(at)
    backward, at = [], cron.before(end - 1)
    while at is not None and at >= start:
        backward.append(at)
        at = cron.before(at - 0.001)
    assert forward == expected
    assert backward[::-1] == expected


def local_times(text: str, zone: str, after: str, count: int) -> list[str]:
    cron = Cron(text, zone)
    at = datetime.fromisoformat(after).replace(tzinfo=ZoneInfo(zone)).timestamp()
    found = []
    for _ in range(count):
        due = cron.after(at)
        assert due is not None
        at = due
        found.append(datetime.fromtimestamp(at, ZoneInfo(zone)).isoformat(timespec="minutes"))
    return found


def test_the_documented_times_where_the_clock_is_set() -> None:
    berlin = "Europe/Berlin"
    assert local_times("30 2 * * *", berlin, "2026-03-28T12:00", 2) == [
        "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00",
    ]  # fmt: skip
    assert local_times("30 2 * * *", berlin, "2026-10-24T12:00", 2) == [
        "2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00",
    ]  # fmt: skip
    assert local_times("30 * * * *", berlin, "2026-10-25T01:00", 4) == [
        "2026-10-25T01:30+02:00", "2026-10-25T02:30+02:00", "2026-10-25T02:30+01:00", "2026-10-25T03:30+01:00",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("*/15 9-17 * * mon-fri", "2026-11-13T17:45", ["2026-11-16T09:00", "2026-11-16T09:15"]),
        ("0 0 29 2 *", "2096-03-01T00:00", ["2104-02-29T00:00"]),
        ("0 0 29 2 */7", "2088-03-01T00:00", ["2128-02-29T00:00"]),  # both: `*/7` is not a day of its own
        ("0 12 13 * fri", "2026-11-01T00:00", ["2026-11-06T12:00", "2026-11-13T12:00"]),
        ("0 8 * * 7", "2026-11-16T00:00", ["2026-11-22T08:00"]),
        ("0 8 * * fri-sun", "2026-11-16T00:00", ["2026-11-20T08:00", "2026-11-21T08:00", "2026-11-22T08:00"]),
        ("5/20 0 1 JAN,jul *", "2026-11-16T00:00", ["2027-01-01T00:05", "2027-01-01T00:25"]),
        ("@weekly", "2026-11-16T00:00", ["2026-11-22T00:00"]),
        ("0 0 */10 * *", "2026-11-16T00:00", ["2026-11-21T00:00", "2026-12-01T00:00"]),
    ],
)
def test_forms(text: str, after: str, expected: list[str]) -> None:
    found = local_times(text, "UTC", after, len(expected))
    assert [each.removesuffix("+00:00") for each in found] == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "a * * * *", "5-1 * * * *",
        "*/0 * * * *", "1,,2 * * * *", "1- * * * *", "-1 * * * *", "² * * * *", "0 0 30 2 *", "0 0 31 4,6 *", "@never", "* * * foo *",
        "1e1 * * * *", "001 * * * *",
    ],
)  # fmt: skip
def test_what_is_no_form_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Cron(text)


@settings(max_examples=examples(60))
@given(st.text(st.sampled_from("0159*/-,@ adefnosu"), max_size=20))
def test_any_text_is_a_form_or_refused(text: str) -> None:
    try:
        due = Cron(text).after(0.0)
    except UsageError:
        return
    assert due is not None


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "/etc/localtime", "UTC\0"])
def test_what_is_no_zone_is_refused(zone: str) -> None:
    with pytest.raises(UsageError, match="time zone"):
        Cron("* * * * *", zone)


@pytest.mark.parametrize("text", ["0 0 29 2 *", "0 0 29 2 mon", "0 0 1 1 *", "30 2 31 12 *", "* * * * *"])
def test_the_work_for_a_time_does_not_depend_on_how_rare_it_is(text: str) -> None:
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    cron = Cron(text, "Europe/Berlin")
    due, times = cron.after(1_800_000_000.0), 50
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for _ in range(times):
            assert due is not None
            due = cron.after(due)
        for _ in range(times):
            assert due is not None
            due = cron.before(due - 1)
    finally:
        sys.setprofile(before)
    assert calls < 2 * times * 200


def test_a_form_has_a_length() -> None:
    with pytest.raises(UsageError, match="at most 1000 characters"):
        Cron("*," * 50_000 + "* * * * *")


def test_the_last_years_that_a_date_can_express() -> None:
    last = datetime(9998, 12, 31, 23, 0, tzinfo=UTC).timestamp()
    assert Cron("0 0 1 1 *").after(last) is None
    assert Cron("30 23 31 12 *").after(last) == last + 1_800
    assert Cron("30 23 31 12 *").after(last + 86_400) is None
    assert Cron("0 0 29 2 *").before(0) == datetime(1968, 2, 29, tzinfo=UTC).timestamp()
    assert Cron("0 0 29 2 */7").before(1_900_000_000) == datetime(2004, 2, 29, tzinfo=UTC).timestamp()
