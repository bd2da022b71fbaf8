"""Training of figure 5's actor-critics: `python -m softrobust.paper.cancer_sac --out DIR`.

At the table's sizes (2000 iterations of 6 updates on 150 × 50 × 100 next states, 5 agents of either
method) this takes an accelerator. A run can be stopped by a time limit and taken up again from its
checkpoints; the trained actors, their learning curves, the device and the models they were trained
on go into one file per method, `agents-sr-sac.npz` and `agents-r-sac.npz`, from which `softrobust
reproduce cancer` reads them on any machine, without JAX.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.files import read_npz, write_npz
from softrobust.domains import CancerGrowth
from softrobust.errors import InputError
from softrobust.models.continuous_policy import NetworkPolicy
from softrobust.models.gaussian import GaussianModels

if TYPE_CHECKING:
    from softrobust.problem import ContinuousProblem
    from softrobust.solvers.continuous.sac.training import LearningCurves

FORMAT, VERSION = "softrobust-cancer-agents", 1
METHODS = ("sr-sac", "r-sac")
CURVES = ("returns", "entropy", "losses")
_KEPT = (
    "iterations", "episodes", "updates", "batch", "next_states", "hidden", "degree", "actor_rate",
    "q_rate", "v_rate", "target_rate", "entropy_coef", "memory",
)  # fmt: skip
DATA_SEED, N_TRAIN, N_TEST, N_AGENTS = 0, 50, 100, 5
SAME = 1e-6  # of the largest weight: models drawn on another machine differ in last digits only


@final
@dataclass(frozen=True, slots=True, eq=False)
class Agents:
    """Trained actors of one method, one policy an agent, with how they came about.

    `curves` has "returns" and "entropy", (n_agents, n_iterations), and "losses", (…, 3); `about`
    plain values; `weights`, (n_models, n_features, n_variables), are of the models trained on.
    """

    policies: tuple[NetworkPolicy, ...]
    curves: dict[str, NDArray[np.float32]]
    about: dict[str, Any]
    weights: NDArray[np.float64]


def training_problem(n_train: int = N_TRAIN, n_test: int = N_TEST) -> ContinuousProblem:
    """The training models of the figure; they do not depend on λ."""
    problem: ContinuousProblem = CancerGrowth().split_problem(DATA_SEED, n_train, n_test)[0]
    return problem


def train_agents(
    name: str, problem: ContinuousProblem, seeds: Sequence[int], say: bool = False, **settings: Any
) -> Agents:
    """Train one agent per seed, side by side, with the table's settings unless others are given."""
    import jax

    from softrobust.solvers.continuous.sac import RobustSAC, SoftRobustSAC

    solver = {"sr-sac": SoftRobustSAC, "r-sac": RobustSAC}[name](**settings)
    notify = _speaker(name, solver.iterations) if say else None
    solutions, curves = solver.train(problem, seeds, notify)
    first = solutions[0].stats
    about = {
        "method": name,
        "seeds": list(seeds),
        "jax": jax.__version__,
        **{key: first[key] for key in ("device", "seconds", "iterations")},
        "status": str(solutions[0].status),
        "settings": {k: getattr(solver, k) for k in _KEPT},
    }
    policies = tuple(cast(NetworkPolicy, solution.policy) for solution in solutions)
    models = cast(GaussianModels, problem.models)
    return Agents(policies, {k: getattr(curves, k) for k in CURVES}, about, models.weights)


def save_agents(path: str | Path, agents: Agents) -> None:
    """Write the actors in single precision, as they were trained, atomically."""
    first = agents.policies[0]
    arrays: dict[str, Any] = {"centre": first.centre, "scale": first.scale}
    for i in range(len(first.weights)):
        for key in ("weights", "biases"):
            stacked = np.stack([getattr(p, key)[i] for p in agents.policies])
            arrays[f"{key}_{i}"] = stacked.astype(np.float32)
    arrays |= {f"curve_{k}": v.astype(np.float32) for k, v in agents.curves.items()}
    head = agents.about | {"layers": len(first.weights), "degree": first.degree}
    arrays |= {"models": agents.weights, "about": np.array(json.dumps(head))}
    write_npz(path, FORMAT, VERSION, arrays)


