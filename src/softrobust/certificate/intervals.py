"""What other posterior draws say of a policy, each figure with an interval that states its noise.

Held-out returns z_i with weights w_i are one sample from the posterior. The mean and CVaR are
averages of the scores z and b − (b − z)₊/(1 − α) with b the sample's VaR (eq. 3.2: the first-order
effect of b vanishes at the maximum), so their intervals follow from the scores' spread. Scores of a
tail are skewed to the left, which a symmetric interval ignores to its cost: Hall's (1992) cubic
transformation corrects Student's t for it. VaR gets an interval of order statistics. With fewer
than `TAIL_DRAWS` draws in the tail no interval is given for CVaR at all.

The posterior lower bound fixes b on the *training* models: for any fixed b the score's expectation
is at most the true CVaR, so the held-out average is an unbiased estimate of a valid lower bound.

Where returns are simulated, x[ω, e] is the return of episode e under model ω and x̄_ω its average
over E episodes. A figure g of the models' expected returns is estimated from x̄, and its noise is
taken apart:

- **bias.** x̄ is spread wider than the expected returns, and CVaR looks at the edge: g(x̄) is too
  low. The bias is taken off (see the end of this file); the scores that intervals rest on are
  corrected in the same way, so that the noise of the correction is in them. Where noise is not
  small against the spread of models, intervals are widened by what the correction leaves open.
- **simulation noise.** Given the models, the variance of g is Σ_ω q_ω²·s²_ω/E to first order, with
  q the weights that g gives to models (f for the mean, those of the tail for CVaR) and s²_ω the
  variance of a model's episodes.
- **model noise.** The scores of x̄ vary over models by both; what simulation does not explain is due
  to the finite number of models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self, final

import numpy as np
from scipy.special import bdtr, stdtrit

from softrobust._core.arrays import FloatArray
from softrobust.errors import InputError
from softrobust.objective import (
    EDGE,
    OPTIMUM,
    Objective,
    Percentile,
    cvar,
    mean,
    tail_weights,
    value_at_risk,
)
from softrobust.returns import Returns, Simulation

LEVEL = 0.95
RARE = 5  # models with a regret below which no limit of it can be told
ROUNDED = 1e-10  # and what is none
TAIL_DRAWS = 30  # effective draws in the tail below which its intervals cannot be trusted
NORMAL = 1.959963984540054  # two-sided 95 %
FIGURES = ("objective", "mean", "var", "cvar")


@final
@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval; `low` and `high` are None where no interval is known.

    Where returns are simulated, its noise is taken apart.
    """

    value: float
    low: float | None = None
    high: float | None = None
    bias: float | None = None  # of the simulation; taken off the value
    simulation_se: float | None = None  # from the finite number of episodes, given the models
    # From the finite number of models; None where these are all that is asked about, or where too
    # few of them lie in the tail.
    model_se: float | None = None

    @property
    def width(self) -> float:
        """High − low; infinite where no interval is known."""
        return np.inf if self.low is None or self.high is None else self.high - self.low

    @property
    def interval(self) -> dict[str, float | None]:
        """Value and ends alone, ready for JSON."""
        return {"value": self.value, "low": self.low, "high": self.high}

    def to_dict(self) -> dict[str, float | None]:
        """Ready for JSON."""
        if self.simulation_se is None:
            return self.interval
        noise = {"bias": self.bias, "simulation_se": self.simulation_se, "model_se": self.model_se}
        return self.interval | noise


@final
@dataclass(frozen=True, slots=True)
class Quality:
    """How far figures rest on simulation rather than on the data."""

    episodes: int  # per model
    clipped: float  # share of steps that ended at the edge of the models' box,
    clipped_episodes: float  # and of episodes with such a step
    outside: float | None  # share of visited states beyond the range of the data, if known
    noise_share: float  # of the variance of the models' averages: noise of the simulation


