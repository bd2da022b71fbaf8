"""Features φ(s) of a linear value function v(s) = φ(s)ᵀw (section 4.3), and E[φ(s′)].

Any object with `fit(states)` and `transform(states)` will do, as in scikit-learn. Those below also
have `expected(mean, variance, box)`: E[φ(s′)] in closed form for s′ with independent normal entries
that may be kept in a box. They are frozen: `fit` gives a new object, with the centres and scales of
the states, so that features are of size 1 where the states are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from softrobust.data.settings import real, whole
from softrobust.errors import InputError
from softrobust.models.checks import freeze
from softrobust.models.continuous_models import Box
from softrobust.models.moments import bump_mean, near_edges, normal_moments, wave_mean

FloatArray = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Features(ABC):
    """Settings, and once fitted the centre and scale (n_variables,) of the states."""

    kind: ClassVar[str]
    centre: FloatArray | None = field(default=None, kw_only=True)
    scale: FloatArray | None = field(default=None, kw_only=True)

    @abstractmethod
    def _of(self, x: FloatArray) -> FloatArray:
        """(…, n_features) of standardised states (…, n_variables)."""

    @abstractmethod
    def _expected(self, mean: FloatArray, variance: FloatArray, box: Box | None) -> FloatArray:
        """(…, n_features) from moments of standardised states."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Those of the class, ready for JSON."""

    def fit(self, s: ArrayLike) -> Self:
        """The same features, centred and scaled to states (n, n_variables)."""
        states = np.asarray(s, dtype=np.float64)
        centre, scale = states.mean(axis=0), states.std(axis=0)
        scale = np.where(scale > 1e-12 * np.maximum(1.0, np.abs(centre)), scale, 1.0)
        return replace(self, centre=freeze(centre, np.float64), scale=freeze(scale, np.float64))

    def transform(self, s: ArrayLike) -> FloatArray:
        """(…, n_features) φ(s) of states (…, n_variables)."""
        centre, scale = self.standards()
        return self._of((np.asarray(s, dtype=np.float64) - centre) / scale)

    def expected(
        self, mean: FloatArray, variance: FloatArray, box: Box | None = None
    ) -> FloatArray:
        """(…, n_features) E[φ(s′)] from moments (…, n_variables) of s′ before the box."""
        centre, scale = self.standards()
        edges = None if box is None else ((box[0] - centre) / scale, (box[1] - centre) / scale)
        return self._expected((mean - centre) / scale, variance / scale**2, edges)

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """What a file keeps."""
        centre, scale = self.standards()
        return {"centre": centre, "scale": scale}, {"kind": self.kind, **self.settings()}

    def standards(self) -> tuple[FloatArray, FloatArray]:
        """Centre and scale, each (n_variables,); an error before `fit`."""
        if self.centre is None or self.scale is None:
            raise InputError("These features are not fitted. Call fit(states) first.")
        return self.centre, self.scale


