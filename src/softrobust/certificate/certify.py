"""What can be promised of one policy: its exact value, how far the best can be, and fresh draws.

    ρ^S(π)  ≤  max ρ^S  ≤  bound          on the N sampled models: certain
    held-out mean, VaR, CVaR, objective   on other draws of the posterior: with intervals
    lower  ≤  ρ^S(π)  ≤  max ρ^S  ≤  upper   under the posterior itself: with confidence

Where states are vectors, returns are simulated: figures on the sampled models have intervals too,
and nothing bounds the best policy. None says that the posterior is right: all take the log and the
prior at their word.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, final

from softrobust._core.arguments import names_arguments
from softrobust._core.limits import time_bound
from softrobust._core.show import facts_html, facts_text
from softrobust.bounds import PaperErrors, paper_errors
from softrobust.bounds.best import Bound, Covers, best_bound, clairvoyant_bound
from softrobust.bounds.reduction import rounding
from softrobust.certificate.comparison import PRACTICE, Comparison, compare_policies, paired
from softrobust.certificate.intervals import FIGURES, Estimate, Sample, held_out, sample_of
from softrobust.certificate.posterior import (
    REPLICATIONS,
    SECONDS,
    Draw,
    PosteriorCertificate,
    certify_posterior,
    class_of,
    dual_seconds,
)
from softrobust.errors import InputError, SolverError
from softrobust.models import ModelSet, TimedPolicy
from softrobust.objective import Objective, SoftRobust
from softrobust.problem import ContinuousProblem, Problem
from softrobust.returns import Returns, reference_size, returns_of, static_return, uniform_value
from softrobust.returns.evaluation import AnyPolicy, total_time
from softrobust.solvers.base import Solution, gap_share
from softrobust.solvers.promise import Promise

if TYPE_CHECKING:
    import numpy as np

    from softrobust._core.notes import Note
    from softrobust.models.policy import Policy
    from softrobust.posterior import FittedPosterior


BOUND_SHARE = 0.3  # of the time left, for bounds
DUAL_STATES = 300  # above this the safe dual costs more than a certificate should
INDICATIVE_WORK = 2e8  # N·S³ above which the paper's error terms would take seconds
PAIRED_DRAWS = 2000  # held-out models that a comparison needs at most: differences vary less
ROUNDING = 1e-9  # a value above its bound by more than this share is a bug, not rounding


KEEPING = (Covers.PRACTICE_GROUPS, Covers.PRACTICE_CORNERS, Covers.PRACTICE_CLASS)
UNBOUNDED = Bound(math.inf, Covers.ALL, "none")  # of simulated returns: nothing is proven


@final
@dataclass(frozen=True, slots=True)
class Certificate:
    """The promise: figures on the models, a bound and who it covers, and what other draws say.

    Attributes
    ----------
    sample : Sample
        On the problem's models: exact, or simulated with their noise.
    bound : Bound
        No policy of the class it covers exceeds it on these models; infinite where nothing is
        known.
    heldout : Sample or None
        On models that the policy was not chosen on.
    practice, nominal : Comparison or None
        Against current practice and against the policy that is best for the average model.
    constant : mapping action → Estimate
        Objective of the policy minus that of always taking the action, where states are vectors.
    posterior : PosteriorCertificate or None
        Under the posterior itself, with confidence.
    promise : Promise or None
        Of the truth, after all corrections; the other figures take the posterior at its word.
    notes : tuple of Note
        What to know before relying on it.
    rounding : float
        The gap that may be rounding alone (see `bounds.reduction`).
    """

    sample: Sample
    objective: Objective
    bound: Bound = UNBOUNDED
    uniform_value: float = -math.inf
    heldout: Sample | None = None
    practice: Comparison | None = None
    nominal: Comparison | None = None
    constant: Mapping[str, Estimate] = field(default_factory=dict)
    posterior: PosteriorCertificate | None = None
    promise: Promise | None = None
    indicative: PaperErrors | None = None
    notes: tuple[Note, ...] = ()
    rounding: float = 0.0

    @property
    def static(self) -> dict[str, float]:
        """Values of objective, mean, VaR (where returns are exact) and CVaR on the models."""
        figures = ((name, getattr(self.sample, name)) for name in FIGURES)
        return {name: figure.value for name, figure in figures if figure is not None}

    @property
    def n_models(self) -> int:
        """How many models the policy was chosen on."""
        return self.sample.n_models

    @property
    def gap_abs(self) -> float:
        """Bound − exact value: what at most could still be gained."""
        return self.bound.value - self.static["objective"]

    @property
    def gap(self) -> float | None:
        """gap_abs over |exact value|; None where that is 0."""
        value = self.static["objective"]
        return None if value == 0 else self.gap_abs / abs(value)

    @property
    def gap_share(self) -> float | None:
        """gap_abs over bound − uniform policy: 0 is proven best, 1 no better than chance."""
        return gap_share(self.bound, self.static["objective"], self.uniform_value, self.rounding)

    @property
    def nothing_better(self) -> bool:
        """Whether value and bound meet, up to rounding or a millionth of value and of what is to be
        gained: one disastrous action makes every other gap a small share of that.
        """
        share, size = self.gap_share, max(abs(self.bound.value), abs(self.static["objective"]))
        if math.isinf(size):
            return False
        if share is not None:
            return share <= 1e-6 and self.gap_abs <= max(self.rounding, 1e-6 * size)
        # Where the uniform policy reaches the bound there is no share, and this one may be worse.
        return self.gap_abs <= max(self.rounding, ROUNDING * size)

    def to_dict(self) -> dict[str, Any]:
        """The certificate's part of `solution.json`."""

        def parts(*names: str) -> dict[str, Any]:
            found = {name: getattr(self, name) for name in names}
            return {name: None if x is None else x.to_dict() for name, x in found.items()}

        if self.sample.simulation is not None:
            held = self.heldout
            low = None if held is None else held.lower_bound
            return parts("heldout", "practice") | {
                "train": self.sample.to_dict(),
                "optimism": None if held is None else held.optimism,
                "lower_bound": None if low is None else {"value": low.value, "low": low.low},
                "against_constant": {name: e.to_dict() for name, e in self.constant.items()},
            }
        figures = ("uniform_value", "gap_abs", "gap", "gap_share", "rounding")
        return parts("heldout", "practice") | {
            "static": self.static,
            "bound": self.bound.value,
            "bound_covers": str(self.bound.covers),
            "bound_method": self.bound.method,
            **{name: getattr(self, name) for name in figures},
            **parts("nominal", "posterior", "promise", "indicative"),
        }

    def __str__(self) -> str:
        return facts_text("Certificate", self.to_dict())

    def _repr_html_(self) -> str:
        return facts_html("Certificate", self.to_dict())