@final
@dataclass(frozen=True, slots=True)
class Sample:
    """A policy's figures on one set of models: those it was chosen on, or held-out ones.

    On held-out models, `optimism` is the training objective minus this one. `lower_bound` estimates
    a valid lower bound on the policy's objective under the posterior itself; its `low` is a
    one-sided 95 % confidence limit (None with too few draws in the tail). There is no such bound at
    α = 1, where no finite sample bounds the worst model, nor for a simulated quantile.
    `simulation` is None where returns are exact, and `var` where they are not.
    """

    n_models: int
    objective: Estimate
    mean: Estimate
    var: Estimate | None
    cvar: Estimate
    optimism: float | None = None
    lower_bound: Estimate | None = None
    simulation: Quality | None = None

    @classmethod
    def exact(cls, n_models: int, static: Mapping[str, float]) -> Self:
        """Figures without noise: objective, mean, var, cvar."""
        objective, mean_, var_, cvar_ = (Estimate(static[name]) for name in FIGURES)
        return cls(n_models, objective, mean_, var_, cvar_)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        made: dict[str, Any] = {"n_models": self.n_models}
        made |= {n: e.to_dict() for n in FIGURES if (e := getattr(self, n)) is not None}
        if self.simulation is not None:
            return made | {f.name: getattr(self.simulation, f.name) for f in fields(Quality)}
        low = self.lower_bound
        return made | {
            "optimism": self.optimism,
            "lower_bound": None if low is None else low.to_dict(),
        }


def sample_of(returns: Returns, objective: Objective, *, given: bool) -> Sample:
    """The figures of a policy.

    Where exactly these models are `given`, exact returns have no noise, simulated ones that of the
    simulation alone. Else the models are draws of a posterior, and intervals are for that.
    """
    x, f = returns.x, returns.f
    if returns.noise is not None:
        return _simulated(returns.noise, objective, given)
    summary = objective.summary(x, f)
    if given:
        return Sample.exact(int(x.size), summary)
    alpha = objective.alpha
    if isinstance(objective, Percentile):
        goal = _quantile(x, f, alpha, summary["objective"])
    else:
        goal = average(summary["objective"], goal_score(x, f, objective), f)
    return Sample(
        n_models=int(x.size),
        objective=goal,
        mean=average(summary["mean"], x, f),
        var=_quantile(x, f, alpha, summary["var"]),
        cvar=average(summary["cvar"], tail_score(x, value_at_risk(x, f, alpha), f, alpha), f),
    )


def held_out(
    train: Returns, test: Returns, objective: Objective, chosen: Sample | None = None
) -> Sample:
    """Returns on the training models beside those on held-out ones.

    `chosen` are the figures on the training models, where they are known already.
    """
    own = sample_of(train, objective, given=True) if chosen is None else chosen
    found = sample_of(test, objective, given=False)
    low = None
    # Noise only lowers averages of concave scores (Jensen); a quantile it may raise.
    if test.noise is None or not isinstance(objective, Percentile):
        low = _lower_bound(train.x, train.f, test.x, test.f, objective)
    return replace(found, optimism=own.objective.value - found.objective.value, lower_bound=low)


def cvar_interval_width(z: FloatArray, alpha: float) -> float:
    """Width of the 95 % interval of CVaR from equally weighted returns z; infinite if unknown."""
    w = np.full(z.size, 1.0 / z.size)
    return average(cvar(z, w, alpha), tail_score(z, value_at_risk(z, w, alpha), w, alpha), w).width


def tail_score(z: FloatArray, b: float, w: FloatArray, alpha: float) -> FloatArray | None:
    """b − (b − z)₊/(1 − α), whose mean is CVaR when b is the VaR; None with too few tail draws."""
    if 1 - alpha <= EDGE or (1 - alpha) * effective_size(w) < TAIL_DRAWS - 1e-6:
        return None
    return b - np.maximum(b - z, 0.0) / (1 - alpha)


