"""The whole line, once: a problem is solved, certified and compared with what else could be done.

A search that was cut short can be taken up again. A run folder appears only when it is complete;
while `exact` works on one called NAME, its open nodes are in `.NAME.search.npz` beside it, so that
a run that was killed has them too. A finished folder holds them as `search.npz` where any are left.
"""

import json
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from softrobust._core.arguments import names_arguments
from softrobust._core.files import refuse_streams
from softrobust._core.limits import stage, time_bound
from softrobust._core.notes import Level, Note
from softrobust._core.settings import whole
from softrobust.bounds.best import check_replications
from softrobust.certificate import Certificate, Comparison, certify, compare_policies
from softrobust.certificate import posterior as posteriors
from softrobust.certificate.intervals import sample_of
from softrobust.data import ContinuousLog, TransitionLog
from softrobust.data.bins import interval_of
from softrobust.errors import InputError
from softrobust.models import ModelSet, Policy, TimedPolicy
from softrobust.posterior import Draws, FittedLearned
from softrobust.problem import ContinuousProblem, Problem
from softrobust.returns import policy_return, returns_of
from softrobust.run.folder import CUT, SEARCH, Run, diagnosed, found_notes, own_value_notes
from softrobust.run.growth import CANDIDATES, Answer, answer, draws_in_time
from softrobust.run.options import Options, Setup, repeat_command
from softrobust.run.setup import keeping, set_up
from softrobust.solvers import Nominal, PosteriorDraws, SaturationWarning, Solution, Solver, solve
from softrobust.solvers.baselines.behaviour import behaviour_policy, unmasked
from softrobust.solvers.exact.exact import Exact
from softrobust.solvers.improve import Improve, promise_of
from softrobust.solvers.practice_class import solve_within
from softrobust.solvers.promise import Promise
from softrobust.solvers.registry import default_solver, improve_barred, make_solver
from softrobust.study.review import EPISODES, review_vectors
from softrobust.study.solved import learned_again
from softrobust.study.validation import UNITS, Chooser
from softrobust.study.validation import validate as held_out_data


