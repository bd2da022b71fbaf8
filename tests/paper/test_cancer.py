"""Figure 5: statistics, verdicts, files of agents, and the whole of it once, tiny."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softrobust.errors import InputError
from softrobust.models.continuous_policy import NetworkPolicy
from softrobust.objective import cvar
from softrobust.paper import cancer
from softrobust.paper.cancer import Cancer, difference, findings, scores
from softrobust.paper.cancer_sac import Agents, load_agents, main, save_agents, training_problem

SETTINGS = {"lams": [0.25, 0.75, 1.0], "alpha": 0.9, "agents": 3, "n_train": 20, "sac": {}}


def test_scores_agree_with_the_measures() -> None:
    x = np.random.default_rng(0).standard_normal((3, 47))
    f = np.full(47, 1 / 47)
    np.testing.assert_allclose(scores(x, "cvar", 0.9), [cvar(row, f, 0.9) for row in x], rtol=1e-12)
    np.testing.assert_allclose(scores(x, "mean", 0.9), x.mean(axis=1), rtol=1e-12)


def test_intervals_cover_and_count_models_only_when_sampled() -> None:
    """A mean of agents + models: 95 % intervals hold the truth in 91 … 99 % of 400 cases."""
    rng, hits, narrow = np.random.default_rng(1), 0, 0
    for _ in range(400):
        models = rng.standard_normal(60)
        a = 1.0 + models + 0.5 * rng.standard_normal((5, 1))
        b = models + 0.5 * rng.standard_normal((5, 1))
        both = difference(a, b, "mean", 0.9, sampled=True)
        hits += both.low <= 1.0 <= both.high
        alone = difference(a, None, "mean", 0.9, sampled=True)
        fixed = difference(a, None, "mean", 0.9, sampled=False)
        narrow += fixed.high - fixed.low < alone.high - alone.low
    assert 0.91 <= hits / 400 <= 0.99
    assert narrow == 400


def synthetic(levels: dict[str, tuple[float, float]]) -> dict[str, Any]:
    """Returns whose mean and spread over models are as given, by method; 3 agents."""
    rng = np.random.default_rng(2)
    shape = {w: rng.standard_normal(n) for w, n in (("training", 50), ("held-out", 100))}
    shape["true"] = np.zeros(1)
    out: dict[str, Any] = {}
    for name, (mean, spread) in levels.items():
        out[name] = {
            word: {
                "returns": [
                    (mean + spread * (z - z.mean()) + 0.001 * k).tolist() for k in range(3)
                ],
                "clipped": 0.01,
            }
            for word, z in shape.items()
        }
    return out


def test_verdicts_follow_from_the_numbers() -> None:
    sac = {"device": "a device", "jax": "0", "iterations": 1, "curve": {},
           "settings": {"updates": 1, "batch": 1, "next_states": 1, "hidden": [1],
                        "entropy_coef": 1.0}}  # fmt: skip
    runs = [{"status": "iteration_limit"}]
    about = {"srvi 0.25": runs, "rpvi-control": runs, "sr-sac": sac, "r-sac": sac}
    ideal = {
        "srvi 0.25": (5.0, 3.0), "srvi 0.75": (4.5, 2.0), "srvi 1": (4.0, 1.0),
        "rpvi-control": (3.5, 1.0), "sr-sac": (4.0, 4.0), "r-sac": (2.0, 1.0),
        "sr-sac greedy": (4.2, 4.0), "r-sac greedy": (2.2, 1.0),
    }  # fmt: skip
    found = findings(SETTINGS, synthetic(ideal), about)
    assert [str(claim.verdict) for claim in found.claims] == ["held"] * 6
    json.dumps(found.numbers, allow_nan=False)
    assert "a device" in found.remarks[0]
    worse = {**ideal, "srvi 1": (4.6, 3.5), "sr-sac": (6.0, 1.0)}
    verdicts = [str(claim.verdict) for claim in findings(SETTINGS, synthetic(worse), about).claims]
    assert verdicts == ["not held", "not held", "held", "not held", "not held", "not held"]


def some_agents(problem: Any) -> Agents:
    rng = np.random.default_rng(0)
    sizes = (14, 6, 2)
    policies = tuple(
        NetworkPolicy(
            tuple(rng.standard_normal(s).astype(np.float32) for s in pairwise(sizes)),
            tuple(rng.standard_normal(n).astype(np.float32) for n in sizes[1:]),
            problem.variables,
            problem.actions,
            problem.models.scaling.centre[1:5],
            problem.models.scaling.scale[1:5],
            2,
        )
        for _ in range(2)
    )
    curves = {k: np.zeros((2, 4), np.float32) for k in ("returns", "entropy")}
    curves["losses"] = np.zeros((2, 4, 3), np.float32)
    return Agents(policies, curves, {"method": "sr-sac", "device": "x"}, problem.models.weights)


def test_agents_are_saved_as_they_are(tmp_path: Path) -> None:
    problem = training_problem(4, 2)
    agents, file = some_agents(problem), tmp_path / "agents-sr-sac.npz"
    save_agents(file, agents)
    again = load_agents(file, problem)
    assert again.about["device"] == "x"
    s = np.array([[0.0, 7.0, 41.0, 0.0], [2.0, 3.0, 10.0, 20.0]])
    for one, other in zip(agents.policies, again.policies, strict=True):
        np.testing.assert_array_equal(one.probs(s), other.probs(s))
    with pytest.raises(InputError, match="trained on other models"):
        load_agents(file, training_problem(5, 2))


def test_full_run_without_agents_or_accelerator_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cancer, "HOME", Path("nowhere"))
    monkeypatch.setattr(cancer, "_accelerator", lambda: False)
    with pytest.raises(InputError, match=r"agents-sr-sac.npz.*no accelerator.*quick=True"):
        Cancer().tasks(Cancer().settings(quick=False))
    monkeypatch.setattr(cancer, "_accelerator", lambda: True)
    assert len(Cancer().tasks(Cancer().settings(quick=False))) == 4 * 5 + 2 + 1


@pytest.mark.slow
def test_the_whole_experiment_tiny(tmp_path: Path) -> None:
    from softrobust.paper import reproduce

    pytest.importorskip("optax")
    sac = {"iterations": 4, "updates": 1, "batch": 8, "next_states": 2, "hidden": [4], "block": 2}
    tiny = {"n_train": 6, "n_test": 8, "agents": 2, "vi_iterations": 3, "episodes": 2, "sac": sac}
    done = reproduce(Cancer(), tmp_path, quick=True, workers=0, settings=tiny)
    assert not done.failed
    assert {c["verdict"] for c in done.results["claims"]} <= {"held", "not held", "cannot tell"}
    assert (done.out / "figure.svg").stat().st_size > 1000


@pytest.mark.slow
def test_training_script_stops_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("optax")
    out = ["--out", str(tmp_path), "--agents", "1", "--block", "1", "--methods", "r-sac"]
    assert main([*out, "--iterations", "1"]) == 0
    assert main([*out, "--iterations", "2"]) == 2  # a checkpoint is there, and no --resume
    assert main([*out, "--iterations", "2", "--resume"]) == 0
    assert load_agents(tmp_path / "agents-r-sac.npz", training_problem()).about["iterations"] == 2
    assert "r-sac: 2/2" in capsys.readouterr().out
