"""Reasons to trust a solved problem, or not: seven checks, in the order a sceptic would ask.

Each is a `Check`: a code, a verdict, and the facts it rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain, product
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core import __version__
from softrobust._core.notes import RECORDED, Note
from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.models.policy import Policy, TimedPolicy
from softrobust.objective import SoftRobust
from softrobust.posterior import FittedDirichlet
from softrobust.problem import Problem
from softrobust.returns import policy_return, returns_of
from softrobust.returns.simulation import simulate_table
from softrobust.solvers import Improve, LocalSearch, solve, solve_grid
from softrobust.solvers.baselines.behaviour import RARE, behaviour_policy, rare_share, unmasked
from softrobust.study.confounding import tipping_point
from softrobust.study.off_policy import episodes_of, off_policy
from softrobust.study.solved import (
    Solved,
    changed,
    learned_again,
    need_log,
    need_stationary,
    read_kept,
    redraw,
    rows_of,
)

FORMAT_VERSION = 2  # 2: code and facts; 1 had a name and a sentence


class Verdict(StrEnum):
    """How a check ended."""

    FINE = "fine"
    CAUTION = "caution"
    CANNOT_TELL = "cannot tell"


@final
@dataclass(frozen=True, slots=True)
class Check:
    """One check."""

    code: str  # what was asked
    verdict: Verdict
    # the finding in plain values, counts typed as in a `Note`; with `why` where it cannot tell
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", Note(self.code, facts=self.facts).facts)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"code": self.code, "verdict": str(self.verdict), "facts": dict(self.facts)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; a check of format 1 keeps its sentence."""
        verdict = Verdict(record["verdict"])
        if "sentence" in record:
            return cls(RECORDED, verdict, {"name": record["name"], "text": record["sentence"]})
        return cls(str(record["code"]), verdict, record["facts"])

    def without_small_counts(self) -> Self:
        """The same check, small counts hidden."""
        return replace(self, facts=Note(self.code, facts=self.facts).without_small_counts().facts)


def _cannot_tell(code: str, why: str, **facts: Any) -> Check:
    return Check(code, Verdict.CANNOT_TELL, {"why": why, **facts})


def _careful(code: str, careful: bool, facts: Mapping[str, Any]) -> Check:
    return Check(code, Verdict.CAUTION if careful else Verdict.FINE, facts)


# --------------------------------------------------------------------------------------------------
# Behaviour replay: if the posterior were right, would the log look as it does?
#
# For each of M posterior draws, current practice is simulated for the episodes of the log: the same
# first states, the same lengths. Where the mean observed return falls outside the central 95 % of
# the simulated means, the model (states, rewards, or the Markov assumption) does not fit what
# happened. Posterior draws know the log, so that a fit is expected and a misfit is telling.

DRAWS = 400
FEWEST_REPLAYED = 10  # with fewer, the mean has a third of the spread of single episodes, or more
INSIDE = (0.025, 0.975)


def replay(solved: Solved, seed: int = 0) -> Check:
    """Compare observed episode returns with simulated ones."""
    from scipy.stats import binom

    log, _ = need_log(solved, "Behaviour replay")
    episodes = episodes_of(log)
    n = len(episodes)
    if n < FEWEST_REPLAYED:
        return _cannot_tell("replay", "few_episodes", n_episodes=n, needed=FEWEST_REPLAYED)
    problem = unmasked(solved.problem.with_models(redraw(solved, DRAWS, seed)))
    many = problem.n_models
    policy, _ = behaviour_policy(problem, log)
    returns = episodes.returns(problem.gamma)
    start, length = np.tile(episodes.s[:, 0], many), np.tile(episodes.lengths, many)
    world = simulate_table(problem, policy, start, length, np.repeat(np.arange(many), n), seed)
    pair = world.s * problem.n_actions + world.a
    reward, known = problem.rewards.lookup(pair.reshape(-1), world.s_next.reshape(-1))
    if not known.reshape(pair.shape)[world.live].all():
        return _cannot_tell("replay", "unknown_rewards")
    reward = np.where(world.live, reward.reshape(pair.shape), 0.0)
    each = (reward @ problem.gamma ** np.arange(pair.shape[1])).reshape(many, n)
    means, observed = each.mean(axis=1), float(returns.mean())
    low, high = (float(q) for q in np.quantile(means, INSIDE))
    ends = np.quantile(each, [0.05, 0.95], axis=0)
    share = float(np.mean((returns >= ends[0]) & (returns <= ends[1])))
    fits = low <= observed <= high
    spread = bool(share * n >= binom.ppf(0.01, n, 0.9))
    facts = {
        "n_episodes": n, "observed": observed, "low": low, "high": high,
        "rank": float(np.mean(means < observed)), "share_inside": share, "fits": fits,
        "spread_fits": spread,
    }  # fmt: skip
    return _careful("replay", not (fits and spread), facts)


