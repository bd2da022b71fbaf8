"""What is maximised: risk measures of a weighted sample, and the criteria made of them.

For values x_ω with weights f_ω and a confidence α, the tail is the worst 1 − α of the probability:

    CVaR^α  averages the tail, splitting the atom at its edge: α = 0 is the mean, α = 1 the minimum
            over models of positive weight (eq. 3.2);
    VaR^α   is the lower (1 − α)-quantile inf{z : G(z) ≥ 1 − α} (eq. 2.2).

The soft-robust criterion (eq. 3.1) weighs the mean against the tail; it is also the least average
over a set Ξ of model weights that nature may choose (eqs. 4.1 and 4.2):

    ρ^S = (1 − λ)·mean + λ·CVaR^α = min over ξ ∈ Ξ of Σ_ω ξ_ω x_ω,
    Ξ = {ξ ∈ Δ^N : (1 − λ)·f ≤ ξ ≤ (1 − λ)·f + λ·f/(1 − α)},

where at α = 1 the upper bound is (1 − λ)·f + λ on models of positive weight. The percentile
criterion (eq. 2.1), which the paper argues against, is max y such that P[ρ(π, P̂) ≥ y] ≥ α: the
upper (1 − α)-quantile sup{z : P[x ≥ z] ≥ α} of the returns. It looks at one model only: how bad the
worst 1 − α are, and how good the rest, does not count.

What is measured may be the return itself, or the return less that of a *reference* in the same
model: of current practice (a gain), of the best policy that the model has (a regret, never above
0), of a policy given. The reference is one constant per model, which `returns.reference` computes,
so that x_ω − c_ω takes the place of x_ω everywhere.

Accumulated weights carry rounding errors (0.1 + 0.2 > 0.3), so an edge is taken as reached when it
is missed by less than `EDGE` of the total. Bounds take ties in favour of what they bound
(`Objective.most`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import BoolArray, FloatArray, Sealed
from softrobust.errors import InputError

EDGE = 1e-12
EPS = float(np.finfo(np.float64).eps)


def check_share(name: str, value: float) -> float:
    """A float in [0, 1], or an `InputError` that names it."""
    try:
        out = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a number in [0, 1]; it is {value!r}.") from None
    if not 0.0 <= out <= 1.0:
        raise InputError(f"{name} must lie in [0, 1]; it is {value}.")
    return out


def _sample(x: ArrayLike, f: ArrayLike | None) -> tuple[FloatArray, FloatArray]:
    values = np.asarray(x, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise InputError(f"A risk measure needs a non-empty vector; got shape {values.shape}.")
    if not np.isfinite(values).all():
        raise InputError(
            f"A risk measure needs finite values; entry "
            f"{int(np.flatnonzero(~np.isfinite(values))[0])} is not."
        )
    if f is None:
        return values, np.full(values.size, 1.0 / values.size)
    weights = np.asarray(f, dtype=np.float64)
    if weights.shape != values.shape:
        raise InputError(f"{values.size} values came with weights of shape {weights.shape}.")
    # Written so that NaN fails: comparisons with it are false.
    if not (weights.min() >= 0 and abs(weights.sum() - 1) <= 1e-8):
        raise InputError(
            "Weights must be at least 0 and sum to 1 (tolerance 1e-8); the least is "
            f"{weights.min():g} and they sum to {weights.sum():.10g}."
        )
    return values, weights


@names_arguments
def mean(x: ArrayLike, f: ArrayLike | None = None) -> float:
    """Σ f_ω x_ω."""
    values, weights = _sample(x, f)
    return float(values @ weights)


def tail_weights(x: ArrayLike, f: ArrayLike | None, alpha: float) -> FloatArray:
    """The q ≥ 0, Σq = 1, of which CVaR is the expectation: worst models first, q ≤ f/(1 − α).

    q (n_models,); at α = 1 all of it goes to one worst model among those of positive weight.
    """
    values, weights = _sample(x, f)
    tail = 1.0 - check_share("alpha", alpha)
    q = np.zeros_like(values)
    live = np.flatnonzero(weights > 0)
    order = live[np.argsort(values[live], kind="stable")]
    if tail <= EDGE:
        q[order[0]] = 1.0
        return q
    cumulative = np.cumsum(weights[order])
    edge = tail * cumulative[-1]
    n = int(np.searchsorted(cumulative, edge * (1 - EDGE)))
    n = min(n, order.size - 1)
    q[order[:n]] = weights[order[:n]] / edge
    q[order[n]] = max(0.0, 1.0 - q[order[:n]].sum())
    return q


@names_arguments
def cvar(x: ArrayLike, f: ArrayLike | None = None, alpha: float = 0.9) -> float:
    """The average of the worst 1 − α of the probability mass (eq. 3.2).

    Examples
    --------
    >>> cvar([1.0, 2.0, 3.0, 4.0], alpha=0.5)
    1.5
    >>> round(cvar([1.0, 2.0, 3.0, 4.0], alpha=0.625), 6)  # one and a half atoms
    1.333333
    """
    values, _ = _sample(x, f)
    return float(values @ tail_weights(x, f, alpha))


@names_arguments
def value_at_risk(x: ArrayLike, f: ArrayLike | None = None, alpha: float = 0.9) -> float:
    """VaR^α, the lower quantile inf{z : G(z) ≥ 1 − α} (eq. 2.2).

    Examples
    --------
    >>> value_at_risk(range(1, 101), alpha=0.7), upper_value_at_risk(range(1, 101), alpha=0.7)
    (30.0, 31.0)
    """
    return _quantile(x, f, alpha, upper=False)


def upper_value_at_risk(x: ArrayLike, f: ArrayLike | None = None, alpha: float = 0.9) -> float:
    """The percentile criterion sup{z : P[x ≥ z] ≥ α} (eq. 2.1): the upper (1 − α)-quantile."""
    return _quantile(x, f, alpha, upper=True)


def _quantile(
    x: ArrayLike, f: ArrayLike | None, alpha: float, *, upper: bool, slack: float = EDGE
) -> float:
    values, weights = _sample(x, f)
    tail = 1.0 - check_share("alpha", alpha)
    live = np.flatnonzero(weights > 0)
    order = live[np.argsort(values[live], kind="stable")]
    cumulative = np.cumsum(weights[order])
    edge = tail * cumulative[-1]
    slack *= cumulative[-1]
    # Lower: first atom whose cumulative weight reaches the edge. Upper: first one that passes it.
    if upper:
        n = int(np.searchsorted(cumulative, edge + slack, side="right"))
    else:
        n = int(np.searchsorted(cumulative, edge - slack, side="left"))
    return float(values[order[min(n, order.size - 1)]])


PRACTICE_REFERENCE, OPTIMUM, NONE = "practice", "optimum", "none"
REFERENCES = (NONE, PRACTICE_REFERENCE, OPTIMUM)


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reference(Sealed):
    """What a return is measured against: a policy, or the optimum of every model.

    Attributes
    ----------
    name : str
        "practice", "optimum", or what the policy is called.
    policy : Policy, ContinuousPolicy or None
        None for the optimum, and for practice until a problem is made that knows it.
    allowed : (n_states, n_actions) bool, optional
        The actions among which the optimum is sought: those of the problem it was posed in.
    returns : (n_models,), optional
        The constants themselves, where they are known beforehand.
    """

    name: str
    policy: Any = None
    allowed: BoolArray | None = None
    returns: FloatArray | None = None

    @classmethod
    def of(cls, given: Any) -> Reference | None:
        """None, a name, or a policy as a reference."""
        if given is None or isinstance(given, cls):
            return given
        if isinstance(given, str):
            if given not in REFERENCES:
                raise InputError(
                    f"A reference is {', '.join(REFERENCES)} or a policy; it is '{given}'.",
                    arguments=("reference",),
                )
            return None if given == NONE else cls(given)
        if not (hasattr(given, "probs") and hasattr(given, "actions")):
            raise InputError(
                f"A reference is {', '.join(REFERENCES)} or a policy; it is {given!r}."
            )
        return cls("policy", given)

    def __eq__(self, other: object) -> bool:
        """The same name, and the same policy where both are known (a record has the name only)."""
        if not isinstance(other, Reference) or self.name != other.name:
            return False
        mine, theirs = self.policy, other.policy
        if mine is theirs or mine is None or theirs is None:
            return True
        a, b = (getattr(p, "probs", None) for p in (mine, theirs))
        both = isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
        return both and np.array_equal(np.asarray(a), np.asarray(b))

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return repr(self.name)


class Objective(ABC):
    """A criterion over the returns x_ω of a policy with weights f_ω.

    `value` never falls when a return rises: that is what makes the clairvoyant bound a bound.
    """

    __slots__ = ()
    criterion: ClassVar[str]
    lam: float  # how much the bad case counts
    alpha: float  # confidence: the bad case is the worst 1 − alpha of models
    reference: Any  # what returns are measured against, a `Reference`; None: the return itself

    @property
    def against(self) -> str | None:
        """The name of the reference."""
        return None if self.reference is None else str(self.reference.name)

    def at(self, lam: float, alpha: float) -> SoftRobust:
        """The soft-robust objective of other λ and α, against the same reference."""
        return SoftRobust(lam, alpha, self.reference)

    def measured_against(self, reference: Any) -> Objective:
        """The same criterion against another reference."""
        return make_objective(self.criterion, self.lam, self.alpha, reference)

    def anew(self) -> Objective:
        """The same for other data: practice and what is allowed are to be found again."""
        known = self.reference is not None and self.reference.name in REFERENCES
        return self.measured_against(self.against) if known else self

    def __repr__(self) -> str:
        own: Any = self
        shown = ((f.name, getattr(self, f.name)) for f in fields(own) if f.init)
        said = ", ".join(f"{name}={value!r}" for name, value in shown if value is not None)
        return f"{type(self).__name__}({said})"

    @abstractmethod
    def value(self, x: ArrayLike, f: ArrayLike | None = None) -> float:
        """The figure to maximise."""

    @abstractmethod
    def most(self, x: FloatArray, f: FloatArray) -> float:
        """A bound of `value` for returns of at most x, whichever way ties and sums are rounded."""

    @abstractmethod
    def worst_case(self, x: ArrayLike, f: ArrayLike | None = None) -> FloatArray:
        """Weights ξ over models with value = Σ ξ_ω x_ω: the models that decide, and how much."""

    @property
    def tail(self) -> float:
        """1 − α, rounded to hide the subtraction (1 − 0.9 reads 0.1)."""
        return round(1.0 - self.alpha, 12)

    @property
    def words(self) -> str:
        """The tail as people say it."""
        if self.tail == 0:
            return "the worst single model"
        return "all models" if self.tail == 1 else f"the worst {100 * self.tail:g} % of models"

    def summary(self, x: ArrayLike, f: ArrayLike | None = None) -> dict[str, float]:
        """objective, mean, var and cvar of returns x."""
        return {
            "objective": self.value(x, f),
            "mean": mean(x, f),
            "var": value_at_risk(x, f, self.alpha),
            "cvar": cvar(x, f, self.alpha),
        }


@final
@dataclass(frozen=True, slots=True, repr=False)
class SoftRobust(Objective):
    """(1 − lam)·mean + lam·CVaR at confidence alpha.

    Parameters
    ----------
    lam : float in [0, 1]
        How much the bad case counts: 0 is the mean alone, 1 the bad case alone.
    alpha : float in [0, 1]
        Confidence: CVaR averages the worst 1 − alpha of the models.
    reference : "practice", "optimum" or a policy, optional
        Measure the return less that of current practice (the gain), of the best policy of each
        model (the regret), or of a policy given, model by model.

    Examples
    --------
    >>> SoftRobust.from_tail(lam=0.5, tail=0.1)
    SoftRobust(lam=0.5, alpha=0.9)
    >>> SoftRobust(lam=0.5, alpha=0.5).value([0.0, 1.0, 2.0, 3.0])
    1.0
    """

    lam: float = 0.5
    alpha: float = 0.9
    reference: Any = None
    criterion: ClassVar[str] = "soft-robust"

    def __post_init__(self) -> None:
        object.__setattr__(self, "reference", Reference.of(self.reference))
        object.__setattr__(self, "lam", check_share("lambda", self.lam))
        object.__setattr__(self, "alpha", check_share("alpha", self.alpha))

    @classmethod
    def from_tail(cls, lam: float = 0.5, tail: float = 0.1, reference: Any = None) -> Self:
        """Give the tail itself: tail = 0.1 is "the worst 10 % of models"."""
        return cls(lam, 1.0 - check_share("tail", tail), reference)

    @names_arguments
    def value(self, x: ArrayLike, f: ArrayLike | None = None) -> float:
        """(1 − λ)·mean + λ·CVaR^α of returns x with weights f."""
        if self.lam == 0:
            return mean(x, f)
        if self.lam == 1:
            return cvar(x, f, self.alpha)
        return (1 - self.lam) * mean(x, f) + self.lam * cvar(x, f, self.alpha)

    def most(self, x: FloatArray, f: FloatArray) -> float:
        """`value`, the rounding of N products, and what an edge taken as met can hide."""
        over = 0.0  # weight that q has beyond f/(1 − α)
        if self.lam > 0 and 1.0 - self.alpha > EDGE:
            q = tail_weights(x, f, self.alpha)
            over = max(0.0, float((q - f / ((1.0 - self.alpha) * f.sum())).max()))
        rounding = 8 * x.size * EPS * float(np.abs(x).max())
        return self.value(x, f) + self.lam * over * float(np.ptp(x)) + rounding

    @names_arguments
    def worst_case(self, x: ArrayLike, f: ArrayLike | None = None) -> FloatArray:
        """The ξ ∈ Ξ of which `value` is the expectation: the models that hurt, and how much."""
        n = np.asarray(x).size
        weights = np.full(n, 1.0 / n) if f is None else np.asarray(f, dtype=np.float64)
        if self.lam == 0:
            return weights.copy()
        return (1 - self.lam) * weights + self.lam * tail_weights(x, weights, self.alpha)

    @names_arguments
    def xi_bounds(self, f: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds of Ξ, each (n_models,)."""
        weights = np.asarray(f, dtype=np.float64)
        lower = (1 - self.lam) * weights
        return lower, lower + self.lam * self.q_bounds(weights)

    @names_arguments
    def q_bounds(self, f: ArrayLike) -> FloatArray:
        """u = min(f/(1 − α), 1), and 1 where f > 0 at α = 1: the box of CVaR's own weights q."""
        weights = np.asarray(f, dtype=np.float64)
        if 1.0 - self.alpha <= EDGE:
            return (weights > 0).astype(np.float64)
        return np.minimum(weights / (1.0 - self.alpha), 1.0)


