"""From a file to a problem: told by its content whether it is a log, models or a saved problem."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from softrobust.data import TransitionLog, read_log, sniff
from softrobust.data.columns import ACTION, STATE
from softrobust.data.initial import initial_distribution
from softrobust.data.table import read_table
from softrobust.errors import InputError
from softrobust.models.files import read_models
from softrobust.models.gaussian import GAUSSIAN_FORMAT
from softrobust.objective import Objective, Percentile, SoftRobust, make_objective
from softrobust.posterior import DirichletPosterior, FittedPosterior
from softrobust.problem import Problem, load_problem
from softrobust.solvers.registry import DEFAULT_SECONDS, SOLVERS

if TYPE_CHECKING:
    from softrobust.data.labels import Labels
    from softrobust.models.model_set import ModelSet
    from softrobust.problem import Problem
    from softrobust.solvers.base import Solver


@final
@dataclass(frozen=True, slots=True)
class Options:
    """What a user can say about the input; None means "take it from the files, or the default"."""

    gamma: float | None = None
    criterion: str | None = None
    lam: float | None = None
    alpha: float | None = None
    columns: Mapping[str, str] | None = None
    states: Path | None = None
    initial: Path | None = None
    weights: Path | None = None
    heldout: Path | None = None
    reward_table: Path | None = None
    reward_default: float | None = None
    allowed: Path | None = None
    normalise: bool = False
    n_models: int | None = None
    n_test: int | None = None
    seed: int = 0
    strength: float | None = None
    per_cell: float | None = None
    support: str | None = None
    min_count: int | None = None

    def objective(self, default: Objective) -> Objective:
        """Criterion, λ and α as given, else those of `default`."""
        criterion = default.criterion if self.criterion is None else self.criterion
        if criterion == Percentile.criterion and self.lam is not None:
            raise InputError("The percentile criterion has no lambda. Leave --lambda out.")
        lam = default.lam if self.lam is None else self.lam
        return make_objective(criterion, lam, default.alpha if self.alpha is None else self.alpha)

    def given(self, *names: str) -> list[str]:
        """Those of the named options that were given."""
        return [
            name
            for name in names
            if not (getattr(self, name) is None or getattr(self, name) is False)
        ]


@final
@dataclass(frozen=True, slots=True)
class Setup:
    """A problem and where it came from."""

    problem: Problem
    log: TransitionLog | None
    posterior: FittedPosterior | None
    heldout: ModelSet | None
    notes: tuple[str, ...]
    test_seed: np.random.SeedSequence
    source: str = ""
    command: str = ""  # what makes it again, less the solver
    heldout_drawn: bool = True  # held-out models are, or will be, draws of the posterior


DEFAULT_MODELS = 100
LOG_ONLY = ("columns", "states", "reward_table", "reward_default", "n_models", "n_test", "strength",
            "per_cell", "support", "min_count")  # fmt: skip
MODELS_ONLY = ("weights",)


def set_up(path: Path, options: Options) -> Setup:
    """Read the input and build the problem."""
    kind = sniff(path)
    if kind == GAUSSIAN_FORMAT.removeprefix("softrobust-"):
        raise InputError(
            f"{path.name} holds continuous models (Gaussian, as `softrobust sample` draws them for "
            "cancer). Add --continuous to solve them."
        )
    if kind not in ("log", "models", "problem"):
        raise InputError(f"{path.name} holds '{kind}', which is neither a log nor models.")
    if options.seed < 0:
        raise InputError(f"A seed is a whole number ≥ 0; it is {options.seed}.")
    train_seed, test_seed = np.random.SeedSequence(options.seed).spawn(2)
    if kind == "log":
        _refuse(options.given(*MODELS_ONLY), "models", "a log")
        made = _from_log(path, options, train_seed, test_seed)
        return replace(made, command=solve_command(path.name, made.problem, options, drawn=True))
    _refuse(options.given(*LOG_ONLY), "a log", "models")
    if kind == "models":
        problem, notes = _from_models(path, options)
    else:
        _refuse(options.given(*MODELS_ONLY), "a file of models", "a problem")
        problem, notes = _from_problem(path, options)
    heldout = _heldout(options, problem)
    command = solve_command(path.name, problem, options, drawn=False)
    return Setup(problem, None, None, heldout, notes, test_seed, path.name, command)


def _refuse(given: list[str], meant: str, found: str) -> None:
    if given:
        names = {"n_models": "models", "n_test": "test-models"}
        flags = ", ".join("--" + names.get(g, g).replace("_", "-") for g in given)
        raise InputError(f"{flags} is for {meant}; the input holds {found}. Leave it out.")


def _from_log(
    path: Path,
    options: Options,
    train_seed: np.random.SeedSequence,
    test_seed: np.random.SeedSequence,
) -> Setup:
    log = read_log(
        path,
        columns=options.columns,
        states=options.states,
        initial=options.initial,
        reward_table=options.reward_table,
        reward_default=options.reward_default,
    )
    if log.rewards is None:
        raise InputError(
            f"{path.name} has no reward column, and a policy needs to know what is good. Add a "
            "column 'reward', or give --reward-table FILE (state,action,reward)."
        )
    posterior = _posterior(options).fit(log)
    n = DEFAULT_MODELS if options.n_models is None else options.n_models
    train = posterior.sample(n, np.random.default_rng(train_seed))
    problem = Problem(
        train,
        rewards=log.rewards,
        p0=log.p0,
        gamma=_gamma(options.gamma),
        objective=options.objective(SoftRobust()),
        allowed=_allowed(options.allowed, log.states, log.actions),
    )
    heldout = _heldout(options, problem)
    if heldout is None and options.n_test is not None:
        heldout = posterior.sample(options.n_test, np.random.default_rng(test_seed))
    notes = (*log.notes, *coverage_notes(log, problem))
    drawn = options.heldout is None
    return Setup(problem, log, posterior, heldout, notes, test_seed, path.name, heldout_drawn=drawn)


def _gamma(given: float | None) -> float:
    if given is None:
        raise InputError(
            "The discount is not known: a log does not say how much later rewards count. "
            "Give --gamma, for example --gamma 0.95."
        )
    return given


def _posterior(options: Options) -> DirichletPosterior:
    settings: dict[str, Any] = {
        name: getattr(options, name) for name in options.given("strength", "per_cell", "support")
    }
    if options.min_count is not None:
        settings["min_count"] = options.min_count
    return DirichletPosterior(**settings)


def coverage_notes(log: TransitionLog, problem: Problem) -> list[str]:
    """What follows from the gaps that the log's own notes name."""
    notes = []
    live = problem.decided
    available = problem.models.available[live]
    if not available.all():
        notes.append(
            f"Pairs not seen often enough ({int((~available).sum())}) are not considered "
            "(--min-count 0 keeps all pairs, with the prior)."
        )
    barred = int((available & ~problem.allowed[live]).sum())
    if barred:
        notes.append(f"Pairs that --allowed does not list ({barred}) are not considered.")
    if (log.sinks & problem.models.sinks).any():
        notes.append(
            "States without any action seen stay where they are with reward 0, and no action is "
            "recommended there."
        )
    return notes


