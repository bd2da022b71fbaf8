"""As many models as the question needs, and the best of several answers on models none has seen.

The best policy on N models is one for these N. So N doubles until what the answer misses under the
posterior is at most `SHARE` of what is to be gained, or more models no longer help, or the work
comes to some seconds: these are counted from sizes and not timed, so that the answer is the same on
every machine, unless somebody gave a time limit.
Every look takes replications of its own, at its share of the level (`certificate.posterior`), so
that the last limit holds although luck had a part in stopping there. Solvers that prove are spared
until the last round: a local search answers for them, and only the last answer needs a proof.

`Improve` keeps to practice wherever the log does not show a gain clearly. No number of models
changes that: its policy stays, and is compared with the best of those that change what clearly pays
(`solvers.improve.clear_changes`). What the posterior alone speaks for is recorded, and noted.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np

from softrobust._core.limits import Deadline, stage, time_bound
from softrobust._core.notes import Level, Note
from softrobust.bounds import Covers
from softrobust.bounds.reduction import rounding
from softrobust.certificate import posterior as posteriors
from softrobust.certificate.comparison import paired_difference
from softrobust.certificate.intervals import Estimate
from softrobust.certificate.posterior import PosteriorCertificate, class_of
from softrobust.data import TransitionLog
from softrobust.objective import SoftRobust
from softrobust.posterior.base import CHOOSING
from softrobust.posterior.sampling import Draws, origin, with_taken
from softrobust.problem import Problem
from softrobust.returns import Returns, returns_of, stream_returns, uniform_value
from softrobust.run.options import Setup
from softrobust.run.setup import MOST_CELLS
from softrobust.solvers import MILP, Exact, LocalSearch, Nominal, Solution, Solver, SRect, solve
from softrobust.solvers.baselines.behaviour import PRACTICE, behaviour_policy, given
from softrobust.solvers.exact.randomized import RandomizedAscent
from softrobust.solvers.improve import Improve, clear_changes
from softrobust.solvers.practice_class import PracticeClass, solve_within
from softrobust.solvers.promise import NOISE, Promise
from softrobust.solvers.registry import DEFAULT_SECONDS

SHARE = 0.01
STALLED = 0.8  # of what was left two looks ago: then more models are not what is wanting
# For all rounds, where nobody gave a limit, as `replication_seconds` counts them
KEEPING_SECONDS, SEARCHING_SECONDS = 8.0, 30.0
GROWING_SHARE = 0.3  # of the time that is left, where somebody did
QUICK_STARTS = 4  # of the local search in a round
SEARCHING = (Exact, MILP, LocalSearch, RandomizedAscent)  # their answer is the best on the models
POOL_STATES, POOL_WORK = 100, 1e9  # up to here, and up to S³·A·N, rivals are worth their time,
POOL_SECONDS = 3.0  # so much for a search where somebody gave a limit,
POOL_NUMBERS, POOL_STEPS = 1e5, 20  # and S·A·N and programs up to which randomizing is tried
VALIDATION, VALIDATED = 4, 1000  # the stream on which answers are compared, and its models
SEARCHED = 300  # models on which rivals of `Improve` are looked for
CANDIDATES = "candidates"  # among the stats: what each earned there, and why it is not the answer
NO_MORE, NOT_CLEAR, NOT_PROMISED = "no_more", "not_clear", "not_promised"
LEFT_OVER = 100  # models that are enough for that
TRIED, VALIDATING_SHARE = 4, 0.2  # models that are timed, and of the time left, for comparing


@final
@dataclass(frozen=True, slots=True)
class Answer:
    """What was found, on how many models, and what is known of it under the posterior.

    `among` is the class that it is to be the best of; `open` is what was left at each look
    so far, as a share of what is to be gained.
    """

    setup: Setup
    solution: Solution[Any]
    among: PracticeClass | Covers | None = None
    promise: Promise | None = None
    under: PosteriorCertificate | None = None
    open: tuple[float, ...] = ()
    notes: tuple[Note, ...] = ()


def answer(setup: Setup, solver: Solver, seed: int, replications: int, named: bool) -> Answer:
    """The policy, on as many models as it needs; where nobody named a solver, the best of several.

    `replications` are those of one look; without any, the number of models stays what it is.
    """
    many = replications if _endless(setup) else 0
    if isinstance(solver, Improve):
        chosen, clock = solver.choice(setup.problem), time_bound().part(GROWING_SHARE)
        clear = clear_changes(setup.problem, chosen)
        found = _grown(
            Answer(setup, solver.solution(setup.problem, chosen), clear, chosen.promise),
            lambda there, _: solver.solution(there.problem, chosen), seed, many, clock,
            KEEPING_SECONDS,
        )  # fmt: skip
        found = _beside_others(found, solver.log, seed)
        if found.open and found.under is None:
            found = _looked(found, seed, many, clock)
        return replace(found, notes=(*found.notes, *_close(found.promise)))
    looked: PosteriorCertificate | None = None
    if not many or not _searches(setup, solver):
        found = Answer(setup, _solved(setup, solver), setup.policies)
    else:
        clock = time_bound().part(GROWING_SHARE)

        def again(there: Setup, before: Solution | None) -> Solution:
            return _solved(there, _quick(solver, before, clock))

        found = Answer(setup, again(setup, None), setup.policies)
        found = _grown(found, again, seed, many, clock, SEARCHING_SECONDS)
        looked = found.under
        if isinstance(solver, (Exact, MILP)):
            proven = _solved(found.setup, _proving(solver, found.solution, clock))
            found = replace(found, solution=proven, under=_if_same(found, proven))
    table = isinstance(setup.problem, Problem)
    if table and not named and setup.posterior is not None and setup.policies is None:
        best = best_on_fresh(found.setup, found.solution, seed)
        notes = () if best.policy.deterministic else _of_deterministic(looked)
        if CANDIDATES not in best.stats and "comparisons" not in time_bound().cut:
            notes = (*notes, Note("not_compared"))
        found = replace(found, solution=best, under=_if_same(found, best), notes=notes)
    if found.open and found.under is None:
        found = _looked(found, seed, many, time_bound().part(GROWING_SHARE))
    return found


def _of_deterministic(looked: PosteriorCertificate | None) -> tuple[Note, ...]:
    """What no deterministic policy exceeds, beside an answer that randomizes: that bound is tight.

    All looks hold together with their level, the one at the answer's own class among them.
    """
    if looked is None or looked.upper is None or looked.covers is not Covers.DETERMINISTIC:
        return ()
    facts = {"upper": looked.upper, "confidence": looked.confidence}
    return (Note("upper_deterministic", facts=facts),)


def _endless(setup: Setup) -> bool:
    """Whether more models can be drawn, and nobody said how many."""
    if not setup.more_models or not isinstance(setup.problem.objective, SoftRobust):
        return False
    drawn = origin(setup.problem.models)
    return drawn is not None and drawn.posterior.pool is None


def _searches(setup: Setup, solver: Solver) -> bool:
    """Whether more models make the answer better: it is the best on them, of a fresh search."""
    file, nodes = getattr(solver, "checkpoint", None), getattr(solver, "node_limit", None)
    fresh = nodes is None and (file is None or not Path(file).exists())
    return isinstance(solver, SEARCHING) and setup.problem.horizon is None and fresh


def _grown(
    found: Answer, again: Callable[[Setup, Solution | None], Solution], seed: int, many: int,
    clock: Deadline, seconds: float,
) -> Answer:  # fmt: skip
    """Double the models until little is left, or more do not help, or time is up."""
    while many:
        began = clock.elapsed
        now = _looked(found, seed, many, clock)
        took, problem = clock.elapsed - began, found.setup.problem
        late = 2.5 * took > clock.left
        if clock.limit is None:
            among = found.among or class_of(found.solution.policy)
            each = many * posteriors.replication_seconds(problem, problem.n_models, among)
            late = (seconds := seconds - each) < 2 * each
        left = now.open  # little of it, or what is left has other reasons than few models
        enough = left[-1] <= SHARE or (len(left) > 2 and left[-1] > STALLED * left[-3])
        if enough or late or 2 * problem.models.prob.size > MOST_CELLS:
            if late and not enough:
                time_bound().note("models")
            return now
        stage(f"choosing on {2 * now.setup.problem.n_models} models")
        more = _doubled(now.setup)
        found = replace(now, setup=more, solution=again(more, now.solution))
    return found


def _looked(found: Answer, seed: int, many: int, clock: Deadline) -> Answer:
    """Limits by fresh replications of as many models as there are now."""
    look, setup = len(found.open) + 1, found.setup
    under = posteriors.certify_posterior(
        setup.problem, found.solution.policy, setup.posterior, None, many,
        None if clock.limit is None or look == 1 else max(clock.left, 1e-3), seed, look,
        setup.problem.n_models, found.among,
    )  # fmt: skip
    share = 0.0 if under.gap_share is None else under.gap_share  # nothing to be gained, or known
    return replace(found, under=under, open=(*found.open, share))


def _if_same(found: Answer, new: Solution) -> PosteriorCertificate | None:
    """What is known of an answer, where the new one is the same policy."""
    same = np.array_equal(found.solution.policy.probs, new.policy.probs)
    return found.under if same else None


def _doubled(setup: Setup) -> Setup:
    """The same set-up on twice as many models of its stream."""
    problem, drawn = setup.problem, origin(setup.problem.models)
    assert drawn is not None  # `_endless`
    models = drawn.part(0, 2 * drawn.n_models).models
    if problem.models.taken is not None:
        models = with_taken(models, problem.models.taken)
    return replace(setup, problem=problem.with_models(models))


def _solved(setup: Setup, solver: Solver) -> Solution[Any]:
    if setup.policies is None:
        return solve(setup.problem, solver)
    return solve_within(setup.problem, solver, setup.policies)


def _quick(solver: Solver, before: Solution | None, clock: Deadline) -> Solver:
    """Who answers before the last round, from the answer before."""
    own = getattr(solver, "time_limit", None) or DEFAULT_SECONDS
    limit = own if clock.limit is None else max(clock.left, 1e-3)
    if isinstance(solver, (Exact, MILP)):
        solver = LocalSearch(starts=QUICK_STARTS, seed=getattr(solver, "seed", 0))
    if isinstance(solver, LocalSearch):
        start = None if before is None or not before.policy.deterministic else before.policy
        return replace(solver, start=start, time_limit=limit)
    return replace(solver, time_limit=limit)  # type: ignore[type-var]


def _proving(solver: Exact | MILP, found: Solution, clock: Deadline) -> Solver:
    """The solver with the time that is left, from what was found."""
    own = DEFAULT_SECONDS if solver.time_limit is None else solver.time_limit
    limit = own if clock.limit is None else max(own - clock.elapsed, 1.0)
    if isinstance(solver, MILP) or not found.policy.deterministic:
        return replace(solver, time_limit=limit)
    return replace(solver, time_limit=limit, start=found.policy)


# -- several answers, compared on models that none was chosen on -------------------------------


def best_on_fresh(setup: Setup, own: Solution, seed: int) -> Solution:
    """The best of several solvers' answers, and of practice, on a validation stream.

    A bound on all policies of a class goes with whichever of the class is chosen.
    """
    problem = setup.problem
    if time_bound().passed:
        time_bound().note("comparisons")
        return own
    found = [own, *(solve(problem, rival) for rival in _rivals(problem, seed))]
    if setup.log is not None:
        practice = behaviour_policy(problem, setup.log)[0]
        if not (practice.probs[~problem.allowed] > 0).any():
            found.append(given(problem, practice, PRACTICE))
    seen = _on_fresh(setup, found, seed)
    if seen is None:
        return own
    best, bound = int(np.argmax([problem.objective.value(x.x, x.f) for x in seen])), own.bound
    why = [NO_MORE] * len(found)
    why[best] = ""
    more = _more(problem, seen, best)
    chosen = _with_record(found[best], problem, found, seen, more, why, len(found))
    if chosen.bound is not None or bound is None:
        return chosen
    fits = chosen.policy.deterministic or bound.covers is not Covers.DETERMINISTIC
    return replace(chosen, bound=bound, uniform_value=own.uniform_value) if fits else chosen


def _rivals(problem: Problem, seed: int) -> list[Solver]:
    rivals: list[Solver] = [Nominal()]
    plain = isinstance(problem.objective, SoftRobust) and problem.horizon is None
    if plain and problem.n_states <= POOL_STATES:
        rivals += [SRect(), *_searching(problem, seed)]
    if plain and problem.R.size <= POOL_NUMBERS:
        rivals.append(RandomizedAscent(starts=0, steps=POOL_STEPS, seed=seed))
    return rivals


def _searching(problem: Problem, seed: int) -> list[Solver]:
    """A local search, where it is worth its time; its clock is the one that somebody gave."""
    if problem.n_states**2 * problem.R.size > POOL_WORK:
        return []
    left = VALIDATING_SHARE * time_bound().left
    limit = None if time_bound().limit is None else max(min(POOL_SECONDS, left), 1e-3)
    return [LocalSearch(starts=QUICK_STARTS, seed=seed, time_limit=limit)]


def _on_fresh(
    setup: Setup, found: list[Solution], seed: int, many: int | None = None
) -> list[Returns] | None:
    """What policies earn on models that serve nothing else; None where there are none.

    A sampler has draws left over from those that the policies were chosen on. Where time is short
    they are fewer, and none below `LEFT_OVER`.
    """
    problem, n, policies = setup.problem, setup.problem.n_models, [each.policy for each in found]
    pool = setup.posterior.share(CHOOSING)
    if pool.pool is None:
        root = np.random.SeedSequence(seed, spawn_key=(VALIDATION,))
        n = draws_in_time(problem, policies, Draws.of(pool, many or max(n, VALIDATED), root))
        if n < LEFT_OVER:
            return None
        return stream_returns(problem, policies, Draws.of(pool, n, root))
    drawn = origin(problem.models)
    if drawn is None or pool.pool - n < LEFT_OVER:
        return None
    left = replace(drawn, n_models=pool.pool, block=pool.pool).models
    left = left.select(np.arange(n, pool.pool))
    return [returns_of(problem, policy, left) for policy in policies]


def draws_in_time(
    problem: Problem, policies: list[Any], draws: Draws, what: str = "comparisons"
) -> int:
    """How many of the draws fit into a share of the time that is left, by the first few of them."""
    clock = time_bound()
    if clock.limit is None:
        return draws.n_models
    if clock.passed:  # not even the first few
        return clock.affords(what, draws.n_models, math.inf, 1.0, 0)
    each = clock.seconds_each(
        lambda n: stream_returns(problem, policies, draws.part(0, n)), TRIED, draws.n_models
    )
    return clock.affords(what, draws.n_models, each, VALIDATING_SHARE, 0)


def _close(promise: Promise | None) -> tuple[Note, ...]:
    """Say so where it is chance which side of a rule the log falls on."""
    if promise is None or promise.shuffled is None:
        return ()
    if not 0.1 * NOISE < promise.shuffled < 4 * NOISE:
        return ()
    return (Note("verdict_close", Level.CAUTION, {"shuffled": promise.shuffled, "most": NOISE}),)


def _beside_others(found: Answer, log: TransitionLog, seed: int) -> Answer:
    """The answer of `Improve` beside others on models that none was chosen on; in small worlds.

    It stays, and who earns more there is recorded and named: among clear changes halves of the log
    choose, and what is not clear is left out.
    """
    problem = there = found.setup.problem
    plain = isinstance(problem.objective, SoftRobust) and problem.horizon is None
    if not plain or problem.n_states > POOL_STATES:
        return found
    if problem.n_models > SEARCHED:
        there = problem.with_models(problem.models.select(range(SEARCHED)))
    searching = _searching(there, seed)
    every = [found.solution, given(problem, behaviour_policy(problem, log)[0], PRACTICE)]
    if isinstance(found.among, PracticeClass):
        every += [solve_within(there, each, found.among) for each in searching]
    clear = len(every)
    every += [solve(there, each) for each in (Nominal(), *searching)]
    seen = _on_fresh(found.setup, every, seed, VALIDATED)
    if seen is None:
        return found
    more, notes, least = _more(problem, seen, 0), [], rounding(problem)
    why = ["", *[NOT_PROMISED] * (clear - 1), *[NOT_CLEAR] * (len(every) - clear)]
    for i in range(1, len(every)):
        if (low := more[i].low) is None or low <= least:
            why[i] = NO_MORE
    for reason in (NOT_PROMISED, NOT_CLEAR):
        if reason not in why:
            continue
        i = max((i for i, each in enumerate(why) if each == reason), key=lambda i: more[i].value)
        gained = problem.objective.value(seen[i].x, seen[i].f) - uniform_value(problem)
        if more[i].value > SHARE * gained:
            facts = {**more[i].interval, "share": more[i].value / gained, "n": seen[i].x.size}
            facts |= {"solver": every[i].solver, "why": reason}
            notes.append(Note("more_on_fresh", facts=facts))
    best = _with_record(found.solution, problem, every, seen, more, why, clear)
    return replace(found, solution=best, notes=tuple(notes))


def _more(problem: Problem, seen: list[Returns], own: int) -> list[Estimate]:
    """What each earns by the objective beyond one of them, on the same models."""
    return [paired_difference(x, seen[own], problem.objective) for x in seen]


def _with_record(
    best: Solution, problem: Problem, every: list[Solution], seen: list[Returns],
    more: list[Estimate], why: list[str], of_class: int,
) -> Solution:  # fmt: skip
    """The answer, with what all earned on the models they were compared on, among its stats.

    The first `of_class` are those that the answer is to be the best of.
    """
    rows = [
        {"solver": each.solver, "of_class": i < of_class, "why_not": why[i],
         "objective": problem.objective.value(seen[i].x, seen[i].f), "more": more[i].interval}
        for i, each in enumerate(every)
    ]  # fmt: skip
    known = {"n_models": seen[0].x.size, "policies": rows}
    return replace(best, stats={**best.stats, CANDIDATES: known})
