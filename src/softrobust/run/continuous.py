"""What a policy for continuous states is worth: simulated, and against what else could be done.

The rivals are current practice, as a log shows it, and doing the same thing always. All meet the
same models, starts and luck.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from softrobust._core.files import atomic_write
from softrobust.certificate.comparison import Comparison
from softrobust.certificate.simulated import (
    SimulatedCertificate,
    SimulatedFigure,
    blurred,
    certificate_of,
    compare_simulated,
    paired_difference,
)
from softrobust.continuous_problem import ContinuousProblem
from softrobust.data.continuous import read_continuous_log
from softrobust.errors import InputError
from softrobust.models.continuous_policy import ConstantPolicy, load_policy, save_policy
from softrobust.models.continuous_rewards import LinearReward
from softrobust.models.gaussian import GaussianModels, load_gaussian, save_gaussian
from softrobust.objective import make_objective
from softrobust.report import Report
from softrobust.report.continuous import continuous_report
from softrobust.returns.simulation import Paths, Simulation, follow, simulate
from softrobust.run.continuous_setup import ContinuousSetup
from softrobust.run.summary import _goal
from softrobust.solvers.base import Status, solve
from softrobust.solvers.continuous.base import ContinuousSolution, ContinuousSolver
from softrobust.solvers.continuous.behaviour import ContinuousBehaviour, continuous_behaviour

if TYPE_CHECKING:
    from softrobust.continuous_problem import ContinuousProblem
    from softrobust.data.continuous import ContinuousLog
    from softrobust.models.continuous import ContinuousModels
    from softrobust.models.continuous_policy import ContinuousPolicy
    from softrobust.report import Report


PRACTICE = "current practice"
BLURRED = 0.1  # share of models whose difference is noise, from which on it is said
FAR = 3.0  # standard errors beyond which the log's own returns and practice's are at odds


@final
@dataclass(frozen=True, slots=True)
class Observed:
    """What the complete episodes of the log earned, by the problem's reward and discount."""

    mean: float
    se: float
    n: int


@final
@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """A policy's certificate and its rivals.

    Attributes
    ----------
    train, fresh : Simulation
        On the problem's models, and on held-out ones (None without those).
    rivals : dict name → Simulation
        Current practice and constant actions, on held-out models where there are any.
    constant : dict action → SimulatedFigure
        Objective of the policy minus that of always taking the action.
    practice : Comparison or None
        Against current practice, where there is a log.
    behaviour : ContinuousBehaviour or None
    observed : Observed or None
        What the log itself earned, where it has complete episodes.
    """

    certificate: SimulatedCertificate
    train: Simulation
    fresh: Simulation | None
    rivals: dict[str, Simulation]
    constant: dict[str, SimulatedFigure]
    practice: Comparison | None
    behaviour: ContinuousBehaviour | None
    observed: Observed | None
    episodes: int
    seed: int

    @property
    def own(self) -> Simulation:
        """On held-out models where there are any, else on the training models."""
        return self.train if self.fresh is None else self.fresh

    def practice_record(self) -> dict[str, Any] | None:
        """The part of `solution.json`."""
        if self.practice is None or self.behaviour is None:
            return None
        seen = self.observed
        return {
            **self.practice.to_dict(),
            "shares": dict(zip(self.behaviour.policy.actions, self.behaviour.shares, strict=True)),
            "degree": self.behaviour.degree,
            "gain": self.behaviour.gain,
            "observed": None if seen is None else {"mean": seen.mean, "se": seen.se, "n": seen.n},
        }

    def practice_sentences(self) -> list[str]:
        """What practice is, and whether the models agree with what the log earned."""
        if self.behaviour is None:
            return []
        lines = [self.behaviour.sentence()]
        blur = blurred(self.own, self.rivals[PRACTICE])
        if blur > BLURRED:
            lines.append(
                f"In {100 * blur:.2g} % of the models the difference to practice lies within the "
                "noise of the simulation: there the probability of beating it counts toss-ups. "
                "More episodes (--test-episodes) tell."
            )
        if self.observed is not None:
            old, seen = self.rivals[PRACTICE], self.observed
            mean = float(old.f @ old.means)
            spread = float(np.sqrt(old.f @ (old.means - mean) ** 2))
            off = abs(seen.mean - mean) / max(float(np.hypot(seen.se, spread)), 1e-300)
            lines.append(
                f"The {seen.n} complete episodes of the log earned {seen.mean:.4g} ± "
                f"{1.96 * seen.se:.2g} on average; practice, simulated, earns {mean:.4g}"
                + (
                    f": {off:.1f} standard errors apart. The models or the picture of practice do "
                    "not fit; do not trust the comparison before you know why."
                    if off > FAR
                    else "."
                )
            )
        return lines


