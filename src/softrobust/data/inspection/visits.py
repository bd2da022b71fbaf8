"""Choices for a table of visits that the user has not made: guessed, tried, and kept if needed.

Each guess is one of the flags of `softrobust inspect`, so that the command printed at the end says
them all. Choices that turn out to change nothing are left out of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from softrobust.data import markov_check
from softrobust.data.inspection.columns import (
    END_KINDS,
    Profile,
    guess_measurements,
    guess_roles,
    profile_table,
)
from softrobust.data.inspection.findings import (
    Grid,
    Inspection,
    Section,
    Step,
    behaviour_record,
    behaviour_section,
    coverage_record,
    coverage_section,
    log_findings,
    min_count_flags,
    percent,
    several,
)
from softrobust.data.inspection.logs import Written, free_name, solve_line
from softrobust.data.visit_report import Finding, TrajectoryReport
from softrobust.data.visit_rows import event_columns, refuse_absent
from softrobust.data.visit_rules import TrajectoryRules
from softrobust.data.visit_states import MOST_VALUES
from softrobust.data.visits import Trajectories, trajectories_of
from softrobust.errors import InputError

GUESSED_BINS = 4
OFF = "none"
# What lets a messy table through, and the findings that show that it was needed.
_LENIENT: dict[str, tuple[str, tuple[str, ...]]] = {
    "missing_measurement": ("carry", ("carried_", "missing_")),
    "missing_rows": ("drop", ("no_id", "no_time", "event_no_")),
    "duplicates": ("last", ("same_time",)),
    "after_end": ("drop", ("after_end",)),
    "missing_reward": ("drop", ()),
}


@final
@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """The choices, what they give, and which of them were guesses.

    `made` is None, and `blocked` says why, where no log can be made yet.
    """

    rules: TrajectoryRules
    made: Trajectories | None
    guesses: tuple[str, ...]
    passed: Mapping[str, str]
    blocked: str = ""


def settle(path: Path, profile: Profile, given: Mapping[str, Any]) -> Settled:
    """Fill in what the user has not said about a table of visits, and read it.

    `given` has the arguments of `read_trajectories`, None where the user said nothing; "none"
    turns a guess off.
    """
    off = {name for name in ("terminal", "grid", "reward") if given.get(name) == OFF}
    said = {name: value for name, value in given.items() if value is not None and name not in off}
    named = [said[role] for role in ("id", "time", "action", "reward") if role in said]
    for name in (*named, *said.get("measurements", ())):
        refuse_absent(name, [*profile.columns, *profile.twice])
    chosen: dict[str, Any] = dict(said)
    guesses: list[str] = []
    roles = guess_roles(profile, said, path.name)
    for role, column in roles.items():
        if role not in off and role not in said:
            chosen[role] = column
            guesses.append(f"'{column}' is taken for the {role}.")
    passed: dict[str, str] = {}
    if "measurements" not in said:
        chosen["measurements"], passed = guess_measurements(profile, chosen, path.name)
    if "bins" not in said:
        _guess_bins(profile, chosen, guesses)
    if "terminal" not in chosen and "terminal" not in off:
        _guess_end(chosen, guesses)
    for name, (lenient, _) in _LENIENT.items():
        chosen.setdefault(name, lenient)
    try:
        made = trajectories_of(path, TrajectoryRules(**chosen))
        made = _with_grid(path, made, chosen, off, guesses)
    except InputError as error:
        strict = {name: value for name, value in chosen.items() if name not in _LENIENT}
        return Settled(TrajectoryRules(**(strict | said)), None, tuple(guesses), passed, str(error))
    _tighten(made, chosen, said)
    return Settled(TrajectoryRules(**chosen), made, tuple(guesses), passed)


def _guess_bins(profile: Profile, chosen: dict[str, Any], guesses: list[str]) -> None:
    """Bins for measurements with many different numbers."""
    many = {
        name: GUESSED_BINS
        for name in chosen["measurements"]
        if name in profile.columns
        and profile.columns[name].holds.startswith("numbers")
        and len(profile.columns[name].texts) > MOST_VALUES
    }
    if many:
        chosen["bins"] = many
        listed = ", ".join(f"'{name}'" for name in many)
        guesses.append(
            f"{listed} {'are' if len(many) > 1 else 'is'} cut into {GUESSED_BINS} bins with "
            "equally many visits each; cuts that mean something are better."
        )


def _guess_end(chosen: dict[str, Any], guesses: list[str]) -> None:
    """An event whose kind is a word for death marks the end."""
    events = chosen.get("events")
    if not isinstance(events, (str, Path)):
        return
    roles = {name: chosen[name] for name in ("id", "time", "action")}
    rules = TrajectoryRules(**roles, events=events, events_columns=chosen.get("events_columns"))
    column = event_columns(rules).get("kind")
    if column is None:
        return
    kinds = profile_table(Path(events)).columns[column].texts
    ends = [kind for kind in kinds if kind.casefold() in END_KINDS]
    if len(ends) == 1:
        chosen["terminal"] = f"kind={ends[0]}"
        guesses.append(f"Events of kind '{ends[0]}' are taken for true ends.")


def _with_grid(
    path: Path, made: Trajectories, chosen: dict[str, Any], off: set[str], guesses: list[str]
) -> Trajectories:
    """Read again on a regular grid, if visits are irregular and the user has said nothing."""
    gaps = made.report.gaps
    if "grid" in chosen or "grid" in off or gaps is None or gaps.regular:
        return made
    again = trajectories_of(path, TrajectoryRules(**(chosen | {"grid": gaps.step})))
    if again.log.n_rows < 0.5 * made.log.n_rows:
        guesses.append(
            f"Times between visits vary so much that a grid of {gaps.step} would lose "
            f"{made.log.n_rows - again.log.n_rows} of {made.log.n_rows} transitions: a step is "
            "from one visit to the next, however long that takes."
        )
        return made
    chosen["grid"] = gaps.step
    guesses.append(f"Visits are put on a grid of {gaps.step}, the median time between them.")
    return again


def _tighten(made: Trajectories, chosen: dict[str, Any], said: Mapping[str, Any]) -> None:
    """Leave out lenient choices that nothing needed."""
    keys = [finding.key for finding in made.report.findings]
    for name, (_, signs) in _LENIENT.items():
        needed = any(
            key.startswith(sign) for key in keys if key != "missing_action" for sign in signs
        )
        if name == "missing_reward":
            needed = "the reward is missing" in made.report.lost
        if not needed and name not in said:
            del chosen[name]


def event_findings(rules: TrajectoryRules) -> list[Finding]:
    """What is odd in the table of events."""
    if not isinstance(rules.events, (str, Path)):
        return []
    columns = event_columns(rules)
    names = [columns[role] for role in ("reward", "kind") if role in columns]
    return profile_table(Path(rules.events)).findings(names).findings


# --------------------------------------------------------------------------------------------------
# A table of visits: what is in it, what was done to make transitions of it, what to run next.

_ABOUT_LOG = ("equal_rewards", "one_action", "rare_actions", "many_actions", "many_states")


def read_visits_file(path: Path, given: Mapping[str, Any]) -> tuple[Profile, Settled]:
    """Profile a table of visits and settle how it is read."""
    profile = profile_table(path)
    return profile, settle(path, profile, given)


def inspect_visits(
    path: Path, profile: Profile, settled: Settled, written: Written | None = None
) -> Inspection:
    """Say all there is to say; `written` is where the log went, if it was written."""
    rules = settled.rules
    sections = [_columns(profile, settled)]
    names = [name for name in rules.measurements or () if name in profile.columns]
    names += [name for name in (rules.action, rules.reward) if name in profile.columns]
    findings = list(profile.findings(names).findings)
    head = f"{path.name} is a table of visits: {several(profile.n_rows, 'row')}"
    record: dict[str, Any] = {
        "columns": {name: column.words for name, column in profile.columns.items()},
        "guesses": list(settled.guesses),
    }
    made = settled.made
    if made is None:
        return Inspection(
            source=path.name, kind="visits", headline=f"{head}.", sections=sections,
            findings=findings, blocked=settled.blocked, record=record,
        )  # fmt: skip
    report = made.report
    findings += [*report.findings, *event_findings(rules)]
    findings += [finding for finding in log_findings(made.log) if finding.key in _ABOUT_LOG]
    sections += _gaps(report)
    sections.append(_transitions(made))
    sections += [coverage_section(made.log), behaviour_section(made.log)]
    markov = markov_check(made.log, made.who)
    sections.append(Section("Is the state enough?", tuple(markov.sentences())))
    record |= {
        "flags": rules.flags(),
        "trajectories": report.record(),
        "coverage": coverage_record(made.log),
        "behaviour": behaviour_record(made.log),
        "markov": markov.record(),
    }
    blocked = "" if made.log.rewards is not None else _no_reward(path)
    return Inspection(
        source=path.name,
        kind="visits",
        headline=f"{head}, {several(report.n_ids, 'id')}, {report.span[0]} to {report.span[1]}.",
        sections=sections,
        findings=findings,
        steps=() if blocked else _steps(path, settled, made, written),
        blocked=blocked,
        record=record,
    )


def _columns(profile: Profile, settled: Settled) -> Section:
    rules = settled.rules
    taken = {rules.id: "id", rules.time: "time", rules.action: "action"}
    if rules.reward is not None:
        taken[rules.reward] = "reward"
    if rules.terminal is not None:
        taken.setdefault(rules.terminal_pair[0], "marks ends")
    taken |= dict.fromkeys(rules.measurements or (), "state")
    rows = [
        (
            name,
            column.words,
            f"{column.n_missing}" if column.n_missing else "",
            taken.get(name, "not used"),
        )
        for name, column in profile.columns.items()
    ]
    grid = Grid(("column", "holds", "missing", "taken as"), tuple(rows))
    return Section("Columns", settled.guesses, grid)


def _gaps(report: TrajectoryReport) -> list[Section]:
    gaps = report.gaps
    if gaps is None:
        return []
    low, _, middle, _, high = (gaps.text(x) for x in gaps.quantiles.tolist())
    if gaps.quantiles[0] == gaps.quantiles[4]:
        return [Section("Time between visits", (f"Always {middle}.",))]
    words = f"From {low} to {high}, median {middle}."
    unit = " (days)" if gaps.clock == "dates" else ""
    return [Section(f"Time between visits{unit}", (words,), bars=tuple(gaps.bars()))]


def _transitions(made: Trajectories) -> Section:
    report = made.report
    lost = sum(report.lost.values())
    candidates = report.n_transitions + lost
    chains = 0 if made.log.episode is None else int(made.log.episode.max()) + 1
    sentences = [
        f"{several(report.n_steps, 'step')} of {several(report.n_ids, 'id')} gave "
        f"{several(report.n_transitions, 'transition')} in {several(chains, 'unbroken chain')}."
    ]
    if lost:
        sentences.append(f"{lost} ({percent(lost, candidates)}) could not be used:")
        sentences += [f"  {n} because {reason}" for reason, n in report.lost.items()]
    sentences.append(report.ends)
    used = report.rewards.get("used")
    if used is not None:
        sentences.append(f"{several(used.n, 'reward')} fell into transitions; not used are:")
        others = [(r, t) for r, t in report.rewards.items() if r != "used"]
        sentences += [f"  {t.n} (sum {t.total:.6g}) {reason}" for reason, t in others]
        if not others:
            sentences[-1] = f"All {used.n} rewards fell into transitions."
    return Section("From visits to transitions", tuple(sentences))


def _no_reward(path: Path) -> str:
    return (
        f"{path.name} says what was done but not how good it was: no column was taken for the "
        "reward. Name it with --reward COLUMN, or give a table of rewards by id and time with "
        "--events FILE."
    )


def _steps(
    path: Path, settled: Settled, made: Trajectories, written: Written | None
) -> tuple[Step, ...]:
    if written is not None:
        flags = (*written.flags, *min_count_flags(made.log))
        return (Step("Choose a policy", solve_line(written.log, *flags)),)
    log = free_name(f"{path.name.split('.')[0]}_log.parquet")
    more = ["--write-log", log]
    fitted = made.bins is not None and not isinstance(settled.rules.bins, (str, Path))
    if fitted:
        more += ["--save-bins", free_name(f"{path.name.split('.')[0]}_bins.npz")]
    return (
        Step("Write the transitions", settled.rules.command(str(path), *more)),
        Step("Choose a policy", solve_line(log, *min_count_flags(made.log))),
    )
