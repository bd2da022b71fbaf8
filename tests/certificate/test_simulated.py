"""Simulated certificates: bias, the two kinds of noise, coverage, pairs, files."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from softrobust.certificate import Sample, certify, paired_difference, sample_of
from softrobust.certificate.intervals import debias
from softrobust.certificate.record import certificate_of
from softrobust.errors import InputError
from softrobust.models import ConstantPolicy
from softrobust.objective import Objective, Percentile, SoftRobust, cvar
from softrobust.returns import Returns, Simulation, simulate
from tests.continuous_instances import linear_models, linear_problem

OBJECTIVE = SoftRobust(0.5, 0.9)
CVAR = -norm.pdf(norm.ppf(0.1)) / 0.1  # of the standard normal at α = 0.9


def on_models(sim: Simulation, objective: Objective) -> Sample:
    return sample_of(Returns.of(sim), objective, given=True)


def on_posterior(sim: Simulation, objective: Objective) -> Sample:
    return sample_of(Returns.of(sim), objective, given=False)


def toy(
    seed: int, n: int = 400, episodes: int = 20, sd: float = 1.5
) -> tuple[Simulation, NDArray[np.float64]]:
    """Expected returns are standard normal over models, episodes scatter around them."""
    rng = np.random.default_rng(seed)
    mu = rng.standard_normal(n)
    x = mu[:, None] + sd * rng.standard_normal((n, episodes))
    return Simulation(x, np.full(n, 1 / n), 0.0, 0.0, None), mu


def test_intervals_cover_and_the_bias_is_gone() -> None:
    hits: dict[str, list[bool]] = {"mean": [], "cvar": [], "objective": [], "given": []}
    values, raw = [], []
    for seed in range(120):
        sim, mu = toy(seed)
        found = on_posterior(sim, OBJECTIVE)
        for name, truth in (("mean", 0.0), ("cvar", CVAR), ("objective", 0.5 * CVAR)):
            figure = getattr(found, name)
            hits[name].append(figure.low <= truth <= figure.high)
        given = on_models(sim, OBJECTIVE).cvar
        assert given.low is not None
        assert given.high is not None
        hits["given"].append(given.low <= cvar(mu, alpha=0.9) <= given.high)
        values.append(found.cvar.value)
        raw.append(found.cvar.value + (found.cvar.bias or 0.0))
    # 95 % promised; 120 repetitions have a standard error of 2 %, and 20 episodes leave a rest.
    for name, found_hits in hits.items():
        assert np.mean(found_hits) >= 0.90, name
    # Expected: CVaR of N(0, 1 + 2.25/20) less that of N(0, 1), about −0.096; the standard error of
    # a mean of 120 is 0.01.
    assert np.mean(raw) - CVAR < -0.05
    assert abs(np.mean(values) - CVAR) < 0.03


def test_noise_is_taken_apart() -> None:
    sim, _ = toy(0, n=2000, episodes=10)
    found = on_posterior(sim, OBJECTIVE).mean
    assert found.model_se == pytest.approx(1 / np.sqrt(2000), rel=0.1)
    assert found.simulation_se == pytest.approx(1.5 / np.sqrt(20_000), rel=0.1)
    assert found.bias == pytest.approx(0.0, abs=1e-12)  # an average has none
    few = on_posterior(toy(0, n=100)[0], OBJECTIVE)
    assert few.cvar.low is None
    assert few.cvar.simulation_se
    assert few.mean.low is not None


def test_odd_numbers_of_episodes() -> None:
    x = toy(1, n=3000, episodes=9)[0].returns

    def of(z: NDArray[np.float64]) -> float:
        return cvar(z, alpha=0.9)

    # CVaR of N(0, 1 + 2.25/9) less that of N(0, 1).
    bias = of(np.asarray(x.mean(axis=1))) - debias(x, of)
    assert bias == pytest.approx(CVAR * (np.sqrt(1.25) - 1), rel=0.35)
    with pytest.raises(InputError, match="two episodes"):
        on_models(toy(0, episodes=1)[0], OBJECTIVE)


def test_the_whole_certificate_in_words_and_json() -> None:
    problem = linear_problem(n=10, clip=([0.0, 0.0], [0.9, 3.0]), seen=([0.1, 0.1], [0.8, 2.0]))
    policy = ConstantPolicy("on", problem.variables, problem.actions)
    heldout = linear_models(150, seed=5, clip=([0.0, 0.0], [0.9, 3.0]))
    found = certify(problem, policy, heldout, episodes=10, seed=2)
    assert found.sample.simulation is not None
    assert found.sample.simulation.episodes == 10
    assert found.sample.simulation.clipped > 0
    assert found.sample.simulation.outside
    record = found.to_dict()
    goal = problem.objective
    kind = {"kind": "continuous", "criterion": goal.criterion, "lam": goal.lam, "alpha": goal.alpha}
    assert certificate_of(record | kind) == found
    assert record["heldout"]["cvar"]["low"] < record["heldout"]["cvar"]["high"]
    assert record["optimism"] == pytest.approx(
        record["train"]["objective"]["value"] - record["heldout"]["objective"]["value"]
    )
    assert found.heldout is not None
    assert found.heldout.objective.model_se is not None
    assert found.heldout.lower_bound is not None
    assert found.heldout.lower_bound.low is not None
    assert found.heldout.lower_bound.low < found.sample.objective.value + 1
    assert found.gap_share is None  # nothing is proven of the best policy
    assert not found.nothing_better
    alone = certify(problem, policy, episodes=5)
    assert alone.to_dict()["heldout"] is None
    few = certify(problem, policy, linear_models(20, seed=5), episodes=5)
    assert few.heldout is not None
    assert few.heldout.cvar.low is None
    with pytest.raises(InputError, match="nothing bounds the best policy"):
        certify(problem, policy, indicative=True)


def test_pairs_share_their_luck() -> None:
    problem = linear_problem(n=300, noise=0.3)
    a, b = (
        simulate(problem, ConstantPolicy(name, problem.variables, problem.actions), episodes=20)
        for name in ("on", "off")
    )
    gain = paired_difference(a, b, problem.objective)
    assert gain.low is not None
    assert gain.high is not None
    alone = [on_posterior(x, problem.objective).objective for x in (a, b)]
    assert gain.value == pytest.approx(alone[0].value - alone[1].value, abs=1e-9)
    assert gain.simulation_se is not None
    assert gain.simulation_se < np.hypot(alone[0].simulation_se, alone[1].simulation_se)  # type: ignore[arg-type]
    mean = SoftRobust(0.0, 0.9)  # no tails, whose models differ between policies
    each = [on_posterior(x, mean).objective.simulation_se for x in (a, b)]
    apart = paired_difference(a, b, mean).simulation_se
    assert apart is not None
    assert apart < 0.2 * np.hypot(each[0], each[1])  # type: ignore[arg-type]
    assert paired_difference(a, a, problem.objective).value == 0.0
    with pytest.raises(InputError, match="same models and episodes"):
        paired_difference(a, simulate(problem, lambda s, rng: np.zeros(len(s), int), episodes=3),
                          problem.objective)  # fmt: skip


def test_the_percentile_has_no_interval_of_this_kind() -> None:
    found = on_posterior(toy(0)[0], Percentile(0.9))
    assert found.objective.low is None
    assert found.objective.value == pytest.approx(norm.ppf(0.1), abs=0.25)
