"""What is to be done with a table of visits, as settings: which column is what, and each choice.

Every choice that changes the data has a name here, a default that changes nothing or refuses, and a
count in the report. `flags` writes the choices as the command line reads them.
"""

import csv
import io
import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal, final

import numpy as np

from softrobust._core.arrays import CodeArray, FloatArray, Rows
from softrobust._core.settings import one_of
from softrobust.data.bins import Bins
from softrobust.errors import InputError

MissingAction = Literal["drop", "none", "error"]
MissingMeasurement = Literal["error", "carry", "level", "drop"]
BinsGiven = Mapping[str, int | Sequence[float]] | Bins | str | Path

_WORDS: dict[str, tuple[str, ...]] = {
    "missing_action": ("drop", "none", "error"),
    "missing_measurement": ("error", "carry", "level", "drop"),
    "missing_reward": ("error", "zero", "drop"),
    "missing_rows": ("error", "drop"),
    "duplicates": ("error", "first", "last", "merge"),
    "after_end": ("error", "drop"),
    "several": ("last", "first", "mean"),
    "fill": ("break", "carry"),
    "reward_at": ("start", "end"),
}
EVENT_ROLES = ("id", "time", "reward", "kind")


@final
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TrajectoryRules:
    """Columns and choices; see `read_trajectories` for what each means."""

    id: str
    time: str
    action: str
    measurements: tuple[str, ...] | None = None
    reward: str | None = None
    reward_at: str = "start"
    events: Any = None
    events_columns: Mapping[str, str] | None = None
    terminal: str | None = None
    grid: float | str | None = None
    several: str = "last"
    fill: str = "break"
    max_gap: float | str | None = None
    bins: BinsGiven | None = None
    missing_action: str = "drop"
    missing_measurement: str = "error"
    missing_reward: str = "error"
    missing_rows: str = "error"
    duplicates: str = "error"
    after_end: str = "error"

    def __post_init__(self) -> None:
        for name, words in _WORDS.items():
            one_of(name, getattr(self, name), words)
        if self.measurements is not None:
            given = self.measurements
            names = (given,) if isinstance(given, str) else tuple(given)
            if not names:
                raise InputError("A state needs at least one column: measurements is empty.")
            object.__setattr__(self, "measurements", names)
        for role in self.events_columns or {}:
            one_of("A role of events_columns", role, EVENT_ROLES)
        if self.events is None and self.events_columns is not None:
            raise InputError("events_columns says what is in a table of events: give events too.")
        if self.grid is None and (self.fill != "break" or self.several != "last"):
            raise InputError("'fill' and 'several' say what a grid does. Give grid too.")

    @property
    def terminal_pair(self) -> tuple[str, str | None]:
        """(column, value) of "status=died"; the value is None for a column of true and false."""
        name, sign, value = (self.terminal or "").partition("=")
        if not name.strip() or (sign and not value.strip()):
            raise InputError(
                "terminal is a column of true and false, or column=value such as status=died; "
                f"it is '{self.terminal}'."
            )
        return name.strip(), value.strip() if sign else None

    def flags(self) -> list[str]:
        """The choices as words of the command line, those at their defaults left out."""
        words: list[str] = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None or value == field.default:
                continue
            words += [f"--{field.name.replace('_', '-')}", _flag_text(field.name, value)]
        return words

    def command(self, path: str, *more: str) -> str:
        """The line that reads `path` with these choices."""
        return shlex.join(["softrobust", "inspect", path, *self.flags(), *more])


def _flag_text(name: str, value: Any) -> str:
    if name == "measurements":
        return join_words(value)
    if name == "events_columns":
        return join_words(f"{role}={column}" for role, column in value.items())
    if name == "bins" and isinstance(value, Mapping):
        return join_words(f"{column}={_cuts_text(cuts)}" for column, cuts in value.items())
    if not isinstance(value, (str, Path, int, float)):
        raise InputError(f"'{name}' is an object in memory; a command line needs a file for it.")
    return str(value)


def _cuts_text(cuts: int | Sequence[float]) -> str:
    if isinstance(cuts, int):
        return str(cuts)
    # The colon at the end tells one cut from a number of bins.
    return ":".join(f"{cut:.15g}" for cut in cuts) + (":" if len(cuts) == 1 else "")


def bins_of_words(words: str) -> dict[str, int | Sequence[float]]:
    """`hba1c=7:8:9,weight=4` as cuts and numbers of bins."""
    out: dict[str, int | Sequence[float]] = {}
    for word in split_words(words):
        column, sign, text = word.rpartition("=")
        try:
            cuts = [float(cut) for cut in text.split(":") if cut.strip()]
            found = cuts if ":" in text else int(text)
        except ValueError:
            sign = ""
        if not sign or not column.strip():
            raise InputError(
                "Bins are written column=cuts, such as hba1c=7:8:9, or column=number of bins, such "
                f"as weight=4; '{word}' is neither."
            )
        out[column.strip()] = found
    return out


