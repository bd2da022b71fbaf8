"""Models given by a function, and the mixture of any models as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softrobust.data.labels import Labels
from softrobust.data.settings import whole
from softrobust.errors import InputError
from softrobust.models.checks import check_weights, freeze
from softrobust.models.continuous_models import Box, ContinuousModels, Draw, check_box

__all__ = ["Box", "CallableModels", "ContinuousModels", "Draw", "MixtureModel", "check_box"]
FloatArray = NDArray[np.float64]
Step = Callable[[FloatArray, NDArray[np.int64], NDArray[np.int64], np.random.Generator], Any]
Moment = Callable[[FloatArray, NDArray[np.int64], NDArray[np.int64]], Any]


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MixtureModel(ContinuousModels):
    """E_f[P̂] itself as one model: every step follows one of `parts`, drawn afresh with f."""

    parts: ContinuousModels

    @property
    def f(self) -> FloatArray:
        """One model of weight 1."""
        return np.ones(1)

    @property
    def variables(self) -> Labels:
        """Those of the parts."""
        return self.parts.variables

    @property
    def actions(self) -> Labels:
        """Those of the parts."""
        return self.parts.actions

    @property
    def clip(self) -> Box | None:
        """That of the parts."""
        return self.parts.clip

    @property
    def seen(self) -> Box | None:
        """That of the parts."""
        return self.parts.seen

    def mean(self, s: ArrayLike, a: ArrayLike, omega: ArrayLike | None = None) -> FloatArray | None:
        """Σ_ω f_ω E_ω[s′]."""
        each = self.parts.mean(s, a)
        return None if each is None else self._shape(np.tensordot(self.parts.f, each, 1), omega)

    def variance(
        self, s: ArrayLike, a: ArrayLike, omega: ArrayLike | None = None
    ) -> FloatArray | None:
        """The mean of the variances plus the variance of the means."""
        mean, within = self.parts.mean(s, a), self.parts.variance(s, a)
        if mean is None or within is None:
            return None
        f = self.parts.f
        between = np.tensordot(f, (mean - np.tensordot(f, mean, 1)) ** 2, 1)
        return self._shape(np.tensordot(f, within, 1) + between, omega)

    def draw_free(
        self, s: ArrayLike, a: ArrayLike, rng: np.random.Generator, omega: ArrayLike | None = None
    ) -> FloatArray:
        """One draw per row, each from a part drawn with f."""
        which = rng.choice(self.parts.n_models, size=len(np.atleast_2d(s)), p=self.parts.f)
        return self._shape(self.parts.draw_free(s, a, rng, which), omega)

    def mean_model(self) -> MixtureModel:
        """Itself."""
        return self

    def select(self, which: ArrayLike) -> Self:
        """There is one model."""
        self._chosen(which)
        return self

    @staticmethod
    def _shape(rows: FloatArray, omega: ArrayLike | None) -> FloatArray:
        return rows[None] if omega is None else rows

    def __repr__(self) -> str:
        return f"MixtureModel({self.parts!r})"


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class CallableModels(ContinuousModels):
    """Models given by a function: an ensemble of networks, a simulator with uncertain constants.

    Parameters
    ----------
    step : callable (s, a, omega, rng) → s′
        Next states (n, n_variables) of states (n, n_variables), action indices (n,) and model
        indices (n,), drawn with the generator `rng`: row i follows model omega[i].
    n_models : int
    variables, actions : Labels or sequences of names
    f : (n_models,), optional
        Weights; equal by default.
    mean, variance : callable (s, a, omega) → (n, n_variables), optional
        Moments of s′ where they are known.
    clip, seen : (low, high), optional
        See `ContinuousModels`.

    Notes
    -----
    The mean model is the mixture E_f[P̂]: every step follows a model drawn afresh with f.

    Examples
    --------
    >>> pull = np.array([0.5, 0.9])  # two beliefs about how fast x decays
    >>> models = CallableModels(
    ...     lambda s, a, omega, rng: pull[omega][:, None] * s + a[:, None], 2, ["x"], ["off", "on"]
    ... )
    >>> models.sample_next([[2.0]], [1]).ravel().tolist()
    [2.0, 2.8]
    """

    step: Step
    variables: Labels = field()
    actions: Labels = field()
    f: FloatArray = field()
    clip: Box | None = field()
    seen: Box | None = field()
    own: NDArray[np.int64]
    mean_of: Moment | None
    variance_of: Moment | None

    def __init__(
        self,
        step: Step,
        n_models: int,
        variables: Labels | Sequence[str],
        actions: Labels | Sequence[str],
        f: ArrayLike | None = None,
        mean: Moment | None = None,
        variance: Moment | None = None,
        clip: Any = None,
        seen: Any = None,
        own: ArrayLike | None = None,
    ) -> None:
        put = object.__setattr__  # the one place where a frozen object is completed
        for name, given in (("step", step), ("mean", mean), ("variance", variance)):
            if not callable(given) and (given is not None or name == "step"):
                raise InputError(f"{name} must be a function; it is {given!r}.")
        N = whole("n_models", n_models)
        put(self, "step", step)
        put(self, "mean_of", mean)
        put(self, "variance_of", variance)
        put(self, "variables", Labels.of(variables, "variable"))
        put(self, "actions", Labels.of(actions, "action"))
        put(self, "f", freeze(check_weights(np.full(N, 1.0 / N) if f is None else f), np.float64))
        # The numbers by which `step` knows the models: those of a selection are not 0 … N − 1.
        put(self, "own", freeze(np.arange(N) if own is None else own, np.int64))
        if not self.f.size == self.own.size == N:
            raise InputError(f"{N} models need {N} weights; {self.f.size} came.")
        put(self, "clip", check_box("clip", clip, self.variables))
        put(self, "seen", check_box("seen", seen, self.variables))

    def mean(self, s: ArrayLike, a: ArrayLike, omega: ArrayLike | None = None) -> FloatArray | None:
        """E[s′] by the function given for it, else None."""
        return None if self.mean_of is None else self._moment(self.mean_of, s, a, omega)

    def variance(
        self, s: ArrayLike, a: ArrayLike, omega: ArrayLike | None = None
    ) -> FloatArray | None:
        """Var[s′] by the function given for it, else None."""
        return None if self.variance_of is None else self._moment(self.variance_of, s, a, omega)

    def draw_free(
        self, s: ArrayLike, a: ArrayLike, rng: np.random.Generator, omega: ArrayLike | None = None
    ) -> FloatArray:
        """Rows × models in one call of the function."""
        states, acts, which, shape = self._rows(s, a, omega)
        out = np.asarray(self.step(states, acts, which, rng), dtype=np.float64)
        if out.shape != states.shape:
            raise InputError(
                f"step must give one next state per row, shape {states.shape}; it gave {out.shape}."
            )
        return out.reshape(shape)

    def mean_model(self) -> MixtureModel:
        """The mixture of all models as one model."""
        return MixtureModel(self)

    def select(self, which: ArrayLike) -> Self:
        """The chosen models, with weights renormalised among them."""
        index, f = self._chosen(which)
        return type(self)(
            self.step, index.size, self.variables, self.actions, f, self.mean_of, self.variance_of,
            self.clip, self.seen, self.own[index],
        )  # fmt: skip

    def _moment(
        self, of: Moment, s: ArrayLike, a: ArrayLike, omega: ArrayLike | None
    ) -> FloatArray:
        states, acts, which, shape = self._rows(s, a, omega)
        return np.asarray(of(states, acts, which), dtype=np.float64).reshape(shape)

    def _rows(
        self, s: ArrayLike, a: ArrayLike, omega: ArrayLike | None
    ) -> tuple[FloatArray, NDArray[np.int64], NDArray[np.int64], tuple[int, ...]]:
        """Flat rows, each with the number by which the function knows its model."""
        states = np.atleast_2d(np.asarray(s, dtype=np.float64))
        acts = np.asarray(a, dtype=np.int64).reshape(-1)
        if omega is not None:
            return states, acts, self.own[np.asarray(omega)], states.shape
        N, n = self.n_models, states.shape[0]
        which = np.repeat(self.own, n)
        return np.tile(states, (N, 1)), np.tile(acts, N), which, (N, *states.shape)

    def __repr__(self) -> str:
        return f"CallableModels({self.n_models} models of {', '.join(self.variables)})"
