"""Models of continuous states: N ways s′ may follow from (s, a), and what all of them can do.

Every set of models can draw next states; some also know E[s′] and Var[s′] in closed form. A box may
bound what is drawn (polynomial models explode outside their data): a value beyond it is moved to
its edge, and `draw` says which rows that happened to, so that nobody clips in silence.

Sets of models: `GaussianModels`, `CallableModels` (any function, such as an ensemble of networks),
and `MixtureModel`, the average of any of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, final

import numpy as np
from numpy.typing import ArrayLike

from softrobust._core.arrays import BoolArray, FloatArray, IntArray, frozen
from softrobust._core.settings import whole
from softrobust.data.labels import Labels
from softrobust.errors import InputError
from softrobust.models.model_set import WeightedModels, check_weights

Rng = np.random.Generator
Seed = int | Rng
Box = tuple[FloatArray, FloatArray]
Which = ArrayLike | None  # the model of every row; None: all rows under all models
Step = Callable[[FloatArray, IntArray, IntArray, Rng], Any]
Moment = Callable[[FloatArray, IntArray, IntArray], Any]


@final
class Draw(NamedTuple):
    """Next states, shaped as those of `sample_next`, and rows moved to the edge of the box."""

    s_next: FloatArray
    clipped: BoolArray


class ContinuousModels(WeightedModels):
    """N models on common variables (entries of a state) and actions, with weights f.

    Attributes
    ----------
    clip : (low, high), each (n_variables,), or None
        The box that next states are kept in, if any.
    seen : (low, high) or None
        The range of the data that the models were fitted to, if known; beyond it they extrapolate.
    """

    __slots__ = ()
    variables: Labels
    actions: Labels
    clip: Box | None
    seen: Box | None

    @property
    def n_variables(self) -> int:
        """Entries of a state."""
        return len(self.variables)

    @property
    def n_actions(self) -> int:
        """A."""
        return len(self.actions)

    @abstractmethod
    def mean(self, s: ArrayLike, a: ArrayLike, omega: Which = None) -> FloatArray | None:
        """E[s′] before any clipping; None where only draws are known."""

    @abstractmethod
    def variance(self, s: ArrayLike, a: ArrayLike, omega: Which = None) -> FloatArray | None:
        """Var[s′] before any clipping; None where only draws are known."""

    def expect(
        self, s: ArrayLike, a: ArrayLike, g: Callable[[Any, Any, Any], Any]
    ) -> FloatArray | None:
        """(n_models, n_rows) E[g(s, a, s′)] for any g, where a sum gives it exactly; else None."""
        return None

    @property
    def end_reward(self) -> float:
        """What an end for good adds to the reward of its step."""
        return 0.0

    def ends(self, s: ArrayLike, a: ArrayLike, omega: Which = None) -> FloatArray | None:
        """P(the episode ends for good after a in s): (n_models, n_rows), or (n_rows,) with `omega`.

        Nothing is earned after an end. None where episodes only end at the horizon.
        """
        return None

    @abstractmethod
    def draw_free(self, s: ArrayLike, a: ArrayLike, rng: Rng, omega: Which = None) -> FloatArray:
        """Next states without the box, shaped as those of `sample_next`."""

    @abstractmethod
    def mean_model(self) -> ContinuousModels:
        """One model that stands for the average of all (what "average" means is the class's)."""

    def draw_many(self, s: ArrayLike, a: ArrayLike, rng: Rng, k: int) -> FloatArray:
        """(n_models, k, n_rows, n_variables): k next states of every row under every model."""
        states, acts = np.atleast_2d(np.asarray(s, dtype=np.float64)), np.asarray(a).reshape(-1)
        rows = self.draw(np.tile(states, (k, 1)), np.tile(acts, k), rng).s_next
        return rows.reshape(self.n_models, k, *states.shape)

    def draw(self, s: ArrayLike, a: ArrayLike, rng: Rng, omega: Which = None) -> Draw:
        """Next states inside the box, and the rows that were moved there."""
        s_next = self.draw_free(s, a, rng, omega)
        if self.clip is None:
            return Draw(s_next, np.zeros(s_next.shape[:-1], dtype=bool))
        low, high = self.clip
        beyond = np.asarray(((s_next < low) | (s_next > high)).any(axis=-1))
        return Draw(np.asarray(np.clip(s_next, low, high)), beyond)

    def sample_next(
        self, s: ArrayLike, a: ArrayLike, seed: Seed = 0, omega: Which = None
    ) -> FloatArray:
        """Next states of states s (n_rows, n_variables) and actions a (n_rows,).

        (n_models, n_rows, n_variables) under all models, or (n_rows, n_variables) with row i under
        model `omega[i]`.
        """
        return self.draw(s, a, np.random.default_rng(seed), omega).s_next


def check_box(name: str, box: Any, variables: Labels) -> Box | None:
    """(low, high) with one finite number each per variable and low < high; None stays None."""
    if box is None:
        return None
    try:
        low, high = (frozen(side, np.float64) for side in box)
    except (TypeError, ValueError):
        raise InputError(
            f"{name} must be a pair (low, high) of {len(variables)} numbers each; it is {box!r}."
        ) from None
    if not low.shape == high.shape == (len(variables),):
        raise InputError(
            f"{name} needs one low and one high number for each of the {len(variables)} variables; "
            f"its sides have shapes {low.shape} and {high.shape}."
        )
    bad = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high) & (low < high)))
    if bad.size:
        j = int(bad[0])
        raise InputError(
            f"{name} needs finite numbers with low < high: '{variables[j]}' has {low[j]:g} and "
            f"{high[j]:g}."
        )
    return low, high


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MixtureModel(ContinuousModels):
    """E_f[P̂] itself as one model: every step follows one of `parts`, drawn afresh with f."""

    parts: ContinuousModels
    f: FloatArray = field(init=False)
    variables: Labels = field(init=False)
    actions: Labels = field(init=False)
    clip: Box | None = field(init=False)
    seen: Box | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "f", frozen([1.0], np.float64))
        for name in ("variables", "actions", "clip", "seen"):
            object.__setattr__(self, name, getattr(self.parts, name))

    def mean(self, s: ArrayLike, a: ArrayLike, omega: Which = None) -> FloatArray | None:
        """Σ_ω f_ω E_ω[s′]."""
        each = self.parts.mean(s, a)
        return None if each is None else _one_model(np.tensordot(self.parts.f, each, 1), omega)

    def variance(self, s: ArrayLike, a: ArrayLike, omega: Which = None) -> FloatArray | None:
        """The mean of the variances plus the variance of the means."""
        mean, within = self.parts.mean(s, a), self.parts.variance(s, a)
        if mean is None or within is None:
            return None
        f = self.parts.f
        between = np.tensordot(f, (mean - np.tensordot(f, mean, 1)) ** 2, 1)
        return _one_model(np.tensordot(f, within, 1) + between, omega)

    def draw_free(self, s: ArrayLike, a: ArrayLike, rng: Rng, omega: Which = None) -> FloatArray:
        """One draw per row, each from a part drawn with f."""
        which = rng.choice(self.parts.n_models, size=len(np.atleast_2d(s)), p=self.parts.f)
        return _one_model(self.parts.draw_free(s, a, rng, which), omega)

    @property
    def end_reward(self) -> float:
        """That of the parts."""
        return self.parts.end_reward

    def ends(self, s: ArrayLike, a: ArrayLike, omega: Which = None) -> FloatArray | None:
        """Σ_ω f_ω of the parts'."""
        each = self.parts.ends(s, a)
        return None if each is None else _one_model(np.tensordot(self.parts.f, each, 1), omega)

    def mean_model(self) -> MixtureModel:
        """Itself."""
        return self

    def select(self, which: ArrayLike) -> Self:
        """There is one model."""
        self._chosen(which)
        return self

    def __repr__(self) -> str:
        return f"MixtureModel({self.parts!r})"


