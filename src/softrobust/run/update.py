"""New rows for an old run: the posterior is updated, and the policy changes where that pays.

The updated problem is solved; its answer is a proposal. Starting from the old policy, one state
after another takes the proposed action, the best exact gain first, as long as each change raises
the objective by more than the margin; where the changes pay only together they are taken together,
if they gain more than the margin each on average. A clinic does not want its protocol to flutter.

Rows that the run knows already are recognised (`data.join.known_rows`) and left out: the file may
be the whole export again. Where none is left, nothing changes.
"""

import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, final

import numpy as np
from scipy.special import chdtrc

from softrobust._core.arrays import FloatArray, IntArray, entry_keys, found_at
from softrobust._core.limits import time_bound
from softrobust._core.notes import read_notes
from softrobust._core.settings import real
from softrobust.certificate.posterior import REPLICATIONS
from softrobust.data import TransitionLog, read_log
from softrobust.data.join import UNKNOWN, join_logs, known_rows
from softrobust.data.table import TableFile, opened
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.models.policy import Policy, action_shares, policy_of
from softrobust.objective import Objective
from softrobust.posterior import FittedPosterior
from softrobust.posterior.base import CHOOSING, FRESH
from softrobust.posterior.sampling import Draws, with_taken
from softrobust.problem import Problem
from softrobust.returns import averaged, static_return
from softrobust.returns.evaluation import AnyPolicy, rules_of
from softrobust.run.folder import Run
from softrobust.run.growth import Answer
from softrobust.run.options import Options, Setup, update_command
from softrobust.run.setup import in_time, on_models, problem_of, read_rows
from softrobust.run.solve import certified, cut_notes, with_promise
from softrobust.solvers.base import Solution, Solver, Status, finish, solve
from softrobust.solvers.improve import Improve, clear_changes
from softrobust.solvers.practice_class import PracticeClass
from softrobust.study.solved import need_log, need_stationary

EMPTY = "A log needs at least one transition"


def update(
    run: Run,
    path: Path,
    solver: Solver,
    margin: float = 0.0,
    columns: dict[str, str] | None = None,
    seed: int = 0,
) -> tuple[Run | None, dict[str, Any]]:
    """Add the rows of `path` to the run's log and update its policy.

    A change of action must gain `margin` units of the objective. Rows that the log has already are
    left out. Returns the updated run (None where there was no new row) and the record of what
    changed, ready for JSON.
    """
    real("margin", margin, least=0)
    log, posterior = need_log(run, "An update")
    asked = {"margin": margin or None, "columns": columns, "time_limit": time_bound().limit}
    command = update_command(run.path, path, solver, asked | {"seed": seed})
    new = _read(run, path, columns)
    record: dict[str, Any] = {"old_hash": log.data_hash, "margin": margin, "new_file": path.name}
    if new is None:
        return None, record | {"new_hash": None, "changes": [], "new_rows": 0, "known_rows": 0}
    before = {log.data_hash, *(str(old.get("new_hash")) for old in run.updates)}
    there = np.zeros(new.n_rows, np.int64) if new.data_hash in before else known_rows(log, new)
    fresh = there == UNKNOWN
    seen = {"new_rows": int(fresh.sum()), "known_rows": int((~fresh).sum())}
    record |= {"new_hash": new.data_hash, **seen, "changes": []}
    if not fresh.any():
        return None, record
    # A file with most of the old rows is the whole export: what it lacks was changed or removed.
    absent = log.n_rows - record["known_rows"]
    record["absent_rows"] = absent if record["known_rows"] > 0.5 * log.n_rows else None
    drift = drift_test(posterior, new.part(fresh), seed, log)
    both = join_logs(log, new, there)
    setup = _setup(run, both, path.name)
    problem, both = setup.problem, setup.log
    old = carried(run.solution.policy, problem)
    # The solver learns of the log, and chooses such a policy as the one that may be changed.
    learned = {"log": both, "stationary": isinstance(old, Policy)}
    own = {f.name: learned[f.name] for f in fields(solver) if f.name in learned}  # type: ignore[arg-type]
    proposal, among = _proposed(problem, replace(solver, **own))  # type: ignore[type-var]
    if isinstance(old, Policy):
        need_stationary(proposal.policy, "An update of one rule for all steps")
    policy, gains = adopt(problem, old, proposal.policy, margin)
    apart = rules_of(proposal.policy).argmax(axis=2) != rules_of(policy).argmax(axis=2)
    differ = apart.any(axis=0) & np.asarray(problem.decided)
    record |= {
        "data_hash": both.data_hash,
        "drift": drift.to_dict(),
        "changes": _changes(log, both, averaged(problem, old), averaged(problem, policy), gains),
        "kept": int(differ.sum()),
        "added_states": [name for name in both.states if name not in log.states.lookup],
    }
    solution = proposal
    if not np.array_equal(policy.probs, proposal.policy.probs):
        known: dict[str, Any] = {"policy": policy, "stats": {"updated": True}}
        known |= {"solver": proposal.solver, "bound": proposal.bound, "status": Status.GIVEN}
        solution = finish(problem, **known)
    found = Answer(setup, solution, among if isinstance(policy, Policy) else None)
    made = with_promise(certified(setup, solution, run.seed, REPLICATIONS, found=found))
    notes, updates = (*made.notes, *cut_notes()), (*run.updates, record)
    more: dict[str, Any] = {"command": command, "visits": run.visits, "bins": run.bins}
    return replace(made, notes=notes, updates=updates, **more), record


