"""Riverswim: both variants, and the public file of the craam one."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from softrobust.data import read_log
from softrobust.domains import RiverSwim


def test_craam_is_the_public_model(shared_data: Path) -> None:
    P, r = np.zeros((20, 2, 20)), np.zeros((20, 2, 20))
    with (shared_data / "riverswim" / "true.csv").open() as file:
        for row in csv.DictReader(file):
            at = int(row["idstatefrom"]), int(row["idaction"]), int(row["idstateto"])
            P[at] += float(row["probability"])
            r[at] += float(row["reward"]) * float(row["probability"])
    model = RiverSwim("craam").true_model()
    np.testing.assert_allclose(model[0].P, P, atol=1e-12)
    assert model.rewards is not None
    expected = model.rewards.expected(model.indptr, model.next_states, model.prob, 1)[:, :, 0]
    np.testing.assert_allclose(expected, r.sum(axis=2), atol=1e-12)
    np.testing.assert_allclose(expected[:, 0], 5.0)
    assert model.gamma == 0.9


def test_paper_rewards() -> None:
    rewards = RiverSwim().frame().rewards
    assert rewards is not None
    at = rewards.at([18, 19, 3, 3, 19], [1, 1, 1, 1, 0], [19, 19, 4, 3, 18])[0]
    assert at.tolist() == [105.0, 100.0, 5.0, 0.0, 0.0]


def test_the_posterior_counts_inner_swims_only(shared_data: Path) -> None:
    log = read_log(shared_data / "riverswim_log.csv")
    fitted = RiverSwim("craam").posterior().fit(log)
    inner = (log.s > 0) & (log.s < 19) & (log.a == 1)
    step = (log.s_next - log.s)[inner]
    wanted = [int((step == move).sum()) for move in (-1, 0, 1)]
    assert fitted.counts[1].tolist() == wanted  # type: ignore[attr-defined]
    assert fitted.counts[0].sum() == 0  # type: ignore[attr-defined]
    models = fitted.sample(3, seed=0)
    np.testing.assert_array_equal(models.P[:, 5, 0, 4], 1.0)  # type: ignore[union-attr]
