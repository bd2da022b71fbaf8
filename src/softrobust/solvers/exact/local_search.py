"""Local search for the static soft-robust optimum over deterministic policies (section 4.1).

From a decision rule d, one batched inverse gives the exact return of all S·A rules that differ
from d in one state, in every model (see `kernels.exchange`). Two moves are tried in turn:

    block   in every state the action of best first-order change
            Σ_ω ξ_ω h_ω(s)·[R + γPᵀv_ω − v_ω(s)], ξ the worst case of d: many states at once,
            kept only if the exact value rises;
    one     the best single exchange by exact value.

Where neither helps, d is a local optimum of its one-exchange neighbourhood.

That neighbourhood costs N·S³ per step. Beyond its reach a step costs one exact evaluation and one
pass over the models: every state whose best first-order change is positive moves at once, and where
that does not raise the exact value, only the quarter of them that promise most, then a quarter of
those, down to one state. A rule from which not even that one rises is returned. With a horizon, a
search over stationary policies goes the same way, and where it is quick, tries every single
exchange exactly in the end; one over policies with a rule for each step is in `exact.horizon`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, final

import numpy as np

from softrobust._core.arrays import FloatArray, IntArray, fits
from softrobust._core.limits import NO_LIMIT, Deadline, OutOfTime, Seconds, Seed
from softrobust._core.settings import Count
from softrobust.bounds.reduction import Reduced, onto, reduce
from softrobust.kernels.evaluate import first_order
from softrobust.kernels.tail import best_row
from softrobust.models.policy import Policy
from softrobust.objective import Percentile
from softrobust.problem import Problem
from softrobust.returns import (
    ModelOptima,
    evaluate_policy,
    measured,
    nominal_optima,
    optimal_returns,
    reference_returns,
    return_gradients,
    static_return,
)
from softrobust.solvers.base import Solution, Solver, Status, finish
from softrobust.solvers.exact.horizon import search_timed

PARALLEL_WORK = 2_000_000  # N·S³ below which threads cost more than they bring,
PARALLEL_READ = 200_000  # and stored probabilities
EXCHANGE_WORK = 2e9  # N·S³ above which only block moves are tried (seconds per step)
EXCHANGE_NUMBERS = 1e8  # S·A·N above which the neighbours' returns would not fit
INVERSE_NUMBERS = 1e7  # N·S² above which inverses are not kept from one exchange to the next,
REFRESH = 32  # and exchanges after which they are computed anew
SINGLES_WORK = 2e9  # H·S·A times stored probabilities above which no single exchange is tried
CLIMB_SECONDS = 1.0  # for one climb at least, however late it is
RISE = 1e-12  # a move must raise the value by more than this share of the returns' size,
BLOCK_RISE = 1e-10  # and where systems are solved to a tolerance, by more than this


@final
@dataclass(frozen=True, slots=True)
class LocalSearch(Solver):
    """Multi-start one-exchange search; a good policy at once, without a proof.

    Parameters
    ----------
    starts : int
        How many starting rules: the nominal one, the majority of the models' own optimal rules,
        the optimal rule of the models' worst case, then models' own optimal rules and random
        rules in turn.
    seed : int or Generator
        Draws the random starts.
    time_limit : float, optional
        Seconds; the best rule so far comes back.
    stationary : bool
        With a horizon: one rule for all steps instead of one for each.
    start : Policy, optional
        One more rule to start from (its likeliest actions).
    """

    starts: Count = 10
    seed: Seed = 0
    time_limit: Seconds | None = None
    stationary: bool = False
    start: Policy | None = None
    name: ClassVar[str] = "local-search"

    def solve(self, problem: Problem) -> Solution[Any]:
        """Search from every start and keep the best rule."""
        deadline = Deadline(self.time_limit)
        if problem.horizon is not None and not self.stationary:
            return search_timed(problem, self.starts, self.seed, deadline, self.name)
        reduced = reduce(problem)
        given = None if self.start is None else onto(self.start.decision, reduced.allowed)
        found = search(reduced, self.starts, self.seed, deadline, given=given)
        stats = {
            "seconds": deadline.elapsed,
            "starts": found.starts,
            "moves": found.moves,
            "hits": found.hits,
            "neighbourhood": found.neighbourhood,
        }
        policy = policy_of(problem, reduced, found.decision)
        return finish(problem, self.name, policy, found.status, stats)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The best decision (n_states,) of a search, its value, and how the search went.

    `hits` counts the starts that ended at the best value.
    """

    decision: IntArray
    value: float
    starts: int
    moves: int
    hits: int
    status: Status  # local_optimum, time_limit or interrupted
    neighbourhood: str


