"""From a file to a problem with continuous states: a log of vectors, or Gaussian models.

What the log does not say is taken from it where that can be done openly, and every such choice is a
note: first states of episodes are the start, the longest episode is the horizon, a linear fit of
the reward column is the reward, and values are kept in the range of the data, widened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.arrays import FloatArray
from softrobust._core.files import npz_format
from softrobust._core.settings import whole
from softrobust.continuous_problem import ContinuousProblem
from softrobust.data.continuous import ContinuousLog, read_continuous_log
from softrobust.errors import InputError
from softrobust.models.continuous import Box
from softrobust.models.continuous_rewards import LinearReward, fit_linear_reward
from softrobust.models.gaussian import GAUSSIAN_FORMAT, GaussianFrame, GaussianModels, load_gaussian
from softrobust.objective import Objective, Percentile, SoftRobust, make_objective
from softrobust.posterior import RegressionPosterior

if TYPE_CHECKING:
    from softrobust.data.labels import Labels
    from softrobust.posterior.regression import FittedRegression

DEFAULT_MODELS = 50  # the paper's tables
MIN_COUNT = 5
MARGIN = 0.5  # of the range of the data, on either side: where values are kept by default
TAIL_MODELS = 30  # held-out models in the tail that an interval needs
MOST_TEST = 1000
GOOD_FIT = 0.999


@final
@dataclass(frozen=True, slots=True)
class ContinuousOptions:
    """What a user can say; None means "take it from the file, or the default".

    Attributes
    ----------
    reward_now, reward_next : mapping variable → coefficient
    clip : mapping variable → (low, high), or a number
        A number is the margin by which the range of the data is widened; infinity is no box.
    columns : mapping role → column
        Of the log, where action, episode, reward or terminal have other names.
    actions : sequence of str
        The actions there are; any other in the log is an error.
    min_count : int
        Actions seen fewer times are not taken (default 5): what they do is guesswork.
    start : mapping variable → value
        The one state in which episodes start.
    """

    gamma: float | None = None
    horizon: int | None = None
    criterion: str | None = None
    lam: float | None = None
    alpha: float | None = None
    reward_now: Mapping[str, float] | None = None
    reward_next: Mapping[str, float] | None = None
    clip: Mapping[str, tuple[float, float]] | float | None = None
    n_models: int | None = None
    n_test: int | None = None
    heldout: Path | None = None
    columns: Mapping[str, str] | None = None
    actions: Sequence[str] | None = None
    min_count: int | None = None
    start: Mapping[str, float] | None = None
    seed: int = 0

    def objective(self) -> Objective:
        """Criterion, λ and α as given, else the defaults."""
        default, criterion = SoftRobust(), self.criterion or SoftRobust.criterion
        if criterion == Percentile.criterion and self.lam is not None:
            raise InputError("The percentile criterion has no lambda. Leave --lambda out.")
        return make_objective(
            criterion,
            default.lam if self.lam is None else self.lam,
            default.alpha if self.alpha is None else self.alpha,
        )

    def test_models(self) -> int:
        """As many held-out models as an interval of the tail needs, at least 100."""
        if self.n_test is not None:
            return whole("--test-models", self.n_test)
        tail = self.objective().tail
        need = TAIL_MODELS / tail if tail > 0 else 0.0
        return int(min(max(100, np.ceil(need - 1e-9)), MOST_TEST))


@final
@dataclass(frozen=True, slots=True)
class ContinuousSetup:
    """A problem and where it came from; `r2` is that of a fitted reward.

    Notes say what was taken for granted; cautions what may make every figure wrong.
    """

    problem: ContinuousProblem
    heldout: GaussianModels | None
    log: ContinuousLog | None
    posterior: FittedRegression | None
    r2: float | None
    notes: tuple[str, ...]
    source: str
    cautions: tuple[str, ...] = ()


def set_up_continuous(path: Path, options: ContinuousOptions) -> ContinuousSetup:
    """Read the input and build the problem."""
    whole("--seed", options.seed, 0)
    if path.suffix == ".npz":
        return _from_models(path, options)
    return _from_log(path, options)


def _from_models(path: Path, options: ContinuousOptions) -> ContinuousSetup:
    found = npz_format(path)
    if found != GAUSSIAN_FORMAT:
        raise InputError(
            f"{path.name} holds '{found}', not continuous models. Leave --continuous out, or give "
            "a log of vectors or the models that `softrobust sample --posterior regression` draws."
        )
    for_logs = {
        "--models": options.n_models, "--test-models": options.n_test, "--columns": options.columns,
        "--actions": options.actions, "--min-count": options.min_count,
    }  # fmt: skip
    for flag, given in for_logs.items():
        if given is not None:
            raise InputError(f"{flag} is for a log; {path.name} holds models. Leave it out.")
    models = load_gaussian(path)
    start = _given_start(options, models.variables)
    if start is not None:  # the models' file of the run then holds it, too
        models = replace(models, frame=replace(models.frame, start=start))
    if options.clip is not None:
        models = replace(models, clip=_box(options.clip, models.seen, models.variables))
    reward = None
    if options.reward_now is not None or options.reward_next is not None:
        reward = _given_reward(options, models.variables)
    problem = ContinuousProblem(
        models,
        None,
        reward,
        options.gamma,
        options.horizon,
        options.objective(),
    )
    return ContinuousSetup(problem, _heldout(options), None, None, None, (), path.name)


def _heldout(options: ContinuousOptions) -> GaussianModels | None:
    return None if options.heldout is None else load_gaussian(options.heldout)


def _from_log(path: Path, options: ContinuousOptions) -> ContinuousSetup:
    if options.gamma is None:
        raise InputError(
            "The discount is not known: a log does not say how much later rewards count. "
            "Give --gamma, for example --gamma 0.95."
        )
    if options.heldout is not None and options.n_test is not None:
        raise InputError("--heldout brings the held-out models along. Leave --test-models out.")
    log = read_continuous_log(path, options.actions, options.columns)
    _check_variation(log)
    notes: list[str] = []
    allowed = _often_enough(log, options, notes)
    seen = log.s.min(axis=0), log.s.max(axis=0)
    reward, r2 = _reward(log, options, notes)
    frame = GaussianFrame(
        log.variables,
        log.actions,
        _action_values(log, notes),
        reward.now,
        reward.next,
        start=_start(log, options, notes),
        gamma=options.gamma,
        horizon=_horizon(log, options, notes),
        box=_box(MARGIN if options.clip is None else options.clip, seen, log.variables),
        reward_action=reward.action,
        reward_constant=reward.constant,
    )
    notes.append(_box_note(frame, options))
    cautions = []
    if log.terminal is not None and log.terminal.any():
        cautions.append(
            f"In {int(log.terminal.sum())} rows an episode ended for good (terminal). The models "
            "know no ends: simulated episodes go on to the horizon, and what ending early costs "
            "or saves is in no figure below. Say it by the reward, if it matters."
        )
    posterior = RegressionPosterior(frame=frame).fit(log)
    train_seed, test_seed = np.random.SeedSequence(options.seed).spawn(2)
    n = DEFAULT_MODELS if options.n_models is None else whole("--models", options.n_models)
    train = posterior.sample(n, np.random.default_rng(train_seed))
    heldout = _heldout(options)
    if heldout is None:
        heldout = posterior.sample(options.test_models(), np.random.default_rng(test_seed))
    problem = ContinuousProblem(
        train, reward=reward, objective=options.objective(), allowed=allowed
    )
    cautions += posterior.diagnostics().problems
    return ContinuousSetup(
        problem, heldout, log, posterior, r2, tuple(notes), path.name, tuple(cautions)
    )


def _reward(
    log: ContinuousLog, options: ContinuousOptions, notes: list[str]
) -> tuple[LinearReward, float | None]:
    if options.reward_now is not None or options.reward_next is not None:
        return _given_reward(options, log.variables), None
    fitted = fit_linear_reward(log)
    notes.append(
        f"The reward is a linear fit of the reward column on (s, a, s′), R² = {fitted.r2:.6g}"
        + (
            "."
            if fitted.r2 >= GOOD_FIT
            else ": rewards of the log are not linear, and what is maximised is the fit "
            "(--reward-now and --reward-next say the reward itself)."
        )
    )
    return fitted.reward, fitted.r2


def _given_reward(options: ContinuousOptions, variables: Labels) -> LinearReward:
    now = _coefficients("--reward-now", options.reward_now, variables)
    return LinearReward(now, _coefficients("--reward-next", options.reward_next, variables))


def _coefficients(flag: str, given: Mapping[str, float] | None, variables: Labels) -> FloatArray:
    out = np.zeros(len(variables))
    for name, value in (given or {}).items():
        try:
            out[variables.index(name)] = value
        except InputError as error:
            raise InputError(f"{flag}: {error}") from None
    return out


def _action_values(log: ContinuousLog, notes: list[str]) -> FloatArray:
    try:
        values = np.array([float(name) for name in log.actions])
        if np.isfinite(values).all():
            return values
    except ValueError:
        pass
    if len(log.actions) == 2:
        first, second = log.actions
        notes.append(f"In the features of the models '{first}' counts as 0 and '{second}' as 1.")
        return np.array([0.0, 1.0])
    raise InputError(
        f"The actions {list(log.actions)} are no numbers, and the features of the models need one "
        "number per action. Write doses or levels in the column 'action'."
    )


def _start(log: ContinuousLog, options: ContinuousOptions, notes: list[str]) -> FloatArray:
    given = _given_start(options, log.variables)
    if given is not None:
        return given
    if log.starts is None:
        notes.append(
            "The log has no column 'episode': every state of it is equally likely to be first."
        )
        return np.array(log.s)
    return log.starts


def _given_start(options: ContinuousOptions, variables: Labels) -> FloatArray | None:
    """(1, n_variables), with a value for every variable."""
    if options.start is None:
        return None
    lacking = [name for name in variables if name not in options.start]
    if lacking:
        raise InputError(f"--start needs a value for every variable; '{lacking[0]}' has none.")
    return _coefficients("--start", options.start, variables)[None]


def _check_variation(log: ContinuousLog) -> None:
    """Refuse what no model can be fitted to, in the words of the log."""
    flat = np.flatnonzero(np.ptp(log.s, axis=0) == 0)
    if len(log) == 1 or flat.size:
        what = "The log has one transition" if len(log) == 1 else (
            f"'{log.variables[int(flat[0])]}' has the same value in every row"
        )  # fmt: skip
        raise InputError(
            f"{what}: there is nothing to learn from. "
            + ("Give a longer log." if len(log) == 1 else "Leave out the variable.")
        )


def _often_enough(
    log: ContinuousLog, options: ContinuousOptions, notes: list[str]
) -> NDArray[np.bool_]:
    """(n_actions,) which actions the policy may take, with a note on those it may not."""
    least = MIN_COUNT if options.min_count is None else whole("--min-count", options.min_count, 0)
    seen = np.bincount(log.a, minlength=len(log.actions))
    allowed = seen >= least
    if not allowed.any():
        raise InputError(f"No action was seen {least} times. Give a lower --min-count.")
    for a in np.flatnonzero(~allowed):
        notes.append(
            f"The action '{log.actions[int(a)]}' was seen in {int(seen[a])} of {len(log)} rows: "
            "what it does is guesswork, and the policy does not take it (--min-count; --actions "
            "says which actions there are)."
        )
    return np.asarray(allowed)


def _horizon(log: ContinuousLog, options: ContinuousOptions, notes: list[str]) -> int:
    if options.horizon is not None:
        return whole("--horizon", options.horizon)
    if log.episode is None:
        raise InputError(
            "The length of an episode is not known: the log has no column 'episode'. Give "
            "--horizon, for example --horizon 30."
        )
    longest = log.longest
    assert longest is not None  # it has episodes
    notes.append(f"Episodes last {longest} steps, as the longest of the log (--horizon).")
    return longest


def _box(
    clip: Mapping[str, tuple[float, float]] | float, seen: Box | None, variables: Labels
) -> Box | None:
    """The box that was asked for; variables without one keep the range of the data, widened."""
    margin = clip if isinstance(clip, (int, float)) else MARGIN
    if margin == np.inf:
        return None
    if not margin >= 0:
        raise InputError(f"--clip takes a share ≥ 0 of the range of the data; it is {margin:g}.")
    if seen is None:
        if not isinstance(clip, Mapping) or any(name not in clip for name in variables):
            raise InputError(
                "These models do not know the range of their data: give --clip for every variable, "
                "as x=0:10,y=-1:1."
            )
        seen = np.zeros(len(variables)), np.zeros(len(variables))
    wide = margin * (seen[1] - seen[0])
    low, high = seen[0] - wide, seen[1] + wide
    for name, (a, b) in clip.items() if isinstance(clip, Mapping) else ():
        try:
            j = variables.index(name)
        except InputError as error:
            raise InputError(f"--clip: {error}") from None
        low[j], high[j] = a, b
    return low, high


def _box_note(frame: GaussianFrame, options: ContinuousOptions) -> str:
    if frame.box is None:
        return "Values are not kept in any box (--clip none): models may explode."
    parts = (
        f"{name} in {low:.4g} … {high:.4g}"
        for name, low, high in zip(frame.variables, *frame.box, strict=True)
    )
    why = "" if options.clip is not None else f", the range of the data widened by {MARGIN:.0%}"
    return f"Models keep values in a box{why} (--clip): {', '.join(parts)}."
