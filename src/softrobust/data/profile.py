"""Columns of a table as a person sees them: what each holds, what is missing, what is odd."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from softrobust._core.arrays import CodeArray, FloatArray, IntArray, Rows
from softrobust._core.notes import Ledger
from softrobust.data.columns import MISSING, Columns, listed, numbers_in, parse_flag
from softrobust.data.table import Table
from softrobust.data.times import read_times, time_text
from softrobust.errors import InputError

Holds = Literal["nothing", "numbers", "dates", "categories", "text", "numbers and text"]
FEW_VALUES = 30
_PLAIN = re.compile(r"[\W_]+")
# Numbers that people write where a value is missing.
_CODES = (-1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99999.0)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One column: codes (n,) of its distinct texts, -1 where a cell is missing, and what these are.

    `low` and `high` are those of numbers or dates; `distinct` counts different numbers, or texts.
    """

    name: str
    codes: CodeArray
    texts: tuple[str, ...]
    holds: Holds
    low: float | str | None = None
    high: float | str | None = None
    distinct: int = 0

    @property
    def flags(self) -> bool:
        """Whether every cell is true or false (1 and 0, yes and no)."""
        return bool(self.texts) and all(parse_flag(text) is not None for text in self.texts)

    @property
    def numbers(self) -> FloatArray:
        """The numbers, NaN where a cell is missing or no number, (n,)."""
        return numbers_in(self.texts)[self.codes]

    def to_dict(self) -> dict[str, Any]:
        """What it holds, as plain values ready for JSON."""
        facts = {name: getattr(self, name) for name in ("holds", "low", "high", "distinct")}
        missing = int((self.codes == MISSING).sum())
        return facts | {"examples": list(self.texts[:4]), "missing": missing}


@final
@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """All columns of a table; `twice` are names that stand there twice."""

    cells: Columns
    columns: dict[str, Column]
    twice: tuple[str, ...] = ()

    @property
    def rows(self) -> Rows:
        """Row numbers for messages."""
        return self.cells.rows

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return next(iter(self.columns.values())).codes.size

    def findings(self, names: Sequence[str]) -> Ledger:
        """What is odd in the named columns."""
        ledger = Ledger()
        for name in names:
            column = self.columns[name]
            if column.holds == "numbers and text":
                no_numbers(column, self.rows, ledger)
            if column.holds.startswith("numbers"):
                for code, places, facts in odd_numbers(column.numbers):
                    ledger.add(code, self.rows, places, column=name, **facts)
            if column.holds == "categories":
                for twins in alike(column.texts):
                    rows = [np.flatnonzero(column.codes == column.texts.index(t)) for t in twins]
                    rare = min(rows, key=len)
                    ledger.add("alike_values", self.rows, rare, column=name, names=list(twins))
        for name in self.twice:
            ledger.say("column_twice", column=name)
        return ledger


def no_numbers(column: Column, rows: Rows, ledger: Ledger) -> None:
    """Note the cells of a column that are no numbers."""
    others = np.flatnonzero(np.isnan(numbers_in(column.texts)[:-1]))
    places = np.flatnonzero(np.isin(column.codes, others))
    texts = [column.texts[i] for i in others[:3]]
    ledger.add("no_numbers", rows, places, column=column.name, examples=texts)


def odd_numbers(values: FloatArray) -> Iterator[tuple[str, IntArray, dict[str, Any]]]:
    """Numbers far from the others, and codes for "missing" among them: code, places, facts."""
    known = values[np.isfinite(values)]
    if known.size < 10:
        return
    middle = float(np.median(known))
    low, high = np.quantile(known, [0.05, 0.95]).tolist()
    reach = 5 * max(high - low, 1e-9 * max(1.0, abs(middle)))
    far = np.isfinite(values) & (np.abs(values - middle) > reach)
    if not far.any() or far.sum() > 0.02 * known.size:
        return
    codes = far & np.isin(values, _CODES)
    for code, odd in (("codes_for_missing", codes), ("far_numbers", far & ~codes)):
        if odd.any():
            examples = np.unique(values[odd])[:3].tolist()
            yield code, np.flatnonzero(odd), {"examples": examples, "low": low, "high": high}


