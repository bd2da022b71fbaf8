"""SR-MILP as a sparse matrix (figure 2 of the paper), in two forms.

    maximise   (1 − λ)·Σ_ω f_ω ρ_ω + λ·(b − Σ_ω f_ω y_ω/(1 − α)),
               ρ_ω = Σ_{s,a} R(s,a,ω)·u(s,a,ω)
    subject to y_ω ≥ b − ρ_ω,  y ≥ 0,
               Σ_a u(s,a,ω) − γ·Σ_{s',a'} P̂^ω(s|s',a')·u(s',a',ω) = p₀(s),
               Σ_a π(s,a) = 1,  π binary,  m_ω(s,a)·π(s,a) ≤ u(s,a,ω) ≤ M_ω(s,a)·π(s,a).

`strengthened` is this: u unscaled (f-scaled values sit near a solver's tolerances), with least and
greatest occupancies m and M. `paper` is the figure as printed: u and y scaled by f, m = 0 and
M = f/(1 − γ), or f·Σp₀/(1 − γσ) where a row sum σ or Σp₀ exceeds 1 (within the tolerance of 1e-8):
the printed M would then cut off what it is to allow. In both forms, α = 1 replaces y by b ≤ ρ_ω
(there is no 1/(1 − α)), and where the objective is the mean alone (λ = 0 or α = 0) b and y are left
out: they would be free to run away.

# ERRATUM: u > 0 implies π = 1, not the converse (figure 1's text): a state that is never reached
# leaves π free.

The percentile criterion (eq. 2.1) counts the models below b instead:

    maximise b   subject to   b ≤ ρ_ω + C_ω·z_ω,   Σ_ω f_ω z_ω ≤ 1 − α,   z binary,

with C_ω the room between the clairvoyant value, which b cannot exceed, and the least return of
model ω. At least one model is not below b (which only α = 0 would allow).

Where the objective has a reference that earns c_ω, ρ_ω − c_ω takes the place of ρ_ω: constants on
the right-hand sides, and one beside the objective.

Rewards are moved and scaled for a solver whose tolerances are absolute: HiGHS meets a constraint to
within 1e-9 at best, which rewards of 1e6 at γ = .99 (returns of 1e8) put below the spacing of
floating-point numbers. For any constants C and unit > 0,

    R'(s,a,ω) = [R(s,a,ω) − C·(1 − γσ_ω(s,a))]/unit,      σ_ω(s,a) = Σ_s' P̂^ω(s'|s,a),

gives ρ'(π, P̂^ω) = [ρ(π, P̂^ω) − C·Σp₀]/unit for every policy: summed over all states, the balance of
flows reads Σ u(s,a,ω)·(1 − γσ) = Σp₀. That holds for row sums that miss 1 too. Mean, CVaR and
quantiles move and scale with the returns, so a bound of the moved program is moved back, with what
rounding can have done to R'.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, final

import numpy as np
from scipy import sparse

from softrobust._core.arrays import BoolArray, FloatArray, IntArray, refuse_if_too_large
from softrobust._core.limits import NO_LIMIT, Deadline
from softrobust.bounds import clairvoyant_bound
from softrobust.bounds.advantage import occupancy_bounds
from softrobust.bounds.reduction import EPS, least_reach, pair_sums, reach, sum_error, widest_row
from softrobust.objective import EDGE, Percentile
from softrobust.problem import Problem
from softrobust.returns import reference_returns

Formulation = Literal["strengthened", "paper"]
FORMULATIONS = ("strengthened", "paper")
Block = tuple[Any, FloatArray, FloatArray]  # a matrix, and the bounds of its rows
MOST_COVERED = 10  # models of unequal weight whose heavy sets are listed
# Of Σu = 1/(1 − γ): a solver's tolerance, left between occupancies and their bounds, and bounds so
ROOM, LEAST = 1e-6, 1e-3  # small that its presolve would take u for 0 or π for free.
OFFSET = 10.0  # rewards are moved when their middle is this many times their half-range from 0,
SCALE = 1 / 16, 1e3  # and scaled to order 1 when the largest is then outside
ENTRY_BYTES = 100.0  # of the matrix: indices while it is built, then HiGHS's own copies


@final
@dataclass(frozen=True, slots=True, eq=False)
class Conditioned:
    """R' (n_states, n_actions, n_models), and the way back: ρ = unit·ρ' + shift ± error.

    `c` (n_models,) is what a reference earns, in the same terms; of a difference nothing is moved.
    """

    R: FloatArray
    c: FloatArray
    unit: float = 1.0
    shift: float = 0.0
    error: float = 0.0

    @classmethod
    def plain(cls, problem: Problem) -> Conditioned:
        """The problem's own rewards."""
        return cls(problem.R, reference_returns(problem))

    def there(self, value: float) -> float:
        """A return in the units of the program."""
        return (value - self.shift) / self.unit

    def back(self, value: float) -> float:
        """A return of the program in the problem's units."""
        return value * self.unit + self.shift