def goal_score(
    z: FloatArray, f: FloatArray, objective: Objective, b: float | None = None
) -> FloatArray | None:
    """(1 − λ)·z + λ·tail, whose mean is the objective; None where it is no average.

    b is the VaR of the sample unless it was fixed beforehand.
    """
    lam, alpha = objective.lam, objective.alpha
    if isinstance(objective, Percentile):
        return None
    if lam == 0:
        return z
    tail = tail_score(z, value_at_risk(z, f, alpha) if b is None else b, f, alpha)
    return None if tail is None else (1 - lam) * z + lam * tail


def average(value: float, score: FloatArray | None, w: FloatArray) -> Estimate:
    """A figure that is the mean of scores, with its interval; without scores, without one."""
    if score is None or np.count_nonzero(w) < 2:
        return Estimate(value, None, None)
    low, high = (value - step for step in _hall_steps(score, w, (1 + LEVEL) / 2, (1 - LEVEL) / 2))
    return Estimate(value, low, high)


def _lower_bound(
    train: FloatArray, f: FloatArray, test: FloatArray, w: FloatArray, objective: Objective
) -> Estimate | None:
    lam, alpha = objective.lam, objective.alpha
    if isinstance(objective, Percentile):  # an order statistic bounds a quantile by itself
        value = objective.value(test, w)
        return Estimate(value, _order_statistic(test, w, alpha, 1 - LEVEL), None)
    if lam > 0 and 1 - alpha <= EDGE:
        return None
    b = value_at_risk(train, f, alpha)
    plain = test if lam == 0 else b - np.maximum(b - test, 0.0) / (1 - alpha)
    value = mean((1 - lam) * test + lam * plain, w)
    score = goal_score(test, w, objective, b)
    # A regret is 0 in most models and large in few: none met is not none.
    rare = objective.against == OPTIMUM and np.count_nonzero((test < -ROUNDED) & (w > 0)) < RARE
    if score is None or np.count_nonzero(w) < 2 or rare:
        return Estimate(value, None, None)
    (step,) = _hall_steps(score, w, LEVEL)
    return Estimate(value, value - step, None)


def effective_size(w: FloatArray) -> float:
    """Kish's effective sample size 1/Σw²."""
    return float(1.0 / np.square(w).sum())


def _hall_steps(score: FloatArray, w: FloatArray, *levels: float) -> list[float]:
    """How far below the average its limits lie: Hall's skewness-corrected Student interval.

    With T = (x̄ − μ)/se and skewness g, T + g·T²/(3√n) + g²·T³/(27n) + g/(6√n) is nearly Student;
    the cubic is a perfect cube but for constants, so its inverse is explicit.
    """
    n = effective_size(w)
    centred = score - score @ w
    variance = float(np.square(centred) @ w)
    se = float(np.sqrt(np.square(w * centred).sum() * n / max(n - 1, 1e-9)))
    scale = variance**1.5  # 0 for a tiny variance, too
    skew = float(centred**3 @ w) / scale if scale > 0 else 0.0
    steps = []
    for level in levels:
        x = float(stdtrit(max(n - 1, 1.0), level))
        g = skew / np.sqrt(n)
        if abs(g) > 1e-9:
            x = float(3.0 / g * (np.cbrt(1.0 + g * (x - g / 6.0)) - 1.0))
        steps.append(x * se)
    return steps


def _quantile(z: FloatArray, w: FloatArray, alpha: float, value: float) -> Estimate:
    """A (1 − α)-quantile with an interval of order statistics.

    An end of the range that runs off the sample has no order statistic: it stays unknown.
    """
    low = _order_statistic(z, w, alpha, (1 - LEVEL) / 2)
    return Estimate(value, low, _order_statistic(z, w, alpha, (1 + LEVEL) / 2))


