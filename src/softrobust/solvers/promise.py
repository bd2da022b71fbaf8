"""What can be promised of the truth: choose by the whole procedure, then measure its optimism.

The posterior is exact about itself and silent about being wrong. So the whole choice is made again
on halves of the log. A policy chosen on one half has a gain over practice by that half's own
posterior, and a gain by the posterior of the other half, which had no part in the choice. The share
q of the first that the second does not confirm is the *optimism* of the procedure. With draws g_ω
of the gain on the whole log,

    confirmed gain  h_ω  =  g_ω·(1 − q·U_ω) + e_ω,      U/0.7 ~ Beta(2, 2),
    promised gain        =  k·h_ω,      k = t²/(t² + 4),  t² = mean(g)²/(var(g) + l²),

since the posterior may be right (the other half merely knew too little), or wrong by more than a
half can show (both share its assumptions); e is normal with a quarter of the variance between
halves (a half has twice the variance of the log, their difference four times) and l²: l is half of
the standard error that the gain has by the rows of the changed pairs alone, since what
resembles them may resemble them less than it seems. The chance of a gain is that of h. Its size is
shrunk further, by k (in the return, its mean alone): among the many logs of which a gain is
believed, those whose gain is not clear of its own spread are the ones where luck was believed most.
The constants are those under which promises came true in worlds made for tuning (docs/worlds.md).
In the code q is `share`, 0.7 `WRONG`, k `believed`, 4 `FAINT`, l `lone`.
How often a pair must have been seen is chosen by the promise itself: its mean less its
spread, among the candidates that most other halves saw gain anything. Where no single change is
clear, many may be together: every candidate has a bold one beside it, which asks less of each
change and must be clear as a whole. Practice is among the choices, and stays where no other is
confirmed and clear. What practice itself earns is taken from
rows that hardly borrow: practice was lived, and needs no help from what resembles it; its spread is
widened for what no row of a short log shows.

Where actions have no effect, the log is one of many alike, with actions shuffled within states. If
actions tell as much about transitions and rewards (by evidence) in more than 5 % of those, there is
no gain; else the chance is at most one minus that share. What was never seen in n uses happens in
the next with probability 1/(n + 2) (Laplace), which the chance leaves open too. Where the log shows
that something which it does not have guided decisions, what that adds to the gain is taken off
(`hidden`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from softrobust._core.arrays import FloatArray, IntArray, seal
from softrobust._core.limits import OutOfTime, time_bound
from softrobust._core.settings import whole
from softrobust.errors import InputError
from softrobust.models.policy import Policy
from softrobust.objective import cvar
from softrobust.posterior.belief import SMALL, Belief
from softrobust.posterior.learned import ENTERED, LearnedPosterior
from softrobust.posterior.resemblance import Geometry
from softrobust.posterior.reward_draws import drawn_rewards
from softrobust.problem import check_gamma
from softrobust.solvers.cautious import improved
from softrobust.solvers.hidden import NOTHING, Hidden, hidden_bias
from softrobust.solvers.practice_class import PracticeClass

if TYPE_CHECKING:
    from softrobust.data import TransitionLog

LEVEL = 0.9
N_MODELS = 400
N_SPLITS = 6
N_SHUFFLES, MORE_SHUFFLES = 8, 64
CLOSE = (1e-4, 0.5)  # probabilities of as much in a shuffled log that few shuffles leave open,
MOST_SHUFFLED = 100_000  # in logs of at most so many rows
HALF_MODELS = 40  # draws of a half's posterior
BLOCKS = 20  # of consecutive rows, where there are fewer than `EPISODES` episodes
EPISODES = 10
FEWEST_ROWS = 40  # a half of fewer than twenty rows judges nothing
WRONG = 0.7  # times what splits show, by which the posterior may be wrong at most
FAINT = 4.0  # of t²: at this a gain is worth half of what is believed
HALVES = 4.0  # a half has twice the variance of the log, and the difference of two has four times
LONE = 0.5  # of the standard error by the rows of the changed pairs alone
UNSURE = 0.5  # of what hidden causes add: it is read off the traces of what nobody saw
CONFIRMED = 0.65  # share of the other halves that must see a gain: eight of twelve
CLEAR = 0.75  # chance below which practice stays
NOISE = 0.05  # probability of as much in a shuffled log, above which a gain is none
WIDER = 1.3  # times the spread of what practice earns, for what no row shows
# A promise takes at least so long by states and pairs seen: a quarter of what it took here
LEAST_SECONDS = 1e-5
BOLDER = 0.3  # share of the caution with which many changes may be clear together, if none is alone
CAUTION = 1.0  # standard deviations by which an action must be better than practice
ONCE = 1.5  # times as clear must the gain of pairs be that were seen once
SAME = 1e-12  # shares that differ by no more are equal
LIVED = (0.5, 1.0)  # concentrations of rows that hardly borrow


class Verdict(StrEnum):
    """What the promise says to do."""

    CHANGE = "change"
    KEEP = "keep"  # nothing beats practice clearly enough
    TOO_SMALL = "too_small"  # the log cannot be split: nothing is promised
    NO_CHOICE = "no_choice"  # practice is all that was seen
    NO_TIME = "no_time"  # the time was over before a change could be judged


@final
@dataclass(frozen=True, slots=True)
class Gain:
    """The promised gain over practice: its mean, and the value that it reaches with `level`."""

    value: float
    low: float


@final
@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to choose: pairs seen `min_count` times are free, gains must be clear by `caution`.

    A `bold` one asks less of every change, and more of all together. `posterior` is the mean gain
    that the posterior alone says, `optimism` what splits showed of it, `confirmed` the share of
    other halves that saw a gain, `gain` and `spread` mean and standard deviation of what remains,
    of which `believed` is the share k.
    """

    min_count: int
    caution: float
    posterior: float = 0.0
    optimism: float = 0.0
    confirmed: float = 0.0
    gain: float = 0.0
    spread: float = 0.0
    believed: float = 0.0
    bold: bool = False

    @property
    def clear(self) -> bool:
        """Whether other halves confirm it, and a bold one is clear as a whole."""
        known = not self.bold or self.gain >= self.believed * self.spread
        return self.confirmed >= CONFIRMED and known

    @property
    def score(self) -> float:
        """By which candidates are compared."""
        return self.gain - self.spread


