"""The line for continuous states, once: solved, certified by simulation, compared, written down."""

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

from softrobust.data.files import atomic_write
from softrobust.errors import InputError
from softrobust.models.continuous_policy import load_policy, save_policy
from softrobust.models.continuous_rewards import LinearReward
from softrobust.models.gaussian import GaussianModels, save_gaussian
from softrobust.pipeline.continuous import ContinuousSetup
from softrobust.pipeline.continuous_judge import Judged, judge
from softrobust.pipeline.summary import _goal
from softrobust.solvers.base import solve
from softrobust.solvers.continuous_base import ContinuousSolution, ContinuousSolver

if TYPE_CHECKING:
    from softrobust.reporting import Report

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
