"""All that a page says of a solved problem, computed: figures, promise, reasons, rules.

`review` compares the chosen policy with nominal and practice, certifies it, explains single states
and looks for short rules, as far as that takes two seconds; a `Frontier`, the value of data,
diagnostics and checks can be handed in. What would take long is left out by its size, never by a
clock, so that the same question gives the same page everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import FloatArray
from softrobust._core.limits import time_bound
from softrobust._core.notes import Level, Note
from softrobust.bounds import OF_PRACTICE
from softrobust.certificate import Certificate, certify, simulated_certificate
from softrobust.certificate.comparison import PRACTICE, blurred, paired, paired_difference
from softrobust.data import ContinuousLog, TransitionLog
from softrobust.errors import InputError
from softrobust.models import ConstantPolicy, ContinuousModels, ContinuousPolicy, ModelSet
from softrobust.models.policy import Policy, TimedPolicy
from softrobust.objective import SoftRobust
from softrobust.posterior import Diagnostics, Draws, FittedPosterior
from softrobust.problem import ContinuousProblem, Problem
from softrobust.returns import Paths, Returns, follow, reference_size, returns_of
from softrobust.solvers import ContinuousBehaviour, Solution, behaviour_policy, continuous_behaviour
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


@names_arguments
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
    log, m = getattr(posterior, "log", None) if log is None else log, problem.models
    seconds = min(seconds, time_bound().left)
    if log is not None and (log.states != m.states or log.actions != m.actions):
        raise InputError(
            f"The log has {len(log.states)} states and {len(log.actions)} actions; the problem has "
            f"{m.n_states} and {m.n_actions}, or their labels or order differ. Give the log that "
            "the models were made from."
        )
    compared = compare(problem, solutions, heldout, log)
    chosen = compared[0]
    if certificate is None:
        known = [c.solution.bound for c in compared if c.solution.bound is not None]
        bounds = [b for b in known if b is chosen.solution.bound or b.covers not in OF_PRACTICE]
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
    nominal = next((c.policy for c in compared[1:] if c.nominal), policy)
    differs = np.asarray((np.abs(policy.probs - nominal.probs) > SAME).any(axis=1))
    index = np.flatnonzero(open_)
    order = index[np.lexsort((index, -visits[index], ~differs[index]))]
    options = float(problem.allowed[index].sum()) / max(index.size, 1)
    each = evaluation_seconds(problem) * max(options, 1.0)
    most = int(min(MOST_EXPLAINED, seconds / each))
    return sorted(int(s) for s in order[:most]), index.size <= most


def rules_within(
    problem: Problem, solution: Solution, log: TransitionLog | None = None, seconds: float = SECONDS
) -> Rules | None:
    """Rules for the policy; None where they would take long, or there is nothing to shorten."""
    policy = solution.policy
    if isinstance(policy, TimedPolicy) or evaluation_seconds(problem) * TRIES > seconds:
        return None
    practice, decided = kept_practice(problem, solution, log), np.asarray(policy.decided)
    if int(decided.sum()) < FEWEST_RULED or (practice is None and not policy.deterministic):
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
POINTS_WORK = 1e7  # N·A·S³ up to which its points are found on all models, in some seconds,
POINTS_TAIL = 100  # and models in the bad case that it keeps


def frontier_within(problem: Problem, policy: Policy | TimedPolicy) -> Frontier | Note:
    """Mean against CVaR over λ; a note where it does not apply or would take long.

    `policy` is the chosen one: it stands wherever it is the best. Of very many models the first are
    enough.
    """
    objective = problem.objective
    if not isinstance(objective, SoftRobust):
        return Note("frontier_without_lambda")
    if problem.n_models == 1 or objective.tail == 1:
        return Note("frontier_without_trade")
    work = problem.n_actions * problem.n_states**3
    least = POINTS_TAIL / max(objective.tail, 0.01)
    problem = first_of(problem, int(max(POINTS_WORK / work, least)))
    each, timed = evaluation_seconds(problem), isinstance(policy, TimedPolicy)
    # A point takes some ten evaluations of search, and as many for its bound.
    lams = LAMBDAS if 11 * 20 * each <= MOST_SECONDS else FEW_LAMBDAS
    if len(lams) * 20 * each > MOST_SECONDS:
        facts = {"states": problem.n_states, "models": problem.n_models}
        return Note("frontier_too_long", facts=facts)
    lams = tuple(sorted({*lams, objective.lam}))
    if problem.n_states <= EXACT_STATES and not timed:
        return frontier(problem, lams, (objective.alpha,), time_limit=EXACT_SECONDS, also=[policy])
    solver = LocalSearch(starts=3, time_limit=POINT_SECONDS, stationary=not timed)
    return frontier(problem, lams, (objective.alpha,), solver, also=[policy])


def first_of(problem: Problem, n: int) -> Problem:
    """The problem on the first `n` of its models, or on all where they are no more."""
    if n >= problem.n_models:
        return problem
    return problem.with_models(problem.models.select(range(n)))


def data_within(solved: Solved, observations: int = 10) -> DataFound | Note:
    """What more data would be worth; a note where that does not apply or would take long."""
    problem = solved.problem
    if not isinstance(problem.objective, SoftRobust):
        return Note("data_without_criterion")
    if not problem.decided.any():
        return Note("data_without_decision")
    if solved.log is not None:  # inverses of every policy and model, then exchanges of rows
        seconds = POOL * DRAWS * (5e-10 * problem.n_states**3 + 60 * DATA_SETS * STEP)
    else:
        pairs = int((problem.models.available & problem.decided[:, None]).sum())
        seconds = float(pairs * DATA_SETS * problem.n_models * POOL * STEP)
    if seconds > MOST_SECONDS:
        return Note("data_too_long", facts={"states": problem.n_states})
    try:
        return DataFound(observations, data_values(solved, observations, DRAWS))
    except InputError as error:
        return Note("data_unknown", facts={"text": str(error)})


# --------------------------------------------------------------------------------------------------
# A policy for continuous states against what else could be done, all of it simulated.
#
# The rivals are current practice, as a log shows it, and doing the same thing always. All meet the
# same models, starts and luck. With the course of episodes, that is all that a page says.

EPISODES = 30  # per model
BLURRED = 0.1  # share of models whose difference is noise, from which on it is said
FAR = 3.0  # standard errors beyond which the log's own returns and practice's are at odds
FOLLOWED = 10  # episodes per model whose course is shown
FEWEST = 5  # complete episodes of a log whose average is worth saying


@final
@dataclass(frozen=True, slots=True, eq=False)
class VectorReview:
    """A solved problem with continuous states and everything that is known of it."""

    problem: ContinuousProblem
    solution: Solution[ContinuousPolicy]
    certificate: Certificate
    log: ContinuousLog | None
    train: Returns  # of the policy on the problem's models
    fresh: Returns | None  # on held-out models
    # current practice and constant actions, on held-out models where there are any
    rivals: Mapping[str, Returns]
    behaviour: ContinuousBehaviour | None  # current practice, where there is a log
    # how episodes go: under the policy first, then under practice or, without a log, constants
    paths: Mapping[str, Paths] = field(default_factory=dict)

    @property
    def own(self) -> Returns:
        """On held-out models where there are any, else on the training models."""
        return self.train if self.fresh is None else self.fresh


def review_vectors(
    problem: ContinuousProblem,
    solution: Solution[ContinuousPolicy],
    heldout: ContinuousModels | None,
    log: ContinuousLog | None,
    episodes: int = EPISODES,
    seed: int = 0,
) -> VectorReview:
    """Simulate the policy and its rivals with `episodes` episodes per model, and certify it."""
    behaviour = None if log is None else continuous_behaviour(log)
    others: dict[str, Any] = {} if behaviour is None else {PRACTICE: behaviour.policy}
    others |= {f"always {rival.choice}": rival for rival in constants(problem)}
    train = returns_of(problem, solution.policy, None, episodes, seed)
    own, fresh = train, None
    if heldout is not None:
        own = fresh = returns_of(problem, solution.policy, heldout, episodes, seed)
    rivals = {
        name: returns_of(problem, rival, heldout, episodes, seed) for name, rival in others.items()
    }
    goal = problem.objective
    made = simulated_certificate(train, fresh, goal)
    constant = {
        name.removeprefix("always "): paired_difference(own, rival, goal)
        for name, rival in rivals.items()
        if name != PRACTICE
    }
    made = replace(made, constant=constant)
    if behaviour is not None and log is not None:
        old, observed = rivals[PRACTICE], observed_returns(problem, log)
        versus = paired(own, old, goal, PRACTICE, fresh is not None)
        shares = dict(zip(behaviour.policy.actions, behaviour.shares, strict=True))
        about = {"shares": shares, "degree": behaviour.degree, "gain": behaviour.gain}
        versus = replace(versus, about=about | {"observed": observed})
        made = replace(made, practice=versus, notes=_notes(own, old, observed))
    return VectorReview(problem, solution, made, log, train, fresh, rivals, behaviour)


def follow_rivals(
    found: VectorReview, heldout: ContinuousModels | None, seed: int = 0
) -> VectorReview:
    """The same with the course of episodes under the policy and its first rivals."""
    policies: dict[str, Any] = {found.solution.solver: found.solution.policy}
    if found.behaviour is not None:
        policies[PRACTICE] = found.behaviour.policy
    else:
        policies |= {f"always {rival.choice}": rival for rival in constants(found.problem)[:2]}
    paths = {
        name: follow(found.problem, policy, heldout, FOLLOWED, seed)
        for name, policy in policies.items()
    }
    return replace(found, paths=paths)


def constants(problem: ContinuousProblem) -> list[ConstantPolicy]:
    """Every allowed action, taken always."""
    names = [problem.actions[int(a)] for a in np.flatnonzero(problem.allowed)]
    return [ConstantPolicy(name, problem.variables, problem.actions) for name in names]


def _notes(own: Returns, old: Returns, observed: Mapping[str, Any] | None) -> tuple[Note, ...]:
    """Where the comparison is a toss-up, and whether the models agree with what the log earned."""
    assert own.noise is not None  # simulated
    assert old.noise is not None
    notes, blur = [], blurred(own.noise, old.noise)
    if blur > BLURRED:
        notes.append(Note("comparison_blurred", facts={"share": blur}))
    if observed is not None:
        mean = float(old.f @ old.plain)
        spread = float(np.sqrt(old.f @ (old.plain - mean) ** 2))
        off = abs(observed["mean"] - mean)
        off /= max(float(np.hypot(observed["se"], spread)), 1e-300)
        facts = {"mean": observed["mean"], "se": observed["se"], "n_episodes": observed["n"]}
        level = Level.CAUTION if off > FAR else Level.INFO
        facts |= {"simulated": mean, "apart": off if off > FAR else None}
        notes.append(Note("log_earned", level, facts))
    return tuple(notes)


def observed_returns(problem: ContinuousProblem, log: ContinuousLog) -> dict[str, Any] | None:
    """Discounted returns of the log's complete episodes: mean, its standard error, how many.

    None with fewer than five. Rows of an episode are taken to be in order of time.
    """
    if log.episode is None:
        return None
    rewards = np.asarray(problem.reward(log.s, log.a.astype(np.int64), log.s_next))
    if log.terminal is not None:
        rewards = rewards + problem.models.end_reward * log.terminal
    found = []
    order = np.argsort(log.episode, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(log.episode[order])) + 1):
        rows = part[: problem.horizon]
        ended = log.terminal is not None and bool(log.terminal[rows[-1]])
        if rows.size == problem.horizon or ended:
            found.append(float(rewards[rows] @ problem.gamma ** np.arange(rows.size)))
    if len(found) < FEWEST:
        return None
    x = np.array(found)
    se = float(x.std(ddof=1) / np.sqrt(x.size))
    return {"mean": float(x.mean()), "se": se, "n": x.size}