def policy_of(problem: Problem, reduced: Reduced, decision: IntArray) -> Policy:
    """The decision as a policy with the problem's labels.

    Where no model ever comes, every action is as good: the nominal one is named there, which is
    what one would want if a model came there after all.
    """
    if not reduced.reachable.all():
        nominal = nominal_optima(problem).decisions[0]
        decision = np.where(reduced.reachable, decision, nominal)
    return problem.policy(decision)


def search(
    reduced: Reduced,
    starts: int,
    seed: int | np.random.Generator,
    deadline: Deadline,
    optima: ModelOptima | None = None,
    given: IntArray | None = None,
    agree: int | None = None,
) -> Found:
    """Climb from `given` and `starts` rules; Ctrl-C or the deadline end it with the best so far.

    Where the first `agree` of them have all come to the same value, no more are made.

    The first climb gets `CLIMB_SECONDS` however early the deadline is: what
    comes back is the search's policy, never the rule that it set out from, unless that was given.
    """
    climber = make_climber(reduced)
    decision: IntArray | None = None
    best, tried, hits = -np.inf, 0, 0
    status = Status.LOCAL_OPTIMUM
    seen: set[bytes] = set()
    try:
        first = [] if given is None else [given]
        for start in chain(first, starting_rules(reduced, starts, seed, optima, deadline)):
            if decision is not None and deadline.passed:
                status = Status.TIME_LIMIT
                break
            if agree is not None and hits == tried == agree:
                break
            tried += 1
            if start.tobytes() in seen:
                continue
            seen.add(start.tobytes())
            known = decision is not None or given is not None
            until = deadline if known else deadline.at_least(CLIMB_SECONDS)
            try:
                end, value, settled = climber.climb(start, until)
            except OutOfTime:  # not even this start's own value was known in time
                status = Status.TIME_LIMIT
                break
            status = status if settled else Status.TIME_LIMIT
            tie = climber.rise(value)
            if value > best + tie:
                decision, best, hits = end, value, 1
            elif value >= best - tie:
                hits += 1
    except KeyboardInterrupt:
        reached = climber.reached
        if reached is not None and reached[1] > best:
            decision, best, hits = *reached, 1
        if decision is None:
            raise
        status = Status.INTERRUPTED
    assert decision is not None  # there is always a first start
    return Found(decision, best, tried, climber.moves, hits, status, climber.neighbourhood)


