"""Returns, values and occupancies of a given policy on every model (section 2, eq. 5.1).

    v^ω = (I − γP̂^ω_π)⁻¹ r^ω_π        h^ω = (I − γP̂^ω_π)⁻ᵀ p₀        ρ(π, P̂^ω) = p₀ᵀv^ω

Small or dense models are factorised directly. Large sparse ones are solved by a Krylov method whose
residual is checked: as ‖(I − γP)⁻¹‖∞ = 1/(1 − γ), a residual e means an error of at most e/(1 − γ).

How returns change with the policy is exact, too; with the value and occupancy of π in one model,

    ∂ρ(π, P̂^ω)/∂π(a|s) = h^ω(s)·Q^ω(s, a),        Q^ω(s, a) = R[s, a, ω] + γ P̂^ω_{s,a}ᵀ v^ω,

along directions that keep Σ_a π(a|s) = 1. The objective ρ^S is the minimum over ξ ∈ Ξ of
Σ_ω ξ_ω ρ_ω, so its gradient is the ξ-average of the models' gradients at the worst-case ξ: where
that ξ is not unique, ρ^S has a kink and this is one of its supergradients.

With a horizon H the same functions speak of H steps, by backward and forward recursion,

    v^ω_t = r^ω_{π_t} + γP̂^ω_{π_t} v^ω_{t+1},  v_H = 0;    b^ω_{t+1} = P̂^ω_{π_t}ᵀ b^ω_t,  b_0 = p₀,

ρ = p₀ᵀv_0, values are v_0 and occupancies h = Σ_t γ^t b_t; policies may have a rule for each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import BoolArray, FloatArray, Recent, refuse_if_too_large
from softrobust._core.limits import NO_LIMIT, Deadline, chunks
from softrobust._core.settings import instance
from softrobust.errors import InputError, SolverError
from softrobust.kernels import evaluate as kernel
from softrobust.models.policy import Policy, TimedPolicy
from softrobust.problem import Problem

AnyPolicy = Policy | TimedPolicy
SHORTER = "Use fewer models, or a shorter horizon."
PARALLEL_WORK = 4_000_000  # multiply-adds below which threads cost more than they bring
PARALLEL_CELLS = 200_000  # stored probabilities below which they do for action values
KERNEL_STATES = 96  # above this LAPACK's blocked factorisation wins
RELATIVE_ERROR = 1e-10  # of a Krylov value, relative to the largest |v|
SPARSE_STATES, SPARSE_SHARE = 200, 0.1  # from here, up to this share of states in a row: iterate
DENSE_STATES = 400  # above this a matrix of one policy no longer stays in cache from step to step
BLOCK = 512  # steps whose values are kept at a time, where not all are wanted
KRYLOV = 40  # length of a Krylov cycle
FIRST = 4  # models of the first chunk of a Krylov evaluation
KEPT = 16  # evaluations kept per set of models
DIRECT_STATES = 20_000  # up to here a system that a cycle does not solve is factorised


# A solver's answer is evaluated again by its certificate and its report, neighbours on a grid often
# share theirs, and all are measured against the uniform policy: the last few are kept with their
# models.
_KEPT: Recent[FloatArray] = Recent(KEPT)
_SPENT: Recent[FloatArray] = Recent(2)  # occupancies of large models


@names_arguments
def policy_return(problem: Problem, policy: AnyPolicy) -> FloatArray:
    """(n_models,): ρ(π, P̂^ω) for every model, exact."""
    check_policy(problem, policy)
    known = _KEPT.get(problem.models, *_key(problem, policy))
    if known is None:
        known = _keep(problem, policy, policy_values(problem, policy))
    return known.copy()


def _key(problem: Problem, policy: AnyPolicy) -> tuple[Any, ...]:
    return problem.R, problem.gamma, problem.horizon, problem.p0, policy.probs


def _keep(problem: Problem, policy: AnyPolicy, V: FloatArray) -> FloatArray:
    """p₀ᵀv^ω of every model, kept for the next who asks."""
    return _KEPT.put(np.asarray(V @ problem.p0), problem.models, *_key(problem, policy))


def policy_values(problem: Problem, policy: AnyPolicy) -> FloatArray:
    """(n_models, n_states): the value function of the policy in every model."""
    return _evaluate(problem, policy)[0]


def evaluate_policy(
    problem: Problem, policy: AnyPolicy, deadline: Deadline = NO_LIMIT
) -> tuple[FloatArray, FloatArray]:
    """Values and occupancies together, each (n_models, n_states): one factorisation serves both.

    Large models are evaluated in chunks; once the deadline has passed, `OutOfTime` is raised.
    """
    V, h = _evaluate(problem, policy, True, deadline)
    if problem.n_states > KERNEL_STATES:
        _keep(problem, policy, V)
    return V, h


@names_arguments
def occupancies(problem: Problem, policy: AnyPolicy) -> FloatArray:
    """(n_models, n_states): discounted state occupancies h^ω; each row sums to `total_time`."""
    key = (problem.models, *_key(problem, policy))
    known = _SPENT.get(*key)
    if known is None:
        known = evaluate_policy(problem, policy)[1]
        if problem.n_states > KERNEL_STATES:
            _SPENT.put(known, *key)
    return known.copy()


def total_time(problem: Problem) -> float:
    """Σ_t γ^t: 1/(1 − γ), or as far as the horizon."""
    if problem.horizon is None:
        return 1.0 / (1.0 - problem.gamma)
    return float((problem.gamma ** np.arange(problem.horizon)).sum())


def pair_occupancies(problem: Problem, policy: AnyPolicy) -> FloatArray:
    """(n_states, n_actions): Σ_t γ^t P(S_t = s, A_t = a), on average over the models."""
    f = problem.models.f
    if not isinstance(policy, TimedPolicy):
        return np.asarray((f @ occupancies(problem, policy))[:, None] * policy.probs)
    spent = np.zeros(policy.probs.shape[1:])
    for steps, w, b in _flows(problem, policy):
        spent += np.einsum("t,n,tns,tsa->sa", w, f, b, policy.probs[steps], optimize=True)
    return spent


def averaged(problem: Problem, policy: AnyPolicy) -> Policy:
    """A policy with a rule for each step as shares of actions in each state, over its time there.

    For tables and pictures: it earns something else than the policy itself.
    """
    if isinstance(policy, Policy):
        return policy
    spent = pair_occupancies(problem, policy)
    total = spent.sum(axis=1, keepdims=True)
    probs = np.where(total > 0, spent / np.where(total > 0, total, 1.0), policy.probs[0])
    probs = probs / probs.sum(axis=1, keepdims=True)
    return Policy(probs, policy.states, policy.actions, policy.decided)


def policy_reward(problem: Problem, probs: FloatArray) -> FloatArray:
    """(n_models, n_states): r^ω_π(s) = Σ_a π(a|s)·R[s, a, ω]."""
    return np.ascontiguousarray(np.einsum("sa,san->ns", probs, problem.R))


def check_policy(problem: Problem, policy: AnyPolicy, allowed: BoolArray | None = None) -> None:
    """The policy must speak of the problem's states and actions, and take `allowed` ones only.

    By default those are the problem's own. One with a rule for each step needs that horizon.
    """
    instance("problem", problem, Problem)
    instance("policy", policy, Policy, TimedPolicy, hint="Of a solution it is solution.policy.")
    if policy.states != problem.models.states or policy.actions != problem.models.actions:
        raise InputError(
            f"The policy has {len(policy.states)} states and {len(policy.actions)} actions; the "
            f"problem has {problem.n_states} and {problem.n_actions}, or their labels or order "
            "differ. Evaluate a policy on the states and actions it was made for."
        )
    if isinstance(policy, TimedPolicy) and policy.horizon != problem.horizon:
        ends = "never ends" if problem.horizon is None else f"ends after {problem.horizon}"
        raise InputError(
            f"The policy has a rule for each of {policy.horizon} steps, and the problem {ends}. "
            f"Give the problem the horizon {policy.horizon}, or use a stationary policy.",
            arguments=("horizon",),
        )
    bad = np.argwhere((policy.probs > 0) & ~(problem.allowed if allowed is None else allowed))
    if bad.size:
        *t, s, a = bad[0]
        unknown = not problem.models.available[s, a]
        why = "and no model knows what follows" if unknown else "which is not allowed there"
        hint = " Choose one that was seen, or keep such pairs with the prior (min_count=0)."
        when = f" at step {t[0]}" if t else ""
        raise InputError(
            f"The policy takes action '{policy.actions[a]}' in state '{policy.states[s]}'{when}, "
            f"{why} ({len(bad)} such pairs).{hint if unknown else ''}"
        )


def horizon_values_of(problem: Problem, policy: AnyPolicy, every: bool = False) -> FloatArray:
    """v_t of every model: (horizon + 1, n_models, n_states), or v_0 alone, (1, …)."""
    check_policy(problem, policy)
    m, H = problem.models, _steps(problem)
    S, rules = problem.n_states, rules_of(policy)
    kept = H + 1 if every else 1
    refuse_if_too_large(8.0 * kept * problem.n_models * S, "Values at every step", SHORTER)
    V = np.empty((kept, problem.n_models, S))
    entries = int((np.diff(m.indptr) * (rules[0].reshape(-1) > 0)).sum())
    compact = len(rules) == 1 and S <= DENSE_STATES and 8 * entries >= S * S
    evaluate = kernel.horizon_values_dense if compact else kernel.horizon_values
    evaluate(
        _threads(problem, H), 0, m.n_models, m.indptr, m.next_states, m.prob, rules, problem.R,
        problem.gamma, H, V,
    )  # fmt: skip
    return V


def state_probabilities(problem: Problem, policy: AnyPolicy) -> FloatArray:
    """P(S_t = s) in every model, (horizon, n_models, n_states)."""
    check_policy(problem, policy)
    m, H = problem.models, _steps(problem)
    size = 8.0 * H * problem.n_models * problem.n_states
    refuse_if_too_large(size, "The states of every step", SHORTER)
    B = np.empty((H, problem.n_models, problem.n_states))
    B[0] = problem.p0
    where = (m.indptr, m.next_states, m.prob)
    kernel.horizon_flows(_threads(problem, H), 0, m.n_models, *where, rules_of(policy), B)
    return B


def _flows(problem: Problem, policy: AnyPolicy) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
    """Stretches of steps, their γ^t and P(S_t = s) (steps, n_models, n_states), while γ^t > 0."""
    check_policy(problem, policy)
    m, H, rules = problem.models, _steps(problem), rules_of(policy)
    weights = np.asarray(problem.gamma ** np.arange(H), dtype=np.float64)
    B = np.empty((min(H, BLOCK + 1), problem.n_models, problem.n_states))
    B[0] = problem.p0
    for first in range(0, H, BLOCK):
        last = min(first + BLOCK, H)
        if weights[first] == 0.0:
            return
        b = B[: min(last + 1, H) - first]
        own = rules if len(rules) == 1 else rules[first:last]
        where = (m.indptr, m.next_states, m.prob, own)
        kernel.horizon_flows(_threads(problem, len(b)), 0, m.n_models, *where, b)
        yield slice(first, last), weights[first:last], b[: last - first]
        B[0] = b[-1]


def _long_occupancies(problem: Problem, policy: Policy, horizon: int) -> FloatArray:
    """(n_models, n_states): Σ_t γ^t P(S_t = s) of one rule for all steps, by squares of γP_π.

    With G_k the sum of the first 2^k powers, G_{k+1} = G_k + G_k·(γP_π)^(2^k).
    """
    m, S = problem.models, problem.n_states
    h = np.zeros((m.n_models, S))
    P = np.empty((S, S))
    for omega in range(m.n_models):
        kernel.policy_matrix(m.indptr, m.next_states, m.prob, m.n_models, omega, policy.probs, P)
        power, G, b, left = problem.gamma * P, np.eye(S), np.asarray(problem.p0), horizon
        while left:
            if left % 2:
                h[omega] += b @ G
                b = b @ power
            left //= 2
            if left:
                G, power = G + G @ power, power @ power
    return h


def rules_of(policy: AnyPolicy) -> FloatArray:
    """(1 or horizon, n_states, n_actions): a stationary policy has one rule for all steps."""
    probs = np.asarray(policy.probs)
    return probs if probs.ndim == 3 else probs[None]


def _steps(problem: Problem) -> int:
    if problem.horizon is None:
        raise InputError("The problem has no horizon. Give it one.", arguments=("horizon",))
    return problem.horizon


def _threads(problem: Problem, steps: int) -> bool:
    work = steps * problem.models.prob.size / problem.n_actions
    return problem.n_models > 1 and work > PARALLEL_WORK


def _evaluate(
    problem: Problem, policy: AnyPolicy, want_occupancy: bool = False, deadline: Deadline = NO_LIMIT
) -> tuple[FloatArray, FloatArray]:
    if problem.horizon is not None:
        v0 = horizon_values_of(problem, policy)[0]
        if not want_occupancy:
            return v0, v0
        if problem.horizon > BLOCK and isinstance(policy, Policy) and len(v0[0]) <= DENSE_STATES:
            return v0, _long_occupancies(problem, policy, problem.horizon)
        spent = [np.tensordot(w, b, 1) for _, w, b in _flows(problem, policy)]
        return v0, np.sum(spent, axis=0)
    check_policy(problem, policy)
    S, N = problem.n_states, problem.n_models
    v = policy_reward(problem, policy.probs)
    h = np.tile(problem.p0, (N, 1))
    if is_large_and_sparse(problem):
        return _krylov(problem, policy.probs, v, h, want_occupancy, deadline)
    m = problem.models
    where = (m.indptr, m.next_states, m.prob)
    if S <= KERNEL_STATES:
        threads = N * S**3 > PARALLEL_WORK
        kernel.evaluate_models(threads, 0, N, *where, policy.probs, problem.gamma, v, h)
        return v, h
    from scipy.linalg import lu_factor, lu_solve

    P = np.empty((S, S))
    for omega in range(N):
        deadline.check()
        kernel.policy_matrix(*where, N, omega, policy.probs, P)
        factors = lu_factor(np.eye(S) - problem.gamma * P, overwrite_a=True)
        v[omega] = lu_solve(factors, v[omega])
        if want_occupancy:
            h[omega] = lu_solve(factors, h[omega], trans=1)
    return v, h


def is_large_and_sparse(problem: Problem) -> bool:
    """Whether values are solved for by iteration, to `RELATIVE_ERROR`."""
    S, stored = problem.n_states, problem.models.next_states.size
    pairs = max(int(problem.models.available.sum()), 1)
    return S > 3000 or (S >= SPARSE_STATES and stored < SPARSE_SHARE * S * pairs)


def _krylov(
    problem: Problem,
    probs: FloatArray,
    r: FloatArray,
    p0: FloatArray,
    want_occupancy: bool,
    deadline: Deadline,
) -> tuple[FloatArray, FloatArray]:
    import scipy.sparse as sp

    m, S, gamma = problem.models, problem.n_states, problem.gamma
    rows, columns = kernel.policy_sparsity(m.indptr, m.next_states, probs)
    share = max((1 - gamma) * RELATIVE_ERROR, 4e-16)
    v, h, reached = r.copy(), p0.copy(), np.zeros((m.n_models, 2))
    for part in chunks(m.n_models, FIRST):  # Ctrl-C is served between two of them
        deadline.check()
        kernel.evaluate_sparse(
            True, part.start, part.stop, m.indptr, m.prob, rows, columns, probs, gamma, share,
            want_occupancy, v, h, reached,
        )  # fmt: skip
    for omega in np.flatnonzero(~(reached <= share).all(axis=1)):  # rare: states that mix slowly
        deadline.check()
        # A randomized row lists a next state once per action; CSR sums such duplicates.
        values = np.empty(columns.size)
        kernel.fill_policy_rows(m.indptr, m.prob, m.n_models, int(omega), probs, values)
        P: Any = sp.csr_array((values, columns, rows), shape=(S, S))
        M = sp.eye_array(S, format="csr") - gamma * P
        v[omega] = solve_checked(M, r[omega], gamma)
        if want_occupancy:
            h[omega] = solve_checked(M.T.tocsr(), p0[omega], gamma, norm=1)
    return v, h


def policy_rows(
    problem: Problem, probs: FloatArray
) -> tuple[NDArray[np.int64], NDArray[np.int32], FloatArray]:
    """π(a|s)·P̂^ω(·|s,a) of every model on one sparsity: rows (S + 1,), columns (nnz,), (N, nnz)."""
    m = problem.models
    rows, columns = kernel.policy_sparsity(m.indptr, m.next_states, probs)
    P = np.empty((m.n_models, columns.size))
    for omega in range(m.n_models):
        kernel.fill_policy_rows(m.indptr, m.prob, m.n_models, omega, probs, P[omega])
    return rows, columns, P


def solve_checked(M: Any, b: FloatArray, gamma: float, norm: float = np.inf) -> FloatArray:
    """x with ‖b − Mx‖ ≤ (1 − γ)·`RELATIVE_ERROR`·‖x‖, or a `SolverError`.

    The norm is the one in which ‖M⁻¹‖ = 1/(1 − γ): ∞ for values, 1 for occupancies. Where states
    mix fast, one short Krylov cycle does it; where they do not, the matrix is nearly banded and a
    sparse factorisation fills in little.
    """
    from scipy.sparse.linalg import gmres, splu

    def krylov(residual: FloatArray) -> FloatArray:
        cycles = 1 if direct else 40
        return np.asarray(gmres(M, residual, rtol=1e-10, restart=KRYLOV, maxiter=cycles)[0])

    direct = M.shape[0] <= DIRECT_STATES
    solve_for: Callable[[FloatArray], FloatArray] = krylov
    x, residual, share = np.zeros_like(b), b, np.inf
    for _ in range(20):  # each round refines: the correction is solved for the true residual
        x = x + solve_for(residual)
        residual = b - M @ x
        size = max(float(np.linalg.norm(x, norm)), float(np.finfo(float).tiny))
        before, share = share, float(np.linalg.norm(residual, norm)) / size
        if share <= max((1 - gamma) * RELATIVE_ERROR, 4e-16):
            return x
        if direct and solve_for is krylov and share > 1e-3 * min(before, 1.0):
            solve_for = splu(M.tocsc()).solve
    raise SolverError(
        "The linear system of a policy's values did not converge: relative residual "
        f"{share:.1e} with gamma = {gamma:g}. A smaller gamma, or fewer states, would help."
    )


def action_values(problem: Problem, V: FloatArray) -> FloatArray:
    """Q (n_models, n_states, n_actions) of one value function per model, V (n_models, n_states)."""
    m = problem.models
    Q = np.empty((m.n_models, m.n_states, m.n_actions))
    kernel.fill_action_values(
        m.prob.size > PARALLEL_CELLS, 0, m.n_states, m.indptr, m.next_states, m.prob, problem.R,
        problem.gamma, np.ascontiguousarray(V), Q,
    )  # fmt: skip
    return Q


def return_gradients(problem: Problem, policy: Policy) -> tuple[FloatArray, FloatArray]:
    """Returns ρ(π, P̂^ω), (n_models,), and their gradients, (n_models, n_states, n_actions).

    Pairs that are not allowed have gradient 0. With a horizon every step has its part in it,
    Σ_t γ^t b^ω_t(s)·Q^ω_t(s, a): the policy takes the same action in s at all steps.
    """
    if problem.horizon is None:
        v, h = evaluate_policy(problem, policy)
        gradient = h[:, :, None] * action_values(problem, v)
    else:
        V, B = horizon_values_of(problem, policy, every=True), state_probabilities(problem, policy)
        v, gradient = V[0], np.zeros((problem.n_models, *policy.probs.shape))
        for t, b in enumerate(B):
            gradient += problem.gamma**t * b[:, :, None] * action_values(problem, V[t + 1])
    gradient *= problem.allowed
    return v @ problem.p0, gradient
