"""Safe policy improvement: solvers that improve the policy of a log, each with its own caution.

β is the log's own policy: the share of each action among allowed ones, and where none of these was
seen every allowed one alike (counted in the stats). With counts n(s, a) and, but for SPIBB, in the
empirical model n(s,a,s′)/n(s,a):

    SPIBB        (Laroche et al. 2019)   where n(s,a) is below `min_count` the model is not trusted,
                 "equal"   : π(a|s) = β(a|s) there
                 "at-most" : π(a|s) ≤ β(a|s) there
    Soft-SPIBB   (Nadjahi, Laroche, Tachet des Combes 2019)   e(s,a) = √(2 ln(2SA/δ)/n(s,a)),
                 "both"  : Σ_a e(s,a)·|π(a|s) − β(a|s)| ≤ ε
                 "raised": Σ_a e(s,a)·max(0, π(a|s) − β(a|s)) ≤ ε   (Scholl et al. 2022, "lower")
    RaMDP        (Petrik, Ghavamzadeh, Chow 2016)             r(s,a) − κ/√n(s,a)
    DUIPI        (Schneegass, Hans, Udluft 2010)              maximises Q − ξ·σ(Q), where
                 σ²Q = γ²Σ P²·σ²V + Σ (r + γV)²·σ²P + σ²R,  σ²V = Σ_a π²·σ²Q

and every one is iterated to where it stays. SPIBB's classes are products over states, so greedy
steps improve all states at once, and contain β: the result is at least as good as β in its model.
With min_count = 0 it is the model's optimal policy, with min_count = ∞ it is β. Soft-SPIBB moves
probability from the worst action to the one of most advantage per error, as long as the budget ε
lasts (the authors' approximation of a linear programme), and keeps a state's old policy where the
move does not pay. DUIPI gives actions that were never seen no probability (Scholl et al.): their
variance is as unknown as their value. Its variances leave out covariances, so they change when a
constant is added to all rewards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, final

import numpy as np

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import BoolArray, FloatArray, IntArray, found_at
from softrobust._core.limits import Deadline, time_bound
from softrobust._core.notes import Level, Note
from softrobust._core.settings import Count, NotNegative, real
from softrobust.data import Rewards, TransitionLog
from softrobust.models.policy import action_shares
from softrobust.problem import Problem
from softrobust.returns import action_values, optimal_returns, policy_values
from softrobust.solvers.base import SOLVER_SHARE, Solution, Solver, Status, finish
from softrobust.solvers.baselines.nominal import check_log, empirical_problem

BETTER = 1e-12  # of the size of the values: less is rounding,
STAYS = 1e-9  # and what moves less than this stays
Unlimited = Annotated[float, partial(real, least=0, infinite=True)]
Share = Annotated[float, partial(real, above=0, most=1)]


@names_arguments
@final
@dataclass(frozen=True, slots=True, eq=False)
class SPIBB(Solver):
    """Improve the log's own policy, and only where the log shows enough.

    Parameters
    ----------
    log : TransitionLog
        Gives the counts and the behaviour policy.
    min_count : float
        Pairs seen fewer times are left to the behaviour policy; 0 … ∞.
    variant : "equal" or "at-most"
        What a rare pair may have: the behaviour's probability, or no more than it.
    model : "mean" or "empirical"
        In which model to improve: the mean of the problem's models, or the observed frequencies as
        in the original.
    max_rounds : int
        Steps of policy iteration at most.
    """

    log: TransitionLog
    min_count: Unlimited = 10
    variant: Literal["equal", "at-most"] = "equal"
    model: Literal["mean", "empirical"] = "mean"
    max_rounds: Count = 1000
    name: ClassVar[str] = "spibb"

    def solve(self, problem: Problem) -> Solution:
        """Policy iteration within the class."""
        clock = Deadline()
        check_log(problem, self.log, "SPIBB")
        beta, seen = action_shares(self.log.pair_counts, problem.allowed)
        rare = problem.allowed & (self.log.pair_counts < self.min_count)
        rare &= problem.decided[:, None]
        single, stats = problem.mean_problem(), {}
        if self.model == "empirical":
            single, unseen = empirical_problem(problem, self.log, "SPIBB")
            stats = {"unseen_pairs_as_self_loops": unseen}
        probs, v, status, rounds = improve(
            single, beta, lambda Q: self._greedy(Q, beta, rare), BETTER, self.max_rounds
        )
        more = {
            "rounds": rounds,
            "rare_pairs": int(rare.sum()),
            "states_without_behaviour": int((~seen & problem.decided).sum()),
            "behaviour_value": float(problem.p0 @ one_value(single, beta)),
        }
        found: dict[str, Any] = {"seconds": clock.elapsed} | stats | more
        if rare.any() and (rare == (problem.allowed & problem.decided[:, None])).all():
            note = Note("no_pair_free", Level.CAUTION, {"least": self.min_count})
            found["notes"] = [note.to_dict()]
        return finish(problem, self.name, problem.policy(probs), status, found, v)

    def _greedy(self, Q: FloatArray, beta: FloatArray, rare: BoolArray) -> FloatArray:
        """The best policy of the class for action values Q; −∞ marks what is not allowed."""
        rows = np.arange(Q.shape[0])
        free = np.where(rare, -np.inf, Q)
        best = free.argmax(axis=1)
        some = np.isfinite(free[rows, best])  # states with a pair that is not rare
        kept = np.where(rare, beta, 0.0)
        if self.variant == "at-most":  # rare pairs better than the best free one keep their share
            kept = np.where(free[rows, best][:, None] < Q, kept, 0.0)
        out = np.where(some[:, None], kept, beta)
        out[rows[some], best[some]] += np.maximum(1.0 - kept[some].sum(axis=1), 0.0)
        return out


def improve(
    single: Problem, beta: FloatArray, best: Callable[[FloatArray], FloatArray], least: float,
    max_rounds: int,
) -> tuple[FloatArray, FloatArray, Status, int]:  # fmt: skip
    """Policy iteration from β in one model: probabilities, v, how it ended, and after how long.

    `best` gives the policy to take for action values Q, −∞ where an action is not allowed. A state
    changes only where that gains more than `least` of its values, so that the end is reached.
    """
    probs, v, late = beta, one_value(single, beta), time_bound().part(SOLVER_SHARE)
    for step in range(1, max_rounds + 1):
        Q = action_values(single, v[None])[0]
        new = best(np.where(single.allowed, Q, -np.inf))
        terms = np.where(single.allowed, Q, 0.0)
        gain = ((new - probs) * terms).sum(axis=1)
        better = gain > least * np.abs(terms).max(axis=1)
        if not better.any():
            return probs, v, Status.TOLERANCE_REACHED, step
        probs = np.where(better[:, None], new, probs)
        v = one_value(single, probs)
        if late.passed:
            return probs, v, Status.TIME_LIMIT, step
    return probs, v, Status.ITERATION_LIMIT, max_rounds


def one_value(single: Problem, probs: FloatArray) -> FloatArray:
    """(n_states,): values of a policy in a problem of one model."""
    return np.asarray(policy_values(single, single.policy(probs))[0])


@final
@dataclass(frozen=True, slots=True, eq=False)
class SoftSPIBB(Solver):
    """Leave the log's own policy as far as an error budget allows."""

    log: TransitionLog
    epsilon: Unlimited = 0.5  # the budget of a state; 0 is the behaviour policy, ∞ any policy
    variant: Literal["raised", "both"] = "raised"  # which probabilities count against it
    delta: Share = 1.0  # of the error bound
    max_rounds: Count = 1000
    name: ClassVar[str] = "soft-spibb"

    def solve(self, problem: Problem) -> Solution:
        """Improve, evaluate, and begin again from β, until nothing moves."""
        clock = Deadline()
        single, _ = empirical_problem(problem, self.log, "Soft-SPIBB")
        beta, seen = action_shares(self.log.pair_counts, problem.allowed)
        counts = np.where(problem.allowed, self.log.pair_counts, 0)
        with np.errstate(divide="ignore"):  # infinite where nothing was seen or is allowed
            errors = np.sqrt(2 * np.log(2 * counts.size / self.delta) / counts)

        def improved(Q: FloatArray) -> FloatArray:
            out = beta.copy()
            for row, q, e in zip(out, Q, errors, strict=True):
                self._move(row, q, e)
            return np.asarray(out / out.sum(axis=1, keepdims=True))

        probs, v, status, rounds = improve(single, beta, improved, STAYS, self.max_rounds)
        stats = {
            "seconds": clock.elapsed,
            "rounds": rounds,
            "states_without_behaviour": int((~seen & problem.decided).sum()),
        }
        return finish(problem, self.name, problem.policy(probs), status, stats, v)

    def _move(self, row: FloatArray, q: FloatArray, e: FloatArray) -> None:
        """Move probability of one state upwards in Q, in place."""
        budget = self.epsilon
        # What is given up counts in "both": an action of infinite error keeps its probability.
        down = e if self.variant == "both" else np.zeros_like(e)
        for low in np.argsort(q, kind="stable"):
            if row[low] == 0:
                continue
            with np.errstate(invalid="ignore"):
                worth = np.where(np.isfinite(e), (q - q[low]) / e, -np.inf)
            for high in np.argsort(-worth, kind="stable"):
                if worth[high] <= 0 or row[low] <= 0 or budget <= 0:
                    break
                moved = min(row[low], budget / (e[high] + down[low]))
                row[low] -= moved
                row[high] += moved
                if moved > 0:
                    budget -= moved * (e[high] + down[low])


