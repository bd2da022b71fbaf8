"""Returns, values and occupancies of a given policy on every model (section 2, eq. 5.1).

    v^ω = (I − γP̂^ω_π)⁻¹ r^ω_π        h^ω = (I − γP̂^ω_π)⁻ᵀ p₀        ρ(π, P̂^ω) = p₀ᵀv^ω

Small or dense models are factorised directly. Large sparse ones are solved by a Krylov method whose
residual is checked: as ‖(I − γP)⁻¹‖∞ = 1/(1 − γ), a residual e means an error of at most e/(1 − γ).

How returns change with the policy is exact, too; with the value and occupancy of π in one model,

    ∂ρ(π, P̂^ω)/∂π(a|s) = h^ω(s)·Q^ω(s, a),        Q^ω(s, a) = R[s, a, ω] + γ P̂^ω_{s,a}ᵀ v^ω,

along directions that keep Σ_a π(a|s) = 1. The objective ρ^S is the minimum over ξ ∈ Ξ of
Σ_ω ξ_ω ρ_ω, so its gradient is the ξ-average of the models' gradients at the worst-case ξ: where
that ξ is not unique, ρ^S has a kink and this is one of its supergradients.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import BoolArray, FloatArray
from softrobust._core.limits import NO_LIMIT, Deadline, chunks
from softrobust.errors import InputError, SolverError
from softrobust.kernels.evaluate import (
    evaluate_models,
    evaluate_sparse,
    fill_action_values,
    fill_policy_rows,
    policy_matrix,
    policy_sparsity,
)
from softrobust.models.policy import Policy
from softrobust.problem import Problem

PARALLEL_WORK = 4_000_000  # multiply-adds below which threads cost more than they bring
PARALLEL_CELLS = 200_000  # stored probabilities below which they do for action values
KERNEL_STATES = 96  # above this LAPACK's blocked factorisation wins
RELATIVE_ERROR = 1e-10  # of a Krylov value, relative to the largest |v|
SPARSE_STATES, SPARSE_SHARE = 200, 0.1  # from here, up to this share of states in a row: iterate
KRYLOV = 40  # length of a Krylov cycle
FIRST = 4  # models of the first chunk of a Krylov evaluation
KEPT = 16  # evaluations kept per set of models
DIRECT_STATES = 20_000  # up to here a system that a cycle does not solve is factorised


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Evaluated:
    """A policy's returns, and all that they depend on besides the models."""

    R: FloatArray
    gamma: float
    p0: FloatArray
    probs: FloatArray
    returns: FloatArray

    def serves(self, problem: Problem, probs: FloatArray) -> bool:
        return (
            self.R is problem.R
            and self.gamma == problem.gamma
            and np.array_equal(self.p0, problem.p0)
            and np.array_equal(self.probs, probs)
        )


# A solver's answer is evaluated again by its certificate and its report, neighbours on a grid often
# share theirs, and all are measured against the uniform policy: the last few are kept with their
# models.
_KEPT: WeakKeyDictionary[Any, deque[_Evaluated]] = WeakKeyDictionary()


def policy_return(problem: Problem, policy: Policy) -> FloatArray:
    """(n_models,): ρ(π, P̂^ω) for every model, exact."""
    check_policy(problem, policy)
    kept = _KEPT.get(problem.models, deque())
    for evaluated in list(kept):
        if evaluated.serves(problem, policy.probs):
            with suppress(ValueError):  # another thread was first
                kept.remove(evaluated)
            kept.append(evaluated)  # what is asked for stays: the uniform policy above all
            return evaluated.returns.copy()
    return _keep(problem, policy, policy_values(problem, policy)).copy()


def _keep(problem: Problem, policy: Policy, V: FloatArray) -> FloatArray:
    """p₀ᵀv^ω of every model, kept for the next who asks."""
    x = np.asarray(V @ problem.p0)
    kept = _KEPT.setdefault(problem.models, deque(maxlen=KEPT))
    kept.append(_Evaluated(problem.R, problem.gamma, problem.p0, policy.probs, x))
    return x


def policy_values(problem: Problem, policy: Policy) -> FloatArray:
    """(n_models, n_states): the value function of the policy in every model."""
    return _evaluate(problem, policy)[0]


def evaluate_policy(
    problem: Problem, policy: Policy, deadline: Deadline = NO_LIMIT
) -> tuple[FloatArray, FloatArray]:
    """Values and occupancies together, each (n_models, n_states): one factorisation serves both.

    Large models are evaluated in chunks; once the deadline has passed, `OutOfTime` is raised.
    """
    V, h = _evaluate(problem, policy, True, deadline)
    if problem.n_states > KERNEL_STATES:
        _keep(problem, policy, V)
    return V, h


def occupancies(problem: Problem, policy: Policy) -> FloatArray:
    """(n_models, n_states): discounted state occupancies h^ω; each row sums to 1/(1 − γ)."""
    return evaluate_policy(problem, policy)[1]


