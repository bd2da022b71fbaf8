"""Choices for a table of visits that the user has not made: guessed, tried, and kept if needed.

Each guess is one of the flags of `softrobust inspect`, so that the command printed at the end says
them all. Choices that turn out to change nothing are left out of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from softrobust.data.trajectories import Trajectories, trajectories_of
from softrobust.data.trajectories_columns import event_columns, refuse_absent
from softrobust.data.trajectories_report import Finding
from softrobust.data.trajectories_rules import TrajectoryRules
from softrobust.data.trajectories_states import MOST_VALUES
from softrobust.errors import InputError
from softrobust.inspection.guess import END_KINDS, guess_measurements, guess_roles
from softrobust.inspection.profile import Profile, profile_table

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
