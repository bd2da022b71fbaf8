"""New rows for an old run: the posterior is updated, and the policy changes where that pays.

The updated problem is solved; its answer is a proposal. Starting from the old policy, one state
after another takes the proposed action, the best exact gain first, as long as each change raises
the objective by more than the margin; where the changes pay only together they are taken together,
if they gain more than the margin each on average. A clinic does not want its protocol to flutter.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from softrobust.certificate import certify, draw_heldout
from softrobust.data import read_log
from softrobust.data.combine import join_logs
from softrobust.data.files import atomic_write
from softrobust.data.settings import real
from softrobust.errors import InputError
from softrobust.models.policy import Policy
from softrobust.pipeline.drift import Drift, drift_test
from softrobust.pipeline.run import Run
from softrobust.pipeline.setup import Setup
from softrobust.problem import Problem
from softrobust.returns import static_return
from softrobust.solvers.base import Solution, Solver, Status, finish, solve
from softrobust.solvers.behaviour import behaviour_policy
from softrobust.solvers.nominal import Nominal

if TYPE_CHECKING:
    from softrobust.data import TransitionLog
    from softrobust.pipeline.folder import Folder

EMPTY = "A log needs at least one transition"


@final
@dataclass(frozen=True, slots=True)
class Change:
    """One state whose action changed, with the reason."""

    state: str
    before: str
    after: str
    gain: float
    seen_before: tuple[int, int]
    seen_after: tuple[int, int]
    together: bool = False

    def sentence(self) -> str:
        """Old and new action, what the change gains, and what the new rows showed."""
        (b0, a0), (b1, a1) = self.seen_before, self.seen_after
        return (
            f"{self.state}: {self.before} → {self.after}, gains {self.gain:.3g} by the objective"
            f"{' (its share of changes that pay together)' if self.together else ''} "
            f"({self.before} seen {b0} → {b1} times, {self.after} seen {a0} → {a1} times)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "state": self.state,
            "before": self.before,
            "after": self.after,
            "gain": self.gain,
            "seen_before": list(self.seen_before),
            "seen_after": list(self.seen_after),
        }


@final
@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """What the new rows changed.

    `run` is the updated run, ready to be written; None where there was no new row.
    """

    run: Run | None
    new_rows: int
    drift: Drift | None
    changes: tuple[Change, ...]
    kept: int
    added_states: tuple[str, ...]
    record: dict[str, Any]

    def sentences(self) -> list[str]:
        """In words, one a line."""
        if self.run is None or self.drift is None:
            return ["The new file has no rows: nothing changes."]
        practice = self.run.certificate.practice
        lines = [] if practice is None else [practice.sentence()]
        lines += [f"{self.new_rows} new rows.", self.drift.sentence()]
        if self.added_states:
            lines.append(f"New states: {', '.join(self.added_states[:8])}.")
        if not self.changes:
            lines.append("The policy stays as it is.")
        else:
            lines.append(f"The policy changes in {len(self.changes)} states:")
            lines += [f"  {change.sentence()}" for change in self.changes]
        if self.kept:
            lines.append(
                f"{self.kept} more changes were proposed and gain no more than the margin: kept."
            )
        return lines


def update(
    folder: Folder,
    path: Path,
    solver: Solver,
    margin: float = 0.0,
    columns: dict[str, str] | None = None,
    seed: int = 0,
) -> Update:
    """Add the rows of `path` to the run's log and update its policy.

    Parameters
    ----------
    margin : float
        Units of the objective that a change of action must gain, at least.
    """
    real("margin", margin, least=0)
    log, posterior = folder.need_log("An update")
    new = _read(path, columns)
    _refuse_twice(folder, log, new)
    record: dict[str, Any] = {"old_hash": log.data_hash, "margin": margin, "new_file": path.name}
    if new is None:
        return Update(None, 0, None, (), 0, (), record | {"new_hash": None, "changes": []})
    drift = drift_test(posterior, new, seed, log)
    both = join_logs(log, new)
    problem, fitted, test_seed = _problem(folder, both)
    old = carried(folder.solution.policy, problem)
    proposal = solve(problem, solver)
    policy, gains = adopt(problem, old, proposal.policy, margin)
    changes = _changes(log, both, old, policy, gains)
    differ = (proposal.policy.decision != policy.decision) & np.asarray(problem.decided)
    record |= {
        "new_hash": new.data_hash,
        "data_hash": both.data_hash,
        "new_rows": new.n_rows,
        "drift": drift.to_dict(),
        "changes": [change.to_dict() for change in changes],
        "kept": int(differ.sum()),
    }
    setup = Setup(problem, both, fitted, None, both.notes, test_seed, path.name)
    run = _run(setup, proposal, policy, folder.seed)
    added = tuple(name for name in both.states if name not in log.states.lookup)
    return Update(run, new.n_rows, drift, changes, int(differ.sum()), added, record)


def _refuse_twice(folder: Folder, log: TransitionLog, new: TransitionLog | None) -> None:
    """Rows that a run knows already would count twice."""
    if new is None:
        return
    known = {log.data_hash, *(str(record.get("new_hash")) for record in history(folder.path))}
    if new.data_hash in known:
        raise InputError(
            "These rows are part of the run already (same content): they would count twice. Give "
            "the new rows only."
        )


def history(folder: Path) -> list[dict[str, Any]]:
    """The records of earlier updates of a run."""
    path = folder / "update.json"
    return list(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else []


def _read(path: Path, columns: dict[str, str] | None) -> TransitionLog | None:
    """The new rows; None where the file has a header and nothing else."""
    try:
        return read_log(path, columns=columns)
    except InputError as error:
        if str(error).startswith(EMPTY):
            return None
        raise


def _problem(folder: Folder, log: TransitionLog) -> tuple[Problem, Any, Any]:
    """The run's problem on models drawn from the updated posterior."""
    _, posterior = folder.need_log("An update")
    fitted = posterior.settings.fit(log)  # type: ignore[attr-defined]
    # The run's own seed: what changes comes from the new rows, not from other random numbers.
    train_seed, test_seed = np.random.SeedSequence(folder.seed).spawn(2)
    old = folder.problem
    models = fitted.sample(old.n_models, np.random.default_rng(train_seed))
    barred = old.models.available & ~old.allowed  # what the user forbade, not what was unseen
    allowed = np.ones((models.n_states, models.n_actions), dtype=bool)
    s = np.array([models.states.lookup[name] for name in old.models.states])
    a = np.array([models.actions.lookup[name] for name in old.models.actions])
    allowed[np.ix_(s, a)] = ~barred
    problem = Problem(
        models, rewards=log.rewards, p0=log.p0, gamma=old.gamma, objective=old.objective,
        allowed=allowed,
    )  # fmt: skip
    return problem, fitted, test_seed