def condition(problem: Problem, allowed: BoolArray) -> Conditioned:
    """Move and scale the rewards of allowed pairs where their size asks for it.

    Most problems stay as they are.
    """
    values = problem.R[allowed]
    high, low = float(values.max()), float(values.min())
    largest, middle, half = max(abs(high), abs(low)), 0.5 * (high + low), 0.5 * (high - low)
    R, C, each, error = problem.R, 0.0, 0.0, 0.0
    if abs(middle) > OFFSET * half:
        sums = pair_sums(problem)
        keeps = 1 - problem.gamma * sums  # row sums that miss 1 count in full where γ is near it
        C = middle / float(np.median(keeps[allowed]))
        moved = (problem.R - C * keeps)[allowed]
        C += 0.5 * float(moved.max() + moved.min()) / float(np.median(keeps[allowed]))
        R = np.where(allowed[:, :, None], R - C * keeps, 0.0)
        # Each R' is off by the rounding of a sum of a row's entries and of four operations.
        each = (widest_row(problem) + 8) * EPS * (largest + 2 * abs(C))
        error = float(reach(problem, sums).max()) * each
    shift = C * float(problem.p0.sum())
    error += (problem.n_states + 4) * EPS * abs(shift)
    rest = max(float(np.abs(R[allowed]).max()), each)  # what rounding leaves of equal rewards is 0
    unit = 1.0
    if rest > 0 and not SCALE[0] <= rest <= SCALE[1]:
        unit = float(2.0 ** np.round(np.log2(rest)))  # a power of two: scaling is exact
    c = reference_returns(problem)
    if problem.objective.reference is not None:  # it is moved as the returns are
        c, shift = c - shift, 0.0
    return Conditioned(R if unit == 1.0 else R / unit, c / unit, unit, shift, error)


@final
@dataclass(frozen=True, slots=True, eq=False)
class MilpModel:
    """Columns π (n_pairs, binary), u (n_pairs·N, model fastest), then b and y if there are any."""

    pairs: IntArray  # (n_pairs,) the allowed pairs k = s·A + a, in order
    cost: FloatArray  # (n_columns,) to be maximised
    lower: FloatArray  # (n_columns,)
    upper: FloatArray  # (n_columns,)
    scale: FloatArray  # (n_models,) u is scale_ω times the occupancy: f for `paper`, else 1
    has_b: bool
    has_y: bool = False
    n_flows: int = 0  # rows at the beginning: the balance of every state in every model
    n_switches: int = 0  # binary columns at the end, one per model (percentile criterion)
    matrix: Any = None  # of the constraints, and their bounds
    row_lower: Any = None
    row_upper: Any = None
    constant: float = 0.0  # beside cost: what the reference takes off the objective
    norm: float = 1.0  # u, b and y are this many times what they say,
    gain: float = 1.0  # and the objective this many times what they give

    def normalised(self, norm: float, gain: float) -> MilpModel:
        """The same program in norm·u, norm·b and norm·y, with its objective times gain.

        With norm = 1 − γ and gain = N all numbers are of order 1, as a solver with absolute
        tolerances takes them to be. A row that holds u, b or y is multiplied by norm as a whole,
        so that only its binary columns and its right-hand side change. The balance of flows is
        then multiplied back, by a power of two: what is left of it counts against p₀.
        """
        whole = np.zeros(self.cost.size, dtype=bool)
        whole[: self.pairs.size] = True
        whole[self.cost.size - self.n_switches :] = True
        column = np.repeat(np.arange(self.cost.size), np.diff(self.matrix.indptr))
        mixed = np.zeros(self.row_lower.size, dtype=bool)
        mixed[self.matrix.indices[~whole[column]]] = True
        matrix = self.matrix.copy()
        matrix.data[whole[column] & mixed[self.matrix.indices]] *= norm
        rows, columns = np.where(mixed, norm, 1.0), np.where(whole, 1.0, norm)
        flow = np.where(np.arange(mixed.size) < self.n_flows, 2.0 ** -np.round(np.log2(norm)), 1.0)
        matrix.data *= flow[self.matrix.indices]
        rows *= flow
        return replace(
            self,
            cost=self.cost * gain,
            constant=self.constant * norm * gain,
            lower=self.lower * columns,
            upper=self.upper * columns,
            matrix=matrix,
            row_lower=self.row_lower * rows,
            row_upper=self.row_upper * rows,
            norm=self.norm * norm,
            gain=self.gain * gain,
        )

    def value(self, objective: float) -> float:
        """A value of the objective in the units of the rewards."""
        return objective / (self.norm * self.gain)

    def names(self, n_actions: int) -> list[str]:
        """Column names by index: pi_s_a, u_s_a_w, b, y_w."""
        N = self.scale.size
        labels = [f"{s}_{a}" for s, a in (divmod(int(k), n_actions) for k in self.pairs)]
        names = [f"pi_{label}" for label in labels]
        names += [f"u_{label}_{omega}" for label in labels for omega in range(N)]
        names += ["b"] if self.has_b else []
        names += [f"z_{omega}" for omega in range(self.n_switches)]
        return names + ([f"y_{omega}" for omega in range(N)] if self.has_y else [])