@final
@dataclass(frozen=True, slots=True, eq=False)
class PolynomialFeatures(Features):
    """All products of at most `degree` entries of the standardised state, 1 included.

    Examples
    --------
    >>> phi = PolynomialFeatures(degree=2).fit([[0.0], [2.0]])
    >>> phi.transform([[3.0]]).tolist()  # x = (3 − 1)/1
    [[1.0, 2.0, 4.0]]
    >>> phi.expected(np.array([[3.0]]), np.array([[0.25]])).tolist()
    [[1.0, 2.0, 4.25]]
    """

    kind: ClassVar[str] = "polynomial"
    degree: int = 2

    def __post_init__(self) -> None:
        whole("degree", self.degree, 0, 8)

    def exponents(self, n_variables: int) -> list[tuple[int, ...]]:
        """The factors of every product, as indices of variables with repetition."""
        return [
            factors
            for k in range(self.degree + 1)
            for factors in combinations_with_replacement(range(n_variables), k)
        ]

    def _of(self, x: FloatArray) -> FloatArray:
        # A product is a shorter one times its last factor.
        powers = np.moveaxis(x, -1, 0)
        return self._products(lambda f: (f[:-1], powers[f[-1]]), x.shape)

    def _expected(self, mean: FloatArray, variance: FloatArray, box: Box | None) -> FloatArray:
        # Entries are independent: the mean of a product is the product of the powers' means.
        moments = [
            np.moveaxis(m, -1, 0) for m in normal_moments(mean, variance, max(self.degree, 1), box)
        ]

        def last_power(f: tuple[int, ...]) -> tuple[tuple[int, ...], FloatArray]:
            power = f.count(f[-1])
            return f[:-power], moments[power - 1][f[-1]]

        return self._products(last_power, mean.shape)

    def _products(
        self,
        split: Callable[[tuple[int, ...]], tuple[tuple[int, ...], FloatArray]],
        shape: tuple[int, ...],
    ) -> FloatArray:
        """(…, n_features): each product is an earlier one times a factor, both given by `split`."""
        factors = self.exponents(shape[-1])
        place = {f: i for i, f in enumerate(factors)}
        out = np.empty((len(factors), *shape[:-1]))  # one product after the other in memory
        out[0] = 1.0
        for i, f in enumerate(factors[1:], 1):
            earlier, factor = split(f)
            np.multiply(out[place[earlier]], factor, out=out[i])
        return np.moveaxis(out, 0, -1)

    def settings(self) -> dict[str, Any]:
        """The degree."""
        return {"degree": self.degree}