@final
@dataclass(frozen=True, slots=True, eq=False)
class RaMDP(Solver):
    """Optimal for the observed frequencies, with rewards lowered by κ/√n(s, a).

    κ is in units of the reward; half the range of the log's rewards by default, which is what the
    literature found best on its benchmark (2 where rewards are 0 … 4).
    """

    log: TransitionLog
    kappa: NotNegative | None = None
    name: ClassVar[str] = "ramdp"

    def solve(self, problem: Problem) -> Solution:
        """Solve the model of observed frequencies with lowered rewards."""
        clock = Deadline()
        single, _ = empirical_problem(problem, self.log, "RaMDP")
        counts = np.asarray(self.log.pair_counts)
        R = single.R[:, :, 0]
        seen = problem.allowed & (counts > 0)
        # Of what was never seen nothing better is known than the worst, for ever.
        worst = float(R[seen].min(initial=0.0)) / (1 - problem.gamma)
        kappa = self.kappa
        if kappa is None:
            rewards = R[seen] if self.log.reward is None else np.asarray(self.log.reward)
            kappa = (float(rewards.max()) - float(rewards.min())) / 2
        lowered = np.where(seen, R - kappa / np.sqrt(np.maximum(counts, 1)), worst)
        lowered = np.where(problem.decided[:, None], lowered, 0.0)
        optima = optimal_returns(replace(single, rewards=Rewards.of_pairs(lowered)))
        policy, stats = problem.policy(optima.decisions[0]), {"seconds": clock.elapsed}
        status = Status.TOLERANCE_REACHED
        return finish(problem, self.name, policy, status, stats | {"kappa": kappa}, optima.V[0])


