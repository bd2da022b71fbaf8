"""Which column of a table of visits is what: by its name, and by what it holds.

A guess is always made where anything fits, and what fits next best is said with it: a command that
runs is more easily corrected than an empty line. What a column holds goes before its name where the
two contradict each other: a time is not constant, an action is not a measurement of hundreds of
values unless it can be cut into bins.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from softrobust._core.arrays import CodeArray, FloatArray, IntArray
from softrobust._core.notes import Level, Note
from softrobust.data.columns import MISSING, joint_codes, listed, parse_flag
from softrobust.data.formula import reward_formula
from softrobust.data.profile import Column, Profile
from softrobust.data.table import ROW_NAMES
from softrobust.data.times import guess_form, read_times
from softrobust.data.visit_rows import event_columns
from softrobust.data.visit_rules import TrajectoryRules
from softrobust.errors import InputError

_TABLE = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
WORDS = {role: tuple(words.split()) for role, words in _TABLE["columns"].items()}
_CELLS = _TABLE["cells"]
END_KINDS, _EITHER = (tuple(_CELLS[kind].split()) for kind in ("end", "either"))
_GOOD = dict.fromkeys(_CELLS["good"].split(), 1.0) | dict.fromkeys(_CELLS["bad"].split(), 0.0)
_DEGREES = {word: -float(i) for i, row in enumerate(_CELLS["degrees"]) for word in row.split()}
MOST_MEASUREMENTS = 4
ACTION_BINS = 3
MOST_ACTIONS = 12
FEW_ROWS = 10  # of a pair of state and action, on average, below which a state is too fine
_LOOKED_AT = 50_000  # rows are enough to see what a column is like
_CUTS = 4
_WHAT = ("action", "reward", "measurements")
_FALLS = 0.002  # what falls more seldom than this from row to row tells the time
_DATED = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")
_TOKENS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@final
class Guess(NamedTuple):
    """What a role is taken to be, and what fits next best."""

    value: Any
    others: tuple[str, ...] = ()


@final
class Look:
    """The first rows of a profile by id, to see what varies within ids and what does not."""

    def __init__(self, profile: Profile, ids: Sequence[str]) -> None:
        self.profile, self.n = profile, min(profile.n_rows, _LOOKED_AT)
        parts = [self.codes(name) for name in ids]
        self.who = joint_codes(*parts) if parts else np.zeros(self.n, dtype=np.int64)
        self.order = np.argsort(self.who, kind="stable")
        self.same = self.who[self.order][1:] == self.who[self.order][:-1]

    def open(self, taken: set[str]) -> Iterator[tuple[str, Column]]:
        """Columns not taken yet, of a few or many values that are neither dates nor texts."""
        for name, column in self.profile.columns.items():
            fits = column.holds not in ("dates", "nothing", "text") and len(column.texts) > 1
            if fits and name not in taken:
                yield name, column

    def codes(self, name: str) -> CodeArray:
        """The codes of a column, -1 where a cell is missing."""
        return self.profile.columns[name].codes[: self.n]

    def changes(self, name: str) -> float:
        """How often a value differs from the one before of the same id, among those known."""
        codes = self.codes(name)[self.order]
        both = self.same & (codes[1:] != MISSING) & (codes[:-1] != MISSING)
        return float((codes[1:] != codes[:-1])[both].mean()) if both.any() else 0.0

    def grows(self, name: str) -> float:
        """How often a number or date is larger than the one before of the same id."""
        step = np.diff(self.values(name)[self.order])[self.same]
        return float((step > 0).mean()) if step.size else 0.0

    def ticks(self, name: str) -> bool:
        """Whether a number only ever grows within an id, as another clock does."""
        step = np.diff(self.values(name)[self.order])[self.same]
        return bool((step > 0).mean() > 0.5 and (step < 0).mean() < _FALLS) if step.size else False

    def values(self, name: str) -> FloatArray:
        """The numbers or times of a column."""
        column = self.profile.columns[name]
        if column.holds != "dates":
            return column.numbers[: self.n]
        form, _ = guess_form(column.codes, column.texts)
        return read_times(self.profile.cells, name, form=form).values[: self.n]

    def shared(self, time: str, *more: str) -> float:
        """The share of rows that have id (and more) and time in common with another, unlike it."""
        key = joint_codes(self.who, self.codes(time), *(self.codes(name) for name in more))
        return float((np.bincount(key)[key] > 1).mean()) if self.n else 0.0


def _score(role: str, name: str) -> int:
    """3 if the name is one of the words, 2 if it begins or ends with one, 1 if one is in it."""
    words = WORDS[role]
    # Maßnahme is massnahme: words stand in plain letters.
    bare = unicodedata.normalize("NFKD", name.replace("ß", "ss")).encode("ascii", "ignore").decode()
    tokens = [token.casefold() for token in _TOKENS.findall(bare)]
    if bare.strip().casefold() in words:
        return 3
    if not tokens:
        return 0
    if tokens[0] in words or tokens[-1] in words:
        return 2
    begins = any(token.startswith(word) for token in tokens for word in words if len(word) > 3)
    return int(begins or any(token in words for token in tokens))


def _ranked(scores: Mapping[str, float]) -> Guess | None:
    """The best of some columns, with up to two that come next."""
    order = sorted((name for name in scores if scores[name] > 0), key=lambda name: -scores[name])
    return Guess(order[0], tuple(order[1:3])) if order else None


def counts_rows(column: Column, n_rows: int) -> bool:
    """Whether a column only numbers the rows."""
    return column.name.casefold() in ROW_NAMES or (
        len(column.texts) == n_rows
        and n_rows > 2
        and column.holds == "numbers"
        and bool((np.diff(column.numbers) == 1).all())
    )


def guess_id(profile: Profile, taken: set[str]) -> Guess:
    """The column that says whose a row is; "none" where all rows are of one."""
    n = min(profile.n_rows, _LOOKED_AT)
    scores: dict[str, float] = {}
    usable = [name for name in profile.columns if name not in taken]
    for name in usable:
        column = profile.columns[name]
        values = column.numbers if column.holds == "numbers" else np.zeros(1)
        whole = bool((values[np.isfinite(values)] % 1 == 0).all())
        repeats = n / max(np.unique(column.codes[:n]).size, 1)
        if column.holds in ("dates", "nothing") or not whole or repeats < 1.2 or repeats >= n:
            continue
        if counts_rows(column, profile.n_rows) or (named := _score("id", name)) == 0:
            continue
        look = Look(profile, [name])
        fixed = sum(look.changes(other) < 0.02 for other in usable if other != name)
        scores[name] = 10 * named + fixed / (1 + len(usable)) + min(repeats, 50) / 1000
    return _ranked(scores) or Guess("none")


def guess_time(look: Look, taken: set[str]) -> Guess:
    """The column that says when; "none" where rows only stand in order."""
    scores = {}
    for name, column in look.profile.columns.items():
        if name in taken or len(column.texts) < 2:
            continue
        if column.holds not in ("dates", "numbers"):
            # Called a date, and mostly dates: reading it says which cell is none.
            dated = sum(_DATED.match(text.strip()) is not None for text in column.texts)
            if _score("time", name) == 3 and 2 * dated >= len(column.texts):
                scores[name] = 30.0
            continue
        if counts_rows(column, look.profile.n_rows) or look.changes(name) < 0.02:
            continue
        named, grows = _score("time", name), look.grows(name)
        if column.holds == "dates":
            named = max(named, 1)
        scores[name] = 10 * named + 5 * grows if named else 0.0
    return _ranked(scores) or Guess("none")


def complete_id(look: Look, time: str, taken: set[str]) -> tuple[str, float] | None:
    """The column with which rows share id and time no more, and the share that does without it."""
    if time == "none" or (share := look.shared(time)) < 0.05:
        return None
    found: dict[str, tuple[float, int, int]] = {}
    for name, column in look.profile.columns.items():
        if name in taken or column.holds in ("dates", "nothing") or len(column.texts) > look.n / 4:
            continue
        if len(column.texts) > 1 and (rest := look.shared(time, name)) < 0.2 * share:
            found[name] = (round(rest, 2), -_score("id", name), len(column.texts))
    best = min(found, key=lambda name: found[name], default=None)
    return None if best is None else (best, share)


def guess_action(look: Look, taken: set[str]) -> Guess | None:
    """The column that says what was done: a word for it, else a few values that change."""
    scores = {}
    for name, column in look.open(taken):
        few = column.distinct <= MOST_ACTIONS
        useless = not few and not column.holds.startswith("numbers")
        if useless or counts_rows(column, look.profile.n_rows):
            continue
        named, changes = _score("action", name), look.changes(name) > 0.02
        if named:
            scores[name] = 10.0 * named + 3 * few + 2 * changes
        elif few and changes and column.distinct <= 6 and not _score("harm", name):
            share = np.bincount(column.codes[column.codes != MISSING]) / max(column.codes.size, 1)
            share = share[share > 0]
            outcome = bool(_score("reward", name)) or _worth(column) is not None
            scores[name] = float(-(share * np.log(share)).sum()) * (0.1 if outcome else 1.0)
    return _ranked(scores)


def guess_follow_up(look: Look, time: str, taken: set[str]) -> tuple[Guess, str] | None:
    """The status with which each id ended, as column=value, and the column that says when."""
    if time == "none":
        return None
    columns = look.profile.columns
    fixed = [name for name in columns if name not in taken and look.changes(name) < 0.002]
    t, ends = look.values(time), []
    for name in fixed:
        column = columns[name]
        if column.holds == columns[time].holds and len(column.texts) > 2:
            late = look.values(name) >= t - 1e-9
            if _score("end_time", name) and late[np.isfinite(t)].mean() > 0.95:
                ends.append(name)
    status = [name for name in fixed if _score("status", name) or _score("terminal", name)]
    status = [name for name in status if 2 <= columns[name].distinct <= 4]
    if not ends or not status:
        return None
    texts = sorted(columns[status[0]].texts)
    words = [text for text in texts if text.casefold() in END_KINDS]
    last = words or texts[::-1]  # the usual codes: 0 alive, 1 censored or dead, 2 dead
    value = "true" if columns[status[0]].flags and not words else last[0]
    name = status[0] if value == "true" else f"{status[0]}={value}"
    others = [f"{status[0]}={text}" for text in last[1:] if text not in ("0", last[0])]
    return Guess(name, tuple(others)), max(ends, key=lambda end: _score("end_time", end))


def _worth(column: Column) -> dict[str, float] | None:
    """What categories are worth, where their own words say it."""
    if column.holds != "categories":
        return None
    for words in (_GOOD, _DEGREES):
        if len(column.texts) > 1 and all(text.casefold() in words for text in column.texts):
            if words is _DEGREES and {"yes", "no"} & {t.casefold() for t in column.texts}:
                continue
            return {text: words[text.casefold()] for text in column.texts}
    return None


def guess_reward(look: Look, taken: set[str]) -> Guess | None:
    """A column, mapping or formula that says how good it was; health is read in the next row."""
    scores, as_text = {}, {}
    for name, column in look.open(taken):
        good, bad, status = (_score(role, name) for role in ("reward", "harm", "status"))
        worth, quoted = _worth(column), _quoted(name)
        # A word of a column's values says more than the name of the column.
        score = max(good, bad) + 0.5 * (worth is not None) * (1 + status)
        if not score or (look.changes(name) < 0.02 and look.same.any()):
            continue
        if column.holds == "numbers" and column.distinct > 2:
            as_text[name] = name if good >= bad else f"-{quoted}"
        elif column.holds == "numbers":
            as_text[name] = f"{'' if good >= bad else '-'}next({quoted})"
        elif worth is not None or column.flags:
            size = 1 if good >= bad else -1
            worth = worth or {t: size * bool(parse_flag(t)) for t in column.texts}
            pairs = (f"{_quoted(text)}:{value:g}" for text, value in worth.items())
            as_text[name] = f"next({quoted})=" + ",".join(pairs)
        else:
            continue
        scores[name] = score
    best = _ranked(scores)
    if best is None:
        return None
    others = tuple(as_text[name] for name in best.others)
    if best.value.casefold() in _EITHER and as_text[best.value].isidentifier():
        others = (f"-{best.value}", *others)
    return Guess(as_text[best.value], others)


def _quoted(name: str) -> str:
    """A name as formulas write it."""
    if re.fullmatch(r"[^\W\d][\w.]*", name) and name not in ("next", "end"):
        return name
    return f"'{name}'" if "'" not in name else f'"{name}"'


def _effect(look: Look, action: str, name: str, later: bool) -> float | None:
    """How much more a number rises with other actions than the usual one, in deviations."""
    column = look.profile.columns[name]
    if column.holds != "numbers" or look.changes(name) < 0.02:
        return None
    acts = look.codes(action)[look.order]
    usual = np.bincount(acts[acts >= 0]).argmax()
    values = look.values(name)[look.order]
    step = np.where(look.same, np.diff(np.where(np.isfinite(values), values, np.nan)), np.nan)
    own = acts[1:] if later else acts[:-1]
    parts = [step[((own == usual) == same) & (own >= 0)] for same in (True, False)]
    parts = [part[np.isfinite(part)] for part in parts]
    spread = float(np.nanstd(step)) if np.isfinite(step).any() else 0.0
    if min(part.size for part in parts) < 5 or not spread > 0:
        return None
    return float(parts[1].mean() - parts[0].mean()) / spread


def guess_shift(look: Look, action: str, names: Sequence[str]) -> str | None:
    """A number that shows the effect of an action in the row of the action, and not in the next.

    An action that follows a measurement goes with it, too, but never so closely: that half of what
    varies in the steps of the number is due to the action of the row that ends them.
    """
    acts = look.codes(action)[look.order]
    usual = np.bincount(acts[acts >= 0]).argmax() if (acts >= 0).any() else 0
    for name in names:
        here, after = (_effect(look, action, name, later) for later in (True, False))
        if here is None or after is None:
            continue
        rare = float((acts != usual).mean())
        explained = [effect**2 * rare * (1 - rare) for effect in (here, after)]
        if explained[0] > 0.5 and explained[1] < 0.1 * explained[0]:
            return name
    return None


def guess_effect(
    look: Look, action: str, names: Sequence[str], later: bool = False
) -> Guess | None:
    """The number that actions move most, as a reward: people act to make things better.

    Where nothing says what is good, what other actions than the usual one bring about is taken for
    the better: the number that follows them, or its opposite.
    """
    found = {name: _effect(look, action, name, later) for name in names}
    effects = {n: x for n, x in found.items() if x is not None and not look.ticks(n)}
    best = _ranked({name: abs(effect) for name, effect in effects.items()})
    if best is None:
        return None
    signs = {name: "" if effect > 0 else "-" for name, effect in effects.items()}
    texts = [f"{signs[name]}next({_quoted(name)})" for name in (best.value, *best.others)]
    return Guess(texts[0], tuple(texts[1:]))


def guess_measurements(
    look: Look, taken: set[str], action: str, first: Sequence[str], source: str
) -> Guess:
    """Columns that can describe the state: all where they are few, else those that tell most.

    `first` are columns of the reward (or of the ends, where those are what counts): what it is
    counted on is part of the state where it varies.
    Told is how much a column has to do with what was done and with what the reward is counted on,
    and whether it changes; more than one column is taken as long as pairs of state and action are
    seen a few times each.
    """
    profile = look.profile
    chosen = [n for n, column in look.open(taken) if not counts_rows(column, profile.n_rows)]
    if not chosen:
        beside = ", ".join(sorted(filter(None, taken)))
        raise InputError(
            f"No column of {source} is left to describe the state, beside {beside}. Say "
            "which do with measurements.",
            arguments={"measurements": ""},
        )
    steady = [n for n in chosen if profile.columns[n].holds != "numbers" or not look.ticks(n)]
    chosen = steady or chosen  # another clock, such as the day of the study, is no state
    levels = {name: _levels(look, name) for name in chosen}
    acts = look.codes(action)
    n_actions = min(np.unique(acts[acts >= 0]).size, MOST_ACTIONS)

    def pairs(*names: str) -> float:
        return float(np.prod([np.unique(levels[name]).size for name in names])) * n_actions

    few = len(chosen) <= MOST_MEASUREMENTS and pairs(*chosen) * FEW_ROWS <= profile.n_rows
    if few or len(chosen) == 1:
        return Guess(chosen)
    aims = [_levels(look, name) for name in first]
    scores = {}
    for name in chosen:
        known = float((look.codes(name) != MISSING).mean())
        told = [_association(levels[name], acts), *(_association(levels[name], a) for a in aims)]
        scores[name] = (sum(told) + 0.3 * (look.changes(name) > 0.02)) * known
        if name in first:
            scores[name] += 10.0
    order = sorted(chosen, key=lambda name: -scores[name])
    picked: list[str] = []
    for name in order:
        fits = pairs(*picked, name) * FEW_ROWS <= profile.n_rows
        if not picked or (len(picked) < MOST_MEASUREMENTS and fits):
            picked.append(name)
    return Guess(picked, tuple(name for name in order if name not in picked)[:3])


def _levels(look: Look, name: str) -> IntArray:
    """A column as a few levels: its categories, or quarters of its numbers; 0 where missing."""
    column = look.profile.columns[name]
    codes = look.codes(name)
    if not column.holds.startswith("numbers") or column.distinct <= _CUTS + 2:
        return np.asarray(codes + 1, dtype=np.int64)
    values = look.values(name)
    cuts = np.unique(np.nanquantile(values, np.arange(1, _CUTS) / _CUTS))
    level = np.searchsorted(cuts, np.nan_to_num(values), side="right") + 1
    return np.asarray(np.where(np.isnan(values), 0, level), dtype=np.int64)


def _association(a: IntArray | CodeArray, b: IntArray | CodeArray) -> float:
    """Cramér's V² of two columns of codes, with what chance alone gives taken off."""
    x, y = (np.unique(codes, return_inverse=True)[1] for codes in (a, b))
    rows, columns = int(x.max()) + 1, int(y.max()) + 1
    if min(rows, columns) < 2:
        return 0.0
    table = np.bincount(x * columns + y, minlength=rows * columns).reshape(rows, columns)
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / x.size
    phi = float(((table - expected) ** 2 / expected).sum()) / x.size
    return max(0.0, phi - (rows - 1) * (columns - 1) / x.size) / (min(rows, columns) - 1)


