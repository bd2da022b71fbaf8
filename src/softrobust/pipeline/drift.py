"""Did the world change? New transitions and rewards against what the old posterior predicts.

For every pair seen in the new rows the old posterior predicts a distribution of next states. The
statistic is the deviance of the new counts from its mean, 2 Σ n log(n/(n_k·p̄)), which grows with
any difference, for better or worse; its distribution if nothing changed comes from simulation: draw
a model from the posterior, draw the same number of transitions of each pair from it. A small
p-value says that the world, the coding of states, or the people who record it have changed.
Transitions that the old model holds impossible count as a change when they are more than a few.
Rewards are compared pair by pair: with a χ² test where they vary, by value where they do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

if TYPE_CHECKING:
    from softrobust.data import TransitionLog
    from softrobust.posterior import FittedPosterior

DRAWS = 1000
LEVEL = 0.05
FEW = 0.05  # share of rows the old model holds impossible that may be chance


@final
@dataclass(frozen=True, slots=True)
class Drift:
    """The test: its p-value, how many rows it could use, and how many had no prediction.

    `impossible` counts new transitions that the old posterior excludes: a next state outside its
    support, or a pair that had no model. `reward_p` is the p-value of the rewards (0 where a reward
    that was fixed differs), None where they cannot be compared.
    """

    p_value: float | None
    rows: int
    impossible: int
    reward_p: float | None = None

    @property
    def changed(self) -> bool:
        """Whether anything speaks for a change."""
        small = [p for p in (self.p_value, self.reward_p) if p is not None and p < LEVEL / 2]
        return bool(small) or self.impossible > FEW * (self.rows + self.impossible)

    def sentence(self) -> str:
        """The finding in words."""
        head = (
            "The new rows differ from what the old model expects: has something changed?"
            if self.changed
            else "The new rows are what the old model expects"
        )
        parts = []
        if self.p_value is not None:
            parts.append(f"transitions: {self.rows} rows, p = {self.p_value:.2g}")
        if self.impossible:
            parts.append(f"{self.impossible} rows with transitions that it did not know of")
        if self.reward_p is not None:
            parts.append(f"rewards: p = {self.reward_p:.2g}")
        if self.p_value is None and not self.changed:
            head = "No new row can be compared with the old model"
        return f"{head} ({'; '.join(parts) or 'nothing to compare'})."

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"p_value": self.p_value, "rows": self.rows, "impossible": self.impossible,
                "reward_p": self.reward_p, "changed": self.changed}  # fmt: skip


def drift_test(
    posterior: FittedPosterior, new: TransitionLog, seed: int = 0, old: TransitionLog | None = None
) -> Drift:
    """Test the rows of `new`, whose labels may go beyond those of the posterior's own log.

    With `old`, the log that the posterior was fitted to, rewards are compared too.
    """
    models = posterior.sample(DRAWS, np.random.default_rng([seed, 7]))
    known, total = _counts_on(models, new)
    rows = int(known.sum())
    reward_p = None if old is None else reward_test(old, new)
    if rows == 0:
        return Drift(None, 0, int(total), reward_p)
    N, indptr = models.n_models, models.indptr
    rng = np.random.default_rng([seed, 8])
    observed, simulated = 0.0, np.zeros(N)
    for k in np.unique(np.searchsorted(indptr, np.flatnonzero(known), side="right") - 1):
        lo, hi = indptr[k], indptr[k + 1]
        block = models.prob[lo * N : hi * N].reshape(N, hi - lo)
        block = block / block.sum(axis=1, keepdims=True)  # multinomial wants sums of exactly 1
        mean, counts = block.mean(axis=0), known[lo:hi]
        n = int(counts.sum())
        observed += float(_deviance(counts[None, :], n * mean)[0])
        simulated += _deviance(rng.multinomial(n, block), n * mean)
    # The observed value counts as one of the draws: never a p-value of 0.
    p = (1 + int(np.sum(simulated >= observed - 1e-9 * abs(observed)))) / (N + 1)
    return Drift(float(p), rows, int(total - rows), reward_p)


def _deviance(counts: Any, expected: Any) -> Any:
    """2 Σ n log(n/expected) of every row, with 0·log 0 = 0."""
    ratio = np.where(counts > 0, counts / np.maximum(expected, 1e-300), 1.0)
    return 2.0 * (counts * np.log(ratio)).sum(axis=1)


def reward_test(old: TransitionLog, new: TransitionLog) -> float | None:
    """p-value of the new rewards: χ² of the pairs' means, or 0 where a fixed reward differs."""
    from scipy.stats import chi2

    if old.reward is None or new.reward is None or old.rewards is None:
        return None
    at_s = np.array([old.states.lookup.get(name, -1) for name in new.states])
    at_a = np.array([old.actions.lookup.get(name, -1) for name in new.actions])
    s, a, s_next = at_s[new.s], at_a[new.a], at_s[new.s_next]
    ok = (s >= 0) & (a >= 0) & (s_next >= 0)
    pair = s[ok].astype(np.int64) * old.n_actions + a[ok]
    expected, known = old.rewards.lookup(pair, s_next[ok])
    if not known.any():
        return None
    pair, rest = pair[known], (new.reward[ok] - expected)[known]
    own, _ = old.rewards.lookup(old.s.astype(np.int64) * old.n_actions + old.a, old.s_next)
    n_pairs = int((np.asarray(old.pair_counts) > 0).sum())
    scale = max(float(np.abs(old.reward).max()), 1e-300)
    noise = float(np.sqrt(np.square(old.reward - own).sum() / max(old.n_rows - n_pairs, 1)))
    if noise <= 1e-9 * scale:
        return 0.0 if float(np.abs(rest).max()) > 1e-6 * scale else 1.0
    size = old.n_states * old.n_actions
    n = np.bincount(pair, minlength=size)
    before = np.asarray(old.pair_counts).reshape(-1)
    seen = (n > 0) & (before > 0)
    mean = np.bincount(pair, weights=rest, minlength=size)[seen] / n[seen]
    spread = noise**2 * (1 / n[seen] + 1 / before[seen])
    return float(chi2.sf(float((mean**2 / spread).sum()), int(seen.sum())))


def _counts_on(models: Any, new: TransitionLog) -> tuple[Any, int]:
    """Counts of the new rows at the stored entries of the models, and the number of rows."""
    S, A = models.n_states, models.n_actions
    at_s = [models.states.lookup.get(name, -1) for name in new.states]
    at_a = [models.actions.lookup.get(name, -1) for name in new.actions]
    s, s_next = np.array(at_s)[new.s], np.array(at_s)[new.s_next]
    a = np.array(at_a)[new.a]
    ok = (s >= 0) & (s_next >= 0) & (a >= 0)
    pair = np.repeat(np.arange(S * A, dtype=np.int64), np.diff(models.indptr))
    stored = pair * S + models.next_states
    wanted = (s[ok].astype(np.int64) * A + a[ok]) * S + s_next[ok]
    place = np.minimum(np.searchsorted(stored, wanted), stored.size - 1)
    hit = stored[place] == wanted
    return np.bincount(place[hit], minlength=stored.size), new.n_rows