@names_arguments
def choose(
    source: Setup | str | Path | TransitionLog | ContinuousLog,
    solver: Solver | None = None,
    seed: int = 0,
    replications: int | None = None,
    episodes: int | None = None,
    validate: str | None = None,
    named: bool = True,
    **options: Any,
) -> Run:
    """The whole line with its defaults: set up, solve, certify, compare.

    Parameters
    ----------
    source
        A log, a file of a log or of models, or a set-up that was made of one.
    solver : Solver, optional
        By default the one that proves most for the problem.
    options
        As `Options` names them, where there is no set-up yet: `choose(log, gamma=0.95)`.
    replications : int, optional
        Sets of fresh models that certify a table's policy under the posterior itself (default 10
        where there is one; 0 leaves them out).
    episodes : int, optional
        Simulated per model to certify a policy for vectors (default 30).
    validate : str, optional
        Also choose on two thirds of a log's "episodes", or of "blocks" of its rows, and judge that
        choice on the rest (`study.validation`).
    named : bool
        Whether the solver was asked for by name; else what it finds is compared with what others
        find, on models that none was chosen on, and the best of them is the answer.
    """
    setup = source
    if not isinstance(setup, Setup):
        setup = set_up(setup, Options(seed=seed, **options))
    _check(setup, replications, episodes, validate)
    problem, named = setup.problem, named and solver is not None
    if solver is None:
        solver = make_solver(
            default_solver(problem, setup.posterior),
            continuous=isinstance(problem, ContinuousProblem),
            log=setup.log,
            seed=seed,
            posterior=setup.posterior,
            min_count=None if setup.options is None else setup.options.min_count,
        )
    n = replications
    if n is None:
        n = posteriors.REPLICATIONS if setup.posterior is not None else 0
    stage("choosing a policy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SaturationWarning)  # it is among the notes
        found = answer(setup, solver, seed, n, named)
    setup, solution = found.setup, found.solution
    problem = setup.problem
    run = certified(setup, solution, seed, n, episodes or EPISODES, found)
    notes = list(run.notes)
    if not named and improve_barred(problem, setup.posterior):
        notes.append(Note("improve_not_allowed", facts={"solver": solver.name}))
    if setup.log is not None and not run.continuous:
        run = with_promise(run, found.promise)
        if isinstance(solution.policy, TimedPolicy):
            facts: dict[str, Any] = {"steps": solution.policy.horizon}
            notes.append(Note("promise_not_timed", Level.CAUTION, facts))
        else:
            notes += _judge(setup, solver, run.certificate.promise)
    held = None
    if validate is not None:
        held = held_out_data(setup.log, problem, _chooser(setup, solver, seed), validate, seed)
    more = {"replications": replications, "episodes": episodes, "validate": validate}
    own = isinstance(solver, Improve) or CANDIDATES not in solution.stats
    command = repeat_command(setup, solver, own, **more)
    return replace(run, notes=(*notes, *cut_notes()), validation=held, command=command)


def cut_notes() -> tuple[Note, ...]:
    """What there was less of for want of time, if anything."""
    clock = time_bound()
    facts = {"parts": list(clock.cut), "seconds": clock.limit}
    return (Note("cut_by_time", facts=facts),) if clock.cut else ()


def with_promise(run: Run, promise: Promise | None = None) -> Run:
    """The run with what is promised of its policy, judged by halves of its log."""
    if promise is None:
        stage("judging by halves of the log")
        problem = run.problem
        promise = promise_of(
            run.log, problem.gamma, run.solution.policy, lam=problem.objective.lam,
            horizon=problem.horizon, seed=run.seed,
        )  # fmt: skip
    return replace(run, certificate=replace(run.certificate, promise=promise))


def _judge(setup: Setup, solver: Solver, promise: Promise | None) -> list[Note]:
    """By whom the promise is judged, where that is not the posterior that was asked for."""
    if promise is None:
        late = "promise" in time_bound().cut
        return [] if late or setup.posterior is None else [Note("promise_unseen")]
    if setup.posterior is None or isinstance(setup.posterior, FittedLearned):
        return []
    facts = {"posterior": setup.posterior.describe()["posterior"], "solver": solver.name}
    return [Note("promise_by_learned", facts=facts)]


def _chooser(setup: Setup, solver: Solver, seed: int) -> Chooser:
    """The same procedure for a part of the log."""
    old, posterior = setup.problem, setup.posterior

    def again(part: TransitionLog) -> tuple[Policy, float | None]:
        if isinstance(solver, Improve):
            found = replace(solver, log=part).choice(old)
            return found.policy, found.promise.gain.value
        learned: dict[str, Any] = {"log": part, "checkpoint": None}
        own = {f.name for f in fields(solver)}  # type: ignore[arg-type]
        for name in own:
            if isinstance(draws := getattr(solver, name), PosteriorDraws):
                learned[name] = replace(draws, posterior=posterior.again(part))
        same: Any = replace(solver, **{k: v for k, v in learned.items() if k in own})  # type: ignore[type-var]
        problem = learned_again(part, posterior, old, old.n_models, [seed, 11])
        policies = keeping(part, problem, posterior, setup.options)
        if policies is not None:
            return solve_within(problem, same, policies).policy, None
        return solve(problem, same).policy, None

    return again


def _check(
    setup: Setup, replications: int | None, episodes: int | None, validate: str | None
) -> None:
    """Refuse what is of no use here, before any work is done."""
    continuous = isinstance(setup.problem, ContinuousProblem)
    if validate is not None and (setup.log is None or continuous):
        kind = "continuous states" if continuous else "models"
        text = f"Data are held out of a log of tables; the input holds {kind}. Leave it out."
        raise InputError(text, arguments=("validate",))
    if validate is not None and validate not in UNITS:
        text = f"Data are held out by {' or '.join(UNITS)}; it got '{validate}'."
        raise InputError(text, arguments=("validate",))
    if continuous and replications is not None:
        text = "Replications are for tables of states. Leave them out."
        raise InputError(text, arguments=("replications",))
    if continuous and episodes is not None:
        whole("episodes", episodes, 2)
    elif episodes is not None:
        text = "Episodes are simulated for continuous states only. Leave them out."
        raise InputError(text, arguments=("episodes",))
    if setup.posterior is None and replications:
        raise InputError(
            "Replications draw fresh models from the posterior of a log; the input holds models. "
            "Leave them out.",
            arguments=("replications",),
        )
    if replications:
        check_replications(replications, posteriors.LEAST)


def certified(
    setup: Setup,
    solution: Solution[Any],
    seed: int = 0,
    replications: int = 0,
    episodes: int = EPISODES,
    found: Answer | None = None,
) -> Run:
    """The run of a solution: certified, compared, with its notes; `found` knows more of it."""
    problem, log = setup.problem, setup.log
    made: dict[str, Any] = {"heldout": setup.heldout, **_of_visits(setup)}
    if isinstance(problem, ContinuousProblem):
        simulated = review_vectors(problem, solution, setup.heldout, log, episodes, seed)
        made["simulated"] = simulated
        more = (*simulated.certificate.notes, *own_value_notes(solution))
        certificate = replace(simulated.certificate, notes=())  # a run has them all in one place
    else:
        heldout = setup.heldout
        if heldout is None and setup.posterior is not None:
            assert setup.test_seed is not None  # a log has one
            stage("drawing held-out models")
            if time_bound().passed:
                time_bound().note("heldout")
            else:
                where = (setup.posterior, problem, solution.policy, setup.test_seed)
                heldout = posteriors.draw_heldout(*where)
        stage("certifying")
        known = Answer(setup, solution, setup.policies) if found is None else found
        certificate = _certify_table(known, heldout, replications, seed)
        said = found_notes(problem, solution, log, diagnosed(setup.posterior))
        made["heldout"] = heldout
        more = (*said, *known.notes, *_resolution(setup, solution, certificate))
        more = (*more, *_on_stream(setup, solution))
        if isinstance(setup.posterior, FittedLearned):
            more = (Note("prior_learned", facts=setup.posterior.learned()), *more)
    made |= {"notes": (*setup.notes, *more), "seed": seed, "r2": setup.r2}
    return Run(problem, solution, certificate, setup.source, log, setup.posterior, **made)


def _of_visits(setup: Setup) -> dict[str, Any]:
    """How visits became the log, for visits to come."""
    if setup.visits is None or setup.options is None:
        return {}
    said = {k: v for k, v in (setup.options.visits or {}).items() if k != "bins"}
    if isinstance(said.get("events"), Path):
        said["events"] = said["events"].name
    if isinstance(said.get("action_bins"), int) and setup.log is not None:
        # The cuts that were made, so that visits to come are cut alike.
        spans = [interval_of(name) for name in setup.log.actions]
        cuts = {span[0] for span in spans if span is not None and np.isfinite(span[0])}
        said["action_bins"] = sorted(cuts) or said["action_bins"]
    states = {name: list(values) for name, values in setup.visits.report.states.items()}
    how = {"rules": said, "read": dict(setup.options.reading or {}), "states": states}
    return {"visits": how, "bins": setup.visits.bins}


def _certify_table(
    found: Answer, heldout: ModelSet | Draws | None, replications: int, seed: int
) -> Certificate:
    setup, solution = found.setup, found.solution
    problem, policy = setup.problem, solution.policy
    bounds = [] if solution.bound is None else [solution.bound]
    practice = None if setup.log is None else behaviour_policy(problem, setup.log)[0]

    def of_sample() -> Certificate:
        return certify(problem, policy, heldout, bounds, practice=practice)

    def of_posterior() -> posteriors.PosteriorCertificate | None:
        if not replications or setup.posterior is None or found.under is not None:
            return found.under
        where = (problem, policy, setup.posterior, None, replications)
        return posteriors.certify_posterior(*where, seed=seed, among=found.among)

    if time_bound().limit is None:  # neither looks at a clock: side by side
        with ThreadPoolExecutor(1) as pool:
            later = pool.submit(copy_context().run, of_posterior)
            made, under = of_sample(), later.result()
    else:
        made, under = of_sample(), of_posterior()
    if replications and under is not None:
        # Held-out models from a file need not be draws of this posterior.
        held = made.heldout if setup.heldout_drawn else None
        made = replace(made, posterior=under.held_out(problem, held))
    if solution.solver == Nominal.name:
        return made
    return replace(made, nominal=_against_nominal(problem, solution, heldout))


def _against_nominal(
    problem: Problem, solution: Solution, heldout: ModelSet | Draws | None
) -> Comparison:
    """Against the policy that is best for the average model, with figures on the own models."""
    nominal = solve(problem, Nominal())
    found = compare_policies(problem, solution.policy, nominal.policy, heldout, "nominal")
    own = unmasked(problem)
    x = np.concatenate([policy_return(own, s.policy) for s in (solution, nominal)])
    lead = solution.static_value - nominal.static_value
    about = {"value": nominal.static_value, "lead": lead, "range": [float(x.min()), float(x.max())]}
    return replace(found, about=about)


def _on_stream(setup: Setup, solution: Solution) -> list[Note]:
    """What the policy earns on all the models that were asked for, where memory holds the first."""
    problem, policy, asked = setup.problem, solution.policy, setup.stream
    if asked is None:
        return []
    stage("evaluating on all models")
    n = draws_in_time(problem, [policy], asked, "stream")
    if n <= problem.n_models:
        return []
    x = returns_of(problem, policy, asked.part(0, n))
    figures = sample_of(x, problem.objective, given=True)
    facts = {name: getattr(figures, name).value for name in ("objective", "mean", "cvar")}
    return [Note("on_all_models", facts={"n": n, **facts, "goal": problem.objective.words})]


def _resolution(setup: Setup, solution: Solution, certificate: Certificate) -> list[Note]:
    """Say so where draws were cut short of the resolution that is aimed at."""
    held = certificate.heldout
    if setup.heldout is not None or held is None:
        return []
    returns = policy_return(setup.problem, solution.policy)
    share = held.cvar.width / max(float(np.ptp(returns)), 1e-300)
    if share <= 1.5 * posteriors.INTERVAL_SHARE or np.ptp(returns) <= 1e-9 * np.abs(returns).max():
        return []
    known = share if np.isfinite(share) else None
    return [Note("heldout_interval_wide", facts={"share": known, "draws": held.n_models})]


# -- A search that was cut short ---------------------------------------------------------------


def prepare_search(out: Path | None, solver: str, resume: bool) -> Path | None:
    """The checkpoint for a run into `out`: nothing yet, or with `resume` what the last one left.

    None where there is none to keep: only `exact` has a search, and only a folder has a place.
    """
    if resume and solver != Exact.name:
        raise InputError(f"Only the solver 'exact' can be resumed; the solver is '{solver}'.")
    if resume and out is None:
        text = "A search is taken up again in the folder of its run. Give that folder."
        raise InputError(text, arguments=("out",))
    if out is None or solver != Exact.name:
        return None
    working = _working_file(out)
    if not resume:
        working.unlink(missing_ok=True)
        return working
    found = [file for file in (out / SEARCH, working) if file.exists()]
    if not found:
        raise InputError(f"There is nothing to resume in '{out}': {_why(out)}.")
    return max(found, key=lambda file: file.stat().st_mtime)  # of a run that was killed since


def _working_file(out: Path) -> Path:
    target = out.resolve()
    return target.parent / f".{target.name}.{SEARCH}"


def _why(out: Path) -> str:
    """What became of the run that was to leave a search there."""
    if not out.exists():
        return "there is no such folder, and no search beside it. Start afresh"
    refuse_streams(out / "solution.json")
    try:
        record = json.loads((out / "solution.json").read_text(encoding="utf-8"))
        solver, status = str(record["solver"]), str(record["status"]).replace("_", " ")
        if record["status"] in CUT:
            raise ValueError("there was something to go on with")
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return f"it has no {SEARCH}. Start afresh"
    if solver != Exact.name:
        return f"it was solved by '{solver}', and only 'exact' can be resumed"
    return f"its search is complete (status: {status})"


def save_with_search(run: Run, out: Path, force: bool, search: Path | None) -> Run:
    """Write the run, with the open nodes of its search, and return it with what is said of that."""
    if search is not None:
        stats, notes = run.solution.stats, list(run.notes)
        before = stats.get("seconds_before_resume", 0.0)
        if before > 0:
            notes.append(Note("search_resumed", facts={"seconds": before}))
        if run.search_open:
            notes.append(Note("search_open", facts={"nodes": stats["open_nodes"]}))
        run = replace(run, notes=tuple(notes))
    run.save(out, force=force, search=search)
    _working_file(out).unlink(missing_ok=True)
    return run
