"""What is to be done with a table of visits, as settings: which column is what, and each choice.

Every choice that changes the data has a name here, a default that changes nothing or refuses, and a
count in the report. `flags` writes the choices as the command line reads them.
"""

import csv
import io
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, final

from softrobust.data.bins import Bins
from softrobust.data.settings import one_of
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
