"""Figure 5's actor-critics on many logs: `python -m softrobust.paper.cancer_sac --out DIR`.

A rival is tuned: an agent is trained for every log, temperature and learning rate, and what is best
on the training models is chosen afterwards (`cancer`). All agents of one method run side by side in
one compiled program, in which models, temperature and rates are data. At full size this takes
minutes on an accelerator and hours on a few cores, so the trained actors go into one file per
method, `agents-sr-sac.npz` and `agents-r-sac.npz`, in half precision: `softrobust reproduce cancer`
reads them on any machine, without JAX. With `--varying` the models have noise that varies; a
sampler draws those, and no two machines' chains agree, so they are kept as well. Agents and models
that the folder has already stay; only those of further logs are made.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np
from numpy.typing import NDArray

from softrobust._core.files import read_npz, write_npz
from softrobust.domains import CancerGrowth
from softrobust.errors import InputError
from softrobust.models.continuous_policy import NetworkPolicy
from softrobust.models.gaussian import GaussianModels, load_gaussian, save_gaussian
from softrobust.paper.base import catalogue

if TYPE_CHECKING:
    from softrobust.problem import ContinuousProblem

FORMAT, VERSION = "softrobust-cancer-agents", 2  # 2: many logs and settings
METHODS = ("sr-sac", "r-sac")
DEGREE = 2  # of the polynomial features that the networks read
CURVE = 60  # points of a learning curve that are kept
SAME = 1e-6  # of the largest weight: models drawn on another machine differ in last digits only


@final
@dataclass(frozen=True, slots=True, eq=False)
class Agents:
    """Trained actors of one method, by setting (temperature, rate) and log.

    `layers` are weights and biases in turn, (n_settings, n_logs, …) in half precision; `scaling`
    (n_logs, 2, n_variables) what states are standardised by; `curves` (n_settings, n_logs, CURVE)
    returns of training episodes; `models` (n_logs, n_features, n_variables) the mean weights of the
    models that they were trained on; `about` plain values.
    """

    layers: tuple[NDArray[np.float16], ...]
    scaling: NDArray[np.float64]
    curves: NDArray[np.float32]
    models: NDArray[np.float64]
    about: dict[str, Any]

    @property
    def n_logs(self) -> int:
        """How many logs have agents."""
        return int(self.models.shape[0])

    def policy(self, problem: ContinuousProblem, setting: int, log: int) -> NetworkPolicy | None:
        """The actor of one agent; None if its training left the numbers."""
        own = [x[setting, log].astype(np.float64) for x in self.layers]
        if not all(np.isfinite(x).all() for x in own):
            return None
        centre, scale = self.scaling[log]
        return NetworkPolicy(
            tuple(own[::2]), tuple(own[1::2]), problem.variables, problem.actions, centre, scale,
            DEGREE,
        )  # fmt: skip

    def beside(self, later: Agents) -> Agents:
        """These, and those of later logs, which were trained alike."""
        layers = zip(self.layers, later.layers, strict=True)
        return Agents(
            tuple(np.concatenate(pair, axis=1) for pair in layers),
            np.concatenate([self.scaling, later.scaling]),
            np.concatenate([self.curves, later.curves], axis=1),
            np.concatenate([self.models, later.models]),
            self.about | {"iterations": min(x.about["iterations"] for x in (self, later))},
        )

    def check(self, log: int, problem: ContinuousProblem) -> None:
        """Refuse models that the agents were not trained on."""
        own = cast(GaussianModels, problem.models).weights.mean(axis=0)
        if np.abs(own - self.models[log]).max() > SAME * float(np.abs(own).max()):
            raise InputError(
                f"The agents of log {log} were trained on other models than those of this run. "
                "Train again: python -m softrobust.paper.cancer_sac --out DIR"
            )


def problem_of(
    seed: int, n_train: int, n_test: int, domain: Mapping[str, Any] | None = None,
    models: str | Path | None = None,
) -> tuple[ContinuousProblem, Any]:  # fmt: skip
    """Training problem and held-out models of the log of one seed; `models` are drawn already."""
    made = CancerGrowth(**(domain or {}))
    if models is None:
        both: tuple[ContinuousProblem, Any] = made.split_problem(seed, n_train, n_test)
        return both
    train, test = load_gaussian(models).split(n_train)
    return made.problem_on(train, made.paper_goal), test


def models_file(home: Path, seed: int) -> Path:
    """Where the draws of a log's posterior are kept, where a sampler made them."""
    return home / f"models-{seed:03d}.npz"


def settings_of(sac: Mapping[str, Any]) -> list[tuple[float, float]]:
    """(temperature, rate) of every agent of a log; the first one is the table's."""
    return list(product(sac["temperatures"], sac["rates"]))