def _from_models(path: Path, options: Options) -> tuple[Problem, tuple[str, ...]]:
    models = read_models(
        path,
        weights=options.weights,
        initial=options.initial,
        gamma=options.gamma,
        normalise=options.normalise,
    )
    notes = list(models.notes)
    if models.p0 is None:
        notes.append("No start was given (--initial): every state is equally likely to be first.")
    if models.rewards is None:
        raise InputError(
            f"{path.name} has no reward column. Add a column 'reward' to the rows of the models."
        )
    problem = Problem(
        models,
        objective=options.objective(SoftRobust()),
        allowed=_allowed(options.allowed, models.states, models.actions),
    )
    return problem, tuple(notes)


def _from_problem(path: Path, options: Options) -> tuple[Problem, tuple[str, ...]]:
    problem = load_problem(path)
    changes: dict[str, Any] = {"objective": options.objective(problem.objective)}
    if options.gamma is not None:
        changes["gamma"] = options.gamma
    if options.initial is not None:
        changes["p0"] = initial_distribution(options.initial, problem.models.states)[0]
    mask = _allowed(options.allowed, problem.models.states, problem.models.actions)
    if mask is not None:
        changes["allowed"] = mask & problem.allowed
    return replace(problem, **changes), ()


def _allowed(path: Path | None, states: Labels, actions: Labels) -> NDArray[np.bool_] | None:
    """A mask from a table `state, action` of what may be done; states not listed keep all."""
    if path is None:
        return None
    table = read_table(path, (STATE, ACTION))
    mask = np.zeros((len(states), len(actions)), dtype=bool)
    for i, (s, a) in enumerate(zip(table.codes["state"], table.codes["action"], strict=True)):
        try:
            mask[states.index(table.names["state"][s]), actions.index(table.names["action"][a])] = (
                True
            )
        except InputError as error:
            raise InputError(f"{table.rows.where(i)}: {error}") from None
    mask[~mask.any(axis=1)] = True
    return mask