def build_milp(
    problem: Problem,
    allowed: BoolArray,
    formulation: Formulation,
    deadline: Deadline = NO_LIMIT,
    conditioned: Conditioned | None = None,
) -> MilpModel:
    """The program for a problem whose models all have positive weight.

    Actions that are not `allowed` (n_states, n_actions) are forbidden by having no column. Once the
    deadline has passed, occupancies are no longer bounded tightly. The rewards are the problem's
    own, unless they are given `conditioned`.
    """
    terms = Conditioned.plain(problem) if conditioned is None else conditioned
    _refuse_too_large(problem, allowed)
    pairs = np.flatnonzero(allowed.reshape(-1))
    paper = formulation == "paper"
    if isinstance(problem.objective, Percentile):
        (goal, own), paper = _percentile(problem, pairs, terms), False
    else:
        goal, own = _soft_robust(problem, pairs, terms, paper)
    columns = goal.cost.size
    goal.upper[: pairs.size] = 1.0
    S = int(pairs.max()) // problem.n_actions + 1
    entries = (np.ones(pairs.size), (pairs // problem.n_actions, np.arange(pairs.size)))
    blocks = [
        _flow(problem, pairs, goal.scale, columns),
        (sparse.csr_array(entries, shape=(S, columns)), np.ones(S), np.ones(S)),  # Σ_a π(s,a) = 1
        *(_printed_links if paper else _links)(problem, allowed, goal, deadline),
        *own,
    ]
    return replace(
        goal,
        n_flows=blocks[0][1].size,
        matrix=sparse.vstack([block[0] for block in blocks], format="csc"),
        row_lower=np.concatenate([block[1] for block in blocks]),
        row_upper=np.concatenate([block[2] for block in blocks]),
    )


# What an objective adds to the flow: costs and bounds of all columns, and rows of its own.


def _soft_robust(
    problem: Problem, pairs: IntArray, terms: Conditioned, paper: bool
) -> tuple[MilpModel, list[Block]]:
    """(1 − λ)·mean + λ·CVaR."""
    N, n = problem.n_models, pairs.size
    lam, alpha, f = problem.objective.lam, problem.objective.alpha, problem.models.f
    R = terms.R.reshape(-1, N)[pairs]
    c = terms.c
    scale, weight = (f.copy(), np.ones(N)) if paper else (np.ones(N), f)
    has_b = lam > 0 and alpha > 0
    has_y = has_b and 1.0 - alpha > EDGE
    u_cost = (1 - lam if has_b else 1.0) * weight * R
    b_cost = np.full(int(has_b), lam)
    y_cost = -lam * weight / (1 - alpha) if has_y else np.zeros(0)
    cost = np.concatenate([np.zeros(n), u_cost.reshape(-1), b_cost, y_cost])
    lower, upper = np.zeros(cost.size), np.full(cost.size, np.inf)
    b = n + n * N
    if has_b and paper:
        lower[b] = -np.inf
    elif has_b:
        low, high = _range(problem, R, c)
        lower[b], upper[b] = low.min(), high.max()
        if has_y:  # where f ≥ 1 − α nothing is gained by b above ρ_ω: y = 0, and no great cost
            heavy = f >= 1 - alpha
            upper[b + 1 :] = np.where(heavy, 0.0, high.max() - low)
            cost[b + 1 :][heavy] = 0.0
    blocks = [_tail(R, scale, n, cost.size, has_y, c)] if has_b else []
    constant = -(1 - lam if has_b else 1.0) * float(f @ c)
    return MilpModel(pairs, cost, lower, upper, scale, has_b, has_y, constant=constant), blocks


def _percentile(
    problem: Problem, pairs: IntArray, terms: Conditioned
) -> tuple[MilpModel, list[Block]]:
    """The greatest b that no more than 1 − α of the models fall short of."""
    N, f = problem.n_models, problem.models.f
    n, b = pairs.size, pairs.size * (N + 1)
    columns = b + 1 + N
    R = terms.R.reshape(-1, N)[pairs]
    top = terms.there(clairvoyant_bound(problem).value + terms.error)
    bottom, _ = _range(problem, R, terms.c)
    room = np.maximum(top - bottom, 0.0)
    cost, lower, upper = np.zeros(columns), np.zeros(columns), np.full(columns, np.inf)
    cost[b] = 1.0
    lower[b], upper[b] = float(bottom.min()), top
    ones, omega = np.ones(N), np.arange(N)
    budget = (1.0 - problem.objective.alpha + EDGE) * float(f.sum())
    upper[b + 1 :] = f <= budget
    below, reached, _ = _tail(R, ones, n, columns, has_y=False, c=terms.c)
    switch = sparse.csr_array((room, (omega, b + 1 + omega)), shape=(N, columns))
    counts, few = _few(f, budget)
    count = sparse.hstack([sparse.csr_array((few.size, b + 1)), sparse.csr_array(counts)])
    blocks: list[Block] = [
        (below + switch, reached, np.full(N, np.inf)),
        (count, np.full(few.size, -np.inf), few),
    ]
    return MilpModel(pairs, cost, lower, upper, ones, has_b=True, n_switches=N), blocks


def _range(problem: Problem, R: FloatArray, c: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(n_models,) twice: no policy earns less, or more, than these above c."""
    most, least = reach(problem), least_reach(problem)
    low, high = R.min(axis=0), R.max(axis=0)
    low, high = low * np.where(low < 0, most, least), high * np.where(high > 0, most, least)
    slack = 1e-6 * (np.abs(low) + np.abs(high))
    return low - c - slack, high - c + slack


def _few(f: FloatArray, budget: float) -> tuple[FloatArray, FloatArray]:
    """Rows and their limits: z may be 1 for models that weigh no more than the budget together.

    A solver takes Σ f·z ≤ budget to be met where it is missed by its tolerance, which may be more
    than a model weighs. Of equal weights a number of models is counted, and of few models every
    least set that weighs too much loses one: all of these are whole numbers.
    """
    N, light = f.size, np.flatnonzero(f <= budget)
    rows: list[Any] = [np.ones(N)]
    few = [N - 1.0]  # one model is not below b, which only α = 0 would allow
    own = f[light]
    if own.sum() <= budget:
        pass
    elif own.max() - own.min() <= 1e-12 * own.max():
        rows.append(f <= budget)
        few.append(float((np.cumsum(np.sort(own)) <= budget).sum()))
    elif light.size <= MOST_COVERED:
        for cover in _covers(own, budget):
            rows.append(np.isin(np.arange(N), light[list(cover)]))
            few.append(len(cover) - 1.0)
    else:
        rows.append(np.where(f <= budget, f / budget, 0.0))
        few.append(1.0)
    return np.array(rows, dtype=np.float64), np.array(few)


def _covers(weights: FloatArray, budget: float) -> Iterator[tuple[int, ...]]:
    """Sets that weigh more than the budget, and no longer without their lightest member."""
    for k in range(2, weights.size + 1):
        for some in itertools.combinations(range(weights.size), k):
            own = weights[list(some)]
            if own.sum() > budget and own.sum() - own.min() <= budget:
                yield some


def _refuse_too_large(problem: Problem, allowed: BoolArray) -> None:
    """The matrix has N entries for every next state of an allowed pair, and five per pair."""
    widths = np.diff(problem.models.indptr).reshape(allowed.shape)
    entries = float(problem.n_models * (widths[allowed] + 6).sum())
    refuse_if_too_large(
        ENTRY_BYTES * entries,
        f"The mixed-integer program ({entries:.3g} matrix entries)",
        "Use the solver 'exact', which needs no such matrix, or fewer models.",
    )


def _flow(problem: Problem, pairs: IntArray, scale: FloatArray, n_columns: int) -> Block:
    """Balance of every state in every model; row s·N + ω."""
    m, (S, A, N) = problem.models, problem.R.shape
    widths = np.diff(m.indptr)[pairs]
    starts = m.indptr[:-1][pairs]
    place = np.repeat(np.arange(pairs.size), widths)  # which pair each shared next state is of
    within = np.arange(place.size) - np.repeat(np.cumsum(widths) - widths, widths)
    s_next = m.next_states[np.repeat(starts, widths) + within].astype(np.int64)
    omega = np.arange(N)
    first = np.repeat(starts, widths) * N + within
    flat = first[:, None] + omega * np.repeat(widths, widths)[:, None]
    value = -problem.gamma * m.prob[flat]
    row = s_next[:, None] * N + omega
    column = pairs.size + place[:, None] * N + omega
    own_row = (pairs // A)[:, None] * N + omega
    own_column = pairs.size + np.arange(pairs.size)[:, None] * N + omega
    keep = value != 0
    matrix = sparse.csr_array(
        (
            np.concatenate([value[keep], np.ones(own_row.size)]),
            (
                np.concatenate([row[keep], own_row.reshape(-1)]),
                np.concatenate([column[keep], own_column.reshape(-1)]),
            ),
        ),
        shape=(S * N, n_columns),
    )
    start = (problem.p0[:, None] * scale).reshape(-1)
    return matrix, start, start


def _printed_links(
    problem: Problem, allowed: BoolArray, goal: MilpModel, deadline: Deadline
) -> list[Block]:
    """Occupancies follow π, as printed: u ≤ M·π."""
    n, N = goal.pairs.size, problem.n_models
    sums = pair_sums(problem)
    over = max(float(sums.max()), float(problem.p0.sum())) > 1 + sum_error(problem)
    printed = goal.scale / (1 - problem.gamma)
    most = np.broadcast_to(goal.scale * reach(problem, sums) if over else printed, (n, N))
    return [_link(np.arange(n * N), most.reshape(-1), n, N, goal.cost.size, above=True)]


def _links(
    problem: Problem, allowed: BoolArray, goal: MilpModel, deadline: Deadline
) -> list[Block]:
    """The same with tight bounds: u ≤ M·π and u ≤ M, and m·π ≤ u where m > 0.

    Tight but for `ROOM`: a solver that leaves out probabilities of 1e-9, or rounds a row in its
    presolve, would find bounds that are met exactly to contradict each other.
    """
    n, N, columns = goal.pairs.size, problem.n_models, goal.cost.size
    least, most = (
        x.reshape(-1, N)[goal.pairs].reshape(-1)
        for x in occupancy_bounds(problem, allowed, deadline)
    )
    total = 1 / (1 - problem.gamma)
    most = np.maximum(most + ROOM * total, LEAST * total)
    least = least - ROOM * total
    goal.upper[n : n + n * N] = most
    some = np.flatnonzero(least > LEAST * total)
    return [
        _link(np.arange(n * N), most, n, N, columns, above=True),
        _link(some, least[some], n, N, columns, above=False),
    ]


def _link(
    which: IntArray, factor: FloatArray, n: int, N: int, n_columns: int, *, above: bool
) -> Block:
    rows = np.arange(which.size)
    matrix = sparse.csr_array(
        (
            np.concatenate([np.ones(which.size), -factor]),
            (np.concatenate([rows, rows]), np.concatenate([n + which, which // N])),
        ),
        shape=(which.size, n_columns),
    )
    low = np.full(which.size, -np.inf) if above else np.zeros(which.size)
    high = np.zeros(which.size) if above else np.full(which.size, np.inf)
    return matrix, low, high


def _tail(
    R: FloatArray, scale: FloatArray, n: int, n_columns: int, has_y: bool, c: FloatArray
) -> Block:
    """y_ω − scale_ω·b + Σ R·u ≥ scale_ω·c_ω; without y it is b ≤ ρ_ω − c_ω."""
    N = scale.size
    omega = np.arange(N)
    column = n + np.arange(n)[:, None] * N + omega
    parts = [(R.reshape(-1), np.broadcast_to(omega, (n, N)).reshape(-1), column.reshape(-1))]
    parts.append((-scale, omega, np.full(N, n + n * N)))
    if has_y:
        parts.append((np.ones(N), omega, n + n * N + 1 + omega))
    values, rows, columns = (np.concatenate(part) for part in zip(*parts, strict=True))
    matrix = sparse.csr_array((values, (rows, columns)), shape=(N, n_columns))
    return matrix, scale * c, np.full(N, np.inf)
