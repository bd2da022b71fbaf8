"""What simulations can promise of a policy for continuous states, with two kinds of noise apart.

x[ω, e] is the return of episode e under model ω, x̄_ω its average over E episodes. A figure g of the
models' expected returns (mean, CVaR, objective) is estimated from x̄:

- **bias.** x̄ is spread wider than the expected returns, and CVaR looks at the edge: g(x̄) is too
  low. `simulation_noise` takes the bias off; the scores that intervals rest on are corrected in the
  same way, so that the noise of the correction is in them. Where noise is not small against the
  spread of models, intervals are widened by what the correction leaves open.
- **simulation noise.** Given the models, the variance of g is Σ_ω q_ω²·s²_ω/E to first order, with
  q the weights that g gives to models (f for the mean, those of the tail for CVaR) and s²_ω the
  variance of a model's episodes.
- **model noise.** The scores of x̄ vary over models by both; what simulation does not explain is due
  to the finite number of models.

The posterior lower bound averages b − (b − x̄)₊/(1 − α) with b fixed on training models. By Jensen's
inequality simulation noise only lowers it: it stays a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust.certificate.comparison import SAME, Comparison, share_estimate
from softrobust.certificate.intervals import (
    MUCH,
    NOTICE,
    TAIL_DRAWS,
    Estimate,
    average,
    debias,
    effective_size,
    held_out,
    noise_of,
    shrunk,
    tail_score,
)
from softrobust.errors import InputError
from softrobust.objective import Objective, Percentile, SoftRobust, cvar, mean, tail_weights, var
from softrobust.returns.simulation import Simulation, simulate

if TYPE_CHECKING:
    from softrobust.continuous_problem import ContinuousProblem
    from softrobust.models.continuous import ContinuousModels
    from softrobust.models.continuous_policy import ContinuousPolicy


Figure = Callable[[FloatArray], float]
Score = Callable[[FloatArray], FloatArray | None]
NORMAL = 1.959963984540054  # two-sided 95 %


@final
@dataclass(frozen=True, slots=True)
class SimulatedFigure:
    """A figure of the models' expected returns, its noise taken apart.

    Attributes
    ----------
    value : float
        With the bias of the simulation taken off.
    bias : float
        What was taken off.
    simulation_se : float
        Standard error from the finite number of episodes, given the models.
    model_se : float or None
        Standard error from the finite number of models; None where these are all that is asked
        about (training models), or where too few of them lie in the tail.
    low, high : float or None
        95 % interval: both kinds of noise, or simulation noise alone where `model_se` is None
        because the models are given. None where no interval is known.
    """

    value: float
    bias: float
    simulation_se: float
    model_se: float | None
    low: float | None
    high: float | None

    def to_dict(self) -> dict[str, float | None]:
        """Ready for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:.4g} (± {NORMAL * self.simulation_se:.2g} from simulation)"
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


@final
@dataclass(frozen=True, slots=True)
class SimulatedFigures:
    """Objective, mean and CVaR of one policy on one set of models."""

    objective: SimulatedFigure
    mean: SimulatedFigure
    cvar: SimulatedFigure
    n_models: int
    episodes: int
    clipped: float
    clipped_episodes: float
    outside: float | None
    noise_share: float  # of the variance of the models' averages: simulation noise

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        figures = {name: getattr(self, name).to_dict() for name in ("objective", "mean", "cvar")}
        counts = ("n_models", "episodes", "clipped", "clipped_episodes", "outside", "noise_share")
        return figures | {name: getattr(self, name) for name in counts}


def figures_on_models(sim: Simulation, objective: Objective) -> SimulatedFigures:
    """The figures for exactly these models: simulation noise is all there is."""
    return _figures(sim, objective, given=True)


def figures_on_posterior(sim: Simulation, objective: Objective) -> SimulatedFigures:
    """The figures for the posterior that the models are draws of: both kinds of noise."""
    return _figures(sim, objective, given=False)