def carried(policy: Policy, problem: Problem) -> Policy:
    """The old policy on the labels of the new problem; states it did not know act uniformly."""
    models = problem.models
    probs = problem.uniform_policy().probs.copy()
    s = np.array([models.states.lookup[name] for name in policy.states])
    a = np.array([models.actions.lookup[name] for name in policy.actions])
    rows = np.zeros((s.size, models.n_actions))
    rows[:, a] = policy.probs
    known = np.asarray(policy.decided) & (rows * ~problem.allowed[s] == 0).all(axis=1)
    probs[s[known]] = rows[known]
    return Policy(probs, models.states, models.actions, problem.decided)


def adopt(
    problem: Problem, old: Policy, proposal: Policy, margin: float
) -> tuple[Policy, dict[int, float]]:
    """The old policy with the proposed changes that gain more than the margin, and their gains."""
    probs, value = old.probs.copy(), static_return(problem, old)
    differs = (np.abs(old.probs - proposal.probs) > 1e-9).any(axis=1) & np.asarray(problem.decided)
    todo = [int(s) for s in np.flatnonzero(differs)]
    gains: dict[int, float] = {}

    def earned(rows: list[int]) -> float:
        trial = probs.copy()
        trial[rows] = proposal.probs[rows]
        return static_return(problem, replace(old, probs=trial)) - value

    while todo:
        single = [earned([s]) for s in todo]
        best = int(np.argmax(single))
        if single[best] > margin:
            chosen, gain = [todo[best]], single[best]
        else:
            chosen, gain = list(todo), earned(todo)
            if gain <= margin * len(todo) or gain <= 1e-12 * abs(value):
                break
        probs[chosen] = proposal.probs[chosen]
        value += gain
        gains |= {s: gain / len(chosen) for s in chosen}
        todo = [s for s in todo if s not in chosen]
    return replace(old, probs=probs), gains


def _changes(
    before: TransitionLog, after: TransitionLog, old: Policy, new: Policy, gains: dict[int, float]
) -> tuple[Change, ...]:
    def seen(log: TransitionLog, s: str, a: str) -> int:
        if s not in log.states.lookup or a not in log.actions.lookup:
            return 0
        return int(log.pair_counts[log.states.index(s), log.actions.index(a)])

    out, values = [], list(gains.values())
    for s, gain in sorted(gains.items(), key=lambda item: -item[1]):
        state = new.states[s]
        was, now = (p.actions[int(p.decision[s])] for p in (old, new))
        out.append(
            Change(
                state, was, now, gain,
                (seen(before, state, was), seen(before, state, now)),
                (seen(after, state, was), seen(after, state, now)),
                values.count(gain) > 1,
            )
        )  # fmt: skip
    return tuple(out)


def _run(setup: Setup, proposal: Solution, policy: Policy, seed: int) -> Run:
    problem = setup.problem
    same = bool((policy.probs == proposal.policy.probs).all())
    solution = proposal if same else finish(
        problem, solver=proposal.solver, policy=policy, status=Status.GIVEN,
        bound=proposal.bound, stats={"updated": True},
    )  # fmt: skip
    assert setup.posterior is not None
    heldout = draw_heldout(setup.posterior, problem, policy, setup.test_seed)
    bounds = [] if solution.bound is None else [solution.bound]
    assert setup.log is not None
    practice = behaviour_policy(problem, setup.log)[0]
    certificate = certify(problem, policy, heldout, bounds, practice=practice)
    nominal = solve(problem, Nominal())
    return Run(setup, solution, nominal, heldout, certificate, seed, setup.notes)


def save_record(path: Path, record: dict[str, Any], old: Path) -> None:
    """Write `update.json`: what changed, after the records of earlier updates of the run."""
    with atomic_write(path) as file:
        file.write(json.dumps([*history(old), record], indent=1, allow_nan=False) + "\n")
