"""Whether draws can be trusted: R̂, effective sizes, divergences, predictive checks, foresight.

R̂ compares the spread between chains with that within them, the effective sample size says how many
independent draws the chains are worth (Vehtari et al. 2021); both come from ArviZ. A posterior
predictive p-value is the share of replicated logs whose statistic exceeds that of the log: near 0
or 1 the model cannot reproduce what was seen.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import FloatArray, entry_keys, found_at
from softrobust._core.notes import Level, Note
from softrobust._core.settings import whole
from softrobust.data import TransitionLog
from softrobust.errors import InputError, SolverError, optional
from softrobust.models.model_set import ModelSet

MOST_RHAT = 1.01
LEAST_ESS = 400.0
RARE = 0.005  # at either end: a predictive p-value that says no
TRANSITIONS = "transitions"  # the statistic of tables: how likely the log is
MOST_PAIRS = 5000
LOST_SHARE = 0.5  # divergences beyond this share: nothing was explored
REMEDIES = {
    "chains_disagree": "double the warm-up",
    "few_effective_draws": "continue the chains with extend(draws), or raise draws",
    "transitions_diverged": "raise target_accept towards 0.99",
    "prior_too_sharp": "no setting of this posterior cures it; it fades with more rows",
    "statistic_missed": "choose another posterior",
}


class PosteriorWarning(UserWarning):
    """Draws that should not be relied on as they are; the text says what to do."""


@final
class Parameter(NamedTuple):
    """Summary of one scalar parameter."""

    mean: float
    sd: float
    rhat: float
    ess_bulk: float
    ess_tail: float


@final
@dataclass(frozen=True, slots=True)
class Diagnostics:
    """What is known about the quality of the draws."""

    exact: bool  # whether draws are independent and from the posterior itself
    parameters: Mapping[str, Parameter] = field(default_factory=dict)  # empty for exact draws
    divergences: int = 0
    n_draws: int = 0
    # statistic → p-value: posterior predictive checks; values near 0 or 1 say that the model misses
    # the statistic
    predictive: Mapping[str, float] = field(default_factory=dict)
    cure: str = ""  # the posterior whose rows are as sharp as the log says, where there is one

    @classmethod
    def of_exact(cls, predictive: Mapping[str, float] | None = None, cure: str = "") -> Diagnostics:
        """Draws by a closed form or an exact algorithm."""
        return cls(exact=True, predictive=predictive or {}, cure=cure)

    @classmethod
    def of_chains(
        cls,
        draws: Mapping[str, FloatArray],
        diverging: NDArray[np.bool_] | None = None,
        predictive: Mapping[str, float] | None = None,
    ) -> Diagnostics:
        """From arrays (n_chains, n_draws, …), through ArviZ."""
        arviz = import_arviz()
        parameters = {}
        for name, values in draws.items():
            flat = np.asarray(values, np.float64).reshape(*values.shape[:2], -1)
            for j in range(flat.shape[2]):
                label = name if flat.shape[2] == 1 else f"{name}[{j}]"
                parameters[label] = _summary(arviz, flat[:, :, j])
        lost = 0 if diverging is None else int(np.sum(diverging))
        n = next((v.shape[0] * v.shape[1] for v in draws.values()), 0)
        return cls(False, parameters, lost, n, predictive or {})

    @property
    def missed(self) -> tuple[str, ...]:
        """The statistics of the log that the models do not reproduce."""
        return tuple(k for k, p in self.predictive.items() if not RARE < p < 1 - RARE)

    @property
    def problems(self) -> tuple[Note, ...]:
        """What is wrong, one note each; empty if all is well."""
        out = []
        bad = [k for k, p in self.parameters.items() if not p.rhat <= MOST_RHAT]
        if bad:
            worst = max(bad, key=lambda k: np.nan_to_num(self.parameters[k].rhat, nan=np.inf))
            rhat = self.parameters[worst].rhat
            facts = {"parameter": worst, "rhat": rhat, "most": MOST_RHAT, "parameters": len(bad)}
            out.append(Note("chains_disagree", Level.CAUTION, facts))
        few = [k for k, p in self.parameters.items() if not min(p.ess_bulk, p.ess_tail) > LEAST_ESS]
        if few:
            least = min(few, key=lambda k: min(self.parameters[k][3:]))
            size = min(self.parameters[least][3:])
            facts = {"parameter": least, "effective_size": size, "least": LEAST_ESS}
            out.append(Note("few_effective_draws", Level.CAUTION, facts))
        if self.divergences:
            facts = {"diverged": self.divergences, "draws": self.n_draws}
            out.append(Note("transitions_diverged", Level.CAUTION, facts))
        for name in self.missed:
            p = self.predictive[name]
            sharp = name == TRANSITIONS and p <= RARE
            code = "prior_too_sharp" if sharp else "statistic_missed"
            facts = {"statistic": name, "p": p} | ({"cure": self.cure} if sharp else {})
            out.append(Note(code, Level.CAUTION, facts))
        return tuple(out)

    def warn(self) -> None:
        """Issue one `PosteriorWarning` that lists the problems, if there are any."""
        lines = []
        for note in self.problems:
            facts = ", ".join(f"{name} {value}" for name, value in note.facts.items())
            learn = "learn the prior (LearnedPosterior)" if note.facts.get("cure") else None
            lines.append(f"{note.code} ({facts}): {learn or REMEDIES[note.code]}")
        if lines:
            warnings.warn("; ".join(lines) + ".", PosteriorWarning, stacklevel=3)

    def table(self) -> list[dict[str, Any]]:
        """One row per parameter, for printing."""
        return [{"parameter": name, **p._asdict()} for name, p in self.parameters.items()]


def check_divergence(diverging: NDArray[np.bool_], draws: Mapping[str, FloatArray]) -> None:
    """Raise if the sampler went nowhere: then no draw is usable."""
    share = float(np.mean(diverging))
    stuck = [k for k, v in draws.items() if not np.isfinite(v).all()]
    # No parameter of any chain moved; one draw alone cannot tell.
    frozen = all(v.shape[1] > 1 and not np.ptp(v, axis=1).any() for v in draws.values())
    if share > LOST_SHARE or stuck or frozen:
        what = f"{share:.0%} of its transitions diverged" if not stuck else f"'{stuck[0]}' is NaN"
        raise SolverError(
            f"The sampler found no way through the posterior: {what}, so no draw is usable and "
            "nothing was kept. Check the data for outliers or wrong units, raise target_accept "
            "towards 0.99, and double the warm-up."
        )


def predictive_check(models: ModelSet, log: TransitionLog, seed: int = 0) -> float:
    """P[log-likelihood of a replicated log < that of the log], averaged over the models.

    Every logged (s, a) draws a new s′ from each model; a value near 0 says that the log is less
    likely than what the models would produce. Of a large log, 5000 pairs are looked at.
    """
    rng = np.random.default_rng(seed)
    pair, s_next, count = log.counts()
    tiny = np.finfo(float).tiny
    seen, new = np.zeros(models.n_models), np.zeros(models.n_models)
    first = np.flatnonzero(np.diff(pair, prepend=-1))
    ends = np.append(first[1:], pair.size)
    for i in rng.permutation(first.size)[:MOST_PAIRS]:
        rows = slice(first[i], ends[i])
        s, a = divmod(int(pair[rows][0]), models.n_actions)
        columns, block = models.block(s, a)
        if columns.size == 0:
            continue  # a pair that the posterior left out (min_count)
        score = np.log(np.maximum(block, tiny))
        at = np.minimum(np.searchsorted(columns, s_next[rows]), columns.size - 1)
        found = columns[at] == s_next[rows]
        seen += np.where(found, score[:, at], np.log(tiny)) @ count[rows]
        new += (rng.multinomial(int(count[rows].sum()), block) * score).sum(axis=1)
    return float(np.mean(new < seen) + 0.5 * np.mean(new == seen))


def check_size(n_entries: int) -> int:
    """How many models a predictive check draws: 200, fewer where they are large."""
    return int(np.clip(2e7 / max(n_entries, 1), 10, 200))


def _summary(arviz: Any, x: FloatArray) -> Parameter:
    if np.ptp(x) == 0.0:
        return Parameter(float(x.flat[0]), 0.0, np.nan, np.nan, np.nan)
    return Parameter(
        float(x.mean()),
        float(x.std(ddof=1)),
        # One chain is compared with itself, in halves.
        float(arviz.rhat(x if x.shape[0] > 1 else x[:, : x.shape[1] // 2 * 2].reshape(2, -1))),
        float(arviz.ess(x, method="bulk")),
        float(arviz.ess(x, method="tail")),
    )


def import_arviz() -> Any:
    """ArviZ, without the announcement of its next version."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return optional("arviz", "bayes", "Diagnosing a sampler")