def _figures(sim: Simulation, objective: Objective, given: bool) -> SimulatedFigures:
    z, f, alpha = sim.means, sim.f, objective.alpha

    def tail(x: FloatArray) -> FloatArray | None:
        return tail_score(x, var(x, f, alpha), f, alpha)

    parts: dict[str, tuple[Figure, FloatArray, Score]] = {
        "objective": (
            lambda x: objective.value(x, f),
            objective.worst_case(z, f),
            lambda x: _goal_score(x, f, objective),
        ),
        "mean": (lambda x: mean(x, f), f, lambda x: x),
        "cvar": (lambda x: cvar(x, f, alpha), tail_weights(z, f, alpha), tail),
    }
    made = {name: _figure(sim, *part, given) for name, part in parts.items()}
    return SimulatedFigures(
        **made,
        n_models=int(z.size),
        episodes=int(sim.returns.shape[1]),
        clipped=sim.clipped,
        clipped_episodes=sim.clipped_episodes,
        outside=sim.outside,
        noise_share=noise_of(sim.returns, sim.f).share,
    )


def _figure(
    sim: Simulation, of: Figure, weights: FloatArray, score: Score, given: bool
) -> SimulatedFigure:
    E, plain = sim.returns.shape[1], of(sim.means)
    value = float(debias(sim.returns, of))
    error = float(np.sqrt((weights**2 * sim.returns.var(axis=1, ddof=1)).sum() / E))
    if given:
        reach = NORMAL * error
        found = SimulatedFigure(value, plain - value, error, None, value - reach, value + reach)
    else:
        score_ = _debiased_score(sim.returns, score)
        found = _with_models(value, plain - value, error, score_, sim.f)
    noise = noise_of(sim.returns, sim.f)
    if noise.share <= NOTICE:
        return found
    factors = (noise.mid, noise.low, noise.high)
    return _widened(found, [of(shrunk(sim.returns, sim.f, c)) for c in factors], noise.much)


def _widened(figure: SimulatedFigure, others: Sequence[float], much: bool) -> SimulatedFigure:
    """The figure with what the noise leaves open: `others` are its shrunk values, the best first.

    Ends keep their distance from the value that they were made for.
    """
    value = others[0] if much else figure.value
    bias = figure.bias + figure.value - value
    if figure.low is None or figure.high is None:
        return replace(figure, value=value, bias=bias)
    ends = [*others, figure.value]
    low = min(ends) + (figure.low - figure.value)
    high = max(ends) + (figure.high - figure.value)
    return replace(figure, value=value, bias=bias, low=low, high=high)


def _debiased_score(returns: FloatArray, score: Score) -> FloatArray | None:
    """Scores whose mean is the corrected figure; None where the figure has no scores."""
    if score(np.asarray(returns.mean(axis=1))) is None:
        return None
    return np.asarray(debias(returns, score))


def _with_models(
    value: float, bias: float, noise: float, score: FloatArray | None, f: FloatArray
) -> SimulatedFigure:
    """The interval for the posterior, from scores over models; `noise` is the simulation's part."""
    if score is None:
        return SimulatedFigure(value, bias, noise, None, None, None)
    span, size = average(value, score, f), effective_size(f)
    total = float((f**2 * (score - score @ f) ** 2).sum()) * size / max(size - 1, 1e-9)
    model = float(np.sqrt(max(total - noise**2, 0.0)))
    return SimulatedFigure(value, bias, noise, model, span.low, span.high)


