"""Rewards moved and scaled for a solver whose tolerances are absolute.

HiGHS meets a constraint to within 1e-9 at best, which rewards of 1e6 at γ = .99 (returns of 1e8)
put below the spacing of floating-point numbers. For any constants C and unit > 0,

    R'(s,a,ω) = [R(s,a,ω) − C·(1 − γσ_ω(s,a))]/unit,      σ_ω(s,a) = Σ_s' P̂^ω(s'|s,a),

gives ρ'(π, P̂^ω) = [ρ(π, P̂^ω) − C·Σp₀]/unit for every policy: summed over all states, the balance of
flows reads Σ u(s,a,ω)·(1 − γσ) = Σp₀. That holds for row sums that miss 1 too. Mean, CVaR and
quantiles move and scale with the returns, so a bound of the moved program is moved back, with what
rounding can have done to R'.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np
from scipy import sparse

from softrobust._core.arrays import BoolArray, FloatArray, IntArray, refuse_if_too_large
from softrobust.bounds import clairvoyant_bound
from softrobust.bounds.advantage import occupancy_bounds
from softrobust.bounds.reduction import EPS, least_reach, reach, row_sums, sum_error, widest_row
from softrobust.objective import EDGE, Percentile

if TYPE_CHECKING:
    from softrobust._core.limits import Late
    from softrobust.problem import Problem


OFFSET = 10.0  # rewards are moved when their middle is this many times their half-range from 0,
SCALE = 1e3  # and scaled when they then are this much larger or smaller than 1


@final
@dataclass(frozen=True, slots=True, eq=False)
class Conditioned:
    """R' (n_states, n_actions, n_models), and the way back: ρ = unit·ρ' + shift ± error."""

    R: FloatArray
    unit: float = 1.0
    shift: float = 0.0
    error: float = 0.0

    def there(self, value: float) -> float:
        """A return in the units of the program."""
        return (value - self.shift) / self.unit

    def back(self, value: float) -> float:
        """A return of the program in the problem's units."""
        return value * self.unit + self.shift


def untouched(problem: Problem) -> Conditioned:
    """The rewards as they are."""
    return Conditioned(problem.R)


def condition(problem: Problem, allowed: BoolArray) -> Conditioned:
    """Move and scale the rewards where their size asks for it; most problems stay as they are.

    Parameters
    ----------
    allowed : (n_states, n_actions) bool
        The pairs whose rewards count.
    """
    values = problem.R[allowed]
    high, low = float(values.max()), float(values.min())
    largest, middle, half = max(abs(high), abs(low)), 0.5 * (high + low), 0.5 * (high - low)
    R, C, error = problem.R, 0.0, 0.0
    if abs(middle) > OFFSET * half:
        C = middle / (1 - problem.gamma)
        sums = row_sums(problem)
        R = np.where(allowed[:, :, None], R - C * (1 - problem.gamma * sums), 0.0)
        # Each R' is off by the rounding of a sum of a row's entries and of four operations.
        each = (widest_row(problem) + 8) * EPS * (largest + 2 * abs(C))
        error = float(reach(problem, sums).max()) * each
    shift = C * float(problem.p0.sum())
    error += (problem.n_states + 4) * EPS * abs(shift)
    rest = float(np.abs(R[allowed]).max())
    unit = 1.0
    if rest > 0 and not 1 / SCALE <= rest <= SCALE:
        unit = float(2.0 ** np.round(np.log2(rest)))  # a power of two: scaling is exact
    return Conditioned(R if unit == 1.0 else R / unit, unit, shift, error)


# --------------------------------------------------------------------------------------------------
# SR-MILP as a sparse matrix (figure 1 of the paper), in two forms.
#
#     maximise   (1 − λ)·Σ_ω f_ω ρ_ω + λ·(b − Σ_ω f_ω y_ω/(1 − α)),   ρ_ω = Σ_{s,a}
#     R(s,a,ω)·u(s,a,ω)
#     subject to y_ω ≥ b − ρ_ω,  y ≥ 0,
#                Σ_a u(s,a,ω) − γ·Σ_{s',a'} P̂^ω(s|s',a')·u(s',a',ω) = p₀(s),
#                Σ_a π(s,a) = 1,  π binary,  m_ω(s,a)·π(s,a) ≤ u(s,a,ω) ≤ M_ω(s,a)·π(s,a).
#
# `strengthened` is this: u unscaled (f-scaled values sit near a solver's tolerances), with least
# and greatest occupancies m and M. `paper` is the figure as printed: u and y scaled by f, m = 0 and
# M = f/(1 − γ), or f·Σp₀/(1 − γσ) where a row sum σ or Σp₀ exceeds 1 (within the tolerance of
# 1e-8): the printed M would then cut off what it is to allow. Rewards may be moved and scaled (see
# `solvers.conditioning`), which changes neither the policies nor their order. In both forms, α = 1
# replaces y by b ≤ ρ_ω (there is no 1/(1 − α)), and where the objective is the mean alone (λ = 0 or
# α = 0) b and y are left out: they would be free to run away.
#
# ERRATUM: u > 0 implies π = 1, not the converse (figure 1's text): a state that is never reached
# leaves π free.

