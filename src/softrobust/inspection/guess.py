"""Which column of a table of visits is what: by its name, checked against what it holds.

A guess is made only where one column fits best; where two fit equally well, or none does, the user
is asked, with the flag to answer.
"""

import re
from collections.abc import Mapping
from typing import Any

from softrobust.errors import InputError
from softrobust.inspection.profile import Column, Profile

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
