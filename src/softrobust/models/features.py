"""Features φ(s) of a linear value function v(s) = φ(s)ᵀw (section 4.3), and E[φ(s′)].

Any object with `fit(states)` and `transform(states)` will do, as in scikit-learn. Those below also
have `expected(mean, variance, box)`: E[φ(s′)] in closed form for s′ with independent normal entries
that may be kept in a box [l, h]. They are frozen: `fit` gives a new object, with the centres and
scales of the states, so that features are of size 1 where the states are.

For X ~ N(μ, σ²) the raw moments follow m₀ = 1, m₁ = μ, m_k = μ·m_{k−1} + (k − 1)σ²·m_{k−2}.
For Y = min(max(X, l), h), with a = (l − μ)/σ, b = (h − μ)/σ, density ϕ and distribution function Φ,

    E[Y^k] = l^k·Φ(a) + h^k·Φ(−b) + T_k,      T_k = ∫_l^h x^k dN(μ, σ²)
    T₀ = Φ(b) − Φ(a),   T_k = μ·T_{k−1} + (k − 1)σ²·T_{k−2} − σ(h^{k−1}ϕ(b) − l^{k−1}ϕ(a))

and the same splitting gives E[exp(−(Y − c)²/2ℓ²)] and E[exp(iωY)]. The recursion cancels where σ
is large against the box, and the more the higher k: there, and from the third moment on, T_k is
computed by Gauss and Legendre's quadrature in (x − μ)/σ, which is exact to rounding.

With z = (x − μ − iωσ²)/√2σ, E[exp(iωX)]·erf(z) is 0·∞ once ωσ passes 38. Since
E[exp(iωX)]·exp(−z²) = exp(iωx − (x − μ)²/2σ²), it is written with Faddeeva's function
w(ζ) = exp(−ζ²)erfc(−iζ), which stays small in the upper half plane.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import combinations_with_replacement
from typing import Annotated, Any, ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, wofz

from softrobust._core.arrays import BoolArray, FloatArray, Sealed, frozen
from softrobust._core.settings import Count, Positive, check_fields, whole
from softrobust.errors import InputError
from softrobust.models.continuous import Box

FAR = 9.0  # standard deviations beyond which an edge holds less than 1e-18 of the mass
WIDE = 4.0  # widths of the box: wider distributions are integrated by quadrature
NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)
TINY = 1e-150  # stands for a deviation of 0: its square is still a number


def normal_moments(
    mean: FloatArray, variance: FloatArray, degree: int, box: Box | None = None
) -> list[FloatArray]:
    """[E[Y], E[Y²], …] up to `degree`, each like `mean` (…, d); `box` is (low, high), each (d,)."""
    free = [np.ones_like(mean), np.array(mean)]
    for k in range(2, degree + 1):
        free.append(mean * free[-1] + (k - 1) * variance * free[-2])
    out = free[1 : degree + 1]
    if box is None:
        return out
    low, high = (np.broadcast_to(side, mean.shape) for side in box)
    near = near_edges(mean, variance, box)
    if near.any():
        sd = np.maximum(np.sqrt(variance[near]), TINY)
        for k, m in enumerate(_kept_moments(mean[near], sd, degree, low[near], high[near])):
            out[k][near] = m
    return out


def near_edges(mean: FloatArray, variance: FloatArray, box: Box) -> BoolArray:
    """Where an edge holds mass that counts."""
    return np.asarray(np.minimum(mean - box[0], box[1] - mean) < FAR * np.sqrt(variance))


def _kept_moments(
    mean: FloatArray, sd: FloatArray, degree: int, low: FloatArray, high: FloatArray
) -> list[FloatArray]:
    a, b = (low - mean) / sd, (high - mean) / sd
    below, above = ndtr(a), ndtr(-b)
    if degree > 2 or bool((sd > WIDE * (high - low)).any()):
        inside = _quadrature(mean, sd, np.maximum(a, -FAR), np.minimum(b, FAR), degree)
        return [low**k * below + high**k * above + t for k, t in enumerate(inside, 1)]
    at_a, at_b = (np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi) for x in (a, b))
    T: list[FloatArray] = [1.0 - below - above]
    out = []
    for k in range(1, degree + 1):
        t = mean * T[k - 1] - sd * (high ** (k - 1) * at_b - low ** (k - 1) * at_a)
        if k > 1:
            t = t + (k - 1) * sd**2 * T[k - 2]
        T.append(t)
        out.append(low**k * below + high**k * above + t)
    return out


def _quadrature(
    mean: FloatArray, sd: FloatArray, a: FloatArray, b: FloatArray, degree: int
) -> list[FloatArray]:
    """[∫_a^b (mean + sd·t)^k dN(0, 1)] for k = 1, …, degree."""
    half, middle = np.maximum(0.5 * (b - a), 0.0), 0.5 * (a + b)
    t = middle[..., None] + half[..., None] * NODES
    part = half[..., None] * WEIGHTS * np.exp(-0.5 * t * t) / np.sqrt(2 * np.pi)
    x, out = mean[..., None] + sd[..., None] * t, []
    for _ in range(degree):
        part = part * x
        out.append(part.sum(axis=-1))
    return out


def bump_mean(
    mean: FloatArray, variance: FloatArray, centre: FloatArray, width: FloatArray,
    box: Box | None = None,
) -> FloatArray:  # fmt: skip
    """E[exp(−(Y − c)²/2ℓ²)] for every entry; all arguments broadcast, `box` is (low, high)."""
    wide = width**2 + variance
    value = width / np.sqrt(wide) * np.exp(-0.5 * (mean - centre) ** 2 / wide)
    if box is None:
        return np.asarray(value)
    low, high = box
    sd = np.maximum(np.sqrt(variance), TINY)
    # The product of the bump and the density is a normal density about m with deviation s.
    m, s = (mean * width**2 + centre * variance) / wide, width * sd / np.sqrt(wide)
    inside = value * (ndtr((high - m) / s) - ndtr((low - m) / s))
    at_low, at_high = (np.exp(-0.5 * ((x - centre) / width) ** 2) for x in (low, high))
    edges = at_low * ndtr((low - mean) / sd) + at_high * ndtr((mean - high) / sd)
    return np.asarray(inside + edges)


def wave_mean(
    mean: FloatArray, variance: FloatArray, omega: FloatArray, box: Box | None = None
) -> NDArray[np.complex128]:
    """E[exp(iωY)] for every entry; all arguments broadcast, `box` is (low, high)."""
    value = np.exp(1j * omega * mean - 0.5 * omega**2 * variance)
    if box is None:
        return np.asarray(value)
    low, high = box
    sd = np.maximum(np.sqrt(variance), TINY)

    def part(x: FloatArray) -> NDArray[np.complex128]:
        """value·erf(z)"""
        u, side = (x - mean) / (np.sqrt(2.0) * sd), np.where(x >= mean, 1.0, -1.0)
        rest = np.exp(1j * omega * x - u**2) * wofz(side * (1j * u + omega * sd / np.sqrt(2.0)))
        return np.asarray(side * (value - rest))

    inside = 0.5 * (part(high) - part(low))
    edges = np.exp(1j * omega * low) * ndtr((low - mean) / sd)
    edges = edges + np.exp(1j * omega * high) * ndtr((mean - high) / sd)
    return np.asarray(inside + edges)


@dataclass(frozen=True, slots=True, eq=False)
class Features(Sealed, ABC):
    """Settings, and once fitted the centre and scale (n_variables,) of the states."""

    kind: ClassVar[str]
    centre: FloatArray | None = field(default=None, kw_only=True)
    scale: FloatArray | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_fields(self)

    @abstractmethod
    def _of(self, x: FloatArray) -> FloatArray:
        """(…, n_features) of standardised states (…, n_variables)."""

    @abstractmethod
    def _expected(self, mean: FloatArray, variance: FloatArray, box: Box | None) -> FloatArray:
        """(…, n_features) from moments of standardised states."""

    def fit(self, s: ArrayLike) -> Self:
        """The same features, centred and scaled to states (n, n_variables)."""
        states = np.asarray(s, dtype=np.float64)
        centre, scale = states.mean(axis=0), states.std(axis=0)
        scale = np.where(scale > 1e-12 * np.maximum(1.0, np.abs(centre)), scale, 1.0)
        return replace(self, centre=frozen(centre, np.float64), scale=frozen(scale, np.float64))

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

    def to_arrays(self) -> tuple[dict[str, FloatArray], dict[str, Any]]:
        """What a file keeps: arrays, and the kind with its settings, ready for JSON."""
        self.standards()
        held = {f.name: getattr(self, f.name) for f in fields(self)}
        arrays = {name: x for name, x in held.items() if isinstance(x, np.ndarray)}
        words = {name: x for name, x in held.items() if name not in arrays}
        return arrays, {"kind": self.kind, **words}

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
    degree: Annotated[int, partial(whole, least=0, most=8)] = 2

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
        powers = normal_moments(mean, variance, max(self.degree, 1), box)
        moments = [np.moveaxis(m, -1, 0) for m in powers]

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


@final
@dataclass(frozen=True, slots=True, eq=False)
class RBFFeatures(Features):
    """1 and `n_centres` bumps exp(−‖x − c‖²/2ℓ²) of the standardised state.

    Centres are states spread out by farthest-point choice; ℓ is `width` times the mean distance of
    a centre to its nearest neighbour.
    """

    kind: ClassVar[str] = "rbf"
    n_centres: Count = 50
    width: Positive = 2.0
    centres: FloatArray | None = field(default=None, kw_only=True)
    length: float = field(default=1.0, kw_only=True)

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
        return replace(base, centres=frozen(c, np.float64), length=length)

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
        if box is not None and (near := near_edges(mean, variance, box).any(axis=-1)).any():
            kept: Any = 1.0
            for j in range(mean.shape[-1]):
                at = mean[near][:, j, None], variance[near][:, j, None]
                edges = box[0][j], box[1][j]
                kept = kept * bump_mean(*at, c[:, j], np.asarray(self.length), edges)
            out[near, 1:] = kept
        return out


@final
@dataclass(frozen=True, slots=True, eq=False)
class FourierFeatures(Features):
    """cos(c·x) for all whole c ≥ 0 with Σc ≤ order, x scaled to [0, π] on the fitted states."""

    kind: ClassVar[str] = "fourier"
    order: Annotated[int, partial(whole, least=0, most=12)] = 3

    def fit(self, s: ArrayLike) -> Self:
        """Scale the range of the states to [0, π]."""
        states = np.asarray(s, dtype=np.float64)
        low, span = states.min(axis=0), np.ptp(states, axis=0)
        scale = np.where(span > 0, span, 1.0) / np.pi
        return replace(self, centre=frozen(low, np.float64), scale=frozen(scale, np.float64))

    def waves(self, n_variables: int) -> FloatArray:
        """(n_features, n_variables) whole numbers c."""
        products = PolynomialFeatures(degree=self.order).exponents(n_variables)
        return np.array([[f.count(j) for j in range(n_variables)] for f in products], dtype=float)

    def _of(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.cos(x @ self.waves(x.shape[-1]).T))

    def _expected(self, mean: FloatArray, variance: FloatArray, box: Box | None) -> FloatArray:
        c = self.waves(mean.shape[-1])
        out = np.cos(mean @ c.T) * np.exp(-0.5 * variance @ (c**2).T)
        if box is not None and (near := near_edges(mean, variance, box).any(axis=-1)).any():
            # cos(c·x) = Re Π_j exp(i·c_j·x_j), and the entries are independent.
            kept: Any = 1.0
            for j in range(mean.shape[-1]):
                at = mean[near][:, j, None], variance[near][:, j, None]
                kept = kept * wave_mean(*at, c[:, j], (box[0][j], box[1][j]))
            out[near] = kept.real
        return np.asarray(out)


def features_from(arrays: Mapping[str, NDArray[Any]], words: Mapping[str, Any]) -> Features:
    """The inverse of `Features.to_arrays`."""
    kinds = {cls.kind: cls for cls in (PolynomialFeatures, RBFFeatures, FourierFeatures)}
    held: dict[str, Any] = {name: frozen(x, np.float64) for name, x in arrays.items()}
    held |= {name: x for name, x in words.items() if name != "kind"}
    if words["kind"] not in kinds:
        raise InputError(f"There are no features of kind '{words['kind']}'.")
    return kinds[words["kind"]](**held)