def policy_reward(problem: Problem, probs: FloatArray) -> FloatArray:
    """(n_models, n_states): r^ω_π(s) = Σ_a π(a|s)·R[s, a, ω]."""
    return np.ascontiguousarray(np.einsum("sa,san->ns", probs, problem.R))


def check_policy(problem: Problem, policy: Policy, allowed: BoolArray | None = None) -> None:
    """The policy must speak of the problem's states and actions, and take `allowed` ones only.

    By default those are the problem's own.
    """
    if policy.states != problem.models.states or policy.actions != problem.models.actions:
        raise InputError(
            f"The policy has {len(policy.states)} states and {len(policy.actions)} actions; the "
            f"problem has {problem.n_states} and {problem.n_actions}, or their labels or order "
            "differ. Evaluate a policy on the states and actions it was made for."
        )
    bad = np.argwhere((policy.probs > 0) & ~(problem.allowed if allowed is None else allowed))
    if bad.size:
        s, a = bad[0]
        unknown = not problem.models.available[s, a]
        why = "and no model knows what follows" if unknown else "which is not allowed there"
        hint = " Choose one that was seen, or keep such pairs with the prior (min_count=0)."
        raise InputError(
            f"The policy takes action '{policy.actions[a]}' in state '{policy.states[s]}', {why} "
            f"({len(bad)} such pairs).{hint if unknown else ''}"
        )


def _evaluate(
    problem: Problem, policy: Policy, want_occupancy: bool = False, deadline: Deadline = NO_LIMIT
) -> tuple[FloatArray, FloatArray]:
    check_policy(problem, policy)
    S, N = problem.n_states, problem.n_models
    v = policy_reward(problem, policy.probs)
    h = np.tile(problem.p0, (N, 1))
    if is_large_and_sparse(problem):
        return _krylov(problem, policy.probs, v, h, want_occupancy, deadline)
    if S > KERNEL_STATES:
        return _lapack(problem, policy.probs, v, h, want_occupancy, deadline)
    m, threads = problem.models, N * S**3 > PARALLEL_WORK
    evaluate_models(threads, m.indptr, m.next_states, m.prob, policy.probs, problem.gamma, v, h)
    return v, h


def is_large_and_sparse(problem: Problem) -> bool:
    """Whether values are solved for by iteration, to `RELATIVE_ERROR`."""
    S, stored = problem.n_states, problem.models.next_states.size
    pairs = max(int(problem.models.available.sum()), 1)
    return S > 3000 or (S >= SPARSE_STATES and stored < SPARSE_SHARE * S * pairs)


def _lapack(
    problem: Problem,
    probs: FloatArray,
    r: FloatArray,
    p0: FloatArray,
    want_occupancy: bool,
    deadline: Deadline,
) -> tuple[FloatArray, FloatArray]:
    from scipy.linalg import lu_factor, lu_solve

    m, S = problem.models, problem.n_states
    v, h, P = r, p0, np.empty((S, S))
    for omega in range(problem.n_models):
        deadline.check()
        policy_matrix(m.indptr, m.next_states, m.prob, m.n_models, omega, probs, P)
        factors = lu_factor(np.eye(S) - problem.gamma * P, overwrite_a=True)
        v[omega] = lu_solve(factors, r[omega])
        if want_occupancy:
            h[omega] = lu_solve(factors, p0[omega], trans=1)
    return v, h


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
    rows, columns = policy_sparsity(m.indptr, m.next_states, probs)
    share = max((1 - gamma) * RELATIVE_ERROR, 4e-16)
    v, h, reached = r.copy(), p0.copy(), np.zeros((m.n_models, 2))
    for part in chunks(m.n_models, FIRST):  # Ctrl-C is served between two of them
        deadline.check()
        evaluate_sparse(
            m.indptr, m.prob, rows, columns, probs, gamma, share, want_occupancy,
            part.start, part.stop, v, h, reached,
        )  # fmt: skip
    for omega in np.flatnonzero(~(reached <= share).all(axis=1)):  # rare: states that mix slowly
        deadline.check()
        # A randomized row lists a next state once per action; CSR sums such duplicates.
        values = np.empty(columns.size)
        fill_policy_rows(m.indptr, m.prob, m.n_models, int(omega), probs, values)
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
    rows, columns = policy_sparsity(m.indptr, m.next_states, probs)
    P = np.empty((m.n_models, columns.size))
    for omega in range(m.n_models):
        fill_policy_rows(m.indptr, m.prob, m.n_models, omega, probs, P[omega])
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
    fill_action_values(
        m.prob.size > PARALLEL_CELLS, m.indptr, m.next_states, m.prob, problem.R, problem.gamma,
        np.ascontiguousarray(V), Q,
    )  # fmt: skip
    return Q


def return_gradients(problem: Problem, policy: Policy) -> tuple[FloatArray, FloatArray]:
    """Returns ρ(π, P̂^ω), (n_models,), and their gradients, (n_models, n_states, n_actions).

    Pairs that are not allowed have gradient 0.
    """
    v, h = evaluate_policy(problem, policy)
    gradient = h[:, :, None] * action_values(problem, v)
    gradient *= problem.allowed
    return v @ problem.p0, gradient