def soft_robust(
    objective: Objective,
    who: str,
    instead: str = "Use Exact, MILP or LocalSearch, or another objective.",
) -> SoftRobust:
    """The objective as soft-robust, or an error: some methods exist for that criterion only."""
    if not isinstance(objective, SoftRobust):
        raise InputError(
            f"{who} is for the soft-robust objective; the problem's criterion is "
            f"'{objective.criterion}'. {instead}"
        )
    return objective


@final
@dataclass(frozen=True, slots=True, repr=False)
class Percentile(Objective):
    """The return that is reached with probability at least alpha over the models.

    Examples
    --------
    >>> Percentile(alpha=0.7).value(range(1, 101))
    31.0
    """

    alpha: float = 0.9
    reference: Any = None
    lam: float = field(default=1.0, init=False)  # nothing but the tail's edge counts
    criterion: ClassVar[str] = "percentile"

    def __post_init__(self) -> None:
        object.__setattr__(self, "reference", Reference.of(self.reference))
        object.__setattr__(self, "alpha", check_share("alpha", self.alpha))

    @names_arguments
    def value(self, x: ArrayLike, f: ArrayLike | None = None) -> float:
        """sup{y : P[x ≥ y] ≥ α}."""
        return upper_value_at_risk(x, f, self.alpha)

    def most(self, x: FloatArray, f: FloatArray) -> float:
        """The quantile, its edge passed wherever sums of weights in another order might pass it."""
        return _quantile(x, f, self.alpha, upper=True, slack=self._generous(f))

    @names_arguments
    def worst_case(self, x: ArrayLike, f: ArrayLike | None = None) -> FloatArray:
        """All weight on a model at the quantile."""
        returns = np.asarray(x, dtype=np.float64)
        weights = np.full(returns.size, 1.0) if f is None else np.asarray(f, dtype=np.float64)
        at = np.flatnonzero((returns == self.value(x, f)) & (weights > 0))[0]
        out = np.zeros(returns.size)
        out[at] = 1.0
        return out

    def values(self, X: FloatArray, f: FloatArray, most: bool = False) -> FloatArray:
        """`value`, or `most`, of every row of X (n, n_models), all with weights f."""
        live = np.flatnonzero(f > 0)
        order = np.argsort(X[:, live], axis=1, kind="stable")
        cumulative = np.cumsum(f[live][order], axis=1)
        edge = (1.0 - self.alpha + (self._generous(f) if most else EDGE)) * cumulative[:, -1:]
        at = np.minimum((cumulative <= edge).sum(axis=1), live.size - 1)
        rows = np.arange(X.shape[0])
        return np.asarray(X[:, live][rows, order[rows, at]])

    @staticmethod
    def _generous(f: FloatArray) -> float:
        return EDGE + 4 * (f.size + 2) * EPS


CRITERIA = (SoftRobust.criterion, Percentile.criterion)


def make_objective(criterion: str, lam: float, alpha: float, reference: Any = None) -> Objective:
    """The objective of that name; the percentile criterion has no λ."""
    if criterion == SoftRobust.criterion:
        return SoftRobust(lam, alpha, reference)
    if criterion == Percentile.criterion:
        return Percentile(alpha, reference)
    raise InputError(f"There is no objective '{criterion}'. Objectives: {', '.join(CRITERIA)}.")
