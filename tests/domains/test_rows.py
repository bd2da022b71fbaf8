"""Every tabular domain: exact rows against its own simulation, and the protocol."""

from __future__ import annotations

from dataclasses import fields
from itertools import product
from typing import Any

import numpy as np
import pytest

from softrobust.data import TransitionLog
from softrobust.domains import DOMAINS as DOMAIN_CLASSES
from softrobust.domains import (
    Inventory,
    PestControl,
    RiverSwim,
    TabularDomain,
    make_domain,
    random_mdp,
)
from softrobust.errors import InputError
from softrobust.posterior import DirichletPosterior, Shop
from softrobust.problem import Problem
from tests.domains.chi_square import p_value, tally

DOMAINS: list[TabularDomain] = [
    PestControl(),
    PestControl(exponential=True),
    Inventory(),
    Inventory(shop=Shop(max_backlog=7)),
    Inventory(mean_demand=20.0, shop=Shop(max_demand=25)),
    RiverSwim(),
    RiverSwim("craam"),
    random_mdp("dirichlet", 12, 3),
    random_mdp("garnet", 30, 4, seed=2),
    random_mdp("ring", 10, 2),
]
names = [f"{d.name}-{i}" for i, d in enumerate(DOMAINS)]


@pytest.mark.parametrize("domain", DOMAINS, ids=names)
def test_simulation_matches_rows(domain: TabularDomain) -> None:
    model = domain.true_model()
    S, A = model.n_states, model.n_actions
    # S // 2 is n = 25 of pest control, where growth 0 lands on a half, with much probability.
    states = np.unique([*np.linspace(0, S - 1, 12).astype(int), S // 2])
    actions = np.unique(np.linspace(0, A - 1, 5).astype(int))
    pairs = np.array(list(product(states, actions)))
    n = 3000
    s, a = np.repeat(pairs[:, 0], n), np.repeat(pairs[:, 1], n)
    after = domain.step(s, a, np.random.default_rng(11))
    rows = model[0].P[pairs[:, 0], pairs[:, 1]]
    counts = tally(np.repeat(np.arange(len(pairs)), n), after, len(pairs), S)
    assert p_value(rows, counts) > 1e-3


@pytest.mark.parametrize("domain", DOMAINS, ids=names)
def test_protocol(domain: TabularDomain) -> None:
    model, frame = domain.true_model(), domain.frame()
    assert model.n_models == 1
    assert model.states == frame.states
    assert model.available.all()
    np.testing.assert_array_equal(model.p0, frame.p0)
    assert Problem(model).gamma == frame.gamma
    log, again = domain.collect(3), domain.collect(3)
    assert isinstance(log, TransitionLog)
    assert log.data_hash == again.data_hash
    assert log.data_hash != domain.collect(4).data_hash
    # Each logged transition is possible, and the logged rewards are the domain's.
    rows = model[0].P
    assert (rows[log.s, log.a, log.s_next] > 0).all()
    assert frame.rewards is not None
    np.testing.assert_array_equal(log.reward, frame.rewards.at(log.s, log.a, log.s_next)[0])
    assert domain.posterior().name


@pytest.mark.parametrize(
    "domain", [Inventory(), RiverSwim(), RiverSwim(prior="independent"), random_mdp("ring")]
)
def test_problem(domain: TabularDomain) -> None:
    problem, test = domain.split_problem(5, n_models=4, n_test=3)
    assert (problem.n_models, problem.gamma) == (4, domain.frame().gamma)
    assert test is not None
    assert test.n_models == 3
    np.testing.assert_array_equal(problem.p0, domain.frame().p0)
    np.testing.assert_array_equal(problem.R, domain.split_problem(5, 4, 3)[0].R)
    assert not np.array_equal(problem.models.prob, domain.split_problem(6, 4, 3)[0].models.prob)
    assert problem.objective == domain.paper_goal


WRONG: dict[str, dict[str, tuple[Any, ...]]] = {
    "pest-control": {
        "start": ("abc", 2.5, 51, -1, None), "batch_start": ("abc", 77, -1, 2.5),
        "steps": ("abc", 2.5, 0, True), "exponential": ("abc", 1), "chains": ("abc", 0),
        "target_accept": ("abc", 1.0), "seed": ("abc", -1), "checkpoint": (5,),
    },
    "inventory": {
        "mean_demand": ("abc", 0, np.inf), "steps": ("abc", 2.5, 0), "truncated": ("abc",),
        "capacity": ("abc", 2.5, 0), "max_backlog": ("abc", -1, 0.5), "price": ("abc", np.nan),
        "gamma": ("abc", 0, 1),
    },
    "riverswim": {
        "variant": (3, [1]), "prior": ({},), "n_states": ("abc", 2.5, 2), "steps": ("abc", 1.5, 0),
    },
    "cancer": {
        "dose_penalty": ("abc", np.inf), "noise": ("abc", -0.1), "episodes": ("abc", 1.5, 0),
        "horizon": ("abc", 0), "varying": ("abc",), "boxed": ("abc", 1), "gamma": ("abc", 1.5),
    },
    "random": {
        "kind": (3,), "n_states": ("abc", 0, 2.5), "n_actions": ("abc", 0), "branching": ("abc", 0),
        "concentration": ("abc", 0), "gamma": ("abc", 1), "steps": ("abc", 0),
        "model_seed": ("abc", -1),
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("domain", "name", "value"),
    [(d, n, x) for d, settings in WRONG.items() for n, values in settings.items() for x in values],
)
def test_wrong_settings_are_refused(domain: str, name: str, value: Any) -> None:
    """By type and by range: the rule, what came, and what to do."""
    with pytest.raises(InputError, match=rf"{name} must be .*; it is .*\."):
        make_domain(domain, **{name: value})


def test_every_setting_is_tried() -> None:
    for name, cls in DOMAIN_CLASSES.items():
        own = {f.name for f in fields(cls)} - {"nuts", "shop"}  # type: ignore[arg-type]
        assert own <= set(WRONG[name])


def test_whole_numbers_of_numpy_are_settings() -> None:
    domain = PestControl(steps=np.int64(5), batch_start=np.int32(50))  # type: ignore[arg-type]
    assert domain.collect(0).n_rows == 5


def test_a_fitted_posterior_is_used_as_it_is() -> None:
    domain = random_mdp("dirichlet", 5, 2, steps=40)
    fitted = DirichletPosterior(per_cell=3.0, support="all", min_count=0).fit(domain.collect(9))
    problem = domain.problem(1, 6, fitted=fitted)
    assert problem.n_models == 6


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PestControl(start=51).frame(), "0…50"),
        (lambda: Inventory(mean_demand=-1.0), "mean_demand must be a positive"),
        (lambda: Shop(max_backlog=-1), "max_backlog"),
        (lambda: Shop(capacity=0), "capacity"),
        (lambda: RiverSwim("other"), "paper or craam"),  # type: ignore[arg-type]
        (lambda: RiverSwim(prior="none"), "tied or independent"),  # type: ignore[arg-type]
        (lambda: RiverSwim(n_states=2), "at least 3"),
        (lambda: random_mdp("garnet", 3, 2, branching=4), "branching"),
        (lambda: random_mdp("ring", 2, 2), "at least 3 states"),
        (lambda: random_mdp("tree"), "dirichlet, garnet or ring"),  # type: ignore[arg-type]
        (lambda: RiverSwim().roll_out(np.ones((2, 2)), 0, 5), "needs shape"),
        (lambda: RiverSwim(steps=0).collect(0), "at least one step"),
        (lambda: RiverSwim().roll_out(np.full((20, 2), 0.5), 0, 0), "at least one step"),
        (lambda: RiverSwim().roll_out(np.full((20, 2), 0.5), 20, 5), "start must be .* 0…19"),
        (lambda: Inventory(mean_demand=1e4), "mean_demand must leave demand a chance"),
        (lambda: RiverSwim(n_states=10**7), "GiB"),
        (lambda: random_mdp(n_states=10**6), "GiB"),
        (lambda: Shop(capacity=10**6), "GiB"),
    ],
)
def test_refused(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator]
