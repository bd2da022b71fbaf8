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
from softrobust.data.times import FORMS
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
    "action_at": ("start", "end"),
    "several_rewards": ("sum", "mean", "last"),
}
AS_THEY_STAND = "none"
EVENT_ROLES = ("id", "time", "reward", "kind")


@final
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TrajectoryRules:
    """Columns and choices.

    Attributes
    ----------
    id : str or sequence of str
        Column that says whose visit a row is; several where only together they do (store, brand);
        "none" where all rows are of one.
    time, action : str
        Columns: when (numbers, dates or months), and what was done then. Time "none" takes the rows
        of an id in the order in which they stand.
    dates : "iso", "dmy", "mdy", "ymd" or "month", optional
        How dates are written, where it cannot be told.
    measurements : str or sequence of str, optional
        Columns that make up the state, in this order; by default all that have no other role.
    reward : str, optional
        Column of rewards, a mapping of categories ("headache=yes:-1,no:0") or a linear formula
        ("profit - 0.5*next(stock)", see `formula`). For a column, `reward_at="start"` if a row has
        the reward that follows its action, "end" if it has what was earned since the visit before;
        `several_rewards` says what becomes of those that share a point of the grid: their "sum",
        their "mean", or the "last".
    cost : mapping, optional
        Action → what taking it costs; every action must be named.
    events : path or table, optional
        Rewards in a table of their own, with `id, time, reward[, kind]`: each is earned by the
        step in which it falls. `events_columns` gives the names of these columns.
    terminal : str, optional
        What marks a true end: a column of true and false, "column=value", or "kind=value" of the
        events. A row that marks an end and has no action is the end itself, and no visit.
        Without it every last visit is censored.
    end_time : str, optional
        Column with the time of the end (follow-up time) of each id, where `terminal` is the status
        of the id, the same in all of its rows: the end follows the last visit before it.
    grid : float or str, optional
        A regular step ("7d" or "1month" for dates, a number for numbers). Of `several` visits at
        one point the "last" or "first" counts, or the last with the "mean" of its numbers; a point
        without a visit breaks the chain or, with ``fill="carry"``, repeats state and action.
    max_gap : float or str, optional
        Visits further apart make no transition.
    bins : mapping, Bins or path, optional
        Cuts or number of bins by column, ``{"hba1c": [7, 8, 9], "weight": 4}``, or saved bins.
    action_at : "start" or "end"
        "start" if a row has the action that was taken then; "end" if it has the one that led to it
        (a row that says «replaced» already shows the new part).
    action_bins : int or sequence of float, optional
        Cuts an action that is a number (a dose, a price) into so many bins, or at these cuts.
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

    id: str | tuple[str, ...]
    time: str
    action: str
    dates: str | None = None
    measurements: tuple[str, ...] | None = None
    reward: str | None = None
    reward_at: str = "start"
    several_rewards: str = "sum"
    cost: Mapping[str, float] | None = None
    events: Any = None
    events_columns: Mapping[str, str] | None = None
    terminal: str | None = None
    end_time: str | None = None
    grid: float | str | None = None
    several: str = "last"
    fill: str = "break"
    max_gap: float | str | None = None
    bins: BinsGiven | None = None
    action_at: str = "start"
    action_bins: int | Sequence[float] | None = None
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
        if not isinstance(self.id, str):
            ids = tuple(self.id)
            object.__setattr__(self, "id", ids[0] if len(ids) == 1 else ids)
        if self.dates is not None:
            one_of("dates", self.dates, FORMS)
        if self.end_time is not None and self.terminal is None:
            raise InputError(
                "end_time says when ids ended; which ids did is for terminal, such as status=died.",
                arguments={"terminal": "status=…"},
            )
        for role in self.events_columns or {}:
            one_of("A role of events_columns", role, EVENT_ROLES)
        if self.events is None and self.events_columns is not None:
            raise InputError("events_columns says what is in a table of events: give events too.")
        on_grid = (self.fill, self.several, self.several_rewards)
        if self.grid is None and on_grid != ("break", "last", "sum"):
            raise InputError(
                "'fill', 'several' and 'several_rewards' say what a grid does. Give grid too."
            )

    @property
    def id_columns(self) -> tuple[str, ...]:
        """The columns that say whose visit a row is."""
        if self.id == AS_THEY_STAND:
            return ()
        return (self.id,) if isinstance(self.id, str) else self.id

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