@final
@dataclass(frozen=True, slots=True, eq=False)
class DUIPI(Solver):
    """Maximise the action value less ξ of its propagated standard deviations."""

    log: TransitionLog
    xi: NotNegative = 0.1
    prior: NotNegative = 0.0  # Dirichlet weight of every next state that the log knows
    max_rounds: Count = 3000
    name: ClassVar[str] = "duipi"

    def solve(self, problem: Problem) -> Solution:
        """Propagate values and variances together, the policy moving by 1/t in round t."""
        clock = Deadline()
        single, _ = empirical_problem(problem, self.log, "DUIPI")
        seen = problem.allowed & (np.asarray(self.log.pair_counts) > 0)
        usable = np.where(seen.any(axis=1, keepdims=True), seen, problem.allowed)
        rows, late = _Rows(self.log, self.prior, single), time_bound().part(SOLVER_SHARE)
        live = problem.decided
        probs = usable / usable.sum(axis=1, keepdims=True)
        Q, var_Q = np.zeros(usable.shape), np.zeros(usable.shape)
        status, rounds = Status.ITERATION_LIMIT, 0
        for rounds in range(1, self.max_rounds + 1):
            v = np.where(live, (probs * Q).sum(axis=1), 0.0)
            var_v = np.where(live, (probs**2 * var_Q).sum(axis=1), 0.0)
            before = Q
            Q, var_Q = (x.reshape(usable.shape) for x in rows.step(v, var_v, problem.gamma))
            if np.abs(Q - before).max() <= STAYS * max(1.0, float(np.abs(Q).max())):
                status = Status.TOLERANCE_REACHED
                break
            cautious = np.where(usable, Q - self.xi * np.sqrt(var_Q), -np.inf)
            probs = _towards(probs, cautious.argmax(axis=1), 1.0 / rounds)
            if late.passed:
                status = Status.TIME_LIMIT
                break
        stats = {"seconds": clock.elapsed, "rounds": rounds}
        policy = problem.policy(probs / probs.sum(axis=1, keepdims=True))
        v = np.where(live, (probs * Q).sum(axis=1), 0.0)
        return finish(problem, self.name, policy, status, stats, v)


