"""What holds under the posterior itself, with confidence: a policy's value, and how far the best.

The bound of the certificate is about the N models drawn. Fresh draws speak of the posterior they
come from (Mak, Morton and Wood 1999; Bayraksan and Morton 2006):

    lower    E[score with b fixed beforehand] ≤ ρ^S(π), an average over fresh models;
    upper    E[v_N] ≥ ρ* = max_π ρ^S(π), with v_N the optimum on N fresh models (or a bound on it),
             averaged over independent replications;
    paired   on one and the same replication v_N ≥ ρ^S_N(π) ≥ the average score, so their difference
             is never negative, and its expectation is at least what π misses: ρ* − ρ^S(π).

Each average gets a one-sided limit at 95 %. Lower and upper hold together with 90 % at least
(Bonferroni); the paired difference is one statement, and tighter: what both sides share cancels.

Who looks several times, with ever more models, until the paired difference is small, stops where
luck was good (Bayraksan and Pierre-Louis 2012). So look k has fresh replications of its own, and
may be wrong with 5 %·2⁻ᵏ only: all looks together, and whichever was the last, with 5 % at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import FloatArray
from softrobust._core.limits import Deadline, time_bound
from softrobust._core.notes import RECORDED, Note, read_notes
from softrobust._core.settings import instance, whole
from softrobust.bounds import Bound, Covers, best_bound, clairvoyant_bound
from softrobust.bounds.best import check_replications, upper_limit
from softrobust.bounds.reduction import rounding
from softrobust.certificate import intervals
from softrobust.errors import InputError
from softrobust.models.policy import Policy, TimedPolicy
from softrobust.objective import EDGE, SoftRobust, value_at_risk
from softrobust.posterior import FittedLearned, FittedPosterior
from softrobust.posterior.base import CHECKING, FRESH
from softrobust.posterior.sampling import Draws, side_by_side, stream
from softrobust.problem import Problem
from softrobust.returns import Returns, returns_of, uniform_value
from softrobust.returns.evaluation import AnyPolicy
from softrobust.solvers.base import gap_share
from softrobust.solvers.exact.exact import Exact, few_rules
from softrobust.solvers.practice_class import PracticeClass

if TYPE_CHECKING:
    from softrobust.models.model_set import ModelSet

Draw = Callable[[int, np.random.Generator], "ModelSet"]

REPLICATIONS = 10
SECONDS = 5.0  # for all replications together, about, as `replication_seconds` counts them
REPLICATION_SHARE = 0.3  # of the time left, at most
REPLICATED, POOLED = 600, 100  # models of one, at most, and at least where draws are few
LEAST = 4  # replications below which no limit is given
HELD_OUT = "held-out models"  # where a lower limit comes from
DUAL_STATES = 300  # above this, replications are bounded by the clairvoyant bound
EXACT_WORK = 3e7  # N·A·S³ up to which replications are solved by branch and bound,
GAP = 1e-4  # to this gap,
NODE_NUMBERS, FEWEST_NODES = 6e5, 5  # or until nodes, and S·A·N for each, come to this
SPAWN = 3  # children 0 to 2 of a run's seed are train, test and set-building draws
METHODS = {"clairvoyant": "the clairvoyant bound", "safe dual": "the safe dual"}
RECORDED_AS = ("confidence", "replications", "models", "lower", "lower_from", "upper", "upper_mean",
               "upper_error", "upper_method", "paired_gap", "gap_share")  # fmt: skip
RENAMED = {"models": "n_models", "upper_method": "method"}  # names in files → attributes
POOL_BYTES = 96 * 2**20  # draws up to this size, their rewards included, are made at once


@final
@dataclass(frozen=True, slots=True)
class PosteriorCertificate:
    """Limits under the posterior, each with its confidence; estimates, not proofs.

    Attributes
    ----------
    lower : float or None
        The policy's objective is at least this; None at α = 1 or with too few draws in the tail.
    lower_from : str
        Which draws it comes from: "held-out models" or "replications".
    upper : float or None
        No policy of the class `covers` exceeds it; None where `reason` says why.
    upper_mean, upper_error : float or None
        The average of the replications' bounds and its standard error.
    paired_gap : float or None
        The policy misses at most this of the best of the class `covers`, by paired differences.
    gap_share : float or None
        The same as a share of what is to be gained: of upper less what acting at random earns.
    method : str
        How each replication was bounded.
    replications, n_models : int
        How many, of how many models each.
    confidence : float
        Of each one-sided limit.
    """

    lower: float | None
    lower_from: str
    upper: float | None
    upper_mean: float | None
    upper_error: float | None
    paired_gap: float | None
    covers: Covers
    method: str
    replications: int
    n_models: int
    confidence: float = intervals.LEVEL
    reason: Note | None = None
    gap_share: float | None = None

    @property
    def gap(self) -> float | None:
        """Upper − lower."""
        if self.upper is None or self.lower is None:
            return None
        return self.upper - self.lower

    @property
    def gap_confidence(self) -> float:
        """That both limits hold, at least (Bonferroni)."""
        return round(1 - 2 * (1 - self.confidence), 12)

    @property
    def crossed(self) -> bool:
        """Whether chance crossed the limits and upper gave way: paired differences leave a gap."""
        gap, paired = self.gap, self.paired_gap
        if gap is None or paired is None:
            return False
        return self.negligible(gap) and not self.negligible(paired)

    def to_dict(self) -> dict[str, Any]:
        """The part `posterior` of `solution.json`."""
        return {name: getattr(self, RENAMED.get(name, name)) for name in RECORDED_AS} | {
            "upper_covers": str(self.covers),
            "gap": self.gap,
            "gap_confidence": self.gap_confidence,
            "reason": "" if self.reason is None else self.reason.to_dict(),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> PosteriorCertificate:
        """The inverse of `to_dict`."""
        record = {"gap_share": None, **record}  # older versions had none
        made = {RENAMED.get(name, name): record[name] for name in RECORDED_AS}
        reason = read_notes([record["reason"]])[0] if record["reason"] else None
        return cls(**made, covers=Covers(record["upper_covers"]), reason=reason)

    def held_out(self, problem: Problem, heldout: intervals.Sample | None) -> PosteriorCertificate:
        """With the lower limit of held-out models, where they give one."""
        lower = _lower(heldout)
        if lower is None:
            return self
        upper = None if self.upper is None else max(self.upper, lower)
        share = _share(problem, upper, self.paired_gap)
        return replace(self, lower=lower, lower_from=HELD_OUT, upper=upper, gap_share=share)

    def negligible(self, gap: float) -> bool:
        """Whether the gap is what floating point leaves of none."""
        return self.upper is not None and gap <= 1e-9 * abs(self.upper)


@names_arguments
def certify_posterior(
    problem: Problem,
    policy: AnyPolicy,
    posterior: FittedPosterior | Draw,
    heldout: intervals.Sample | None = None,
    replications: int = REPLICATIONS,
    seconds: float | None = None,
    seed: int | np.random.Generator = 0,
    look: int = 0,
    n_models: int | None = None,
    among: PracticeClass | Covers | None = None,
) -> PosteriorCertificate:
    """Limits on the policy's value and on the best value under the posterior.

    Parameters
    ----------
    problem : Problem
        What the policy was chosen on.
    posterior : FittedPosterior or callable
        Draws n models with `posterior.sample(n, rng)`, or `posterior(n, rng)`: independent, of
        equal weight, and not those that the policy was chosen on.
    heldout : Sample, optional
        The policy on other draws of the same posterior, for a sharper lower limit.
    replications : int
        At most; fewer where they would take longer than some seconds.
    seconds : float, optional
        About; each replication gets its share of them. Without any, and without a limit on all that
        is done, work is counted and not timed: limits are then the same on every machine.
    seed : int or Generator
        A number gives draws of their own, independent of those that `sample` makes of it.
    look : int
        Where it is asked again and again whether to stop: 1 for the first time, 2, … Each has draws
        of its own (with a number for a seed), and its share of the level.
    n_models : int, optional
        Of each replication, drawn afresh; by default as many as the problem has, at most 600.
    among : PracticeClass or Covers, optional
        The class whose best the policy is compared with; by default all of the policy's own kind.
    """
    instance("problem", problem, Problem)
    check_replications(whole("replications", replications), LEAST)
    if time_bound().limit is not None:
        seconds = max(min(seconds or SECONDS, REPLICATION_SHARE * time_bound().left), 1e-3)
    covers = class_of(policy)
    if not isinstance(problem.objective, SoftRobust):
        return _without(problem, heldout, covers, Note("replications_bound_averages"))
    if isinstance(seed, np.random.Generator):
        rng = seed.spawn(1)[0]
    else:  # not the stream of the models that the policy was chosen on, for the same number
        key = (SPAWN, whole("look", look)) if look else (SPAWN,)
        rng = np.random.default_rng(np.random.SeedSequence(whole("seed", seed, 0), spawn_key=key))
    n = n_models or min(problem.n_models, REPLICATED)
    if isinstance(posterior, FittedPosterior):
        posterior = posterior.share(FRESH)
        if posterior.pool is not None:  # a sampler that kept few draws has fewer, and smaller ones
            n = min(n, max(POOLED, posterior.pool // replications))
            if posterior.pool < LEAST * n:
                left = {"draws": posterior.pool, "least": LEAST, "models": n}
                few = Note("replications_few_draws", facts=left)
                return _without(problem, heldout, covers, few)
            replications = min(replications, posterior.pool // n)
    try:
        if isinstance(among, PracticeClass):  # whose problem in composite actions has the policy
            plain, small = isinstance(policy, Policy), problem.n_states <= DUAL_STATES
            spanned = small and (among.reaches(policy.probs) if plain else not among.grouped)
            among = among if spanned else None
        if seconds is None:
            some = SECONDS / replication_seconds(problem, n, covers if among is None else among)
            replications = 0 if some < 1 else int(np.clip(some, LEAST, replications))
        fresh = _draws(problem, posterior, n, replications, seconds, rng)
        found = _replicate(problem, policy, fresh, n, among, replications, seconds)
        if len(found) < replications:
            time_bound().note("replications")
    except InputError as error:  # a sampler that has kept too few draws
        return _without(problem, heldout, covers, Note(RECORDED, facts={"text": str(error)}))
    if len(found) < LEAST:
        facts = {"least": LEAST, "seconds": SECONDS if seconds is None else seconds}
        return _without(problem, heldout, covers, Note("replications_too_slow", facts=facts))
    made = _limits(problem, policy, found, 1 - (1 - intervals.LEVEL) * 0.5**look)
    if _alone(problem, policy, among):
        made = replace(made, paired_gap=0.0, gap_share=_share(problem, made.upper, 0.0))
    return replace(made, n_models=n).held_out(problem, heldout)


def _alone(problem: Problem, policy: AnyPolicy, among: PracticeClass | Covers | None) -> bool:
    """Whether nothing else is in the class that the policy is compared with."""
    if isinstance(among, PracticeClass):
        return not among.open.any()
    several = problem.allowed[problem.decided].sum(axis=1) > 1
    return not (several.any() or (policy.probs * ~problem.allowed)[..., problem.decided, :].any())


def class_of(policy: AnyPolicy) -> Covers:
    """The class that a policy is compared with: its bounds speak of the best of these."""
    if isinstance(policy, TimedPolicy):
        return Covers.TIMED
    return Covers.DETERMINISTIC if policy.deterministic else Covers.STATIONARY


def _replicate(
    problem: Problem,
    policy: AnyPolicy,
    fresh: Iterable[ModelSet],
    n: int,
    among: PracticeClass | Covers | None,
    replications: int,
    seconds: float | None,
) -> list[tuple[Bound, FloatArray]]:
    """Bounds of the replications and the policy's returns there; only one where it takes long.

    Where work is counted and not timed, they are made side by side.
    """
    each = None if seconds is None else seconds / replications

    def one(models: ModelSet) -> tuple[Bound, FloatArray]:
        there, began = problem.with_models(models), time.monotonic()
        bound = _bound(there, policy, among, each)
        if each is not None and time.monotonic() - began >= each:  # its search was cut short
            time_bound().note("replications")
        return bound, returns_of(there, policy).x

    if each is None and time_bound().limit is None and _together(problem, n, replications):
        return side_by_side(one, fresh)
    found: list[tuple[Bound, FloatArray]] = []
    # Where nobody has set a limit, what other processes do does not count.
    spent = Deadline(of_work=time_bound().limit is None)
    drawing = 0.0
    for models in fresh:
        if not found:  # all may have been drawn at once
            drawing = spent.elapsed
        found.append(one(models))
        if time_bound().passed:
            break
        if len(found) == 1 and seconds is not None:  # depends on the clock, not on what was seen
            took = spent.elapsed - drawing
            left = seconds - drawing
            if took > left or LEAST * took > 0.5 * time_bound().left:
                break
            replications = int(np.clip(left / max(took, 1e-9), LEAST, replications))
        if len(found) == replications:
            break
    return found


def _draws(
    problem: Problem,
    posterior: FittedPosterior | Draw,
    n: int,
    replications: int,
    seconds: float | None,
    rng: np.random.Generator,
) -> Iterator[ModelSet]:
    """Fresh models for each replication.

    Drawn together where they fit, and then shared out: a sampler gives each of its draws once, so
    that replications have none in common.
    """
    draw: Draw = posterior.sample if isinstance(posterior, FittedPosterior) else posterior
    if not replications or time_bound().passed:
        return
    if seconds is not None and time_bound().limit is not None:  # a few show if a set can be drawn
        for few, times in ((1, 10.0), (min(n, TRIAL), 1.0)):  # one alone takes longer than others
            began = time.monotonic()
            draw(few, rng.spawn(1)[0])
            if n / few * (time.monotonic() - began) * LEAST > times * seconds:
                return
    if not _together(problem, n, replications):
        for _ in range(replications):
            yield draw(n, rng)
        return
    pool = draw(n * replications, rng)
    for i in range(replications):
        yield pool.select(np.arange(i * n, (i + 1) * n))


def _together(problem: Problem, n: int, replications: int) -> bool:
    """Whether the models of all replications fit into memory at once."""
    own = problem.models.rewards  # as many numbers as there are probabilities, where they are drawn
    numbers = 2 if own is not None and own.kind == "model" else 1
    return 8.0 * numbers * problem.models.next_states.size * n * replications <= POOL_BYTES


def _bound(
    problem: Problem, policy: AnyPolicy, among: PracticeClass | Covers | None, seconds: float | None
) -> Bound:
    """The best bound on one replication's optimum in the class that seconds or work afford."""
    if isinstance(among, PracticeClass):
        inside = among.composite(problem)
        own = inside.corner(policy) if isinstance(policy, Policy) else None
        there = own or inside.problem.uniform_policy()
        return among.named(problem, _bound(inside.problem, there, None, seconds))
    covers = class_of(policy) if among is None else among
    method = _method(problem, problem.n_models, covers, seconds is None)
    if method == CLAIRVOYANT:
        return clairvoyant_bound(problem)
    if method == EXACT and isinstance(policy, Policy):
        nodes = max(FEWEST_NODES, int(NODE_NUMBERS / problem.R.size)) if seconds is None else None
        if few_rules(problem):  # all are tried: that is counted already
            nodes = None
        solver = Exact(gap=GAP, time_limit=seconds, node_limit=nodes, start=policy)
        solved = solver.solve(problem).bound
        assert solved is not None  # Exact always has one
        return solved
    return best_bound(problem, covers, seconds, time_bound().limit is None)


