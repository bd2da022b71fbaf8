"""Figure 5, the cancer simulator: SRVI for three λ against SR-SAC, R-SAC and the worst model.

One log of 20 episodes; 50 posterior draws to train on and 100 others to test on, the same for all
methods and agents (the paper's tables; its text has the numbers the other way round). Five agents
of each method differ in their seeds. What a policy earns is simulated: 100 episodes of 30 steps
under every model, with common random numbers for all policies. The robust return is the CVaR at
α = 0.9 over models: the average of the worst 10 % of the models' average returns.

At the table's sizes the actor-critics need an accelerator. The full run reads agents trained on one
(`agents-sr-sac.npz` and `agents-r-sac.npz`, see `cancer_sac`), or trains them if it finds one.

Two sources of noise are kept apart. Agents differ by their seeds: a difference of two methods has
the variance s²_A/n + s²_B/n of their averages. Held-out models are a sample of the posterior, drawn
once for all methods: their part (with that of the simulated episodes) comes from a bootstrap over
models, the same models for both methods. On training models the claim is about those models alone.
The half width of an interval is √((t·s_agents)² + (z·s_models)²): Student's t for n agents with
n − 1 degrees of freedom, the normal z for the many models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust.domains import CancerGrowth
from softrobust.errors import InputError
from softrobust.models.continuous import CallableModels
from softrobust.models.continuous_policy import ConstantPolicy, ContinuousPolicy
from softrobust.objective import SoftRobust
from softrobust.paper.base import Experiment, Findings, Results, Settings, catalogue
from softrobust.paper.cancer_sac import DATA_SEED, METHODS, Agents, load_agents, train_agents
from softrobust.paper.claims import LEVEL, Claim, Interval, Measured, more, table
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
Returns = Mapping[str, Mapping[str, FloatArray]]  # (n_agents, n_models) by method and models
WORDS = ("training", "held-out")
MEASURES = ("mean", "cvar")
RESAMPLES = 1000
MARGIN = 0.05  # of return: about 1 % of what treating well earns
SECTION = "section 6, figure 5"
LABELS: dict[str, str] = catalogue()["cancer"]["labels"]
LOOKS = {
    "srvi": ("SRVI (λ beside the mark)", COLOURS[1], "s"),
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


def _models(settings: Settings) -> tuple[ContinuousProblem, dict[str, Any]]:
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
    settings: Settings,
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

    def tasks(self, settings: Settings) -> list[Task]:
        """One per agent of value iteration, one per actor-critic."""
        given = {"settings": dict(settings)}
        out = [
            Task(key, f"{MODULE}:vi_agent", {"method": m, "lam": lam, "agent": i, **given})
            for m, lam in _iterated(settings)
            for i, key in enumerate(_keys(m, lam, settings["agents"]))
        ]
        for method in METHODS:
            files = {} if settings["sac"] else _agent_files(method)
            out.append(Task(method, f"{MODULE}:sac_agents", {"method": method, **given}, files))
        return [*out, Task("yardsticks", f"{MODULE}:yardsticks", given)]

    def gather(self, settings: Settings, results: Results) -> Findings:
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
        for method, lam in _iterated(settings):
            found = [results[key] for key in _keys(method, lam, settings["agents"])]
            name = method if lam is None else f"{method} {lam:g}"
            returns[name] = _stacked([x for part in found for x in part["agents"]])
            about[name] = [part["about"] for part in found]
        for method in METHODS:
            part = results[method]
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


def _iterated(settings: Settings) -> list[tuple[str, float | None]]:
    """The methods of value iteration with their λ."""
    return [*(("srvi", lam) for lam in settings["lams"]), ("rpvi-control", None)]


def _keys(method: str, lam: float | None, agents: int) -> list[str]:
    """Of the tasks of its agents."""
    parts = [method] if lam is None else [method, f"lam{lam:g}"]
    return [task_key(*parts, f"agent{i}") for i in range(agents)]


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


# -------------------------------------------------------------------- findings
def label(name: str) -> str:
    """A method in words."""
    return LABELS.get(name, f"SRVI, λ = {name[5:]}" if name.startswith("srvi") else name)


def scores(x: FloatArray, measure: str, alpha: float) -> FloatArray:
    """(n_agents,) mean or CVaR over the last axis of x (…, n_models), models equally likely.

    CVaR at α averages the worst (1 − α)·n models; a fraction of a model counts as a fraction.
    """
    if measure == "mean":
        return np.asarray(x.mean(axis=-1))
    n = x.shape[-1]
    tail = (1.0 - alpha) * n
    weight = np.clip(tail - np.arange(n), 0.0, 1.0) / tail
    return np.asarray(np.sort(x, axis=-1) @ weight)


def difference(
    a: FloatArray, b: FloatArray | None, measure: str, alpha: float, sampled: bool
) -> Interval:
    """Interval of score(a) − score(b) (of score(a) alone without b); x is (n_agents, n_models)."""
    from scipy.stats import norm
    from scipy.stats import t as student

    parts = [a] if b is None else [a, b]
    own = [scores(x, measure, alpha) for x in parts]
    value = float(own[0].mean() - (own[1].mean() if b is not None else 0.0))
    n = min(x.shape[0] for x in parts)
    if n < 2:
        return Interval(value, -np.inf, np.inf, n)
    upper = (1 + LEVEL) / 2
    square = student.ppf(upper, n - 1) ** 2 * sum(float(x.var(ddof=1)) / x.size for x in own)
    if sampled:
        square += norm.ppf(upper) ** 2 * _model_variance(parts, measure, alpha)
    half = float(square) ** 0.5
    return Interval(value, value - half, value + half, n)


def _model_variance(parts: Sequence[FloatArray], measure: str, alpha: float) -> float:
    """Of the score, or difference of scores, over resampled models; the same for both methods."""
    n = parts[0].shape[1]
    rows = np.random.default_rng(n).integers(0, n, (RESAMPLES, n))
    values = [scores(x[:, rows], measure, alpha).mean(axis=0) for x in parts]
    return float(np.var(values[0] - (values[1] if len(values) == 2 else 0.0), ddof=1))


def findings(settings: Settings, returns: Mapping[str, Any], about: Mapping[str, Any]) -> Findings:
    """Numbers, tables, claims and remarks."""
    alpha = settings["alpha"]
    x = {
        name: {word: np.array(found[word]["returns"]) for word in found}
        for name, found in returns.items()
    }
    numbers: dict[str, Any] = {
        "alpha": alpha,
        "lams": list(settings["lams"]),
        "scores": {},
        "clipped": {n: {w: found[w]["clipped"] for w in found} for n, found in returns.items()},
        "model_returns": {},
        "training": dict(about),
    }
    for name, found in x.items():
        own = {w: {m: scores(found[w], m, alpha).tolist() for m in MEASURES} for w in WORDS}
        numbers["scores"][name] = own | {"true": {"mean": found["true"].mean(axis=1).tolist()}}
        # Averages over agents, by kind of models: (n_models,) each.
        numbers["model_returns"][name] = {w: found[w].mean(axis=0).tolist() for w in WORDS}
    return Findings(
        numbers, [_table(x, alpha, returns)], _claims(x, settings), _remarks(settings, about, x)
    )


def _table(x: Returns, alpha: float, returns: Mapping[str, Any]) -> dict[str, Any]:
    rows = []
    for name, found in x.items():
        cells: list[Any] = [label(name)]
        for word in WORDS:
            for measure in MEASURES:
                cells.append(difference(found[word], None, measure, alpha, word == "held-out"))
        cells.append(float(found["true"].mean()))
        cells.append(f"{100 * returns[name]['held-out']['clipped']:.1f} %")
        rows.append(cells)
    agents = max(found["training"].shape[0] for found in x.values())
    return table(
        f"Mean and CVaR at α = {alpha:g} (the worst {100 * (1 - alpha):g} % of models)",
        f"{agents} agents of each method, 95 % intervals; those on held-out models count the "
        "choice of models, too. Last columns: the return in the simulator itself, and the share of "
        "steps on held-out models that ended at the edge of what is possible.",
        ["method", *(f"{word} {m}" for word in WORDS for m in ("mean", "CVaR")), "true mean",
         "at the edge"],
        rows,
    )  # fmt: skip


def _claims(x: Returns, settings: Settings) -> list[Claim]:
    alpha, lams = settings["alpha"], settings["lams"]
    rule = f"the 95 % interval of every difference lies above {MARGIN:g}"

    def step(word: str, measure: str, better: float, worse: float) -> Measured:
        a, b = (x[f"srvi {lam:g}"][word] for lam in (better, worse))
        interval = difference(a, b, measure, alpha, word == "held-out")
        return more(f"{measure}, λ = {better:g} less λ = {worse:g}", interval, MARGIN)

    def against(word: str, form: str) -> tuple[Measured, ...]:
        out = []
        for measure in MEASURES:
            best = _chosen(x, lams, measure, alpha)
            for rival in ("sr-sac", "r-sac"):
                interval = difference(
                    x[best][word], x[rival + form][word], measure, alpha, word == "held-out"
                )
                what = f"{measure}, {label(best)} less {label(rival + form)}"
                out.append(more(what, interval, MARGIN))
        return tuple(out)

    pairs = list(pairwise(lams))
    up = {w: tuple(step(w, "cvar", high, low) for low, high in pairs) for w in WORDS}
    down = {w: tuple(step(w, "mean", low, high) for low, high in pairs) for w in WORDS}
    chosen = "λ chosen on the training models, for the mean and for the CVaR; "
    return [
        *(
            Claim("SRVI with a suitable λ beats SR-SAC and R-SAC in mean and in CVaR.", SECTION,
                  word, chosen + rule, against(word, ""))
            for word in WORDS
        ),
        Claim("The same against the actor-critics' most probable actions (not in the paper).",
              "beyond the paper", "held-out", chosen + rule, against("held-out", " greedy")),
        Claim("SRVI's robust return improves with λ.", SECTION, "training", rule, up["training"]),
        Claim("SRVI's mean return improves as λ falls.", SECTION, "training", rule,
              down["training"]),
        Claim("Both trends hold on held-out models, too (the paper: they do not quite).", SECTION,
              "held-out", rule, (*up["held-out"], *down["held-out"])),
    ]  # fmt: skip


def _chosen(x: Returns, lams: Sequence[float], measure: str, alpha: float) -> str:
    """The λ of SRVI that is best on training models."""
    names = [f"srvi {lam:g}" for lam in lams]
    return max(names, key=lambda name: scores(x[name]["training"], measure, alpha).mean())


def _remarks(settings: Settings, about: Mapping[str, Any], x: Returns) -> list[str]:
    sac = about["sr-sac"]
    found = sac["settings"]
    size = (
        f"{sac['iterations']} iterations of {found['updates']} updates on {found['batch']} × "
        f"{settings['n_train']} × {found['next_states']} next states, hidden layers "
        f"{tuple(found['hidden'])}, temperature {found['entropy_coef']:g}"
    )
    made = f"The actor-critics were trained on: {sac['device']} (JAX {sac['jax']}); {size}."
    if settings["sac"]:
        made += " These are not the paper's sizes: a quick run shows that all parts work, no more."
    iterated = [runs for name, runs in about.items() if name not in ("sr-sac", "r-sac")]
    statuses = [run["status"] for runs in iterated for run in runs]
    wild = {name: float(found["held-out"].min()) for name, found in x.items()}
    worst = min(wild, key=lambda name: wild[name])
    return [
        made,
        f"{statuses.count('tolerance_reached')} of {len(statuses)} runs of value iteration settled "
        "within the tolerance; the others ended at their iteration limit (no theorem says that "
        "they settle).",
        "The text of the paper has 100 training and 50 test draws, its tables 50 and 100: the "
        "tables are followed.",
        f"The worst single held-out model of any policy: {wild[worst]:.3g} ({label(worst)}).",
    ]


# -------------------------------------------------------------------- picture
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
        labels.append(Label(float(x), float(y), short(lam), COLOURS[1]))
    place(inset, labels, near)


def _points(found: Mapping[str, Any], word: str) -> FloatArray:
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