def _order_statistic(z: FloatArray, w: FloatArray, alpha: float, level: float) -> float | None:
    """The order statistic that the (1 − α)-quantile exceeds with probability 1 − level.

    The number of draws below the quantile is binomial: its `level` quantile is the rank.
    """
    n = max(round(effective_size(w)), 1)
    below = np.searchsorted(bdtr(np.arange(n + 1.0), n, 1 - alpha), level)
    rank = float(below) + (1.0 if level > 0.5 else 0.0)
    if not 0 < rank / n < 1:
        return None
    order = np.argsort(z, kind="stable")
    i = int(np.searchsorted(np.cumsum(w[order]), rank / n - EDGE))
    return float(z[order[min(i, z.size - 1)]])


# --------------------------------------------------------------------------------------------------
# The noise of simulated returns inside figures that look at the edge of them.
#
# x̄ is spread wider than the expected returns μ, and so CVaR of x̄ lies too low. Two corrections,
# for two cases:
#
# - **little noise.** The bias is about c/E. Half as many episodes have twice as much, so
#   g(half) − g(x̄), averaged over random halvings, estimates it (Gordy and Juneja 2010). No shape
#   of the returns is assumed.
# - **much noise.** Where models hardly differ the bias is of order 1/√E, and halving takes off a
#   third of it only. Then deviations from the mean are shrunk to the spread that μ must have,
#   Var μ = Var x̄ − noise: exact for models that are a location and a scale of one shape. How far
#   to shrink is itself uncertain, and the interval holds the figures for every factor that could
#   be.

HALVINGS = 20
NOTICE = 0.02  # of the variance of x̄: below this share of noise halving does it
MUCH = 0.2  # above this share the shrunk figure is the estimate
WIDE = 2.0  # standard errors of the share of noise
Figure = Callable[[FloatArray], float]
Score = Callable[[FloatArray], FloatArray | None]


@final
@dataclass(frozen=True, slots=True)
class Noise:
    """How much of the spread of x̄ over models is noise of the simulation."""

    share: float  # noise/Var x̄, at most 1
    low: float  # factors for deviations from the mean: the least that could be right,
    mid: float  # the estimate,
    high: float  # the largest

    @property
    def much(self) -> bool:
        """Whether halving the episodes can no longer correct for it."""
        return self.share > MUCH


def noise_of(returns: FloatArray, f: FloatArray) -> Noise:
    """Take the variance of x̄ over models (weights f) apart; returns (n_models, n_episodes)."""
    E, n = returns.shape[1], effective_size(f)
    x = returns.mean(axis=1)
    square = (x - f @ x) ** 2
    variance = float(f @ square) * n / max(n - 1, 1e-9)
    noise = float(f @ returns.var(axis=1, ddof=1)) / E
    if noise <= 0 or n < 2:
        return Noise(0.0, 1.0, 1.0, 1.0)
    share = min(noise / max(variance, 1e-300), 1.0)
    error = float(np.sqrt((f**2 * (square - f @ square) ** 2).sum())) / max(variance, 1e-300)
    # The estimate of the noise itself varies, too: N·(E − 1) deviations went into it.
    error = float(np.hypot(error, np.sqrt(2 / (n * (E - 1)))))
    left, wide = 1 - share, WIDE * share * error
    low, mid, high = (float(np.sqrt(np.clip(v, 0, 1))) for v in (left - wide, left, left + wide))
    return Noise(share, low, mid, high)


def shrunk(returns: FloatArray, f: FloatArray, factor: float) -> FloatArray:
    """(n_models,) x̄ with its deviations from the mean times `factor`."""
    x = np.asarray(returns.mean(axis=1))
    centre = f @ x
    return np.asarray(centre + factor * (x - centre))


