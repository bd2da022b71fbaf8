"""Figure 5, the cancer simulator: SRVI for three λ against SR-SAC, R-SAC and the worst model.

One log of 20 episodes; 50 posterior draws to train on and 100 others to test on, the same for all
methods and agents (the paper's tables; its text has the numbers the other way round). Five agents
of each method differ in their seeds. What a policy earns is simulated: 100 episodes of 30 steps
under every model, with common random numbers for all policies. The robust return is the CVaR at
α = 0.9 over models: the average of the worst 10 % of the models' average returns.

At the table's sizes the actor-critics need an accelerator. The full run reads agents trained on one
(`agents-sr-sac.npz` and `agents-r-sac.npz`, see `cancer_sac`), or trains them if it finds one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from softrobust.domains import CancerGrowth
from softrobust.errors import InputError
from softrobust.models.continuous import CallableModels
from softrobust.models.continuous_policy import ConstantPolicy, ContinuousPolicy
from softrobust.objective import SoftRobust
from softrobust.paper.base import Experiment, Findings, Results
from softrobust.paper.cancer_findings import findings
from softrobust.paper.cancer_sac import DATA_SEED, METHODS, Agents, load_agents, train_agents
from softrobust.paper.figures import COLOURS, INK, Label, new_figure, place, plain, short
from softrobust.problem import ContinuousProblem
from softrobust.returns.simulation import simulate
from softrobust.run.jobs import Task, task_key, task_seed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MODULE = "softrobust.paper.cancer"
HOME = Path("docs") / "results" / "cancer"
TRUE_EPISODES = 50  # in the simulator itself, for each episode per posterior model
KEPT_CURVE = 100  # points of a learning curve that go into results.json
SRVI_COLOUR = COLOURS[1]
LOOKS = {
    "srvi": ("SRVI (λ beside the mark)", SRVI_COLOUR, "s"),
    "rpvi-control": ("worst-model value iteration", COLOURS[6], "p"),
    "sr-sac": ("SR-SAC (hollow: its most probable actions)", COLOURS[0], "o"),
    "r-sac": ("R-SAC (hollow alike)", COLOURS[2], "^"),
}


def vi_agent(
    method: str, lam: float | None, agent: int, settings: dict[str, Any]
) -> dict[str, Any]:
    """Task: one agent of SRVI at one λ, or of value iteration against the worst model."""
    from softrobust.solvers.continuous.srvi import SRVI, WorstModelVI

    problem, others = _models(settings)
    if lam is not None:
        problem = replace(problem, objective=SoftRobust(lam, settings["alpha"]))
    seed = task_seed(settings["seed"], method, lam, agent) % 2**32
    solver = (SRVI if method == "srvi" else WorstModelVI)(
        iterations=settings["vi_iterations"], seed=seed
    )
    found = solver.solve(problem)
    kept = ("iterations", "last_change_share", "fit_r2", "clipped_steps", "states_outside_data")
    return {
        "agents": [_measured(found.policy, problem, others, settings)],
        "about": {"status": str(found.status), **{k: found.stats[k] for k in kept}},
    }


def sac_agents(
    method: str, settings: dict[str, Any], agents: str | Path | None = None
) -> dict[str, Any]:
    """Task: all agents of one actor-critic, read from a file or trained here; drawn and greedy."""
    problem, others = _models(settings)
    if agents is not None:
        made = load_agents(agents, problem)
    else:
        given = dict(settings["sac"])  # what differs from the table
        if "hidden" in given:
            given["hidden"] = tuple(given["hidden"])
        made = train_agents(method, problem, range(settings["agents"]), **given)
    return {
        "agents": [_measured(p, problem, others, settings) for p in made.policies],
        "greedy": [
            _measured(replace(p, greedy=True), problem, others, settings) for p in made.policies
        ],
        # How the agents came about, without the clock of this run.
        "about": {k: made.about[k] for k in ("device", "jax", "iterations", "status", "settings")},
        "curve": _thinned(made),
    }


def yardsticks(settings: dict[str, Any]) -> dict[str, Any]:
    """Task: never and always treating."""
    problem, others = _models(settings)
    made = {
        word: ConstantPolicy(choice, problem.variables, problem.actions)
        for word, choice in (("never treat", "0"), ("always treat", "1"))
    }
    return {word: _measured(policy, problem, others, settings) for word, policy in made.items()}


def _models(settings: Mapping[str, Any]) -> tuple[ContinuousProblem, dict[str, Any]]:
    """The training problem, and the models to measure on by name."""
    domain = CancerGrowth()
    problem, test = domain.split_problem(DATA_SEED, settings["n_train"], settings["n_test"])
    world = domain.true_model()
    true = CallableModels(
        lambda s, a, _, rng: world.step(s, a, rng).s_next, 1, problem.variables, problem.actions
    )
    return problem, {"training": problem.models, "held-out": test, "true": true}


def _measured(
    policy: ContinuousPolicy,
    problem: ContinuousProblem,
    others: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Average return under every model, by kind of models, and how often episodes hit the box."""
    out: dict[str, Any] = {}
    for word, models in others.items():
        episodes = settings["episodes"] * (TRUE_EPISODES if word == "true" else 1)
        # One seed for all policies: they meet the same luck.
        run = simulate(problem, policy, models, episodes, task_seed(settings["seed"], word))
        out[word] = {"returns": run.means.tolist(), "clipped": run.clipped}
    return out