def candidates_for(
    caution: float, counts: Sequence[int] = (1, 2, 3, 5, 8)
) -> tuple[Candidate, ...]:
    """The ways to choose: careful ones, and for each a bold one.

    A pair seen once must be clearer than others to replace practice.
    """
    careful = tuple(Candidate(m, caution * (ONCE if m == 1 else 1.0)) for m in counts)
    if caution == 0.0:
        return careful
    return careful + tuple(replace(c, caution=BOLDER * c.caution, bold=True) for c in careful)


CANDIDATES = candidates_for(CAUTION)
FREEST = Candidate(1, 0.0)


@final
@dataclass(frozen=True, slots=True)
class Promise:
    """Promised of the truth, after all corrections.

    Attributes
    ----------
    verdict : Verdict
    level : float
        Of the lower limits.
    return_value, return_low : float or None
        The return of the recommended policy; None where nothing is promised.
    gain : Gain
        Over practice; zeros where practice is recommended.
    chance : float
        Probability that the policy truly earns more than practice; 0 where practice is recommended.
    optimism : float
        What was taken off the posterior's mean gain.
    bad_gain : float
        Mean of the worst 1 − level of the promised gain (its CVaR).
    shuffled : float or None
        Probability that a log with shuffled actions shows as much gain.
    n_splits : int
    unit : str
        What halves were made of: "episodes", or "blocks" of rows.
    hidden : float
        What of the optimism is due to causes that the log does not have.
    """

    verdict: Verdict
    level: float
    return_value: float | None
    return_low: float | None
    gain: Gain
    chance: float
    optimism: float
    bad_gain: float
    shuffled: float | None
    n_splits: int
    unit: str
    hidden: float = 0.0

    @property
    def of_practice(self) -> bool:
        """Whether the policy that is promised is practice itself."""
        return self.verdict is not Verdict.CHANGE and self.gain == Gain(0.0, 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "verdict": self.verdict.value,
            "level": self.level,
            "return": self.return_value,
            "return_low": self.return_low,
            "gain": {"value": self.gain.value, "low": self.gain.low, "bad": self.bad_gain},
            "chance": self.chance,
            "optimism": self.optimism,
            "shuffled": self.shuffled,
            "splits": self.n_splits,
            "unit": self.unit,
            "hidden": self.hidden,
        }


