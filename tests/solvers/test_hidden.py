"""Causes that the log does not have: their trace, and what it costs a promise."""

import numpy as np
import pytest

from softrobust.data import TransitionLog
from softrobust.solvers import hidden
from softrobust.solvers.hidden import NOTHING, TIMES, Hidden
from softrobust.solvers.promise import Procedure, choose, units


def wards(seen: bool, seed: int, episodes: int = 150) -> TransitionLog:
    """The drug does nothing; the frail fare badly, and mostly the strong get it if that is seen."""
    rng = np.random.default_rng(seed)
    rows = []
    for episode in range(episodes):
        frail = rng.random() < 0.5
        for _ in range(8):
            drug = rng.random() < ((0.2 if frail else 0.8) if seen else 0.5)
            rows.append(("ward", ("rest", "drug")[drug], "ward", float(not frail), episode))
    return TransitionLog.from_arrays(*zip(*rows, strict=True))


def traces(log: TransitionLog, horizon: int | None = None) -> tuple[Hidden, Hidden, Hidden]:
    """Of giving the drug to all: by products, by kinds of cases, and what is made of them."""
    run = Procedure.of(log, 0.9, None, 40, 8, np.random.default_rng(0), horizon)
    always = np.zeros((1, 2))
    always[0, list(log.actions).index("drug")] = 1.0
    given = (run.belief, run.practice, always, units(log)[1])
    residuals = hidden._residuals(run.belief, run.practice)
    return (
        hidden._by_products(*given, *residuals),
        hidden._by_kinds(*given, *residuals),
        hidden.hidden_bias(*given),
    )


def test_the_trace_is_about_what_is_wrong() -> None:
    """Giving the drug to all changes nothing; the log seems to say 0.3 a step more: 3 in all.

    With q(drug) = 0.8 and q(rest) = 0.2, y is 0.32 for the strong and −0.32 for the frail on
    average, z(drug) 0.3 and −0.3: the bias is 0.096/0.25 = 0.384 for the drug and −0.384 for rest,
    half of both a step, over 1/(1 − 0.9) steps.
    """
    found = [traces(wards(True, seed)) for seed in range(4)]
    products, kinds = (np.mean([f[way].bias for f in found]) for way in (0, 1))
    assert products == pytest.approx(TIMES * 3.84, rel=0.1)
    assert 2.3 < kinds < 3.1  # rewards are shrunk, so that less than 3 is believed
    assert all(f[2] == max(f[:2]) for f in found)


def test_kinds_over_a_horizon_and_in_a_large_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps at γ = 0.9: 0.3·1.9; a part of the rows shows the same."""
    log = wards(True, 0)
    _, kinds, _ = traces(log, horizon=2)
    assert kinds.bias == pytest.approx(0.57, abs=0.12)
    monkeypatch.setattr(hidden, "ROWS", 700)
    _, fewer, _ = traces(log)
    assert fewer.bias == pytest.approx(3.0, abs=0.8)


def test_no_trace_where_nothing_is_hidden_from_the_log() -> None:
    """Frail cases that decisions do not follow: what is found is noise, and small."""
    found = [traces(wards(False, seed)) for seed in range(6)]
    for way in (0, 1):
        biases = [f[way].bias for f in found]
        assert np.mean(biases) < 0.5
        assert min(biases) == NOTHING.bias


def test_one_kind_of_cases_is_found_to_be_one() -> None:
    """Nothing differs between episodes: two kinds foretell nothing."""
    rng = np.random.default_rng(3)
    rows = [
        ("ward", ("rest", "drug")[drug], "ward", float(rng.random() < 0.4 + 0.2 * drug), i // 8)
        for i, drug in enumerate(rng.integers(0, 2, 800).tolist())
    ]
    _, kinds, _ = traces(TransitionLog.from_arrays(*zip(*rows, strict=True)))
    assert kinds == NOTHING


def test_nothing_is_promised_of_what_a_hidden_cause_does() -> None:
    choice = choose(wards(True, 0), 0.9)
    assert choice.candidate is None, choice.promise