CLAIRVOYANT, DUAL, EXACT = "clairvoyant", "dual", "exact"
# Seconds, on a machine like any: of the optimum of one model by S³ or by what is stored of its
# rows; of a safe dual by N·S³ and S·A·N; of a node by S·A·N, of which there are usually so many
OPTIMUM_DENSE, OPTIMUM_SPARSE = 1.5e-9, 2e-7
DUAL_CUBE, DUAL_NUMBER = 1e-8, 1e-6
NODE_NUMBER, NODES = 3e-6, 10


def _method(problem: Problem, n: int, covers: Covers, counted: bool) -> str:
    """How replications of `n` models are bounded, by their size alone."""
    S, A = problem.n_states, problem.n_actions
    if S > DUAL_STATES:
        return CLAIRVOYANT
    if covers is Covers.DETERMINISTIC and n * A * S**3 <= EXACT_WORK and problem.horizon is None:
        return EXACT
    slow = counted and n * dual_seconds(problem) > SECONDS / LEAST
    return CLAIRVOYANT if slow else DUAL


def dual_seconds(problem: Problem) -> float:
    """About how long the safe dual takes for each model, told from sizes alone."""
    S, A = problem.n_states, problem.n_actions
    return (DUAL_CUBE * S**3 + DUAL_NUMBER * S * A) * (problem.horizon or 1)