@final
@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The answer of the default line: a policy and what can be promised of it.

    Attributes
    ----------
    policy, practice : Policy
        Equal where practice is recommended.
    promise : Promise
    candidate : Candidate or None
        How the policy was chosen; None for practice.
    candidates : tuple of Candidate
        All that were compared.
    policies : PracticeClass
        The class that the policy was chosen from.
    belief : Belief or None
        Posterior, rewards and starts with their draws; None where there was no time for any.
    """

    policy: Policy
    practice: Policy
    promise: Promise
    candidate: Candidate | None
    candidates: tuple[Candidate, ...]
    policies: PracticeClass
    belief: Belief | None


def choose(
    log: TransitionLog,
    gamma: float,
    *,
    seed: int = 0,
    practice: FloatArray | None = None,
    level: float = LEVEL,
    n_models: int = N_MODELS,
    n_splits: int = N_SPLITS,
    candidates: Sequence[Candidate] = CANDIDATES,
    horizon: int | None = None,
    given: FloatArray | None = None,
) -> Choice:
    """Choose a policy from a log, and say what can be promised of it.

    Parameters
    ----------
    log : TransitionLog
    gamma : float
        Discount.
    horizon : int, optional
        Steps of an episode; the policy is the same at all of them.
    seed : int
        The same seed, the same answer.
    practice : (n_states, n_actions), optional
        What is done at present; by default the log's own shares.
    level : float
        Of the promised limits.
    n_models : int
        Draws of the posterior.
    n_splits : int
        Times that the log is split in halves.
    candidates : sequence of Candidate
        Ways to choose that are compared.
    given : (n_states, n_actions), optional
        A policy to judge instead of choosing one; rows of NaN are practice.
    """
    if not 0.5 <= level < 1.0:
        raise InputError(f"level must be at least 0.5 and below 1; it is {level:g}.")
    check_gamma(gamma, horizon)
    whole("n_models", n_models)
    whole("n_splits", n_splits)
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    thin = thinned(log)
    n_models, n_splits = max(40, round(thin * n_models)), max(2, round(thin * n_splits))
    half = max(8, round(thin * HALF_MODELS))
    seen = np.asarray(log.pair_counts) > 0
    if LEAST_SECONDS * log.n_states * int(seen.sum()) > time_bound().left:  # not worth a beginning
        time_bound().note("promise")
        free = seen | ~seen.any(axis=1, keepdims=True)
        shares = practice_of(log, free) if practice is None else np.asarray(practice)
        return _kept(log, shares, None, Verdict.NO_TIME, level, units(log)[0])
    run = Procedure.of(log, gamma, practice, n_models, half, rng, horizon)
    try:
        return _judged(run, candidates, level, n_splits, rng, given)
    except OutOfTime:
        time_bound().note("promise")
        return run.keep(Verdict.NO_TIME, level, None, units(log)[0], ())


def thinned(log: TransitionLog) -> float:
    """Evaluation takes the cube of the states: large logs get this share of draws and splits."""
    return min(1.0, (SMALL / log.n_states) ** 2)


def _judged(
    run: Procedure,
    candidates: Sequence[Candidate],
    level: float,
    n_splits: int,
    rng: np.random.Generator,
    given: FloatArray | None = None,
) -> Choice:
    """The choice among the candidates; or `given`, which somebody else chose.

    Where a candidate chooses the same, exactly that is promised of it. Else it is trusted no more
    than the candidates together, nor than the freest choice: every pair seen once, no caution.
    """
    log = run.log
    tried = run.chosen(candidates)
    free: list[int] = list(range(len(tried)))  # those to choose from
    if given is not None:
        given = np.where(np.isnan(given), run.practice, given)
        free = [i for i in free if np.abs(tried[i] - given).max() <= SAME]
        if not free:
            free, tried, candidates = [len(tried)], [*tried, given], (*candidates, FREEST)
    usual = run.practices(rng)
    base = run.belief.returns(usual)
    gains = np.array([run.belief.returns(run.lived(p, usual)) - base for p in tried])
    worth = run.worth(rng)
    unit, groups = units(log)
    moved = [bool((np.abs(p - run.practice) > SAME).any()) for p in tried]
    if log.n_rows < FEWEST_ROWS or np.unique(groups).size < 4:
        return run.keep(Verdict.TOO_SMALL, level, None, unit, ())
    if not any(moved[i] for i in free):
        return run.keep(Verdict.NO_CHOICE, level, worth, unit, ())
    own, other = run.splits(candidates, groups, n_splits, rng)
    errors = {id(p): run.alone(p) for p in {id(p): p for p in tried}.values()}
    alone = np.array([errors[id(p)] for p in tried])
    judged, draws = corrected(candidates, gains, own, other, alone, rng)
    sound = [i for i in free if moved[i] and judged[i].clear]
    if not sound and given is None:
        return run.keep(Verdict.KEEP, level, worth, unit, tuple(judged), n_splits)
    best = max(sound or free, key=lambda i: judged[i].score)
    chosen = judged[best]
    as_much = run.shuffled(rng) if chosen.gain > 0.0 or given is not None else 1.0
    hidden = hidden_bias(run.belief, run.practice, tried[best], groups)
    draws_ = lessened(draws[best], hidden, rng)
    rare = 1.0 / (run.uses(tried[best]) + 2.0)
    promise = promised(chosen, draws_, worth, (as_much, rare), level, n_splits, unit, hidden)
    if not sound:  # other halves do not confirm such choices
        promise = replace(promise, verdict=Verdict.KEEP)
    if promise.verdict is Verdict.KEEP and given is None:
        return run.keep(Verdict.KEEP, level, worth, unit, tuple(judged), n_splits, as_much)
    return Choice(
        _made(run.log, tried[best]), _made(run.log, run.practice), promise, chosen, tuple(judged),
        run.policies(chosen), run.belief,
    )  # fmt: skip


def promised(
    found: Candidate,
    draws: FloatArray,
    worth: FloatArray,
    doubts: tuple[float, float],
    level: float,
    n_splits: int,
    unit: str,
    hidden: Hidden,
) -> Promise:
    """The promise of a candidate from draws of its gain and of what practice earns.

    The draws are those of h, less what hidden causes add. `doubts` are the probabilities that
    shuffled logs show as much (a gain is none with it, and so it is for the draws), and that what
    is done more holds something that its uses did not show.
    """
    as_much, rare = doubts
    chance = min(float((draws > 0).mean()), 1.0 - 0.5 / draws.size, 1.0 - as_much, 1.0 - rare)
    if as_much > NOISE:
        none = np.arange(draws.size) < as_much * draws.size
        draws = np.where(none, np.minimum(draws, 0.0), draws)
    mean = float(draws.mean())
    value = mean * found.believed if mean > 0.0 else mean
    clear = chance >= CLEAR and as_much <= NOISE and value > 0.0
    gain = draws * found.believed if mean > 0.0 else draws  # sure of the sign as before
    total = worth + draws - (mean - value)
    return Promise(
        Verdict.CHANGE if clear else Verdict.KEEP, level,
        float(total.mean()), float(np.quantile(total, 1.0 - level)),
        Gain(value, float(np.quantile(gain, 1.0 - level))), chance,
        found.posterior - value, cvar(gain, None, level), as_much, n_splits, unit, hidden.bias,
    )  # fmt: skip


def lessened(draws: FloatArray, hidden: Hidden, rng: np.random.Generator) -> FloatArray:
    """Draws of a gain less what hidden causes add to it."""
    if hidden is NOTHING:
        return draws
    error = float(np.hypot(hidden.error, UNSURE * hidden.bias))
    return draws - (hidden.bias + error * rng.standard_normal(draws.size))


def corrected(
    candidates: Sequence[Candidate],
    gains: FloatArray,
    own: FloatArray,
    other: FloatArray,
    alone: FloatArray,
    rng: np.random.Generator,
) -> tuple[list[Candidate], list[FloatArray]]:
    """Candidates with what splits say of them, and draws of their confirmed gain h.

    `alone` are the standard errors of their gains by the rows of changed pairs alone.
    """
    judged, draws = [], []
    n, overall = gains.shape[1], _unconfirmed(own, other)
    # No candidate is trusted more than the procedure as a whole, and a stranger's choice no more
    # than any.
    shares = [max(_unconfirmed(own[:, i], other[:, i]), overall) for i in range(len(candidates))]
    for i, candidate in enumerate(candidates):
        share = max(shares) if candidate is FREEST else shares[i]
        lone = LONE * float(alone[i])
        noise = np.sqrt(float((own[:, i] - other[:, i]).var()) / HALVES + lone**2)
        gain = gains[i] * (1.0 - share * WRONG * rng.beta(2.0, 2.0, n))
        error = np.asarray(rng.standard_normal(n))
        gain += noise * (error - error.mean() if candidate is FREEST else error)
        draws.append(gain)
        believed = _believed(gains[i], lone)
        judged.append(
            replace(
                candidate,
                posterior=float(gains[i].mean()),
                optimism=share,
                confirmed=float((other[:, i] > 0.0).mean()),
                gain=believed * float(gain.mean()),
                spread=float(gain.std()),
                believed=believed,
            )
        )
    return judged, draws


def _believed(gains: FloatArray, lone: float) -> float:
    """k: the share of a mean gain that is believed, by how clear of its spread it is."""
    mean, variance = float(gains.mean()), float(gains.var()) + lone**2
    return 0.0 if mean <= 0.0 else mean**2 / (mean**2 + FAINT * variance)


def _unconfirmed(own: FloatArray, other: FloatArray) -> float:
    """The share of the gains by the choosing halves that the other halves do not confirm."""
    believed = float(own.sum())
    return 1.0 if believed <= 0.0 else min(max(1.0 - float(other.sum()) / believed, 0.0), 1.0)


def _tail(value: float, null: FloatArray) -> float:
    """Probability of a value this large among those of shuffled logs: Student's t, as few are."""
    n = null.size
    spread = float(null.std(ddof=1)) * np.sqrt(1.0 + 1.0 / n)
    if spread <= 0.0:
        return 0.0 if value > float(null.mean()) else 1.0
    return float(stdtr(n - 1, (float(null.mean()) - value) / spread))


