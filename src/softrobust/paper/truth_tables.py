"""What each method promises of a policy, and the pairs (P*, D) in which it came true.

A promise has a level: the probability with which it is said to hold. BCR and RSVF prove theirs (a
union bound over states and actions). Others are read as promises by their users: VaR-Bellman's
value at α; the worst of N models, which one more draw undercuts with probability 1/(N + 1) for a
policy that was not chosen on them; a quantile of the training returns. Some methods give a number
without a level; how often that number is a lower bound is shown all the same.

    own          the method's own value is a lower bound of the true return
    training     the lower quantile (1 − α) of the returns on the training models is one
    held-out     an order statistic of the returns on held-out models is one. The true model is one
                 more draw beside m held-out ones, so the k-th smallest of them is exceeded with
                 probability 1 − k/(m + 1) exactly
    objective    the certificate's 95 % limit is a lower bound of the policy's objective under the
                 posterior (not of the true return)
    baseline     the true return is at least that of whoever collected the log
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust.certificate.intervals import held_out
from softrobust.models.policy import Policy
from softrobust.objective import SoftRobust, cvar, value_at_risk
from softrobust.paper.claims import (
    LEVEL,
    Claim,
    Interval,
    Measured,
    Verdict,
    bootstrap_interval,
    mean_interval,
    more,
    share_interval,
)
from softrobust.paper.figures import COLOURS, INK, bar, lane_labels, new_figure, plain
from softrobust.paper.pairs import PRIORS, Bench
from softrobust.paper.tables import Table
from softrobust.returns import Returns, policy_return

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
GREY = "#8a8a8a"


@final
@dataclass(frozen=True, slots=True)
class Promise:
    """Of which method, of which kind, in words, and with which probability (None: it says none)."""

    method: str
    kind: str
    words: str
    level: float | None

    @property
    def key(self) -> str:
        """For files."""
        return f"{self.method}:{self.kind}"


def promises(alpha: float, n_train: int, n_test: int) -> list[Promise]:
    """All promises that are put to the test."""
    k = order(alpha, n_test)
    union = "robust value ≤ true return"
    out = [
        Promise("bcr", "own", f"BCR: {union}", alpha),
        Promise("rsvf", "own", f"RSVF: {union}", alpha),
        Promise("rsvf-simple", "own", f"RSVF simple: {union}", alpha),
        Promise("var", "own", "VaR-Bellman (read so): value ≤ true return", alpha),
        Promise("worst-model", "own", "worst model (read so): value ≤ true return",
                1 - 1 / (n_train + 1)),
        Promise("s-rect@1", "own", "SRVI, λ = 1: value ≤ true return", None),
        Promise("nominal", "own", "nominal: value ≤ true return", None),
        Promise("empirical", "own", "empirical: value ≤ true return", None),
    ]  # fmt: skip
    for lam, words in (("0.5", "½"), ("1", "1")):
        name, who = f"static@{lam}", f"static, λ = {words}"
        out += [
            Promise(name, "training", f"{who}: training quantile ≤ true return", alpha),
            Promise(name, "held-out", f"{who}: held-out quantile ≤ true return",
                    1 - k / (n_test + 1)),
            Promise(name, "objective", f"{who}: held-out limit ≤ objective", 0.95),
        ]  # fmt: skip
    return [*out, Promise("spibb", "baseline", "SPIBB: true return ≥ the log's own policy's", None)]


def order(alpha: float, n_test: int) -> int:
    """The rank k of the held-out order statistic: 1 − k/(m + 1) ≥ α, as tight as it goes."""
    return max(int(np.floor((1 - alpha) * (n_test + 1) + 1e-9)), 1)


def static_claims(
    bench: Bench, policy: Policy, lam: float, true: float, objective: float
) -> dict[str, tuple[float, float]]:
    """(claimed, target) of the promises about a static policy, by kind."""
    alpha = bench.train.objective.alpha
    train, test = (policy_return(p, policy) for p in (bench.train, bench.test))
    f, w = bench.train.models.f, bench.test.models.f
    goal = SoftRobust(lam, alpha)
    limit = held_out(Returns(train, f), Returns(test, w), goal).lower_bound
    out = {
        "training": (value_at_risk(train, f, alpha), true),
        "held-out": (float(np.sort(test)[order(alpha, test.size) - 1]), true),
    }
    if limit is not None and limit.low is not None:
        out["objective"] = (limit.low, objective)
    return out


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
    n = sum(p.level is not None for p in said) * sum(PRIORS[name].exact for name in worlds)
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
        f"True return and regret: {PRIORS[name].words}",
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
        ["promise", "promised", *(PRIORS[name].words for name in worlds)],
        rows,
    )


def claims(worlds: Worlds, made: Mapping[str, Any]) -> list[Claim]:
    """Promises kept in every world with an exact posterior; returns and regret against nominal."""
    exact = {name: w for name, w in worlds.items() if PRIORS[name].exact}
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
                  tuple(_earned(exact[name], method, PRIORS[name].words) for name in exact)),
            Claim(f"{words} regrets less than nominal in the worst tenth of the pairs.",
                  WHERE, "true", LESS,
                  tuple(_saved(exact[name], method, PRIORS[name].words) for name in exact)),
        ]  # fmt: skip
    return out


def _kept_claim(promise: Promise, level: float, exact: Worlds, strict: float) -> Claim:
    parts = []
    for name, world in exact.items():
        i = coverage(world, promise, strict)
        verdict = Verdict.HELD if i.low >= level - SLACK else Verdict.CANNOT_TELL
        if i.high < level:
            verdict = Verdict.NOT_HELD
        parts.append(Measured(f"share, {PRIORS[name].words}", i, level, verdict))
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
        if PRIORS[name].exact:
            continue
        broken = [
            p.words
            for p in every
            if p.level is not None and coverage(world, p, strict).high < p.level
        ]
        words = "; ".join(broken) if broken else "none, within binomial error"
        out.append(
            f"{PRIORS[name].words} has no exact posterior, so its promises need not hold. Broken: "
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


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Two rows of panels."""
    worlds = numbers["worlds"]
    said = promises(numbers["alpha"], numbers["n_train"], numbers["n_test"])
    strict = strict_level(said, worlds)
    figure = new_figure(3.0 + 2.1 * len(worlds), 9.4)
    panels = figure.subplots(2, len(worlds), squeeze=False, height_ratios=[len(LABELS), len(said)])
    for j, (name, world) in enumerate(worlds.items()):
        _regrets(panels[0, j], world)
        _promises(panels[1, j], world, said, strict)
        panels[0, j].set_title(f"{PRIORS[name].words}\n{len(world['best'])} pairs", fontsize=10)
        for axes, labels in (
            (panels[0, j], LABELS.values()),
            (panels[1, j], [p.words for p in said]),
        ):
            lane_labels(axes, list(labels) if j == 0 else [""] * len(labels))
            plain(axes, "both")
            axes.tick_params(axis="y", length=0, labelsize=8.5)
    return figure