def load_agents(path: str | Path, problem: ContinuousProblem) -> Agents:
    """Read what `save_agents` wrote, for the models it was trained on."""
    arrays = read_npz(path, FORMAT, VERSION)
    try:
        about = json.loads(str(arrays["about"]))
        layers = range(int(about["layers"]))
        weights = [arrays[f"weights_{i}"] for i in layers]
        biases = [arrays[f"biases_{i}"] for i in layers]
        policies = tuple(
            NetworkPolicy(
                tuple(w[k] for w in weights), tuple(b[k] for b in biases), problem.variables,
                problem.actions, arrays["centre"], arrays["scale"], int(about["degree"]),
            )
            for k in range(len(weights[0]))
        )  # fmt: skip
        curves = {k: arrays[f"curve_{k}"] for k in CURVES}
        agents = Agents(policies, curves, about, arrays["models"])
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise InputError(f"{Path(path).name} lacks a part of the agents ({error}).") from None
    own = cast(GaussianModels, problem.models).weights
    slack = SAME * float(np.abs(own).max())
    if own.shape != agents.weights.shape or np.abs(own - agents.weights).max() > slack:
        raise InputError(
            f"{Path(path).name} was trained on other models than those of this run. Train again: "
            "python -m softrobust.paper.cancer_sac --out DIR"
        )
    return agents


def _speaker(name: str, iterations: int) -> Any:
    """A line per block on standard output: iteration, return, rate."""
    begin: list[tuple[float, int]] = []

    def notify(at: int, part: LearningCurves, seconds: float) -> None:
        begin.append((seconds, at))
        since, done = seconds - begin[0][0], at - begin[0][1]
        rate = f"{done / since:.2f} iterations/s" if since > 0 else "compiled"
        value, spread = part.returns[:, -1].mean(), part.entropy[:, -1].mean()
        print(
            f"{name}: {at}/{iterations}, {seconds:.1f} s, {rate}, return {value:.3f}, "
            f"entropy {spread:.3f}, loss of Q {part.losses[:, -1, 1].mean():.3g}",
            flush=True,
        )

    return notify


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, print the rate, write one file per method."""
    parser = argparse.ArgumentParser(
        prog="python -m softrobust.paper.cancer_sac",
        description="Train the actor-critics of figure 5.",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the trained agents")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--agents", type=int, default=N_AGENTS)
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--block", type=int, default=50, help="iterations between checkpoints")
    parser.add_argument("--model-chunk", type=int, default=None, help="models evaluated at a time")
    parser.add_argument("--time-limit", type=float, default=None, help="seconds for all methods")
    parser.add_argument("--checkpoints", type=Path, default=None, help="folder (default OUT)")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoints")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    place = options.checkpoints or options.out
    place.mkdir(parents=True, exist_ok=True)
    problem, begin = training_problem(), time.monotonic()
    for name in options.methods:
        checkpoint = place / f"checkpoint-{name}.npz"
        if checkpoint.exists() and not options.resume:
            print(f"{checkpoint} exists: give --resume to go on from it, or remove it.")
            return 2
        left = None
        if options.time_limit is not None:
            left = options.time_limit - (time.monotonic() - begin)
            if left <= 0:
                print(f"{name}: not begun, the time limit has passed")
                continue
        agents = train_agents(
            name, problem, range(options.agents), say=True, iterations=options.iterations,
            block=options.block, model_chunk=options.model_chunk, checkpoint=str(checkpoint),
            time_limit=left,
        )  # fmt: skip
        save_agents(options.out / f"agents-{name}.npz", agents)
        told = {k: v for k, v in agents.about.items() if k != "settings"}
        print(json.dumps(told), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
