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

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from softrobust.certificate.intervals import held_out
from softrobust.experiments.bench import Bench
from softrobust.models.policy import Policy
from softrobust.objective import SoftRobust, var
from softrobust.returns import policy_return

FloatArray = NDArray[np.float64]


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
        Promise(
            "worst-model",
            "own",
            "worst model (read so): value ≤ true return",
            1 - 1 / (n_train + 1),
        ),
        Promise("s-rect@1", "own", "SRVI, λ = 1: value ≤ true return", None),
        Promise("nominal", "own", "nominal: value ≤ true return", None),
        Promise("empirical", "own", "empirical: value ≤ true return", None),
    ]
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
    limit = held_out(train, f, test, w, SoftRobust(lam, alpha)).lower_bound
    out = {
        "training": (var(train, f, alpha), true),
        "held-out": (float(np.sort(test)[order(alpha, test.size) - 1]), true),
    }
    if limit is not None and limit.low is not None:
        out["objective"] = (limit.low, objective)
    return out