def judge(
    problem: ContinuousProblem,
    policy: ContinuousPolicy,
    heldout: ContinuousModels | None,
    log: ContinuousLog | None,
    episodes: int,
    seed: int,
) -> Judged:
    """Simulate the policy and its rivals with `episodes` episodes per model."""
    train = simulate(problem, policy, None, episodes, seed)
    fresh = None if heldout is None else simulate(problem, policy, heldout, episodes, seed)
    own = train if fresh is None else fresh
    rivals, constant, comparison = {}, {}, None
    behaviour = None if log is None else continuous_behaviour(log)
    if behaviour is not None:
        rivals[PRACTICE] = simulate(problem, behaviour.policy, heldout, episodes, seed)
        comparison = compare_simulated(
            own, rivals[PRACTICE], problem.objective, PRACTICE, fresh is not None
        )
    for a in np.flatnonzero(problem.allowed):
        name = problem.actions[int(a)]
        always = ConstantPolicy(name, problem.variables, problem.actions)
        other = rivals[f"always {name}"] = simulate(problem, always, heldout, episodes, seed)
        constant[name] = paired_difference(own, other, problem.objective)
    return Judged(
        certificate_of(problem, train, fresh), train, fresh, rivals, constant, comparison,
        behaviour, None if log is None else observed_returns(problem, log), episodes, seed,
    )  # fmt: skip


def observed_returns(problem: ContinuousProblem, log: ContinuousLog) -> Observed | None:
    """Discounted returns of the log's episodes of full length; None with fewer than five.

    Rows of an episode are taken to be in order of time.
    """
    if log.episode is None:
        return None
    rewards = np.asarray(problem.reward(log.s, log.a.astype(np.int64), log.s_next))
    found = []
    order = np.argsort(log.episode, kind="stable")
    for part in np.split(order, np.flatnonzero(np.diff(log.episode[order])) + 1):
        rows = part[: problem.horizon]
        ended = log.terminal is not None and bool(log.terminal[rows[-1]])
        if rows.size == problem.horizon or ended:
            found.append(float(rewards[rows] @ problem.gamma ** np.arange(rows.size)))
    if len(found) < 5:
        return None
    x = np.array(found)
    return Observed(float(x.mean()), float(x.std(ddof=1) / np.sqrt(x.size)), x.size)


# --------------------------------------------------------------------------------------------------
# The line for continuous states, once: solved, certified by simulation, compared, written down.

FORMAT_VERSION = 1
DEFAULT_EPISODES = 30
_JUDGED_BY = "λ and α do not enter its training; they judge what came out."
TRAINED_FOR = {
    "sr-sac": f"sr-sac is trained for the average over models. {_JUDGED_BY}",
    "r-sac": f"r-sac is trained for the worst model in every state and action. {_JUDGED_BY}",
    "sac": f"sac is trained in the mean model alone. {_JUDGED_BY}",
}
# What a run of either kind writes: replaced as a whole by --force.
FILES = ("solution.json", "policy.npz", "models.npz", "heldout.npz", "log.csv", "posterior.json",
         "problem.npz", "policy.csv", "report.html", "log.parquet")  # fmt: skip


@final
@dataclass(frozen=True, slots=True)
class ContinuousRun:
    """A solved problem, and what its policy was found to be worth."""

    setup: ContinuousSetup
    solution: ContinuousSolution
    judged: Judged


def run_continuous(
    setup: ContinuousSetup,
    solver: ContinuousSolver,
    seed: int = 0,
    episodes: int = DEFAULT_EPISODES,
) -> ContinuousRun:
    """Solve, certify with `episodes` episodes per model, compare with practice and constants."""
    solution = solve(setup.problem, solver)
    judged = judge(
        setup.problem, solution.policy, setup.heldout, setup.log, episodes=episodes, seed=seed
    )
    return ContinuousRun(setup, solution, judged)


