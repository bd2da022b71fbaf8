"""From a file to a problem: told by its content whether it is a log, models or a saved problem."""

import math
import time
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from softrobust._core.arrays import BoolArray, IntArray
from softrobust._core.limits import stage, time_bound
from softrobust._core.notes import Level, Note, read_notes
from softrobust._core.settings import instance, whole
from softrobust.certificate.posterior import MOST, TEST_STREAM
from softrobust.data import ContinuousLog, Labels, TrajectoryRules, TransitionLog, read_log
from softrobust.data.columns import ACTION, STATE
from softrobust.data.inspection import DECISIVE, OFF, log_alarms
from softrobust.data.join import relabelled
from softrobust.data.log import GIVEN, initial_distribution
from softrobust.data.readers import kind_of
from softrobust.data.reward_rules import NOISY
from softrobust.data.rewards import DRAWN_REWARDS
from softrobust.data.table import Table, TableFile, is_minari, opened, read_table
from softrobust.data.visits import Trajectories, trajectories_of
from softrobust.errors import InputError
from softrobust.models import ModelSet, read_models
from softrobust.models.gaussian import GAUSSIAN_FORMAT
from softrobust.models.policy import Policy, TimedPolicy, action_shares, read_timed_policy
from softrobust.objective import REFERENCES, Objective, Reference, SoftRobust, check_share
from softrobust.posterior import DirichletPosterior, FittedLearned, LearnedPosterior, Posterior
from softrobust.posterior.base import CHECKING, CHOOSING, fit_quietly
from softrobust.posterior.registry import TABLES, make_posterior, settings_of
from softrobust.posterior.sampling import Draws, stream, with_taken
from softrobust.problem import Problem, load_problem
from softrobust.report.sentences import sentence
from softrobust.returns import policy_values
from softrobust.run import options as asked_for
from softrobust.run.options import Options, Setup
from softrobust.run.vectors import set_up_vectors
from softrobust.solvers.practice_class import PracticeClass
from softrobust.solvers.promise import practice_of

FEWEST_MODELS, TAIL_MODELS = 300, 30  # drawn at first: in all, and in the bad case
LARGE_MODELS, LARGE_CELLS = 100, 2**24  # fewer of large models: their probabilities in all
MOST_CELLS = 2**26  # numbers of the models to choose on, at most (0.5 GiB), where they are more
LEAST_MODELS = 2
LONG = 1000  # steps from which models that were asked for by number may be too many for the time
LOOKED, LOOKING_SHARE = 3e-5, 0.5  # seconds that figures and pictures take of a model, at least
DRAWING_SHARE, EVALUATING_SHARE = 0.2, 0.02  # of the time left, for drawing and for one policy
LARGE_STATES = 200  # from here on what models cost is tried before they are drawn
FLAGS = ("strength", "per_cell", "support", "min_count")  # settings with options of their own


def set_up(source: str | Path | TransitionLog | ContinuousLog, options: Options) -> Setup:
    """Read the input, unless it is a log that was read already, and build the problem."""
    kinds = (str, Path, TransitionLog, ContinuousLog)
    instance("source", source, *kinds, hint="Give a log, or the name of a file.")
    whole("seed", options.seed, 0)
    if options.alpha is not None:
        check_share("alpha", options.alpha)
    path = Path(source) if isinstance(source, str) else source
    if not isinstance(path, Path):
        options.refuse(asked_for.READING, "files", "a log that was read already")
    if options.continuous or isinstance(path, ContinuousLog):
        options.refuse(asked_for.TABLES_ONLY, "tables of states")
        return set_up_vectors(path, options)
    options.refuse(asked_for.VECTORS_ONLY, "continuous states")
    if isinstance(path, TransitionLog):
        return _from_log(path, options, "")
    with opened(TableFile(path, **(options.reading or {}))) as table:
        return _from_file(path, table, options)


