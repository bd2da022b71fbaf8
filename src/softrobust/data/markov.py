"""Is the state enough? Whether the previous state helps to predict the next one (paper, §2).

The models assume P(s′ | s, a, everything before) = P(s′ | s, a). The check asks whether knowing
what was before, x, improves the held-out likelihood of s′: with counts n of the training folds,

    p₀(s′ | s)       = (n(s,s′) + m₀/K) / (n(s) + m₀)
    p₁(s′ | s,a)     = (n(s,a,s′) + m₁ p₀(s′ | s)) / (n(s,a) + m₁)
    p₂(s′ | x,s,a)   = (n(x,s,a,s′) + m₂ p₁(s′ | s,a)) / (n(x,s,a) + m₂),

each the Dirichlet mean around the coarser one, K the number of next states; m is the best on the
training folds with each row left out in turn. Folds are made of whole ids, and the standard error
of the mean of log p₂ − log p₁ is that of sums over ids, since rows of one id are not independent.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, final

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from softrobust._core.arrays import BoolArray, FloatArray, IntArray
from softrobust._core.settings import whole
from softrobust.data.columns import joint_codes
from softrobust.data.labels import state_columns
from softrobust.data.log import END, TransitionLog
from softrobust.errors import InputError

Verdict = Literal["helps", "a trace", "no sign", "cannot tell"]
Codes = npt.NDArray[np.integer[Any]]
Before = Literal["state", "action", "column"]
FEWEST_ROWS, FEWEST_GROUPS = 100, 10
SHUFFLES, OUTLYING = 19, 6.0  # of actions, and deviations beyond which chance is no reason
MOST_ROWS = 200_000  # are enough for any verdict
# A gain below half a per cent in probability is no reason to change the state, however certain.
MATTERS = 0.005
_MASSES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)


@final
class Gain(NamedTuple):
    """What knowing something earlier adds to the log-likelihood of one transition.

    `before` is the previous state, the previous action, or one column of the state; `gain` is the
    mean of log p₂ − log p₁ over held-out transitions, and `error` its standard error.
    """

    before: Before
    column: str
    gain: float
    error: float

    @property
    def helps(self) -> bool:
        """Whether the gain is more than two standard errors above 0."""
        return bool(self.gain > 2 * self.error and self.gain > 0)


@final
@dataclass(frozen=True, slots=True)
class MarkovCheck:
    """The verdict, and the gains behind it; the first is that of the whole previous state.

    `reason` says why nothing can be told: "no episodes" or "too few" transitions or groups.
    """

    verdict: Verdict
    n_rows: int
    n_groups: int
    gains: tuple[Gain, ...] = ()
    reason: Literal["no episodes", "too few"] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "verdict": self.verdict,
            "n_transitions": self.n_rows,
            "n_groups": self.n_groups,
            "gains": [gain._asdict() | {"helps": gain.helps} for gain in self.gains],
            "reason": self.reason,
        }


def markov_check(
    log: TransitionLog, groups: npt.ArrayLike | None = None, folds: int = 5, seed: int = 0
) -> MarkovCheck:
    """Check whether the previous state helps to predict the next one, by cross-validation.

    Rows of an episode must stand in the order of time; `groups`, (n_rows,), says which rows belong
    together (ids), by default those of an episode.
    """
    folds = whole("folds", folds, least=2)
    if log.episode is None:
        return MarkovCheck("cannot tell", 0, 0, reason="no episodes")
    group = np.asarray(log.episode if groups is None else groups)
    if group.shape != log.s.shape:
        raise InputError(f"groups needs one entry per row, {log.s.shape}: got {group.shape}.")
    before, now = _chained(log)
    group = joint_codes(group[now])
    n_groups = int(group.max(initial=-1)) + 1
    if now.size < FEWEST_ROWS or n_groups < FEWEST_GROUPS:
        return MarkovCheck("cannot tell", int(now.size), n_groups, reason="too few")
    fold = np.random.default_rng(seed).permutation(n_groups)[group] % folds
    gains = []
    for what, column, known in _earlier(log, before):
        values = _gain(log, now, known, fold)
        mean = float(values.mean())
        off = np.bincount(group, weights=values - mean)  # groups are independent of one another
        error = np.sqrt((off**2).sum() * n_groups / (n_groups - 1)) / values.size
        gains.append(Gain(what, column, mean, float(error)))
    verdict: Verdict = "no sign"
    if gains[0].helps:
        verdict = "helps" if gains[0].gain >= MATTERS else "a trace"
    return MarkovCheck(verdict, int(now.size), n_groups, tuple(gains))


def _chained(log: TransitionLog) -> tuple[IntArray, IntArray]:
    """Rows of an episode that begin where the row before ended: that one, and they."""
    assert log.episode is not None
    order = np.argsort(log.episode, kind="stable")
    first, second = order[:-1], order[1:]
    chained = (log.episode[first] == log.episode[second]) & (log.s_next[first] == log.s[second])
    return first[chained][:MOST_ROWS], second[chained][:MOST_ROWS]


def _earlier(log: TransitionLog, before: IntArray) -> Iterator[tuple[Before, str, Codes]]:
    """What could be known in addition: the previous state, action, and each column of a state."""
    yield "state", "", log.s[before]
    yield "action", "", log.a[before]
    names = [name for name in log.states if name != END]
    columns = state_columns(names) if log.n_states <= 10_000 else None
    for column, values in (columns or {}).items():
        _, codes = np.unique(np.array(values), return_inverse=True)
        yield "column", column, codes[log.s[before]]


def _gain(log: TransitionLog, now: IntArray, known: Codes, fold: IntArray) -> FloatArray:
    """log p₂ − log p₁ of the rows `now`, by the folds that do not hold them, (n,)."""
    s, a, s_next = log.s[now], log.a[now], log.s_next[now]
    contexts = (joint_codes(s), joint_codes(s, a), joint_codes(s, a, known))
    levels = [(context, joint_codes(context, s_next)) for context in contexts]
    out = np.empty(now.size)
    for f in np.unique(fold):
        train = fold != f
        logs = []
        base: FloatArray = np.full(now.size, 1 / np.unique(s_next).size)
        for context, joint in levels:
            base = _smoothed(context, joint, base, train)
            logs.append(np.log(base[~train]))
        out[~train] = logs[2] - logs[1]
    return out


def _smoothed(context: IntArray, joint: IntArray, base: FloatArray, train: BoolArray) -> FloatArray:
    """Dirichlet means around `base` by the training rows, each training row leaving itself out."""
    n_joint = np.bincount(joint[train], minlength=int(joint.max()) + 1)[joint] - train
    n_context = np.bincount(context[train], minlength=int(context.max()) + 1)[context] - train
    choices = [(n_joint + m * base) / (n_context + m) for m in _MASSES]
    fits = [float(np.log(choice[train]).sum()) for choice in choices]
    return np.asarray(choices[int(np.argmax(fits))])


# -------------------------------------------------------------------- actions in the wrong row
def shifted_actions(log: TransitionLog) -> float | None:
    """By how much the action of the row before predicts what follows better than the row's own.

    In mean log-likelihood per transition; None where the row's own action says anything at all
    about the next state, or actions shuffled within states say as much, or nothing can be told.
    """
    if log.episode is None or log.n_actions < 2:
        return None
    before, now = _chained(log)
    if now.size < FEWEST_ROWS:
        return None
    s, to = log.s[now], joint_codes(log.s_next[now])
    alone, own = _evidence(joint_codes(s), to), _evidence(joint_codes(s, log.a[now]), to)
    earlier = _evidence(joint_codes(s, log.a[before]), to)
    lead = earlier - max(own, alone)
    clear = max(10.0, 0.01 * now.size)
    if lead <= clear or own >= alone + 0.2 * (earlier - alone):
        return None
    rng, a, order = np.random.default_rng(0), log.a[before], np.argsort(s, kind="stable")
    null = []  # thin contexts look informative whatever they hold
    for _ in range(SHUFFLES):
        mixed = a.copy()
        mixed[order] = a[np.lexsort((rng.random(a.size), s))]
        null.append(_evidence(joint_codes(s, mixed), to))
    return lead / now.size if earlier > np.mean(null) + OUTLYING * np.std(null, ddof=1) else None


def _evidence(context: IntArray, to: IntArray) -> float:
    """Log marginal likelihood of next states given contexts, under Dirichlet priors of mass 1."""
    share = 1.0 / (int(to.max()) + 1)
    seen = gammaln(share + np.bincount(joint_codes(context, to))) - gammaln(share)
    return float(seen.sum() - gammaln(1.0 + np.bincount(context)).sum())