@final
@dataclass(frozen=True, slots=True, eq=False)
class RBFFeatures(Features):
    """1 and `n_centres` bumps exp(−‖x − c‖²/2ℓ²) of the standardised state.

    Centres are states spread out by farthest-point choice; ℓ is `width` times the mean distance of
    a centre to its nearest neighbour.
    """

    kind: ClassVar[str] = "rbf"
    n_centres: int = 50
    width: float = 2.0
    centres: FloatArray | None = field(default=None, kw_only=True)
    length: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        whole("n_centres", self.n_centres)
        real("width", self.width, above=0)

    def fit(self, s: ArrayLike) -> Self:
        """Choose centres among the states."""
        base = Features.fit(self, s)
        centre, scale = base.standards()
        x = np.unique((np.asarray(s, dtype=np.float64) - centre) / scale, axis=0)
        if x.shape[0] < self.n_centres:
            raise InputError(
                f"{self.n_centres} centres need as many different states; there are {x.shape[0]}. "
                "Lower n_centres, or simulate more episodes."
            )
        chosen = [int(np.argmin((x**2).sum(axis=1)))]
        nearest = ((x - x[chosen[0]]) ** 2).sum(axis=1)
        for _ in range(self.n_centres - 1):
            chosen.append(int(np.argmax(nearest)))
            nearest = np.minimum(nearest, ((x - x[chosen[-1]]) ** 2).sum(axis=1))
        c = x[chosen]
        gaps = ((c[:, None] - c[None]) ** 2).sum(axis=2) + np.diag(np.full(len(c), np.inf))
        length = self.width * float(np.sqrt(gaps.min(axis=1)).mean()) if len(c) > 1 else self.width
        return replace(base, centres=freeze(c, np.float64), length=length)

    def _of(self, x: FloatArray) -> FloatArray:
        assert self.centres is not None  # set with centre and scale
        far = ((x[..., None, :] - self.centres) ** 2).sum(axis=-1)
        bumps = np.exp(-0.5 * far / self.length**2)
        return np.concatenate([np.ones((*x.shape[:-1], 1)), bumps], axis=-1)

    def _expected(self, mean: FloatArray, variance: FloatArray, box: Box | None) -> FloatArray:
        c = self.centres
        assert c is not None  # set with centre and scale
        # Π_j ℓ/√(ℓ² + σ_j²)·exp(−½ Σ_j (μ_j − c_j)²/(ℓ² + σ_j²)), the square written out: products
        # of matrices, and one exponential for each bump.
        a = 1.0 / (self.length**2 + variance)
        far = (a * mean**2).sum(axis=-1)[..., None] - 2.0 * (a * mean) @ c.T + a @ (c**2).T
        height = np.sqrt(self.length**2 * a).prod(axis=-1)[..., None]
        out = np.ones((*mean.shape[:-1], 1 + len(c)))
        np.multiply(height, np.exp(-0.5 * np.maximum(far, 0.0)), out=out[..., 1:])
        near = _near_rows(mean, variance, box)
        if box is not None and near.any():
            out[near, 1:] = self._kept(mean[near], variance[near], box)
        return out

    def _kept(self, mean: FloatArray, variance: FloatArray, box: Box) -> FloatArray:
        """(n, n_centres) for rows that the box touches."""
        out: Any = 1.0
        for j in range(mean.shape[-1]):
            out = out * bump_mean(
                mean[:, j, None], variance[:, j, None], self.centres[:, j],  # type: ignore[index]
                np.asarray(self.length), (box[0][j], box[1][j]),
            )  # fmt: skip
        return np.asarray(out)

    def settings(self) -> dict[str, Any]:
        """Number of centres and width."""
        return {"n_centres": self.n_centres, "width": self.width, "length": self.length}

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Centres, too."""
        arrays, words = Features.to_arrays(self)
        return arrays | {"centres": np.asarray(self.centres)}, words


@final
@dataclass(frozen=True, slots=True, eq=False)
class FourierFeatures(Features):
    """cos(c·x) for all whole c ≥ 0 with Σc ≤ order, x scaled to [0, π] on the fitted states."""

    kind: ClassVar[str] = "fourier"
    order: int = 3

    def __post_init__(self) -> None:
        whole("order", self.order, 0, 12)

    def fit(self, s: ArrayLike) -> Self:
        """Scale the range of the states to [0, π]."""
        states = np.asarray(s, dtype=np.float64)
        low, span = states.min(axis=0), np.ptp(states, axis=0)
        scale = np.where(span > 0, span, 1.0) / np.pi
        return replace(self, centre=freeze(low, np.float64), scale=freeze(scale, np.float64))

    def waves(self, n_variables: int) -> FloatArray:
        """(n_features, n_variables) whole numbers c."""
        products = PolynomialFeatures(degree=self.order).exponents(n_variables)
        return np.array([[f.count(j) for j in range(n_variables)] for f in products], dtype=float)

    def _of(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.cos(x @ self.waves(x.shape[-1]).T))

    def _expected(self, mean: FloatArray, variance: FloatArray, box: Box | None) -> FloatArray:
        c = self.waves(mean.shape[-1])
        out = np.cos(mean @ c.T) * np.exp(-0.5 * variance @ (c**2).T)
        near = _near_rows(mean, variance, box)
        if box is not None and near.any():
            # cos(c·x) = Re Π_j exp(i·c_j·x_j), and the entries are independent.
            kept: Any = 1.0
            for j in range(mean.shape[-1]):
                at = mean[near][:, j, None], variance[near][:, j, None]
                kept = kept * wave_mean(*at, c[:, j], (box[0][j], box[1][j]))
            out[near] = kept.real
        return np.asarray(out)

    def settings(self) -> dict[str, Any]:
        """The order."""
        return {"order": self.order}


def _near_rows(mean: FloatArray, variance: FloatArray, box: Box | None) -> NDArray[np.bool_]:
    """(…) rows with an entry that the box may touch."""
    if box is None:
        return np.zeros(mean.shape[:-1], dtype=bool)
    return np.asarray(near_edges(mean, variance, *box).any(axis=-1))


def features_from(arrays: Mapping[str, NDArray[Any]], words: Mapping[str, Any]) -> Features:
    """The inverse of `Features.to_arrays`."""
    kinds = {cls.kind: cls for cls in (PolynomialFeatures, RBFFeatures, FourierFeatures)}
    settings = {name: value for name, value in words.items() if name != "kind"}
    if words["kind"] not in kinds:
        raise InputError(f"There are no features of kind '{words['kind']}'.")
    own: dict[str, Any] = {
        name: arrays[name] for name in ("centre", "scale", "centres") if name in arrays
    }
    return kinds[words["kind"]](**own, **settings)