@names_arguments
def certify(
    problem: Problem | ContinuousProblem,
    policy: Any,
    heldout: Any = None,
    bounds: Sequence[Bound] = (),
    time_limit: float | None = None,
    practice: Any = None,
    posterior: FittedPosterior | Draw | None = None,
    replications: int = REPLICATIONS,
    indicative: bool = False,
    seed: int | np.random.Generator = 0,
    episodes: int = 100,
) -> Certificate:
    """Certify any policy for the problem.

    Parameters
    ----------
    policy : Policy, ContinuousPolicy or Solution
        A solution of this problem brings the bound that its solver proved; a policy alone does
        not, and is certified against a bound that is quick to have.
    heldout : ModelSet or ContinuousModels, optional
        Models the policy was not chosen on. With a `posterior` they must be draws of it.
    bounds : sequence of Bound
        Bounds that solvers proved; the tightest one that covers the policy's own class is used,
        and the clairvoyant bound is always among them.
    time_limit : float, optional
        Seconds for a tighter bound by the safe dual, where no solver brought one for the policy's
        class; 0 leaves it at the clairvoyant bound. By default it is made where it takes some
        seconds by its size, so that the bound is the same on every machine.
    practice : Policy or ContinuousPolicy, optional
        Current practice, as `behaviour_policy` estimates it: how probably the policy beats it.
    posterior : FittedPosterior or callable, optional
        Draws fresh models, `posterior.sample(n, rng)` or `posterior(n, rng)`: the certificate then
        speaks of the posterior itself too, with confidence (see `certificate.posterior`).
    replications : int
        Sets of fresh models drawn for that, at most; they take some five seconds in all.
    indicative : bool
        Whether to add the paper's error terms ε₁, ε₂ and corollary 5.3, which promise nothing here
        (see `bounds.paper_errors`); left out where they would take long.
    seed : int or Generator
        For the fresh models, or for simulations: policies with one seed meet the same luck.
    episodes : int
        Simulated per model, where states are vectors.
    """
    if isinstance(problem, ContinuousProblem):
        if bounds or posterior is not None or indicative:
            raise InputError(
                "Where states are vectors, returns are simulated and nothing bounds the best "
                "policy: leave bounds, posterior and indicative out."
            )
        return _certify_vectors(problem, policy, heldout, practice, episodes, seed)
    if isinstance(policy, Solution):
        policy, bounds = _with_its_bound(problem, policy, bounds)
    train = returns_of(problem, policy)
    sample = sample_of(train, problem.objective, given=True)
    known = _quick_bound(problem, class_of(policy), bounds, time_limit)
    held = under = old = None
    if heldout is not None:
        held = held_out(train, returns_of(problem, policy, heldout), problem.objective, sample)
    if posterior is not None:
        under = certify_posterior(problem, policy, posterior, held, replications, seed=seed)
    if practice is not None:
        many = isinstance(heldout, ModelSet) and heldout.n_models > PAIRED_DRAWS
        some = heldout.select(range(PAIRED_DRAWS)) if many else heldout
        old = compare_policies(problem, policy, practice, some)
    return Certificate(
        sample=sample,
        objective=problem.objective,
        bound=_tightest(problem, policy, [known, *bounds], sample),
        uniform_value=uniform_value(problem),
        heldout=held,
        practice=old,
        posterior=under,
        indicative=_indicative(problem, policy) if indicative else None,
        rounding=rounding(problem),
    )