def continuous_record(run: ContinuousRun) -> dict[str, Any]:
    """What `solution.json` holds (`softrobust/schemas/continuous_solution.schema.json`)."""
    s, problem = run.solution, run.setup.problem
    clip = problem.models.clip
    return {
        "format_version": FORMAT_VERSION,
        "kind": "continuous",
        "solver": s.solver,
        "status": str(s.status),
        "gamma": s.gamma,
        "horizon": s.horizon,
        "criterion": s.objective.criterion,
        "alpha": s.objective.alpha,
        "tail": s.objective.tail,
        "lam": s.objective.lam,
        "n_models": problem.n_models,
        "variables": list(problem.variables),
        "actions": list(problem.actions),
        "allowed": [problem.actions[int(a)] for a in np.flatnonzero(problem.allowed)],
        "reward": _reward_record(run),
        "clip": None if clip is None else [side.tolist() for side in clip],
        "model_value": s.model_value,
        **run.judged.certificate.to_dict(),
        "practice": run.judged.practice_record(),
        "against_constant": {name: x.to_dict() for name, x in run.judged.constant.items()},
        "policy_file": "policy.npz",
        "policy_kind": s.policy.kind,
        "seed": run.judged.seed,
        "source": run.setup.source,
        "notes": list(run.setup.notes),
        "cautions": list(run.setup.cautions),
        "stats": dict(s.stats),
    }


def _reward_record(run: ContinuousRun) -> dict[str, Any]:
    problem = run.setup.problem
    reward = problem.reward
    if not isinstance(reward, LinearReward):
        return {"kind": "function"}
    names = list(problem.variables)
    out: dict[str, Any] = {
        "kind": "linear",
        "now": dict(zip(names, reward.now.tolist(), strict=True)),
        "next": dict(zip(names, reward.next.tolist(), strict=True)),
        "constant": reward.constant,
        "r2": run.setup.r2,
    }
    if reward.action is not None:
        out["action"] = dict(zip(problem.actions, reward.action.tolist(), strict=True))
    return out


def write_continuous_run(run: ContinuousRun, out: Path, page: Report | None = None) -> None:
    """Write the run folder, with its page: a new one appears complete or not at all."""
    target = out.resolve()
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        save_policy(work / "policy.npz", run.solution.policy)
        if isinstance(run.setup.problem.models, GaussianModels):
            save_gaussian(work / "models.npz", run.setup.problem.models)
        if run.setup.heldout is not None:
            save_gaussian(work / "heldout.npz", run.setup.heldout)
        if run.setup.log is not None:
            run.setup.log.save_csv(work / "log.csv")
        if run.setup.posterior is not None:
            _write_json(work / "posterior.json", run.setup.posterior.describe())
        _write_json(work / "solution.json", continuous_record(run))
        if page is not None:
            page.save(work / "report.html")
        os.chmod(work, 0o755)  # mkdtemp makes private folders
        if not target.exists():
            os.rename(work, target)
            return
        for name in FILES:
            if not (work / name).exists():
                (target / name).unlink(missing_ok=True)
        for file in sorted(work.iterdir()):
            os.replace(file, target / file.name)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _write_json(path: Path, record: dict[str, Any]) -> None:
    with atomic_write(path) as file:
        file.write(json.dumps(record, indent=1, allow_nan=False) + "\n")


def run_policy(path: Path) -> Any:
    """The policy of a run folder for continuous states, or of the .npz file itself; else None."""
    folder = path.parent if path.name == "solution.json" else path
    file = folder / "policy.npz" if folder.is_dir() else folder
    if file.suffix != ".npz" or not file.exists():
        return None
    return load_policy(file)