def replication_seconds(problem: Problem, n: int, among: PracticeClass | Covers) -> float:
    """About how long a replication of `n` models takes, told from sizes alone."""
    S, A, stored = problem.n_states, problem.n_actions, problem.models.next_states.size
    covers = among if isinstance(among, Covers) else Covers.DETERMINISTIC
    each = min(OPTIMUM_DENSE * S**3, OPTIMUM_SPARSE * stored / A) * (problem.horizon or 1)
    method = _method(problem, n, covers, True)
    if method == EXACT:
        each += NODES * NODE_NUMBER * S * A
    elif method == DUAL:
        each += dual_seconds(problem)
    return n * each


def _limits(
    problem: Problem, policy: Any, found: list[tuple[Bound, FloatArray]], level: float
) -> PosteriorCertificate:
    """One-sided limits from the replications."""
    train, (bounds, returns) = returns_of(problem, policy), zip(*found, strict=True)
    upper, mean, error = upper_limit(np.array([b.value for b in bounds]), level)
    scores = [_score(problem, train.x, x) for x in returns]
    paired = None
    if scores[0] is not None:
        missed = [b.value - s for b, s in zip(bounds, scores, strict=True) if s is not None]
        paired = max(upper_limit(np.array(missed), level)[0], 0.0)
    every = np.concatenate(returns)
    w = np.full(every.size, 1.0 / every.size)
    lower = _lower(intervals.held_out(train, Returns(every, w), problem.objective))
    if lower is not None:  # chance may put the limits the wrong way round; above is still above
        upper = max(upper, lower)
    order = list(Covers)  # a result covers what every replication covers
    methods = sorted({METHODS.get(b.method, "branch and bound") for b in bounds})
    return PosteriorCertificate(
        lower=lower,
        lower_from="replications",
        upper=upper,
        upper_mean=mean,
        upper_error=error,
        paired_gap=paired,
        covers=min((b.covers for b in bounds), key=order.index),
        method=" or ".join(methods),
        replications=len(bounds),
        n_models=problem.n_models,
        gap_share=_share(problem, upper, paired),
    )