@final
@dataclass(frozen=True, slots=True)
class SimulatedCertificate:
    """What simulations say of one policy: on its training models, and on held-out ones.

    `lower_bound` estimates a lower bound on the objective under the posterior; its `low` is a
    one-sided 95 % limit (None with too few models in the tail). `optimism` is the training
    objective minus the held-out one.
    """

    train: SimulatedFigures
    heldout: SimulatedFigures | None
    lower_bound: Estimate | None
    objective: Objective
    gamma: float
    horizon: int

    @property
    def optimism(self) -> float | None:
        """Training objective minus held-out objective."""
        if self.heldout is None:
            return None
        return self.train.objective.value - self.heldout.objective.value

    def to_dict(self) -> dict[str, Any]:
        """The certificate's part of `solution.json`."""
        low = self.lower_bound
        return {
            "train": self.train.to_dict(),
            "heldout": None if self.heldout is None else self.heldout.to_dict(),
            "optimism": self.optimism,
            "lower_bound": None if low is None else {"value": low.value, "low": low.low},
        }

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def sentences(self) -> list[str]:
        """The certificate in words, one sentence a line."""
        t, words = self.train, self.objective.words
        lines = [
            f"On the {t.n_models} training models ({t.episodes} episodes of {self.horizon} steps "
            f"each) the policy earns {t.objective} by the objective (mean {t.mean}; {words}: "
            f"{t.cvar})."
        ]
        if self.heldout is not None:
            lines += self._heldout_sentences(self.heldout)
        for name, figures in (("training", t), ("held-out", self.heldout)):
            if figures is not None:
                lines += _limits(name, figures)
        return lines

    def _heldout_sentences(self, h: SimulatedFigures) -> list[str]:
        words, gap = self.objective.words, self.optimism or 0.0
        lines = [
            f"On {h.n_models} held-out models: objective {h.objective}, mean {h.mean}, {words} "
            f"{h.cvar}; training was {abs(gap):.3g} {'optimistic' if gap >= 0 else 'pessimistic'}."
        ]
        if h.objective.model_se is not None:
            lines.append(
                f"Of the noise of that objective ± {NORMAL * h.objective.model_se:.2g} is due to "
                f"the number of models, ± {NORMAL * h.objective.simulation_se:.2g} to the number "
                "of episodes."
            )
        elif self.objective.lam > 0 and self.objective.tail > 0:
            lines.append(
                f"That is too few models for an interval of {words}: hold out at least "
                f"{int(np.ceil(TAIL_DRAWS / self.objective.tail))}."
            )
        if self.lower_bound is not None and self.lower_bound.low is not None:
            lines.append(
                "Under the posterior that the held-out models were drawn from, the objective is "
                f"at least {self.lower_bound.low:.4g} with 95 % confidence."
            )
        return lines


def _limits(name: str, figures: SimulatedFigures) -> list[str]:
    """Where the figures rest on less than the data, or on too few episodes."""
    lines = []
    if figures.noise_share > MUCH:
        lines.append(
            f"On {name} models {100 * figures.noise_share:.2g} % of the variance of average "
            "returns is noise of the simulation, not a difference of models: intervals are wide "
            "for it, and more episodes (--test-episodes) narrow them."
        )
    if figures.clipped > 0:
        lines.append(
            f"On {name} models {100 * figures.clipped:.2g} % of steps (in "
            f"{100 * figures.clipped_episodes:.2g} % of episodes) would have left the box that "
            "values are kept in: there the figures rest on the box."
        )
    if figures.outside:
        lines.append(
            f"On {name} models {100 * figures.outside:.2g} % of the visited states lie outside "
            "the range of the data: there the models extrapolate."
        )
    return lines


def certify_simulated(
    problem: ContinuousProblem,
    policy: ContinuousPolicy,
    heldout: ContinuousModels | None = None,
    episodes: int = 100,
    seed: int = 0,
) -> SimulatedCertificate:
    """Certify any policy for continuous states by simulation.

    Parameters
    ----------
    heldout : ContinuousModels, optional
        Models that the policy was not chosen on.
    episodes : int
        Per model.
    seed : int
        Policies certified with one seed meet the same luck.
    """
    train = simulate(problem, policy, None, episodes, seed)
    fresh = None if heldout is None else simulate(problem, policy, heldout, episodes, seed)
    return certificate_of(problem, train, fresh)


def certificate_of(
    problem: ContinuousProblem, train: Simulation, fresh: Simulation | None = None
) -> SimulatedCertificate:
    """The certificate from simulations on the training models and on held-out ones."""
    objective, bound = problem.objective, None
    # Noise only lowers averages of concave scores; a quantile it may raise.
    if fresh is not None and not isinstance(objective, Percentile):
        bound = held_out(train.means, train.f, fresh.means, fresh.f, objective).lower_bound
    return SimulatedCertificate(
        figures_on_models(train, objective),
        None if fresh is None else figures_on_posterior(fresh, objective),
        bound,
        objective,
        problem.gamma,
        problem.horizon,
    )


