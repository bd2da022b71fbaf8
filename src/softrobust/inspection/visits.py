"""A table of visits: what is in it, what was done to make transitions of it, what to run next."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from softrobust.data import markov_check
from softrobust.data.trajectories import Trajectories
from softrobust.data.trajectories_report import TrajectoryReport
from softrobust.inspection.convert import Written, free_name, solve_line
from softrobust.inspection.coverage import (
    behaviour_record,
    behaviour_section,
    coverage_record,
    coverage_section,
    min_count_flags,
)
from softrobust.inspection.profile import Profile, profile_table
from softrobust.inspection.result import Grid, Inspection, Section, Step, percent, several
from softrobust.inspection.settle import Settled, event_findings, settle
from softrobust.inspection.suspicious import log_findings

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