# --------------------------------------------------------------------------------------------------
# How well posteriors foresee transitions that they have not seen.
#
# Episodes (or blocks of rows) are dealt into folds; a posterior is fitted to all but one and asked
# for the probability of every transition of that one. The score is the mean logarithm. A transition
# that a posterior held impossible would cost everything, so all are mixed with the same small share
# of a uniform distribution.

SURPRISE = 0.01  # share of the uniform distribution in every forecast
DRAWS = 100  # models whose mean is the forecast
FOLDS = 5  # by which transitions are held out


def foresight(
    log: TransitionLog, posteriors: Mapping[str, Any], folds: int = FOLDS, seed: int = 0
) -> dict[str, float]:
    """Mean log probability of held-out transitions, for every posterior by name.

    Parameters
    ----------
    posteriors : name → settings of a posterior
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
    S, A = log.shape
    keys = (log.s.astype(np.int64) * A + log.a) * S + log.s_next
    for k in range(folds):
        train, test = log.part(fold != k), np.flatnonzero(fold == k)
        for name, settings in posteriors.items():
            models = settings.fit(train).sample(DRAWS, seed=k)
            if not isinstance(models, ModelSet):
                raise InputError(f"foresight is for posteriors over tables; '{name}' is not one.")
            mean = models.mean_model()
            at, hit = found_at(entry_keys(mean.indptr, mean.next_states, S), keys[test])
            p = (1 - SURPRISE) * np.where(hit, mean.prob[at], 0.0) + SURPRISE / S
            out[name] += float(np.log(p).sum())
    return {name: total / log.n_rows for name, total in out.items()}
