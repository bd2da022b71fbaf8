"""What m more observations of a pair would be worth (`value_of_data`, in the second half).

Where the rows of a posterior are independent, as Dirichlet rows are, m observations of (s, a)
change the posterior of that row alone. Reweighting whole models would also pretend to learn about
every other row, because few models carry the weight afterwards. So each data set y resamples the
*rows* of (s, a) by their likelihood of y, and deals them out to the models at random; all else
stays. The return of every policy on every model with its new row follows from a rank-one update
(Sherman and Morrison): with u = π(a|s)·(p′ − p),

    ρ′ = ρ + h(s)·uᵀ(r + γv)/(1 − γ·uᵀg),        g(s′) = discounted visits to s from s′.

The maximum over policies profits from sampling noise, and would do so without any data. So the
baseline deals the rows out at random too, unweighted, with the same random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import FloatArray, IntArray, refuse_if_too_large
from softrobust._core.limits import generator
from softrobust._core.settings import instance, whole
from softrobust.errors import InputError
from softrobust.models.policy import Policy, TimedPolicy
from softrobust.objective import SoftRobust, soft_robust
from softrobust.posterior import FittedDirichlet
from softrobust.problem import Problem
from softrobust.returns import ModelOptima, optimal_returns, returns_of
from softrobust.returns.evaluation import AnyPolicy, policy_rows
from softrobust.solvers.baselines.behaviour import behaviour_policy, unmasked
from softrobust.study.solved import Solved, redraw

LEAST_TAIL = 1e-9


@final
class Inverses(NamedTuple):
    """For every policy of the pool: G (N, S, S), v (N, S), and returns (N,)."""

    G: list[FloatArray]
    v: list[FloatArray]
    rho: list[FloatArray]


def invert(problem: Problem, pool: Sequence[Policy]) -> Inverses:
    """(I − γP_π)⁻¹ of every policy and model."""
    N, S = problem.n_models, problem.n_states
    refuse_if_too_large(
        8.0 * len(pool) * N * S * S,
        f"The inverses of {len(pool)} policies on {N} models of {S} states",
        "Value data with fewer draws, or merge states.",
    )
    out = Inverses([], [], [])
    for policy in pool:
        rows, columns, values = policy_rows(problem, np.asarray(policy.probs))
        P = np.zeros((S * S, N))
        at = np.repeat(np.arange(S), np.diff(rows)) * S + columns
        np.add.at(P, at, values.T)  # a randomized policy lists a next state more than once
        dense = np.ascontiguousarray(P.T).reshape(N, S, S)
        G = np.asarray(np.linalg.inv(np.eye(S) - problem.gamma * dense), dtype=np.float64)
        r = np.einsum("sa,san->ns", policy.probs, problem.R)
        v = np.einsum("nst,nt->ns", G, r)
        out.G.append(G)
        out.v.append(v)
        out.rho.append(v @ problem.p0)
    return out


@final
class Pair(NamedTuple):
    """One pair, ready for exchanges: see `kernels.exchange.best_exchanged` for the shapes."""

    rho: FloatArray
    h: FloatArray
    z: FloatArray
    g: FloatArray
    q: FloatArray
    p: FloatArray


def pair_of(problem: Problem, pool: Sequence[Policy], made: Inverses, s: int, a: int) -> Pair:
    """What the exchange of the rows of (s, a) needs."""
    columns, block = problem.models.block(s, a)
    k = np.full(columns.size, s * problem.n_actions + a, dtype=np.int64)
    reward, known = problem.rewards.lookup(k, columns)
    if not known.all():
        raise InputError(
            f"The reward of action '{problem.models.actions[a]}' in state "
            f"'{problem.models.states[s]}' is not known for every next state that is possible."
        )
    h = np.array([G[:, :, s] @ problem.p0 for G in made.G])
    z = np.array([reward + problem.gamma * v[:, columns] for v in made.v])
    g = np.array([G[:, columns, s] for G in made.G])
    q = np.array([policy.probs[s, a] for policy in pool])
    return Pair(np.array(made.rho), h, z, g, q, np.ascontiguousarray(block))


def dealt(
    p: FloatArray, m: int, n: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray, FloatArray]:
    """Which draw's row every model gets, (n, N), after data and without, and effective sizes (n,).

    Both deal by the same uniforms (systematic resampling) and the same shuffle.
    """
    N = p.shape[0]
    rows = p / p.sum(axis=1, keepdims=True)
    counts = rng.multinomial(m, rows[rng.integers(0, N, n)])
    w = _likelihood(counts, rows)
    w /= w.sum(axis=1, keepdims=True)
    grid = (np.arange(N) + rng.random((n, 1))) / N
    edges = np.cumsum(w, axis=1)
    edges[:, -1] = 1.0
    after = np.array([np.searchsorted(e, x) for e, x in zip(edges, grid, strict=True)])
    shuffle = np.argsort(rng.random((n, N)), axis=1)
    after = np.take_along_axis(after, shuffle, axis=1)
    return after.astype(np.int64), shuffle.astype(np.int64), 1.0 / np.square(w).sum(axis=1)


def _likelihood(counts: IntArray, rows: FloatArray) -> FloatArray:
    """(n_data_sets, n_rows): of counts under every row, the largest of a data set being 1."""
    with np.errstate(divide="ignore"):
        log_rows = np.log(rows)
    # 0·log 0 = 0: a next state that was not seen says nothing, even where a row excludes it.
    possible = np.isfinite(log_rows)
    score = counts @ np.where(possible, log_rows, 0.0).T
    score[(counts > 0).astype(np.float64) @ (~possible).T.astype(np.float64) > 0] = -np.inf
    return np.asarray(np.exp(score - score.max(axis=1, keepdims=True)))


def exchanged(
    pair: Pair, rows: IntArray, problem: Problem, objective: SoftRobust, known: int = 0
) -> tuple[FloatArray, IntArray, FloatArray]:
    """The pool's best objective for every deal of rows, the policy that attains it, and luck.

    Luck is the mean return of policy `known`: data do not change its expectation, so that the
    difference of two deals in it is noise that can be taken out.
    """
    from softrobust.kernels.exchange import best_exchanged

    n = rows.shape[0]
    out, which, luck = np.empty(n), np.empty(n, dtype=np.int64), np.empty(n)
    tail = max(objective.tail, LEAST_TAIL)
    best_exchanged(
        n > 1, 0, n, *pair, rows, problem.gamma, objective.lam, tail, known, out, which, luck
    )
    return out, which, luck


# --------------------------------------------------------------------------------------------------
# What more data would buy: the expected value of m more observations of one pair.
#
#     EVSI(s, a, m) = E_y[ max_π ρ^S(π | D, y) ] − max_π ρ^S(π | D),    y = m next states of (s, a)
#
# Posterior draws stand for the posterior. A data set y is drawn by taking a model ω′ and m next
# states from its row. Two ways to learn from it:
#
#     models of one world     every model is reweighted by its likelihood of y, f_ω·Π P^ω(y_i|s,a)
#     independent rows        only the rows of (s, a) are, and are dealt out anew (see `rows`)
#
# The maximum runs over a pool of policies: the chosen one, nominal, practice, the optimal policies
# of single models. The value is never negative, whatever λ and α: knowing y lets nature's worst
# case vary less. It is what this pool can make of the data; policies outside it could make more.

DATA_SETS = 400  # resampled data sets for each pair
POOL = 40  # policies optimal for single models
MOST_PAIRS = 60  # pairs whose rows matter most
ROUNDING = 1e-9


@final
@dataclass(frozen=True, slots=True)
class DataValue:
    """The value of m more observations of a pair, with a 95 % interval of its simulation."""

    s: int
    a: int
    # value, low, high: in units of the objective
    value: float
    low: float
    high: float
    changes: float  # share of data sets after which another policy of the pool would be best
    # median effective number of models after seeing the data; where it is small, draw more
    effective_size: float

    def to_dict(self, problem: Problem) -> dict[str, Any]:
        """Plain values with labels, ready for JSON."""
        figures = {k: v for k, v in asdict(self).items() if k not in ("s", "a")}
        models = problem.models
        return {"state": models.states[self.s], "action": models.actions[self.a], **figures}


@names_arguments
def value_of_data(
    problem: Problem,
    policy: AnyPolicy,
    observations: int = 10,
    pairs: Sequence[tuple[int, int]] | None = None,
    also: Sequence[AnyPolicy] = (),
    independent: bool = False,
    data_sets: int = DATA_SETS,
    seed: int = 0,
) -> tuple[DataValue, ...]:
    """Value `observations` more of every pair, the best first.

    Parameters
    ----------
    problem : Problem
        Its models stand for the posterior: several hundred draws are good.
    pairs : sequence of (s, a), optional
        By default those with a model in states where something is decided, at most the 60 whose
        rows matter most to the policies of the pool.
    also : sequence of Policy
        Further policies for the pool, such as current practice.
    independent : bool
        Whether the rows of the posterior are independent, as those of `DirichletPosterior` are.
    """
    instance("problem", problem, Problem)
    instance("policy", policy, Policy, TimedPolicy, hint="Of a solution it is solution.policy.")
    objective = soft_robust(problem.objective, "The value of data")
    whole("observations", observations)
    whole("data_sets", data_sets)
    wanted = _pairs(problem, pairs)
    rng = generator(seed)
    pool = _pool(problem, policy, also, rng)
    # What a reference earns changes with the rows, too, and over a horizon a row counts at every
    # step: whole models are then learned about.
    alone = independent and objective.reference is None and problem.horizon is None
    worth = _by_rows if alone else _by_models
    out = worth(problem, pool, wanted, observations, data_sets, rng, objective)
    return tuple(sorted(out, key=lambda v: -v.value))


def _by_models(
    problem: Problem, pool: list[Any], pairs: list[tuple[int, int]], m: int, n: int,
    rng: np.random.Generator, objective: SoftRobust,
) -> list[DataValue]:  # fmt: skip
    """Every model is reweighted by its likelihood of each of n data sets of m observations."""
    own = unmasked(problem)  # practice may do what the mask forbids
    Z = np.array([returns_of(own, p).x for p in pool])
    order = np.argsort(Z, axis=1).astype(np.int64)
    (base,), (best,) = _best(Z, order, problem.models.f[None, :], objective)
    out, f = [], problem.models.f
    for s, a in pairs:
        _, block = problem.models.block(s, a)
        source = rng.choice(f.size, size=n, p=f / f.sum())
        rows = block[source] / block[source].sum(axis=1, keepdims=True)
        weights = f * _likelihood(rng.multinomial(m, rows), block)
        weights /= weights.sum(axis=1, keepdims=True)
        size = 1.0 / np.square(weights).sum(axis=1)
        value, which = _best(Z, order, weights, objective)
        # What today's best policy earns on average after the data has the same expectation as
        # today: as a control variate it removes the luck of the draw.
        luck = weights @ Z[best] - float(f @ Z[best])
        out.append(_value(s, a, value - base - luck, which != best, size, float(np.abs(Z).max())))
    return out


def _by_rows(
    problem: Problem, pool: list[Any], pairs: list[tuple[int, int]], m: int, n: int,
    rng: np.random.Generator, objective: SoftRobust,
) -> list[DataValue]:  # fmt: skip
    """Only the rows of the pair are learned about; the baseline deals them out unweighted."""
    made = invert(problem, pool)
    known = int(np.argmax([objective.value(rho, problem.models.f) for rho in made.rho]))
    ready = [(s, a, pair_of(problem, pool, made, s, a)) for s, a in pairs]
    ready = sorted(ready, key=lambda item: -_spread(item[2]))[:MOST_PAIRS]
    scale = float(np.abs(made.rho).max())
    out = []
    for s, a, pair in ready:
        after, before, size = dealt(pair.p, m, n, rng)
        value, which, luck = exchanged(pair, after, problem, objective, known)
        base, best, usual = exchanged(pair, before, problem, objective, known)
        out.append(_value(s, a, value - base - (luck - usual), which != best, size, scale))
    return out


def _spread(pair: Pair) -> float:
    """How much the row matters: visits times the spread of its value over draws, at most."""
    worth = np.einsum("kni,ni->kn", pair.z, pair.p)
    return float((pair.q * pair.h.mean(axis=1) * worth.std(axis=1)).max())


def _value(
    s: int, a: int, gain: FloatArray, changed: NDArray[np.bool_], size: FloatArray, scale: float
) -> DataValue:
    """From the gains of every data set; where one is but rounding, another policy is a tie."""
    real = np.abs(gain) > ROUNDING * scale
    gain, changed = np.where(real, gain, 0.0), changed & real
    mean, half = float(gain.mean()), 1.96 * float(gain.std(ddof=1)) / np.sqrt(gain.size)
    return DataValue(
        s, a, max(mean, 0.0), max(mean - half, 0.0), max(mean + half, 0.0),
        float(np.mean(changed)), float(np.median(size)),
    )  # fmt: skip


def _pairs(problem: Problem, pairs: Sequence[tuple[int, int]] | None) -> list[tuple[int, int]]:
    usable = problem.models.available & problem.decided[:, None]
    if pairs is None:
        return [(int(s), int(a)) for s, a in np.argwhere(usable)]
    S, A = usable.shape
    try:
        wanted = [(range(S)[s], range(A)[a]) for s, a in pairs]
    except (TypeError, ValueError, IndexError):
        raise InputError(
            f"pairs must be indices (s, a) of {S} states and {A} actions; they are {pairs!r}."
        ) from None
    for s, a in wanted:
        if not usable[s, a]:
            raise InputError(
                f"No model knows what follows action '{problem.models.actions[a]}' in state "
                f"'{problem.models.states[s]}', so its data cannot be valued. Keep such pairs with "
                "the prior (min_count=0)."
            )
    return wanted


def _pool(
    problem: Problem, policy: AnyPolicy, also: Sequence[AnyPolicy], rng: np.random.Generator
) -> list[AnyPolicy]:
    """Policies that some data could make best: plans beside a plan, else rules; each once."""

    def own(found: ModelOptima, at: int) -> AnyPolicy:
        if found.steps is not None and isinstance(policy, TimedPolicy):
            return problem.timed_policy(found.steps[1][:, at])
        return problem.policy(found.decisions[at])

    pool = [policy, own(optimal_returns(problem.mean_problem(), every=True), 0), *also]
    optima = optimal_returns(problem, every=True)
    pool += [own(optima, int(omega)) for omega in rng.permutation(problem.n_models)[:POOL]]
    usable = [p for p in pool if (p.probs[..., ~problem.models.available] == 0).all()]
    return list({p.probs.tobytes(): p for p in usable}.values())


def _best(Z: FloatArray, order: Any, W: FloatArray, objective: SoftRobust) -> Any:
    from softrobust.kernels.tail import best_reweighted

    out, which = np.empty(W.shape[0]), np.empty(W.shape[0], dtype=np.int64)
    tail = max(objective.tail, LEAST_TAIL)
    best_reweighted(Z, order, np.ascontiguousarray(W), objective.lam, tail, out, which)
    return out, which


# --------------------------------------------------------------------------------------------------
# The value of data for a solved problem: on its models, or on fresh draws of its posterior.

BATCHES = 4  # independent sets of draws: their spread is the error of the draws


@final
@dataclass(frozen=True, slots=True)
class DataFound:
    """Values of `observations` more of each pair, the best first."""

    observations: int
    values: tuple[DataValue, ...]


def data_values(
    solved: Solved, observations: int = 10, draws: int = 200, seed: int = 0
) -> tuple[DataValue, ...]:
    """The values, the best first.

    With a log, four sets of `draws` models are drawn anew and averaged over; intervals then hold
    the error of the draws. Where there are models alone, those are all there is.
    """
    problem, policy = solved.problem, solved.solution.policy
    if solved.log is None or solved.posterior is None:
        return value_of_data(problem, policy, observations, seed=seed)
    found: dict[tuple[int, int], list[DataValue]] = {}
    pairs = None
    for batch in range(BATCHES):
        fresh = problem.with_models(redraw(solved, draws, 200 + 10 * seed + batch))
        also = [behaviour_policy(fresh, solved.log)[0]]
        values = value_of_data(
            fresh, policy, observations, pairs, also, seed=seed + batch,
            independent=isinstance(solved.posterior, FittedDirichlet),
            data_sets=DATA_SETS // BATCHES,
        )  # fmt: skip
        pairs = [(v.s, v.a) for v in values]
        for v in values:
            found.setdefault((v.s, v.a), []).append(v)
    merged = [_merged(values) for values in found.values()]
    return tuple(sorted(merged, key=lambda v: -v.value))


def _merged(values: list[DataValue]) -> DataValue:
    """The mean over batches, with Student's interval of their spread."""
    from scipy.stats import t as student

    each = np.array([v.value for v in values])
    half = float(student.ppf(0.975, each.size - 1) * each.std(ddof=1) / np.sqrt(each.size))
    mean = float(each.mean())
    return replace(
        values[0],
        value=mean,
        low=max(mean - half, 0.0),
        high=mean + half,
        changes=float(np.mean([v.changes for v in values])),
        effective_size=float(np.median([v.effective_size for v in values])),
    )
