"""What is in a file of data, what is suspicious, and what to run next, as facts.

Nothing that is suspicious is an error: it is what a careful person would ask about before believing
a number computed from it. Choices for a table of visits that the user has not made are guessed,
tried, and kept if needed; each is a setting of `TrajectoryRules`, so that the next command can say
them all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from softrobust._core.files import write_csv
from softrobust._core.notes import Ledger, Note
from softrobust.data.columns import LOG_ROLES, MISSING, parse_flag, resolve_columns
from softrobust.data.log import TransitionLog
from softrobust.data.markov import markov_check
from softrobust.data.profile import (
    END_KINDS,
    Profile,
    alike,
    guess_measurements,
    guess_roles,
    no_numbers,
    odd_numbers,
    profile_table,
)
from softrobust.data.readers import read_log, save_log, write_log_csv
from softrobust.data.table import Table, opened
from softrobust.data.visit_rows import event_columns, refuse_absent
from softrobust.data.visit_rules import TrajectoryRules
from softrobust.data.visit_states import MOST_VALUES
from softrobust.data.visits import Trajectories, trajectories_of
from softrobust.errors import InputError

GAMMA = 0.95
FEW = 5  # a pair seen less often is known vaguely, and an action is rare
MOST_STATES, MOST_ACTIONS = 24, 8
GUESSED_BINS = 4
OFF = "none"


@final
class Step(NamedTuple):
    """A command to run next: what for, its verb, its file and its options by name."""

    code: str
    verb: str
    file: str
    options: Mapping[str, Any]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """All that is known of a file; `softrobust.report.inspection` has the words.

    `kind` is "log", "visits", "models", "problem", "run", …; `facts` are plain values and notes,
    `findings` what is suspicious, `steps` commands to run next, each of which works as it stands;
    `blocked` says why the file cannot be solved as it is, and what to do.
    """

    source: str
    kind: str
    facts: dict[str, Any] = field(default_factory=dict)
    findings: Sequence[Note] = ()
    steps: Sequence[Step] = ()
    blocked: InputError | None = None


def solve_step(path: str, **options: Any) -> Step:
    """Solve a file, into a folder that does not exist yet."""
    given = {name: value for name, value in options.items() if value is not None}
    return Step("solve", "solve", path, given | {"out": free_name("run")})


def free_name(name: str) -> str:
    """The name, or one with a number, that no file has yet in the folder of the user."""
    path, n = Path(name), 1
    while path.exists():
        n += 1
        path = Path(name).with_name(f"{Path(name).stem}-{n}{Path(name).suffix}")
    return str(path)


# --------------------------------------------------------------------------------------------------
# A log of transitions.


def inspect_log(table: Table, columns: Mapping[str, str] | None = None) -> Inspection:
    """Read a log and say what it holds; one that cannot be read is gone through cell by cell."""
    path = str(table.path)
    try:
        log = read_log(table, columns=columns)
    except InputError as error:
        return _unreadable(table, columns, error)
    facts: dict[str, Any] = log_facts(log)
    if log.episode is not None:
        sizes = np.bincount(log.episode)
        facts["episodes"] = int(sizes.size)
        facts["lengths"] = [int(sizes.min()), float(np.median(sizes)), int(sizes.max())]
        facts["markov"] = markov_check(log).to_dict()
    blocked = None
    if log.rewards is None:
        blocked = InputError(
            f"{table.source} has no reward column, and a policy needs to know what is good. Add a "
            "column 'reward', or solve it with a reward table (state,action,reward)."
        )
    step = solve_step(path, columns=columns, gamma=GAMMA)
    return Inspection(
        source=table.source,
        kind="log",
        facts=facts | {"notes": log.notes},
        findings=log_findings(log),
        steps=() if blocked else (step,),
        blocked=blocked,
    )


def log_facts(log: TransitionLog) -> dict[str, Any]:
    """Sizes, rewards, how often each pair was seen and what was usually done, in numbers.

    A pair never seen has no estimate of its own, and one seen a few times has a vague one; both are
    where a policy that looks good may only be lucky. Counted are the states in which some action
    was seen; "(end)" and states that only end a log are none of them.
    """
    counts = log.pair_counts[~log.sinks]
    by_action = counts.sum(axis=0)
    order = np.argsort(-by_action, kind="stable")
    grid = None
    if counts.shape[0] <= MOST_STATES and log.n_actions <= MOST_ACTIONS:
        left = [log.states[int(s)] for s in np.flatnonzero(~log.sinks)]
        grid = dict(zip(left, counts.tolist(), strict=True))
    r = log.reward
    return {
        "visited": int(log.visited.sum()),
        "ends": None if log.end is None else int((log.s_next == log.end).sum()),
        "rewards": None if r is None else [float(r.min()), float(r.mean()), float(r.max())],
        "episodes": None,
        "coverage": {
            "rows": log.n_rows,
            "states": int(counts.shape[0]),
            "actions": log.n_actions,
            "pairs_seen": int((counts > 0).sum()),
            "pairs_never_seen": int((counts == 0).sum()),
            "pairs_seen_few": int(((counts > 0) & (counts < FEW)).sum()),
            "few": FEW,
            "action_names": list(log.actions) if grid is not None else None,
            "counts": grid,
        },
        "behaviour": {
            "states": int(counts.shape[0]),
            "actions": {log.actions[int(a)]: int(by_action[a]) for a in order},
            "rows_with_usual_action": int(counts.max(axis=1).sum()),
            "states_with_one_action": int(((counts > 0).sum(axis=1) == 1).sum()),
        },
    }


def log_findings(log: TransitionLog) -> Ledger:
    """All that is suspicious about a log."""
    ledger = Ledger()
    if log.episode is not None:
        # Rows of an episode that do not begin where the row before ended.
        order = np.argsort(log.episode, kind="stable")
        first, second = order[:-1], order[1:]
        same = log.episode[first] == log.episode[second]
        ended = same & (log.s_next[first] == (MISSING if log.end is None else log.end))
        ledger.add("rows_after_end", log.rows, second[ended])
        torn = same & ~ended & (log.s_next[first] != log.s[second])
        ledger.add("torn", log.rows, second[torn])
    if log.reward is not None:
        for code, places, facts in odd_numbers(log.reward):
            ledger.add(code, log.rows, places, column=None, **facts)
    ledger += _doubts(log)
    return ledger


def _doubts(log: TransitionLog) -> Ledger:
    """What is suspicious about the rewards, states and actions of a log as a whole."""
    ledger = Ledger()
    if log.reward is not None and log.n_rows > 1 and np.ptp(log.reward) == 0:
        ledger.say("equal_rewards", n_rows=log.n_rows)
    for noun, labels in (("states", log.states), ("actions", log.actions)):
        for twins in alike(labels):
            ledger.say("alike", noun=noun, names=list(twins))
    if log.n_actions == 1:
        ledger.say("one_action", action=log.actions[0])
    times = log.pair_counts.sum(axis=0)
    rare = np.flatnonzero((times > 0) & (times < FEW))
    if rare.size and log.n_actions > 1:
        names = [log.actions[int(a)] for a in rare]
        ledger.say("rare_actions", actions=names, fewer_than=FEW)
    if log.n_actions > 50:
        ledger.say("many_actions", actions=log.n_actions)
    if log.n_rows > 10 and 3 * int(log.visited.sum()) > log.n_rows:
        ledger.say("many_states", states=int(log.visited.sum()), n_rows=log.n_rows)
    return ledger


def _unreadable(table: Table, columns: Mapping[str, str] | None, error: InputError) -> Inspection:
    """List every bad cell of a text table; what has no cells to list is the error itself."""
    if table.kind == "npz":
        raise error
    profile = profile_table(table)
    ledger = profile.findings(())
    try:
        position = resolve_columns(table.names, LOG_ROLES, columns, table.source)
    except InputError:
        raise error from None
    for role, place in position.items():
        column = profile.columns.get(table.names[place])
        if column is None:
            continue
        if role == "terminal":
            odd = [i for i, text in enumerate(column.texts) if parse_flag(text) is None]
            places = np.flatnonzero(np.isin(column.codes, odd))
            ledger.add("no_flags", profile.rows, places, column=column.name)
        if role == "reward":
            no_numbers(column, profile.rows, ledger)
        missing = np.flatnonzero(column.codes == MISSING)
        ledger.add("empty_cells", profile.rows, missing, column=column.name, role=role)
    if not ledger:
        raise error
    return Inspection(
        source=table.source,
        kind="log",
        facts={"columns": {name: column.to_dict() for name, column in profile.columns.items()}},
        findings=ledger,
        blocked=error,
    )


# --------------------------------------------------------------------------------------------------
# A table of visits.

# What lets a messy table through, and the finding that shows that it was needed.
_LENIENT = {
    "missing_measurement": ("carry", {"carried_cells", "missing_cells"}),
    "missing_rows": ("drop", {"rows_incomplete"}),
    "duplicates": ("last", {"same_time"}),
    "after_end": ("drop", {"visits_after_end"}),
    "missing_reward": ("drop", {"lost_reward"}),
}


@final
class Choices(NamedTuple):
    """How a table of visits is read: the rules, what they give, and which of them were guesses.

    `made` is None, and `blocked` says why, where no log can be made yet.
    """

    profile: Profile
    events: Profile | None
    rules: TrajectoryRules
    made: Trajectories | None
    guesses: tuple[Note, ...]
    blocked: InputError | None = None


def choose_rules(table: Table, given: Mapping[str, Any]) -> Choices:
    """Fill in what the user has not said about a table of visits, and read it.

    `given` has settings of `TrajectoryRules`, None where the user said nothing; "none" turns a
    guess off.
    """
    profile = profile_table(table)
    off = {name for name in ("terminal", "grid", "reward") if given.get(name) == OFF}
    named = {name: value for name, value in given.items() if value is not None and name not in off}
    roles = [named[role] for role in ("id", "time", "action", "reward") if role in named]
    for name in (*roles, *named.get("measurements", ())):
        refuse_absent(name, [*profile.columns, *profile.twice])
        if name in profile.twice:
            raise InputError(
                f"The column '{name}' stands there twice in {table.source}. Rename one of the two."
            )
    chosen: dict[str, Any] = dict(named)
    guesses: list[Note] = []
    for role, column in guess_roles(profile, named, table.source).items():
        if role not in off and role not in named:
            chosen[role] = column
            guesses.append(Note("guessed_role", facts={"role": role, "column": column}))
    if "measurements" not in named:
        chosen["measurements"] = guess_measurements(profile, chosen, table.source)
    columns = [profile.columns[name] for name in chosen["measurements"]]
    numbers = [column for column in columns if column.holds.startswith("numbers")]
    many = [column.name for column in numbers if len(column.texts) > MOST_VALUES]
    if many and "bins" not in named:
        chosen["bins"] = dict.fromkeys(many, GUESSED_BINS)
        guesses.append(Note("guessed_bins", facts={"columns": many, "bins": GUESSED_BINS}))
    events = None
    if isinstance(chosen.get("events"), (str, Path)):
        with opened(chosen["events"]) as other:
            events = profile_table(other)
        if "terminal" not in chosen and "terminal" not in off:
            _guess_end(events, chosen, guesses)
    for name, (lenient, _) in _LENIENT.items():
        chosen.setdefault(name, lenient)
    try:
        made = _with_grid(profile, events, chosen, off, guesses)
    except InputError as error:
        strict = {name: value for name, value in chosen.items() if name not in _LENIENT}
        rules = TrajectoryRules(**(strict | named))
        return Choices(profile, events, rules, None, tuple(guesses), error)
    # Lenient choices that nothing needed are left out.
    codes = {note.code for note in made.report.findings}
    codes |= {f"lost_{reason}" for reason in made.report.lost}
    for name, (_, signs) in _LENIENT.items():
        if name not in named and not codes & signs:
            del chosen[name]
    return Choices(profile, events, TrajectoryRules(**chosen), made, tuple(guesses))


def _guess_end(events: Profile, chosen: dict[str, Any], guesses: list[Note]) -> None:
    """An event whose kind is a word for death marks the end."""
    names = ("id", "time", "action", "events", "events_columns")
    rules = TrajectoryRules(**{name: chosen[name] for name in names if name in chosen})
    column = event_columns(list(events.columns), rules).get("kind")
    kinds = () if column is None else events.columns[column].texts
    ends = [kind for kind in kinds if kind.casefold() in END_KINDS]
    if len(ends) == 1:
        chosen["terminal"] = f"kind={ends[0]}"
        guesses.append(Note("guessed_end", facts={"kind": ends[0]}))


def _with_grid(
    profile: Profile,
    events: Profile | None,
    chosen: dict[str, Any],
    off: set[str],
    guesses: list[Note],
) -> Trajectories:
    """Read the visits; on a regular grid if they are irregular and the user has said nothing."""

    def read(**more: Any) -> Trajectories:
        rules = TrajectoryRules(**(chosen | more))
        return trajectories_of(profile.cells, rules, None if events is None else events.cells)

    made = read()
    gaps = made.report.gaps
    if "grid" in chosen or "grid" in off or gaps is None or gaps.regular:
        return made
    again = read(grid=gaps.step)
    before, after = made.log.n_rows, again.log.n_rows
    if after < 0.5 * before:
        facts = {"grid": gaps.step, "n_lost": before - after, "n_rows": before}
        guesses.append(Note("no_grid", facts=facts))
        return made
    chosen["grid"] = gaps.step
    guesses.append(Note("guessed_grid", facts={"grid": gaps.step}))
    return again


def inspect_visits(
    table: Table,
    given: Mapping[str, Any],
    write_log_to: str | Path | None = None,
    save_bins_to: str | Path | None = None,
    force: bool = False,
) -> Inspection:
    """Say all there is to say, and write the log and the bins if the user wants them."""
    choices = choose_rules(table, given)
    rules, profile, made = choices.rules, choices.profile, choices.made
    names = [*(rules.measurements or ()), rules.action, rules.reward]
    findings = profile.findings([name for name in names if name in profile.columns])
    taken = {rules.terminal_pair[0]: "terminal"} if rules.terminal else {}
    taken |= {getattr(rules, role): role for role in ("reward", "action", "time", "id")}
    taken |= dict.fromkeys(rules.measurements or (), "state")
    facts: dict[str, Any] = {
        "rows": profile.n_rows,
        "columns": {
            name: column.to_dict() | {"taken_as": taken.get(name)}
            for name, column in profile.columns.items()
        },
        "guesses": choices.guesses,
    }
    if made is None:
        return Inspection(
            source=table.source, kind="visits", facts=facts, findings=findings,
            blocked=choices.blocked,
        )  # fmt: skip
    start = _write(made, write_log_to, save_bins_to, force)
    findings += made.report.findings
    if choices.events is not None:
        columns = event_columns(list(choices.events.columns), rules)
        odd = [columns[role] for role in ("reward", "kind") if role in columns]
        findings += choices.events.findings(odd)
    findings += [note for note in _doubts(made.log) if note.code != "alike"]
    facts |= log_facts(made.log) | {
        "rules": rules,
        "trajectories": made.report.to_dict(),
        "chains": 0 if made.log.episode is None else int(made.log.episode.max()) + 1,
        "markov": markov_check(made.log, made.who).to_dict(),
    }
    blocked = None
    if made.log.rewards is None:
        blocked = InputError(
            f"{table.source} says what was done but not how good it was: no column was taken for "
            "the reward. Name it with reward, or give a table of rewards by id and time, events.",
            arguments={"reward": "COLUMN", "events": "FILE"},
        )
    return Inspection(
        source=table.source,
        kind="visits",
        facts=facts,
        findings=findings,
        steps=() if blocked else _steps(str(table.path), choices, made, write_log_to, start),
        blocked=blocked,
    )


def _write(
    made: Trajectories, log: str | Path | None, bins: str | Path | None, force: bool
) -> dict[str, str]:
    """Write log and bins; return the options that solving the log needs.

    A log goes to .parquet, .npz (both complete) or .csv with its p₀ beside it.
    """
    if bins is not None and made.bins is None:
        raise InputError("There are no bins to save: no measurement is cut into intervals.")
    path = None if log is None else Path(log)
    suffix = "" if path is None else path.suffix.casefold()
    if path is not None and suffix not in (".csv", ".parquet", ".npz"):
        raise InputError(
            f"A log is written as .csv, .parquet or .npz: got the name '{path.name}'. Choose one "
            "of these endings."
        )
    start = path.with_name(f"{path.stem}_initial.csv") if path and suffix == ".csv" else None
    for target in (bins, path, start):
        if target is not None and Path(target).exists() and not force:
            raise InputError(
                f"The file {target} exists already. Choose another name, or force it to be "
                "replaced.",
                arguments={"force": ""},
            )
    if bins is not None and made.bins is not None:
        made.bins.save(bins)
    if path is not None and start is None:
        save_log(made.log, path)
    if path is None or start is None:
        return {}
    write_log_csv(made.log, path)
    likely = np.flatnonzero(made.log.p0)
    names = [made.log.states[int(s)] for s in likely]
    write_csv(start, {"state": names, "probability": made.log.p0[likely].tolist()})
    return {"initial": str(start)}


def _steps(
    path: str, choices: Choices, made: Trajectories, log: str | Path | None, start: dict[str, str]
) -> tuple[Step, ...]:
    """Write the transitions, unless that is done, and solve them."""
    solving = start | {"gamma": GAMMA}
    if log is not None:
        return (solve_step(str(log), **solving),)
    stem = Path(path).name.split(".")[0]
    target = free_name(f"{stem}_log.parquet")
    options = choices.rules.given() | {"write_log": target}
    if made.bins is not None and not isinstance(choices.rules.bins, (str, Path)):
        options["save_bins"] = free_name(f"{stem}_bins.npz")
    return (Step("write_log", "inspect", path, options), solve_step(target, **solving))