def continuous_summary(run: ContinuousRun) -> Iterator[tuple[str, str]]:
    """(kind, text) pairs, as `summary_lines` has them: "lead", "head", "text", "row" or "note"."""
    problem, log = run.setup.problem, run.setup.log
    names = ", ".join(problem.variables)
    if run.judged.practice is not None:  # the first thing that anybody asks
        yield "lead", run.judged.practice.sentence()
    for caution in run.setup.cautions:
        yield "caution", caution
    yield "head", "The question"
    if log is None:
        yield "text", f"{problem.n_models} models of {names}, {problem.n_actions} actions."
    else:
        yield (
            "text",
            f"{len(log)} transitions of {names}, {problem.n_actions} actions; {problem.n_models} "
            "models drawn from the posterior.",
        )
    yield (
        "text",
        f"Discount γ = {problem.gamma:g}, episodes of {problem.horizon} steps. "
        f"{_goal(problem.objective)}",
    )
    if "entropy_coef" in run.solution.stats:
        yield "note", TRAINED_FOR[run.solution.solver]
    for note in run.setup.notes:
        yield "note", note
    yield "head", f"The answer, by {run.solution.solver} ({run.solution.status.replace('_', ' ')})"
    yield from _answer(run)
    yield "head", "What can be promised"
    for sentence in run.judged.certificate.sentences():
        yield "text", sentence
    for sentence in run.judged.practice_sentences():
        yield "text", sentence
    for name, gain in run.judged.constant.items():
        yield "text", f"Gain of the objective over always '{name}': {gain}."


def _answer(run: ContinuousRun) -> Iterator[tuple[str, str]]:
    stats, problem = run.solution.stats, run.setup.problem
    s = problem.sample_start(1, np.random.default_rng(0))[0]
    probs = run.solution.policy.probs(s[None])[0]
    where = ", ".join(f"{v} = {x:.4g}" for v, x in zip(problem.variables, s, strict=True))
    mix = " or ".join(
        problem.actions[int(a)] + ("" if probs[a] == 1 else f" ({probs[a]:.0%})")
        for a in np.flatnonzero(probs > 5e-3)
    )
    yield "row", f"at a start ({where}) → {mix}"
    if "last_entropy" in stats:
        yield (
            "text",
            f"After {stats['iterations']} iterations its episodes in the mean model earn "
            f"{stats['last_return']:.4g} on average, and its choices have an entropy of "
            f"{stats['last_entropy']:.2g} (at most {np.log(problem.n_actions):.2g}).",
        )
    if "last_change_share" in stats:
        share, here = (100 * stats[f"{name}_change_share"] for name in ("last", "batch"))
        yield (
            "text",
            f"In iteration {stats['iterations']} the value function changes by {share:.2g} % of "
            f"its size ({here:.2g} % where the policy goes); its features explain "
            f"{100 * stats['fit_r2']:.4g} % of an update.",
        )
    if "policy_disagreement" in stats:
        yield (
            "text",
            f"The saved policy is a {stats['policy']}; it decides otherwise than the lookahead in "
            f"{100 * stats['policy_disagreement']:.2g} % of states.",
        )
    if "sampling_bias" in stats:
        yield (
            "text",
            f"With {stats['samples']} drawn next states an update is off by "
            f"{stats['sampling_bias']:.2g} on average ({stats['sampling_bias_against']}).",
        )


