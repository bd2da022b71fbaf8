"""Curves over λ: tiny runs from logs to files, and the comparisons on made-up numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softrobust.paper.claims import Verdict
from softrobust.paper.methods import MEASURES, MODELS, Curves
from softrobust.paper.page import FILES, read_results
from softrobust.paper.pest_density import POLICIES, PestDensity
from softrobust.paper.reproduce import reproduce
from softrobust.paper.tradeoff import Tradeoff

TINY: dict[str, Any] = {
    "seeds": [0, 1],
    "lams": [0.0, 0.75, 1.0],
    "n_train": 20,
    "n_test": 20,
    "nodes": 0,
}


def made_up(methods: dict[str, tuple[float, float]], lams: list[float]) -> Curves:
    """Methods with (mean, CVaR) at λ = 0; λ takes 2·λ off the mean and adds λ to the CVaR."""
    rng = np.random.default_rng(0)
    common = rng.normal(0, 50, size=(12, 1))  # what logs share cancels in differences
    values = {}
    step = np.asarray(lams)
    for name, at in methods.items():
        for models in MODELS:
            for measure, base, slope in zip(MEASURES, at, (-2.0, 1.0), strict=True):
                noise = rng.normal(0, 0.05, size=(12, len(lams)))
                values[name, models, measure] = common + base + slope * step + noise
    return Curves(
        tuple(range(12)),
        {name: list(lams) for name in methods},
        values,
        dict.fromkeys(MODELS, 100.0),
    )


def test_comparisons_both_ways() -> None:
    lams = [0.0, 0.75, 1.0]
    curves = made_up({"s-rect": (10, 5), "bcr": (4, 2), "rsvf": (10.1, 5.1), "var": (10, 5)}, lams)
    assert curves.higher("s-rect", "bcr", "training").verdict is Verdict.HELD
    assert curves.higher("bcr", "s-rect", "held-out").verdict is Verdict.NOT_HELD
    assert curves.higher("s-rect", "var", "training").verdict is Verdict.CANNOT_TELL
    assert curves.rises("s-rect", "cvar", "training").verdict is Verdict.HELD
    assert curves.falls("s-rect", "mean", "training").verdict is Verdict.HELD
    assert curves.rises("s-rect", "mean", "training").verdict is Verdict.NOT_HELD
    assert curves.better_at("s-rect", 1.0, "bcr", 1.0, "cvar", "held-out").verdict is Verdict.HELD
    far = curves.far_better_at("s-rect", 1.0, "bcr", 1.0, "cvar", "held-out")
    assert far.verdict is Verdict.NOT_HELD  # by 3, and 5 % of 100 was asked
    assert curves.at_less_best("s-rect", 1.0, "rsvf", "training").verdict is Verdict.NOT_HELD
    assert curves.comparable("s-rect", "rsvf", "training").verdict is Verdict.HELD
    assert curves.comparable("s-rect", "bcr", "training").verdict is Verdict.NOT_HELD


def test_height_chooses_lambda_on_the_training_models() -> None:
    curves = made_up({"s-rect": (10, 5)}, [0.0, 1.0])
    # Held-out numbers in which the other λ would be better must not be looked at.
    curves.values["s-rect", "held-out", "mean"][:, 1] += 1000.0
    assert (curves.score("s-rect", 0.0, "held-out") < 900).all()


def test_riverswim(tmp_path: Path) -> None:
    one = {"as the text reads": {"variant": "paper", "prior": "independent", "n_states": 6}}
    settings = TINY | {"variants": one}
    done = reproduce(Tradeoff("riverswim"), tmp_path, workers=0, settings=settings, progress=False)
    assert not done.failed
    assert {p.name for p in done.out.iterdir()} == {*FILES, "page.md", "tasks"}
    results = read_results(done.out / "results.json")
    assert len(results["claims"]) == 8
    points = results["numbers"]["variants"]["as the text reads"]["points"]
    nominal = points["nominal"][0]["training"]["mean"]["value"]
    # At λ = 0 the dynamic methods, BCR and the simple RSVF are nominal.
    for name in ("s-rect", "sa-rect", "bcr", "bcr-paper", "rsvf-simple"):
        assert points[name][0]["training"]["mean"]["value"] == pytest.approx(nominal, rel=1e-6)
    # Among deterministic policies the static optimum is best on the training models.
    for k in range(3):
        lam = TINY["lams"][k]
        best = (1 - lam) * points["static"][k]["training"]["mean"]["value"]
        best += lam * points["static"][k]["training"]["cvar"]["value"]
        own = (1 - lam) * points["bcr"][k]["training"]["mean"]["value"]
        own += lam * points["bcr"][k]["training"]["cvar"]["value"]
        assert best >= own - 1e-9
    svg = (done.out / "figure.svg").read_text()
    assert ">.75<" in svg or ".75–1" in svg  # λ beside the points


def test_inventory(tmp_path: Path) -> None:
    small = {"": {"capacity": 6, "max_order": 4, "max_demand": 12, "mean_demand": 3.0, "steps": 8}}
    settings = TINY | {"variants": small}
    done = reproduce(Tradeoff("inventory"), tmp_path, workers=0, settings=settings, progress=False)
    assert not done.failed
    assert len(done.results["claims"]) == 10
    heads = {t["title"] for t in done.results["tables"]}
    assert any(title.startswith("Height of each curve") for title in heads)


def pest_results(gap: float) -> dict[str, Any]:
    """Made-up returns of three logs: the nominal policy is `gap` above BCR, the static between."""
    rng = np.random.default_rng(3)
    shift = {"static": 0.5 * gap, "bcr": 0.0, "bcr-paper": 0.1 * gap, "nominal": gap}
    out = {}
    for seed in (0, 1, 2):
        z = rng.normal(1000.0, 200.0, size=40)
        returns = {
            name: {m: (z + shift[name] + rng.normal(0, 1, 40)).tolist() for m in MODELS}
            for name in POLICIES
        }
        out[f"pest-density-seed{seed:03d}"] = {
            "seed": seed, "scale": dict.fromkeys(MODELS, 1000.0), "returns": returns,
        }  # fmt: skip
    return out


def test_pest_density_verdicts() -> None:
    experiment = PestDensity()
    settings = experiment.settings(quick=True)
    found = experiment.gather(settings, pest_results(500.0))
    verdict = {c.text: c.verdict for c in found.claims if c.models == "training"}
    assert verdict["The nominal policy has the highest mean of the three."] is Verdict.HELD
    assert verdict["BCR degrades the mean."] is Verdict.HELD
    assert verdict["BCR is more robust than the nominal policy."] is Verdict.NOT_HELD
    losing = "The nominal policy loses over 5 000 dollars with a significant probability."
    assert verdict[losing] is Verdict.NOT_HELD
    found = experiment.gather(settings, pest_results(-500.0))
    verdict = {c.text: c.verdict for c in found.claims if c.models == "held-out"}
    assert verdict["The nominal policy has the highest mean of the three."] is Verdict.NOT_HELD
    assert verdict["BCR is more robust than the nominal policy."] is Verdict.HELD
    assert experiment.draw(found.numbers).axes


@pytest.mark.slow
def test_pest(tmp_path: Path) -> None:
    nuts = {"chains": 4, "warmup": 500, "draws": 500}
    settings = TINY | {"variants": {"": nuts}}
    done = reproduce(
        Tradeoff("pest-frontier"), tmp_path, workers=0, settings=settings, progress=False
    )
    assert not done.failed
    assert len(done.results["claims"]) == 8
    settings = {"seeds": [0, 1], "nuts": nuts, "nodes": 0}
    done = reproduce(PestDensity(), tmp_path, workers=0, settings=settings, progress=False)
    assert not done.failed
    assert len(done.results["numbers"]["logs"][0]["returns"]["bcr"]["held-out"]) == 100
