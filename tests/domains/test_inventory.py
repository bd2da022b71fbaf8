"""Inventory: rows and rewards by enumeration of the demand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from softrobust.domains import Inventory
from softrobust.posterior import Shop
from softrobust.posterior.demand import demand_law


@pytest.mark.parametrize("backlog", [0, 6])
def test_rows_and_rewards_by_enumeration(backlog: int) -> None:
    domain = Inventory(shop=Shop(max_backlog=backlog))
    model, frame = domain.true_model(), domain.frame()
    d = np.arange(51)
    law = stats.poisson(10).pmf(d)
    law /= law.sum()
    np.testing.assert_allclose(demand_law(np.array([10.0]), 50)[0], law, rtol=1e-12)
    assert frame.rewards is not None
    for s, a in ((0, 0), (0, 40), (13, 20), (50, 3), (30, 40), (-backlog, 11)):
        i = s + backlog
        o = min(a, 50 - s)
        row = np.zeros(51 + backlog)
        left = np.maximum(s + o - d, -backlog)
        np.add.at(row, left + backlog, law)
        np.testing.assert_allclose(model[0].P[i, a], row, atol=1e-15)
        sold = s + o - left
        pay = 4.99 * sold - 2.49 * o - 3.99 * (o > 0) - 0.1 * np.maximum(left, 0)
        pay = pay - 0.15 * np.maximum(-left, 0)
        found = frame.rewards.at(np.full(51, i), np.full(51, a), left + backlog)[0]
        np.testing.assert_allclose(found, pay, atol=1e-12)


def test_labels_are_the_stock() -> None:
    assert list(Inventory(shop=Shop(max_backlog=2)).frame().states)[:4] == ["-2", "-1", "0", "1"]


def test_batch_orders_the_maximum() -> None:
    log = Inventory().collect(1)
    assert (log.n_rows, log.s[0]) == (50, 0)
    assert (log.a == 40).all()


def test_a_shop_that_sells_makes_money() -> None:
    """The fixed cost is per order: an order of 10 sold at once earns 10·(4.99 − 2.49) − 3.99."""
    rewards = Inventory().frame().rewards
    assert rewards is not None
    assert rewards.at([0], [10], [0])[0][0] == pytest.approx(25.0 - 3.99)
