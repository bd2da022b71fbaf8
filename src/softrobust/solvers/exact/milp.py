"""SR-MILP on HiGHS (section 4.1): the paper's own route to the best deterministic policy.

The program is that of `milp_program`, with rewards moved and scaled where their size asks for it,
and u, b and y of order 1. The policy is read from π, and always re-evaluated exactly.

HiGHS proposes, and never proves. It works in floating point with tolerances of 1e-7: its bounds
have been seen below the true optimum by 2e-7 of the returns on well-conditioned programs, and by
all of it where γ was near 1 (its presolve then cuts off feasible rules), although the policy it
called optimal earned exactly what it said. So the proof is that of `Exact`: an enumeration, or
branch and bound, each with its own account of rounding. It is tried first, from the local search's
policy on. Where it ends, HiGHS has nothing left to find, and is heard for some seconds only; else
the proof goes on from HiGHS's policy, and where that does not end in its share of the time, the
bound is the least it had reached, at worst the clairvoyant one. What HiGHS said is kept as
`stats["highs_bound"]`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import IntArray
from softrobust._core.files import atomic_write
from softrobust._core.limits import Deadline, Gap, Seconds, Seed
from softrobust._core.settings import Natural, one_of
from softrobust.bounds import Covers, clairvoyant_bound
from softrobust.bounds.best import best_bound
from softrobust.bounds.reduction import Reduced, reduce
from softrobust.errors import InputError, SolverError
from softrobust.models.policy import Policy
from softrobust.objective import soft_robust, value_at_risk
from softrobust.problem import Problem
from softrobust.returns import occupancies, static_return
from softrobust.solvers.base import Solution, Solver, Status, finish
from softrobust.solvers.exact.exact import Exact
from softrobust.solvers.exact.local_search import policy_of, search
from softrobust.solvers.exact.milp_program import (
    FORMULATIONS,
    Conditioned,
    Formulation,
    MilpModel,
    build_milp,
    condition,
)

# Feasibility, below HiGHS's default of 1e-6. At 1e-9 its presolve cut off optimal rules in 13 of 55
# small programs with γ = .999, at 1e-7 in none, with u of order 1 (`MilpModel.normalised`).
TOLERANCE = 1e-7
GAP, FEASIBILITY = 1e-9, 1e-6  # that another solver needs
SMALL = 1e-12  # probabilities below HiGHS's 1e-9 count too
STARTS = 10
BUILD_SHARE = 1 / 3  # of the time left, for bounds on occupancies,
HIGHS_SHARE = 0.8  # of what is then left, for HiGHS: the proofs before and after have the rest,
HEARD_SECONDS = 2.0  # for HiGHS where the best policy is proven, unless nobody set a clock,
PROOF_NODES = 10_000  # or so many nodes where there is no limit at all
PROVEN = (Status.OPTIMAL, Status.TOLERANCE_REACHED)


@final
@dataclass(frozen=True, slots=True)
class MILP(Solver):
    """The mixed-integer program, solved by HiGHS.

    Parameters
    ----------
    formulation : "strengthened" or "paper"
        With occupancy bounds, unscaled occupancies and a start from local search; or as printed.
    time_limit : float, optional
        Seconds in all.
    node_limit : int, optional
        Nodes of HiGHS's tree, and of the proof's. Unlike seconds it stops at the same place on
        every run, so HiGHS then works on one thread.
    gap : float
        Relative gap at which HiGHS stops, and the proof.
    seed : int or Generator
        For the local search.
    """

    formulation: Formulation = "strengthened"
    time_limit: Seconds | None = None
    gap: Gap = 1e-6
    seed: Seed = 0
    node_limit: Natural | None = None
    name: ClassVar[str] = "milp"

    def solve(self, problem: Problem) -> Solution:
        """Build the program, start it from a local optimum, and read the policy back."""
        if self.formulation == "paper":
            soft_robust(problem.objective, "The paper's program")
        deadline = Deadline(self.time_limit)
        reduced, allowed = _columns(problem, self.formulation)
        found = search(reduced, STARTS, self.seed, deadline)
        local = policy_of(problem, reduced, found.decision)
        if found.status is Status.INTERRUPTED:
            return self._only_local(problem, local, deadline)
        terms = condition(reduced.problem, allowed)
        try:
            until = deadline.part(BUILD_SHARE)
            model = build_milp(reduced.problem, allowed, self.formulation, until, terms)
            if self.formulation != "paper":
                model = model.normalised(1 - problem.gamma, float(reduced.problem.n_models))
            built = deadline.elapsed
            # Before HiGHS, which will use up the time: this bound costs a fraction of a second.
            known = best_bound(problem, Covers.DETERMINISTIC, deadline.left)
            stats: dict[str, Any] = {"local_search_value": found.value, "build_seconds": built}
            proof, until = None, deadline.part(HIGHS_SHARE)
            if self.formulation != "paper":
                proof = self._proof(problem, local, deadline.part(1 - HIGHS_SHARE), stats)
                local = proof.policy
        except KeyboardInterrupt:
            return self._only_local(problem, local, deadline)
        done = proof is not None and proof.status in (*PROVEN, Status.INTERRUPTED)
        if done and self.time_limit is not None:
            until = Deadline(min(HEARD_SECONDS, until.left))
        if terms.unit != 1.0 or terms.shift != 0.0:
            stats |= {"rewards_shift": terms.shift, "rewards_unit": terms.unit}
        start = None if self.formulation == "paper" else found.decision
        decision, status, policy = None, Status.INTERRUPTED, local
        if proof is None or proof.status is not Status.INTERRUPTED:
            decision, status = self._run(reduced, model, terms, start, until, stats)
        if decision is not None:
            proposed = policy_of(problem, reduced, decision)
            stats["milp_value"] = static_return(problem, proposed)
            policy = proposed if stats["milp_value"] > static_return(problem, local) else local
        if status is not Status.INTERRUPTED and not done:
            try:
                proof = self._proof(problem, policy, deadline, stats)
            except KeyboardInterrupt:  # the bound that was known before
                status = Status.INTERRUPTED
        if proof is not None:
            known = min(known, proof.bound or known, key=lambda bound: bound.value)
            if status is not Status.INTERRUPTED:
                policy, status = (policy if done else proof.policy), proof.status
        # Rounding never makes the two cross.
        bound = replace(known, value=max(known.value, static_return(problem, policy)))
        stats["seconds"] = deadline.elapsed
        return finish(problem, self.name, policy, status, stats, bound=bound)

    def _proof(
        self, problem: Problem, policy: Policy, clock: Deadline, stats: dict[str, Any]
    ) -> Solution:
        """Our own proof, from a policy on."""
        nodes, left = self.node_limit, None
        if self.time_limit is not None:
            left = max(clock.left, 1e-3)
        elif nodes is None:
            nodes = PROOF_NODES
        proof = Exact(self.gap, nodes, left, self.seed, start=policy).solve(problem)
        for name in ("seconds", "nodes"):
            stats[f"proof_{name}"] = stats.get(f"proof_{name}", 0) + proof.stats[name]
        return proof

    def _only_local(self, problem: Problem, policy: Policy, deadline: Deadline) -> Solution:
        """Ctrl-C before HiGHS began: the local search's policy with the clairvoyant bound."""
        stats, bound = {"seconds": deadline.elapsed}, clairvoyant_bound(problem)
        return finish(problem, self.name, policy, Status.INTERRUPTED, stats, bound=bound)

    def _run(
        self,
        reduced: Reduced,
        model: MilpModel,
        terms: Conditioned,
        start: IntArray | None,
        deadline: Deadline,
        stats: dict[str, Any],
    ) -> tuple[IntArray | None, Status]:
        """HiGHS: a decision if it has one, and how it ended."""
        highs = load_highs(model)
        highs.setOptionValue("mip_rel_gap", float(self.gap))
        highs.setOptionValue("mip_abs_gap", 0.0)
        for option in ("primal_feasibility_tolerance", "mip_feasibility_tolerance"):
            highs.setOptionValue(option, TOLERANCE)
        if self.time_limit is not None:
            highs.setOptionValue("time_limit", max(deadline.left, 1e-3))
        if self.node_limit is not None:
            highs.setOptionValue("mip_max_nodes", int(self.node_limit))
            highs.setOptionValue("parallel", "off")
        if start is not None:
            _give_start(highs, reduced, model, terms, start)
        run_highs(highs)
        info = highs.getInfo()
        outcome = highs.modelStatusToString(highs.getModelStatus())
        raw = terms.back(model.value(float(info.mip_dual_bound)))
        clocked = outcome == "Time limit reached"  # how far it came is another thing every time
        stats.update(
            highs_status=outcome,
            nodes=0 if clocked else int(max(info.mip_node_count, 0)),
            highs_bound=None if clocked else _number(raw),
            columns=model.cost.size,
            rows=model.row_lower.size,
        )
        status = {
            "Optimal": Status.TOLERANCE_REACHED,
            "Time limit reached": Status.TIME_LIMIT,
            "Solution limit reached": Status.NODE_LIMIT,  # HiGHS's word for nodes too
            "Interrupted by user": Status.INTERRUPTED,
            "Interrupted by HiGHS": Status.INTERRUPTED,
        }.get(outcome)
        if status is None:
            # The program always has a solution (any rule gives one), so this is numerical.
            return None, Status.LOCAL_OPTIMUM
        values = np.asarray(highs.getSolution().col_value)
        if values.size == 0 or info.primal_solution_status == 0:
            return None, status
        chosen = np.full(reduced.allowed.size, -1.0)  # the action of greatest π in every state
        chosen[model.pairs] = values[: model.pairs.size]
        return chosen.reshape(reduced.allowed.shape).argmax(axis=1).astype(np.int64), status