def _from_file(path: Path, table: Table, options: Options) -> Setup:
    visits = any(name in (options.visits or {}) for name in DECISIVE)
    kind = "log" if visits else kind_of(table)
    if kind == GAUSSIAN_FORMAT.removeprefix("softrobust-"):
        raise InputError(
            f"{path.name} holds continuous models (Gaussian, as drawn for the domain 'cancer'). "
            "Say that states are continuous.",
            arguments=("continuous",),
        )
    if kind not in ("log", "models", "problem"):
        raise InputError(f"{path.name} holds '{kind}', which is neither a log nor models.")
    if kind == "log":
        options.refuse(("weights",), "models", "a log")
        _of_tables(options.posterior)
        log, made = read_rows(table, options)
        alarms = log_alarms(log, None if made is None else made.who)
        worst = [sentence(note) for note in alarms if note.level is Level.ALARM]
        if worst and not options.anyway:
            raise InputError(
                f"An answer would rest on rows that cannot be right. {' '.join(worst)} Correct the "
                "file, or go on with anyway: then this stands under the answer.",
                arguments={"anyway": ""},
            )
        setup = _from_log(log, options, str(path) if is_minari(path) else path.name)
        if setup.problem.models.n_actions > 1:  # a posterior may know more than the log shows
            alarms = [note for note in alarms if note.code != "one_action"]
        return replace(setup, visits=made, notes=(*alarms, *setup.notes))
    options.refuse(asked_for.LOG_ONLY, "a log", "models")
    problem, notes = (_from_models if kind == "models" else _from_problem)(path, options)
    heldout = _heldout(options, problem)
    return Setup(problem, heldout=heldout, notes=notes, source=path.name, options=options)


def read_rows(table: Table, options: Options) -> tuple[TransitionLog, Trajectories | None]:
    """The log of a table of transitions, or of visits: then how they became a log, too.

    Nothing is guessed here, so that a command means the same tomorrow: `inspect` guesses, and says
    what it guessed as settings.
    """
    said = dict(options.visits or {})
    names = ("columns", "states", "initial", "reward_table", "reward_default")
    given = {name: getattr(options, name) for name in names}
    if not any(name in said for name in DECISIVE):
        surplus = [name for name in said if name not in ("reward", "cost")]
        if surplus:
            raise InputError(
                f"{', '.join(surplus)} is for a table of visits, whose id, time and action are "
                "named. Name them, or leave it out.",
                arguments=dict.fromkeys(surplus, ""),
            )
        return read_log(table, **given, reward=said.get("reward"), cost=said.get("cost")), None
    options.refuse(("columns", "states"), "a log of transitions", "visits")
    for name in ("id", "time", "action"):
        if name not in said:
            text = f"A table of visits needs the column of its {name}, and none is named."
            raise InputError(text, arguments={name: "COLUMN", "read_trajectories": ""})
    rules = {k: v for k, v in said.items() if k not in ("terminal", "grid", "reward") or v != OFF}
    made = trajectories_of(table, TrajectoryRules(**rules))
    log = made.log if options.initial is None else made.log.with_initial(options.initial)
    return log.with_reward_table(options.reward_table, options.reward_default), made


