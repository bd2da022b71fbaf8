"""Times of visits: numbers, dates or months, as one axis; lengths such as "7d" or "1month" on it.

A date becomes the number of days since 1970-01-01, so that a difference of two is in days; a month
such as 1974-12 becomes the number of months since then. A column is one or the other: text that is
neither, or a mixture, is refused with its row, since a date that is read wrongly changes every
order and every gap. ISO dates and weeks (2024-W07) are plain; other forms (31.3.2024, 3/31/24,
31 Mar 2024, 20240331) are said to be read, and refused where day and month could be exchanged.
"""

import math
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Literal, NamedTuple, final

import numpy as np

from softrobust._core.arrays import CodeArray, FloatArray, IntArray
from softrobust._core.notes import Level, Note
from softrobust.data.columns import NUMBER, Columns
from softrobust.errors import InputError

Clock = Literal["dates", "numbers", "months"]
FORMS = ("iso", "dmy", "mdy", "ymd", "month")  # how dates can be written
_LENGTH = re.compile(r"((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)\s*([a-z]*)", re.IGNORECASE)
_DAYS = {"s": 1 / 86400, "min": 1 / 1440, "h": 1 / 24, "d": 1.0, "w": 7.0}
_CALENDAR = dict.fromkeys(("month", "months"), 1.0) | dict.fromkeys(("q", "quarter"), 3.0)
_CALENDAR |= dict.fromkeys(("y", "year", "years"), 12.0)
_LONGEST_MONTH = 31.0
_EPOCH = datetime(1970, 1, 1)
COMPACT = re.compile(r"((?:19|20)[0-9]{2})(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])")
_WEEK = re.compile(r"([0-9]{4})-?W([0-9]{1,2})", re.IGNORECASE)
_YEAR_MONTH = re.compile(r"([0-9]{4})[-/. ]?(?:([0-9]{1,2})|M([0-9]{1,2})|Q([1-4]))", re.IGNORECASE)
_MONTH_YEAR = re.compile(r"(?:([0-9]{1,2})[-/.]|([^\W\d_]{3,})\.?[-/., ]+)([0-9]{4})")
_LOCAL = re.compile(
    r"(\w+)(?:[-/.]\s?|,?\s)(\w+)\.?(?:[-/]|[.,]?\s|\.)(\w+)"
    r"(?:[T,\s]\s*([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:[.,][0-9]+)?)?\s*([ap])?\.?(?:m\.?)?)?",
    re.IGNORECASE,
)
# Beginnings of the names of months, in the languages of Latin letters that exports come in.
_NAMES = ("jan ene gen", "feb fev fév", "mar mär mrz maa", "apr abr avr", "may mai mei mag",
          "jun juin giu", "jul juil lug", "aug aoû aou ago", "sep set", "oct okt ott out", "nov",
          "dec dez dic déc")  # fmt: skip
_MONTHS = {word: n for n, words in enumerate(_NAMES, 1) for word in words.split()}


@final
class Times(NamedTuple):
    """The times of a column: values (n_rows,), NaN where a cell is missing, and what they are."""

    values: FloatArray
    clock: Clock
    note: Note | None = None


def read_times(
    cells: Columns, column: str, clock: Clock | None = None, form: str | None = None
) -> Times:
    """The times of a column; `clock` is what it must hold, `form` how dates are written."""
    codes, names, guessed = cells.codes[column], cells.names[column], None
    if form is None and clock != "numbers" and not all(map(NUMBER.fullmatch, names)):
        guessed, other = guess_form(codes, names)
        if other is not None:
            raise InputError(
                f"Dates such as '{names[0]}' in column '{column}' of {cells.rows.source} can be "
                f"read in two ways, {_WORDS[guessed]} or {_WORDS[other]}, and nothing tells which. "
                f"Say it with dates='{guessed}' or dates='{other}'.",
                arguments={"dates": guessed},
            )
    elif form is None and clock is None and names and all(map(COMPACT.fullmatch, names)):
        guessed = "ymd"  # as plain numbers their differences would be wrong
    out = _read(cells, column, clock, form or guessed)
    if guessed in (None, "iso", "month") or not names:
        return out
    shown = time_text(float(_value(names[0], guessed)[0]), "dates")
    facts = {"column": column, "form": guessed, "example": names[0], "date": shown}
    return out._replace(note=Note("dates_read", Level.CAUTION, facts))