def _share(problem: Problem, upper: float | None, missed: float | None) -> float | None:
    """What is missed, of what is to be gained over acting at random."""
    if upper is None or missed is None:
        return None
    best = Bound(upper, Covers.ALL, "")
    return gap_share(best, upper - missed, uniform_value(problem), rounding(problem))


def _score(problem: Problem, train: FloatArray, x: FloatArray) -> float | None:
    """(1 − λ)·mean + λ·[b − mean(b − x)₊/(1 − α)] with b the VaR of the training returns.

    Its expectation over fresh draws is at most ρ^S under the posterior; None at α = 1.
    """
    lam, alpha = problem.objective.lam, problem.objective.alpha
    if lam == 0:
        return float(x.mean())
    if 1 - alpha <= EDGE:
        return None
    b = value_at_risk(train, problem.models.f, alpha)
    tail = b - float(np.maximum(b - x, 0.0).mean()) / (1 - alpha)
    return (1 - lam) * float(x.mean()) + lam * tail


def _lower(heldout: intervals.Sample | None) -> float | None:
    return None if heldout is None or heldout.lower_bound is None else heldout.lower_bound.low


def _without(
    problem: Problem, heldout: intervals.Sample | None, covers: Covers, reason: Note
) -> PosteriorCertificate:
    limits = (_lower(heldout), HELD_OUT, None, None, None, None)
    return PosteriorCertificate(*limits, covers, "", 0, problem.n_models, reason=reason)