def write_milp(
    problem: Problem, path: str | Path, formulation: Formulation = "strengthened"
) -> None:
    """Write the program as an MPS (`.mps`) or LP (`.lp`) file for another solver.

    Columns are named by index: pi_s_a, u_s_a_w, b, y_w (z_w for percentiles). The objective is to
    be maximised. Beside it a file of the same name with `.json` behind it says how to read the
    answer, and the tolerances that are needed: by default solvers stop at a gap of 1e-4 of the
    objective, which offsets of the rewards can make larger than all that is at stake. Of the
    strengthened form such rewards are moved and scaled, and u, b and y are times 1 − γ, so that
    stock HiGHS finds the optimum but for a few in a thousand at the limits of floating point (see
    docs/attack.md); the printed form is written as it is. At tolerances below its
    own, HiGHS's presolve has been seen to cut off the best rule of one program in a hundred: its
    options that stand beside have none.
    """
    one_of("formulation", formulation, FORMULATIONS)
    problem.refuse_horizon("The integer program")
    target = Path(path)
    if target.suffix not in (".mps", ".lp"):
        raise InputError(f"A program is written as .mps or .lp; the file is '{target.name}'.")
    if not target.resolve().parent.is_dir():
        raise InputError(f"There is no folder for the program '{target}'. Create it first.")
    reduced, allowed = _columns(problem, formulation)
    terms = Conditioned.plain(reduced.problem)
    if formulation != "paper":
        terms = condition(reduced.problem, allowed)
    model = build_milp(reduced.problem, allowed, formulation, conditioned=terms)
    if formulation != "paper":  # the objective keeps its size
        model = model.normalised(1 - problem.gamma, 1 / (1 - problem.gamma))
    highs = load_highs(model)
    for i, name in enumerate(model.names(problem.n_actions)):
        highs.passColName(i, name)
    if str(highs.writeModel(str(target))).endswith("kError"):
        raise SolverError(f"HiGHS could not write '{target}'.")
    reading = {
        "value": "unit * objective + shift",
        "unit": terms.unit,
        "shift": terms.shift,
        "times": {"u": model.norm, "b": model.norm, "y": model.norm},
        "tolerances": {"relative_gap": GAP, "absolute_gap": GAP, "feasibility": FEASIBILITY},
        "highs": {"mip_rel_gap": GAP, "mip_abs_gap": GAP, "presolve": "off"},
    }
    with atomic_write(target.with_name(f"{target.name}.json")) as file:
        file.write(json.dumps(reading, indent=1) + "\n")