def _proposed(problem: Problem, solver: Solver) -> tuple[Solution, PracticeClass | None]:
    """A solver's answer, and the class it was chosen from, where that is not all of its kind."""
    if not isinstance(solver, Improve):
        return solve(problem, solver), None
    chosen = solver.choice(problem)
    return solver.solution(problem, chosen), clear_changes(problem, chosen)


def _read(run: Run, path: Path, columns: dict[str, str] | None) -> TransitionLog | None:
    """The new rows, of visits as those of the run were or of a log; None where there are none."""
    how = run.visits
    try:
        if how is None or columns is not None:
            return read_log(path, columns=columns)
        with opened(TableFile(path, **how["read"])) as table:
            rules = dict(how["rules"])
            ids = [rules["id"]] if isinstance(rules["id"], str) else rules["id"]
            if not {*ids, rules["action"]} <= set(table.names):
                return read_log(table)
            if "events" in rules:
                raise InputError(
                    f"The run's rewards came from a table of events, {rules['events']}: make a log "
                    f"of {path.name} and its events first (inspect writes one), and update with it."
                )
            if run.bins is not None:
                rules["bins"] = run.bins
            return read_rows(table, Options(visits=rules))[0]
    except InputError as error:
        if str(error).startswith(EMPTY):
            return None
        raise


def _setup(run: Run, log: TransitionLog, source: str) -> Setup:
    """The run's problem on models drawn from the updated posterior."""
    fitted = run.posterior.again(log)
    # The run's own seed: what changes comes from the new rows, not from other random numbers.
    train_seed, test_seed = np.random.SeedSequence(run.seed).spawn(2)
    old = run.problem
    models = in_time(Draws.of(fitted.share(CHOOSING), old.n_models, train_seed))
    log, fitted = on_models(log, fitted, models)
    barred = old.models.available & ~old.allowed  # what the user forbade, not what was unseen
    allowed = np.ones((models.n_states, models.n_actions), dtype=bool)
    allowed[np.ix_(*_places(old.models, models))] = ~barred
    models = with_taken(models, log.pair_counts)
    goal = _objective_on(old.objective, models)
    problem = problem_of(log, models, old.gamma, goal, allowed, old.horizon)
    return Setup(problem, log, fitted, None, read_notes(log.notes), test_seed, source)


def _objective_on(objective: Objective, models: ModelSet) -> Objective:
    """The objective on labels that may be more: a policy to measure against goes on as practice."""
    goal = objective.anew()
    if goal.reference is None or goal.reference.policy is None:
        return goal
    policy = goal.reference.policy
    assert models.taken is not None  # of a log
    s, rows = _on_labels(policy, models)
    probs = _for_steps(action_shares(models.taken, models.available)[0], policy)
    probs[..., s, :] = rows
    known = policy_of(probs, models.states, models.actions)
    return goal.measured_against(replace(goal.reference, policy=known))


def _for_steps(rule: FloatArray, like: AnyPolicy) -> FloatArray:
    """One rule as often as the other policy has steps."""
    steps = () if isinstance(like, Policy) else (like.horizon,)
    return np.broadcast_to(rule, (*steps, *rule.shape)).copy()


def _on_labels(policy: AnyPolicy, models: ModelSet) -> tuple[IntArray, FloatArray]:
    """Where the policy's states are among those of the models, and its rows for their actions."""
    s, a = _places(policy, models)
    rows = np.zeros((*policy.probs.shape[:-1], models.n_actions))
    rows[..., a] = policy.probs
    return s, rows


def _places(old: Any, new: Any) -> tuple[IntArray, IntArray]:
    """Where old states and actions are among the new ones, which have them all."""
    pairs = ((old.states, new.states), (old.actions, new.actions))
    s, a = (np.array([there.lookup[name] for name in names]) for names, there in pairs)
    return s, a


