"""The policies side by side: exact returns on the problem's models and on held-out ones.

The first solution is the chosen one. The nominal policy, optimal for the mean model E[P̂] alone, is
what most people would compute; it is always among those compared, and so is current practice where
there is a log to read it from. Practice is not bound by the mask of allowed actions.

The chosen policy is compared with each of the others in pairs, model by model, on held-out models
where there are any: on the models it was chosen on it is ahead by construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust._core.limits import time_bound
from softrobust.certificate import Comparison, Sample, held_out, paired
from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.models import ModelSet, Policy, TimedPolicy
from softrobust.objective import OPTIMUM, Reference, cvar, mean
from softrobust.posterior.sampling import Draws
from softrobust.problem import Problem
from softrobust.returns import Returns, reference_returns, returns_of, stream_returns
from softrobust.returns.evaluation import averaged, policy_return, rules_of
from softrobust.solvers.base import Solution
from softrobust.solvers.baselines.behaviour import PRACTICE, Behaviour, unmasked
from softrobust.study.solved import evaluation_seconds, followed

NOMINAL = "nominal"
NAMES = {PRACTICE: "current practice"}
SAME = 1e-9  # chances closer than this are the same
MOST_READ = 2000  # held-out models whose optima are solved for,
READ_BYTES = 2**25  # fewer where they are large,
FEWEST_READ = 20  # but not so few
OPTIMA = 30  # evaluations that the optima of all models take, about,
MOST_SECONDS = 20.0  # and how long they may


@final
@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """One policy with its returns."""

    name: str  # the solver's name, numbered where two solutions share it; "current practice"
    chosen: bool  # whether it is the policy that the report is about
    solution: Solution
    # train, test: (n_models,): returns, less the reference's, on the problem's models and on
    # held-out ones (None without those)
    train: FloatArray
    test: FloatArray | None
    static: dict[str, float]  # objective, mean, var, cvar of `train`
    heldout: Sample | None  # the same on `test`, with intervals
    # the chosen policy minus this one, in pairs: on `test`, else on `train`; None of itself
    versus: Comparison | None = None
    shares: Policy | None = None

    @property
    def policy(self) -> Policy:
        """The policy; one with a rule for each step as shares of actions over its time."""
        return self.solution.policy if self.shares is None else self.shares

    @property
    def timed(self) -> bool:
        """Whether it has a rule for each step."""
        return isinstance(self.solution.policy, TimedPolicy)

    @property
    def nominal(self) -> bool:
        """Whether it is the mean model's optimal policy."""
        return self.solution.solver == NOMINAL

    @property
    def practice(self) -> bool:
        """Whether it is what the log shows was done."""
        return self.solution.solver == PRACTICE

    @property
    def called(self) -> str:
        """Its name inside a sentence."""
        return "the nominal policy" if self.nominal else self.name

    @property
    def short(self) -> str:
        """A name for labels in pictures: the policy that the page is about is "this policy"."""
        return "this policy" if self.chosen else self.name

    def figure(self, key: str) -> float:
        """objective, mean, var or cvar: held out where that is known."""
        if self.heldout is None:
            return self.static[key]
        return float(getattr(self.heldout, key).value)

    def same_policy(self, other: Compared) -> bool:
        """Whether both do the same wherever there is something to decide."""
        apart = np.abs(rules_of(self.solution.policy) - rules_of(other.solution.policy))
        return bool((apart[:, np.asarray(self.policy.decided)] <= SAME).all())


def compare(
    problem: Problem,
    solutions: Sequence[Solution] | Solution,
    heldout: ModelSet | Draws | None,
    log: TransitionLog | None = None,
) -> tuple[Compared, ...]:
    """Evaluate every solution; nominal, and with a log practice, are added where missing."""
    chosen = [solutions] if isinstance(solutions, Solution) else list(solutions)
    if not chosen:
        raise InputError("A report needs at least one solution; the first is the chosen one.")
    for solution in chosen:
        if not isinstance(solution, Solution):
            raise InputError(
                f"report(problem, solutions) needs solutions, as from solve(); it got {solution!r}."
            )
    known = {solution.solver for solution in chosen}
    if NOMINAL not in known:
        from softrobust.solvers.baselines.nominal import Nominal

        chosen.append(Nominal().solve(problem))
    if log is not None and PRACTICE not in known:
        chosen.append(Behaviour(log).solve(problem))
    # Nominal and practice follow at once, so that they look the same in every report.
    place = {NOMINAL: 0, PRACTICE: 1}
    chosen = [chosen[0], *sorted(chosen[1:], key=lambda found: place.get(found.solver, 2))]
    names = [NAMES.get(solution.solver, solution.solver) for solution in chosen]
    found, tests = [], _fresh(problem, chosen, heldout)
    for i, (solution, name) in enumerate(zip(chosen, names, strict=True)):
        nth = names[: i + 1].count(name)  # "sa-rect", "sa-rect (2)"
        told = name if nth == 1 else f"{name} ({nth})"
        found.append(_evaluated(problem, tests[i], solution, told, chosen=i == 0))
    fresh = problem.models.f if heldout is None else heldout.f
    return (found[0], *(_paired(problem, found[0], c, fresh) for c in found[1:]))