# --------------------------------------------------------------------------------------------------
# How many held-out draws are enough, where drawing is cheap.

INTERVAL_SHARE = 0.01  # of the range of the training returns: how well CVaR is to be known
PILOT, TRIAL = 500, 4
HELD_SHARE = 0.3  # of the time left, for held-out models
MOST = 10_000
MOST_CELLS = 2**25  # probabilities of all draws: some seconds to draw
PILOT_STREAM, TEST_STREAM, TRIAL_STREAM = 0, 1, 2  # below the seed of held-out models
LEARNED = 2  # times as long as others do draws of the learned prior take
MOST_WORK = 1e11  # multiply-adds to evaluate them: some ten seconds


@names_arguments
def draw_heldout(
    posterior: FittedPosterior,
    problem: Problem,
    policy: AnyPolicy,
    seed: np.random.SeedSequence,
    share: float = INTERVAL_SHARE,
) -> Draws:
    """As many draws as make the CVaR interval at most `share` of the range of training returns.

    A pilot of 500 draws measures the spread; the interval shrinks as 1/√n. At most 10 000 draws,
    fewer where their evaluation would outgrow some ten seconds.
    """
    own = returns_of(problem, policy)
    spread = float(np.ptp(own.x))
    most = _affordable(problem)
    posterior = posterior.share(CHECKING)
    if posterior.pool is not None:
        most = min(most, posterior.pool)
    if isinstance(posterior, FittedLearned):
        most = max(most // LEARNED, 50)
    clock = time_bound()
    if clock.limit is not None:
        few = stream(seed, TRIAL_STREAM)
        each = clock.seconds_each(
            lambda n: returns_of(problem, policy, Draws.of(posterior, n, few)), TRIAL, most
        )
        most = clock.affords("heldout", most, 3 * each, HELD_SHARE, TRIAL)  # pilot, rivals, report
        if most <= TRIAL:
            return Draws.of(posterior, most, few)
    n = min(PILOT, most)
    if spread > 1e-9 * own.size:  # else all returns are equal
        tail = max(1.0 - problem.objective.alpha, intervals.TAIL_DRAWS / MOST)
        n = min(max(PILOT, int(np.ceil(2 * intervals.TAIL_DRAWS / tail))), most)
        z = returns_of(problem, policy, Draws.of(posterior, n, stream(seed, PILOT_STREAM))).x
        width = intervals.cvar_interval_width(z, problem.objective.alpha)
        if not np.isfinite(width):
            n = most
        elif width > share * spread:
            n = int(min(most, np.ceil(1.1 * n * (width / (share * spread)) ** 2)))
    return Draws.of(posterior, n, stream(seed, TEST_STREAM))


def _affordable(problem: Problem) -> int:
    """Draws of at most `MOST_CELLS`, whose evaluation takes about `MOST_WORK` at most."""
    S, stored = problem.n_states, max(problem.models.next_states.size, 1)
    # A factorisation, or some hundred products with the policy's own rows where models are sparse.
    work = min(S**3 / 3.0, 400.0 * (stored / problem.n_actions) + 2e4 * S)
    return int(np.clip(min(MOST_CELLS / stored, MOST_WORK / work), 50, MOST))