@final
class _Rows:
    """What a log says of P, its variance and r: listed next states each, a pair's others alike.

    P and var are those of entries (nnz,), P0 and var0 of any other next state of a pair (S·A,);
    others pay r(s′) where the pair takes that and s′ is known (`by`, `told`), else r0.
    """

    def __init__(self, log: TransitionLog, prior: float, single: Problem) -> None:
        (S, A), rewards = log.shape, single.rewards
        pair, s_next, n = log.counts()
        seen = keys = pair * S + s_next
        if rewards.kind == "triple":
            keys = np.union1d(keys, np.asarray(rewards.keys))
        self.pair, self.s_next = np.divmod(keys, S)
        weight = np.zeros(keys.size)
        weight[found_at(keys, seen)[0]] = n
        total = np.bincount(pair, n, S * A) + prior * S
        # A single observation shows no spread; a variance on [0, 1] is at most ¼.
        less = np.asarray(total + 1 if prior > 0 else total - 1)
        all_of = np.maximum(total, 1e-300)
        self.P0, self.P = prior / all_of, (weight + prior) / all_of[self.pair]
        self.var0, self.var = _spread(self.P0, less), _spread(self.P, less[self.pair])
        self.r0 = single.R[:, :, 0].reshape(-1)
        self.r, self.by = self.r0[self.pair], np.zeros(S * A, dtype=bool)
        self.told, self.nexts = np.zeros(S, dtype=bool), np.zeros(S)
        if rewards.kind != "model":
            value, known = rewards.lookup(self.pair, self.s_next)
            self.r = np.where(known, value, self.r)
            self.r0 = np.where(rewards.known.reshape(-1), rewards.pairs.reshape(-1), self.r0)
        if rewards.nexts is not None and rewards.kind != "model":
            self.by = np.asarray(rewards.by_next).reshape(-1)
            self.told, self.nexts = np.asarray(rewards.next_listed), rewards.nexts
        self.var_R = np.zeros(S * A)  # of a pair's mean reward
        if log.reward is not None:
            own = log.s.astype(np.int64) * A + log.a
            many = log.pair_counts.reshape(-1)
            off = (log.reward - self.r[found_at(keys, own * S + log.s_next)[0]]) ** 2
            self.var_R = np.bincount(own, off, S * A) / np.maximum(many * (many - 1), 1)

    def step(self, v: FloatArray, var_v: FloatArray, gamma: float) -> tuple[FloatArray, FloatArray]:
        """Q and its variance, (S·A,), of the next values and their variances, (S,)."""
        k, t, z = self.pair, self.s_next, gamma * v
        after = self.r + z[t]
        # Of all next states as if none were listed; entries make up the difference.
        there = np.where(self.by[k] & self.told[t], self.nexts[t], self.r0[k]) + z[t]
        known, rest = (self.nexts + z)[self.told], np.where(self.by, (~self.told).sum(), v.size)
        z1, z2 = (np.where(self.by, x[~self.told].sum(), x.sum()) for x in (z, z**2))
        sums = self.by * known.sum() + rest * self.r0 + z1
        squares = self.by * (known**2).sum() + rest * self.r0**2 + 2 * self.r0 * z1 + z2
        Q = self.P0 * sums + self._total(self.P * after - self.P0[k] * there)
        var = self.P0**2 * var_v.sum() + self._total((self.P**2 - self.P0[k] ** 2) * var_v[t])
        var = gamma**2 * var + self.var0 * squares + self.var_R
        var += self._total(self.var * after**2 - self.var0[k] * there**2)
        return Q, np.maximum(var, 0.0)  # rounding

    def _total(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(self.pair, x, self.r0.size), dtype=np.float64)


def _spread(P: FloatArray, less: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.minimum(np.where(less > 0, P * (1 - P) / less, 0.25), 0.25)


def _towards(probs: FloatArray, best: IntArray, step: float) -> FloatArray:
    """Raise the best action of every state by `step`, at most to 1; the others shrink alike."""
    rows = np.arange(best.size)
    old = probs[rows, best]
    new = np.minimum(old + step, 1.0)
    rest = np.where(old < 1.0, (1.0 - new) / np.where(old < 1.0, 1.0 - old, 1.0), 0.0)
    out = np.asarray(probs * rest[:, None])
    out[rows, best] = new
    return out