def join_words(words: Iterable[str]) -> str:
    """Words with commas between; a word that holds a comma or a quote is quoted."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(list(words))
    return text.getvalue()


def split_words(text: str) -> list[str]:
    """The inverse of `join_words`."""
    return [word.strip() for word in next(csv.reader([text]), []) if word.strip()]


# --------------------------------------------------------------------------------------------------
# Times of visits: numbers, or ISO dates and times, as one axis; steps such as "7d" on that axis.
#
# A date becomes the number of days since 1970-01-01, so that a difference of two is in days. A
# column is one or the other: text that is neither, or a mixture, is refused with its row, since a
# date that is read wrongly changes every order and every gap.

Clock = Literal["dates", "numbers"]
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_COMPACT = re.compile(r"(19|20)[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])")
_STEP = re.compile(r"((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)\s*([a-z]*)", re.IGNORECASE)
_DAYS = {"s": 1 / 86400, "min": 1 / 1440, "h": 1 / 24, "d": 1.0, "w": 7.0}
_EPOCH = datetime(1970, 1, 1)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """A column of times.

    Attributes
    ----------
    values : (n_rows,) float64
        Days since 1970-01-01, or the numbers; NaN where the cell is missing.
    clock : "dates" or "numbers"
    """

    values: FloatArray
    clock: Clock

    def step(self, given: float | str, what: str) -> float:
        """A length of time on this axis: "7d" for dates, a plain number for numbers."""
        return step_length(given, self.clock, what)


def read_times(
    codes: CodeArray, names: Sequence[str], rows: Rows, column: str, clock: Clock | None = None
) -> Times:
    """Read times from the distinct texts of a column.

    Parameters
    ----------
    codes : (n_rows,) int32
        Positions in `names`; -1 where the cell is missing.
    clock : optional
        What the column must hold, if another table has decided it.
    """
    numeric = [bool(NUMBER.fullmatch(name)) for name in names]
    if clock is None:
        clock = "numbers" if all(numeric) else "dates"
    if clock == "numbers" and names and all(_COMPACT.fullmatch(name) for name in names):
        raise InputError(
            f"Times such as '{names[0]}' in column '{column}' of {rows.source} look like dates "
            "written without dashes, and as plain numbers their differences would be wrong. Write "
            f"{names[0][:4]}-{names[0][4:6]}-{names[0][6:]}, or count days from some start."
        )
    values = np.empty(len(names) + 1)
    values[-1] = np.nan  # serves the code -1
    aware: set[bool] = set()
    for i, name in enumerate(names):
        found = float(name) if clock == "numbers" and numeric[i] else math.nan
        if clock == "dates":
            found, zone = _days(name)
            aware.add(zone)
        if not math.isfinite(found):
            row = rows.where(int(np.argmax(codes == i)))
            raise InputError(_unreadable(name, column, row, clock))
        values[i] = found
    if len(aware) > 1:
        raise InputError(
            f"Some times in column '{column}' of {rows.source} carry a time zone and some do not, "
            "so they cannot be ordered. Write all of them one way."
        )
    return Times(values[codes], clock)


def _days(text: str) -> tuple[float, bool]:
    """Days since 1970 of an ISO date or time, and whether it names a time zone; NaN if neither."""
    if NUMBER.fullmatch(text):
        return math.nan, False
    try:
        if len(text) == 10:
            return float((date.fromisoformat(text) - _EPOCH.date()).days), False
        moment = datetime.fromisoformat(text)
        zone = moment.tzinfo is not None
        if zone:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return math.nan, False
    return (moment - _EPOCH).total_seconds() / 86400, zone


def _unreadable(text: str, column: str, where: str, clock: Clock) -> str:
    rule = (
        "Times must be numbers here, as those of the visits are"
        if clock == "numbers"
        else "Times must be numbers, or ISO dates such as 2024-03-31 or 2024-03-31T08:15"
    )
    return (
        f"{rule}: {where} has '{text[:60]}' in column '{column}'. Write all times of the column in "
        "one of these ways."
    )


def step_length(given: float | str, clock: Clock, what: str) -> float:
    """Return a length of time: in days if the clock shows dates, else in the unit of the times."""
    text = str(given).strip()
    match = _STEP.fullmatch(text)
    number = float(match[1]) if match else math.nan
    unit = match[2].casefold() if match else ""
    if clock == "dates":
        good = math.isfinite(number) and number > 0 and unit in _DAYS
        need = "a length with a unit: 30min, 12h, 7d or 4w"
        length = number * _DAYS.get(unit, math.nan)
    else:
        good = math.isfinite(number) and number > 0 and not unit
        need = "a number > 0 in the unit of the times"
        length = number
    if not good:
        raise InputError(
            f"{what} must be {need}, since times are {clock}; it is '{text}'. Give such a length."
        )
    return length


def length_text(length: float, clock: Clock) -> str:
    """A length of time for a person and for a flag: 28 → "28d", .25 → "6h"; plain for numbers."""
    if clock == "numbers":
        return f"{length:.6g}"
    for unit in ("d", "h", "min"):
        amount = length / _DAYS[unit]
        if abs(amount - round(amount)) < 1e-9 * max(1.0, abs(amount)) and round(amount) >= 1:
            return f"{round(amount)}{unit}"
    return f"{length:.4g}d" if length >= 1 else f"{length * 86400:.6g}s"


def time_text(value: float, clock: Clock) -> str:
    """A time as text: the day for dates."""
    if clock == "numbers":
        return f"{value:.6g}"
    return str(np.datetime64(0, "D") + np.timedelta64(math.floor(value), "D"))
