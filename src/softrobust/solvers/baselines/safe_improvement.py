"""Rivals of SPIBB that improve the policy of a log, each with its own caution.

All three solve the empirical model n(s,a,s′)/n(s,a), with counts n(s,a) and the log's policy β:

    Soft-SPIBB   (Nadjahi, Laroche, Tachet des Combes 2019)   e(s,a) = √(2 ln(2SA/δ)/n(s,a)),
                 "both"  : Σ_a e(s,a)·|π(a|s) − β(a|s)| ≤ ε
                 "raised": Σ_a e(s,a)·max(0, π(a|s) − β(a|s)) ≤ ε   (Scholl et al. 2022, "lower")
    RaMDP        (Petrik, Ghavamzadeh, Chow 2016)             r(s,a) − κ/√n(s,a)
    DUIPI        (Schneegass, Hans, Udluft 2010)              maximises Q − ξ·σ(Q), where
                 σ²Q = γ²Σ P²·σ²V + Σ (r + γV)²·σ²P + σ²R,  σ²V = Σ_a π²·σ²Q

and every one is iterated to where it stays. Soft-SPIBB moves probability from the worst action to
the one of most advantage per error, as long as the budget ε lasts (the authors' approximation of a
linear programme), and keeps a state's old policy where the move does not pay. DUIPI gives actions
that were never seen no probability (Scholl et al.): their variance is as unknown as their value.
Its variances leave out covariances, so they change when a constant is added to all rewards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, final

import numpy as np

from softrobust._core.arrays import FloatArray, IntArray
from softrobust._core.limits import Deadline
from softrobust._core.settings import instance, one_of, real, whole
from softrobust.data import TransitionLog
from softrobust.data.rewards import Rewards
from softrobust.errors import InputError
from softrobust.models.policy import Policy
from softrobust.problem import Problem
from softrobust.returns import optimal_returns
from softrobust.solvers.base import Solution, Solver, Status, finish
from softrobust.solvers.baselines.behaviour import action_shares
from softrobust.solvers.baselines.nominal import empirical_problem
from softrobust.solvers.baselines.spibb import improve
from softrobust.solvers.rectangular.fixed_point import deterministic

STAYS = 1e-9  # of the size of the values: what moves less stays


@final
@dataclass(frozen=True, slots=True, eq=False)
class SoftSPIBB(Solver):
    """Leave the log's own policy as far as an error budget allows.

    Parameters
    ----------
    log : TransitionLog
        Gives the counts and the behaviour policy.
    epsilon : float
        The budget ε of a state; 0 is the behaviour policy.
    variant : "raised" or "both"
        Whether only raised probabilities count against the budget, or lowered ones too.
    delta : float
        δ of the error bound, in (0, 1].
    max_rounds : int
        Rounds of evaluation and improvement at most.
    """

    log: TransitionLog
    epsilon: float = 0.5
    variant: Literal["raised", "both"] = "raised"
    delta: float = 1.0
    max_rounds: int = 1000
    name: ClassVar[str] = "soft-spibb"

    def __post_init__(self) -> None:
        instance("log", self.log, TransitionLog)
        one_of("variant", self.variant, ("raised", "both"))
        if not self.epsilon >= 0:  # infinite is any policy
            raise InputError(f"epsilon is an error budget, at least 0; it is {self.epsilon}.")
        if not 0 < self.delta <= 1:
            raise InputError(f"delta is a probability above 0; it is {self.delta}.")
        whole("max_rounds", self.max_rounds)

    def solve(self, problem: Problem) -> Solution:
        """Improve, evaluate, and begin again from β, until nothing moves."""
        clock, m = Deadline(), problem.models
        single, _ = empirical_problem(problem, self.log, "Soft-SPIBB")
        beta, seen = action_shares(self.log, problem.allowed)
        errors = self._errors(problem)
        probs, v, status, rounds = improve(
            single, beta, lambda Q: self._improved(Q, beta, errors), STAYS, self.max_rounds
        )
        stats = {
            "seconds": clock.elapsed,
            "rounds": rounds,
            "states_without_behaviour": int((~seen & problem.decided).sum()),
        }
        policy = Policy(probs, m.states, m.actions, problem.decided)
        return finish(problem, solver=self.name, policy=policy, v=v, status=status, stats=stats)

    def _errors(self, problem: Problem) -> FloatArray:
        """e(s, a), infinite where nothing was seen or nothing is allowed."""
        counts = np.where(problem.allowed, self.log.pair_counts, 0)
        level = 2 * np.log(2 * counts.size / self.delta)
        with np.errstate(divide="ignore"):
            return np.asarray(np.sqrt(level / counts))

    def _improved(self, Q: FloatArray, beta: FloatArray, errors: FloatArray) -> FloatArray:
        out = beta.copy()
        for row, q, e in zip(out, Q, errors, strict=True):
            self._move(row, q, e)
        return np.asarray(out / out.sum(axis=1, keepdims=True))

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

    Parameters
    ----------
    log : TransitionLog
        Gives the counts.
    kappa : float, optional
        In units of the reward; half the range of the log's rewards by default, which is what the
        literature found best on its benchmark (2 where rewards are 0 … 4).
    """

    log: TransitionLog
    kappa: float | None = None
    name: ClassVar[str] = "ramdp"

    def __post_init__(self) -> None:
        instance("log", self.log, TransitionLog)
        if self.kappa is not None:
            real("kappa", self.kappa, least=0)

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
        return finish(
            problem,
            solver=self.name,
            policy=deterministic(problem, optima.decisions[0]),
            v=optima.V[0],
            status=Status.TOLERANCE_REACHED,
            stats={"seconds": clock.elapsed, "kappa": kappa},
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class DUIPI(Solver):
    """Maximise the action value less ξ of its propagated standard deviations.

    Parameters
    ----------
    log : TransitionLog
        Gives the counts and the spread of rewards.
    xi : float
        How many standard deviations to subtract.
    prior : float
        Dirichlet weight of every next state that the log knows; 0 takes frequencies alone.
    max_rounds : int
        Rounds of the joint iteration at most.
    """

    log: TransitionLog
    xi: float = 0.1
    prior: float = 0.0
    max_rounds: int = 3000
    name: ClassVar[str] = "duipi"

    def __post_init__(self) -> None:
        instance("log", self.log, TransitionLog)
        real("xi", self.xi, least=0)
        real("prior", self.prior, least=0)
        whole("max_rounds", self.max_rounds)

    def solve(self, problem: Problem) -> Solution:
        """Propagate values and variances together, the policy moving by 1/t in round t."""
        clock = Deadline()
        single, _ = empirical_problem(problem, self.log, "DUIPI")
        seen = problem.allowed & (np.asarray(self.log.pair_counts) > 0)
        usable = np.where(seen.any(axis=1, keepdims=True), seen, problem.allowed)
        P, var_P = self._rows(problem)
        r, var_R = self._rewards(single)
        live = problem.decided
        probs = usable / usable.sum(axis=1, keepdims=True)
        Q, var_Q = np.zeros(usable.shape), np.zeros(usable.shape)
        status, rounds = Status.ITERATION_LIMIT, 0
        for rounds in range(1, self.max_rounds + 1):
            v = np.where(live, (probs * Q).sum(axis=1), 0.0)
            var_v = np.where(live, (probs**2 * var_Q).sum(axis=1), 0.0)
            before = Q
            after = r + problem.gamma * v
            Q = np.einsum("sat,sat->sa", P, after)
            var_Q = problem.gamma**2 * (P**2 @ var_v) + var_R
            var_Q += np.einsum("sat,sat->sa", after**2, var_P)
            if np.abs(Q - before).max() <= STAYS * max(1.0, float(np.abs(Q).max())):
                status = Status.TOLERANCE_REACHED
                break
            cautious = np.where(usable, Q - self.xi * np.sqrt(var_Q), -np.inf)
            probs = _towards(probs, cautious.argmax(axis=1), 1.0 / rounds)
        m = problem.models
        stats = {"seconds": clock.elapsed, "rounds": rounds}
        policy = Policy(probs / probs.sum(axis=1, keepdims=True), m.states, m.actions, live)
        v = np.where(live, (probs * Q).sum(axis=1), 0.0)
        return finish(problem, solver=self.name, policy=policy, v=v, status=status, stats=stats)

    def _rows(self, problem: Problem) -> tuple[FloatArray, FloatArray]:
        """P and the variance of each of its entries, both (n_states, n_actions, n_states)."""
        S, A = self.log.shape
        pair, s_next, n = self.log.counts()
        weight = np.zeros((S * A, S))
        weight[pair, s_next] = n
        weight = weight.reshape(S, A, S) + self.prior
        total = weight.sum(axis=2, keepdims=True)
        P = weight / np.maximum(total, 1e-300)
        # A single observation shows no spread; a variance on [0, 1] is at most ¼.
        less = total + 1 if self.prior > 0 else total - 1
        with np.errstate(divide="ignore", invalid="ignore"):
            var = np.where(less > 0, P * (1 - P) / less, 0.25)
        return P, np.minimum(var, 0.25)

    def _rewards(self, single: Problem) -> tuple[FloatArray, FloatArray]:
        """r (n_states, n_actions, n_states), and the variance of a pair's mean reward."""
        S, A = self.log.shape
        every = np.arange(S * A)
        r = np.repeat(single.R[:, :, 0].reshape(-1, 1), S, axis=1)
        if single.rewards.kind != "model":
            value, known = single.rewards.lookup(np.repeat(every, S), np.tile(np.arange(S), S * A))
            r = np.where(known.reshape(-1, S), value.reshape(-1, S), r)
        var = np.zeros(S * A)
        if self.log.reward is not None:
            keys = self.log.s.astype(np.int64) * A + self.log.a
            n = np.bincount(keys, minlength=S * A)
            off = (self.log.reward - r[keys, self.log.s_next]) ** 2
            total = np.bincount(keys, weights=off, minlength=S * A)
            var = total / np.maximum(n * (n - 1), 1)
        return r.reshape(S, A, S), var.reshape(S, A)


def _towards(probs: FloatArray, best: IntArray, step: float) -> FloatArray:
    """Raise the best action of every state by `step`, at most to 1; the others shrink alike."""
    rows = np.arange(best.size)
    old = probs[rows, best]
    new = np.minimum(old + step, 1.0)
    rest = np.where(old < 1.0, (1.0 - new) / np.where(old < 1.0, 1.0 - old, 1.0), 0.0)
    out = np.asarray(probs * rest[:, None])
    out[rows, best] = new
    return out
