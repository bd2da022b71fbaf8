"""Looking one step ahead: the Bellman update of a state, and policies made of it (section 4.3).

The update σ of a state with values Z[a, ω] is that of the tables: the S game max_d min_ξ dᵀZξ
(eq. 4.9), or the SA selection max_a min_ξ Z_aᵀξ (eq. A.4). `LookaheadPolicy` decides by it: it
keeps the parameters of its Gaussian models, the features, w and Ξ, so that it decides exactly as
its solver does and still loads without anything else. `LinearPolicy` is the stand-in where that
cannot be kept (models that are functions): one linear fit of action values, the best of which is
taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, final

import numpy as np

from softrobust._core.arrays import BoolArray, FloatArray, frozen, shaped
from softrobust._core.files import read_npz, rebuilding, under
from softrobust._core.schema import parse
from softrobust.data.labels import Labels
from softrobust.errors import InputError, SolverError
from softrobust.kernels.s_game import NOT_FINITE, solve_games
from softrobust.kernels.sa_select import best_actions
from softrobust.kernels.tail import tail_values
from softrobust.models.continuous import Box
from softrobust.models.continuous_policy import (
    FORMAT_VERSION,
    POLICY_FORMAT,
    Arrays,
    ConstantPolicy,
    ContinuousPolicy,
    NetworkPolicy,
    Words,
)
from softrobust.models.continuous_rewards import LinearReward
from softrobust.models.expectation import ClosedForm
from softrobust.models.features import Features, features_from
from softrobust.models.gaussian import gaussian_arrays, gaussian_models


@final
class Decision(NamedTuple):
    """The update of n states.

    d : (n, n_actions) the decision; lower ≤ value ≤ upper, each (n,); worth : (n, n_actions), what
    each action is worth against nature's answer
    """

    d: FloatArray
    lower: FloatArray
    upper: FloatArray
    worth: FloatArray

    @property
    def value(self) -> FloatArray:
        """The middle of the bounds."""
        return np.asarray(0.5 * (self.lower + self.upper))


@final
@dataclass(frozen=True, slots=True, eq=False)
class BellmanUpdate:
    """λ, the weights f and the box u of nature's q, which rectangle, and what is allowed."""

    lam: float
    f: FloatArray
    u: FloatArray
    s_rectangular: bool
    allowed: BoolArray

    def decide(self, Z: FloatArray) -> Decision:
        """Decide in n states from Z (n, n_actions, n_models)."""
        if not np.isfinite(Z).all():
            raise SolverError(
                "The value of an action is not a finite number: values or simulated states have "
                "grown without bound. Give the models a box (clip), use features of a lower "
                "degree, or set ridge."
            )
        ok = np.flatnonzero(self.allowed)
        every = ok.size == Z.shape[1]
        kept = Z if every else np.ascontiguousarray(Z[:, ok])
        if self.s_rectangular:
            games = solve_games(kept, self.f, self.u, self.lam)
            if (games.status == NOT_FINITE).any():
                raise SolverError("A state's game met numbers too large to compare.")
            xi = (1 - self.lam) * self.f + self.lam * games.q
            part = Decision(games.d, games.lb, games.ub, np.einsum("saw,sw->sa", kept, xi))
        else:
            part = self._selections(kept)
        if every:
            return part
        d, worth = np.zeros(Z.shape[:2]), np.full(Z.shape[:2], -np.inf)
        d[:, ok], worth[:, ok] = part.d, part.worth
        return part._replace(d=d, worth=worth)

    def evaluate(self, Z: FloatArray, probs: FloatArray) -> Decision:
        """The value of a given decision (n, n_actions) against nature's answer."""
        if self.s_rectangular:
            mixed = np.einsum("saw,sa->sw", Z, probs)
            value = (1 - self.lam) * (mixed @ self.f) + self.lam * tail_values(mixed, self.u)[0]
            return Decision(probs, value, value, Z @ self.f)
        n, A, N = Z.shape
        tails = tail_values(Z.reshape(n * A, N), self.u)[0].reshape(n, A)
        worth = (1 - self.lam) * (Z @ self.f) + self.lam * tails
        value = (probs * worth).sum(axis=1)
        return Decision(probs, value, value, worth)

    def _selections(self, Z: FloatArray) -> Decision:
        n, A, N = Z.shape
        live = np.flatnonzero(self.f > 0)
        Z = Z if live.size == N else np.ascontiguousarray(Z[:, :, live])
        f, u = self.f[live], self.u[live]
        best, lower, upper = best_actions(Z, f, u, self.lam)
        d = np.zeros((n, A))
        d[np.arange(n), best] = 1.0
        tails, _ = tail_values(Z.reshape(n * A, -1), u)
        return Decision(d, lower, upper, (1 - self.lam) * (Z @ f) + self.lam * tails.reshape(n, A))