def carried(policy: AnyPolicy, problem: Problem) -> AnyPolicy:
    """The old policy on the labels of the new problem; states it did not know act uniformly."""
    models = problem.models
    probs = _for_steps(problem.uniform_policy().probs, policy)
    s, rows = _on_labels(policy, models)
    barred = (rows * ~problem.allowed[s]).reshape(-1, *rows.shape[-2:]).any(axis=(0, 2))
    known = np.asarray(policy.decided) & ~barred
    probs[..., s[known], :] = rows[..., known, :]
    made: AnyPolicy = policy_of(probs, models.states, models.actions, problem.decided)
    return made


def adopt(
    problem: Problem, old: AnyPolicy, proposal: AnyPolicy, margin: float
) -> tuple[AnyPolicy, dict[int, float]]:
    """The old policy with the proposed changes that gain more than the margin, and their gains.

    A change is of a state, at all steps. Where time is short they are judged together, and not
    one by one.
    """
    began = time.monotonic()
    new = np.broadcast_to(proposal.probs, old.probs.shape)
    probs, value = old.probs.copy(), static_return(problem, old)
    each = time.monotonic() - began
    apart = (np.abs(rules_of(old) - rules_of(proposal)) > 1e-9).any(axis=(0, 2))
    todo = [int(s) for s in np.flatnonzero(apart & np.asarray(problem.decided))]
    gains: dict[int, float] = {}

    def earned(rows: list[int]) -> float:
        trial = probs.copy()
        trial[..., rows, :] = new[..., rows, :]
        return static_return(problem, replace(old, probs=trial)) - value

    while todo:
        n = len(todo)
        alone = time_bound().affords("changes", n, each, CHANGES_SHARE, 0) == n
        single = [earned([s]) for s in todo] if alone else [-np.inf]
        best = int(np.argmax(single))
        if single[best] > margin:
            chosen, gain = [todo[best]], single[best]
        else:
            chosen, gain = list(todo), earned(todo)
            if gain <= margin * len(todo) or gain <= 1e-12 * abs(value):
                break
        probs[..., chosen, :] = new[..., chosen, :]
        value += gain
        gains |= {s: gain / len(chosen) for s in chosen}
        todo = [s for s in todo if s not in chosen]
    return replace(old, probs=probs), gains


def _changes(
    before: TransitionLog, after: TransitionLog, old: Policy, new: Policy, gains: dict[int, float]
) -> list[dict[str, Any]]:
    """The states whose action changed, with the reason."""
    out, values = [], list(gains.values())
    for s, gain in sorted(gains.items(), key=lambda item: -item[1]):
        state, taken = new.states[s], [p.actions[int(p.decision[s])] for p in (old, new)]
        seen = [[_seen(log, state, name) for name in taken] for log in (before, after)]
        change: dict[str, Any] = {"state": state, "before": taken[0], "after": taken[1]}
        change |= {"mix_before": old.mix(s), "mix_after": new.mix(s), "gain": gain}
        change |= {"seen_before": seen[0], "seen_after": seen[1]}
        out.append(change | {"together": values.count(gain) > 1})
    return out


def _seen(log: TransitionLog, state: str, action: str) -> int:
    at = log.states.lookup.get(state, -1), log.actions.lookup.get(action, -1)
    return 0 if min(at) < 0 else int(log.pair_counts[at])


# --------------------------------------------------------------------------------------------------
# Did the world change? New transitions and rewards against what the old posterior predicts.
#
# For every pair seen in the new rows the old posterior predicts a distribution of next states. The
# statistic is the deviance of the new counts from its mean, 2 Σ n log(n/(n_k·p̄)), which grows with
# any difference, for better or worse; its distribution if nothing changed comes from simulation:
# draw a model from the posterior, draw the same number of transitions of each pair from it. A small
# p-value says that the world, the coding of states, or the people who record it have changed.
# Transitions that the old model holds impossible count as a change when they are more than a few.
# Rewards are compared pair by pair: with a χ² test where they vary, by value where they do not.

DRAWS, FEWEST, TRIAL = 1000, 50, 2
MOST_CELLS = 2**27  # probabilities of all draws (1 GiB)
DRIFT_SHARE, CHANGES_SHARE = 0.2, 0.5  # of the time left
LEVEL = 0.05
FEW = 0.05  # share of rows the old model holds impossible that may be chance


@final
@dataclass(frozen=True, slots=True)
class Drift:
    """The test: its p-value, how many rows it could use, and how many had no prediction.

    `impossible` counts new transitions that the old posterior excludes: a next state outside its
    support, or a pair that had no model. `reward_p` is the p-value of the rewards (0 where a reward
    that was fixed differs), None where they cannot be compared.
    """

    p_value: float | None
    rows: int
    impossible: int
    reward_p: float | None = None

    @property
    def changed(self) -> bool:
        """Whether anything speaks for a change."""
        small = [p for p in (self.p_value, self.reward_p) if p is not None and p < LEVEL / 2]
        return bool(small) or self.impossible > FEW * (self.rows + self.impossible)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self) | {"changed": self.changed}