def _quick_bound(
    problem: Problem, own: Covers, bounds: Sequence[Bound], time_limit: float | None
) -> Bound:
    """The safe dual's bound where no solver brought one of the class, else the clairvoyant one."""
    brought = any(b.covers in (own, *KEEPING) for b in bounds)
    clock = time_bound().part(BOUND_SHARE)
    if time_limit is None:
        time_limit = math.inf if problem.n_models * dual_seconds(problem) <= SECONDS else 0.0
    if time_limit > 0 and not brought and problem.n_states <= DUAL_STATES and not clock.passed:
        known = best_bound(problem, own, min(time_limit, clock.left), clock.limit is None)
    else:
        known = clairvoyant_bound(problem, deadline=clock)
    if clock.passed:
        time_bound().note("bound")
    return known


def _certify_vectors(
    problem: ContinuousProblem, policy: Any, heldout: Any, practice: Any, episodes: int, seed: Any
) -> Certificate:
    policy = policy.policy if isinstance(policy, Solution) else policy
    train = returns_of(problem, policy, None, episodes, seed)
    fresh = None if heldout is None else returns_of(problem, policy, heldout, episodes, seed)
    found = simulated_certificate(train, fresh, problem.objective)
    if practice is None:
        return found
    old = returns_of(problem, practice, heldout, episodes, seed)
    own = train if fresh is None else fresh
    return replace(
        found, practice=paired(own, old, problem.objective, PRACTICE, heldout is not None)
    )


def simulated_certificate(
    train: Returns, fresh: Returns | None, objective: Objective
) -> Certificate:
    """The certificate from simulated returns on the training models and on held-out ones."""
    sample = sample_of(train, objective, given=True)
    held = None if fresh is None else held_out(train, fresh, objective, sample)
    return Certificate(sample, objective, heldout=held)


def _with_its_bound(
    problem: Problem, solution: Solution, bounds: Sequence[Bound]
) -> tuple[Policy, Sequence[Bound]]:
    """Policy and bounds; a solution's own bound holds only for the problem it was made on."""
    names = ("gamma", "n_models", "objective", "horizon")
    same = all(getattr(solution, name) == getattr(problem, name) for name in names)
    # Two values that every reward and every probability of an allowed action enters.
    pairs = [(static_return(problem, solution.policy), solution.static_value)]
    if solution.uniform_value is not None:
        pairs.append((uniform_value(problem), solution.uniform_value))
    size = max(reference_size(problem), 1e-300)
    differs = any(abs(a - b) > 1e-8 * max(abs(a), abs(b), size) for a, b in pairs)
    if not same or differs:
        raise InputError(
            f"The solution of '{solution.solver}' was found for another problem, where it earns "
            f"{solution.static_value:.6g} (γ = {solution.gamma:g}, {solution.n_models} models), so "
            "that its bound does not hold here. Certify its policy: certify(problem, "
            "solution.policy)."
        )
    return solution.policy, bounds if solution.bound is None else [*bounds, solution.bound]


def _indicative(problem: Problem, policy: AnyPolicy) -> PaperErrors | None:
    S, _, N = problem.R.shape
    goal = problem.objective
    # They are about the return alone, and about problems without end.
    if not isinstance(goal, SoftRobust) or goal.against or isinstance(policy, TimedPolicy):
        return None
    if problem.horizon is not None or N * S**3 > INDICATIVE_WORK:
        return None
    known = {"this policy": policy, "the uniform policy": problem.uniform_policy()}
    return paper_errors(problem, list(known.values()), list(known))


def _tightest(
    problem: Problem, policy: AnyPolicy, bounds: Sequence[Bound], sample: Sample
) -> Bound:
    own, order = class_of(policy), list(Covers)  # each class contains the one before it
    kept = KEEPING if own is not Covers.TIMED else ()
    valid = [b for b in bounds if b.covers in kept or order.index(b.covers) >= order.index(own)]
    best = min(valid, key=lambda b: b.value)
    value = sample.objective.value
    scale = max(abs(value), abs(best.value), abs(sample.mean.value), 1e-300)
    scale += reference_size(problem)
    # A policy's rows may miss 1 by 1e-12, which its value shows at every step; around 0 the
    # size of the returns is what rounds, not the size of the value.
    room = (ROUNDING + 4e-12 * total_time(problem)) * scale + rounding(problem, excused=False)
    if value > best.value + room:
        raise SolverError(
            f"The policy earns {value!r}, above the {best.method} bound {best.value!r}: one of the "
            "two is wrong. Please report this with the problem file."
        )
    # Anything above a valid bound is a valid bound: rounding never makes the two cross.
    return replace(best, value=max(best.value, value))
