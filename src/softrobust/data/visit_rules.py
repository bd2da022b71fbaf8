"""What is to be done with a table of visits, as settings: which column is what, and each choice.

Every choice that changes the data has a name here, a default that changes nothing or refuses, and a
count in the report.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, final

from softrobust._core.settings import one_of
from softrobust.data.bins import Bins
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
        usual = {field.name: field.default for field in fields(self)}
        every = {name: getattr(self, name) for name in usual}
        return {k: v for k, v in every.items() if v is not None and v != usual[k]}