def _thinned(made: Agents) -> dict[str, Any]:
    """The learning curves, averaged over stretches of iterations."""
    returns = made.curves["returns"]
    stretch = max(1, returns.shape[1] // KEPT_CURVE)
    n = returns.shape[1] // stretch
    means = returns[:, : n * stretch].reshape(len(returns), n, stretch).mean(axis=2)
    at = (np.arange(n) + 1) * stretch
    return {"iteration": at.tolist(), "returns": means.astype(float).tolist()}


@final
class Cancer(Experiment):
    """Mean against robust return of all methods, on training and held-out models."""

    __slots__ = ()
    name: ClassVar[str] = "cancer"
    figure: ClassVar[str] = "figure 5"
    title: ClassVar[str] = "Cancer growth: SRVI and actor-critics"
    about: ClassVar[str] = (
        "A tumour in four continuous variables, a drug that is given or not, 30 steps, γ = 0.9, "
        "dose penalty 1. One log of 600 transitions; Bayesian regression on polynomial features; "
        "50 posterior draws to train on, 100 to test on, next states kept within the possible "
        "(0 ≤ C ≤ 4, tissues 0 … 100). Five agents of each method."
    )
    caption: ClassVar[str] = (
        "Mean against CVaR at α = 0.9 over models (the worst 10 % of them); small marks are "
        "agents, large ones their average; numbers beside marks are λ. Hollow marks: the "
        "actor-critics' most probable action instead of a drawn one."
    )

    def settings(self, quick: bool) -> dict[str, Any]:
        """The tables' sizes; `sac` holds what differs from the table of the actor-critics."""
        small = {
            "iterations": 120, "updates": 4, "batch": 64, "next_states": 8, "hidden": [48, 48],
            "actor_rate": 2e-3, "q_rate": 2e-3, "v_rate": 2e-3, "target_rate": 0.05, "memory": 30,
            "block": 40,
        }  # fmt: skip
        return {
            "n_train": 50,
            "n_test": 50 if quick else 100,
            "agents": 3 if quick else 5,
            "lams": [0.25, 0.75, 1.0],
            "alpha": 0.9,
            "vi_iterations": 40 if quick else 150,
            "episodes": 20 if quick else 100,
            "sac": small if quick else {},
            "seed": 5,
        }

    def tasks(self, settings: Mapping[str, Any]) -> list[Task]:
        """One per agent of value iteration, one per actor-critic."""
        given, out = dict(settings), []
        curves: list[tuple[str, float | None]] = [("srvi", lam) for lam in settings["lams"]]
        for method, lam in [*curves, ("rpvi-control", None)]:
            for agent in range(settings["agents"]):
                out.append(
                    Task(
                        _key(method, lam, agent),
                        f"{MODULE}:vi_agent",
                        {"method": method, "lam": lam, "agent": agent, "settings": given},
                    )
                )
        for method in METHODS:
            files = {} if settings["sac"] else _agent_files(method)
            call = {"method": method, "settings": given}
            out.append(Task(task_key(method), f"{MODULE}:sac_agents", call, files))
        return [*out, Task("yardsticks", f"{MODULE}:yardsticks", {"settings": given})]

    def gather(self, settings: Mapping[str, Any], results: Results) -> Findings:
        """Returns by method, agent and model; tables; verdicts."""
        lacking = [task.key for task in self.tasks(settings) if task.key not in results]
        if lacking:
            raise InputError(
                f"{len(lacking)} tasks of 'cancer' did not come to an end ({lacking[0]}): see "
                "their reasons in tasks/failures, and run again with resume=True.",
                arguments={"resume": ""},
            )
        returns: dict[str, Any] = {}
        about: dict[str, Any] = {}
        for method, lam in [*(("srvi", x) for x in settings["lams"]), ("rpvi-control", None)]:
            found = [results[_key(method, lam, i)] for i in range(settings["agents"])]
            name = method if lam is None else f"{method} {lam:g}"
            returns[name] = _stacked([x for part in found for x in part["agents"]])
            about[name] = [part["about"] for part in found]
        for method in METHODS:
            part = results[task_key(method)]
            returns[method] = _stacked(part["agents"])
            returns[f"{method} greedy"] = _stacked(part["greedy"])
            about[method] = {**part["about"], "curve": part["curve"]}
        for word, measured in results["yardsticks"].items():
            returns[word] = _stacked([measured])
        return findings(settings, returns, about)

    def draw(self, numbers: Mapping[str, Any]) -> Figure:
        """Two panels of returns and one of training."""
        figure = new_figure(12.6, 4.2)
        left, middle, right = figure.subplots(1, 3)
        for axes, word in ((left, "training"), (middle, "held-out")):
            _returns(axes, numbers, word)
        _curves(right, numbers)
        figure.legend(
            *left.get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False,
            fontsize=9,
        )  # fmt: skip
        return figure


def _key(method: str, lam: float | None, agent: int) -> str:
    return task_key(method, *([] if lam is None else [f"lam{lam:g}"]), f"agent{agent}")


def _stacked(agents: list[Mapping[str, Any]]) -> dict[str, Any]:
    """By kind of models: returns (n_agents, n_models) as lists, and the share of clipped steps."""
    return {
        word: {
            "returns": [x[word]["returns"] for x in agents],
            "clipped": float(np.mean([x[word]["clipped"] for x in agents])),
        }
        for word in agents[0]
    }


def _agent_files(method: str) -> dict[str, Path]:
    """The file of trained agents; none if they are to be trained here on an accelerator."""
    name = f"agents-{method}.npz"
    places = [HOME / name, Path(__file__).resolve().parents[3] / HOME / name]
    for found in places:
        if found.exists():
            return {"agents": found}
    if _accelerator():
        return {}
    raise InputError(
        f"The full run needs trained agents: {HOME / name} is not there, and this machine has no "
        "accelerator to train them on (on 2 cores it would take days). Run with quick=True; or, on "
        f"a machine with one, `python -m softrobust.paper.cancer_sac --out {HOME.as_posix()}`.",
        arguments={"quick": ""},
    )


def _accelerator() -> bool:
    try:
        import jax
    except ImportError:
        return False
    return bool(jax.default_backend() != "cpu")


def _returns(axes: Axes, numbers: Mapping[str, Any], word: str) -> None:
    """Every policy; what lies close together once more, larger, with λ beside the marks."""
    _marks(axes, numbers, word, size=9)
    axes.set_xlabel("mean return over models")
    axes.set_ylabel(f"CVaR at α = {numbers['alpha']:g}: worst {100 * (1 - numbers['alpha']):.0f} %")
    axes.set_title(f"{word} models", fontsize=10)
    plain(axes)
    inset = axes.inset_axes((0.4, 0.1, 0.57, 0.58))
    _marks(inset, numbers, word, size=7)
    near = np.concatenate(
        [_points(found, word) for name, found in numbers["scores"].items() if _close(name)]
    )
    low, high = near.min(axis=0), near.max(axis=0)
    pad = 0.16 * (high - low)
    inset.set_xlim(low[0] - pad[0], high[0] + pad[0])
    inset.set_ylim(low[1] - pad[1], high[1] + pad[1])
    inset.tick_params(labelsize=7)
    inset.set_facecolor("white")
    axes.indicate_inset_zoom(inset, edgecolor=INK, alpha=0.35)
    labels = []
    for lam in numbers["lams"]:
        x, y = _points(numbers["scores"][f"srvi {lam:g}"], word).mean(axis=0)
        labels.append(Label(float(x), float(y), short(lam), SRVI_COLOUR))
    place(inset, labels, near)


def _points(found: Mapping[str, Any], word: str) -> NDArray[np.float64]:
    """(n_agents, 2) mean and CVaR."""
    return np.column_stack([found[word][measure] for measure in ("mean", "cvar")])


def _close(name: str) -> bool:
    """Whether a policy belongs into the enlarged part: SR-SAC lies far below the others."""
    return name.partition(" ")[0] in ("srvi", "rpvi-control", "r-sac")


def _marks(axes: Axes, numbers: Mapping[str, Any], word: str, size: float) -> None:
    for name, found in numbers["scores"].items():
        base, _, form = name.partition(" ")
        if base not in LOOKS:
            continue  # never and always treating lie far outside
        text, colour, marker = LOOKS[base]
        points = _points(found, word)
        face = "white" if form == "greedy" else colour
        axes.plot(*points.T, marker, color=colour, markersize=3.5, alpha=0.45, linestyle="")
        first = base != "srvi" or form == f"{numbers['lams'][0]:g}"
        axes.plot(
            *points.mean(axis=0), marker, markeredgecolor=colour, markerfacecolor=face,
            markersize=size, linestyle="", label=text if first and form != "greedy" else None,
        )  # fmt: skip


def _curves(axes: Axes, numbers: Mapping[str, Any]) -> None:
    for name in ("sr-sac", "r-sac"):
        curve = numbers["training"][name]["curve"]
        _, colour, _ = LOOKS[name]
        for row in curve["returns"]:
            axes.plot(curve["iteration"], row, color=colour, linewidth=0.8, alpha=0.6)
    axes.axhline(0, color=INK, linewidth=0.7)
    axes.set_xlabel("iteration")
    axes.set_ylabel("return of training episodes (mean model)")
    axes.set_title(f"actor-critics on {numbers['training']['sr-sac']['device']}", fontsize=10)
    plain(axes)
