"""Tables and verdicts of figure 5 from the returns x[agent, model] of every method.

Two sources of noise are kept apart. Agents differ by their seeds: a difference of two methods has
the variance s²_A/n + s²_B/n of their averages. Held-out models are a sample of the posterior, drawn
once for all methods: their part (with that of the simulated episodes) comes from a bootstrap over
models, the same models for both methods. On training models the claim is about those models alone.
The half width of an interval is √((t·s_agents)² + (z·s_models)²): Student's t for n agents with
n − 1 degrees of freedom, the normal z for the many models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust.paper.base import Findings
from softrobust.paper.claims import LEVEL, Claim, Interval, Measured, more
from softrobust.paper.tables import Table

Returns = Mapping[str, Mapping[str, FloatArray]]  # (n_agents, n_models) by method and models
WORDS = ("training", "held-out")
MEASURES = ("mean", "cvar")
RESAMPLES = 1000
MARGIN = 0.05  # of return: about 1 % of what treating well earns
SECTION = "section 6, figure 5"
LABELS = {
    "rpvi-control": "worst-model value iteration",
    "sr-sac": "SR-SAC",
    "r-sac": "R-SAC",
    "sr-sac greedy": "SR-SAC, greedy",
    "r-sac greedy": "R-SAC, greedy",
}


def label(name: str) -> str:
    """A method in words."""
    return LABELS.get(name, f"SRVI, λ = {name[5:]}" if name.startswith("srvi") else name)


def scores(x: FloatArray, measure: str, alpha: float) -> FloatArray:
    """(n_agents,) mean or CVaR over the last axis of x (…, n_models), models equally likely.

    CVaR at α averages the worst (1 − α)·n models; a fraction of a model counts as a fraction.
    """
    if measure == "mean":
        return np.asarray(x.mean(axis=-1))
    n = x.shape[-1]
    tail = (1.0 - alpha) * n
    weight = np.clip(tail - np.arange(n), 0.0, 1.0) / tail
    return np.asarray(np.sort(x, axis=-1) @ weight)


def difference(
    a: FloatArray, b: FloatArray | None, measure: str, alpha: float, sampled: bool
) -> Interval:
    """Interval of score(a) − score(b) (of score(a) alone without b); x is (n_agents, n_models)."""
    from scipy.stats import norm
    from scipy.stats import t as student

    parts = [a] if b is None else [a, b]
    own = [scores(x, measure, alpha) for x in parts]
    value = float(own[0].mean() - (own[1].mean() if b is not None else 0.0))
    n = min(x.shape[0] for x in parts)
    if n < 2:
        return Interval(value, -np.inf, np.inf, n)
    upper = (1 + LEVEL) / 2
    square = student.ppf(upper, n - 1) ** 2 * sum(float(x.var(ddof=1)) / x.size for x in own)
    if sampled:
        square += norm.ppf(upper) ** 2 * _model_variance(parts, measure, alpha)
    half = float(square) ** 0.5
    return Interval(value, value - half, value + half, n)


def _model_variance(parts: Sequence[FloatArray], measure: str, alpha: float) -> float:
    """Of the score, or difference of scores, over resampled models; the same for both methods."""
    n = parts[0].shape[1]
    rows = np.random.default_rng(n).integers(0, n, (RESAMPLES, n))
    values = [scores(x[:, rows], measure, alpha).mean(axis=0) for x in parts]
    return float(np.var(values[0] - (values[1] if len(values) == 2 else 0.0), ddof=1))


def findings(
    settings: Mapping[str, Any], returns: Mapping[str, Any], about: Mapping[str, Any]
) -> Findings:
    """Numbers, tables, claims and remarks."""
    alpha = settings["alpha"]
    x = {
        name: {word: np.array(found[word]["returns"]) for word in found}
        for name, found in returns.items()
    }
    numbers = {
        "alpha": alpha,
        "lams": list(settings["lams"]),
        "scores": {
            name: {
                word: {m: scores(x[name][word], m, alpha).tolist() for m in MEASURES}
                for word in WORDS
            }
            | {"true": {"mean": x[name]["true"].mean(axis=1).tolist()}}
            for name in x
        },
        "clipped": {
            name: {word: found[word]["clipped"] for word in found}
            for name, found in returns.items()
        },
        # Averages over agents, by method and kind of models: (n_models,) each.
        "model_returns": {
            name: {w: found[w].mean(axis=0).tolist() for w in WORDS} for name, found in x.items()
        },
        "training": dict(about),
    }
    return Findings(
        numbers, [_table(x, alpha, returns)], _claims(x, settings), _remarks(settings, about, x)
    )


def _table(x: Returns, alpha: float, returns: Mapping[str, Any]) -> Table:
    rows = []
    for name, found in x.items():
        cells: list[Any] = [label(name)]
        for word in WORDS:
            for measure in MEASURES:
                cells.append(difference(found[word], None, measure, alpha, word == "held-out"))
        cells.append(float(found["true"].mean()))
        cells.append(f"{100 * returns[name]['held-out']['clipped']:.1f} %")
        rows.append(cells)
    agents = max(found["training"].shape[0] for found in x.values())
    return Table.of(
        f"Mean and CVaR at α = {alpha:g} (the worst {100 * (1 - alpha):g} % of models)",
        f"{agents} agents of each method, 95 % intervals; those on held-out models count the "
        "choice of models, too. Last columns: the return in the simulator itself, and the share of "
        "steps on held-out models that ended at the edge of what is possible.",
        ["method", *(f"{word} {m}" for word in WORDS for m in ("mean", "CVaR")), "true mean",
         "at the edge"],
        rows,
    )  # fmt: skip


def _claims(x: Returns, settings: Mapping[str, Any]) -> list[Claim]:
    alpha, lams = settings["alpha"], settings["lams"]
    rule = f"the 95 % interval of every difference lies above {MARGIN:g}"

    def step(word: str, measure: str, better: float, worse: float) -> Measured:
        a, b = (x[f"srvi {lam:g}"][word] for lam in (better, worse))
        interval = difference(a, b, measure, alpha, word == "held-out")
        return more(f"{measure}, λ = {better:g} less λ = {worse:g}", interval, MARGIN)

    def against(word: str, form: str) -> tuple[Measured, ...]:
        out = []
        for measure in MEASURES:
            best = _chosen(x, lams, measure, alpha)
            for rival in ("sr-sac", "r-sac"):
                interval = difference(
                    x[best][word], x[rival + form][word], measure, alpha, word == "held-out"
                )
                what = f"{measure}, {label(best)} less {label(rival + form)}"
                out.append(more(what, interval, MARGIN))
        return tuple(out)

    pairs = list(pairwise(lams))
    up = {w: tuple(step(w, "cvar", high, low) for low, high in pairs) for w in WORDS}
    down = {w: tuple(step(w, "mean", low, high) for low, high in pairs) for w in WORDS}
    chosen = "λ chosen on the training models, for the mean and for the CVaR; "
    return [
        *(
            Claim("SRVI with a suitable λ beats SR-SAC and R-SAC in mean and in CVaR.", SECTION,
                  word, chosen + rule, against(word, ""))
            for word in WORDS
        ),
        Claim("The same against the actor-critics' most probable actions (not in the paper).",
              "beyond the paper", "held-out", chosen + rule, against("held-out", " greedy")),
        Claim("SRVI's robust return improves with λ.", SECTION, "training", rule, up["training"]),
        Claim("SRVI's mean return improves as λ falls.", SECTION, "training", rule,
              down["training"]),
        Claim("Both trends hold on held-out models, too (the paper: they do not quite).", SECTION,
              "held-out", rule, (*up["held-out"], *down["held-out"])),
    ]  # fmt: skip


def _chosen(x: Returns, lams: Sequence[float], measure: str, alpha: float) -> str:
    """The λ of SRVI that is best on training models."""
    names = [f"srvi {lam:g}" for lam in lams]
    return max(names, key=lambda name: scores(x[name]["training"], measure, alpha).mean())


def _remarks(settings: Mapping[str, Any], about: Mapping[str, Any], x: Returns) -> list[str]:
    sac = about["sr-sac"]
    found = sac["settings"]
    size = (
        f"{sac['iterations']} iterations of {found['updates']} updates on {found['batch']} × "
        f"{settings['n_train']} × {found['next_states']} next states, hidden layers "
        f"{tuple(found['hidden'])}, temperature {found['entropy_coef']:g}"
    )
    made = f"The actor-critics were trained on: {sac['device']} (JAX {sac['jax']}); {size}."
    if settings["sac"]:
        made += " These are not the paper's sizes: a quick run shows that all parts work, no more."
    iterated = [runs for name, runs in about.items() if name not in ("sr-sac", "r-sac")]
    statuses = [run["status"] for runs in iterated for run in runs]
    wild = {name: float(found["held-out"].min()) for name, found in x.items()}
    worst = min(wild, key=lambda name: wild[name])
    return [
        made,
        f"{statuses.count('tolerance_reached')} of {len(statuses)} runs of value iteration settled "
        "within the tolerance; the others ended at their iteration limit (no theorem says that "
        "they settle).",
        "The text of the paper has 100 training and 50 test draws, its tables 50 and 100: the "
        "tables are followed.",
        f"The worst single held-out model of any policy: {wild[worst]:.3g} ({label(worst)}).",
    ]