def load_highs(model: MilpModel) -> Any:
    """A silent `highspy.Highs` that holds the program."""
    import highspy

    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = model.cost.size, model.row_lower.size
    lp.sense_, lp.offset_ = highspy.ObjSense.kMaximize, model.constant
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = model.cost, model.lower, model.upper
    lp.row_lower_, lp.row_upper_ = model.row_lower, model.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = model.matrix.indptr
    lp.a_matrix_.index_ = model.matrix.indices
    lp.a_matrix_.value_ = model.matrix.data
    kinds = [highspy.HighsVarType.kInteger] * model.pairs.size
    whole = model.pairs.size + model.n_switches
    kinds += [highspy.HighsVarType.kContinuous] * (model.cost.size - whole)
    kinds += [highspy.HighsVarType.kInteger] * model.n_switches
    lp.integrality_ = kinds
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("small_matrix_value", SMALL)
    highs.passModel(lp)
    return highs


def run_highs(highs: Any) -> None:
    """Run HiGHS; Ctrl-C stops it and keeps its incumbent.

    `highs.solve()` would do the same, but prints about it and at the fifth Ctrl-C ends Python.
    """
    highs.HandleUserInterrupt = True
    highs.startSolve()
    ended = False
    while not ended:
        try:
            ended = highs.wait(0.1)[0]
        except KeyboardInterrupt:
            highs.cancelSolve()


