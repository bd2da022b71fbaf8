"""Tables and verdicts of `truth`, from lists over pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softrobust.experiments.claims import Claim, Measured, Verdict, more
from softrobust.experiments.intervals import (
    LEVEL,
    Interval,
    bootstrap_interval,
    mean_interval,
    share_interval,
)
from softrobust.experiments.promises import Promise, promises
from softrobust.experiments.tables import Table
from softrobust.experiments.worlds import WORLDS
from softrobust.objective import cvar

FloatArray = NDArray[np.float64]
Worlds = Mapping[str, Mapping[str, Any]]
WHERE = "beyond the paper"
WORST = 0.9  # the worst tenth of the pairs
LABELS = {
    "nominal": "nominal (mean model)",
    "empirical": "empirical",
    "static@0": "static, λ = 0",
    "static@0.5": "static, λ = ½",
    "static@1": "static, λ = 1",
    "s-rect@0.5": "SRVI, λ = ½",
    "s-rect@1": "SRVI, λ = 1",
    "sa-rect@1": "SA-rectangular, λ = 1",
    "bcr": "BCR",
    "rsvf": "RSVF",
    "rsvf-simple": "RSVF, simple form",
    "var": "VaR-Bellman",
    "worst-model": "worst model",
    "spibb": "SPIBB",
}
SLACK = 0.1  # how far below its level the share may still be, for a promise to count as kept
KEPT = (
    "exact binomial interval of the share of pairs, at 95 % for all {n} comparisons together "
    "(Bonferroni): not held if it lies below the promised probability, held if it reaches no lower "
    "than 0.1 below it, else one cannot tell"
)
LESS = "the 95 % interval over pairs of the difference lies above 0"
OURS = {
    "static@0.5": "The static policy (λ = ½)",
    "static@1": "The static policy (λ = 1)",
    "s-rect@0.5": "SRVI (λ = ½)",
    "s-rect@1": "SRVI (λ = 1)",
}


def worst_regret(x: FloatArray) -> float:
    """The average of the largest tenth."""
    return -cvar(-x, None, WORST)


def worst_interval(regret: FloatArray) -> Interval:
    """With a bootstrap over pairs."""
    return bootstrap_interval(regret, worst_regret)


def coverage(world: Mapping[str, Any], promise: Promise, level: float = LEVEL) -> Interval:
    """How often a promise came true."""
    bits = [int(x) for x in world["kept"][promise.key]]
    return share_interval(sum(bits), len(bits), level)


def strict_level(said: Sequence[Promise], worlds: Iterable[str]) -> float:
    """Level of one interval among many: 95 % that none of the exact worlds' misses by chance.

    Some forty intervals are looked at; at 95 % each, one or two would lie beside the truth.
    """
    n = sum(p.level is not None for p in said) * sum(WORLDS[name].exact for name in worlds)
    return 1 - (1 - LEVEL) / max(n, 1)


def tables(worlds: Worlds, made: Mapping[str, Any]) -> list[Table]:
    """For each world, what the methods earn; and for all worlds, which promises are kept."""
    out = [_returns(name, world) for name, world in worlds.items()]
    return [*out, _kept(worlds, made)]


def _returns(name: str, world: Mapping[str, Any]) -> Table:
    best = np.asarray(world["best"])
    base = best - np.asarray(world["true"]["nominal"])
    rows = []
    for method, label in LABELS.items():
        true = np.asarray(world["true"][method])
        regret = best - true
        less = None if method == "nominal" else mean_interval(base - regret)
        rows.append([
            label, float(true.mean()), cvar(true, None, WORST), mean_interval(regret),
            worst_interval(regret), less,
        ])  # fmt: skip
    return Table.of(
        f"True return and regret: {WORLDS[name].words}",
        f"{best.size} pairs; the true optimum is {best.mean():.4g} on average. Regret: optimum "
        "less true return; worst tenth: the average over the tenth of the pairs where it is worst.",
        ["method", "true return", "worst tenth", "regret", "regret, worst tenth",
         "regret saved over nominal"],
        rows,
    )  # fmt: skip


def _kept(worlds: Worlds, made: Mapping[str, Any]) -> Table:
    rows = []
    for promise in promises(made["alpha"], made["n_train"], made["n_test"]):
        level = None if promise.level is None else round(promise.level, 4)
        shares = [coverage(world, promise) for world in worlds.values()]
        rows.append([promise.words, level, *shares])
    return Table.of(
        "How often each promise came true",
        "Share of pairs with its exact binomial 95 % interval; – : the method gives a number "
        "without a probability. Promised probabilities are at least, those of held-out quantiles "
        "exactly, what is said.",
        ["promise", "promised", *(WORLDS[name].words for name in worlds)],
        rows,
    )


def claims(worlds: Worlds, made: Mapping[str, Any]) -> list[Claim]:
    """Promises kept in every world with an exact posterior; returns and regret against nominal."""
    exact = {name: w for name, w in worlds.items() if WORLDS[name].exact}
    said = promises(made["alpha"], made["n_train"], made["n_test"])
    strict = strict_level(said, worlds)
    out = [
        _kept_claim(promise, promise.level, exact, strict)
        for promise in said
        if promise.level is not None
    ]
    for method, words in OURS.items():
        out += [
            Claim(f"{words} earns more than nominal in the worst tenth of the pairs.",
                  WHERE, "true", LESS,
                  tuple(_earned(exact[name], method, WORLDS[name].words) for name in exact)),
            Claim(f"{words} regrets less than nominal in the worst tenth of the pairs.",
                  WHERE, "true", LESS,
                  tuple(_saved(exact[name], method, WORLDS[name].words) for name in exact)),
        ]  # fmt: skip
    return out


def _kept_claim(promise: Promise, level: float, exact: Worlds, strict: float) -> Claim:
    parts = []
    for name, world in exact.items():
        i = coverage(world, promise, strict)
        verdict = Verdict.HELD if i.low >= level - SLACK else Verdict.CANNOT_TELL
        if i.high < level:
            verdict = Verdict.NOT_HELD
        parts.append(Measured(f"share, {WORLDS[name].words}", i, level, verdict))
    n = round((1 - LEVEL) / (1 - strict))
    text = f"The promise “{promise.words}” holds as often as it says ({level:.3g})."
    return Claim(text, WHERE, "true", KEPT.format(n=n), tuple(parts))


def _earned(world: Mapping[str, Any], method: str, words: str) -> Measured:
    """True return of a method less that of nominal, each in its own worst tenth of the pairs."""
    both = np.column_stack([np.asarray(world["true"][m]) for m in (method, "nominal")])
    i = bootstrap_interval(both, lambda x: cvar(x[:, 0], None, WORST) - cvar(x[:, 1], None, WORST))
    return more(f"more earned in the worst tenth, {words}", i)


def _saved(world: Mapping[str, Any], method: str, words: str) -> Measured:
    """Regret of nominal less that of a method, each in its own worst tenth of the pairs."""
    best = np.asarray(world["best"])
    both = np.column_stack([best - np.asarray(world["true"][m]) for m in ("nominal", method)])
    i = bootstrap_interval(both, lambda x: worst_regret(x[:, 0]) - worst_regret(x[:, 1]))
    return more(f"regret saved in the worst tenth, {words}", i)


def remarks(worlds: Worlds, made: Mapping[str, Any]) -> list[str]:
    """Where the posterior is not exact, and which bounds are kept but say little."""
    out = []
    every = promises(made["alpha"], made["n_train"], made["n_test"])
    strict = strict_level(every, worlds)
    for name, world in worlds.items():
        if WORLDS[name].exact:
            continue
        broken = [
            p.words
            for p in every
            if p.level is not None and coverage(world, p, strict).high < p.level
        ]
        words = "; ".join(broken) if broken else "none, within binomial error"
        out.append(
            f"{WORLDS[name].words} has no exact posterior, so its promises need not hold. Broken: "
            f"{words}."
        )
    own = [p for p in every if p.kind == "own" and p.level is not None]
    far = [
        f"{p.method} {np.mean([w['short'][p.key] / _scale(w) for w in worlds.values()]):.2g}"
        for p in own
    ]
    out.append(
        "How far below the true return the promised bounds lie, in units of the mean regret of the "
        f"nominal policy, averaged over worlds: {', '.join(far)}."
    )
    return out


def _scale(world: Mapping[str, Any]) -> float:
    regret = np.asarray(world["best"]) - np.asarray(world["true"]["nominal"])
    return max(float(regret.mean()), 1e-9)