def _read(cells: Columns, column: str, clock: Clock | None, form: str | None) -> Times:
    """Read the distinct texts in one form; without one they are numbers."""
    codes, names, rows = cells.codes[column], cells.names[column], cells.rows
    own: Clock = "numbers" if form is None else "months" if form == "month" else "dates"
    if form is None and clock not in (None, "numbers"):
        form, own = "iso", "dates"  # numbers where there must be dates: refused with the row
    rule = f"Times must be {_WORDS[form or 'numbers']}"
    values = np.full(len(names) + 1, np.nan)  # the last serves the code -1
    aware: set[bool] = set()
    for i, name in enumerate(names):
        if form is None and NUMBER.fullmatch(name):
            values[i] = float(name)
        elif form is not None:
            values[i], zone = _value(name, form)
            aware.add(zone)
        if not math.isfinite(values[i]):
            raise InputError(
                f"{rule}: {rows.where(codes == i)} has '{name[:60]}' in column "
                f"'{column}'. Write all times of the column in one way, or say how its dates are "
                "written with dates.",
                arguments={"dates": "dmy"},
            )
    if len(aware) > 1:
        raise InputError(
            f"Some times in column '{column}' of {rows.source} carry a time zone and some do not, "
            "so they cannot be ordered. Write all of them one way."
        )
    if clock is not None and own != clock:
        if (own, clock) != ("dates", "months"):
            raise InputError(
                f"Times in column '{column}' of {rows.source} are {own}, those of the visits "
                f"{clock}. Write both in one way."
            )
        whole = _months_of(values)  # and the share of the month that is over
        start = _month_starts(whole)
        share = (values - start) / (_month_starts(whole + 1) - start)
        values = np.where(np.isfinite(values), whole + share, np.nan)
    return Times(values[codes], clock or own)


_WORDS = {
    "numbers": "numbers here, as those of the visits are",
    "iso": "numbers, ISO dates such as 2024-03-31 or 2024-03-31T08:15, or in one local form",
    "dmy": "day, month, year (31.3.2024)",
    "mdy": "month, day, year (3/31/2024)",
    "ymd": "year, month, day (2024/3/31 or 20240331)",
    "month": "months (2024-03, Mar 2024 or 2024-Q1)",
}


def guess_form(codes: CodeArray, names: Sequence[str]) -> tuple[str, str | None]:
    """The form in which all texts are dates, and another one that cannot be ruled out.

    Between day first and month first, the one decides under which the rows of the table go back in
    time clearly less often; a point between day and month is day first.
    """
    fits = [form for form in FORMS if all(math.isfinite(_value(name, form)[0]) for name in names)]
    if len(fits) < 2 or fits[0] == "iso":
        return (fits or ["iso"])[0], None
    if fits[0] == "dmy" and all("." in name for name in names):
        return "dmy", None
    present = codes[codes >= 0]
    back = []
    for form in fits[:2]:
        t = np.array([_value(name, form)[0] for name in names])[present]
        back.append(int((np.diff(t) < 0).sum()))
    first, second = sorted(range(2), key=lambda k: back[k])
    unsure = back[second] <= 1.25 * back[first] + 1
    return (fits[0], fits[1]) if unsure else (fits[first], None)


def _value(text: str, form: str) -> tuple[float, bool]:
    """Days (or months) since 1970, and whether a time zone is named; NaN if it is none."""
    try:
        if form == "iso":
            return _days(text)
        if form == "month":
            return _month_count(text), False
        return _local_days(text, form), False
    except (ValueError, OverflowError):
        return math.nan, False


def _days(text: str) -> tuple[float, bool]:
    """Days of an ISO date, week or time."""
    week = _WEEK.fullmatch(text)
    if week or len(text) == 10:
        day = date.fromisocalendar(int(week[1]), int(week[2]), 1) if week else None
        return float(((day or date.fromisoformat(text)) - _EPOCH.date()).days), False
    if NUMBER.fullmatch(text):
        raise ValueError  # 20240331 is told by its own form
    moment = datetime.fromisoformat(text)
    zone = moment.tzinfo is not None
    if zone:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return (moment - _EPOCH).total_seconds() / 86400, zone


def _local_days(text: str, form: str) -> float:
    found = COMPACT.fullmatch(text) if form == "ymd" else None
    found = found or _LOCAL.fullmatch(text.strip())
    if not found:
        return math.nan
    parts, clock = found.groups()[:3], found.groups()[3:] or (None,) * 4
    by = dict(zip(form, parts, strict=True))
    if not by["y"].isdigit() or len(by["y"]) not in ((4,) if form == "ymd" else (2, 4)):
        return math.nan
    year = int(by["y"])
    if len(by["y"]) == 2:
        year += 1900 if year >= 69 else 2000
    hour, minute, second = (int(part or 0) for part in clock[:3])
    if clock[3]:
        if not 1 <= hour <= 12:
            return math.nan
        hour = hour % 12 + (12 if clock[3].casefold() == "p" else 0)
    moment = datetime(year, _month(by["m"]), int(by["d"]), hour, minute, second)
    return (moment - _EPOCH).total_seconds() / 86400