def paired_difference(new: Simulation, old: Simulation, objective: Objective) -> SimulatedFigure:
    """Objective of one policy minus that of another, simulated with the same seed and models.

    Common random numbers and common models cancel in the difference, so its interval is narrower
    than those of the two. Intervals are for the posterior; for the percentile criterion, whose
    figure is no average, there is none.
    """
    if new.returns.shape != old.returns.shape or not np.array_equal(new.f, old.f):
        raise InputError(
            f"Two policies are compared on the same models and episodes; the shapes are "
            f"{new.returns.shape} and {old.returns.shape}."
        )
    f, E = new.f, new.returns.shape[1]
    both, N = np.concatenate([new.returns, old.returns]), f.size

    def difference(z: FloatArray) -> float:
        return objective.value(z[:N], f) - objective.value(z[N:], f)

    def gain(z: FloatArray) -> FloatArray | None:
        scores = [_goal_score(part, f, objective) for part in (z[:N], z[N:])]
        return None if scores[0] is None or scores[1] is None else scores[0] - scores[1]

    value = float(debias(both, difference))
    bias = difference(np.asarray(both.mean(axis=1))) - value
    xi = [objective.worst_case(x.means, f)[:, None] for x in (new, old)]
    per = xi[0] * new.returns - xi[1] * old.returns
    noise = float(np.sqrt(per.var(axis=1, ddof=1).sum() / E))
    found = _with_models(value, bias, noise, _debiased_score(both, gain), f)
    parts = [noise_of(x.returns, f) for x in (new, old)]
    if max(part.share for part in parts) <= NOTICE:
        return found

    def value_of(z: FloatArray) -> float:
        return objective.value(z, f)

    figures = [
        [value_of(shrunk(x.returns, f, c)) for c in (part.mid, part.low, part.high)]
        for x, part in zip((new, old), parts, strict=True)
    ]
    best = [
        values[0] if part.much else float(debias(x.returns, value_of))
        for x, part, values in zip((new, old), parts, figures, strict=True)
    ]
    others = [a - b for a in figures[0] for b in figures[1]]
    return _widened(found, [best[0] - best[1], *others], much=True)


def _goal_score(z: FloatArray, f: FloatArray, objective: Objective) -> FloatArray | None:
    """Scores whose mean is the objective; None where there are none."""
    if isinstance(objective, Percentile):
        return None
    if objective.lam == 0:
        return z
    tail = tail_score(z, var(z, f, objective.alpha), f, objective.alpha)
    return None if tail is None else (1 - objective.lam) * z + objective.lam * tail


# --------------------------------------------------------------------------------------------------
# Does the new policy beat the old one, where returns are simulated?
#
#     d_ω = x̄_ω(π) − x̄_ω(π_old)        chance = Σ_ω f_ω·[d_ω > 0]
#
# Both policies meet the same models, starts and luck, so that most of the noise cancels in d. Where
# what is left of it is as large as d_ω, the sign of d_ω is a toss-up, and the chance is that much
# blurred (mostly towards one half). `blurred` says in how many models.


def compare_simulated(
    new: Simulation, old: Simulation, goal: Objective, rival: str, heldout: bool
) -> Comparison:
    """The comparison of two policies that were simulated with one seed on the same models."""
    objective = paired_difference(new, old, goal)
    average = paired_difference(new, old, SoftRobust(lam=0.0, alpha=goal.alpha))
    tail = paired_difference(new, old, SoftRobust(lam=1.0, alpha=goal.alpha))
    f, difference = new.f, new.means - old.means
    size = max(float(np.abs(new.means).max()), float(np.abs(old.means).max()), 1e-300)
    tie = np.abs(difference) <= SAME * size
    chance = float(f @ (~tie & (difference > 0)))
    return Comparison(
        rival=rival,
        chance=share_estimate(chance, effective_size(f)),
        ties=float(f @ tie),
        mean=_estimate(average),
        cvar=_estimate(tail),
        objective=_estimate(objective),
        n_models=int(f.size),
        heldout=heldout,
        goal=goal,
    )


def blurred(new: Simulation, old: Simulation) -> float:
    """The weight of models whose difference lies within two standard errors of the simulation."""
    d = new.returns - old.returns
    error = d.std(axis=1, ddof=1) / np.sqrt(d.shape[1])
    near = (np.abs(d.mean(axis=1)) <= 2 * error) & (error > 0)
    return float(new.f @ near)


def _estimate(figure: SimulatedFigure) -> Estimate:
    return Estimate(figure.value, figure.low, figure.high)
