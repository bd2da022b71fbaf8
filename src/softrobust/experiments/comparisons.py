"""The comparisons that claims about curves are made of, each with the margin of its rule."""

from __future__ import annotations

from softrobust.experiments.claims import Measured, more, within
from softrobust.experiments.curves import Curves
from softrobust.experiments.intervals import Interval
from softrobust.experiments.methods import LOOKS

# Shares of what is to be gained: the clairvoyant mean less the uniform policy's, on those models.
NOISE = 1e-5  # less than this is no difference: one policy, or rounding
NEAR = 0.02  # "comparable"
FAR = 0.05  # "very poorly"
MORE = "the 95 % interval over logs of the difference lies above 0"
COMPARABLE = (
    f"the 95 % interval over logs of the difference lies within ± {100 * NEAR:g} % of what is to "
    "be gained (clairvoyant mean less random policy's)"
)
MUCH = (
    f"the 95 % interval over logs of the difference lies above {100 * FAR:g} % of what is to be "
    "gained (clairvoyant mean less random policy's)"
)
WORDS = {"mean": "mean", "cvar": "bad case"}


def _more(curves: Curves, what: str, i: Interval, models: str, margin: float = NOISE) -> Measured:
    scale = curves.scales[models]
    return more(what, i, margin * scale, scale)


def higher(curves: Curves, a: str, b: str, models: str) -> Measured:
    """Whether the curve of a is higher than that of b (see `Curves.height`)."""
    i = curves.less(curves.height(a, models), curves.height(b, models))
    return _more(curves, f"height, {_name(a)} less {_name(b)}", i, models)


def rises(curves: Curves, method: str, measure: str, models: str, up: bool) -> Measured:
    """Whether a measure rises (or falls) from λ = 0 to λ = 1."""
    ends = [curves.at(method, lam, models, measure) for lam in (0.0, 1.0)]
    one, other = (ends[1], ends[0]) if up else (ends[0], ends[1])
    words = "λ = 1 less λ = 0" if up else "λ = 0 less λ = 1"
    what = f"{WORDS[measure]}, {_name(method)}, {words}"
    return _more(curves, what, curves.less(one, other), models)


def better_at(
    curves: Curves, a: str, lam_a: float | None, b: str, lam_b: float | None, measure: str,
    models: str, margin: float = NOISE,
) -> Measured:  # fmt: skip
    """Whether a at one λ exceeds b at another in a measure."""
    one, other = curves.at(a, lam_a, models, measure), curves.at(b, lam_b, models, measure)
    what = f"{WORDS[measure]}, {_at(a, lam_a)} less {_at(b, lam_b)}"
    return _more(curves, what, curves.less(one, other), models, margin)


def at_less_best(curves: Curves, a: str, lam: float, b: str, models: str) -> Measured:
    """Whether a at one λ exceeds the best bad case of b's curve (λ chosen on training models)."""
    one, other = curves.at(a, lam, models, "cvar"), curves.score(b, 1.0, models)
    what = f"bad case, {_at(a, lam)} less {_name(b)} at its best λ"
    return _more(curves, what, curves.less(one, other), models)


def comparable(curves: Curves, a: str, b: str, models: str) -> Measured:
    """Whether the best means of two curves are within `NEAR` of each other."""
    i = curves.less(curves.score(a, 0.0, models), curves.score(b, 0.0, models))
    scale = curves.scales[models]
    return within(f"best mean, {_name(a)} less {_name(b)}", i, NEAR * scale, scale)


def _name(method: str) -> str:
    return LOOKS[method].short


def _at(method: str, lam: float | None) -> str:
    return _name(method) if lam is None else f"{_name(method)} at λ = {lam:g}"