# --------------------------------------------------------------------------------------------------
# What would change the answer: the prior, the goal (λ, α), the number of models, the seed.
#
# A run of the default line is made again by that line. Otherwise each alternative is solved by
# `LocalSearch`, and so is the run's own problem, so that differences come from the alternative and
# not from the solver. Two figures are kept: the share of states whose
# action changes, plain and weighted by how often the policy visits them, and what the other policy
# earns by the run's own objective on the held-out models.

STRENGTHS = (0.1, 10.0)
LAMBDAS = (0.0, 0.25, 0.5, 0.75, 1.0)
ALPHAS = (0.5, 0.8, 0.9, 0.95)
SAME = 1e-9  # probabilities closer than this are the same
MUCH = 0.1  # share of visits whose action changes that deserves a word of caution


def prior_strength(solved: Solved, seed: int = 0) -> Check:
    """Prior mass × 0.1 and × 10."""
    log, posterior = need_log(solved, "Sensitivity to the prior")
    if not isinstance(posterior, FittedDirichlet):
        return _cannot_tell("prior_strength", "no_strength")
    settings, problem = posterior.settings, solved.problem
    base, rows = _searched(problem, seed), []
    mass = "strength" if settings.per_cell is None else "per_cell"
    for factor in STRENGTHS:
        scaled = replace(settings, **{mass: getattr(settings, mass) * factor})
        rng = np.random.default_rng([solved.seed, seed, 3])
        models = scaled.fit(log).sample(problem.n_models, rng)
        other = _searched(problem.with_models(models), seed)
        rows.append({"factor": factor, **_against(solved, base, other)})
    return _alternatives("prior_strength", rows)


def goal(solved: Solved, seed: int = 0) -> Check:
    """The grid of λ and α."""
    problem = solved.problem
    if not isinstance(problem.objective, SoftRobust):
        return _cannot_tell("goal", "no_lambda")
    if _default_line(solved):  # which looks at λ alone
        base, alpha = solved.solution.policy, problem.objective.alpha
        found = [(lam, alpha, _improved(solved, solved.seed, lam)) for lam in LAMBDAS[::2]]
    else:
        base = _searched(problem, seed)
        solver = LocalSearch(starts=3, seed=seed, stationary=True)
        solved_grid = chain(*solve_grid(problem, solver, LAMBDAS, ALPHAS))
        at = product(LAMBDAS, ALPHAS)
        found = [(lam, al, x.policy) for (lam, al), x in zip(at, solved_grid, strict=True)]
    rows = [{"lam": lam, "alpha": al, **changed(problem, base, other)} for lam, al, other in found]
    return _careful("goal", max(row["visits"] for row in rows) > MUCH, {"grid": rows})


