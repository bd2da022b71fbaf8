"""All that a page says of a solved problem, computed: figures, promise, reasons, rules.

`review` compares the chosen policy with nominal and practice, certifies it, explains single states
and looks for short rules, as far as that takes two seconds; a `Frontier`, the value of data,
diagnostics and checks can be handed in. What would take long is left out by its size, never by a
clock, so that the same question gives the same page everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust._core.notes import Note
from softrobust.certificate import Certificate, certify
from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy, TimedPolicy
from softrobust.objective import SoftRobust
from softrobust.posterior import Diagnostics, FittedPosterior
from softrobust.posterior.sampling import Draws
from softrobust.problem import Problem
from softrobust.returns import reference_size
from softrobust.solvers.base import Solution
from softrobust.solvers.baselines.behaviour import behaviour_policy
from softrobust.solvers.exact.local_search import LocalSearch
from softrobust.study.checks import Check
from softrobust.study.compare import SAME, Compared, Reading, compare, readings
from softrobust.study.explain import Explanation, explain_many
from softrobust.study.foreign import ForeignRehearsal
from softrobust.study.frontier import Frontier, frontier
from softrobust.study.rehearsal import Rehearsal
from softrobust.study.rules import Rules, kept_practice, simplify
from softrobust.study.solved import Solved, evaluation_seconds, time_share
from softrobust.study.validation import Validation
from softrobust.study.value_of_data import DataFound, data_values

SECONDS = 2.0  # for explanations and rules, as `evaluation_seconds` estimates them
MOST_EXPLAINED = 24
LEAVES = 6
TRIES = 600  # evaluations that finding the rules takes, at most about
FEWEST_RULED = 6


@final
@dataclass(frozen=True, slots=True, eq=False)
class Review:
    """A solved problem with everything that is known of it."""

    problem: Problem
    # the chosen policy first, then nominal, practice (with a log) and any others
    compared: tuple[Compared, ...]
    certificate: Certificate
    heldout: ModelSet | Draws | None
    log: TransitionLog | None
    posterior: FittedPosterior | None
    # (n_states,): share of discounted time that the chosen policy spends in each state
    visits: FloatArray
    # state → Explanation: with `every_state`, of all states in which there is a choice
    reasons: dict[int, Explanation]
    every_state: bool
    rules: Rules | None  # None where they would take long, or there is nothing to shorten
    # frontier, data: a note says why it is not there; None where it was not asked for
    frontier: Frontier | Note | None = None
    data: DataFound | Note | None = None
    diagnostics: Diagnostics | None = None
    checks: Sequence[Check] | None = None
    rehearsal: Rehearsal | ForeignRehearsal | None = None
    validation: Validation | None = None
    # return, gain over practice and regret of the chosen policy, nominal and practice
    readings: tuple[Reading, ...] = ()

    @property
    def chosen(self) -> Compared:
        """The policy that this is about."""
        return self.compared[0]

    @property
    def nominal(self) -> Compared | None:
        """The nominal policy; None where it is the chosen one."""
        return next((c for c in self.compared[1:] if c.nominal), None)

    @property
    def practice(self) -> Compared | None:
        """Current practice; None without a log."""
        return next((c for c in self.compared[1:] if c.practice), None)


def review(
    problem: Problem,
    solutions: Sequence[Solution] | Solution,
    heldout: ModelSet | Draws | None = None,
    log: TransitionLog | None = None,
    posterior: FittedPosterior | None = None,
    certificate: Certificate | None = None,
    *,
    seconds: float = SECONDS,
    **answers: Any,
) -> Review:
    """Look at a solved problem from all sides.

    The first of `solutions` is the chosen one, which the others are compared with; the nominal
    policy is added, and with a log current practice. The certificate is made if not given.
    `seconds` are for explanations and rules, told from sizes; `answers` are those of other studies,
    by the names of `Review`: frontier, data, diagnostics, checks, rehearsal, validation.
    """
    log = getattr(posterior, "log", None) if log is None else log
    _check_log(problem, log)
    compared = compare(problem, solutions, heldout, log)
    chosen = compared[0]
    if certificate is None:
        bounds = [c.solution.bound for c in compared if c.solution.bound is not None]
        practice = None if log is None else behaviour_policy(problem, log)[0]
        certificate = certify(problem, chosen.solution.policy, heldout, bounds, practice=practice)
    _check_certificate(certificate, chosen, problem)
    visits = time_share(problem, chosen.solution.policy)
    states, every = _to_explain(problem, compared, visits, 0.0 if chosen.timed else seconds)
    found = explain_many(problem, chosen.policy, states, log) if states else []
    return Review(
        problem, compared, certificate, heldout, log, posterior, visits,
        dict(zip(states, found, strict=True)), every,
        rules_within(problem, chosen.solution, log, seconds),
        readings=readings(problem, compared, heldout), **answers,
    )  # fmt: skip


def _check_log(problem: Problem, log: TransitionLog | None) -> None:
    m = problem.models
    if log is not None and (log.states != m.states or log.actions != m.actions):
        raise InputError(
            f"The log has {len(log.states)} states and {len(log.actions)} actions; the problem has "
            f"{m.n_states} and {m.n_actions}, or their labels or order differ. Give the log that "
            "the models were made from."
        )


def _check_certificate(certificate: Certificate, chosen: Compared, problem: Problem) -> None:
    value, exact = certificate.static["objective"], chosen.static["objective"]
    if abs(value - exact) > 1e-7 * max(abs(value), abs(exact), reference_size(problem)):
        raise InputError(
            f"The certificate is for a policy worth {value!r}, the first solution is worth "
            f"{exact!r}. Certify the first solution, on this problem; where both were read from a "
            "folder, its solution.json and problem.npz do not belong together: solve again."
        )


def _to_explain(
    problem: Problem, compared: Sequence[Compared], visits: FloatArray, seconds: float
) -> tuple[list[int], bool]:
    """The states to explain: those that differ from nominal, then the most visited; if all."""
    policy = compared[0].policy
    open_ = np.asarray(policy.decided) & (problem.allowed.sum(axis=1) > 1)
    differs = np.zeros(problem.n_states, dtype=bool)
    for c in compared[1:]:
        if c.nominal:
            differs |= (np.abs(policy.probs - c.policy.probs) > SAME).any(axis=1)
    index = np.flatnonzero(open_)
    order = index[np.lexsort((index, -visits[index], ~differs[index]))]
    options = float(problem.allowed[index].sum()) / max(index.size, 1)
    each = evaluation_seconds(problem) * max(options, 1.0)
    most = min(MOST_EXPLAINED, int(seconds / each))
    return sorted(int(s) for s in order[:most]), index.size <= most


def rules_within(
    problem: Problem,
    solution: Solution,
    log: TransitionLog | None = None,
    seconds: float = SECONDS,
) -> Rules | None:
    """Rules for the policy; None where they would take long, or there is nothing to shorten."""
    if isinstance(solution.policy, TimedPolicy):
        return None
    policy, practice = solution.policy, kept_practice(problem, solution, log)
    decided = np.asarray(policy.decided)
    if int(decided.sum()) < FEWEST_RULED or (practice is None and not policy.deterministic):
        return None
    if evaluation_seconds(problem) * TRIES > seconds:
        return None
    if not (problem.allowed[decided].sum(axis=1) > 1).any():
        return None
    return simplify(problem, policy, most_leaves=LEAVES, practice=practice)


# --------------------------------------------------------------------------------------------------
# What a full page adds, unless it would take minutes.

LAMBDAS = tuple(round(0.1 * i, 1) for i in range(11))
FEW_LAMBDAS = (0.0, 0.25, 0.5, 0.75, 1.0)
EXACT_STATES, EXACT_SECONDS = 60, 45.0  # up to here every point is proven, or its gap known
MOST_SECONDS = 30.0  # estimated, beyond which a part is left out
DRAWS, POOL, DATA_SETS = 200, 43, 400  # of the value of data
STEP = 2e-9  # seconds for one entry of its tables
POINT_SECONDS = 2.0  # of search for a point of the frontier, where none is proven


def frontier_within(problem: Problem, policy: Policy | TimedPolicy) -> Frontier | Note:
    """Mean against CVaR over λ; a note where it does not apply or would take long.

    `policy` is the chosen one: it stands wherever it is the best.
    """
    objective = problem.objective
    if not isinstance(objective, SoftRobust):
        return Note("frontier_without_lambda")
    if isinstance(policy, TimedPolicy):
        return Note("frontier_timed")
    if problem.n_models == 1 or objective.tail == 1:
        return Note("frontier_without_trade")
    each = evaluation_seconds(problem)
    # A point takes some ten evaluations of search, and as many for its bound.
    lams = LAMBDAS if 11 * 20 * each <= MOST_SECONDS else FEW_LAMBDAS
    if len(lams) * 20 * each > MOST_SECONDS:
        return Note(
            "frontier_too_long", facts={"states": problem.n_states, "models": problem.n_models}
        )
    lams = tuple(sorted({*lams, objective.lam}))
    if problem.n_states <= EXACT_STATES:
        return frontier(problem, lams, (objective.alpha,), time_limit=EXACT_SECONDS, also=[policy])
    solver = LocalSearch(starts=3, time_limit=POINT_SECONDS, stationary=True)
    return frontier(problem, lams, (objective.alpha,), solver, also=[policy])


def data_within(solved: Solved, observations: int = 10) -> DataFound | Note:
    """What more data would be worth; a note where that does not apply or would take long."""
    problem = solved.problem
    if not isinstance(problem.objective, SoftRobust):
        return Note("data_without_criterion")
    if not problem.decided.any():
        return Note("data_without_decision")
    if _data_seconds(solved) > MOST_SECONDS:
        return Note("data_too_long", facts={"states": problem.n_states})
    try:
        return DataFound(observations, data_values(solved, observations, DRAWS))
    except InputError as error:
        return Note("data_unknown", facts={"text": str(error)})


def _data_seconds(solved: Solved) -> float:
    problem = solved.problem
    if solved.log is not None:  # inverses of every policy and model, then exchanges of rows
        return POOL * DRAWS * (5e-10 * problem.n_states**3 + 60 * DATA_SETS * STEP)
    pairs = int((problem.models.available & problem.decided[:, None]).sum())
    return float(pairs * DATA_SETS * problem.n_models * POOL * STEP)
