"""What is in a file of data, what is suspicious, and what to run next, as facts.

Nothing that is suspicious is an error: it is what a careful person would ask about before believing
a number computed from it. Choices for a table of visits that the user has not made are guessed,
tried, and kept if needed; each is a setting of `TrajectoryRules`, so that the next command can say
them all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from softrobust._core.files import numbered, write_csv
from softrobust._core.notes import Ledger, Level, Note
from softrobust.data import columns as cols
from softrobust.data.guesses import Guesses
from softrobust.data.log import TransitionLog
from softrobust.data.markov import markov_check, shifted_actions
from softrobust.data.profile import Profile, alike, no_numbers, odd_numbers, profile_table
from softrobust.data.readers import read_log, save_log, write_log_csv
from softrobust.data.table import Table, opened
from softrobust.data.visit_rows import event_columns
from softrobust.data.visit_rules import TrajectoryRules
from softrobust.data.visit_states import MOST_VALUES
from softrobust.data.visits import Trajectories, trajectories_of
from softrobust.errors import InputError

GAMMA = 0.95
FEW = 5  # a pair seen less often is known vaguely, and an action is rare
MOST_SHOWN = 24, 8  # states and actions of which counts are shown
GUESSED_BINS = 4
OFF = "none"
DECISIVE = ("id", "time", "action", "measurements")  # who names one of these has visits


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
    """Solve a file, into a folder that does not exist yet: run, or run-2, run-3, …"""
    given = {name: value for name, value in options.items() if value is not None}
    out = next(name for name in numbered("run") if not Path(name).exists())
    return Step("solve", "solve", path, given | {"out": out})


# -- a log of transitions ----------------------------------------------------------------------


def inspect_log(table: Table, columns: Mapping[str, str] | None = None) -> Inspection:
    """Read a log and say what it holds; one that cannot be read is gone through cell by cell."""
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
    step = solve_step(str(table.path), columns=columns, gamma=GAMMA)
    return Inspection(
        source=table.source,
        kind="log",
        facts=facts | {"notes": log.notes},
        findings=log_findings(log),
        steps=() if blocked else (step,),
        blocked=blocked,
    )


def log_facts(log: TransitionLog) -> dict[str, Any]:
    """Sizes, rewards, what was usually done and how often each pair was seen, in numbers."""
    counts = log.pair_counts[~log.sinks]
    by_action = counts.sum(axis=0)
    order = np.argsort(-by_action, kind="stable")
    grid = None
    if counts.shape[0] <= MOST_SHOWN[0] and log.n_actions <= MOST_SHOWN[1]:
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
        ended = same & (log.s_next[first] == (cols.MISSING if log.end is None else log.end))
        ledger.add("rows_after_end", log.rows, second[ended])
        torn = same & ~ended & (log.s_next[first] != log.s[second])
        ledger.add("torn", log.rows, second[torn])
    if log.reward is not None:
        for code, places, facts in odd_numbers(log.reward):
            ledger.add(code, log.rows, places, column=None, **facts)
    half, odd = divmod(log.n_rows, 2)  # the rows may stand there twice, block after block
    columns = [x for x in (log.s, log.a, log.s_next, log.reward) if x is not None]
    if half >= 20 and not odd and all(np.array_equal(x[:half], x[half:]) for x in columns):
        ledger.add("repeated_rows", log.rows, np.arange(half, log.n_rows))
    if (lead := shifted_actions(log)) is not None:
        ledger.say("actions_shifted", gain=lead)
    if log.reward is not None and log.n_rows > 1 and np.ptp(log.reward) == 0:
        # How long something is earned is a gain of its own where a row leads to an end.
        ends = log.reward[0] != 0 and log.sinks[log.s_next].any()
        ledger.say("equal_rewards", n_rows=log.n_rows, ends=bool(ends))
    for noun, labels in (("states", log.states), ("actions", log.actions)):
        for twins in alike(labels):
            ledger.say("alike", noun=noun, names=list(twins))
    if log.n_actions == 1:
        ledger.say("one_action", action=log.actions[0])
    times = log.pair_counts.sum(axis=0)
    rare = np.flatnonzero((times > 0) & (times < FEW))
    if rare.size and log.n_actions > 1:
        ledger.say("rare_actions", actions=[log.actions[int(a)] for a in rare], fewer_than=FEW)
    if log.n_actions > 50:
        ledger.say("many_actions", actions=log.n_actions)
    if log.n_rows > 10 and 3 * int(log.visited.sum()) > log.n_rows:
        ledger.say("many_states", states=int(log.visited.sum()), n_rows=log.n_rows)
    return ledger


SEVERE_TORN = 0.2  # share of rows out of line above which a log is another one
SEVERE_FAR = 20.0  # times the usual spread: a reward that decides everything
_SAID = ("rows_after_end", "torn", "codes_for_missing", "far_numbers", "equal_rewards", "alike",
         "one_action", "actions_shifted", "repeated_rows")  # fmt: skip


def log_alarms(log: TransitionLog, who: Any = None) -> list[Note]:
    """What must stand under an answer from this log; `who` is each row's id, if known."""
    found = [note for note in log_findings(log) if note.code in _SAID]
    out = [replace(note, level=Level.ALARM) if _severe(note, log) else note for note in found]
    check = markov_check(log, who)
    if check.verdict == "helps":
        facts = {"gain": check.gains[0].gain, "error": check.gains[0].error}
        out.append(Note("not_markov", Level.CAUTION, facts))
    return sorted(out, key=lambda note: note.level is not Level.ALARM)


