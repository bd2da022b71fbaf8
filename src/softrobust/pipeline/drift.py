"""Did the world change? New transitions against what the old posterior predicts of them.

For every pair seen in the new rows the old posterior predicts a distribution of next states. The
statistic is the log-likelihood of the new counts under its mean, Σ n(s,a,s′) log p̄(s′|s,a); its
distribution if nothing changed comes from simulation: draw a model from the posterior, draw the
same number of transitions of each pair from it. A small p-value says that the new rows are less
likely than that: the world, the coding of states, or the people who record it have changed.
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


@final
@dataclass(frozen=True, slots=True)
class Drift:
    """The test: its p-value, how many rows it could use, and how many had no prediction.

    `impossible` counts new transitions that the old posterior excludes: a next state outside its
    support, or a pair that had no model.
    """

    p_value: float | None
    rows: int
    impossible: int

    def sentence(self) -> str:
        """The finding in words."""
        extra = ""
        if self.impossible:
            extra = (
                f" {self.impossible} new rows show transitions that the old model did not know of."
            )
        if self.p_value is None:
            return f"No new row can be compared with the old model.{extra}"
        said = (
            "The new rows are what the old model expects"
            if self.p_value >= LEVEL
            else "The new rows differ from what the old model expects: has something changed?"
        )
        return f"{said} (drift test on {self.rows} rows, p = {self.p_value:.2g}).{extra}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {"p_value": self.p_value, "rows": self.rows, "impossible": self.impossible}


def drift_test(posterior: FittedPosterior, new: TransitionLog, seed: int = 0) -> Drift:
    """Test the rows of `new`, whose labels may go beyond those of the posterior's own log."""
    models = posterior.sample(DRAWS, np.random.default_rng([seed, 7]))
    known, total = _counts_on(models, new)
    rows = int(known.sum())
    if rows == 0:
        return Drift(None, 0, int(total))
    N, indptr = models.n_models, models.indptr
    rng = np.random.default_rng([seed, 8])
    observed, simulated = 0.0, np.zeros(N)
    for k in np.unique(np.searchsorted(indptr, np.flatnonzero(known), side="right") - 1):
        lo, hi = indptr[k], indptr[k + 1]
        block = models.prob[lo * N : hi * N].reshape(N, hi - lo)
        block = block / block.sum(axis=1, keepdims=True)  # multinomial wants sums of exactly 1
        score = np.log(np.maximum(block.mean(axis=0), 1e-300))
        counts = known[lo:hi]
        observed += float(counts @ score)
        simulated += rng.multinomial(int(counts.sum()), block) @ score
    # The observed value counts as one of the draws: never a p-value of 0.
    p = (1 + int(np.sum(simulated <= observed + 1e-9 * abs(observed)))) / (N + 1)
    return Drift(float(p), rows, int(total - rows))


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