def draws(solved: Solved, seed: int = 0) -> Check:
    """Other draws of the same posterior, as many, twice as many and half as many."""
    log, _ = need_log(solved, "Sensitivity to the draws")
    problem, n = solved.problem, solved.problem.n_models
    verdicts: dict[str, dict[str, str]] = {}
    seeds = ("another seed", "a third seed")
    if _default_line(solved):
        base = solved.solution.policy
        found = {name: _improved(solved, solved.seed + 1 + i) for i, name in enumerate(seeds)}
        usual, seen = np.asarray(log.behaviour), np.asarray(log.pair_counts).sum(axis=1) > 0
        for name, other in found.items():  # what it recommends, where the run does not
            now, then = ((np.abs(p.probs - usual)[seen] > SAME).any() for p in (base, other))
            verdicts[name] = {} if now == then else {"verdict": "change" if then else "keep"}
    else:
        base = _searched(problem, seed)
        sizes = dict.fromkeys(seeds, n)
        sizes |= {"twice as many models": 2 * n, "half as many models": max(n // 2, 2)}
        found = {
            name: _searched(problem.with_models(redraw(solved, many, 100 + i)), seed)
            for i, (name, many) in enumerate(sizes.items())
        }
    rows: list[dict[str, Any]] = [
        {"draw": name, **_against(solved, base, other)} for name, other in found.items()
    ]
    return _alternatives("draws", [{**row, **verdicts.get(row["draw"], {})} for row in rows])


def _searched(problem: Problem, seed: int, stationary: bool = True) -> Policy:
    return solve(problem, LocalSearch(seed=seed, stationary=stationary)).policy


def _default_line(solved: Solved) -> bool:
    return solved.solution.solver == Improve.name


def _improved(solved: Solved, seed: int, lam: float | None = None) -> Policy:
    """What the default line recommends with another seed, or another λ."""
    log, _ = need_log(solved, "Choosing again")
    problem = solved.problem
    if lam is not None:
        problem = replace(problem, objective=problem.objective.at(lam, problem.objective.alpha))
    solver = Improve(log, seed)
    return solver.solution(problem, solver.choice(problem)).policy


def _against(solved: Solved, base: Policy, other: Policy) -> dict[str, float]:
    """What changes, and what the other policy earns or loses by the objective, held out."""
    out = changed(solved.problem, base, other)
    if solved.heldout is None:
        return out
    found = [returns_of(solved.problem, policy, solved.heldout) for policy in (other, base)]
    new, old = (solved.problem.objective.value(x.x, x.f) for x in found)
    return out | {"gain": new - old}


def _alternatives(code: str, rows: list[dict[str, Any]]) -> Check:
    careful = any(row["visits"] > MUCH or "verdict" in row for row in rows)
    return _careful(code, careful, {"alternatives": rows})


# --------------------------------------------------------------------------------------------------
# Off-policy estimates on episodes that the policy was not learned from.
#
# The episodes are split in two. On the first half the line runs again (the default one as it is,
# others with a search by `LocalSearch`); on the second half WIS, PDIS, DR and FQE say what that
# policy would have earned. The posterior of the first half made a prediction too: the check asks
# whether the estimates that can tell anything agree with it. FQE takes states at their word as the
# posterior does, so that its agreement alone is not enough.

FEWEST_EPISODES = 20  # episodes, so that each half has ten
MODEL_TAIL = 0.5  # share of the future that the model supplies above which nothing is tested


def held_out_episodes(solved: Solved, seed: int = 0) -> Check:
    """Learn on half of the episodes, estimate on the other half."""
    log, _ = need_log(solved, "Off-policy estimates")
    episodes = episodes_of(log)
    n = len(episodes)
    if n < FEWEST_EPISODES:
        return _cannot_tell("off_policy", "few_episodes", n_episodes=n, needed=FEWEST_EPISODES)
    order = np.random.default_rng([solved.seed, seed, 1]).permutation(n)
    try:
        problem, policy = _learned(solved, log, order[: n // 2], seed)
    except InputError as error:
        return _cannot_tell("off_policy", "half_too_little", text=str(error))
    rest = episodes.select(order[n // 2 :])
    # Practice as the whole log shows it: π_b is not what is being tested.
    estimates = off_policy(problem, policy, rest, np.asarray(log.behaviour), seed=seed)
    start = np.bincount(rest.s[:, 0], minlength=problem.n_states) / len(rest)
    predicted = policy_return(replace(problem, p0=start), policy)
    low, high = (float(q) for q in np.quantile(predicted, INSIDE))
    tail = max(e.tail for e in estimates)
    told = [e for e in estimates if e.can_tell]
    apart = [e.name for e in told if not e.meets(low, high)]
    known = [e.to_dict() for e in estimates]
    facts = {"predicted": [low, high], "estimates": known, "tail": tail, "apart": apart}
    if tail > MODEL_TAIL:
        return _cannot_tell("off_policy", "mostly_model", **facts)
    if not apart and all(e.name == "FQE" for e in told):
        return _cannot_tell("off_policy", "too_uncertain", **facts)
    return _careful("off_policy", bool(apart), facts)


def _learned(
    solved: Solved, log: TransitionLog, half: NDArray[np.int64], seed: int
) -> tuple[Problem, Policy]:
    """The problem, learned from some episodes only, and its policy."""
    assert log.episode is not None  # `episodes_of` has refused a log without
    part = rows_of(log, np.isin(log.episode, np.unique(log.episode)[half]))
    _, posterior = need_log(solved, "Learning again")
    old = solved.problem
    problem = learned_again(part, posterior, old, min(old.n_models, 100), [solved.seed, seed, 2])
    if _default_line(solved):
        return problem, Improve(part, seed).choice(old).policy
    same = not isinstance(solved.solution.policy, TimedPolicy)
    return problem, _searched(problem, seed, same)


# --------------------------------------------------------------------------------------------------
# Coverage, hidden causes, and all checks in turn.

WEAK = 1.5  # odds that a hidden cause could plausibly shift


def rare_pairs(solved: Solved, _seed: int = 0) -> Check:
    """Share of discounted visits of the policy to pairs seen fewer than five times."""
    log, _ = need_log(solved, "Coverage")
    share, (s, a) = rare_share(solved.problem, solved.solution.policy, log)
    facts = {
        "share": share, "fewer_than": RARE, "state": log.states[s], "action": log.actions[a],
        "n_seen": int(log.pair_counts[s, a]),
    }  # fmt: skip
    return _careful("rare_pairs", share > MUCH, facts)


def confounding(solved: Solved, _seed: int = 0) -> Check:
    """How much hidden confounding would overturn the choice."""
    log, _ = need_log(solved, "The check for confounding")
    problem = unmasked(solved.problem)
    practice, _ = behaviour_policy(problem, log)
    policy = solved.solution.policy
    apart = np.abs(policy.probs - practice.probs)[..., np.asarray(policy.decided), :]
    if apart.max(initial=0.0) <= 1e-9:
        return _cannot_tell("confounding", "is_practice")
    found = tipping_point(problem, policy, practice, np.asarray(log.behaviour), log)
    weak = found.tipping is not None and found.tipping < WEAK
    return _careful("confounding", weak, found.to_dict())


CHECKS: dict[str, Callable[[Solved, int], Check]] = {
    "replay": replay,
    "off_policy": held_out_episodes,
    "rare_pairs": rare_pairs,
    "prior_strength": prior_strength,
    "goal": goal,
    "draws": draws,
    "confounding": confounding,
}


def check_run(solved: Solved, seed: int = 0) -> Iterator[Check]:
    """Every check in turn; one that cannot be made says why."""
    for code, check in CHECKS.items():
        try:
            if code in ("prior_strength", "goal", "draws"):
                need_stationary(solved.solution.policy, "This check")
            yield check(solved, seed)
        except InputError as error:
            yield _cannot_tell(code, "refused", text=str(error))


def checks_record(solved: Solved, checks: list[Check], seed: int) -> dict[str, Any]:
    """What `checks.json` holds."""
    return {
        "format_version": FORMAT_VERSION,
        "version": __version__,
        "seed": seed,
        "data_hash": None if solved.log is None else solved.log.data_hash,
        "checks": [check.to_dict() for check in checks],
    }


def load_checks(
    path: Path, shown: Callable[[Check], object] = lambda check: None
) -> tuple[Check, ...] | None:
    """The checks on record; None where none were run. `shown` must be able to show each of them."""

    def make(record: Mapping[str, Any]) -> tuple[Check, ...]:
        found = tuple(Check.from_dict(check) for check in record["checks"])
        for check in found:
            shown(check)
        return found

    return read_kept(path, make, "Check the run again.")