def _severe(note: Note, log: TransitionLog) -> bool:
    if note.code in ("torn", "rows_after_end"):
        return bool(note["n_rows"] > SEVERE_TORN * log.n_rows)
    if note.code in ("codes_for_missing", "far_numbers"):
        reach = SEVERE_FAR * max(note["high"] - note["low"], 1e-9)
        return any(not note["low"] - reach <= x <= note["high"] + reach for x in note["examples"])
    return note.code in ("actions_shifted", "repeated_rows")


def _unreadable(table: Table, columns: Mapping[str, str] | None, error: InputError) -> Inspection:
    """List every bad cell of a text table; what has no cells to list is the error itself."""
    if table.kind == "npz":
        raise error
    profile = profile_table(table)
    ledger = profile.findings(())
    try:
        position = cols.resolve_columns(table.names, cols.LOG_ROLES, columns, table.source)
    except InputError:
        raise error from None
    for role, place in position.items():
        column = profile.columns.get(table.names[place])
        if column is None:
            continue
        if role == "terminal":
            odd = [i for i, text in enumerate(column.texts) if cols.parse_flag(text) is None]
            places = np.flatnonzero(np.isin(column.codes, odd))
            ledger.add("no_flags", profile.rows, places, column=column.name)
        if role == "reward":
            no_numbers(column, profile.rows, ledger)
        missing = np.flatnonzero(column.codes == cols.MISSING)
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


# -- a table of visits -------------------------------------------------------------------------

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
    """How a table of visits is read: rules, what they give, the guesses; or why it cannot be."""

    profile: Profile
    events: Profile | None
    rules: TrajectoryRules
    made: Trajectories | None
    guesses: tuple[Note, ...]
    blocked: InputError | None = None


def choose_rules(table: Table, given: Mapping[str, Any]) -> Choices:
    """Fill in what is not `given` about a table of visits ("none": no guess), and read it."""
    profile = profile_table(table)
    # Are there rows to follow one another, and something that they could be about?
    if not given and not (profile.n_rows > 2 and len(profile.columns) > 2):
        raise InputError(
            f"What {table.source} is cannot be told from its columns, "
            f"{cols.listed(table.names, 20)}. For a log of transitions, say which are state, "
            "action and next state with columns. For visits, say which are id, time and action.",
            arguments={"columns": "state=…,action=…,next_state=…", "id": "…", "time": "…"}
            | {"action": "…"},
        )
    off = {name for name in ("terminal", "grid", "reward") if given.get(name) == OFF}
    named = {name: value for name, value in given.items() if value is not None and name not in off}
    ids = named.get("id", ())
    said = [*((ids,) if isinstance(ids, str) else ids), named.get("time"), named.get("action")]
    for name in (*(n for n in said if n not in (None, OFF)), *named.get("measurements", ())):
        cols.refuse_absent(name, [*profile.columns, *profile.twice])
        if name in profile.twice:
            raise InputError(
                f"The column '{name}' stands there twice in {table.source}. Rename one of the two."
            )
    guesses = Guesses(profile, named, off, table.source)
    guesses.columns()
    chosen = guesses.chosen
    columns = [profile.columns[name] for name in chosen["measurements"]]
    numbers = [column for column in columns if column.holds.startswith("numbers")]
    many = [column.name for column in numbers if column.distinct > MOST_VALUES]
    if many and "bins" not in named:
        chosen["bins"] = dict.fromkeys(many, GUESSED_BINS)
        guesses.note("guessed_bins", columns=many, bins=GUESSED_BINS)
    events = None
    if isinstance(chosen.get("events"), (str, Path)):
        with opened(chosen["events"]) as other:
            events = profile_table(other)
        if guesses.open("terminal"):
            guesses.end_of(events)
    for name, (lenient, _) in _LENIENT.items():
        chosen.setdefault(name, lenient)
    try:
        made = _with_grid(events, guesses)
    except InputError as error:
        strict = {name: value for name, value in chosen.items() if name not in _LENIENT}
        rules = TrajectoryRules(**(strict | named))
        return Choices(profile, events, rules, None, tuple(guesses.notes), error)
    # Lenient choices that nothing needed are left out.
    codes = {note.code for note in made.report.findings}
    codes |= {f"lost_{reason}" for reason in made.report.lost}
    for name, (_, signs) in _LENIENT.items():
        if name not in named and not codes & signs:
            del chosen[name]
    return Choices(profile, events, TrajectoryRules(**chosen), made, tuple(guesses.notes))