def train_agents(
    method: str, problems: Sequence[ContinuousProblem], sac: Mapping[str, Any], say: bool = False,
    seconds: float = np.inf, known: Agents | None = None,
) -> Agents:  # fmt: skip
    """Train an agent for every setting and problem, side by side.

    A block of iterations that would pass `seconds` is not begun; what was reached is in `about`.
    Those of the first problems that are `known` already are kept, and the rest come after them.
    """
    import jax

    from softrobust.solvers.continuous.sac import RobustSAC, SoftRobustSAC
    from softrobust.solvers.continuous.sac.learning import compiled_block, compiled_start
    from softrobust.solvers.continuous.sac.traced import on_device
    from softrobust.solvers.continuous.sac.training import device_name

    sizes = {k: v for k, v in sac.items() if k not in ("temperatures", "rates")}
    sizes["hidden"] = tuple(sizes["hidden"])
    solver = {"sr-sac": SoftRobustSAC, "r-sac": RobustSAC}[method](**sizes)
    grid, began = settings_of(sac), time.monotonic()
    first = 0 if known is None else known.n_logs
    problems = problems[first:]
    shape = (len(grid), len(problems))
    made = [solver.plan(problem, len(grid) * len(problems)) for problem in problems]
    plan, world, _ = made[0]
    data = [
        on_device({**own, "entropy_coef": np.array(c), "rates": np.full(3, rate)})
        for (c, rate), (_, _, own) in product(grid, made)
    ]
    stacked = jax.tree_util.tree_map(lambda *x: jax.numpy.stack(x), *data)
    seeds = np.arange(first * len(grid), (first + len(problems)) * len(grid), dtype=np.uint32)
    state = compiled_start(plan)(seeds)
    at, returns, last = 0, [], 0.0
    while at < solver.iterations and time.monotonic() - began + last < seconds:
        begin = time.monotonic()
        length = min(solver.block, solver.iterations - at)
        state, trace = compiled_block(plan, world, length, True)(state, stacked)
        returns.append(np.asarray(trace.returns))
        last = time.monotonic() - begin if at > 0 else 0.0  # the first block is compiled, too
        at += length
        if say:
            by = np.nanmean(returns[-1].reshape(*shape, -1), axis=(1, 2))
            print(f"{method}: {at}, {time.monotonic() - began:.0f} s, returns {by.round(2)}",
                  flush=True)  # fmt: skip
    actor = {k: np.asarray(x) for k, x in state.learner.networks["actor"].items()}
    layers = [actor[f"{kind}{i}"] for i in range(len(actor) // 2) for kind in "Wb"]
    with np.errstate(over="ignore"):  # what grew beyond half precision is of no use
        halves = tuple(x.reshape(*shape, *x.shape[1:]).astype(np.float16) for x in layers)
    curve = np.concatenate(returns, axis=1)
    stretch = max(1, curve.shape[1] // CURVE)
    n = curve.shape[1] // stretch
    curve = curve[:, : n * stretch].reshape(*shape, n, stretch).mean(axis=3)
    scaling = np.array([[own["input_centre"], own["input_scale"]] for _, _, own in made])
    models = np.array([cast(GaussianModels, p.models).weights.mean(axis=0) for p in problems])
    about = {"method": method, "device": device_name(), "jax": jax.__version__}
    about |= {"iterations": at, "sac": dict(sac)}
    new = Agents(halves, scaling, curve.astype(np.float32), models, about)
    return new if known is None else known.beside(new)


def save_agents(path: str | Path, agents: Agents) -> None:
    """Write them, atomically."""
    arrays: dict[str, Any] = {f"layer_{i}": x for i, x in enumerate(agents.layers)}
    arrays |= {k: getattr(agents, k) for k in ("scaling", "curves", "models")}
    write_npz(path, FORMAT, VERSION, arrays | {"about": np.array(json.dumps(agents.about))})


def load_agents(path: str | Path) -> Agents:
    """Read what `save_agents` wrote."""
    arrays = read_npz(path, FORMAT, VERSION)
    try:
        layers = tuple(arrays[f"layer_{i}"] for i in range(sum(k[:6] == "layer_" for k in arrays)))
        scaling, curves, models = (arrays[k] for k in ("scaling", "curves", "models"))
        return Agents(layers, scaling, curves, models, json.loads(str(arrays["about"])))
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise InputError(f"{Path(path).name} lacks a part of the agents ({error}).") from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Train with the settings of the full run, and write one file per method."""
    parser = argparse.ArgumentParser(
        prog="python -m softrobust.paper.cancer_sac",
        description="Train the actor-critics of figure 5.",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the trained agents")
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--logs", type=int, default=None, help="the first so many (default all)")
    parser.add_argument("--iterations", type=int, default=None, help="default: as the full run")
    parser.add_argument("--seconds", type=float, default=np.inf, help="at most, for each method")
    parser.add_argument("--varying", action="store_true", help="noise that varies, drawn first")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    full = catalogue()["cancer"]["settings"]
    sac, sizes = dict(full["sac"]), (full["n_train"], full["n_test"])
    if options.iterations is not None:
        sac["iterations"] = options.iterations
    seeds = full["seeds"][: options.logs]
    problems = []
    for seed in seeds:
        file = models_file(options.out, seed) if options.varying else None
        if file is not None and not file.exists():
            whole = CancerGrowth(varying=True).split_problem(seed, sum(sizes), 0)[0]
            save_gaussian(file, cast(GaussianModels, whole.models))
        problems.append(problem_of(seed, *sizes, {"varying": options.varying}, file)[0])
    for name in options.methods:
        file = options.out / f"agents-{name}.npz"
        known = load_agents(file) if file.exists() else None
        if known is not None:
            if known.about.get("sac") != sac:
                raise InputError(
                    f"The agents of {file.name} were trained with other settings: "
                    f"{known.about.get('sac')}, not {sac}. Train into an empty folder."
                )
            for log, problem in enumerate(problems[: known.n_logs]):
                known.check(log, problem)
            if known.n_logs >= len(problems):
                continue
        save_agents(file, train_agents(name, problems, sac, True, options.seconds, known))
    return 0


if __name__ == "__main__":
    sys.exit(main())
