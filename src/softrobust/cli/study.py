"""Verbs that ask: `explain`, `check`, `rules`, `value-of-data`, `rehearse` and `frontier`."""

from pathlib import Path

from softrobust.cli import output
from softrobust.cli.options import numbers_of, options_of
from softrobust.cli.screen import make_console, paragraph, print_record, say, visible
from softrobust.errors import InputError


def explain(run: Path, state: str, json: bool = False) -> None:
    """Say why the policy does what it does in a state: other actions, worst-case models, price.

    Example: softrobust explain run --state "n=7"
    """
    import json as json_

    from softrobust.report.study_words import explanation_sentences
    from softrobust.run import load_table_run
    from softrobust.study.explain import explain as explain_state

    folder = load_table_run(run)
    found = explain_state(folder.problem, folder.solution.policy, state, folder.log)
    if json:
        print(json_.dumps(found.to_dict(), indent=1))
        return
    output.print_lines(explanation_sentences(found))
    output.print_options(found)


def check(run: Path, seed: int = 0, details: bool = False, json: bool = False) -> None:
    """Check a run: does the model fit, does the log agree, and what would change the answer?

    Writes checks.json into the run folder.

    Example: softrobust check run
    """
    from softrobust.certificate.record import write_json
    from softrobust.report.study_words import check_name, check_rule, check_sentence, checks_line
    from softrobust.run import load_table_run
    from softrobust.study.checks import check_run, checks_record

    folder = load_table_run(run)
    done = []
    for result in check_run(folder, seed):
        done.append(result)
        if not json:
            told = check_sentence(result, brief=not details)
            rule = check_rule(result) if details else ""
            output.print_check(check_name(result), str(result.verdict), told, rule)
    record = checks_record(folder, done, seed)
    write_json(folder.path / "checks.json", record)
    if json:
        print_record(record)
    else:
        say(f"\n{checks_line(done)}")


def rules(
    run: Path, leaves: int | None = None, max_loss: float | None = None, out: Path | None = None,
    json: bool = False,
) -> None:  # fmt: skip
    """Write a policy as a few rules over the columns of states, and say exactly what that costs.

    Example: softrobust rules run --leaves 5
    """
    from softrobust.report.study_words import rules_sentence
    from softrobust.run import load_table_run
    from softrobust.study.rules import kept_practice, simplify

    folder = load_table_run(run)
    found = simplify(
        folder.problem, folder.solution.policy, most_leaves=leaves, max_loss=max_loss,
        practice=kept_practice(folder.problem, folder.solution, folder.log),
    )  # fmt: skip
    if out is not None:
        found.policy.save(out)
    if json:
        print_record(found.to_dict())
        return
    for line in found.lines():
        say(visible(line).replace("\n", r"\x0a"))  # a label stays on its line
    say()
    paragraph(make_console(), rules_sentence(found, folder.certificate.promise is not None))


LEAST_DRAWS = 20


def value_of_data(
    run: Path, observations: int = 10, draws: int = 200, top: int = 12, seed: int = 0,
    json: bool = False,
) -> None:  # fmt: skip
    """Rank the pairs whose extra observations would raise the objective most.

    Example: softrobust value-of-data run --observations 20
    """
    from softrobust.run import load_table_run
    from softrobust.study.value_of_data import data_values

    if draws < LEAST_DRAWS:
        raise InputError(
            f"--draws must be at least {LEAST_DRAWS}; it is {draws}. The draws stand for the "
            "posterior: with fewer, hardly any differ, and no data could seem to change the policy."
        )
    folder = load_table_run(run)
    problem, found = folder.problem, data_values(folder, observations, draws, seed)
    if json:
        rows = [value.to_dict(problem) for value in found]
        print_record({"observations": observations, "pairs": rows})
    else:
        output.print_data_values(problem, found, observations, top)


def rehearse(
    run: Path, times: int | None = None, world: str | None = None, solver: str | None = None,
    time_limit: float | None = None, out: Path | None = None, workers: int | None = None,
    cluster: str | None = None, resume: bool = False, seed: int = 0, details: bool = False,
    json: bool = False,
) -> None:  # fmt: skip
    """Rehearse a run in known worlds, also foreign ones: do its promises hold there?

    The verdict is kept with the run, and a report made afterwards shows it.

    Example: softrobust rehearse run --time-limit 300
    """
    from softrobust._core.notes import Note
    from softrobust.report.sentences import sentence
    from softrobust.run import load_table_run
    from softrobust.run.rehearsal import rehearse as rehearse_run

    folder = load_table_run(run)
    place = folder.path / "rehearsal" if out is None else out
    if workers == 0 and time_limit is not None:
        workers = 1  # a world in this process could not be ended
    found = rehearse_run(
        folder, place, times, world=world, solver=solver, seed=seed, workers=workers,
        cluster=cluster, resume=resume, time_limit=time_limit,
    )  # fmt: skip
    if json:
        print_record(found.to_dict())
    elif isinstance(found, Note):
        output.print_lines([sentence(found)])
    else:
        output.print_rehearsal(found, details)


def frontier(
    input: Path, gamma: float | None = None, horizon: int | None = None,
    lambdas: str = "0,.1,.2,.3,.4,.5,.6,.7,.8,.9,1", alphas: str = ".9",
    reference: str | None = None, solver: str = "exact", time_limit: float | None = None,
    seed: int = 0, models: int | None = None, min_count: int | None = None,
    columns: str | None = None, initial: Path | None = None, weights: Path | None = None,
    reward_table: Path | None = None, reward_default: float | None = None,
    allowed: Path | None = None, posterior: str | None = None, set_: list[str] | None = None,
    out: Path | None = None, force: bool = False, workers: int | None = None,
    cluster: str | None = None, json: bool = False, quiet: bool = False,
) -> None:  # fmt: skip
    """Find the best policy for every (λ, α) of a grid: what a better bad case costs on average.

    Example: softrobust frontier log.csv --gamma 0.95 --alphas .7,.9 --out run
    """
    flags = dict(locals())

    from softrobust.run import check_out, run_frontier, set_up, write_frontier
    from softrobust.study.frontier import COLUMNS

    if out is not None:
        check_out(out, force, names=())
    options = options_of(flags, time_limit=None)
    grid = numbers_of("--lambdas", lambdas), numbers_of("--alphas", alphas)
    found = run_frontier(set_up(input, options), *grid, solver, time_limit, seed)
    if out is not None:
        write_frontier(found, out)
    if json:
        print_record([dict(zip(COLUMNS, row, strict=True)) for row in found.rows()])
    elif not quiet:
        output.print_frontier(found, out)