def _with_grid(events: Profile | None, guesses: Guesses) -> Trajectories:
    """Read the visits; on a regular grid if they are irregular and the user has said nothing."""

    def read(**more: Any) -> Trajectories:
        rules = TrajectoryRules(**(guesses.chosen | more))
        cells = None if events is None else events.cells
        return trajectories_of(guesses.profile.cells, rules, cells)

    made = read()
    gaps = made.report.gaps
    if not guesses.open("grid") or gaps is None or gaps.regular:
        return made
    again = read(grid=gaps.step)
    before, after = made.log.n_rows, again.log.n_rows
    if after < 0.5 * before:
        guesses.note("no_grid", grid=gaps.step, n_lost=before - after, n_rows=before)
        return made
    guesses.chosen["grid"] = gaps.step
    guesses.note("guessed_grid", grid=gaps.step)
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
    names = {*(rules.measurements or ()), rules.action, rules.reward}
    mixed = {name for name, c in profile.columns.items() if c.holds == "numbers and text"}
    findings = profile.findings([name for name in profile.columns if name in names | mixed])
    taken = {rules.terminal_pair[0]: "terminal"} if rules.terminal else {}
    taken |= {getattr(rules, role): role for role in ("end_time", "reward", "action", "time")}
    taken |= dict.fromkeys(rules.id_columns, "id")
    taken |= dict.fromkeys(rules.measurements or (), "state")
    facts: dict[str, Any] = {
        "rows": profile.n_rows,
        "columns": {
            name: column.to_dict() | {"taken_as": taken.get(name)}
            for name, column in profile.columns.items()
        },
        "guesses": choices.guesses,
    }
    found = Inspection(source=table.source, kind="visits", facts=facts, findings=findings)
    if made is None:
        return replace(found, blocked=choices.blocked)
    start = _write(made, write_log_to, save_bins_to, force)
    findings += made.report.findings
    if choices.events is not None:
        columns = event_columns(list(choices.events.columns), rules)
        odd = [columns[role] for role in ("reward", "kind") if role in columns]
        findings += choices.events.findings(odd)
    told = ("alike", "codes_for_missing", "far_numbers")  # of columns, where they are cells
    findings += [note for note in log_findings(made.log) if note.code not in told]
    facts |= log_facts(made.log) | {
        "rules": rules,
        "trajectories": made.report.to_dict(),
        "chains": 0 if made.log.episode is None else int(made.log.episode.max()) + 1,
        "markov": markov_check(made.log, made.who).to_dict(),
    }
    if made.log.rewards is None:
        blocked = InputError(
            f"{table.source} says what was done but not how good it was: no column was taken for "
            "the reward. Name it with reward, or give a table of rewards by id and time, events.",
            arguments={"reward": "COLUMN", "events": "FILE"},
        )
        return replace(found, blocked=blocked)
    # Solve the table itself with every choice spelled out, or the log that was written of it.
    step = solve_step(str(table.path), **rules.given(), gamma=GAMMA)
    if write_log_to is not None:
        step = solve_step(str(write_log_to), **start, gamma=GAMMA)
    return replace(found, steps=(step,))


def _write(
    made: Trajectories, log: str | Path | None, bins: str | Path | None, force: bool
) -> dict[str, str]:
    """Write log (a .csv with its p₀ beside it) and bins; return what solving the log then needs."""
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
