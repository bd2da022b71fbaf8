"""From a file to a problem with continuous states: a log of vectors, or Gaussian models.

What the log does not say is taken from it where that can be done openly, and every such choice is a
note: first states of episodes are the start, the longest episode is the horizon, a linear fit of
the reward column is the reward, and values are kept in the range of the data, widened.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np

from softrobust._core.arrays import BoolArray, FloatArray
from softrobust._core.files import npz_format
from softrobust._core.notes import Level, Note, read_notes
from softrobust._core.settings import whole
from softrobust.data import ContinuousLog, Labels, TransitionLog, read_continuous_log
from softrobust.errors import InputError
from softrobust.models.continuous import Box
from softrobust.models.continuous_rewards import LinearReward, fit_linear_reward
from softrobust.models.gaussian import GAUSSIAN_FORMAT, GaussianFrame, load_gaussian
from softrobust.models.lookahead import load_continuous_policy
from softrobust.objective import PRACTICE_REFERENCE, Reference, SoftRobust
from softrobust.posterior import Posterior, RegressionPosterior
from softrobust.posterior.base import CHECKING, CHOOSING, fit_quietly
from softrobust.posterior.registry import make_posterior
from softrobust.problem import ContinuousProblem
from softrobust.run.options import LOG_ONLY, Options, Setup
from softrobust.solvers.continuous.behaviour import continuous_behaviour

DEFAULT_MODELS = 50  # the paper's tables
MIN_COUNT = 5  # actions seen fewer times are not taken: what they do is guesswork
MARGIN = 0.5  # of the range of the data, on either side: where values are kept by default
TAIL_MODELS = 30  # held-out models in the tail that an interval needs
MOST_TEST = 1000


def set_up_vectors(source: Path | ContinuousLog | TransitionLog, options: Options) -> Setup:
    """Read the input, unless it is a log that was read already, and build the problem."""
    if isinstance(source, TransitionLog):
        raise InputError("The log has a table of states. Do not say that they are continuous.")
    if isinstance(source, ContinuousLog):
        return _from_log(source, options, "")
    if source.suffix == ".npz":
        return _from_models(source, options)
    options.need_gamma()  # before a long log is read
    log = read_continuous_log(source, options.actions, options.columns)
    return _from_log(log, options, source.name)


def _from_models(path: Path, options: Options) -> Setup:
    found = npz_format(path)
    if found != GAUSSIAN_FORMAT:
        raise InputError(
            f"{path.name} holds '{found}', not continuous models. Solve it as a table of states, "
            "or give a log of vectors or models drawn from a regression posterior."
        )
    options.refuse(LOG_ONLY, "a log", "models")
    models = load_gaussian(path)
    start = _given_start(options, models.variables)
    if start is not None:  # the models' file of the run then holds it, too
        models = replace(models, frame=replace(models.frame, start=start))
    if options.clip is not None:
        models = replace(models, clip=_box(options.clip, models.seen, models.variables))
    goal = options.objective(SoftRobust(), _reference(options, None))
    reward = _given_reward(options, models.variables)
    problem = ContinuousProblem(models, None, reward, options.gamma, options.horizon, goal)
    heldout = None if options.heldout is None else load_gaussian(options.heldout)
    return Setup(problem, heldout=heldout, source=path.name, options=options)


def _from_log(log: ContinuousLog, options: Options, source: str) -> Setup:
    if options.heldout is not None and options.n_test is not None:
        text = "Held-out models were given, so none are drawn. Leave their number out."
        raise InputError(text, arguments=("n_test",))
    _check_variation(log)
    notes = list(log.notes)
    if len(log.actions) == 1:
        notes.append(Note("one_action", Level.CAUTION, {"action": log.actions[0]}))
    allowed = _often_enough(log, options, notes)
    seen = log.s.min(axis=0), log.s.max(axis=0)
    reward, r2, end = _given_reward(options, log.variables), None, 0.0
    if reward is None:
        reward, r2, end = fit_linear_reward(log)
        notes.append(Note("reward_fitted", facts={"r2": r2}))
        if log.reward is not None and np.ptp(log.reward) == 0:
            ends = log.reward[0] != 0 and log.terminal is not None and log.terminal.any()
            equal = {"n_rows": len(log), "ends": bool(ends)}
            notes.append(Note("equal_rewards", Level.CAUTION, equal))
    frame = GaussianFrame(
        log.variables,
        log.actions,
        _action_values(log, notes),
        reward.now,
        reward.next,
        start=_start(log, options, notes),
        gamma=options.need_gamma(),
        horizon=_horizon(log, options, notes),
        box=_box(MARGIN if options.clip is None else options.clip, seen, log.variables),
        reward_action=reward.action,
        reward_constant=reward.constant,
        reward_end=end,
    )
    notes.append(_box_note(frame, options))
    if log.terminal is not None and log.terminal.any():
        facts = {"n_rows": int(log.terminal.sum()), "reward": end}
        notes.append(Note("ends_modelled", facts=facts))
    posterior = fit_quietly(replace(_prior(options), frame=frame), log)
    train_seed, test_seed = np.random.SeedSequence(options.seed).spawn(2)
    n = DEFAULT_MODELS if options.n_models is None else whole("n_models", options.n_models)
    train = posterior.share(CHOOSING).sample(n, np.random.default_rng(train_seed))
    goal = options.objective(SoftRobust(), _reference(options, log))
    if options.heldout is not None:
        heldout = load_gaussian(options.heldout)
    else:
        held, n_test = posterior.share(CHECKING), _test_models(options, goal.tail)
        if held.pool is not None and options.n_test is None:
            n_test = min(n_test, held.pool)
        heldout = held.sample(n_test, np.random.default_rng(test_seed))
    problem = ContinuousProblem(train, reward=reward, objective=goal, allowed=allowed)
    notes += read_notes(posterior.diagnostics().problems)
    asked, drawn = options if source else None, options.heldout is None
    return Setup(
        problem, log, posterior, heldout, tuple(notes), test_seed, source, asked, drawn, r2
    )


def _prior(options: Options) -> RegressionPosterior:
    """The regression, with the settings that were given."""
    asked = options.posterior or RegressionPosterior.name
    if isinstance(asked, RegressionPosterior):
        options.refuse(("settings",), "a posterior that is named")
        return asked
    name = asked.name if isinstance(asked, Posterior) else asked
    if name != RegressionPosterior.name:
        raise InputError(
            f"Continuous states have the posterior '{RegressionPosterior.name}'; it was asked for "
            f"'{name}'.",
            arguments=("posterior",),
        )
    settings = {"seed": options.seed} | dict(options.settings or {})
    return cast(RegressionPosterior, make_posterior(name, **settings))


def _reference(options: Options, log: ContinuousLog | None) -> Reference | None:
    """The policy to measure against: practice as the log shows it, or one that was saved."""
    path = options.reference_file
    if path is not None:
        if path.suffix != ".npz":
            raise InputError(
                "Where states are vectors, a policy to measure against is a policy.npz of a run; "
                f"'{path.name}' is none. Solve for it, and give that file of its folder.",
                arguments=("reference",),
            )
        return Reference(path.name, load_continuous_policy(path))
    if options.reference == PRACTICE_REFERENCE and log is not None:
        return Reference(PRACTICE_REFERENCE, continuous_behaviour(log).policy)
    return None


def _test_models(options: Options, tail: float) -> int:
    """As many held-out models as an interval of the tail needs, at least 100."""
    if options.n_test is not None:
        return whole("n_test", options.n_test)
    need = TAIL_MODELS / tail if tail > 0 else 0.0
    return int(min(max(100, np.ceil(need - 1e-9)), MOST_TEST))


def _given_reward(options: Options, variables: Labels) -> LinearReward | None:
    if options.reward_now is None and options.reward_next is None:
        return None
    now, then = (_numbers(options, name, variables) for name in ("reward_now", "reward_next"))
    return LinearReward(now, then)


def _numbers(options: Options, name: str, variables: Labels) -> FloatArray:
    """(n_variables,) what an option gives to each, 0 where it gives nothing."""
    out = np.zeros(len(variables))
    for variable, value in (getattr(options, name) or {}).items():
        out[_index(name, variable, variables)] = value
    return out


def _index(name: str, variable: str, variables: Labels) -> int:
    try:
        return variables.index(variable)
    except InputError as error:
        raise InputError(f"{name}: {error}", arguments=(name,)) from None


def _action_values(log: ContinuousLog, notes: list[Note]) -> FloatArray:
    """(n_actions,) the numbers that stand for actions in the features of the models."""
    try:
        values = np.array([float(name) for name in log.actions])
        if np.isfinite(values).all():
            return values
    except ValueError:
        pass
    if len(log.actions) == 1:
        return np.zeros(1)  # in no feature
    if len(log.actions) == 2:
        first, second = log.actions
        notes.append(Note("actions_are_numbers", facts={"zero": first, "one": second}))
        return np.array([0.0, 1.0])
    raise InputError(
        f"The actions {list(log.actions)} are no numbers, and the features of the models need one "
        "number per action. Write doses or levels in the column 'action'."
    )


def _start(log: ContinuousLog, options: Options, notes: list[Note]) -> FloatArray:
    given = _given_start(options, log.variables)
    found = log.starts if given is None else given
    if found is None:
        notes.append(Note("starts_anywhere"))
        return np.array(log.s)
    return found


def _given_start(options: Options, variables: Labels) -> FloatArray | None:
    """(1, n_variables), with a value for every variable."""
    if options.start is None:
        return None
    lacking = [name for name in variables if name not in options.start]
    if lacking:
        text = f"The start needs a value for every variable; '{lacking[0]}' has none."
        raise InputError(text, arguments=("start",))
    return _numbers(options, "start", variables)[None]


def _check_variation(log: ContinuousLog) -> None:
    """Refuse what no model can be fitted to, in the words of the log."""
    flat = np.flatnonzero(np.ptp(log.s, axis=0) == 0)
    if len(log) == 1:
        raise InputError(
            "The log has one transition: there is nothing to learn from. Give a longer log."
        )
    if flat.size:
        raise InputError(
            f"'{log.variables[int(flat[0])]}' has the same value in every row: there is nothing to "
            "learn from. Leave out the variable."
        )


def _often_enough(log: ContinuousLog, options: Options, notes: list[Note]) -> BoolArray:
    """(n_actions,) which actions the policy may take, with a note on those it may not."""
    least = MIN_COUNT if options.min_count is None else whole("min_count", options.min_count, 0)
    seen = np.bincount(log.a, minlength=len(log.actions))
    allowed = np.asarray(seen >= least)
    if not allowed.any():
        best = int(seen.argmax())
        raise InputError(
            f"An action is taken that was seen at least {least} times, and none was: "
            f"'{log.actions[best]}' was seen most often, in {seen[best]} of {len(log)} rows. Put "
            "actions that are alike (doses) together, or ask for fewer.",
            arguments=("min_count",),
        )
    for a in np.flatnonzero(~allowed):
        facts = {"action": log.actions[int(a)], "n_seen": int(seen[a]), "n_rows": len(log)}
        notes.append(Note("action_seen_too_rarely", facts=facts))
    return allowed


def _horizon(log: ContinuousLog, options: Options, notes: list[Note]) -> int:
    if options.horizon is not None:
        return whole("horizon", options.horizon)
    if log.longest is None:
        raise InputError(
            "The length of an episode is not known: the log has no column 'episode'. Give the "
            "horizon, for example 30 steps.",
            arguments=("horizon",),
        )
    notes.append(Note("horizon_is_longest", facts={"steps": log.longest}))
    return log.longest


def _box(
    clip: Mapping[str, tuple[float, float]] | float, seen: Box | None, variables: Labels
) -> Box | None:
    """The box that was asked for; variables without one keep the range of the data, widened."""
    margin = clip if isinstance(clip, (int, float)) else MARGIN
    given = clip if isinstance(clip, Mapping) else {}
    if margin == np.inf:
        return None
    if not margin >= 0:
        text = f"clip takes a share ≥ 0 of the range of the data; it is {margin:g}."
        raise InputError(text, arguments=("clip",))
    if seen is None:
        if any(name not in given for name in variables):
            raise InputError(
                "These models do not know the range of their data: give low and high for every "
                "variable.",
                arguments=("clip",),
            )
        seen = np.zeros(len(variables)), np.zeros(len(variables))
    wide = margin * (seen[1] - seen[0])
    low, high = seen[0] - wide, seen[1] + wide
    for name, ends in given.items():
        j = _index("clip", name, variables)
        low[j], high[j] = ends
        if not low[j] < high[j]:
            text = f"clip takes low < high: '{name}' has {low[j]:g} and {high[j]:g}."
            raise InputError(text, arguments=("clip",))
    return low, high


def _box_note(frame: GaussianFrame, options: Options) -> Note:
    if frame.box is None:
        return Note("no_box")
    ends = zip(frame.variables, *(side.tolist() for side in frame.box), strict=True)
    box = {name: [low, high] for name, low, high in ends}
    return Note("box", facts={"box": box, "widened": MARGIN if options.clip is None else None})