@final
@dataclass(frozen=True, slots=True)
class Reading:
    """One policy under one reference: its mean and its bad case, on the models named."""

    policy: str
    chosen: bool
    of: str  # "return", "gain" or "regret"
    mean: float
    cvar: float


def readings(
    problem: Problem, compared: Sequence[Compared], heldout: ModelSet | Draws | None
) -> tuple[Reading, ...]:
    """Return, gain over practice and regret of the chosen policy, nominal and practice.

    On the same models, held out where there are such (at most `MOST_READ` of them). Without a log
    there is no gain; the regret is left out where the models' optima would take long.
    """
    where = unmasked(problem)
    if heldout is not None:
        own = problem.models.rewards  # drawn ones take as much as the probabilities
        drawn = own is not None and own.kind == "model"
        stored = (16 if drawn else 8) * problem.models.next_states.size
        n = min(heldout.n_models, MOST_READ, READ_BYTES // stored)
        if n == heldout.n_models:
            where = where.with_models(heldout)
        elif n >= FEWEST_READ:  # of fewer there is no bad case: the models chosen on must do
            few = heldout.select(range(n)) if isinstance(heldout, ModelSet) else heldout.part(0, n)
            where = where.with_models(few)
    f, goal = where.models.f, where.objective
    read = [c for c in compared if c.chosen or c.nominal or c.practice]
    x = {c.name: policy_return(where, c.solution.policy) for c in read}
    taken = {"return": np.zeros(f.size)}
    if practice := [x[c.name] for c in read if c.practice]:
        taken["gain"] = practice[0]
    if OPTIMA * evaluation_seconds(where) <= min(MOST_SECONDS, time_bound().left):
        best = goal.measured_against(Reference(OPTIMUM, allowed=problem.allowed))
        taken["regret"] = reference_returns(replace(where, objective=best))
    return tuple(
        Reading(name, i == 0, of, mean(own - off, f), cvar(own - off, f, goal.alpha))
        for i, (name, own) in enumerate(x.items())
        for of, off in taken.items()
    )


def _paired(problem: Problem, chosen: Compared, other: Compared, f: FloatArray) -> Compared:
    new = chosen.train if chosen.test is None else chosen.test
    old = other.train if other.test is None else other.test
    held = chosen.test is not None
    found = paired(Returns(new, f), Returns(old, f), problem.objective, other.called, held)
    return replace(other, versus=found)


def _fresh(
    problem: Problem, solutions: Sequence[Solution], heldout: ModelSet | Draws | None
) -> list[Returns | None]:
    """Of each solution on held-out models; a stream is drawn once for all that keep to the mask."""
    if heldout is None:
        return [None] * len(solutions)
    kept = [found for found in solutions if found.solver != PRACTICE]
    if isinstance(heldout, Draws):
        known = iter(stream_returns(problem, [found.policy for found in kept], heldout))
    else:
        known = (returns_of(problem, found.policy, heldout) for found in kept)
    free = unmasked(problem)
    return [
        returns_of(free, found.policy, heldout) if found.solver == PRACTICE else next(known)
        for found in solutions
    ]


def _evaluated(
    problem: Problem, test: Returns | None, solution: Solution, name: str, *, chosen: bool
) -> Compared:
    objective, f = problem.objective, problem.models.f
    own = unmasked(problem) if solution.solver == PRACTICE else problem
    train = returns_of(own, solution.policy)
    fresh = None if test is None else held_out(train, test, objective)
    x, static = None if test is None else test.x, objective.summary(train.x, f)
    shares = averaged(followed(own, solution.policy), solution.policy)
    return Compared(name, chosen, solution, train.x, x, static, fresh, shares=shares)