Formulation = Literal["strengthened", "paper"]


@final
@dataclass(frozen=True, slots=True, eq=False)
class MilpModel:
    """Columns π (n_pairs), u (n_pairs·N, model fastest), then b and y where there are any.

    Attributes
    ----------
    pairs : (n_pairs,)
        The allowed pairs k = s·A + a, in order.
    cost, lower, upper : (n_columns,)
        To be maximised; bounds of the columns. The first n_pairs columns are binary.
    matrix, row_lower, row_upper
        Constraints.
    scale : (n_models,)
        u holds scale_ω times the occupancy: f for `paper`, 1 for `strengthened`.
    """

    pairs: IntArray
    cost: FloatArray
    lower: FloatArray
    upper: FloatArray
    matrix: Any
    row_lower: FloatArray
    row_upper: FloatArray
    scale: FloatArray
    has_b: bool
    has_y: bool
    n_switches: int = 0  # binary columns at the end, one per model (percentile criterion)
    norm: float = 1.0  # u, b and y are this many times what they say,
    gain: float = 1.0  # and the objective this many times what they give

    def normalised(self, norm: float, gain: float) -> MilpModel:
        """The same program in norm·u, norm·b and norm·y, with its objective times gain.

        With norm = 1 − γ and gain = N all numbers are of order 1, as a solver with absolute
        tolerances takes them to be. A row that holds u, b or y is multiplied by norm as a whole,
        so that only its binary columns and its right-hand side change.
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
        return replace(
            self,
            cost=self.cost * gain,
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
    late: Late | None = None,
    conditioned: Conditioned | None = None,
) -> MilpModel:
    """The program for a problem whose models all have positive weight.

    Parameters
    ----------
    allowed : (n_states, n_actions) bool
        Actions that get a column; the others are forbidden by having none.
    late : callable, optional
        Once True, occupancies are no longer bounded tightly.
    conditioned : Conditioned, optional
        The rewards to use; the problem's own by default.
    """
    terms = untouched(problem) if conditioned is None else conditioned
    _refuse_too_large(problem, allowed)
    if isinstance(problem.objective, Percentile):
        return build_percentile_milp(problem, allowed, problem.objective, late, terms)
    S, A, N = problem.R.shape
    lam, alpha, f = problem.objective.lam, problem.objective.alpha, problem.models.f
    pairs = np.flatnonzero(allowed.reshape(-1))
    n = pairs.size
    R = terms.R.reshape(S * A, N)[pairs]
    paper = formulation == "paper"
    scale, weight = (f.copy(), np.ones(N)) if paper else (np.ones(N), f)
    has_b = lam > 0 and alpha > 0
    has_y = has_b and 1.0 - alpha > EDGE
    u_cost = (1 - lam if has_b else 1.0) * weight * R
    ends: list[FloatArray] = []
    if has_b:
        ends.append(np.array([lam]))
    if has_y:
        ends.append(-lam * weight / (1 - alpha))
    cost = np.concatenate([np.zeros(n), u_cost.reshape(-1), *ends])
    most = float(np.abs(R).max() * reach(problem).max()) * (1 + 1e-6)
    lower, upper = np.zeros(cost.size), np.full(cost.size, np.inf)
    upper[:n] = 1.0
    if has_b:
        b = n + n * N
        lower[b], upper[b] = (-np.inf, np.inf) if paper else (-most, most)
    blocks = [
        _flow(problem, pairs, scale, cost.size),
        _one_action(pairs, A, cost.size),
        *_links(problem, allowed, pairs, scale, cost.size, paper, late),
    ]
    if has_b:
        blocks.append(_tail(R, scale, n, cost.size, has_y))
    return MilpModel(
        pairs, cost, lower, upper,
        sparse.vstack([block[0] for block in blocks], format="csc"),
        np.concatenate([block[1] for block in blocks]),
        np.concatenate([block[2] for block in blocks]),
        scale, has_b, has_y,
    )  # fmt: skip


def build_percentile_milp(
    problem: Problem,
    allowed: BoolArray,
    objective: Percentile,
    late: Late | None,
    terms: Conditioned,
) -> MilpModel:
    """The percentile criterion (eq. 2.1): count the models below b.

        maximise b   subject to   b ≤ ρ_ω + C_ω·z_ω,   Σ_ω f_ω z_ω ≤ 1 − α,   z binary,

    and the flow, one-action and occupancy constraints of the strengthened form. C_ω is the room
    between the clairvoyant value, which b cannot exceed, and the least return of model ω. At least
    one model is not below b (which only α = 0 would allow).
    """
    S, A, N = problem.R.shape
    f, pairs = problem.models.f, np.flatnonzero(allowed.reshape(-1))
    n, b = pairs.size, pairs.size * (N + 1)
    columns = b + 1 + N
    R = terms.R.reshape(S * A, N)[pairs]
    top = terms.there(clairvoyant_bound(problem).value + terms.error)
    least = R.min(axis=0)
    bottom = least * np.where(least < 0, reach(problem), least_reach(problem))
    room = np.maximum(top - bottom, 0.0)
    cost, lower, upper = np.zeros(columns), np.zeros(columns), np.full(columns, np.inf)
    cost[b] = 1.0
    upper[:n] = upper[b + 1 :] = 1.0
    lower[b], upper[b] = float(bottom.min()), top
    ones, omega = np.ones(N), np.arange(N)
    below, _, _ = _tail(R, ones, n, columns, has_y=False)
    switch = sparse.csr_array((room, (omega, b + 1 + omega)), shape=(N, columns))
    count = sparse.csr_array(
        (np.concatenate([f, ones]), (np.repeat([0, 1], N), np.tile(b + 1 + omega, 2))),
        shape=(2, columns),
    )
    few = np.array([1.0 - objective.alpha + EDGE, N - 1.0])
    blocks = [
        _flow(problem, pairs, ones, columns),
        _one_action(pairs, A, columns),
        *_links(problem, allowed, pairs, ones, columns, False, late),
        (below + switch, np.zeros(N), np.full(N, np.inf)),
        (count, np.full(2, -np.inf), few),
    ]
    return MilpModel(
        pairs, cost, lower, upper,
        sparse.vstack([block[0] for block in blocks], format="csc"),
        np.concatenate([block[1] for block in blocks]),
        np.concatenate([block[2] for block in blocks]),
        ones, True, False, N,
    )  # fmt: skip


Block = tuple[Any, FloatArray, FloatArray]
ENTRY_BYTES = 100.0  # of the matrix: indices while it is built, then HiGHS's own copies


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


def _one_action(pairs: IntArray, A: int, n_columns: int) -> Block:
    """Σ_a π(s,a) = 1."""
    S = int(pairs.max()) // A + 1
    entries = (np.ones(pairs.size), (pairs // A, np.arange(pairs.size)))
    return sparse.csr_array(entries, shape=(S, n_columns)), np.ones(S), np.ones(S)


def _links(
    problem: Problem,
    allowed: BoolArray,
    pairs: IntArray,
    scale: FloatArray,
    n_columns: int,
    paper: bool,
    late: Late | None,
) -> list[Block]:
    """Occupancies follow π: u ≤ M·π, and m·π ≤ u where m > 0."""
    S, A, N = problem.R.shape
    n = pairs.size
    if paper:
        sums = row_sums(problem)
        over = max(float(sums.max()), float(problem.p0.sum())) > 1 + sum_error(problem)
        printed = scale / (1 - problem.gamma)
        most = np.broadcast_to(scale * reach(problem, sums) if over else printed, (n, N))
        return [_link(np.arange(n * N), most.reshape(-1), n, N, n_columns, above=True)]
    bounds = occupancy_bounds(problem, allowed, late)
    most = bounds.greatest.reshape(S * A, N)[pairs].reshape(-1)
    least = bounds.least.reshape(S * A, N)[pairs].reshape(-1)
    some = np.flatnonzero(least > 1e-9)  # smaller ones sit below a solver's tolerance
    return [
        _link(np.arange(n * N), most, n, N, n_columns, above=True),
        _link(some, least[some], n, N, n_columns, above=False),
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


def _tail(R: FloatArray, scale: FloatArray, n: int, n_columns: int, has_y: bool) -> Block:
    """y_ω − scale_ω·b + Σ R·u ≥ 0; without y it is b ≤ ρ_ω."""
    N = scale.size
    omega = np.arange(N)
    column = n + np.arange(n)[:, None] * N + omega
    parts = [(R.reshape(-1), np.broadcast_to(omega, (n, N)).reshape(-1), column.reshape(-1))]
    parts.append((-scale, omega, np.full(N, n + n * N)))
    if has_y:
        parts.append((np.ones(N), omega, n + n * N + 1 + omega))
    values, rows, columns = (np.concatenate(part) for part in zip(*parts, strict=True))
    matrix = sparse.csr_array((values, (rows, columns)), shape=(N, n_columns))
    return matrix, np.zeros(N), np.full(N, np.inf)
