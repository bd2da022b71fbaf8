"""The environments: Gymnasium's own checks, and their steps against the rows."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from scipy import stats

from softrobust.domains import (
    DOMAINS,
    CancerSimulator,
    Inventory,
    PestControl,
    RiverSwim,
    TabularDomain,
    make_domain,
    register_envs,
)
from softrobust.errors import InputError, MissingExtraError
from tests.domains.chi_square import p_value, tally

gymnasium: Any = pytest.importorskip("gymnasium")
IDS = ["PestControl-v0", "Inventory-v0", "RiverSwim-v0", "CancerGrowth-v0"]


@pytest.mark.parametrize("name", IDS)
def test_checked_by_gymnasium(name: str) -> None:
    from gymnasium.utils.env_checker import check_env

    register_envs()
    check_env(gymnasium.make(f"softrobust/{name}").unwrapped, skip_render_check=True)


def test_registered_by_module_and_with_settings() -> None:
    env = gymnasium.make("softrobust.domains.envs:softrobust/RiverSwim-v0", variant="craam")
    env.reset(seed=0, options={"state": 19})
    rewards = {env.step(1)[1] for _ in range(30)}
    assert rewards <= {0.0, 100.0}
    assert env.spec.max_episode_steps == 100


@pytest.mark.parametrize(
    ("name", "domain", "pairs"),
    [
        ("PestControl-v0", PestControl(), [(30, 0), (12, 3), (25, 1), (25, 4)]),
        ("Inventory-v0", Inventory(), [(5, 12), (40, 0)]),
        ("RiverSwim-v0", RiverSwim(), [(0, 1), (7, 1)]),
    ],
)
def test_steps_match_rows(name: str, domain: TabularDomain, pairs: list[tuple[int, int]]) -> None:
    register_envs()
    env = gymnasium.make(f"softrobust/{name}").unwrapped
    env.reset(seed=5)
    after, n = [], 1500
    for s, a in pairs:
        for _ in range(n):
            env.s = s
            after.append(env.step(a)[0])
    model = domain.true_model()
    rows = np.stack([model[0].P[s, a] for s, a in pairs])
    counts = tally(np.repeat(np.arange(len(pairs)), n), np.array(after), len(pairs), model.n_states)
    assert p_value(rows, counts) > 1e-3


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("action", [-1, 41, "a", 0.5, None])
def test_actions_out_of_range_are_refused(name: str, action: Any) -> None:
    env = gymnasium.make(f"softrobust/{name}").unwrapped
    env.reset(seed=0)
    before = np.array(env.s)
    with pytest.raises(InputError, match=r"The action must be a whole number in 0…\d+; it is"):
        env.step(action)
    np.testing.assert_array_equal(env.s, before)
    env.step(np.int64(1))


@pytest.mark.parametrize("state", [99, -1, "a", 2.5])
@pytest.mark.parametrize("name", IDS[:3])
def test_starts_out_of_range_are_refused(name: str, state: Any) -> None:
    env = gymnasium.make(f"softrobust/{name}").unwrapped
    with pytest.raises(InputError, match=r"options\['state'\] must be a whole number in 0…"):
        env.reset(options={"state": state})
    assert env.reset(options={"state": np.int64(7)})[0] == 7
    assert env.step(1)[0] in range(51)


@pytest.mark.parametrize("state", [99, [1.0, 2.0], [1.0, 2.0, 3.0, np.nan], "abcd", [0, 0, 0, -1]])
def test_tumours_to_start_from(state: Any) -> None:
    env = gymnasium.make("softrobust/CancerGrowth-v0").unwrapped
    with pytest.raises(InputError, match=r"4 finite numbers ≥ 0 \(C, P, Q, Qp\)"):
        env.reset(options={"state": state})
    assert env.reset(options={"state": [0, 7, 40, 1]})[0].tolist() == [0, 7, 40, 1]


def test_cancer_pays_before_noise() -> None:
    register_envs()
    env = gymnasium.make("softrobust/CancerGrowth-v0", dose_penalty=0.0)
    s, _ = env.reset(seed=0)
    done, total, t = False, 0.0, 0
    while not done:
        clean = CancerSimulator(0.0).step(s, 1)
        s, reward, _, done, _ = env.step(1)
        assert reward == pytest.approx(float(clean.reward), rel=1e-12)
        total, t = total + 0.9**t * reward, t + 1
    assert t == 30
    assert total == pytest.approx(16.3, abs=2.0)


def test_cancer_noise_by_chi_square() -> None:
    """(observed/clean − 1)/0.03 is standard normal: 20 equally likely cells for all variables."""
    register_envs()
    env = gymnasium.make("softrobust/CancerGrowth-v0").unwrapped
    env.reset(seed=1)
    s = np.array([1.0, 9.0, 40.0, 3.0])
    clean = CancerSimulator().step(s, 1).s_next
    seen = []
    for _ in range(1500):
        env.s = s
        seen.append(env.step(1)[0])
    u = stats.norm.cdf((np.array(seen) / clean - 1) / 0.03)
    counts = np.stack([np.histogram(u[:, j], bins=20, range=(0, 1))[0] for j in range(4)])
    assert p_value(np.full((4, 20), 0.05), counts) > 1e-3
    assert np.abs(np.corrcoef(u.T) - np.eye(4)).max() < 0.1


def test_without_gymnasium(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'softrobust\[gym\]'"):
        register_envs()


def test_domains_by_name() -> None:
    assert set(DOMAINS) == {"pest-control", "inventory", "riverswim", "cancer", "random"}
    domain = make_domain("inventory", max_backlog=3, steps=7)
    assert isinstance(domain, Inventory)
    assert (domain.shop.max_backlog, domain.steps) == (3, 7)
    with pytest.raises(InputError, match=r"Unknown domain 'pest'.*pest-control"):
        make_domain("pest")
    with pytest.raises(InputError, match=r"no setting 'speed'.*variant"):
        make_domain("riverswim", speed=2)