def alike(names: Iterable[str]) -> Iterator[Sequence[str]]:
    """Names that are the same but for case, spaces and punctuation; signs beside digits count."""
    groups: dict[str, list[str]] = {}
    for name in names:
        plain = _PLAIN.sub("", name).casefold()
        if plain and not any(sign.isdigit() for sign in plain):
            groups.setdefault(plain, []).append(name)
    yield from (group for group in groups.values() if len(group) > 1)


def profile_table(table: Table) -> Profile:
    """Read every column of a table as text, and say what it holds."""
    found = table.names
    twice = tuple(dict.fromkeys(name for name in found if name and found.count(name) > 1))
    names = [name for name in found if name and name not in twice]
    if not names:
        raise InputError(
            f"The first row of {table.source} must name the columns: it names none. Add a header."
        )
    cells = table.cells(names)
    return Profile(cells, {name: _column(name, cells) for name in names}, twice)


def _column(name: str, cells: Columns) -> Column:
    codes, texts = cells.codes[name], tuple(cells.names[name])
    if not texts:
        return Column(name, codes, texts, "nothing")
    values = numbers_in(texts)
    numeric = ~np.isnan(values)
    plain = bool(numeric[:-1].all())
    filled = int((codes != MISSING).sum())
    if not plain and (dates := _dates(name, cells)) is not None:
        return Column(name, codes, texts, "dates", *dates, len(texts))
    if plain or (int(numeric[codes].sum()) >= 0.8 * filled and numeric.sum() > 5):
        holds: Holds = "numbers" if plain else "numbers and text"
        distinct = np.unique(values[numeric]).tolist()
        return Column(name, codes, texts, holds, distinct[0], distinct[-1], len(distinct))
    few = len(texts) <= FEW_VALUES or len(texts) <= 0.02 * filled
    return Column(name, codes, texts, "categories" if few else "text", distinct=len(texts))


def _dates(name: str, cells: Columns) -> tuple[str, str] | None:
    try:
        times, _ = read_times(cells.codes[name], cells.names[name], cells.rows, name, "dates")
    except InputError:
        return None
    ends = np.nanmin(times), np.nanmax(times)
    return time_text(ends[0], "dates"), time_text(ends[1], "dates")


# --------------------------------------------------------------------------------------------------
# Which column of a table of visits is what: by its name, checked against what it holds.
#
# A guess is made only where one column fits best; where two fit equally well, or none does, the
# user is asked.