# -- all of them together ----------------------------------------------------------------------


@final
class Guesses:
    """What the user has `chosen` for a table of visits, filled up with guesses but for `off`."""

    def __init__(
        self, profile: Profile, chosen: Mapping[str, Any], off: set[str], source: str
    ) -> None:
        self.profile, self.chosen, self.off, self.source = profile, dict(chosen), off, source
        self.notes: list[Note] = []

    def open(self, *names: str) -> bool:
        """Whether nothing was said of any of these."""
        return not {*names} & {*self.chosen, *self.off}

    def note(self, code: str, level: Level = Level.INFO, **facts: Any) -> None:
        """Say what was guessed."""
        self.notes.append(Note(code, level, facts))

    def _take(self, role: str, guess: Guess | None) -> None:
        if guess is not None:
            self.chosen[role] = guess.value
            self.note("guessed_role", role=role, column=guess.value, others=list(guess.others))

    def _taken(self, *roles: str) -> set[str]:
        values = (self.chosen.get(role, ()) for role in roles)
        return {n for value in values for n in ((value,) if isinstance(value, str) else value)}

    def columns(self) -> None:
        """Which columns are what: whose, when, how it ended, what was done, how good, what else."""
        chosen, profile = self.chosen, self.profile
        if "id" not in chosen:
            self._take("id", guess_id(profile, self._taken("time", *_WHAT)))
        ids = [name for name in self._taken("id") if name in profile.columns]
        look = Look(profile, ids)
        if "time" not in chosen:
            self._take("time", guess_time(look, self._taken("id", *_WHAT)))
        look = self._whole_id(look, ids)
        rest = self._taken("id", "time", "action", "measurements")
        if chosen["time"] in profile.columns:
            self._dates(profile.columns[chosen["time"]])
        if self.open("terminal", "end_time"):
            found = guess_follow_up(look, chosen["time"], rest)
            if found is not None:
                chosen["end_time"] = found[1]
                self._take("terminal", found[0])
        if self.open("terminal"):  # true and false, named as a true end
            flags = [n for n, column in profile.columns.items() if column.flags and n not in rest]
            self._take("terminal", _ranked({name: _score("terminal", name) for name in flags}))
        ends = {str(chosen.get("terminal", "")).partition("=")[0], chosen.get("end_time", "")}
        if "action" not in chosen:
            self._action(look, rest | ends)
        self._rest(look, self._taken("id", "time", "action") | ends)

    def _whole_id(self, look: Look, ids: list[str]) -> Look:
        """Another column makes the id whole where rows share id and time without it."""
        rest = self._taken("id", "time", *_WHAT)
        more = complete_id(look, self.chosen["time"], rest) if len(ids) < 2 else None
        if more is None:
            return look
        others = [note for note in self.notes if note["role"] != "id"]
        guessed = len(others) < len(self.notes)
        if not ids:
            self.notes = others
            self._take("id", Guess(more[0]))
            return Look(self.profile, [more[0]])
        if guessed:
            self.chosen["id"], self.notes = (ids[0], more[0]), others
        facts = {"id": ids[0], "column": more[0], "share": more[1], "done": guessed}
        self.notes.insert(0, Note("split_id", Level.CAUTION, facts))
        return Look(self.profile, self.chosen["id"]) if guessed else look

    def _action(self, look: Look, taken: set[str]) -> None:
        self._take("action", guess_action(look, taken))
        if "action" not in self.chosen:
            raise InputError(
                f"If {self.source} is a table of visits, one of its columns says what was done "
                "then; none can be told. The columns are "
                f"{listed(list(self.profile.columns))}. Say which it is with action.",
                arguments={"action": "COLUMN"},
            )
        # A column that is named as what was done and has one value: nothing was chosen by it.
        rest = self.profile.columns.keys() - self._taken("id", "time")
        one = (c for c in self.profile.columns.values() if len(c.texts) == 1 and c.name in rest)
        if (same := next((c for c in one if _score("action", c.name) > 1), None)) is not None:
            facts = {"column": same.name, "value": same.texts[0], "action": self.chosen["action"]}
            self.note("constant_action", Level.CAUTION, **facts)

    def _rest(self, look: Look, taken: set[str]) -> None:
        """Bins of actions, rewards and measurements."""
        chosen, action, columns = self.chosen, self.chosen["action"], self.profile.columns
        dose = columns[action].holds.startswith("numbers") and columns[action].distinct
        if dose > MOST_ACTIONS and "action_bins" not in chosen:
            chosen["action_bins"] = ACTION_BINS
            self.note("guessed_bins", columns=[action], bins=ACTION_BINS)
        others = [name for name in columns if name not in taken]
        moved = None if "action_at" in chosen else guess_shift(look, action, others)
        if moved is not None:
            chosen["action_at"] = "end"
            self.note("guessed_shift", Level.CAUTION, action=action, column=moved)
        if self.open("reward", "events", "cost"):
            self._take("reward", guess_reward(look, taken))
            if "reward" not in chosen:
                reward = Guess("1 - end") if "terminal" in chosen else None
                at_end = chosen.get("action_at") == "end"
                reward = reward or guess_effect(look, action, others, at_end)
                if reward is not None:
                    chosen["reward"], facts = reward.value, {"others": list(reward.others)}
                    self.note("guessed_reward", Level.CAUTION, reward=reward.value, **facts)
        if "measurements" not in chosen:
            reward = chosen.get("reward")
            formula = None if reward is None else reward_formula(reward, list(columns))
            first = () if formula is None else formula.columns
            if not first and "terminal" in chosen:
                first = (chosen["terminal"].partition("=")[0],)
            own = {reward} if reward in columns else set()
            guess = guess_measurements(look, taken | own, action, first, self.source)
            chosen["measurements"] = guess.value
            if guess.others:
                self._take("measurements", guess)

    def _dates(self, column: Column) -> None:
        """Say how dates are written, where that is not ISO."""
        if "dates" in self.chosen or column.holds != "dates":
            return
        form, other = guess_form(column.codes, column.texts)
        if form not in ("iso", "month"):
            self.chosen["dates"] = form
            facts = {"form": form, "example": column.texts[0], "other": other}
            self.note("guessed_dates", Level.CAUTION, column=column.name, **facts)

    def end_of(self, events: Profile) -> None:
        """An event whose kind is a word for death marks the end."""
        names = ("id", "time", "action", "events", "events_columns")
        rules = TrajectoryRules(**{n: self.chosen[n] for n in names if n in self.chosen})
        column = event_columns(list(events.columns), rules).get("kind")
        kinds = () if column is None else events.columns[column].texts
        ends = [kind for kind in kinds if kind.casefold() in END_KINDS]
        if len(ends) == 1:
            self.chosen["terminal"] = f"kind={ends[0]}"
            self.note("guessed_end", kind=ends[0])
