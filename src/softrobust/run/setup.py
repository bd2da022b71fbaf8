"""From a file to a problem: told by its content whether it is a log, models or a saved problem."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softrobust._core.notes import Note, read_notes
from softrobust._core.settings import whole
from softrobust.data import TransitionLog, read_log, sniff
from softrobust.data.columns import ACTION, STATE
from softrobust.data.continuous import ContinuousLog
from softrobust.data.initial import initial_distribution
from softrobust.data.reward_rules import NOISY
from softrobust.data.rewards import DRAWN_REWARDS
from softrobust.data.table import read_table
from softrobust.errors import InputError
from softrobust.models.files import read_models
from softrobust.models.gaussian import GAUSSIAN_FORMAT
from softrobust.objective import SoftRobust
from softrobust.posterior import DirichletPosterior, FittedLearned, LearnedPosterior
from softrobust.problem import Problem, load_problem
from softrobust.run.options import (
    LOG_ONLY,
    MODELS_ONLY,
    READING,
    TABLES_ONLY,
    VECTORS_ONLY,
    Options,
    Setup,
)
from softrobust.run.vectors import set_up_vectors
from softrobust.solvers.practice_class import PracticeClass
from softrobust.solvers.promise import practice_of

if TYPE_CHECKING:
    from softrobust._core.arrays import BoolArray
    from softrobust.data.labels import Labels
    from softrobust.models.model_set import ModelSet

DEFAULT_MODELS = 100


def set_up(source: str | Path | TransitionLog | ContinuousLog, options: Options) -> Setup:
    """Read the input, unless it is a log that was read already, and build the problem."""
    whole("seed", options.seed, 0)
    path = Path(source) if isinstance(source, str) else source
    if not isinstance(path, Path):
        options.refuse(READING, "files", "a log that was read already")
    if options.continuous or isinstance(path, ContinuousLog):
        options.refuse(TABLES_ONLY, "tables of states")
        return set_up_vectors(path, options)
    options.refuse(VECTORS_ONLY, "continuous states")
    if isinstance(path, TransitionLog):
        return _from_log(path, options, "")
    kind = sniff(path)
    if kind == GAUSSIAN_FORMAT.removeprefix("softrobust-"):
        raise InputError(
            f"{path.name} holds continuous models (Gaussian, as drawn for the domain 'cancer'). "
            "Say that states are continuous.",
            arguments=("continuous",),
        )
    if kind not in ("log", "models", "problem"):
        raise InputError(f"{path.name} holds '{kind}', which is neither a log nor models.")
    if kind == "log":
        options.refuse(MODELS_ONLY, "models", "a log")
        names = ("columns", "states", "initial", "reward_table", "reward_default")
        given = {name: getattr(options, name) for name in names}
        return _from_log(read_log(path, **given), options, path.name)
    options.refuse(LOG_ONLY, "a log", "models")
    notes: tuple[Note, ...] = ()
    if kind == "models":
        problem, notes = _from_models(path, options)
    else:
        options.refuse(MODELS_ONLY, "a file of models", "a problem")
        problem = _from_problem(path, options)
    heldout = _heldout(options, problem)
    return Setup(problem, heldout=heldout, notes=notes, source=path.name, options=options)


def _from_log(log: TransitionLog, options: Options, source: str) -> Setup:
    if log.rewards is None:
        raise InputError(
            f"{source or 'The log'} has no rewards, and a policy needs to know what is good. Add a "
            "column 'reward', or give a reward table (state,action,reward).",
            arguments=("reward_table",),
        )
    train_seed, test_seed = np.random.SeedSequence(options.seed).spawn(2)
    posterior = _prior(options).fit(log)
    n = DEFAULT_MODELS if options.n_models is None else options.n_models
    problem = Problem(
        posterior.sample(n, np.random.default_rng(train_seed)),
        rewards=log.rewards,
        p0=log.p0,
        gamma=options.need_gamma(),
        objective=options.objective(SoftRobust()),
        allowed=_allowed(options.allowed, log.states, log.actions),
    )
    heldout = _heldout(options, problem)
    if heldout is None and options.n_test is not None:
        heldout = posterior.sample(options.n_test, np.random.default_rng(test_seed))
    notes = (*read_notes(log.notes), *coverage_notes(log, problem))
    if problem.paid.drawn:
        notes = tuple(replace(n, code=DRAWN_REWARDS) if n.code == NOISY else n for n in notes)
    asked, drawn = options if source else None, options.heldout is None
    return Setup(
        problem, log, posterior, heldout, notes, test_seed, source, asked, drawn,
        policies=keeping(log, problem, posterior, options),
    )  # fmt: skip


def keeping(
    log: TransitionLog, problem: Problem, posterior: Any, options: Options | None
) -> PracticeClass | None:
    """Policies that keep to practice on pairs seen less than `min_count` times, if it is asked."""
    least = None if options is None else options.min_count
    if least is None or least < 2 or not isinstance(posterior, FittedLearned):
        return None
    return PracticeClass.of(log, practice_of(log, problem.models.available), least)


def _prior(options: Options) -> DirichletPosterior | LearnedPosterior:
    """The learned prior, unless what was given asks for the plain one."""
    given = options.given("strength", "per_cell", "support")
    name = options.posterior or (DirichletPosterior if given else LearnedPosterior).name
    if name == DirichletPosterior.name:
        given += options.given("min_count")
        return DirichletPosterior(**{setting: getattr(options, setting) for setting in given})
    if name != LearnedPosterior.name:
        raise InputError(
            f"A run fits the posterior '{LearnedPosterior.name}' or '{DirichletPosterior.name}'; "
            f"it was asked for '{name}'. Draw models of others with `softrobust sample`.",
            arguments=("posterior",),
        )
    if given:
        text = f"{', '.join(given)} are settings of the posterior 'dirichlet', not of 'learned'."
        raise InputError(text, arguments=("posterior",))
    return LearnedPosterior(min_count=0 if options.min_count == 0 else 1)


def coverage_notes(log: TransitionLog, problem: Problem) -> list[Note]:
    """What follows from the gaps that the log's own notes name."""
    live = problem.decided
    available = problem.models.available[live]
    counts = {
        "pairs_seen_too_rarely": int((~available).sum()),
        "pairs_forbidden": int((available & ~problem.allowed[live]).sum()),
    }
    notes = [Note(code, facts={"pairs": n}) for code, n in counts.items() if n]
    if (log.sinks & problem.models.sinks).any():
        notes.append(Note("states_without_actions"))
    return notes