def drift_test(
    posterior: FittedPosterior, new: TransitionLog, seed: int = 0, old: TransitionLog | None = None
) -> Drift:
    """Test the rows of `new`, whose labels may go beyond those of the posterior's own log.

    With `old`, the log that the posterior was fitted to, rewards are compared too.
    """
    fresh = posterior.share(FRESH)
    draws = min(DRAWS, fresh.pool or DRAWS)
    if fresh.pool is None:
        began, trial = time.monotonic(), fresh.sample(TRIAL, np.random.default_rng([seed, 9]))
        each = (time.monotonic() - began) / TRIAL
        draws = min(draws, max(FEWEST, MOST_CELLS // max(trial.next_states.size, 1)))
        draws = time_bound().affords("drift", draws, each, DRIFT_SHARE, TRIAL)
    models = fresh.sample(draws, np.random.default_rng([seed, 7]))
    pair, s_next, _ = _rows_on(models, new)
    stored = entry_keys(models.indptr, models.next_states, models.n_states)
    place, hit = found_at(stored, pair * models.n_states + s_next)
    known = np.bincount(place[hit], minlength=stored.size)  # of the entries of the models
    rows = int(known.sum())
    impossible = new.n_rows - rows
    reward_p = None if old is None else reward_test(old, new)
    if rows == 0 or draws < FEWEST:  # too few for a p-value to be small
        return Drift(None, rows, impossible, reward_p)
    N, indptr = models.n_models, models.indptr
    rng = np.random.default_rng([seed, 8])
    observed, simulated = 0.0, np.zeros(N)
    for k in np.unique(np.searchsorted(indptr, np.flatnonzero(known), side="right") - 1):
        lo, hi = indptr[k], indptr[k + 1]
        block = models.prob[lo * N : hi * N].reshape(N, hi - lo)
        block = block / block.sum(axis=1, keepdims=True)  # multinomial wants sums of exactly 1
        mean, counts = block.mean(axis=0), known[lo:hi]
        n = int(counts.sum())
        observed += float(_deviance(counts[None, :], n * mean)[0])
        simulated += _deviance(rng.multinomial(n, block), n * mean)
    # The observed value counts as one of the draws: never a p-value of 0.
    p = (1 + int(np.sum(simulated >= observed - 1e-9 * abs(observed)))) / (N + 1)
    return Drift(float(p), rows, impossible, reward_p)


def _deviance(counts: Any, expected: Any) -> Any:
    """2 Σ n log(n/expected) of every row, with 0·log 0 = 0."""
    ratio = np.where(counts > 0, counts / np.maximum(expected, 1e-300), 1.0)
    return 2.0 * (counts * np.log(ratio)).sum(axis=1)


def reward_test(old: TransitionLog, new: TransitionLog) -> float | None:
    """p-value of the new rewards: χ² of the pairs' means, or 0 where a fixed reward differs."""
    if old.reward is None or new.reward is None or old.rewards is None:
        return None
    pair, s_next, ok = _rows_on(old, new)
    expected, known = old.rewards.lookup(pair, s_next)
    if not known.any():
        return None
    pair, rest = pair[known], (new.reward[ok] - expected)[known]
    own, _ = old.rewards.lookup(old.s.astype(np.int64) * old.n_actions + old.a, old.s_next)
    n_pairs = int((np.asarray(old.pair_counts) > 0).sum())
    scale = max(float(np.abs(old.reward).max()), 1e-300)
    noise = float(np.sqrt(np.square(old.reward - own).sum() / max(old.n_rows - n_pairs, 1)))
    if noise <= 1e-9 * scale:
        return 0.0 if float(np.abs(rest).max()) > 1e-6 * scale else 1.0
    size = old.n_states * old.n_actions
    n = np.bincount(pair, minlength=size)
    before = np.asarray(old.pair_counts).reshape(-1)
    seen = (n > 0) & (before > 0)
    mean = np.bincount(pair, weights=rest, minlength=size)[seen] / n[seen]
    spread = noise**2 * (1 / n[seen] + 1 / before[seen])
    return float(chdtrc(int(seen.sum()), float((mean**2 / spread).sum())))


def _rows_on(old: Any, new: TransitionLog) -> tuple[Any, Any, Any]:
    """Pairs and next states of the new rows that the old labels know, and which rows those are."""
    at_s = np.array([old.states.lookup.get(name, -1) for name in new.states])
    at_a = np.array([old.actions.lookup.get(name, -1) for name in new.actions])
    s, a, s_next = at_s[new.s], at_a[new.a], at_s[new.s_next]
    ok = (s >= 0) & (a >= 0) & (s_next >= 0)
    return s[ok].astype(np.int64) * len(old.actions) + a[ok], s_next[ok], ok
