"""`softrobust solve INPUT`: from a log or models to a certified policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from softrobust.cli.options import clip_of, coefficients_of, options_of, settings_for, split_words
from softrobust.cli.output import print_run
from softrobust.cli.screen import say
from softrobust.errors import InputError

if TYPE_CHECKING:
    from softrobust.problem import Problem


def solve(
    input: Path, gamma: float | None = None, alpha: float | None = None, lam: float | None = None,
    objective: str | None = None, reference: str | None = None, horizon: int | None = None,
    stationary: bool = False, solver: str | None = None, time_limit: float | None = None,
    seed: int = 0, columns: str | None = None, states: Path | None = None,
    initial: Path | None = None, allowed: Path | None = None, reward_table: Path | None = None,
    reward_default: float | None = None, weights: Path | None = None, heldout: Path | None = None,
    anyway: bool = False, normalise: bool = False, models: int | None = None,
    test_models: int | None = None, posterior: str | None = None, strength: float | None = None,
    per_cell: float | None = None, support: str | None = None, min_count: int | None = None,
    replications: int | None = None, validate: str | None = None, continuous: bool = False,
    actions: str | None = None, start: str | None = None, reward_now: str | None = None,
    reward_next: str | None = None, clip: str | None = None, test_episodes: int | None = None,
    set_: list[str] | None = None, out: Path | None = None, force: bool = False,
    resume: bool = False, export_milp: Path | None = None, workers: int | None = None,
    cluster: str | None = None, json: bool = False, details: bool = False, quiet: bool = False, *,
    visits: dict[str, Any], reading: dict[str, Any],
) -> None:  # fmt: skip
    """Solve a log or a set of models for a policy, with a certificate.

    Example: softrobust solve log.csv --gamma 0.95 --out run
    """
    flags = dict(locals())

    from softrobust.kernels._jit import compile_beside

    searched = resume or export_milp is not None
    if not continuous:  # before the rest is read in, which takes a while
        compile_beside("exact" if searched else solver)
    from softrobust.run import check_out, choose, prepare_search, save_with_search, set_up
    from softrobust.solvers.registry import default_solver, make_solver

    if out is not None:
        check_out(out, force or resume)
    for_posterior, for_solver = settings_for(set_, continuous, solver)
    options = options_of(
        flags,
        settings=for_posterior,
        visits=visits or None,
        reading=reading or None,
        actions=None if actions is None else split_words(actions),
        start=coefficients_of("--start", start),
        reward_now=coefficients_of("--reward-now", reward_now),
        reward_next=coefficients_of("--reward-next", reward_next),
        clip=clip_of(clip),
    )
    if solver is None and searched and not continuous and objective != "percentile":
        solver = "exact"  # the search that is resumed, the program that is written
    setup = set_up(input, options)
    chosen = solver or default_solver(setup.problem, setup.posterior)
    if export_milp is not None:
        kept = setup.policies
        written = setup.problem if kept is None else kept.composite(setup.problem).problem
        _export(written, chosen, export_milp, quiet)
    if stationary and (continuous or setup.problem.horizon is None):
        text = "Only tables with a horizon have policies that differ by step. Leave it out."
        raise InputError(text, arguments=("stationary",))
    search = prepare_search(out, chosen, resume)
    made = make_solver(
        chosen,
        continuous=continuous,
        log=setup.log,
        time_limit=time_limit,
        seed=seed,
        posterior=setup.posterior,
        checkpoint=search,
        min_count=min_count,
        stationary=stationary,
        settings=for_solver,
    )
    run = choose(setup, made, seed, replications, test_episodes, validate, solver is not None)
    if out is not None:
        run = save_with_search(run, out, force or resume, search)
    print_run(run, out, json, quiet, details)


def _export(problem: Problem, solver: str, path: Path, quiet: bool) -> None:
    """The integer program whose optimum the solver proves, before the solver begins."""
    from softrobust.solvers.exact.milp import write_milp

    if solver not in ("exact", "milp"):
        raise InputError(
            "--export-milp writes the program of the solvers exact and milp; the solver is "
            f"'{solver}'. Leave one of the two options out."
        )
    write_milp(problem, path)
    if not quiet:
        say(f"The integer program is in {path}.", error=True)