def _heldout(options: Options, problem: Problem) -> ModelSet | None:
    path = options.heldout
    if path is None:
        return None
    models = read_models(path, normalise=options.normalise)
    if models.states != problem.models.states or models.actions != problem.models.actions:
        raise InputError(
            f"Held-out models must have the states and actions of the problem: {path.name} has "
            f"{models.n_states} and {models.n_actions}, the problem {problem.n_states} and "
            f"{problem.n_actions}, or their labels differ."
        )
    missing = np.argwhere(problem.allowed & ~models.available)
    if missing.size:
        s, a = missing[0]
        raise InputError(
            f"Held-out models must know every allowed pair: {path.name} has no transitions for "
            f"state '{models.states[s]}', action '{models.actions[a]}'."
        )
    return models


# --------------------------------------------------------------------------------------------------
# The command line that makes a run again, as far as the run knows it.
#
# Files are named without their folders: where they lie says more of a machine than of the run.

FLAGS = {"n_test": "test-models", "reward_table": "reward-table", "per_cell": "per-cell",
         "reward_default": "reward-default", "min_count": "min-count"}  # fmt: skip
GIVEN = ("columns", "states", "initial", "weights", "heldout", "reward_table", "reward_default",
         "allowed", "normalise", "n_test", "strength", "per_cell", "support",
         "min_count")  # fmt: skip


def solve_command(source: str, problem: Problem, options: Options, drawn: bool) -> str:
    """`softrobust solve FILE …` with the question spelled out, and every option that was given.

    Parameters
    ----------
    drawn : bool
        Whether models were drawn from the posterior of a log, so that their number is an option.
    """
    words = ["softrobust", "solve", source, *_question(problem)]
    if drawn:
        words += ["--models", str(problem.n_models)]
    for name in options.given(*GIVEN):
        words += [f"--{FLAGS.get(name, name)}", *_value(getattr(options, name))]
    return shlex.join([*words, "--seed", str(options.seed)])


def problem_command(run: str, solver: str, seed: int) -> str:
    """The same for a run that started from models: its folder has the problem itself."""
    words = ["softrobust", "solve", f"{run}/problem.npz", "--seed", str(seed)]
    return shlex.join([*words, "--solver", solver]) if solver in SOLVERS else ""


def with_solver(command: str, solver: Solver) -> str:
    """The solver's part; nothing for a solver that the command line does not know."""
    if not command or solver.name not in SOLVERS:
        return ""
    words = ["--solver", solver.name]
    limit = getattr(solver, "time_limit", None)
    if limit is not None and limit != DEFAULT_SECONDS:
        words += ["--time-limit", f"{limit:g}"]
    return f"{command} {shlex.join(words)}"


def _question(problem: Problem) -> list[str]:
    objective = problem.objective
    words = ["--gamma", repr(problem.gamma)]
    if isinstance(objective, Percentile):
        words += ["--objective", objective.criterion]
    else:
        words += ["--lambda", repr(objective.lam)]
    return [*words, "--alpha", repr(objective.alpha)]


def _value(value: object) -> list[str]:
    if value is True:
        return []
    if isinstance(value, Mapping):
        return [",".join(f"{key}={name}" for key, name in value.items())]
    return [value.name if isinstance(value, Path) else str(value)]