def _one_model(rows: FloatArray, omega: Which) -> FloatArray:
    return rows[None] if omega is None else rows


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class CallableModels(ContinuousModels):
    """Models given by a function: an ensemble of networks, a simulator with uncertain constants.

    Parameters
    ----------
    step : callable (s, a, omega, rng) → s′
        Next states (n, n_variables) of states (n, n_variables), action indices (n,) and model
        indices (n,), drawn with the generator `rng`: row i follows model omega[i].
    f : (n_models,), optional
        Weights; equal by default.
    mean, variance : callable (s, a, omega) → (n, n_variables), optional
        Moments of s′ where they are known.

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
    variables: Labels
    actions: Labels
    f: FloatArray
    clip: Box | None
    seen: Box | None
    own: IntArray
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
        put(self, "f", check_weights(np.full(N, 1.0 / N) if f is None else f))
        # The numbers by which `step` knows the models: those of a selection are not 0 … N − 1.
        put(self, "own", frozen(np.arange(N) if own is None else own, np.int64))
        if not self.f.size == self.own.size == N:
            raise InputError(f"{N} models need {N} weights; {self.f.size} came.")
        put(self, "clip", check_box("clip", clip, self.variables))
        put(self, "seen", check_box("seen", seen, self.variables))

    def mean(self, s: ArrayLike, a: ArrayLike, omega: Which = None) -> FloatArray | None:
        """E[s′] by the function given for it, else None."""
        return self._moment(self.mean_of, s, a, omega)

    def variance(self, s: ArrayLike, a: ArrayLike, omega: Which = None) -> FloatArray | None:
        """Var[s′] by the function given for it, else None."""
        return self._moment(self.variance_of, s, a, omega)

    def draw_free(self, s: ArrayLike, a: ArrayLike, rng: Rng, omega: Which = None) -> FloatArray:
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
        self, of: Moment | None, s: ArrayLike, a: ArrayLike, omega: Which
    ) -> FloatArray | None:
        if of is None:
            return None
        states, acts, which, shape = self._rows(s, a, omega)
        return np.asarray(of(states, acts, which), dtype=np.float64).reshape(shape)

    def _rows(
        self, s: ArrayLike, a: ArrayLike, omega: Which
    ) -> tuple[FloatArray, IntArray, IntArray, tuple[int, ...]]:
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
