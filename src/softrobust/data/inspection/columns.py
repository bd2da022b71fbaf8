"""Columns of a table as a person sees them: what each holds, what is missing, what is odd."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, final

import numpy as np

from softrobust._core.arrays import CodeArray, FloatArray, Rows
from softrobust.data.coding import MISSING, parse_flag
from softrobust.data.columns import Role
from softrobust.data.inspection.findings import alike, odd_numbers
from softrobust.data.table import read_table, table_columns
from softrobust.data.visit_report import Ledger
from softrobust.data.visit_rules import NUMBER, read_times, time_text
from softrobust.errors import InputError

Holds = Literal["nothing", "numbers", "dates", "categories", "text", "numbers and text"]
FEW_VALUES = 30


@final
@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One column.

    Attributes
    ----------
    codes : (n,) int32
        Positions in `texts`; -1 where a cell is missing.
    texts : tuple of str
        Distinct texts, in order of appearance.
    holds : str
        What the texts are.
    words : str
        The same for a person, with range or examples.
    """

    name: str
    codes: CodeArray
    texts: tuple[str, ...]
    holds: Holds
    words: str

    @property
    def n_missing(self) -> int:
        """Cells that are missing."""
        return int((self.codes == MISSING).sum())

    @property
    def flags(self) -> bool:
        """Whether every cell is true or false (1 and 0, yes and no)."""
        return bool(self.texts) and all(parse_flag(text) is not None for text in self.texts)

    @property
    def numbers(self) -> FloatArray:
        """The numbers, NaN where a cell is missing or no number, (n,)."""
        values = [float(text) if NUMBER.fullmatch(text) else np.nan for text in self.texts]
        return np.array([*values, np.nan])[self.codes]

    @property
    def not_numbers(self) -> CodeArray:
        """Codes of texts that are no numbers."""
        return np.array(
            [i for i, text in enumerate(self.texts) if not NUMBER.fullmatch(text)], dtype=np.int32
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """All columns of a table."""

    columns: dict[str, Column]
    rows: Rows
    n_rows: int
    twice: tuple[str, ...] = ()

    def findings(self, names: Sequence[str]) -> Ledger:
        """What is odd in the named columns."""
        ledger = Ledger()
        for name in names:
            column = self.columns[name]
            if column.holds == "numbers and text":
                places = np.flatnonzero(np.isin(column.codes, column.not_numbers))
                shown = ", ".join(f"'{column.texts[i]}'" for i in column.not_numbers[:3])
                words = f"{{cell|cells}} of '{name}' {{is no number|are no numbers}} ({shown})"
                ledger.add(f"no_number_{name}", words, self.rows, places)
            if column.holds.startswith("numbers"):
                for odd, places in odd_numbers(column.numbers):
                    words = f"{{value|values}} of '{name}' {odd}"
                    ledger.add(f"odd_{name}", words, self.rows, places)
            if column.holds == "categories":
                for twins in alike(column.texts):
                    listed = " and ".join(f"'{twin}'" for twin in twins)
                    words = f"values of '{name}' differ only in case or signs: {listed}"
                    rare = min(
                        twins, key=lambda t: int((column.codes == column.texts.index(t)).sum())
                    )
                    places = np.flatnonzero(column.codes == column.texts.index(rare))
                    ledger.add(f"alike_{name}", words, self.rows, places, n=len(twins))
        for name in self.twice:
            ledger.count("column_twice", 2, f"or more columns are called '{name}'")
        return ledger


def profile_table(path: Path) -> Profile:
    """Read every column of a table as text, and say what it holds."""
    found = [name.strip() for name in table_columns(path)]
    twice = tuple(dict.fromkeys(name for name in found if name and found.count(name) > 1))
    names = [name for name in found if name and name not in twice]
    if not names:
        raise InputError(
            f"The first row of {path.name} must name the columns: it names none. Add a header."
        )
    roles = [Role(f"column {i}", (name,), "label", f"column {i}") for i, name in enumerate(names)]
    table = read_table(path, roles, {f"column {i}": name for i, name in enumerate(names)})
    columns = {}
    for i, name in enumerate(names):
        texts = tuple(table.names[f"column {i}"])
        columns[name] = _column(name, table.codes[f"column {i}"], texts, table.rows)
    n_rows = next(iter(columns.values())).codes.size
    return Profile(columns, table.rows, n_rows, twice)


def _column(name: str, codes: CodeArray, texts: tuple[str, ...], rows: Rows) -> Column:
    numeric = np.array([bool(NUMBER.fullmatch(text)) for text in texts] + [False])
    filled = int((codes != MISSING).sum())
    holds: Holds
    if not texts:
        holds, words = "nothing", "nothing: every cell is empty"
    elif numeric[:-1].all():
        values = sorted({float(text) for text in texts})
        holds, words = "numbers", _range(values)
    elif (dates := _dates(codes, texts, rows, name)) is not None:
        holds, words = "dates", dates
    elif int(numeric[codes].sum()) >= 0.8 * filled and numeric.sum() > 5:
        holds = "numbers and text"
        values = sorted({float(text) for text in texts if NUMBER.fullmatch(text)})
        words = f"{_range(values)}, and text"
    elif len(texts) <= FEW_VALUES or len(texts) <= 0.02 * filled:
        holds, words = "categories", f"{len(texts)} values: {_examples(texts)}"
    else:
        holds, words = "text", f"{len(texts)} different texts: {_examples(texts)}"
    return Column(name, codes, texts, holds, words)


def _range(values: Sequence[float]) -> str:
    if len(values) == 1:
        return f"the number {values[0]:g} throughout"
    return f"numbers {values[0]:g} to {values[-1]:g}, {len(values)} different"


def _examples(texts: Sequence[str], most: int = 4) -> str:
    shown = ", ".join(text if len(text) <= 24 else f"{text[:23]}…" for text in texts[:most])
    return shown + (" …" if len(texts) > most else "")


def _dates(codes: CodeArray, texts: tuple[str, ...], rows: Rows, name: str) -> str | None:
    try:
        times = read_times(codes, list(texts), rows, name, "dates").values
    except InputError:
        return None
    low, high = (time_text(float(f(times)), "dates") for f in (np.nanmin, np.nanmax))
    return f"dates {low} to {high}"


# --------------------------------------------------------------------------------------------------
# Which column of a table of visits is what: by its name, checked against what it holds.
#
# A guess is made only where one column fits best; where two fit equally well, or none does, the
# user is asked, with the flag to answer.

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
END_KINDS = ("death", "died", "dead", "deceased", "terminal", "terminated")
MOST_MEASUREMENTS = 4
_TOKENS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def guess_roles(profile: Profile, given: Mapping[str, Any], source: str) -> dict[str, str]:
    """Column of id, time, action, and of reward and terminal where there are such.

    `given` are the roles that the user has settled; the others are guessed.
    """
    out = {role: str(given[role]) for role in WORDS if given.get(role) is not None}
    taken = {out[role] for role in out if role != "terminal"}
    for role in ("id", "time", "action"):
        if role not in out:
            out[role] = _best(role, profile, taken, source)
            taken.add(out[role])
    if "reward" not in out and given.get("events") is None:
        fits = _fitting("reward", profile, taken)
        if len(fits) > 1:
            raise _ask("reward", fits, source)
        if fits:
            out["reward"] = fits[0]
            taken.add(fits[0])
    if "terminal" not in out:
        flags = [n for n in _fitting("terminal", profile, taken) if profile.columns[n].flags]
        if len(flags) == 1:
            out["terminal"] = flags[0]
    return out


def looks_like_visits(names: list[str]) -> bool:
    """Whether the names of columns have an id and a time, by the words for them."""
    return all(any(_score(role, name) for name in names) for role in ("id", "time"))


def _best(role: str, profile: Profile, taken: set[str], source: str) -> str:
    fits = _fitting(role, profile, taken)
    if len(fits) == 1:
        return fits[0]
    raise _ask(role, fits, source, profile)


def _ask(role: str, fits: list[str], source: str, profile: Profile | None = None) -> InputError:
    meaning = {
        "id": "whose visit a row is",
        "time": "when it was",
        "action": "what was done then",
        "reward": "how good it was",
    }[role]
    if fits:
        listed = " and ".join(f"'{name}'" for name in fits)
        return InputError(
            f"Which column of {source} says {meaning}? {listed} both could. Say it with "
            f"--{role}, for example --{role} '{fits[0]}'."
        )
    names = [] if profile is None else list(profile.columns)
    listed = ", ".join(f"'{name}'" for name in names)
    return InputError(
        f"If {source} is a table of visits, one of its columns says {meaning}; none is named so. "
        f"The columns are {listed}. Say which it is with --{role} COLUMN."
    )


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


def guess_measurements(
    profile: Profile, roles: Mapping[str, Any], source: str
) -> tuple[list[str], dict[str, str]]:
    """Columns that can describe the state, and why each of the others cannot."""
    taken = {roles[role] for role in ("id", "time", "action", "reward") if role in roles}
    taken.add(roles.get("terminal", "").partition("=")[0])
    chosen, passed = [], {}
    for name, column in profile.columns.items():
        if name in taken:
            continue
        if column.holds in ("nothing", "dates", "text"):
            passed[name] = column.words
        elif len(column.texts) == 1:
            passed[name] = "the same everywhere"
        else:
            chosen.append(name)
    if not chosen:
        raise InputError(
            f"No column of {source} is left to describe the state, beside {', '.join(taken)}. Say "
            "which do with --measurements."
        )
    if len(chosen) > MOST_MEASUREMENTS:
        listed = ",".join(chosen)
        raise InputError(
            f"{len(chosen)} columns of {source} could describe the state ({listed}), and together "
            "they would make more states than the log can teach about. Say which few matter for "
            f"the decision, for example --measurements {','.join(chosen[:2])}."
        )
    return chosen, passed