@final
@dataclass(frozen=True, slots=True, eq=False)
class LookaheadPolicy(ContinuousPolicy):
    """Look one step ahead with v(s) = φ(s)ᵀw under every model, then decide as the solver did."""

    kind: ClassVar[str] = "lookahead"
    expectation: ClosedForm
    w: FloatArray
    gamma: float
    update: BellmanUpdate
    variables: Labels = field(init=False)
    actions: Labels = field(init=False)

    def __post_init__(self) -> None:
        for name in ("variables", "actions"):
            object.__setattr__(self, name, getattr(self.expectation.models, name))
        ahead, update = self.expectation, self.update
        n = ahead.features.transform(np.zeros((1, len(self.variables)))).shape[1]
        shaped("w", self.w, np.float64, (n,))
        shaped("u", update.u, np.float64, (ahead.models.n_models,))
        shaped("allowed", update.allowed, np.bool_, (len(self.actions),))
        if not (update.allowed.any() and (update.u >= 0).all()):
            raise InputError("'allowed' must name an action, and 'u' be at least 0.")

    @property
    def seen(self) -> Box | None:
        """That of its models."""
        box: Box | None = self.expectation.models.seen
        return box

    def _probs(self, s: FloatArray) -> FloatArray:
        return self.update.decide(self.expectation.values(s, self.w, self.gamma)).d

    def to_arrays(self) -> tuple[Arrays, Words]:
        """Parameters of models, reward, features, w and Ξ."""
        ahead, update = self.expectation, self.update
        features, kept = _feature_arrays(ahead.features)
        arrays = {f"model_{name}": x for name, x in gaussian_arrays(ahead.models).items()}
        arrays |= {**ahead.reward.arrays(), **features}
        arrays |= {"w": self.w, "u": update.u, "allowed": update.allowed}
        words = {"gamma": self.gamma, "lam": update.lam, "s_rectangular": update.s_rectangular}
        return arrays, {**words, "features": kept}

    @classmethod
    def from_arrays(cls, arrays: Arrays, words: Words, variables: Labels, actions: Labels) -> Self:
        """The inverse of `to_arrays`."""
        models = gaussian_models(under("model_", arrays))
        features = features_from(under("feature_", arrays), words["features"])
        update = BellmanUpdate(
            float(words["lam"]), models.f, frozen(arrays["u"], np.float64),
            bool(words["s_rectangular"]), frozen(arrays["allowed"], np.bool_),
        )  # fmt: skip
        exact = ClosedForm(models, LinearReward.of_arrays(arrays), features)
        return cls(exact, frozen(arrays["w"], np.float64), float(words["gamma"]), update)


@final
@dataclass(frozen=True, slots=True, eq=False)
class LinearPolicy(ContinuousPolicy):
    """Take the allowed action with the greatest q_a(s) = φ(s)ᵀw_a; W is (n_features, n_actions)."""

    kind: ClassVar[str] = "linear"
    features: Any
    W: FloatArray
    variables: Labels
    actions: Labels
    allowed: BoolArray

    def _probs(self, s: FloatArray) -> FloatArray:
        q = np.where(self.allowed, self.features.transform(s) @ self.W, -np.inf)
        return np.asarray(np.eye(q.shape[1])[np.argmax(q, axis=1)])

    def to_arrays(self) -> tuple[Arrays, Words]:
        """Features and W."""
        part, kept = _feature_arrays(self.features)
        return {"W": self.W, "allowed": self.allowed, **part}, {"features": kept}

    @classmethod
    def from_arrays(cls, arrays: Arrays, words: Words, variables: Labels, actions: Labels) -> Self:
        """The inverse of `to_arrays`."""
        features = features_from(under("feature_", arrays), words["features"])
        W, allowed = frozen(arrays["W"], np.float64), frozen(arrays["allowed"], np.bool_)
        if not (allowed.shape == (len(actions),) and allowed.any()):
            raise InputError("'allowed' must name at least one of the actions.")
        return cls(features, W, variables, actions, allowed)


def _feature_arrays(features: Any) -> tuple[Arrays, Words]:
    """What a file keeps of features; those of other packages cannot be kept without code."""
    if not isinstance(features, Features):
        raise InputError(
            f"A policy with features of your own ({type(features).__name__}) cannot be saved "
            "without their code. Use PolynomialFeatures, RBFFeatures or FourierFeatures, or keep "
            "the policy in memory."
        )
    arrays, words = features.to_arrays()
    return {f"feature_{name}": x for name, x in arrays.items()}, words


_KINDS: dict[str, type[ContinuousPolicy]] = {
    cls.kind: cls for cls in (ConstantPolicy, NetworkPolicy, LookaheadPolicy, LinearPolicy)
}


def load_continuous_policy(path: str | Path) -> ContinuousPolicy:
    """Read what `ContinuousPolicy.save` wrote; nothing else is needed, no code of the file runs."""
    arrays = read_npz(path, POLICY_FORMAT, FORMAT_VERSION)
    with rebuilding("policy", path):
        head = parse(str(arrays["policy"]))
        if head["kind"] not in _KINDS:
            raise InputError(
                f"The file {Path(path).name} holds a policy of unknown kind '{head['kind']}'."
            )
        variables = Labels(tuple(head["variables"]), noun="variable")
        actions = Labels(tuple(head["actions"]), noun="action")
        found = _KINDS[head["kind"]].from_arrays(arrays, head["settings"], variables, actions)
        mix = found.probs(np.zeros((1, len(variables))))  # arrays that do not fit are found here
        if mix.shape != (1, len(actions)) or not np.isfinite(mix).all():
            raise ValueError("it gives no probabilities")
        return found
