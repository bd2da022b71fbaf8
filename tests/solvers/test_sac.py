"""Soft actor-critic: targets against NumPy, soft value iteration, policies without JAX."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softrobust.errors import InputError, MissingExtraError
from softrobust.models.continuous import CallableModels
from softrobust.models.continuous_policy import NetworkPolicy
from softrobust.solvers.base import Status
from softrobust.solvers.continuous.sac import SAC, ActorCritic, RobustSAC, SoftRobustSAC
from tests.solvers.sac_worlds import TINY, gaussian_problem, random_table

jax = pytest.importorskip("jax")
pytest.importorskip("optax")


def targets(solver: ActorCritic, problem: Any) -> tuple[Any, ...]:
    """(n_models, batch) targets, their combination, and what they were made of."""
    from softrobust.solvers.continuous.sac.learning import combined, first_learner, model_targets
    from softrobust.solvers.continuous.sac.traced import on_device

    plan, world, arrays = solver.plan(problem)
    data = on_device(arrays)
    rng = np.random.default_rng(1)
    s = rng.standard_normal((plan.batch, plan.n_variables)).astype(np.float32)
    a = rng.integers(0, plan.n_actions, plan.batch).astype(np.int32)
    key = jax.random.PRNGKey(5)
    # The target network is given values that matter, so that V̄ is far from 0.
    target = {k: w + 0.3 for k, w in jax.jit(lambda k: first_learner(plan, k))(key).target.items()}
    y = jax.jit(lambda *x: model_targets(plan, world, data, *x))(target, s, a, key)
    return np.asarray(y), np.asarray(combined(plan, data["f"], y)), (target, s, a, key)


def numpy_targets(problem: Any, made_of: Any, k: int) -> np.ndarray[Any, Any]:
    """E_ω[r + γ V̄(s′)] from the same draws, all else in NumPy and double precision."""
    target, s, a, key = made_of
    models, layers = problem.models, len(target) // 2
    centre, scale = models.scaling.centre[1:3], models.scaling.scale[1:3]
    out = []
    for omega in range(models.n_models):
        own = jax.random.fold_in(key, omega)
        eps = np.asarray(jax.random.normal(own, (k, *s.shape)), np.float64)
        spread = np.sqrt(models.variance(s, a)[omega])
        s_next = np.clip(models.mean(s, a)[omega] + spread * eps, *models.clip)
        r = s @ models.frame.reward_now + s_next @ models.frame.reward_next
        z = (s_next - centre) / scale
        x = np.concatenate([z, z[..., [0]] ** 2, z[..., [0]] * z[..., [1]], z[..., [1]] ** 2], -1)
        for i in range(layers):
            x = x @ np.asarray(target[f"W{i}"], np.float64) + np.asarray(target[f"b{i}"])
            x = np.maximum(x, 0) if i < layers - 1 else x
        out.append((r + problem.gamma * x[..., 0]).mean(axis=0))
    return np.array(out)


def test_targets_agree_with_numpy() -> None:
    f = [0.1, 0.2, 0.0, 0.4, 0.3]
    problem = gaussian_problem(f=f)
    y, soft, parts = targets(SoftRobustSAC(**TINY), problem)
    expected = numpy_targets(problem, parts, TINY["next_states"])
    np.testing.assert_allclose(y, expected, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(soft, np.array(f) @ expected, rtol=2e-5, atol=2e-5)
    again, hard, _ = targets(RobustSAC(**TINY), problem)
    np.testing.assert_array_equal(y, again)
    np.testing.assert_array_equal(hard, y[[0, 1, 3, 4]].min(axis=0))  # f = 0: not in the minimum
    assert (hard <= soft + 1e-5).all()


@pytest.mark.parametrize("chunk", [1, 2])  # 5 models: one by one, and with a rest
def test_chunks_do_not_matter(chunk: int) -> None:
    problem = gaussian_problem()
    whole, _, _ = targets(SoftRobustSAC(**TINY), problem)
    part, _, _ = targets(SoftRobustSAC(**TINY, model_chunk=chunk), problem)
    np.testing.assert_allclose(part, whole, rtol=1e-5, atol=1e-6)


def test_one_model_makes_all_three_equal() -> None:
    """Plain and soft-robust are then one program on the same data; the minimum has one entry."""
    problem = gaussian_problem(N=1)
    plain, soft = SAC(**TINY), SoftRobustSAC(**TINY)
    (plan, world, data), (again, same_world, same) = plain.plan(problem), soft.plan(problem)
    assert (plan, world) == (again, same_world)
    for one, other in zip(jax.tree.leaves(data), jax.tree.leaves(same), strict=True):
        np.testing.assert_array_equal(one, other)
    _, mean, _ = targets(soft, problem)
    _, least, _ = targets(RobustSAC(**TINY), problem)
    np.testing.assert_array_equal(mean, least)


def test_plain_reaches_the_soft_optimum_of_a_table() -> None:
    """The policy against soft value iteration, its return against the optimal one."""
    table, c = random_table(), 0.2
    solver = SAC(
        iterations=300, episodes=10, updates=4, batch=48, next_states=8, hidden=(24,), degree=1,
        actor_rate=5e-3, q_rate=5e-3, v_rate=5e-3, target_rate=0.05, entropy_coef=c, memory=20,
        block=100,
    )  # fmt: skip
    found = solver.solve(table.problem())
    assert isinstance(found.policy, NetworkPolicy)
    probs, soft = found.policy.probs(np.eye(3)), table.soft_policy(c)
    assert np.abs(probs - soft).max() < 0.05
    assert np.abs(table.value(probs) - table.value(soft)).max() < 0.05
    greedy = replace(found.policy, greedy=True).probs(np.eye(3))
    np.testing.assert_allclose(table.value(greedy), table.best(), atol=1e-9)


def test_mixture_of_a_table_is_its_mean() -> None:
    """Draws of the mean model of functions have the frequencies of the average rows."""
    from softrobust.solvers.continuous.sac.traced import on_device

    table = random_table(N=3)
    f = np.array([0.5, 0.3, 0.2])
    problem = table.problem(f=f)
    plan, world, arrays = SAC(**TINY).plan(problem)
    assert plan.n_models == 1
    assert world.mixed
    s, a = np.repeat(np.eye(3), 2, axis=0), np.tile([0, 1], 3)
    data, key = on_device(arrays), jax.random.PRNGKey(0)
    drawn = jax.jit(lambda s, a: world.draw(data, 0, s, a, key, 20_000))(s, a)
    rows = np.tensordot(f, table.P, 1).reshape(6, 3)
    np.testing.assert_allclose(np.asarray(drawn).mean(axis=0), rows, atol=4 * 0.5 / 20_000**0.5)


def test_policy_is_the_actor_and_needs_no_jax(tmp_path: Path) -> None:
    from softrobust.solvers.continuous.sac.learning import forward, inputs

    problem = gaussian_problem()
    found = SoftRobustSAC(**TINY).solve(problem)
    policy = found.policy
    assert isinstance(policy, NetworkPolicy)
    assert (found.status, found.n_models) == (Status.ITERATION_LIMIT, 5)
    s = np.random.default_rng(0).standard_normal((20, 2))
    actor = {f"W{i}": w.astype(np.float32) for i, w in enumerate(policy.weights)}
    actor |= {f"b{i}": b.astype(np.float32) for i, b in enumerate(policy.biases)}
    x = inputs(s.astype(np.float32), policy.centre, policy.scale, 2)
    np.testing.assert_allclose(
        policy.probs(s), np.asarray(jax.nn.softmax(forward(actor, x))), atol=2e-6
    )
    policy.save(tmp_path / "policy.npz")
    code = (
        "import sys; sys.modules['jax'] = None; sys.modules['optax'] = None\n"
        "from softrobust.models.lookahead import load_continuous_policy\n"
        f"print(load_continuous_policy({str(tmp_path / 'policy.npz')!r}).probs([[0.1, 0.2]])[0, 0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) == policy.probs([[0.1, 0.2]])[0, 0]


def test_forbidden_actions_are_never_taken() -> None:
    from softrobust.problem import ContinuousProblem
    from softrobust.solvers.continuous.sac.learning import compiled_start
    from softrobust.solvers.continuous.sac.solver import network_policy

    problem = ContinuousProblem(gaussian_problem().models, allowed=[True, False, True])
    plan, world, data = SoftRobustSAC(**TINY).plan(problem)
    assert plan.n_actions == 2
    np.testing.assert_array_equal(data["action_index"], [0, 2])
    state = compiled_start(plan)(np.array([0], np.uint32))
    actor = {k: np.asarray(w)[0] for k, w in state.learner.networks["actor"].items()}
    probs = network_policy(problem, data, actor, plan.degree).probs(np.ones((4, 2)))
    assert (probs[:, 1] == 0.0).all()
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, atol=1e-12)
    # Index 1 among the allowed ones is action 2 of the models.
    from softrobust.solvers.continuous.sac.traced import on_device

    device, key = on_device(data), jax.random.PRNGKey(0)
    s = np.array([[0.5, 1.0]], np.float32)
    drawn = jax.jit(lambda a: world.draw(device, 0, s, a, key, 1))(np.array([1]))
    eps = np.asarray(jax.random.normal(key, (1, 1, 2)))
    models: Any = problem.models
    expected = models.mean(s, [2])[0] + np.sqrt(models.variance(s, [2])[0]) * eps[0]
    np.testing.assert_allclose(np.asarray(drawn)[0], expected, rtol=1e-5)


def test_untraceable_models_are_refused() -> None:
    pull = np.array([0.5, 0.9])
    models = CallableModels(
        lambda s, a, omega, rng: pull[omega][:, None] * s, 2, ["x"], ["off", "on"]
    )
    from softrobust.models.continuous_rewards import LinearReward
    from softrobust.problem import ContinuousProblem

    problem = ContinuousProblem(models, [[1.0]], LinearReward(np.zeros(1), np.ones(1)), 0.9, 5)
    with pytest.raises(InputError, match=r"step must be a function that JAX can trace.*jax\.numpy"):
        SoftRobustSAC(**TINY).solve(problem)

    def branching(s: Any, a: Any, s_next: Any) -> Any:
        return 1.0 if s[0, 0] > 0 else 0.0

    table = random_table()
    with pytest.raises(InputError, match="The reward must be a function that JAX can trace"):
        SAC(**TINY).solve(ContinuousProblem(table.problem().models, np.eye(3), branching, 0.9, 5))


@pytest.mark.parametrize(
    ("setting", "match"),
    [
        ({"iterations": 0}, "iterations must be a whole number"),
        ({"hidden": ()}, "hidden must be a tuple"),
        ({"hidden": (0,)}, "width of hidden"),
        ({"degree": 3}, "degree"),
        ({"q_rate": 0.0}, "q_rate"),
        ({"target_rate": 1.0}, "target_rate"),
        ({"entropy_coef": 0.0}, "entropy_coef"),
        ({"time_limit": -1.0}, "time_limit"),
        ({"seed": -1}, "seed"),
        ({"checkpoint": 3}, "checkpoint"),
    ],
)
def test_settings_are_checked(setting: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        SoftRobustSAC(**setting)


def test_missing_optax_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optax", None)
    with pytest.raises(MissingExtraError, match=r"softrobust\[deep\]"):
        SAC(**TINY).solve(gaussian_problem())
