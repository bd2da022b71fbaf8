"""`solution.json`: a solution with its certificate, readable without log, models or this package.

The JSON Schema is `softrobust/schemas/solution.schema.json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softrobust.bounds import Bound, Covers
from softrobust.data.files import atomic_write
from softrobust.data.labels import Labels
from softrobust.errors import InputError
from softrobust.models.policy import Policy
from softrobust.objective import make_objective
from softrobust.solvers.base import Solution, Status

if TYPE_CHECKING:
    from softrobust.certificate.certify import Certificate

FORMAT_VERSION = 2  # 2: with the parts practice, posterior and indicative of the certificate


def solution_record(solution: Solution, certificate: Certificate) -> dict[str, Any]:
    """What `solution.json` holds; bound and gaps are the certificate's."""
    policy = solution.policy
    return {
        "format_version": FORMAT_VERSION,
        "solver": solution.solver,
        "status": str(solution.status),
        "gamma": solution.gamma,
        "criterion": solution.objective.criterion,
        "alpha": solution.objective.alpha,
        "tail": solution.objective.tail,
        "lam": solution.objective.lam,
        "n_states": len(policy.states),
        "n_actions": len(policy.actions),
        "n_models": solution.n_models,
        "states": list(policy.states),
        "actions": list(policy.actions),
        "model_value": solution.model_value,
        **certificate.to_dict(),
        "policy": policy.probs.tolist(),
        "decided": np.asarray(policy.decided).tolist(),
        "v": None if solution.v is None else solution.v.tolist(),
        "stats": dict(solution.stats),
    }


def save_solution(path: str | Path, solution: Solution, certificate: Certificate) -> None:
    """Write `solution.json`, atomically."""
    text = json.dumps(solution_record(solution, certificate), indent=1, allow_nan=False)
    with atomic_write(path) as file:
        file.write(text + "\n")


def load_solution(path: str | Path) -> Solution:
    """Read a solution back from `solution.json`, or from the run folder that holds it."""
    file = Path(path)
    file = file / "solution.json" if file.is_dir() else file
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"There is no solution at {file}. Is it the folder given as --out?"
        ) from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{file} is not a readable solution.json ({error}).") from None
    if not isinstance(record, dict) or "format_version" not in record:
        raise InputError(f"{file} is not a solution.json: it has no format_version.")
    if record.get("kind") == "continuous":
        raise InputError(
            f"{file} is of a run with continuous states. Read its policy with "
            "load_policy('policy.npz'), or ask `softrobust apply RUN --observation …`."
        )
    if not isinstance(record["format_version"], int):
        raise InputError(f"{file}: format_version must be a whole number.")
    if record["format_version"] > FORMAT_VERSION:
        raise InputError(
            f"{file} was written by a newer softrobust (format {record['format_version']}). "
            "Upgrade: pip install -U softrobust"
        )
    try:
        return _solution(record)
    except (KeyError, TypeError, ValueError) as error:  # an InputError is a ValueError
        raise InputError(f"{file} lacks or garbles a field of solution.json: {error}.") from None


def _solution(record: dict[str, Any]) -> Solution:
    policy = Policy(
        np.array(record["policy"], dtype=np.float64),
        Labels(tuple(record["states"]), noun="state"),
        Labels(tuple(record["actions"]), noun="action"),
        np.array(record["decided"], dtype=bool),
    )
    return Solution(
        solver=record["solver"],
        policy=policy,
        static_value=record["static"]["objective"],
        uniform_value=record["uniform_value"],
        gamma=record["gamma"],
        objective=make_objective(record["criterion"], record["lam"], record["alpha"]),
        n_models=record["n_models"],
        status=Status(record["status"]),
        v=None if record["v"] is None else np.array(record["v"], dtype=np.float64),
        model_value=record["model_value"],
        bound=Bound(record["bound"], Covers(record["bound_covers"]), record["bound_method"]),
        stats=record["stats"],
    )