def parse_observation(text: str, variables: Any) -> list[float]:
    """`C=0,P=7.1` in any order, or plain numbers in the order of the variables."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    named = [part.partition("=") for part in parts]
    try:
        if all(sign for _, sign, _ in named):
            values = {name.strip(): float(value) for name, _, value in named}
            for name in values:
                variables.index(name)
            lacking = [name for name in variables if name not in values]
            if lacking:
                raise InputError(f"The observation lacks '{lacking[0]}'.")
            return [values[name] for name in variables]
        if len(parts) != len(variables):
            raise InputError(
                f"An observation has {len(variables)} numbers ({', '.join(variables)}); "
                f"{len(parts)} came."
            )
        return [float(part) for part in parts]
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"An observation is written as x=1.5,y=2 or 1.5,2; it was '{text}'."
        ) from None


# --------------------------------------------------------------------------------------------------
# The page of a run with continuous states, when it is solved and again from its folder.
#
# Everything in it follows from the files: a run that is read back is simulated again with its own
# seed, and its figures must be those on record.

EPISODES = 10  # per model, for the course of episodes
PARTS = ("allowed", "reward", "notes", "cautions", "source", "seed", "train", "stats",
         "model_value")  # fmt: skip
SAME = 1e-6  # of a figure: what another machine's rounding may change


def is_continuous(folder: Path) -> bool:
    """Whether a run folder is one with continuous states."""
    return (folder / "policy.npz").exists() and (folder / "solution.json").exists()


def report_continuous(run: ContinuousRun, name: str) -> Report:
    """The page of a run; `name` is that of its folder."""
    setup, judged = run.setup, run.judged
    settings: dict[str, object] = {"run": name, "seed": judged.seed, "source": setup.source}
    if setup.log is not None:
        settings["data (SHA-256)"] = setup.log.data_hash
    return continuous_report(
        setup.problem,
        run.solution,
        judged.certificate,
        judged.train,
        judged.fresh,
        judged.rivals,
        _paths(run),
        judged.practice,
        more=judged.practice_sentences(),
        notes=setup.notes,
        cautions=setup.cautions,
        settings=settings,
        n_rows=None if setup.log is None else len(setup.log),
    )


def _paths(run: ContinuousRun) -> dict[str, Paths]:
    """The course of episodes under the policy, and under practice or, without a log, constants."""
    problem, models = run.setup.problem, run.setup.heldout
    policies: dict[str, Any] = {run.solution.solver: run.solution.policy}
    if run.judged.behaviour is not None:
        policies[PRACTICE] = run.judged.behaviour.policy
    else:
        for a in np.flatnonzero(problem.allowed)[:2]:
            name = problem.actions[int(a)]
            policies[f"always {name}"] = ConstantPolicy(name, problem.variables, problem.actions)
    return {
        name: follow(problem, policy, models, EPISODES, run.judged.seed)
        for name, policy in policies.items()
    }


def load_continuous_run(folder: Path) -> ContinuousRun:
    """A run read back from its folder, simulated again and found to be the one on record."""
    record = _record(folder)
    problem = _problem(folder, record)
    policy = load_policy(folder / "policy.npz")
    held, log = folder / "heldout.npz", folder / "log.csv"
    setup = ContinuousSetup(
        problem,
        load_gaussian(held) if held.exists() else None,
        read_continuous_log(log, problem.actions) if log.exists() else None,
        None,
        record["reward"].get("r2"),
        tuple(record["notes"]),
        record["source"],
        tuple(record["cautions"]),
    )
    solution = ContinuousSolution(
        record["solver"], policy, problem.objective, problem.gamma, problem.horizon,
        problem.n_models, Status(record["status"]), None, record["model_value"], record["stats"],
    )  # fmt: skip
    episodes = int(record["train"]["episodes"])
    judged = judge(problem, policy, setup.heldout, setup.log, episodes, int(record["seed"]))
    now, then = judged.certificate.train.objective.value, record["train"]["objective"]["value"]
    if abs(now - then) > SAME * max(abs(now), abs(then)):
        raise InputError(
            f"The files of '{folder}' do not belong together: solution.json says that the policy "
            f"earns {then:.6g} on its training models, and policy.npz earns {now:.6g}. Solve again."
        )
    return ContinuousRun(setup, solution, judged)


def _record(folder: Path) -> dict[str, Any]:
    path = folder / "solution.json"
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if record["kind"] != "continuous":
            raise KeyError("kind")
        for part in PARTS:
            record[part]
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} cannot be read as that of a run with continuous states ({error}). Solve again."
        ) from None
    return record


def _problem(folder: Path, record: dict[str, Any]) -> ContinuousProblem:
    models, reward = folder / "models.npz", record["reward"]
    if not models.exists() or reward["kind"] != "linear":
        raise InputError(
            f"'{folder}' lacks models.npz or a linear reward: its page cannot be made again."
        )
    found = load_gaussian(models)

    def numbers(part: str, names: Any) -> list[float]:
        return [float(reward[part][name]) for name in names]

    return ContinuousProblem(
        found,
        None,
        LinearReward(
            numbers("now", found.variables),
            numbers("next", found.variables),
            numbers("action", found.actions) if "action" in reward else None,
            constant=reward["constant"],
        ),
        record["gamma"],
        record["horizon"],
        make_objective(record["criterion"], record["lam"], record["alpha"]),
        [name in record["allowed"] for name in found.actions],
    )
