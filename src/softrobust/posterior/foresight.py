"""How well posteriors foresee transitions that they have not seen.

Episodes (or blocks of rows) are dealt into folds; a posterior is fitted to all but one and asked
for the probability of every transition of that one. The score is the mean logarithm. A transition
that a posterior held impossible would cost everything, so all are mixed with the same small share
of a uniform distribution.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import entry_keys, found_at
from softrobust._core.settings import whole
from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.posterior.base import Posterior

SURPRISE = 0.01  # share of the uniform distribution in every forecast
DRAWS = 100  # models whose mean is the forecast


def foresight(
    log: TransitionLog, posteriors: Mapping[str, Posterior], folds: int = 5, seed: int = 0
) -> dict[str, float]:
    """Mean log probability of held-out transitions, for every posterior by name.

    Parameters
    ----------
    posteriors : name → settings
        Give them `min_count=0`, so that pairs which a fold lacks have a forecast too.
    folds : int
        2 or more, and no more than there are episodes or blocks.
    """
    whole("folds", folds, 2)
    unit = np.arange(log.n_rows) * 20 // log.n_rows if log.episode is None else log.episode
    names, group = np.unique(unit, return_inverse=True)
    if names.size < folds:
        group, names = np.arange(log.n_rows), np.arange(log.n_rows)
    if names.size < folds:
        raise InputError(f"{folds} folds need as many rows; the log has {log.n_rows}.")
    rng = np.random.default_rng(seed)
    fold = rng.permutation(names.size)[group] % folds
    out = dict.fromkeys(posteriors, 0.0)
    for k in range(folds):
        train = log.part(fold != k)
        test = np.flatnonzero(fold == k)
        for name, settings in posteriors.items():
            models = settings.fit(train).sample(DRAWS, seed=k)
            if not isinstance(models, ModelSet):
                raise InputError(f"foresight is for posteriors over tables; '{name}' is not one.")
            mean = models.mean_model()
            out[name] += float(np.log(_forecast(log, test, mean)).sum())
    return {name: total / log.n_rows for name, total in out.items()}


def _forecast(log: TransitionLog, rows: NDArray[np.intp], mean: ModelSet) -> NDArray[np.float64]:
    """Probability that the forecast gave to every one of the rows."""
    S, A = log.shape
    wanted = (log.s[rows].astype(np.int64) * A + log.a[rows]) * S + log.s_next[rows]
    at, hit = found_at(entry_keys(mean.indptr, mean.next_states, S), wanted)
    p = np.where(hit, mean.prob[at], 0.0)
    return np.asarray((1 - SURPRISE) * p + SURPRISE / S)