def _from_models(path: Path, options: Options) -> tuple[Problem, tuple[Note, ...]]:
    models = read_models(
        path,
        weights=options.weights,
        initial=options.initial,
        gamma=options.gamma,
        normalise=options.normalise,
    )
    if models.rewards is None:
        raise InputError(
            f"{path.name} has no reward column. Add a column 'reward' to the rows of the models."
        )
    problem = Problem(
        models,
        objective=options.objective(SoftRobust()),
        allowed=_allowed(options.allowed, models.states, models.actions),
    )
    notes = read_notes(models.notes)
    return problem, notes if models.p0 is not None else (*notes, Note("start_unknown"))


def _from_problem(path: Path, options: Options) -> Problem:
    problem = load_problem(path)
    changes: dict[str, Any] = {"objective": options.objective(problem.objective)}
    if options.gamma is not None:
        changes["gamma"] = options.gamma
    if options.initial is not None:
        changes["p0"] = initial_distribution(options.initial, problem.models.states)[0]
    mask = _allowed(options.allowed, problem.models.states, problem.models.actions)
    if mask is not None:
        changes["allowed"] = mask & problem.allowed
    return replace(problem, **changes)


def _allowed(path: Path | None, states: Labels, actions: Labels) -> BoolArray | None:
    """A mask from a table `state, action` of what may be done; states not listed keep all."""
    if path is None:
        return None
    table = read_table(path, (STATE, ACTION))
    mask = np.zeros((len(states), len(actions)), dtype=bool)
    for i, (s, a) in enumerate(zip(table.codes["state"], table.codes["action"], strict=True)):
        try:
            at = states.index(table.names["state"][s]), actions.index(table.names["action"][a])
        except InputError as error:
            raise InputError(f"{table.rows.where(i)}: {error}") from None
        mask[at] = True
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
