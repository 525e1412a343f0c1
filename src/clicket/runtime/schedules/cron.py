"""Times of a cron form in a time zone: minute, hour, day of the month, month, day of the week.

Where a clock is set forward or back:
- With a fixed hour (`30 2 * * *`) each local time fires once a day. One that the clock skips fires when the skipped time ends, and
  several skipped ones fire once together. One that comes twice fires the first time.
- With `*` or `*/n` as the hour the times are those that a clock on the wall shows: skipped ones do not fire, repeated ones fire twice.
"""

from __future__ import annotations

from bisect import bisect_right
from calendar import monthrange
from collections.abc import Iterator
from datetime import MAXYEAR, MINYEAR, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from clicket.errors import UsageError

__all__ = ["Cron", "zone_of"]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, start=1)}),
    ("day of the week", 0, 7, {name: number for number, name in enumerate(_DAYS)}),
)
_SHORT = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_HORIZON = 41
"""Years within which every form fires that ever does: the next 29th of February that is a Sunday may be 40 years away."""
_MAX_TEXT = 1_000
_KEPT_DAYS = 16
_DAY = timedelta(days=1)


def zone_of(name: str) -> ZoneInfo:
    """A time zone by its IANA name, or `UsageError`."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):
        raise UsageError(
            f"there is no time zone {name!r:.100}. Write an IANA name: UTC, Europe/Berlin, America/New_York. Without a system database "
            "of time zones install the package tzdata."
        ) from None


class Cron:
    """`text`: five fields of numbers, names, ranges (`1-5`), steps (`*/15`, `9-17/2`) and lists (`1,15`), or `@daily` and the like. If both
    day fields are given, a day fires that fits either, as in cron. Sunday is 0 or 7. `UsageError`: it makes no sense, or never fires."""

    def __init__(self, text: str, timezone: str = "UTC") -> None:
        if not isinstance(text, str) or not isinstance(timezone, str):
            raise UsageError("a schedule needs its cron form and its time zone as text.")
        if len(text) > _MAX_TEXT:
            raise UsageError(f"a cron form has at most {_MAX_TEXT} characters, not {len(text):,}.")
        fields = _SHORT.get(text.strip().lower(), text).split()
        if len(fields) != len(_FIELDS):
            raise UsageError(
                f"{text!r:.100} is not a cron form: it needs 5 fields (minute, hour, day of the month, month, day of the week), for "
                "example '30 2 * * mon-fri', or one of " + ", ".join(_SHORT) + "."
            )
        self.text = " ".join(text.split())
        self.timezone = timezone
        self._zone = zone_of(timezone)
        minutes, hours, days, months, weekdays = (
            _parsed(field, *limits) for field, limits in zip(fields, _FIELDS, strict=True)
        )
        self._minutes, self._hours = sorted(minutes), sorted(hours)
        self._days = days
        self._months = sorted(months)
        self._weekdays = {day % 7 for day in weekdays}
        self._by_wall = fields[1].startswith("*")
        self._any_day = fields[2].startswith("*")
        self._any_weekday = fields[4].startswith("*")
        self._offsets = [timedelta(hours=hour, minutes=minute) for hour in self._hours for minute in self._minutes]
        self._cache: dict[date, list[float]] = {}
        if not any(True for _ in self._matching(date(2000, 1, 1), 1)):
            raise UsageError(f"{self.text!r:.100} never fires: there is no such day.")

    def after(self, instant: float) -> float | None:
        """The first time after an instant, in seconds since the epoch; None: there is none that a date can express."""
        found: float | None = None
        for day in self._matching(self._local(instant) - timedelta(days=1), 1):
            times = self._times(day)
            at = bisect_right(times, instant)
            last = found is not None
            if at < len(times):
                found = times[at] if found is None else min(found, times[at])
            if last:  # where the clock is set back over midnight, a time of the next day may come before
                return found
        return found

    def before(self, instant: float) -> float | None:
        """The last time that is not after an instant; None: there is none since 1970."""
        found: float | None = None
        for day in self._matching(self._local(instant) + timedelta(days=1), -1):
            times = self._times(day)
            at = bisect_right(times, instant)
            last = found is not None
            if at:
                found = times[at - 1] if found is None else max(found, times[at - 1])
            if last:
                return found
        return found

    def _local(self, instant: float) -> date:
        return datetime.fromtimestamp(instant, self._zone).date()

    def _matching(self, day: date, step: int) -> Iterator[date]:
        """The days that fit, from a day on. Months without such a day are passed over as a whole."""
        for year in range(day.year, day.year + step * _HORIZON, step):
            if not MINYEAR < year < MAXYEAR:  # the days around may have to be expressed, too
                return
            for month in self._months[::step]:
                if (year - day.year or month - day.month) * step < 0:
                    continue
                for number in self._fitting(year, month)[::step]:
                    found = date(year, month, number)
                    if (found - day).days * step >= 0:
                        yield found

    def _fitting(self, year: int, month: int) -> list[int]:
        """The days of a month that fit."""
        first, length = monthrange(year, month)
        of_month = {day for day in self._days if day <= length}
        if self._any_weekday and len(self._weekdays) == 7:
            return sorted(of_month)
        # `monthrange` counts days of the week from Monday as 0.
        of_week = {day for day in range(1, length + 1) if (first + day) % 7 in self._weekdays}
        return sorted(of_month & of_week if self._any_day or self._any_weekday else of_month | of_week)

    def _times(self, day: date) -> list[float]:
        """The instants of a local day, in order."""
        times = self._cache.get(day)
        if times is None:
            if len(self._cache) >= _KEPT_DAYS:
                self._cache.clear()
            times = self._cache[day] = self._computed(datetime.combine(day, time(), self._zone))
        return times

    def _computed(self, midnight: datetime) -> list[float]:
        # A form may fire each minute, and to ask the zone for each of them takes 5 ms a day: only on days on which the clock is set.
        if midnight.utcoffset() == (midnight + _DAY).replace(fold=1).utcoffset():
            return [midnight.timestamp() + offset.total_seconds() for offset in self._offsets]
        return sorted({instant for offset in self._offsets for instant in self._instants(midnight + offset)})

    def _instants(self, local: datetime) -> tuple[float, ...]:
        """When a local time comes: once, twice, or never."""
        first = local.timestamp()
        second = local.replace(fold=1).timestamp()
        if first == second:
            return (first,)
        if first < second:  # the clock shows it twice
            return (first, second) if self._by_wall else (first,)
        return () if self._by_wall else (self._end_of_gap(second, first),)

    def _end_of_gap(self, low: float, high: float) -> float:
        """The instant between two at which the clock is set."""
        before = datetime.fromtimestamp(low, self._zone).utcoffset()
        while high - low > 1:
            middle = (low + high) // 2
            if datetime.fromtimestamp(middle, self._zone).utcoffset() == before:
                low = middle
            else:
                high = middle
        return high


def _parsed(field: str, what: str, least: int, most: int, names: dict[str, int]) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, slash, step = part.partition("/")
        width = _number(step, 1, most, {}, what, part) if slash else 1
        if span == "*":
            low = least
            high = 6 if most == 7 else most
        else:
            start, dash, end = span.partition("-")
            low = _number(start, least, most, names, what, part)
            high = _number(end, least, most, names, what, part) if dash else (most if slash else low)
            if dash and high == 0 and most == 7 and low > 0:  # fri-sun
                high = 7
            if high < low:
                raise UsageError(f"the {what} {part!r:.50} of the cron form ends before it begins. Write two ranges.")
        found.update(range(low, high + 1, width))
    return found


def _number(text: str, least: int, most: int, names: dict[str, int], what: str, part: str) -> int:
    number = names.get(text.lower())
    if number is None and text.isascii() and text.isdecimal() and len(text) <= 2:
        number = int(text)
    if number is None or not least <= number <= most:
        known = f", or a name like {next(iter(names))}" if names else ""
        raise UsageError(f"the {what} {part!r:.50} of the cron form is wrong: it takes {least} to {most}{known}.")
    return number
