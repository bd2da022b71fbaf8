"""Figure 5: verdicts, files of agents, choices on training models, and all of it once, tiny."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softrobust.errors import InputError
from softrobust.paper import cancer
from softrobust.paper.cancer import Cancer, findings, sac_logs
from softrobust.paper.cancer_sac import Agents, load_agents, main, problem_of, save_agents

SAC = {
    "iterations": 4, "updates": 1, "batch": 8, "next_states": 2, "hidden": [4], "block": 2,
    "temperatures": [1.0, 0.1], "rates": [0.003], "target_rate": 0.05, "memory": 2,
}  # fmt: skip
SETTINGS: dict[str, Any] = {
    "seeds": [0, 1, 2, 3], "lams": [0.0, 0.25, 0.75, 1.0], "alpha": 0.9, "n_train": 4, "n_test": 4,
    "episodes": 2, "seed": 0, "trained": True, "sac": SAC,
    "variants": {"": {}, "damped": {}, cancer.MORE_DATA: {"logs": 2}},
}  # fmt: skip


def measured(mean: float, spread: float, k: int) -> dict[str, Any]:
    """The figures of one log; `k` shifts all of a log alike."""
    words = {"training": 0.0, "held-out": 0.01, "true": -1.0}
    return {
        w: {"mean": mean + x + 0.001 * k, "cvar": mean - spread + x + 0.001 * k, "edge": 0.0}
        for w, x in words.items()
    }


def made_up(levels: dict[str, tuple[float, float]]) -> dict[str, Any]:
    logs = range(len(SETTINGS["seeds"]))
    main = {name: [measured(*at, k) for k in logs] for name, at in levels.items()}
    status = {"status": "iteration_limit", "iterations": 1}
    for name in main:
        if name.startswith(("srvi", "rpvi")):
            main[name] = [{**x, "about": status} for x in main[name]]
    srvi = [name for name in main if name.startswith("srvi")]
    runs = [{name: main[name][k] for name in srvi} for k in logs]
    about = {"device": "a device", "jax": "0", "iterations": 1}
    chosen = {"setting": [0.1, 0.003, "greedy"]}
    rivals = {
        m: {"logs": [{w: {**chosen, **main[f"{m} {w}"][k]} for w in ("table", "mean", "cvar")}
                     for k in logs], "about": about, "curves": []}
        for m in ("sr-sac", "r-sac")
    }  # fmt: skip
    every = {"": rivals, "damped": rivals}  # a variant with rivals is judged like the figure
    variants = {"": runs, "damped": runs, cancer.MORE_DATA: runs[:2]}
    found = findings(SETTINGS, main, variants, every)
    json.dumps(found.numbers, allow_nan=False)
    assert "a device" in found.remarks[0]
    assert "same 2 logs: 1.01 [1.01, 1.01] with 600" in found.remarks[-1]
    assert Cancer().draw(found.numbers).axes
    return {c.text: [str(d.verdict) for d in found.claims if d.text == c.text]
            for c in found.claims}  # fmt: skip


IDEAL = {
    "srvi 0": (5.5, 9.0), "srvi 0.25": (5.0, 5.0), "srvi 0.75": (4.5, 3.0), "srvi 1": (4.0, 1.0),
    "rpvi-control": (3.5, 1.0), "never treat": (-20.0, 60.0), "always treat": (-6.0, 1.0),
    "sr-sac table": (-2.0, 30.0), "sr-sac mean": (4.0, 4.0), "sr-sac cvar": (3.0, 2.0),
    "r-sac table": (1.0, 1.0), "r-sac mean": (3.0, 1.0), "r-sac cvar": (2.5, 0.5),
}  # fmt: skip


def test_verdicts_follow_from_the_numbers() -> None:
    assert {v for found in made_up(IDEAL).values() for v in found} == {"held"}
    # A rival whose tuned CVaR is higher contradicts the claim on tuned rivals, not on the table's.
    verdicts = made_up({**IDEAL, "r-sac cvar": (4.0, 0.5)})
    tuned = next(found for text, found in verdicts.items() if "all of them tuned" in text)
    table = next(found for text, found in verdicts.items() if "table's temperature" in text)
    assert (tuned, table) == (["not held"] * 4, ["held"] * 4)
    verdicts = made_up({**IDEAL, "srvi 0": (3.0, 5.0)})
    assert next(found for text, found in verdicts.items() if "λ = 0" in text) == ["not held"]


def test_a_return_beyond_sense_counts_as_run_away() -> None:
    def run(mean: float) -> dict[str, Any]:
        one = {"mean": mean, "cvar": 1.0}
        return {**dict.fromkeys(("training", "held-out", "true"), one), "about": {"status": "x"}}

    logs = [{"srvi 1": run(4.0)}, {"srvi 1": run(2e13)}, {"srvi 1": {"failed": "left"}}]
    found = cancer._variant(logs)["srvi 1"]
    assert found["held-out"] == [4.0, None, None]
    assert found["failed"] == [None, "A mean return of 2e+13 over models.", "left"]


def some_agents(seeds: list[int]) -> Agents:
    """Two settings: one never treats, the other does as it likes."""
    rng, shape = np.random.default_rng(0), (2, len(seeds))
    drawn: list[Any] = [problem_of(seed, 4, 4)[0].models for seed in seeds]
    layers = [rng.standard_normal((*shape, 14, 2)), np.zeros((*shape, 2))]
    layers[0][0], layers[1][0, :, 0] = 0.0, 9.0
    scaling = np.array([[m.scaling.centre[1:5], m.scaling.scale[1:5]] for m in drawn])
    models = np.array([m.weights.mean(axis=0) for m in drawn])
    halves = tuple(x.astype(np.float16) for x in layers)
    return Agents(halves, scaling, np.zeros((*shape, 3), np.float32), models, {"device": "x"})


def test_agents_are_kept_and_chosen_on_training_models(tmp_path: Path) -> None:
    seeds, file = [0, 1], tmp_path / "agents-r-sac.npz"
    agents = some_agents(seeds)
    save_agents(file, agents)
    again = load_agents(file)
    assert again.about == {"device": "x"}
    problem = problem_of(0, 4, 4)[0]
    s = np.array([[0.0, 7.0, 41.0, 0.0], [2.0, 3.0, 10.0, 20.0]])
    one, other = (a.policy(problem, 1, 0) for a in (agents, again))
    assert one is not None
    assert other is not None
    np.testing.assert_array_equal(one.probs(s), other.probs(s))
    settings = {**SETTINGS, "seeds": seeds, "sac": {**SAC, "temperatures": [1.0, 0.1]}}
    found = sac_logs("r-sac", settings, agents=file)
    for log in found["logs"]:
        for m in ("mean", "cvar"):
            assert log[m]["training"][m] >= log["table"]["training"][m]
    with pytest.raises(InputError, match="other models"):
        sac_logs("r-sac", {**settings, "seeds": [3, 4]}, agents=file)


def test_agents_of_later_logs_come_after_the_first() -> None:
    whole, first, later = (some_agents(seeds) for seeds in ([0, 1], [0], [1]))
    for agents, n in ((first, 5), (later, 3)):
        agents.about["iterations"] = n
    both = first.beside(later)
    assert (both.n_logs, both.about["iterations"]) == (2, 3)
    np.testing.assert_array_equal(both.models, whole.models)
    assert [x.shape for x in both.layers] == [x.shape for x in whole.layers]
    assert both.curves.shape == whole.curves.shape


def test_an_agent_beyond_the_numbers_is_none() -> None:
    agents = some_agents([0])
    agents.layers[0][1, 0, 0, 0] = np.inf
    problem = problem_of(0, 4, 4)[0]
    assert agents.policy(problem, 1, 0) is None
    assert agents.policy(problem, 0, 0) is not None


def test_full_run_without_agents_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = Cancer().settings(quick=False)
    assert len(settings["seeds"]) >= 20
    logs = [own.get("logs", len(settings["seeds"])) for own in settings["variants"].values()]
    assert len(Cancer().tasks(settings)) == sum(logs) + 2 * (20 + 20)  # two rivals, in two variants
    monkeypatch.setattr(cancer, "HOME", Path("nowhere"))
    with pytest.raises(InputError, match=r"agents-sr-sac.npz.*quick=True.*an accelerator"):
        Cancer().tasks(settings)


@pytest.mark.slow
def test_the_whole_experiment_tiny(tmp_path: Path) -> None:
    from softrobust.paper import reproduce

    pytest.importorskip("optax")
    short = {"solver": {"iterations": 3}}
    variants = {
        "": {},
        "damped": {"solver": {"iterations": 3, "damp_after": 1}},
        "without the box": {"domain": {"boxed": False}, "logs": 1, **short},
    }
    tiny = {"n_train": 6, "n_test": 8, "episodes": 2, "sac": SAC, "seeds": [0, 1]}
    tiny |= {"variants": variants}
    done = reproduce(Cancer(), tmp_path, quick=True, workers=0, settings=tiny)
    assert not done.failed
    assert {c["verdict"] for c in done.results["claims"]} <= {"held", "not held", "cannot tell"}
    assert (done.out / "figure.svg").stat().st_size > 1000


@pytest.mark.slow
def test_training_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("optax")
    out = ["--out", str(tmp_path), "--methods", "r-sac", "--logs", "1", "--iterations", "1"]
    assert main(out) == 0
    agents = load_agents(tmp_path / "agents-r-sac.npz")
    assert agents.policy(problem_of(0, 50, 100)[0], 5, 0) is not None
    assert "r-sac: 1" in capsys.readouterr().out
    out[5] = "2"  # agents that are there stay as they are
    assert main(out) == 0
    both = load_agents(tmp_path / "agents-r-sac.npz")
    assert both.n_logs == 2
    for old, new in zip(agents.layers, both.layers, strict=True):
        np.testing.assert_array_equal(old, new[:, :1])
    with pytest.raises(InputError, match="other settings"):
        main([*out[:-1], "2"])
