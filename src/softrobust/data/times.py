"""Times of visits: numbers, or ISO dates and times, as one axis; lengths such as "7d" on that axis.

A date becomes the number of days since 1970-01-01, so that a difference of two is in days. A
column is one or the other: text that is neither, or a mixture, is refused with its row, since a
date that is read wrongly changes every order and every gap.
"""

import math
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Literal

import numpy as np

from softrobust._core.arrays import CodeArray, FloatArray, Rows
from softrobust.data.columns import NUMBER
from softrobust.errors import InputError

Clock = Literal["dates", "numbers"]
_COMPACT = re.compile(r"(19|20)[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])")
_LENGTH = re.compile(r"((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)\s*([a-z]*)", re.IGNORECASE)
_DAYS = {"s": 1 / 86400, "min": 1 / 1440, "h": 1 / 24, "d": 1.0, "w": 7.0}
_EPOCH = datetime(1970, 1, 1)


def read_times(
    codes: CodeArray, names: Sequence[str], rows: Rows, column: str, clock: Clock | None = None
) -> tuple[FloatArray, Clock]:
    """The times of a column, (n_rows,) with NaN where a cell is missing, and what they are.

    `codes` are positions in the distinct texts `names`, -1 where the cell is missing; `clock` is
    what the column must hold, if another table has decided it.
    """
    rule = "Times must be numbers here, as those of the visits are"
    if clock is None:
        clock = "numbers" if all(map(NUMBER.fullmatch, names)) else "dates"
    if clock == "dates":
        rule = "Times must be numbers, or ISO dates such as 2024-03-31 or 2024-03-31T08:15"
    elif names and all(map(_COMPACT.fullmatch, names)):
        raise InputError(
            f"Times such as '{names[0]}' in column '{column}' of {rows.source} look like dates "
            "written without dashes, and as plain numbers their differences would be wrong. Write "
            f"{names[0][:4]}-{names[0][4:6]}-{names[0][6:]}, or count days from some start."
        )
    values = np.full(len(names) + 1, np.nan)  # the last serves the code -1
    aware: set[bool] = set()
    for i, name in enumerate(names):
        numeric = NUMBER.fullmatch(name) is not None
        if clock == "numbers" and numeric:
            values[i] = float(name)
        elif clock == "dates" and not numeric:
            values[i], zone = _days(name)
            aware.add(zone)
        if not math.isfinite(values[i]):
            raise InputError(
                f"{rule}: {rows.where(int(np.argmax(codes == i)))} has '{name[:60]}' in column "
                f"'{column}'. Write all times of the column in one of these ways."
            )
    if len(aware) > 1:
        raise InputError(
            f"Some times in column '{column}' of {rows.source} carry a time zone and some do not, "
            "so they cannot be ordered. Write all of them one way."
        )
    return values[codes], clock


def _days(text: str) -> tuple[float, bool]:
    """Days since 1970 of an ISO date or time, and whether it names a time zone; NaN if neither."""
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


def step_length(given: float | str, clock: Clock, what: str) -> float:
    """A length of time: in days if the clock shows dates, else in the unit of the times."""
    text = str(given).strip()
    units, need = {"": 1.0}, "a number > 0 in the unit of the times"
    if clock == "dates":
        units, need = _DAYS, "a length with a unit: 30min, 12h, 7d or 4w"
    match = _LENGTH.fullmatch(text)
    length = float(match[1]) * units.get(match[2].casefold(), math.nan) if match else math.nan
    if not (math.isfinite(length) and length > 0):
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
