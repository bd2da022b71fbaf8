"""Causes that the log does not have: their trace, and what it costs a promise."""

import numpy as np
import pytest

from softrobust.data import TransitionLog
from softrobust.solvers.hidden import NOTHING, TIMES, hidden_bias
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


def trace(log: TransitionLog) -> float:
    run = Procedure.of(log, 0.9, None, 40, 8, np.random.default_rng(0))
    always = np.zeros((1, 2))
    always[0, list(log.actions).index("drug")] = 1.0
    return hidden_bias(run.belief, run.practice, always, units(log)[1]).bias


def test_the_trace_is_about_what_is_wrong() -> None:
    """Giving the drug to all changes nothing; the log seems to say 0.3 a step more: 3 in all.

    With q(drug) = 0.8 and q(rest) = 0.2, y is 0.32 for the strong and −0.32 for the frail on
    average, z(drug) 0.3 and −0.3: the bias is 0.096/0.25 = 0.384 for the drug and −0.384 for rest,
    half of both a step, over 1/(1 − 0.9) steps.
    """
    found = [trace(wards(True, seed)) for seed in range(5)]
    assert np.mean(found) == pytest.approx(TIMES * 3.84, rel=0.1)


def test_no_trace_where_nothing_is_hidden_from_the_log() -> None:
    """Frail cases that decisions do not follow: what is found is noise, and small."""
    found = [trace(wards(False, seed)) for seed in range(8)]
    assert np.mean(found) < 0.5
    assert min(found) == NOTHING.bias


def test_nothing_is_promised_of_what_a_hidden_cause_does() -> None:
    choice = choose(wards(True, 0), 0.9)
    assert choice.candidate is None, choice.promise