def _from_log(log: TransitionLog, options: Options, source: str) -> Setup:
    train_seed, test_seed = np.random.SeedSequence(options.seed).spawn(2)
    stage("fitting the posterior")
    fitted = fit_quietly(_prior(options), log)
    stage("drawing models")
    n, pool = options.n_models, fitted.share(CHOOSING)
    n = first_models(pool, options) if n is None else affordable(pool, n, options)
    every = Draws.of(pool, n, train_seed)
    draws = in_memory(every, options.seed)
    models = in_time(draws)
    fewer = draws is not every and models.n_models == draws.n_models
    own = models.rewards
    if own is not None and not own.drawn and own is not log.rewards:
        given = ("reward_table", "reward_default")
        options.refuse(given, "posteriors that bring no rewards of their own")
    log, posterior = on_models(log, fitted, models)
    if log.rewards is None:
        raise InputError(
            f"{source or 'The log'} has no rewards, and a policy needs to know what is good. Add a "
            "column 'reward', or give a reward table (state,action,reward).",
            arguments=("reward_table",),
        )
    models = with_taken(models, log.pair_counts)  # practice, whatever the posterior
    gamma = models.gamma if options.gamma is None and models.gamma else options.need_gamma()
    goal = options.objective(SoftRobust(), read_reference(options, models, options.horizon))
    allowed = _allowed(options.allowed, log.states, log.actions)
    problem = problem_of(log, models, gamma, goal, allowed, options.horizon)
    heldout: ModelSet | Draws | None = _heldout(options, problem)
    if heldout is None and options.n_test is not None:
        held = posterior.share(CHECKING)
        heldout = Draws.of(held, options.n_test, stream(test_seed, TEST_STREAM))
    notes = (*read_notes(log.notes), *read_notes(models.notes), *coverage_notes(log, problem))
    if problem.paid.drawn:
        notes = tuple(replace(n, code=DRAWN_REWARDS) if n.code == NOISY else n for n in notes)
    if fewer:
        facts = {"models": problem.n_models, "asked": n, "memory": MOST_CELLS / 2**27}
        notes = (*notes, Note("models_in_memory", facts=facts))
    asked, drawn = options if source else None, options.heldout is None
    return Setup(
        problem, log, posterior, heldout, notes, test_seed, source, asked, drawn,
        policies=keeping(log, problem, posterior, options), more_models=options.n_models is None,
        stream=every if fewer else None,
    )  # fmt: skip


