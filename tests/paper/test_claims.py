"""Verdicts follow from intervals: held, not held, cannot tell; both ways, on made-up numbers."""

from __future__ import annotations

import numpy as np
import pytest

from softrobust.errors import InputError
from softrobust.paper.claims import (
    Claim,
    Interval,
    Measured,
    Verdict,
    bootstrap_interval,
    mean_interval,
    more,
    share_interval,
    within,
)


def of(low: float, high: float) -> Interval:
    return Interval(0.5 * (low + high), low, high, 20)


@pytest.mark.parametrize(
    ("low", "high", "margin", "verdict"),
    [
        (1.0, 2.0, 0.0, Verdict.HELD),
        (-2.0, -1.0, 0.0, Verdict.NOT_HELD),
        (-1.0, 1.0, 0.0, Verdict.CANNOT_TELL),
        (1.0, 2.0, 1.5, Verdict.CANNOT_TELL),
        (1.0, 2.0, 3.0, Verdict.NOT_HELD),
        (0.0, 0.0, 0.0, Verdict.NOT_HELD),  # one policy, found twice
        (-np.inf, np.inf, 0.0, Verdict.CANNOT_TELL),  # a single log
    ],
)
def test_more(low: float, high: float, margin: float, verdict: Verdict) -> None:
    assert more("a − b", of(low, high) if np.isfinite(low) else Interval(1, low, high, 1),
                margin).verdict is verdict  # fmt: skip


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-0.5, 0.9, Verdict.HELD),
        (0.0, 0.0, Verdict.HELD),
        (1.1, 2.0, Verdict.NOT_HELD),
        (-3.0, -1.1, Verdict.NOT_HELD),
        (0.5, 1.5, Verdict.CANNOT_TELL),
        (-2.0, 2.0, Verdict.CANNOT_TELL),
    ],
)
def test_within(low: float, high: float, verdict: Verdict) -> None:
    assert within("a − b", of(low, high), 1.0).verdict is verdict


def test_together() -> None:
    yes, no, unsure = (more("x", of(*ends)) for ends in ((1, 2), (-2, -1), (-1, 1)))

    def together(*parts: Measured) -> Verdict:
        return Claim("A", "s", "true", "r", parts).verdict

    assert together(yes, yes) is Verdict.HELD
    assert together(yes, unsure) is Verdict.CANNOT_TELL
    assert together(yes, unsure, no) is Verdict.NOT_HELD
    assert together() is Verdict.CANNOT_TELL


def test_claims_as_results_hold_them() -> None:
    parts = (more("a", of(1, 2), 0.5, 10.0), within("b", of(-1, 1), 2.0))
    claim = Claim("A exceeds B.", "section 6", "training", "interval above 0", parts)
    found = claim.as_dict()
    assert (found["claim"], found["verdict"]) == ("A exceeds B.", "held")
    assert [Interval.from_dict(m) for m in found["measured"]] == [of(1, 2), of(-1, 1)]
    assert [(m["margin"], m["scale"]) for m in found["measured"]] == [(0.5, 10.0), (2.0, None)]
    open_ended = Claim("A", "s", "true", "r", (Measured("x", Interval(1, -np.inf, np.inf, 1), 0.0,
                       Verdict.CANNOT_TELL),))  # fmt: skip
    assert open_ended.as_dict()["measured"][0]["low"] is None
    assert Interval.from_dict(open_ended.as_dict()["measured"][0]).high == np.inf


def test_mean_interval_covers() -> None:
    rng = np.random.default_rng(0)
    hits = sum(
        i.low <= 3.0 <= i.high
        for i in (mean_interval(rng.normal(3.0, 2.0, size=12)) for _ in range(2000))
    )
    assert share_interval(hits, 2000).low <= 0.95 <= share_interval(hits, 2000).high
    assert mean_interval([1.0]).low == -np.inf
    with pytest.raises(InputError, match="finite"):
        mean_interval([1.0, np.nan])


def test_share_interval_is_exact() -> None:
    """P[X ≤ k] and P[X ≥ k] at the two ends are 2.5 % each."""
    from scipy.stats import binom

    i = share_interval(7, 30)
    assert binom.sf(6, 30, i.low) == pytest.approx(0.025)
    assert binom.cdf(7, 30, i.high) == pytest.approx(0.025)
    assert (share_interval(0, 5).low, share_interval(5, 5).high) == (0.0, 1.0)


def test_bootstrap_interval() -> None:
    x = np.random.default_rng(1).normal(size=400)
    i = bootstrap_interval(x, lambda rows: float(rows.mean()))
    assert i.low < x.mean() < i.high
    assert i.high - i.low == pytest.approx(2 * 1.96 / 20, rel=0.15)
    assert bootstrap_interval(x, lambda rows: float(rows.mean())) == i  # the same every time


def test_one_of_many_comparisons_contradicts_by_a_wider_interval() -> None:
    x = np.r_[np.full(10, -1.0), np.full(10, 0.2)]  # −0.4 ± 0.29 at 95 %, ± 0.42 at 99.3 %
    low, high = more("a", mean_interval(x)), more("b", mean_interval(10 + x))
    assert Claim("A", "s", "true", "r", (low,)).verdict is Verdict.NOT_HELD
    assert Claim("A", "s", "true", "r", (low, *[high] * 6)).verdict is Verdict.CANNOT_TELL
    far = more("c", mean_interval(x - 1))
    assert Claim("A", "s", "true", "r", (far, *[high] * 6)).verdict is Verdict.NOT_HELD
    assert Claim("A", "s", "true", "r", (high,) * 7).verdict is Verdict.HELD
    off = within("d", share_interval(85, 100).less(0.9), 0.02)
    assert off.interval.again is not None
    assert off.interval.again(0.99).low < off.interval.low