def debias(returns: FloatArray, g: Callable[[FloatArray], Any], halvings: int = HALVINGS) -> Any:
    """g(x̄) less its bias to first order in 1/E, which halves of the episodes have twice.

    returns (n_models, n_episodes); g a figure of x̄ (n_models,), or the scores it is the mean of.
    """
    E = returns.shape[1]
    if E < 2:
        raise InputError("Figures need at least two episodes per model. Simulate more.")
    whole = g(np.asarray(returns.mean(axis=1)))
    rng = np.random.default_rng(0)  # the same returns always give the same figure
    halves: Any = 0.0
    for _ in range(halvings):
        order = rng.permutation(E)
        for half in (order[: E // 2], order[E // 2 : 2 * (E // 2)]):
            halves = halves + g(np.asarray(returns[:, half].mean(axis=1))) / (2 * halvings)
    # With an odd number an episode is left out: its halves have E/⌊E/2⌋ times the bias.
    return whole - (halves - whole) / (E / (E // 2) - 1.0)


def _simulated(sim: Simulation, objective: Objective, given: bool) -> Sample:
    z, f, alpha = sim.means, sim.f, objective.alpha

    def tail(x: FloatArray) -> FloatArray | None:
        return tail_score(x, value_at_risk(x, f, alpha), f, alpha)

    def goal(x: FloatArray) -> FloatArray | None:
        return goal_score(x, f, objective)

    worst, edge = objective.worst_case(z, f), tail_weights(z, f, alpha)
    shares = (sim.clipped, sim.clipped_episodes, sim.outside)
    return Sample(
        n_models=int(z.size),
        objective=_figure(sim, lambda x: objective.value(x, f), worst, goal, given),
        mean=_figure(sim, lambda x: mean(x, f), f, lambda x: x, given),
        var=None,
        cvar=_figure(sim, lambda x: cvar(x, f, alpha), edge, tail, given),
        simulation=Quality(sim.returns.shape[1], *shares, noise_of(sim.returns, f).share),
    )


def _figure(
    sim: Simulation, of: Figure, weights: FloatArray, score: Score, given: bool
) -> Estimate:
    """A figure with the noise of its simulation, for these models or for their posterior."""
    E, plain = sim.returns.shape[1], of(sim.means)
    value = float(debias(sim.returns, of))
    error = float(np.sqrt((weights**2 * sim.returns.var(axis=1, ddof=1)).sum() / E))
    if given:
        reach = NORMAL * error
        found = Estimate(value, value - reach, value + reach, plain - value, error)
    else:
        found = with_models(value, plain - value, error, debiased_score(sim.returns, score), sim.f)
    noise = noise_of(sim.returns, sim.f)
    if noise.share <= NOTICE:
        return found
    factors = (noise.mid, noise.low, noise.high)
    return widened(found, [of(shrunk(sim.returns, sim.f, c)) for c in factors], noise.much)


def widened(figure: Estimate, others: Sequence[float], much: bool) -> Estimate:
    """The figure with what the noise leaves open: `others` are its shrunk values, the best first.

    Ends keep their distance from the value that they were made for.
    """
    value = others[0] if much else figure.value
    bias = (figure.bias or 0.0) + figure.value - value
    if figure.low is None or figure.high is None:
        return replace(figure, value=value, bias=bias)
    ends = [*others, figure.value]
    low = min(ends) + (figure.low - figure.value)
    high = max(ends) + (figure.high - figure.value)
    return replace(figure, value=value, bias=bias, low=low, high=high)


def debiased_score(returns: FloatArray, score: Score) -> FloatArray | None:
    """Scores whose mean is the corrected figure; None where the figure has no scores."""
    if score(np.asarray(returns.mean(axis=1))) is None:
        return None
    return np.asarray(debias(returns, score))


def with_models(
    value: float, bias: float, noise: float, score: FloatArray | None, f: FloatArray
) -> Estimate:
    """The interval for the posterior, from scores over models; `noise` is the simulation's part."""
    if score is None:
        return Estimate(value, None, None, bias, noise)
    span, size = average(value, score, f), effective_size(f)
    total = float((f**2 * (score - score @ f) ** 2).sum()) * size / max(size - 1, 1e-9)
    model = float(np.sqrt(max(total - noise**2, 0.0)))
    return Estimate(value, span.low, span.high, bias, noise, model)