def _columns(problem: Problem, formulation: Formulation) -> tuple[Reduced, NDArray[np.bool_]]:
    """The printed program has a column for every allowed action, the other one per kind."""
    reduced = reduce(problem)
    return reduced, reduced.problem.allowed if formulation == "paper" else reduced.allowed


def _give_start(
    highs: Any, reduced: Reduced, model: MilpModel, terms: Conditioned, decision: IntArray
) -> None:
    """The whole feasible point of a decision: π, u, b and y."""
    import highspy

    p = reduced.problem
    n, N, A = model.pairs.size, p.n_models, p.n_actions
    values = np.zeros(model.cost.size)
    taken = decision[model.pairs // A] == model.pairs % A
    values[:n] = taken
    u = np.where(taken[:, None], occupancies(p, p.policy(decision)).T[model.pairs // A], 0.0)
    values[n : n + n * N] = (u * model.scale).reshape(-1)
    # Returns as the program sees them: of its own rewards and this u.
    x = np.einsum("kn,kn->n", u, terms.R.reshape(-1, N)[model.pairs])
    x -= terms.c
    if model.n_switches:
        values[n + n * N] = p.objective.value(x, p.models.f)
        values[n + n * N + 1 :] = x < values[n + n * N]
    elif model.has_b:
        b = x.min() if not model.has_y else value_at_risk(x, p.models.f, p.objective.alpha)
        fixed = model.upper[n + n * N + 1 :] == 0
        b = min([b, *x[fixed]]) if model.has_y else b
        values[n + n * N] = b
        if model.has_y:
            values[n + n * N + 1 :] = model.scale * np.maximum(b - x, 0.0)
    values[n : values.size - model.n_switches] *= model.norm
    solution = highspy.HighsSolution()
    solution.col_value = list(values)
    highs.setSolution(solution)


def _number(x: float) -> float | None:
    """None for an infinite bound: JSON has no infinity."""
    return float(x) if np.isfinite(x) else None