def _month(word: str) -> int:
    """The number of a month, from its number or its name."""
    plain = word.casefold()
    return int(word) if word.isdigit() else _MONTHS.get(plain[:4]) or _MONTHS.get(plain[:3], 0)


def _month_count(text: str) -> float:
    if found := _YEAR_MONTH.fullmatch(text):
        year, quarter = int(found[1]), found[4]
        if text.isdigit():
            return math.nan  # 202403 is a number until somebody says otherwise
        month = 3 * int(quarter) - 2 if quarter else int(found[2] or found[3])
    elif found := _MONTH_YEAR.fullmatch(text):
        year, month = int(found[3]), _month(found[1] or found[2])
    else:
        return math.nan
    return float(12 * (year - 1970) + month - 1) if 1 <= month <= 12 else math.nan


def _months_of(days: FloatArray) -> IntArray:
    day = np.floor(np.nan_to_num(days)).astype("datetime64[D]")
    return np.asarray(day.astype("datetime64[M]").astype(np.int64))


def _month_starts(months: IntArray) -> FloatArray:
    first = months.astype("datetime64[M]").astype("datetime64[D]")
    return np.asarray(first.astype(np.int64).astype(np.float64))


# -- lengths and grids -------------------------------------------------------------------------


@final
class Grid(NamedTuple):
    """A regular step: `width` on the axis of the times, or so many months of the calendar."""

    width: float
    calendar: bool

    def point(self, t: FloatArray, origin: FloatArray) -> IntArray:
        """The point of each time, nearest or by calendar, from that of its origin; 0 for NaN."""
        if self.calendar:
            known = np.where(np.isnan(t), origin, t)
            months = _months_of(known) - _months_of(origin)
            return np.asarray(months // int(self.width))
        return np.floor(np.nan_to_num((t - origin) / self.width) + 0.5).astype(np.int64)

    def time(self, origin: FloatArray, point: IntArray) -> FloatArray:
        """When a point is due."""
        if self.calendar:
            return _month_starts(_months_of(origin) + point * int(self.width))
        return origin + self.width * point


def grid_of(given: float | str, clock: Clock) -> Grid:
    """The grid that a step such as 28d or 1month makes."""
    match = _LENGTH.fullmatch(str(given).strip())
    if match is None or clock != "dates" or match[2].casefold() not in _CALENDAR:
        return Grid(step_length(given, clock, "grid"), False)
    months = _CALENDAR[match[2].casefold()] * float(match[1])
    if months < 1 or months != round(months):
        raise InputError(f"A grid has whole months: it is '{given}'. Give such a step.")
    return Grid(months, True)


def step_length(given: float | str, clock: Clock, what: str) -> float:
    """A length of time: in days if the clock shows dates, else in the unit of the times."""
    text = str(given).strip()
    units, need = {"": 1.0}, "a number > 0 in the unit of the times"
    if clock == "dates":
        units = _DAYS | {unit: _LONGEST_MONTH * n for unit, n in _CALENDAR.items()}
        need = "a length with a unit: 30min, 12h, 7d, 4w, 1month, 1q or 1y"
    elif clock == "months":
        units, need = {"": 1.0} | _CALENDAR, "a number of months, or 1month, 1q or 1y"
    match = _LENGTH.fullmatch(text)
    length = float(match[1]) * units.get(match[2].casefold(), math.nan) if match else math.nan
    if not (math.isfinite(length) and length > 0):
        raise InputError(
            f"{what} must be {need}, since times are {clock}; it is '{text}'. Give such a length."
        )
    return length


def length_text(length: float, clock: Clock) -> str:
    """A length of time for a person and for a flag: 28 → "28d", .25 → "6h"; plain for numbers."""
    if clock != "dates":
        return f"{length:.6g}" + "month" * (clock == "months")
    for unit in ("d", "h", "min"):
        amount = length / _DAYS[unit]
        if abs(amount - round(amount)) < 1e-9 * max(1.0, abs(amount)) and round(amount) >= 1:
            return f"{round(amount)}{unit}"
    return f"{length:.4g}d" if length >= 1 else f"{length * 86400:.6g}s"


def time_text(value: float, clock: Clock) -> str:
    """A time as text: the day for dates."""
    if clock == "numbers":
        return f"{value:.6g}"
    unit: Literal["D", "M"] = "D" if clock == "dates" else "M"
    return str(np.datetime64(0, unit) + np.timedelta64(math.floor(value), unit))
