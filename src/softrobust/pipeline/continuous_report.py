"""The page of a run with continuous states, when it is solved and again from its folder.

Everything in it follows from the files: a run that is read back is simulated again with its own
seed, and its figures must be those on record.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from softrobust.continuous_problem import ContinuousProblem
from softrobust.data.continuous_file import read_continuous_log
from softrobust.errors import InputError
from softrobust.models.continuous_policy import ConstantPolicy, load_policy
from softrobust.models.continuous_rewards import LinearReward
from softrobust.models.gaussian import load_gaussian
from softrobust.objective import make_objective
from softrobust.pipeline.continuous import ContinuousSetup
from softrobust.pipeline.continuous_judge import PRACTICE, judge
from softrobust.pipeline.continuous_run import ContinuousRun
from softrobust.reporting import Report
from softrobust.reporting.continuous_page import continuous_report
from softrobust.returns.paths import Paths, follow
from softrobust.solvers.base import Status
from softrobust.solvers.continuous_base import ContinuousSolution

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
