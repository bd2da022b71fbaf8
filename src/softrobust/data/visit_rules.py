"""What is to be done with a table of visits, as settings: which column is what, and each choice.

Every choice that changes the data has a name here, a default that changes nothing or refuses, and a
count in the report.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal, final

import numpy as np

from softrobust._core.arrays import CodeArray, FloatArray, Rows
from softrobust._core.settings import one_of
from softrobust.data.bins import Bins
from softrobust.data.columns import NUMBER
from softrobust.errors import InputError

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
    """Columns and choices.

    Attributes
    ----------
    id, time, action : str
        Columns: whose visit, when (numbers or ISO dates), and what was done then.
    measurements : str or sequence of str, optional
        Columns that make up the state, in this order; by default all that have no other role.
    reward : str, optional
        Column of rewards; `reward_at="start"` if a row has the reward that follows its action,
        "end" if it has what was earned since the visit before.
    events : path or table, optional
        Rewards in a table of their own, with `id, time, reward[, kind]`: each is earned by the
        step in which it falls. `events_columns` gives the names of these columns.
    terminal : str, optional
        What marks a true end: a column of true and false, "column=value", or "kind=value" of the
        events. A row that marks an end and has no action is the end itself, and no visit.
        Without it every last visit is censored.
    grid : float or str, optional
        A regular step ("7d" for dates, a number for numbers). Of `several` visits at one point
        the "last" or "first" counts, or the last with the "mean" of its numbers; a point without
        a visit breaks the chain or, with ``fill="carry"``, repeats state and action.
    max_gap : float or str, optional
        Visits further apart make no transition.
    bins : mapping, Bins or path, optional
        Cuts or number of bins by column, ``{"hba1c": [7, 8, 9], "weight": 4}``, or saved bins.
    missing_action : "drop", "none" or "error"
        A visit without action makes no transition, or has the action "none", or is refused.
    missing_measurement : "error", "carry", "level" or "drop"
        Refuse; take the last value of the id; a value "missing"; or leave the state unknown.
    missing_reward : "error", "zero" or "drop"
    missing_rows : "error" or "drop"
        Rows without id or time.
    duplicates : "error", "first", "last" or "merge"
        Rows of one id and time that differ; equal rows always count once.
    after_end : "error" or "drop"
        Visits later than the end of their id.
    """

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

    def given(self) -> dict[str, Any]:
        """The settings that are not at their defaults."""
        every = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {
            name: value
            for name, (value, usual) in every.items()
            if value is not None and value != usual
        }


# --------------------------------------------------------------------------------------------------
# Times of visits: numbers, or ISO dates and times, as one axis; steps such as "7d" on that axis.
#
# A date becomes the number of days since 1970-01-01, so that a difference of two is in days. A
# column is one or the other: text that is neither, or a mixture, is refused with its row, since a
# date that is read wrongly changes every order and every gap.

Clock = Literal["dates", "numbers"]
_COMPACT = re.compile(r"(19|20)[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])")
_STEP = re.compile(r"((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)\s*([a-z]*)", re.IGNORECASE)
_DAYS = {"s": 1 / 86400, "min": 1 / 1440, "h": 1 / 24, "d": 1.0, "w": 7.0}
_EPOCH = datetime(1970, 1, 1)


def read_times(
    codes: CodeArray, names: Sequence[str], rows: Rows, column: str, clock: Clock | None = None
) -> tuple[FloatArray, Clock]:
    """Return the times of a column, NaN where a cell is missing, and what they are.

    Parameters
    ----------
    codes : (n_rows,) int32
        Positions in the distinct texts `names`; -1 where the cell is missing.
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
    return values[codes], clock


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