def starting_rules(
    reduced: Reduced,
    starts: int,
    seed: int | np.random.Generator,
    optima: ModelOptima | None = None,
    deadline: Deadline = NO_LIMIT,
) -> Iterator[IntArray]:
    """Nominal, majority, worst case, then the models' own rules and random ones in turn."""
    problem, allowed = reduced.problem, reduced.allowed
    f = problem.models.f
    yield onto(nominal_optima(problem).decisions[0], allowed)
    if starts == 1:
        return
    own = optimal_returns(problem, deadline=deadline) if optima is None else optima
    votes = np.zeros(allowed.shape)
    xi = problem.objective.worst_case(measured(problem, own.V @ problem.p0), f)
    for weight, rule in zip(xi, own.decisions, strict=True):
        votes[np.arange(rule.size), rule] += weight
    yield np.argmax(np.where(allowed, votes, -1.0), axis=1)
    if starts == 2:
        return
    yield onto(optimal_returns(problem.mean_problem(xi)).decisions[0], allowed)
    rng = np.random.default_rng(seed)
    order = rng.permutation(f.size)
    for i in range(starts - 3):
        if i % 2 == 0 and i // 2 < order.size:
            yield onto(own.decisions[order[i // 2]], allowed)
        else:
            yield np.argmax(np.where(allowed, rng.random(allowed.shape), -1.0), axis=1)


def make_climber(reduced: Reduced) -> Climber:
    """The exact neighbourhood where it can be had, in time and memory; block moves beyond."""
    S, A, N = reduced.problem.R.shape
    if reduced.problem.horizon is not None:
        return BlockClimber(reduced)
    numbers = 4 * S * A * N + 4 * S**2 + 2 * min(N * S**2, INVERSE_NUMBERS)
    if N * S**3 > EXCHANGE_WORK or S * A * N > EXCHANGE_NUMBERS or not fits(8.0 * numbers):
        return BlockClimber(reduced)
    return ExchangeClimber(reduced)


class Climber(ABC):
    """The moves of the search on one problem, with what they have met.

    `reached` is the rule of the last climb with its value, even of one that was cut short.
    """

    neighbourhood: ClassVar[str]
    least_rise: ClassVar[float]

    def __init__(self, reduced: Reduced) -> None:
        self.reduced, self.moves, self.size = reduced, 0, 0.0
        self.x = np.zeros(reduced.problem.n_models)  # of the rule evaluated last: x − c
        self.reached: tuple[IntArray, float] | None = None

    def rise(self, value: float) -> float:
        """The least rise that counts as one, given the size of the returns met."""
        return self.least_rise * max(self.size, abs(value))

    def worst_case(self) -> FloatArray:
        """ξ of the rule evaluated last."""
        p = self.reduced.problem
        return p.objective.worst_case(self.x, p.models.f)

    @abstractmethod
    def neighbours(self, decision: IntArray) -> float:
        """Evaluate the decision exactly, and what its moves promise; its value."""

    @abstractmethod
    def climb(self, decision: IntArray, deadline: Deadline) -> tuple[IntArray, float, bool]:
        """Moves until none helps; the rule, its exact value, and whether no move was left."""


@final
class ExchangeClimber(Climber):
    """Block moves and exact single exchanges."""

    neighbourhood: ClassVar[str] = "one exchange"
    least_rise: ClassVar[float] = RISE

    def __init__(self, reduced: Reduced) -> None:
        super().__init__(reduced)
        p = reduced.problem
        self.X, self.gain = np.zeros((2, p.n_states * p.n_actions, p.n_models))
        S, N = p.n_states, p.n_models
        self.kept = N * S**2 <= INVERSE_NUMBERS
        self.inverses = np.zeros((N if self.kept else 1, S, S))
        known = self.X, self.gain, self.x, self.inverses
        self.spare: tuple[FloatArray, ...] = tuple(np.zeros_like(part) for part in known)
        self.ends: dict[bytes, tuple[IntArray, float]] = {}  # of every rule climbed through
        self.live = np.ascontiguousarray(reduced.allowed).reshape(-1)
        self.threads = p.n_models * p.n_states**3 > PARALLEL_WORK

    def neighbours(self, decision: IntArray, s: int = -1, old: int = 0) -> float:
        """Fill X, gain and x for the decision; its value.

        Where s ≥ 0, what was put aside last is of the rule that takes `old` there, and helps.
        """
        from softrobust.kernels.exchange import exchange_returns

        p = self.reduced.problem
        m = p.models
        exchange_returns(
            self.threads, 0, p.n_models, m.indptr, m.next_states, m.prob, p.R, p.p0,
            self.reduced.allowed, decision, p.gamma, s, old, self.spare[3], self.inverses,
            self.X, self.gain, self.x,
        )  # fmt: skip
        self.size = max(self.size, float(np.abs(self.x).max()))
        if p.objective.reference is not None:
            self.x -= reference_returns(p)
            self.X -= reference_returns(p)
        return p.objective.value(self.x, m.f)

    def climb(self, decision: IntArray, deadline: Deadline) -> tuple[IntArray, float, bool]:
        """Block moves while they help, then single exchanges: to a local optimum of these."""
        self.reached = None
        value = self.neighbours(decision)
        self.reached = decision, value
        path, block = [decision.tobytes()], True
        age, quick = 0, self.kept  # exchanges since inverses were computed
        while not deadline.passed:
            candidate = self.block_move(decision) if block else self.one_move(decision, value)
            risen, new = -np.inf, 0 if block or not quick or age == REFRESH else age + 1
            if candidate is not None:
                self._exchange()
                s = int(np.argmax(candidate != decision)) if new else -1
                risen = self.neighbours(candidate, s, int(decision[s]))
            if candidate is not None and risen > value + self.rise(value):
                self.reached = decision, value = candidate, risen
                self.moves, age = self.moves + 1, new
                if decision.tobytes() in self.ends:  # another climb came by here
                    self.reached = decision, value = self.ends[decision.tobytes()]
                    return decision, value, True
                path.append(decision.tobytes())
                continue
            if candidate is not None:  # not better when recomputed exactly
                self._exchange()
            if age:  # rounding adds up: the last moves are looked for without
                value, age, quick = self.neighbours(decision), 0, False
                self.reached = decision, value
                continue
            if not block:
                self.ends.update(dict.fromkeys(path, (decision, value)))
                return decision, value, True
            block = False
        return decision, value, False

    def _exchange(self) -> None:
        """Put what is known of one rule aside, or take it back."""
        known = self.X, self.gain, self.x, self.inverses
        self.X, self.gain, self.x, self.inverses = self.spare
        self.spare = known

    def block_move(self, decision: IntArray) -> IntArray | None:
        """Every state's action of best first-order change under the worst-case ξ."""
        gain = self.gain @ self.worst_case()
        score = np.where(self.live, gain, -np.inf).reshape(self.reduced.allowed.shape)
        best = np.argmax(score, axis=1)
        rows = np.arange(decision.size)
        better = score[rows, best] > score[rows, decision] + self.rise(0.0)
        if not better.any():
            return None
        return np.where(better, best, decision)

    def one_move(self, decision: IntArray, value: float) -> IntArray | None:
        """The single exchange of greatest exact value, if it rises."""
        p = self.reduced.problem
        floor = value + self.rise(value)
        if isinstance(p.objective, Percentile):
            scores = np.where(self.live, p.objective.values(self.X, p.models.f), -np.inf)
            k = int(np.argmax(scores))
            k = k if scores[k] > floor else -1
        else:
            lam, alpha = p.objective.lam, p.objective.alpha
            k, _ = best_row(self.X, self.live, p.models.f, lam, alpha, self.worst_case(), floor)
        if k < 0:
            return None
        candidate = decision.copy()
        candidate[k // p.n_actions] = k % p.n_actions
        return candidate


@final
class BlockClimber(Climber):
    """Block moves by first-order change only, for problems whose inverses would not fit."""

    neighbourhood: ClassVar[str] = "blocks of states"
    least_rise: ClassVar[float] = BLOCK_RISE

    def __init__(self, reduced: Reduced) -> None:
        super().__init__(reduced)
        self.evaluated = False
        self.V = self.h = np.zeros((0, 0))

    def neighbours(self, decision: IntArray, deadline: Deadline = NO_LIMIT) -> float:
        """Evaluate the decision exactly; its value. All but the first may be `OutOfTime`."""
        p = self.reduced.problem
        until = deadline if self.evaluated else NO_LIMIT
        self.V, self.h = evaluate_policy(p, p.policy(decision), until)
        self.evaluated = True
        self.x = self.V @ p.p0
        self.size = max(self.size, float(np.abs(self.x).max()))
        self.x = measured(p, self.x)
        return p.objective.value(self.x, p.models.f)

    def climb(self, decision: IntArray, deadline: Deadline) -> tuple[IntArray, float, bool]:
        """Ever smaller blocks until none helps; an evaluation that is cut short is dropped."""
        self.reached = None
        value = self.neighbours(decision, deadline)
        while True:
            self.reached = decision, value
            target, gain = self._moves(decision)
            order = np.argsort(-gain, kind="stable")
            n = int((gain > self.rise(value)).sum())
            risen = False
            while n >= 1 and not risen and not deadline.passed:
                candidate = decision.copy()
                candidate[order[:n]] = target[order[:n]]
                try:
                    new = self.neighbours(candidate, deadline)
                except OutOfTime:
                    return decision, value, False
                if new > value + self.rise(value):
                    decision, value, risen = candidate, new, True
                    self.moves += 1
                n //= 4
            if not risen:
                single = self._exchange(decision, value, gain, deadline)
                if single is None:
                    return decision, value, not deadline.passed
                decision, value = single

    def _exchange(
        self, decision: IntArray, value: float, gain: FloatArray, deadline: Deadline
    ) -> tuple[IntArray, float] | None:
        """With a horizon: the first single exchange that rises, states of most promise first."""
        p, live = self.reduced.problem, self.reduced.allowed
        if p.horizon is None or p.horizon * live.sum() * p.models.prob.size > SINGLES_WORK:
            return None
        for s in np.argsort(-gain, kind="stable"):
            for a in np.flatnonzero(live[s]):
                if a == decision[s] or deadline.passed:
                    continue
                candidate = decision.copy()
                candidate[s] = a
                new = static_return(p, p.policy(candidate))
                if new > value + self.rise(value):
                    self.moves += 1
                    return candidate, self.neighbours(candidate)
        self.neighbours(decision)
        return None

    def _moves(self, decision: IntArray) -> tuple[IntArray, FloatArray]:
        """Every state's action of best first-order change, and how much it promises."""
        p = self.reduced.problem
        m = p.models
        score = np.empty(self.reduced.allowed.shape)
        if p.horizon is not None:
            worth = return_gradients(p, p.policy(decision))[1]
            score = np.einsum("n,nsa->sa", self.worst_case(), worth)
            score[~self.reduced.allowed] = -1e308
        else:
            first_order(
                m.prob.size > PARALLEL_READ, 0, p.n_states, m.indptr, m.next_states, m.prob, p.R,
                self.reduced.allowed, p.gamma, self.worst_case(), self.V, self.h, score,
            )  # fmt: skip
        best = np.argmax(score, axis=1)
        rows = np.arange(decision.size)
        return best, score[rows, best] - score[rows, decision]