WORDS: dict[str, tuple[str, ...]] = {
    "id": (
        "patient", "id", "subject", "person", "customer", "client", "user", "animal", "machine",
        "unit", "case", "episode", "trajectory", "individual", "pid", "mrn", "field", "farm",
        "site", "stay",
    ),
    "time": (
        "date", "time", "datetime", "timestamp", "visit", "day", "week", "month", "when", "t",
        "charttime", "step", "hour", "year",
    ),
    "action": (
        "action", "treatment", "therapy", "intervention", "decision", "dose", "drug", "medication",
        "prescription", "rx", "control",
    ),
    "reward": ("reward", "outcome", "utility", "payoff", "profit", "qaly", "return", "points"),
    "terminal": ("terminal", "terminated", "done", "died", "dead", "death", "deceased"),
}  # fmt: skip
_MEANING = {
    "id": "whose visit a row is",
    "time": "when it was",
    "action": "what was done then",
    "reward": "how good it was",
}
END_KINDS = ("death", "died", "dead", "deceased", "terminal", "terminated")
MOST_MEASUREMENTS = 4
_TOKENS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def guess_roles(profile: Profile, given: Mapping[str, Any], source: str) -> dict[str, str]:
    """Column of id, time, action, and of reward and terminal where there are such.

    `given` are the roles that the user has named; the others are guessed.
    """
    out = {role: str(given[role]) for role in WORDS if given.get(role) is not None}
    taken = {out[role] for role in out if role != "terminal"}
    for role, meaning in _MEANING.items():
        if role in out or (role == "reward" and given.get("events") is not None):
            continue
        fits = _fitting(role, profile, taken)
        if len(fits) > 1:
            both = " and ".join(f"'{name}'" for name in fits)
            raise InputError(
                f"Which column of {source} says {meaning}? {both} both could. Say it with {role}, "
                f"for example {role}='{fits[0]}'.",
                arguments={role: f"'{fits[0]}'"},
            )
        if not fits and role != "reward":
            raise InputError(
                f"If {source} is a table of visits, one of its columns says {meaning}; none is "
                f"named so. The columns are {listed(list(profile.columns))}. Say which it is with "
                f"{role}.",
                arguments={role: "COLUMN"},
            )
        if fits:
            out[role] = fits[0]
            taken.add(fits[0])
    if "terminal" not in out:
        flags = [n for n in _fitting("terminal", profile, taken) if profile.columns[n].flags]
        if len(flags) == 1:
            out["terminal"] = flags[0]
    return out


def looks_like_visits(names: list[str]) -> bool:
    """Whether the names of columns have an id and a time, by the words for them."""
    return all(any(_score(role, name) for name in names) for role in ("id", "time"))


def _fitting(role: str, profile: Profile, taken: set[str]) -> list[str]:
    """The columns whose names fit a role best, and whose cells do not contradict it."""
    scores = {
        name: _score(role, name)
        for name, column in profile.columns.items()
        if name not in taken and _possible(role, column, profile.n_rows)
    }
    top = max(scores.values(), default=0)
    return [name for name, score in scores.items() if score == top and top > 0]


def _score(role: str, name: str) -> int:
    """3 if the name is one of the words, 2 if it begins or ends with one, 1 if one is in it."""
    plain = name.strip().casefold()
    tokens = [token.casefold() for token in _TOKENS.findall(name)]
    if plain in WORDS[role]:
        return 3
    if not tokens:
        return 0
    if tokens[0] in WORDS[role] or tokens[-1] in WORDS[role]:
        return 2
    return int(any(token in WORDS[role] for token in tokens))


def _possible(role: str, column: Column, n_rows: int) -> bool:
    if role == "id":
        return column.holds != "dates" and 0 < len(column.texts) <= max(1, n_rows - 1)
    if role == "time":
        return column.holds in ("dates", "numbers")
    if role == "reward":
        return column.holds.startswith("numbers")
    return column.holds not in ("nothing", "dates")


def guess_measurements(profile: Profile, roles: Mapping[str, Any], source: str) -> list[str]:
    """Columns that can describe the state."""
    taken = {roles[role] for role in ("id", "time", "action", "reward") if role in roles}
    taken.add(roles.get("terminal", "").partition("=")[0])
    chosen = [
        name
        for name, column in profile.columns.items()
        if name not in taken
        and column.holds not in ("nothing", "dates", "text")
        and len(column.texts) > 1
    ]
    if not chosen:
        raise InputError(
            f"No column of {source} is left to describe the state, beside {', '.join(taken)}. Say "
            "which do with measurements.",
            arguments={"measurements": ""},
        )
    if len(chosen) > MOST_MEASUREMENTS:
        raise InputError(
            f"{len(chosen)} columns of {source} could describe the state ({','.join(chosen)}), and "
            "together they would make more states than the log can teach about. Say which few "
            f"matter for the decision, for example measurements={chosen[:2]}.",
            arguments={"measurements": ",".join(chosen[:2])},
        )
    return chosen
