"""Policies for vectors: what they decide, and that a file is all they need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from softrobust._core.files import read_npz, write_npz
from softrobust.data import Labels
from softrobust.errors import InputError, SolverError
from softrobust.models import (
    ConstantPolicy,
    ContinuousPolicy,
    FourierFeatures,
    NetworkPolicy,
    PolynomialFeatures,
    RBFFeatures,
)
from softrobust.models.continuous_policy import POLICY_FORMAT
from softrobust.models.features import Features
from softrobust.models.lookahead import BellmanUpdate, LinearPolicy, load_continuous_policy
from softrobust.solvers import SRVI, SRVISA
from tests.continuous_instances import FloatArray, linear_problem

XY = Labels(("x", "y"), noun="variable")
ONOFF = Labels(("off", "on"), noun="action")
STATES = np.random.default_rng(0).normal(size=(40, 2))


def network(degree: int = 1, greedy: bool = False) -> NetworkPolicy:
    rng = np.random.default_rng(1)
    n = 2 if degree == 1 else 5
    return NetworkPolicy(
        (rng.normal(size=(n, 6)), rng.normal(size=(6, 2))),
        (rng.normal(size=6), rng.normal(size=2)),
        XY, ONOFF, np.array([0.5, 0.0]), np.array([2.0, 1.0]), degree, greedy,
    )  # fmt: skip


def test_network_by_hand() -> None:
    policy, s = network(2), STATES[0]
    z = (s - [0.5, 0.0]) / [2.0, 1.0]
    x = np.array([z[0], z[1], z[0] ** 2, z[0] * z[1], z[1] ** 2])
    h = np.maximum(x @ policy.weights[0] + policy.biases[0], 0)
    logits = h @ policy.weights[1] + policy.biases[1]
    p = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(policy.probs(s[None])[0], p, rtol=1e-12)
    assert set(network(2, greedy=True).probs(STATES).ravel()) == {0.0, 1.0}


def test_labels_indices_and_seeds() -> None:
    policy = ConstantPolicy("on", XY, ONOFF)
    assert (policy([0.0, 1.0]), policy.action([0.0, 1.0])) == (1, "on")
    assert policy.act(STATES).tolist() == [1] * 40
    mixed = network()
    with pytest.raises(InputError, match="randomizes here"):
        mixed(STATES[0])
    assert mixed(STATES[0], seed=3) == mixed(STATES[0], seed=3)
    draws = mixed.act(np.repeat(STATES[:1], 20_000, axis=0), seed=0)
    assert draws.mean() == pytest.approx(mixed.probs(STATES[:1])[0, 1], abs=0.02)


@pytest.mark.parametrize(
    ("s", "words"),
    [([0.0, 1.0], "one entry for each"), ([[0.0, np.nan]], "'y' is nan"), ([[1.0]], "shape")],
)
def test_bad_observations(s: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        network().probs(s)  # type: ignore[arg-type]


def solved(kind: str, features: Features | None = None) -> ContinuousPolicy:
    problem = linear_problem(lam=1.0, n=6)
    solver = {"s": SRVI, "sa": SRVISA}[kind]
    return (
        solver(features or PolynomialFeatures(), iterations=5, episodes=5, batch=40)
        .solve(problem)
        .policy
    )


POLICIES = {
    "constant": lambda: ConstantPolicy("on", XY, ONOFF),
    "network": lambda: network(2),
    "lookahead-s": lambda: solved("s"),
    "lookahead-sa": lambda: solved("sa"),
    "lookahead-rbf": lambda: solved("s", RBFFeatures(8)),
    "lookahead-fourier": lambda: solved("sa", FourierFeatures(2)),
    "linear": lambda: LinearPolicy(
        PolynomialFeatures().fit(STATES), np.arange(12.0).reshape(6, 2) - 5, XY, ONOFF,
        np.array([True, True]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_saved_and_loaded_policies_decide_the_same(name: str, tmp_path: Path) -> None:
    policy = POLICIES[name]()  # type: ignore[no-untyped-call]
    policy.save(tmp_path / "p.npz")
    again = load_continuous_policy(tmp_path / "p.npz")
    assert type(again) is type(policy)
    assert (again.variables, again.actions) == (policy.variables, policy.actions)
    np.testing.assert_array_equal(again.probs(STATES), policy.probs(STATES))


def test_a_fresh_interpreter_needs_only_the_file(tmp_path: Path) -> None:
    policy = network()
    policy.save(tmp_path / "p.npz")
    code = (
        "from softrobust.models.lookahead import load_continuous_policy; import sys, json;"
        f"p = load_continuous_policy({str(tmp_path / 'p.npz')!r}).probs([[0.3, 0.4]]).tolist();"
        "print(json.dumps([p, 'jax' in sys.modules, 'gymnasium' in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    probs, jax, gym = json.loads(done.stdout)
    np.testing.assert_allclose(probs, policy.probs([[0.3, 0.4]]))
    assert not jax
    assert not gym


def test_damaged_and_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "p.npz"
    network().save(path)
    arrays = read_npz(path, POLICY_FORMAT, 1)
    del arrays["weights_1"], arrays["format"], arrays["format_version"]
    write_npz(path, POLICY_FORMAT, 1, arrays)
    with pytest.raises(InputError, match="lacks or garbles"):
        load_continuous_policy(path)
    arrays["policy"] = np.array(json.dumps({"kind": "os.system"}))
    write_npz(path, POLICY_FORMAT, 1, arrays)
    with pytest.raises(InputError, match="unknown kind"):
        load_continuous_policy(path)
    write_npz(path, POLICY_FORMAT, 2, arrays)
    with pytest.raises(InputError, match="format version"):
        load_continuous_policy(path)


@pytest.mark.parametrize("name", ["w", "u", "model_scaling_out_centre"])
def test_arrays_that_do_not_fit_are_refused(name: str, tmp_path: Path) -> None:
    """Compiled loops look at no bounds: what is too short or too long must not reach them."""
    path = tmp_path / "p.npz"
    solved("s").save(path)
    with np.load(path) as file:
        arrays = dict(file)
    for wrong in (np.concatenate([arrays[name]] * 2), arrays[name][:-1]):
        np.savez(path, **arrays | {name: wrong})
        with pytest.raises(InputError, match=f"{name.removeprefix('model_scaling_')} must have"):
            load_continuous_policy(path)


@pytest.mark.parametrize("allowed", [[False, False], [True], [[True, True]]])
def test_a_file_that_allows_no_action_is_refused(allowed: object, tmp_path: Path) -> None:
    path = tmp_path / "p.npz"
    POLICIES["linear"]().save(path)  # type: ignore[no-untyped-call]
    arrays = read_npz(path, POLICY_FORMAT, 1)
    del arrays["format"], arrays["format_version"]
    write_npz(path, POLICY_FORMAT, 1, arrays | {"allowed": np.array(allowed)})
    with pytest.raises(InputError, match=r"(?s)p\.npz.*'allowed' must name at least one"):
        load_continuous_policy(path)
    np.savez(path, policy=np.array([object()]), format=np.array(POLICY_FORMAT))
    with pytest.raises(InputError, match="safely"):
        load_continuous_policy(path)


class Own:
    """Features that a file cannot keep."""

    def fit(self, s: FloatArray) -> Own:
        return self

    def transform(self, s: FloatArray) -> FloatArray:
        return np.asarray(s)


def test_features_of_your_own_are_not_saved(tmp_path: Path) -> None:
    policy = LinearPolicy(Own(), np.eye(2), XY, ONOFF, np.array([True, True]))
    assert policy.probs(STATES).shape == (40, 2)
    with pytest.raises(InputError, match="cannot be saved without their code"):
        policy.save(tmp_path / "p.npz")


def test_forbidden_actions_are_not_taken() -> None:
    Z = np.random.default_rng(0).normal(size=(20, 3, 5))
    Z[:, 1] += 10.0
    f, u = np.full(5, 0.2), np.ones(5)
    for s_rectangular in (True, False):
        free = BellmanUpdate(1.0, f, u, s_rectangular, np.ones(3, bool)).decide(Z)
        bound = BellmanUpdate(1.0, f, u, s_rectangular, np.array([True, False, True])).decide(Z)
        assert (free.d[:, 1] == 1).all()
        assert (bound.d[:, 1] == 0).all()
        np.testing.assert_allclose(bound.d.sum(axis=1), 1.0)
    linear = LinearPolicy(Own(), np.eye(2), XY, ONOFF, np.array([True, False]))
    assert (linear.act(STATES) == 0).all()
    with pytest.raises(SolverError, match="grown without bound"):
        BellmanUpdate(1.0, f, u, True, np.ones(3, bool)).decide(Z * np.inf)


def test_bad_networks() -> None:
    with pytest.raises(InputError, match="lead from 2 inputs to 2 actions"):
        NetworkPolicy((np.ones((3, 2)),), (np.ones(2),), XY, ONOFF, np.zeros(2), np.ones(2))
    with pytest.raises(InputError, match="finite"):
        NetworkPolicy((np.full((2, 2), np.nan),), (np.ones(2),), XY, ONOFF, np.zeros(2), np.ones(2))
    with pytest.raises(InputError, match="Unknown action"):
        ConstantPolicy("up", XY, ONOFF)