def first_models(posterior: Any, options: Options) -> int:
    """As many models as a first answer needs: thirty in the bad case, if time and memory allow."""
    alpha = SoftRobust().alpha if options.alpha is None else options.alpha
    tail = max(1.0 - alpha, TAIL_MODELS / MOST)
    n = max(FEWEST_MODELS, math.ceil(TAIL_MODELS / tail - 1e-9))
    if posterior.pool is not None:
        return min(n, int(posterior.pool))
    if time_bound().passed:  # not even one more is drawn to see how large they are
        return time_bound().affords("models", n, math.inf, 1.0, LEAST_MODELS)
    one = posterior.sample(1, np.random.default_rng([options.seed, 12]))
    n = min(n, max(LARGE_MODELS, LARGE_CELLS // max(int(one.next_states.size), 1)))
    small = one.n_states < LARGE_STATES and options.horizon is None
    return n if small else _in_time(one, n, options)


def affordable(posterior: Any, n: int, options: Options) -> int:
    """The models that were asked for, or as many as the time allows to look at and to follow."""
    clock, n = time_bound(), whole("The number of models", n)
    n = clock.affords("models", n, LOOKED, LOOKING_SHARE, LEAST_MODELS)
    if (options.horizon or 0) < LONG or clock.passed or posterior.pool is not None:
        return n
    return _in_time(posterior.sample(1, np.random.default_rng([options.seed, 12])), n, options)


def _in_time(one: ModelSet, n: int, options: Options) -> int:
    """As many models as are evaluated in a small part of the time left, by how long one takes."""
    clock = time_bound()
    if clock.limit is None:
        return n
    gamma = one.gamma or options.need_gamma()
    pays = np.random.default_rng(0).random((one.n_states, one.n_actions))
    tried = Problem(replace(one, rewards=None), pays, gamma=gamma, horizon=options.horizon)
    for _ in range(2):  # the first has its kernels compiled
        began = time.monotonic()
        policy_values(tried, tried.uniform_policy())  # not `policy_return`, which keeps its answer
        each = time.monotonic() - began
    return clock.affords("models", n, each, EVALUATING_SHARE, LEAST_MODELS)


def in_memory(draws: Draws, seed: int) -> Draws:
    """The models to choose on: all that were asked for, or the first that memory is meant for."""
    if draws.posterior.pool is not None or draws.n_models <= LARGE_MODELS or time_bound().passed:
        return draws
    one = draws.posterior.sample(1, np.random.default_rng([seed, 12]))
    numbers = 2 if one.rewards is not None and one.rewards.kind == "model" else 1
    most = MOST_CELLS // max(numbers * int(one.next_states.size), 1)
    most = max(most - most % draws.block, LARGE_MODELS)
    return draws if draws.n_models <= most else draws.part(0, most)


def in_time(draws: Draws) -> ModelSet:
    """The models, or as many as are drawn in a part of the time that is left."""
    models = draws.within(time_bound().part(DRAWING_SHARE), LEAST_MODELS)
    if models.n_models < draws.n_models:
        time_bound().note("models")
    return models


def on_models(log: TransitionLog, fitted: Any, models: ModelSet) -> tuple[TransitionLog, Any]:
    """Log and posterior by the labels of the models, with what these know of rewards and start."""
    own, old = models.rewards, log
    if (models.states, models.actions) != (log.states, log.actions):
        log = relabelled(log, models.states, models.actions)
    if own is not None and own.kind != "model" and own is not log.rewards:
        log = replace(log, rewards=own)
    start, given = models.p0, log.p0_source.code == GIVEN
    if start is not None and not given and not np.array_equal(start, log.p0):
        log = replace(log, p0=start, p0_source=Note("p0_of_posterior"))
    if log is not old and is_dataclass(fitted) and getattr(fitted, "log", None) is not None:
        fitted = replace(fitted, log=log)  # type: ignore[type-var]
    return log, fitted


def problem_of(
    log: TransitionLog,
    models: ModelSet,
    gamma: float,
    objective: Objective,
    allowed: BoolArray | None = None,
    horizon: int | None = None,
) -> Problem:
    """The problem on drawn models; rewards are theirs where they bring some."""
    own = models.rewards is not None and not models.rewards.drawn
    rewards = None if own else log.rewards
    return Problem(models, rewards, log.p0, gamma, objective, allowed, horizon)


def keeping(
    log: TransitionLog, problem: Problem, posterior: Any, options: Options | None
) -> PracticeClass | None:
    """Policies that keep to practice on pairs seen less than `min_count` times, if it is asked."""
    least = None if options is None else options.min_count
    if least is None or least < 2 or not isinstance(posterior, FittedLearned):
        return None
    return PracticeClass.of(log, practice_of(log, problem.models.available), least)


def _prior(options: Options) -> Posterior:
    """The posterior that was asked for: the learned one, or that of the settings given."""
    given = options.given("strength", "per_cell", "support")
    if isinstance(options.posterior, Posterior):
        options.refuse((*FLAGS, "settings"), "a posterior that is named")
        return options.posterior
    name = options.posterior or (DirichletPosterior if given else LearnedPosterior).name
    _of_tables(name)
    known, settings = settings_of(name), dict(options.settings or {})
    given += [] if options.min_count is None else ["min_count"]
    if strange := [setting for setting in given if setting not in known]:
        raise InputError(
            f"The posterior '{name}' has no {', '.join(strange)}. Its settings are "
            f"{', '.join(known)}.",
            arguments=("posterior",),
        )
    if twice := [setting for setting in given if setting in settings]:
        raise InputError(f"'{twice[0]}' was given twice. Leave one of the two out.")
    settings |= {setting: getattr(options, setting) for setting in given}
    if name == LearnedPosterior.name and given:  # it keeps to practice on pairs seen rarely
        settings["min_count"] = min(whole("min_count", options.min_count, 0), 1)
    seed = {"seed": options.seed} if "seed" in known else {}
    return make_posterior(name, **(seed | settings))


def _of_tables(posterior: Posterior | str | None) -> None:
    """Refuse the name of a posterior that is for vectors, before columns of a table are missed."""
    if isinstance(posterior, str) and posterior not in TABLES:
        settings_of(posterior)  # refuses a name that is none
        text = f"The posterior '{posterior}' is for continuous states, and this for tables of them."
        raise InputError(text, arguments=("posterior", "continuous"))


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
    given = {name: getattr(options, name) for name in ("weights", "initial", "gamma", "normalise")}
    models = read_models(path, **given)
    if models.rewards is None:
        raise InputError(
            f"{path.name} has no reward column. Add a column 'reward' to the rows of the models."
        )
    goal = options.objective(SoftRobust(), read_reference(options, models, options.horizon))
    allowed = _allowed(options.allowed, models.states, models.actions)
    problem = Problem(models, objective=goal, allowed=allowed, horizon=options.horizon)
    notes = read_notes(models.notes)
    return problem, notes if models.p0 is not None else (*notes, Note("start_unknown"))


def _from_problem(path: Path, options: Options) -> tuple[Problem, tuple[Note, ...]]:
    options.refuse(("weights",), "a file of models", "a problem")
    problem = load_problem(path)
    steps = problem.horizon if options.horizon is None else options.horizon
    reference = read_reference(options, problem.models, steps)
    changes: dict[str, Any] = {"objective": options.objective(problem.objective, reference)}
    changes |= {name: getattr(options, name) for name in options.given("gamma", "horizon")}
    if options.initial is not None:
        changes["p0"] = initial_distribution(options.initial, problem.models.states)[0]
    mask = _allowed(options.allowed, problem.models.states, problem.models.actions)
    if mask is not None:
        changes["allowed"] = mask & problem.allowed
    return replace(problem, **changes), ()


def read_reference(options: Options, models: ModelSet, horizon: int | None) -> Reference | None:
    """The policy in the file of a reference, if one was named."""
    path = options.reference_file
    if path is None:
        return None
    practice = None
    if models.taken is not None:
        shares, _ = action_shares(models.taken, models.available)
        practice = Policy(shares, models.states, models.actions)
    policy, _ = read_whole_policy(path, models, practice, horizon)
    stray = np.argwhere((policy.probs > 0) & ~models.available)
    if stray.size:
        s, a = (int(i) for i in stray[0][-2:])
        raise InputError(
            f"The reference takes action '{models.actions[a]}' in state '{models.states[s]}', and "
            f"no model knows what follows ({len(stray)} such pairs). Correct {path.name}, or keep "
            "such pairs in the posterior (min_count=0).",
            arguments=("reference",),
        )
    name = path.name if path.name not in REFERENCES else f"file {path.name}"
    return Reference(name, policy)


def read_whole_policy(
    path: Path, models: ModelSet, practice: Policy | None, horizon: int | None = None
) -> tuple[Policy | TimedPolicy, IntArray]:
    """A policy from its table, and the states that it is silent on, where practice goes on."""
    decided = ~np.asarray(models.sinks)
    available = models.available / models.available.sum(axis=1, keepdims=True)
    rest = Policy(available, models.states, models.actions) if practice is None else practice
    silence = replace(rest, decided=np.zeros(models.n_states, dtype=bool))
    policy = read_timed_policy(path, models.states, models.actions, horizon, silence)
    silent = np.flatnonzero(decided & ~policy.decided)
    if silent.size and practice is None:
        raise InputError(
            f"A policy must say what to do in every state: {path.name} lacks "
            f"{models.states.shortened(silent)}. Add them; without a log there is no practice to "
            "go on with."
        )
    return replace(policy, decided=policy.decided | rest.decided), silent


def _allowed(path: Path | None, states: Labels, actions: Labels) -> BoolArray | None:
    """A mask from a table `state, action` of what may be done; states not listed keep all."""
    if path is None:
        return None
    table = read_table(path, (STATE, ACTION))
    mask = np.zeros((len(states), len(actions)), dtype=bool)
    pairs = (("state", states), ("action", actions))
    s, a = (table.positions(role, labels, "What is allowed") for role, labels in pairs)
    mask[s, a] = True
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