def units(log: TransitionLog) -> tuple[str, IntArray]:
    """What the log is split into, and the unit of every row, counted from 0."""
    if log.episode is not None and int(log.episode.max()) + 1 >= EPISODES:
        return "episodes", log.episode.astype(np.int64)
    n = log.n_rows
    return "blocks", (np.arange(n) * min(BLOCKS, n)) // n


def practice_of(log: TransitionLog, available: NDArray[np.bool_]) -> FloatArray:
    """(n_states, n_actions): shares of the log; any action alike in states never left."""
    counts = np.asarray(log.pair_counts, dtype=np.float64)
    total = counts.sum(axis=1, keepdims=True)
    alike = available / available.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, counts / np.maximum(total, 1.0), alike))


def shuffle_actions(log: TransitionLog, rng: np.random.Generator) -> TransitionLog:
    """The log with actions shuffled among the rows of each state."""
    s = log.s.astype(np.min_scalar_type(log.n_states))  # small integers are sorted by their digits
    mixed = np.argsort(rng.random(log.n_rows))
    mixed = mixed[np.argsort(s[mixed], kind="stable")]
    a = np.empty_like(log.a)
    a[np.argsort(s, kind="stable")] = log.a[mixed]
    return replace(log, a=seal(a))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Procedure:
    """One log and all that is reused when the choice is made again."""

    log: TransitionLog
    gamma: float
    geometry: Geometry
    belief: Belief
    practice: FloatArray
    given: FloatArray | None
    half_models: int
    horizon: int | None = None

    @classmethod
    def of(
        cls,
        log: TransitionLog,
        gamma: float,
        practice: FloatArray | None,
        n_models: int,
        half_models: int,
        rng: np.random.Generator,
        horizon: int | None = None,
    ) -> Procedure:
        """The procedure on a whole log."""
        # Parts and shuffles of the log estimate its rewards anew, or all take those given.
        log = replace(log, rewards=None) if drawn_rewards(log) else replace(log, reward=None)
        settings = LearnedPosterior(min_count=1 if practice is None else 0, entered=ENTERED)
        belief = Belief.of(log, gamma, n_models, rng, settings=settings, horizon=horizon)
        geometry = belief.fitted.common.geometry
        shares = practice_of(log, belief.available) if practice is None else np.asarray(practice)
        return cls(log, gamma, geometry, belief, shares, practice, half_models, horizon)

    def practices(self, rng: np.random.Generator) -> FloatArray:
        """(N, n_states, n_actions): draws of practice, of which the log shows a sample too."""
        n = self.belief.n_models
        if self.given is not None:
            return np.tile(self.given, (n, 1, 1))
        counts = np.asarray(self.log.pair_counts, dtype=np.float64)
        draws = rng.standard_gamma(np.tile(counts, (n, 1, 1)))
        total = draws.sum(axis=2, keepdims=True)
        known = total > 0
        return np.where(known, draws / np.where(known, total, 1.0), self.practice)

    def policies(self, candidate: Candidate) -> PracticeClass:
        """The class of a candidate."""
        return PracticeClass.of(self.log, self.practice, candidate.min_count)

    def chosen(self, candidates: Sequence[Candidate]) -> list[FloatArray]:
        """The policies of candidates; those with the same free pairs and caution share one."""
        found: dict[tuple[bytes, float], FloatArray] = {}
        out = []
        careful = any(candidate.caution > 0.0 for candidate in candidates)
        usual = self.belief.q_values(self.practice) if careful else None  # all begin there
        for candidate in candidates:
            policies = self.policies(candidate)
            key = (policies.free.tobytes(), candidate.caution)
            if key not in found:
                time_bound().check()
                found[key] = improved(self.belief, policies, candidate.caution, usual)
            out.append(found[key])
        return out

    def worth(self, rng: np.random.Generator) -> FloatArray:
        """(N,): what practice earns, in models whose rows hardly borrow."""
        settings = LearnedPosterior(LIVED, 1 if self.given is None else 0, ENTERED)
        variances = None if self.belief.rewards is None else self.belief.rewards.variances
        belief = Belief.of(
            self.log, self.gamma, self.belief.n_models, rng, self.geometry, variances, settings,
            self.horizon,
        )  # fmt: skip
        earned = belief.returns(self.practices(rng))
        return np.asarray(earned.mean() + WIDER * (earned - earned.mean()))

    def lived(self, probs: FloatArray, usual: FloatArray) -> FloatArray:
        """(N, n_states, n_actions): a policy that does as before wherever it is practice."""
        same = np.asarray((np.abs(probs - self.practice) <= 1e-12).all(axis=1))
        return np.asarray(np.where(same[:, None], usual, probs))

    def alone(self, probs: FloatArray) -> float:
        """Standard error of the gain of a policy, if every changed pair had its own rows alone."""
        belief, counts = self.belief, np.asarray(self.log.pair_counts, dtype=np.float64)
        changed = np.asarray((np.abs(probs - self.practice) > SAME).any(axis=1))
        if not changed.any():
            return 0.0
        time_bound().check()
        ahead = self.gamma * belief.mean_ahead(probs)[belief.next_states]
        pair = np.repeat(np.arange(counts.size), np.diff(belief.indptr))
        variance = np.zeros(counts.shape)
        if belief.rewards is not None:
            variance += belief.rewards.noises().reshape(counts.shape)
        # What is earned and what is left do not make up for each other: one may be misjudged.
        for x in (belief.fitted.mean_outcomes(), ahead):
            mean, square = (
                np.bincount(pair, belief.mean_prob * y, counts.size).reshape(counts.shape)
                for y in (x, x**2)
            )
            variance += np.maximum(square - mean**2, 0.0)
        weight = (belief.mean_visits(probs) * changed)[:, None] * probs
        return float(np.sqrt((weight**2 * variance / np.maximum(counts, 0.5)).sum()))

    def uses(self, probs: FloatArray) -> float:
        """How often the log has what a policy does more than practice, on (harmonic) average."""
        visits = self.belief.mean_visits(probs)[:, None]
        more = (visits * np.maximum(probs - self.practice, 0.0)).sum(axis=0)
        used = np.asarray(self.log.pair_counts).sum(axis=0)
        return float(more.sum() / max((more / np.maximum(used, 0.5)).sum(), 1e-300))

    def _half(self, rows: IntArray, rng: np.random.Generator) -> Procedure:
        """The procedure on some of the rows; every pair has a model, so that any can be judged."""
        time_bound().check()
        part = self.log.part(rows)
        variances = None if self.belief.rewards is None else self.belief.rewards.variances
        belief = Belief.of(
            part, self.gamma, self.half_models, rng, self.geometry, variances,
            LearnedPosterior(min_count=0, entered=ENTERED), self.horizon,
        )  # fmt: skip
        shares = practice_of(part, belief.available) if self.given is None else self.given
        return replace(self, log=part, belief=belief, practice=shares)

    def splits(
        self,
        candidates: Sequence[Candidate],
        groups: IntArray,
        n_splits: int,
        rng: np.random.Generator,
    ) -> tuple[FloatArray, FloatArray]:
        """Gains of a half's choices by itself and by the other, each (2·n_splits, n_candidates)."""
        out = []
        last = int(groups.max()) + 1
        for _ in range(n_splits):
            first = np.zeros(last, dtype=bool)
            first[rng.permutation(last)[: last // 2]] = True
            side = first[groups]
            halves = [self._half(np.flatnonzero(part), rng) for part in (side, ~side)]
            for own, other in (halves, halves[::-1]):
                here = own.belief.returns(own.practice)
                there = other.belief.returns(own.practice)
                row, worth = [], {}
                halved = [replace(c, min_count=-(-c.min_count // 2)) for c in candidates]
                for probs in own.chosen(halved):
                    if id(probs) not in worth:
                        gain = float((own.belief.returns(probs) - here).mean())
                        judged = float((other.belief.returns(probs) - there).mean())
                        worth[id(probs)] = (gain, judged)
                    row.append(worth[id(probs)])
                out.append(row)
        both = np.array(out)
        return both[:, :, 0], both[:, :, 1]

    def shuffled(self, rng: np.random.Generator) -> float:
        """Probability that actions tell as much in a log where they are shuffled.

        A few shuffles are enough where it is clear; else it would be those few that decide. How
        far actions move states was learned from these very rows, and is left out.
        """
        prior, geometry = LearnedPosterior(entered=ENTERED), replace(self.geometry, parts=False)
        own, found = prior.fit(self.log, geometry).evidence(), 0.0
        null: list[float] = []
        for n in (N_SHUFFLES, MORE_SHUFFLES):
            while len(null) < n:
                time_bound().check()
                mixed = shuffle_actions(self.log, rng)
                null.append(prior.fit(mixed, geometry).evidence())
            found = _tail(own, np.array(null))
            if not CLOSE[0] < found < CLOSE[1] or self.log.n_rows > MOST_SHUFFLED:
                break
        return found

    def keep(
        self,
        verdict: Verdict,
        level: float,
        worth: FloatArray | None,
        unit: str,
        judged: tuple[Candidate, ...],
        n_splits: int = 0,
        shuffled: float | None = None,
    ) -> Choice:
        """Practice, and what can be said of it."""
        known = (verdict, level, unit, worth, judged, n_splits, shuffled)
        return _kept(self.log, self.practice, self.belief, *known)


def _made(log: TransitionLog, probs: FloatArray) -> Policy:
    """A `Policy`; nothing is decided in states that were never left."""
    decided = np.asarray(log.pair_counts).sum(axis=1) > 0
    return Policy(probs / probs.sum(axis=1, keepdims=True), log.states, log.actions, decided)


def _kept(
    log: TransitionLog,
    practice: FloatArray,
    belief: Belief | None,
    verdict: Verdict,
    level: float,
    unit: str,
    worth: FloatArray | None = None,
    judged: tuple[Candidate, ...] = (),
    n_splits: int = 0,
    shuffled: float | None = None,
) -> Choice:
    """Practice, and what can be said of it."""
    value = None if worth is None else float(worth.mean())
    low = None if worth is None else float(np.quantile(worth, 1.0 - level))
    promise = Promise(
        verdict, level, value, low, Gain(0.0, 0.0), 0.0, 0.0, 0.0, shuffled, n_splits, unit
    )
    policy, nothing = _made(log, practice), np.zeros(practice.shape, dtype=bool)
    return Choice(policy, policy, promise, None, judged, PracticeClass(practice, nothing), belief)