def _regrets(axes: Axes, world: Mapping[str, Any]) -> None:
    for y, method in enumerate(LABELS):
        regret = np.asarray(world["regret"][method])
        colour = COLOURS[1] if method.startswith("static") else COLOURS[0]
        bar(axes, mean_interval(regret), y - 0.14, colour)
        bar(axes, worst_interval(regret), y + 0.14, colour, markerfacecolor="white")
    # Roots keep both the small regrets and the large ones in sight, and 0 on the axis.
    axes.set_xscale("function", functions=(lambda x: np.sqrt(np.maximum(x, 0.0)), np.square))
    axes.set_xlim(left=0)
    axes.locator_params(axis="x", nbins=3)
    axes.set_xlabel("regret: average ●, worst tenth ○", fontsize=9)


def _promises(axes: Axes, world: Mapping[str, Any], said: Sequence[Promise], strict: float) -> None:
    for y, promise in enumerate(said):
        i = coverage(world, promise)
        if promise.level is None:
            bar(axes, i, y, GREY)
            continue
        broken = coverage(world, promise, strict).high < promise.level
        axes.plot([promise.level] * 2, [y - 0.36, y + 0.36], color=INK, linewidth=2)
        bar(axes, i, y, COLOURS[1] if broken else COLOURS[2])
    axes.set_xlim(0, 1.03)
    axes.set_xticks([0, 0.5, 0.9], ["0", "½", "0.9"])
    axes.set_xlabel("share of pairs", fontsize=9)
