"""Figure 5, the cancer simulator: SRVI for several λ against tuned SR-SAC and R-SAC.

Every log has 20 episodes; 50 posterior draws to train on and 100 others to test on, the same for
all methods (the paper's tables; its text has the numbers the other way round). What a policy earns
is simulated: episodes of 30 steps under every model, with common random numbers for all policies of
a log. The robust return is the CVaR at α = 0.9 over models: the average of the worst 10 % of the
models' average returns. Differences are taken log by log, as in the other figures.

All methods are tuned alike: SRVI chooses its λ, an actor-critic its temperature, its learning rate
and whether its actions are drawn or the most probable ones, on the training models of every log,
for the measure that is compared. λ = 0 is SRVI's control for SR-SAC, which maximises the mean.

SRVI is also run with other settings (`variants`): damped, without the box that next states are kept
in, on ten times as much data, and with noise that varies with the state, as the simulator's does,
which a sampler learns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust.domains import CancerGrowth
from softrobust.errors import InputError, SolverError
from softrobust.models.continuous import CallableModels
from softrobust.models.continuous_policy import ConstantPolicy, ContinuousPolicy
from softrobust.objective import SoftRobust, cvar
from softrobust.paper.base import Experiment, Findings, Results, Settings, catalogue
from softrobust.paper.cancer_sac import (
    METHODS,
    load_agents,
    models_file,
    problem_of,
    settings_of,
    train_agents,
)
from softrobust.paper.claims import (
    Claim,
    Measured,
    claimed,
    interval_of,
    mean_interval,
    more,
    tabled,
    told,
)
from softrobust.paper.figures import COLOURS, Label, new_figure, place, plain, short
from softrobust.problem import ContinuousProblem
from softrobust.returns.simulation import simulate
from softrobust.run.jobs import Task, task_key, task_seed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MODULE = "softrobust.paper.cancer"
HOME = Path("docs") / "results" / "cancer"
TRUE_EPISODES = 50  # in the simulator itself, for each episode per posterior model
WORDS = ("training", "held-out")
MEASURES = ("mean", "cvar")
AWAY = 1e4  # a mean return that is beyond all sense: never treating costs some 30
MARGIN = 0.05  # of return: about 1 % of what treating well earns
NAME = "cancer"
MORE_DATA = "ten times the data"  # the variant
FORMS = {"drawn": False, "greedy": True}
LABELS: dict[str, str] = catalogue()["cancer"]["labels"]
LOOKS = {
    "srvi": ("SRVI (λ beside the mark)", COLOURS[1], "s"),
    "rpvi-control": ("worst-model value iteration", COLOURS[6], "p"),
    "sr-sac": ("SR-SAC (hollow: as the table has it)", COLOURS[0], "o"),
    "r-sac": ("R-SAC (hollow alike)", COLOURS[2], "^"),
}
Measure = Callable[[ContinuousPolicy, Sequence[str]], dict[str, Any]]


# -------------------------------------------------------------------- tasks
def vi_log(
    seed: int, domain: dict[str, Any], solver: dict[str, Any], settings: dict[str, Any],
    models: str | Path | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Task: SRVI for every λ and value iteration against the worst model, on one log."""
    from softrobust.solvers.continuous.srvi import SRVI, WorstModelVI

    problem, test = problem_of(seed, settings["n_train"], settings["n_test"], domain, models)
    measure = _measure(CancerGrowth(**domain), problem, test, seed, settings)
    out: dict[str, Any] = {}
    for lam in (*settings["lams"], None):
        name = "rpvi-control" if lam is None else f"srvi {lam:g}"
        own = problem
        if lam is not None:
            own = replace(problem, objective=SoftRobust(lam, settings["alpha"]))
        given = {"seed": task_seed(settings["seed"], name, seed) % 2**32, **solver}
        try:
            found = (WorstModelVI if lam is None else SRVI)(**given).solve(own)
            about = {k: found.stats[k] for k in ("iterations", "last_change_share", "fit_r2")}
            about |= {"status": str(found.status)}
            out[name] = {**measure(found.policy, (*WORDS, "true")), "about": about}
        except (SolverError, InputError) as error:  # values or states that run away are a result,
            out[name] = {"failed": str(error)}  # too, and so are first states all at one place
    if not domain and not solver:
        for word, choice in (("never treat", "0"), ("always treat", "1")):
            policy = ConstantPolicy(choice, problem.variables, problem.actions)
            out[word] = measure(policy, (*WORDS, "true"))
    return out


def sac_logs(
    method: str, settings: dict[str, Any], domain: dict[str, Any] | None = None,
    only: int | None = None, agents: str | Path | None = None, models: str | Path | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Task: an actor-critic on every log, or on one, read from a file or trained here, and tuned.

    By log: the agent at the table's setting with drawn actions, and for either measure the one that
    is best on the training models.
    """
    seeds, grid = settings["seeds"], settings_of(settings["sac"])
    logs = list(enumerate(seeds)) if only is None else [(only, seeds[only])]
    sizes = (settings["n_train"], settings["n_test"])
    both = [problem_of(seed, *sizes, domain, models) for _, seed in logs]
    if agents is None:
        made = train_agents(method, [problem for problem, _ in both], settings["sac"])
    else:
        made = load_agents(agents)
    out: dict[str, Any] = {"logs": [], "about": made.about}
    out["curves"] = made.curves.mean(axis=1).astype(float).tolist()
    for (log, seed), (problem, test) in zip(logs, both, strict=True):
        made.check(log, problem)
        measure = _measure(CancerGrowth(**(domain or {})), problem, test, seed, settings)
        tried: dict[tuple[int, str], ContinuousPolicy] = {}
        for k in range(len(grid)):
            actor = made.policy(problem, k, log)
            if actor is not None:
                tried |= {(k, form): replace(actor, greedy=g) for form, g in FORMS.items()}
        if (0, "drawn") not in tried:
            raise SolverError(f"The agent of log {seed} at the table's setting left the numbers.")
        known = {key: measure(policy, ("training",)) for key, policy in tried.items()}
        chosen = {"table": (0, "drawn")}
        for m in MEASURES:
            chosen[m] = max(known, key=lambda key: known[key]["training"][m])
        every = (*WORDS, "true")
        out["logs"].append({
            what: {"setting": [*grid[key[0]], key[1]], **measure(tried[key], every)}
            for what, key in chosen.items()
        })  # fmt: skip
    return out


def _measure(
    domain: CancerGrowth, problem: ContinuousProblem, test: Any, seed: int, settings: Settings
) -> Measure:
    """Measures a policy: mean and CVaR over models, the mean in the simulator, steps at the edge.

    One seed for all policies of a log: they meet the same luck.
    """
    world = domain.true_model()
    true = CallableModels(
        lambda s, a, _, rng: world.step(s, a, rng).s_next, 1, problem.variables, problem.actions
    )
    every = {"training": problem.models, "held-out": test, "true": true}

    def measured(policy: ContinuousPolicy, words: Sequence[str]) -> dict[str, Any]:
        out = {}
        for word in words:
            episodes = settings["episodes"] * (TRUE_EPISODES if word == "true" else 1)
            luck = task_seed(settings["seed"], word, seed)
            run = simulate(problem, policy, every[word], episodes, luck)
            out[word] = {
                "mean": float(run.means.mean()),
                "cvar": cvar(run.means, None, settings["alpha"]),
                "edge": run.clipped,
            }
        return out

    return measured


@final
class Cancer(Experiment):
    """Mean against robust return of all methods, on training and held-out models."""

    name = NAME

    def tasks(self, settings: Settings) -> list[Task]:
        """One per log and variant of SRVI; one per actor-critic and log, if they are trained."""
        used = ("n_train", "n_test", "lams", "alpha", "episodes", "seed")
        given: dict[str, Any] = {"settings": {k: settings[k] for k in used}}
        out = [
            Task(_key(variant, seed), f"{MODULE}:vi_log",
                 {"seed": seed, "domain": own.get("domain", {}), "solver": own.get("solver", {}),
                  **given}, _model_files(variant, own, seed))
            for variant, own in settings["variants"].items()
            for seed in _seeds(settings, own)
        ]  # fmt: skip
        given = {"settings": {k: settings[k] for k in (*used, "seeds", "sac")}}
        for (variant, own), method in product(_with_rivals(settings), METHODS):
            of = {"method": method, "domain": own.get("domain", {}), **given}
            if settings["trained"]:
                files = _agent_files(method, variant)
                out += [
                    Task(_key(variant, seed, method), f"{MODULE}:sac_logs", {**of, "only": i},
                         files | _model_files(variant, own, seed))
                    for i, seed in enumerate(_seeds(settings, own))
                ]  # fmt: skip
            else:
                out.append(Task(_key(variant, None, method), f"{MODULE}:sac_logs", of))
        return out

    def gather(self, settings: Settings, results: Results) -> Findings:
        """Means and CVaR by method and log; tables; verdicts."""
        lacking = [task.key for task in self.tasks(settings) if task.key not in results]
        if lacking:
            raise InputError(
                f"{len(lacking)} tasks of 'cancer' did not come to an end ({lacking[0]}): see "
                "their reasons in tasks/failures, and run again with resume=True.",
                arguments={"resume": ""},
            )
        runs = {
            variant: [results[_key(variant, seed)] for seed in _seeds(settings, own)]
            for variant, own in settings["variants"].items()
        }
        main = {name: [log[name] for log in runs[""]] for name in runs[""][0]}
        rivals = {
            variant: {m: _joined(settings, results, variant, m) for m in METHODS}
            for variant, _ in _with_rivals(settings)
        }
        for m, what in product(METHODS, ("table", *MEASURES)):
            main[f"{m} {what}"] = [log[what] for log in rivals[""][m]["logs"]]
        away = {name: sum(_away(x) is not None for x in logs) for name, logs in main.items()}
        needed = [name for name, n in away.items() if n and name != "rpvi-control"]
        if needed:
            raise SolverError(f"{needed[0]} ran away in {away[needed[0]]} logs: see its task.")
        main = {name: [x for x in logs if _away(x) is None] for name, logs in main.items()}
        return findings(settings, main, runs, rivals)

    def draw(self, numbers: Mapping[str, Any]) -> Figure:
        """Two panels of returns and one of what comes true."""
        figure = new_figure(12.6, 4.4)
        left, middle, right = figure.subplots(1, 3)
        for axes, word in ((left, "training"), (middle, "held-out")):
            _returns(axes, numbers, word)
        _promises(right, numbers)
        figure.legend(
            *left.get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False,
            fontsize=9,
        )  # fmt: skip
        return figure


def _key(variant: str, seed: int | None, method: str = "vi") -> str:
    log = "all" if seed is None else f"log{seed:03d}"
    return task_key(method, variant.replace(" ", "-") or "main", log)


def _seeds(settings: Settings, variant: Mapping[str, Any]) -> list[int]:
    seeds: list[int] = settings["seeds"]
    return seeds[: variant.get("logs", len(seeds))]


def _with_rivals(settings: Settings) -> list[tuple[str, Mapping[str, Any]]]:
    """The variants in which actor-critics are run, too."""
    return [(v, own) for v, own in settings["variants"].items() if not v or own.get("rivals")]


def _joined(settings: Settings, results: Results, variant: str, method: str) -> dict[str, Any]:
    """An actor-critic's logs, from one task or from one for each."""
    whole = _key(variant, None, method)
    seeds = _seeds(settings, settings["variants"][variant])
    keys = [whole] if whole in results else [_key(variant, seed, method) for seed in seeds]
    return {**results[keys[0]], "logs": [log for key in keys for log in results[key]["logs"]]}


def _found(name: str) -> Path | None:
    """A file of the published results, here or where the package lies."""
    for home in (HOME, Path(__file__).resolve().parents[3] / HOME):
        if (home / name).exists():
            return home / name
    return None


def _model_files(variant: str, own: Mapping[str, Any], seed: int) -> dict[str, Path]:
    """The models that a sampler drew; none where they are drawn exactly, or are to be drawn."""
    name = models_file(Path(variant.replace(" ", "-")), seed).as_posix()
    found = _found(name) if own.get("rivals") else None
    return {} if found is None else {"models": found}


def _agent_files(method: str, variant: str = "") -> dict[str, Path]:
    """The file of trained agents."""
    name = (Path(variant.replace(" ", "-")) / f"agents-{method}.npz").as_posix()
    found = _found(name)
    if found is not None:
        return {"agents": found}
    place = (HOME / name).parent.as_posix()
    raise InputError(
        f"The full run needs trained agents: {HOME / name} is not there. Run with quick=True; or, "
        "on a machine with an accelerator (on 2 cores it would take days), "
        f"`python -m softrobust.paper.cancer_sac --out {place}`.",
        arguments={"quick": ""},
    )


# -------------------------------------------------------------------- findings
def label(name: str) -> str:
    """A method in words."""
    return LABELS.get(name, f"SRVI, λ = {name[5:]}" if name.startswith("srvi") else name)


def findings(
    settings: Settings, main: Mapping[str, Sequence[Mapping[str, Any]]],
    runs: Mapping[str, Sequence[Mapping[str, Any]]],
    rivals: Mapping[str, Mapping[str, Mapping[str, Any]]],
) -> Findings:  # fmt: skip
    """Numbers, tables, claims and remarks; of every method a measured dictionary per log."""
    scores = _scores(main)
    numbers: dict[str, Any] = {
        "alpha": settings["alpha"],
        "lams": list(settings["lams"]),
        "scores": scores,
        "status": {n: [x["about"] for x in logs] for n, logs in main.items() if "about" in logs[0]},
        "variants": {name: _variant(logs) for name, logs in runs.items() if name},
        "chosen": {
            m: {what: [log[what]["setting"] for log in found["logs"]] for what in MEASURES}
            for m, found in rivals[""].items()
        },
        "training": {m: found["about"] for m, found in rivals[""].items()},
        "curves": {m: found["curves"] for m, found in rivals[""].items()},
    }
    x = _arrays(scores)
    tables = [_table(scores, settings["alpha"]), _settings_table(runs[""], numbers, settings)]
    claims = _claims(x, settings["lams"])
    for variant in rivals:
        if variant:
            both = _beside(runs[variant], rivals[variant])
            numbers["variants"][variant]["rivals"] = _scores(both)
            tables.append(_table(_scores(both), settings["alpha"], variant))
            claims += _tuned(_arrays(_scores(both)), settings["lams"], variant)
    return Findings(numbers, tables, claims, _remarks(numbers, settings, x))


def _scores(main: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """By method, models and measure: a figure for each log."""
    return {
        name: {w: {m: [x[w][m] for x in logs] for m in ("mean", "cvar", "edge")}
               for w in (*WORDS, "true")}
        for name, logs in main.items()
    }  # fmt: skip


def _arrays(scores: Mapping[str, Any]) -> Scores:
    return {
        (name, w, m): np.asarray(found[w][m])
        for name, found in scores.items() for w in (*WORDS, "true") for m in MEASURES
    }  # fmt: skip


def _beside(
    runs: Sequence[Mapping[str, Any]], rivals: Mapping[str, Mapping[str, Any]]
) -> dict[str, list[Mapping[str, Any]]]:
    """SRVI and its rivals in a variant, on the logs on which no run of SRVI ran away."""
    names = [name for name in runs[0] if name.startswith("srvi")]
    fine = [i for i, log in enumerate(runs) if all(_away(log[name]) is None for name in names)]
    out = {name: [runs[i][name] for i in fine] for name in names}
    for (m, found), what in product(rivals.items(), ("table", *MEASURES)):
        out[f"{m} {what}"] = [found["logs"][i][what] for i in fine]
    return out


def _away(run: Mapping[str, Any]) -> str | None:
    """Why a run counts as one that ran away: its error, or a return that nobody is paid."""
    if "failed" in run:
        return str(run["failed"])
    most = max(abs(run[w]["mean"]) for w in WORDS)
    return f"A mean return of {most:.2g} over models." if most > AWAY else None


def _variant(logs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Per λ: how many logs failed, and of the others the figures."""
    out = {}
    for name in logs[0]:
        fine = [log[name] if _away(log[name]) is None else None for log in logs]
        out[name] = {
            "failed": [_away(log[name]) for log in logs],
            "settled": [x["about"]["status"] == "tolerance_reached" for x in fine if x],
            **{w: [x[w]["mean"] if x else None for x in fine] for w in (*WORDS, "true")},
            **{f"{w} cvar": [x[w]["cvar"] if x else None for x in fine] for w in WORDS},
        }
    return out


def _table(scores: Mapping[str, Any], alpha: float, variant: str = "") -> dict[str, Any]:
    rows = []
    for name, found in scores.items():
        cells: list[Any] = [label(name)]
        cells += [mean_interval(found[w][m]) for w in WORDS for m in MEASURES]
        cells.append(mean_interval(found["true"]["mean"]))
        rows.append([*cells, f"{100 * float(np.mean(found['held-out']['edge'])):.1f} %"])
    n = len(next(iter(scores.values()))["true"]["mean"])
    where = f", {variant}" if variant else ""
    facts: dict[str, Any] = {"alpha": alpha, "tail": 100 * (1 - alpha), "where": where, "n": n}
    return tabled(NAME, "returns", rows, **facts)


Scores = Mapping[tuple[str, str, str], FloatArray]


def _settings_table(
    main: Sequence[Mapping[str, Any]], numbers: Mapping[str, Any], settings: Settings
) -> dict[str, Any]:
    """What SRVI's models say of its policy and what it earns, by variant; all on the same logs."""
    rows: list[list[Any]] = []
    ours = [{name: log[name] for name in log if name.startswith("srvi")} for log in main]
    for variant, by_method in ({"": _variant(ours)} | numbers["variants"]).items():
        k = len(_seeds(settings, settings["variants"][variant]))
        for lam in settings["lams"]:
            found = by_method[f"srvi {lam:g}"]
            fine = [i for i, why in enumerate(found["failed"]) if why is None]
            said, tail, true = (
                np.array([found[w][i] for i in fine]) for w in ("held-out", "held-out cvar", "true")
            )
            cells = [mean_interval(x) if fine else None for x in (said, tail, true, said - true)]
            ended = (f"{n} of {k}" for n in (sum(found["settled"]), k - len(fine)))
            rows.append([variant or "as above", short(lam), *cells, *ended])
    return tabled(NAME, "settings", rows)


def _best(x: Scores, names: Sequence[str], word: str, measure: str) -> FloatArray:
    """(n_logs,) of what is best on the training models of each log."""
    chosen = np.argmax([x[name, "training", measure] for name in names], axis=0)
    every = np.array([x[name, word, measure] for name in names])
    return np.asarray(every[chosen, np.arange(chosen.size)])


def _tuned(x: Scores, lams: Sequence[float], variant: str = "") -> list[Claim]:
    """SRVI against its rivals, as the table has them and tuned."""
    names = [f"srvi {lam:g}" for lam in lams if lam > 0]

    def against(word: str, form: str) -> tuple[Measured, ...]:
        out = []
        for measure in MEASURES:
            own = _best(x, names, word, measure)
            for rival in METHODS:
                other = x[f"{rival} {form or measure}", word, measure]
                what = f"{measure}, SRVI less {label(f'{rival} {form or measure}')}"
                out.append(more(what, mean_interval(own - other), MARGIN))
        return tuple(out)

    facts = {"variant": f" ({variant})" if variant else "", "margin": MARGIN}
    return [
        claimed(NAME, key, word, *against(word, form), **facts)
        for key, form in (("table", "table"), ("tuned", "")) for word in WORDS
    ]  # fmt: skip


def _claims(x: Scores, lams: Sequence[float]) -> list[Claim]:
    paper = [lam for lam in lams if lam > 0]

    def step(word: str, measure: str, better: float, worse: float) -> Measured:
        a, b = (x[f"srvi {lam:g}", word, measure] for lam in (better, worse))
        return more(f"{measure}, λ = {better:g} less λ = {worse:g}", mean_interval(a - b), MARGIN)

    control = x["srvi 0", "held-out", "mean"] - x["sr-sac mean", "held-out", "mean"]
    pairs = list(pairwise(paper))
    up = {w: tuple(step(w, "cvar", high, low) for low, high in pairs) for w in WORDS}
    down = {w: tuple(step(w, "mean", low, high) for low, high in pairs) for w in WORDS}
    lead = more("mean, SRVI, λ = 0 less SR-SAC", mean_interval(control), MARGIN)
    judged = (
        ("control", "held-out", (lead,)),
        ("robust", "training", up["training"]),
        ("mean", "training", down["training"]),
        ("both", "held-out", (*up["held-out"], *down["held-out"])),
    )
    own = [claimed(NAME, key, word, *parts, margin=MARGIN) for key, word, parts in judged]
    return [*_tuned(x, lams), *own]


def _remarks(numbers: Mapping[str, Any], settings: Settings, x: Scores) -> list[str]:
    about, sac = numbers["training"]["sr-sac"], settings["sac"]
    facts = {**sac, **about, "n_train": settings["n_train"], "layers": tuple(sac["hidden"])}
    made = told(NAME, "made", **facts)
    if not settings["trained"]:
        made += " " + told(NAME, "quick")
    statuses = [run["status"] for runs in numbers["status"].values() for run in runs]
    settled, runs = statuses.count("tolerance_reached"), len(statuses)
    away = len(settings["seeds"]) - len(numbers["status"]["rpvi-control"])
    out = [made, told(NAME, "settled", settled=settled, runs=runs, away=away), told(NAME, "sizes")]
    if "damped" in numbers["variants"]:
        costs = []
        for lam in settings["lams"]:
            found = numbers["variants"]["damped"][f"srvi {lam:g}"]
            fine = [i for i, why in enumerate(found["failed"]) if why is None]
            for m, word in (("mean", "training"), ("cvar", "training cvar")):
                plain_run = x[f"srvi {lam:g}", "training", m][fine]
                i = mean_interval(np.array([found[word][i] for i in fine]) - plain_run)
                costs.append((f"{m} at λ = {lam:g}", i))
        least = min(costs, key=lambda c: c[1].low)
        most = max(costs, key=lambda c: c[1].high)
        out.append(told(NAME, "damped", least=least, most=most))
    if MORE_DATA in numbers["variants"]:
        name = f"srvi {settings['lams'][-1]:g}"
        found = numbers["variants"][MORE_DATA][name]
        fine = [i for i, why in enumerate(found["failed"]) if why is None]
        few = x[name, "held-out", "mean"][fine] - x[name, "true", "mean"][fine]
        many = np.array([found["held-out"][i] - found["true"][i] for i in fine])
        gaps = {k: interval_of(mean_interval(v)) for k, v in (("few", few), ("many", many))}
        out.append(told(NAME, "data", lam=settings["lams"][-1], n=len(fine), **gaps))
    return out


# -------------------------------------------------------------------- picture
def _returns(axes: Axes, numbers: Mapping[str, Any], word: str) -> None:
    """Averages over logs with their intervals."""
    labels, points = [], []
    for name, found in numbers["scores"].items():
        base, _, form = name.partition(" ")
        if base not in LOOKS:
            continue
        text, colour, marker = LOOKS[base]
        i, j = (mean_interval(found[word][m]) for m in MEASURES)
        points.append((i.value, j.value))
        axes.plot([i.low, i.high], [j.value] * 2, color=colour, linewidth=1, alpha=0.5)
        axes.plot([i.value] * 2, [j.low, j.high], color=colour, linewidth=1, alpha=0.5)
        first = form in ("", "mean", f"{numbers['lams'][0]:g}")
        axes.plot(
            i.value, j.value, marker, markeredgecolor=colour, linestyle="", markersize=8,
            markerfacecolor="white" if form == "table" else colour, label=text if first else None,
        )  # fmt: skip
        if base == "srvi":
            labels.append(Label(i.value, j.value, short(float(form)), colour))
        elif form in MEASURES:
            labels.append(Label(i.value, j.value, {"cvar": "CVaR"}.get(form, form), colour))
    axes.set_xlabel("mean return over models")
    axes.set_ylabel(f"CVaR at α = {numbers['alpha']:g}: worst {100 * (1 - numbers['alpha']):.0f} %")
    axes.set_title(f"{word} models", fontsize=10)
    plain(axes)
    low, high = np.min(points, axis=0), np.max(points, axis=0)
    pad = 0.2 * (high - low) + 1e-9  # a long interval may leave the picture
    axes.set_xlim(low[0] - pad[0], high[0] + pad[0])
    axes.set_ylim(low[1] - pad[1], high[1] + pad[1])
    place(axes, labels, np.array(points))


def _promises(axes: Axes, numbers: Mapping[str, Any]) -> None:
    """What held-out models say of every policy against what it earns in the simulator.

    Most points lie within a few units; the few policies far below are counted in the title.
    """
    every = []
    for name, found in numbers["scores"].items():
        base, _, form = name.partition(" ")
        if base not in LOOKS or form == "table":
            continue
        _, colour, marker = LOOKS[base]
        x, y = found["held-out"]["mean"], found["true"]["mean"]
        axes.plot(x, y, marker, color=colour, markersize=4, alpha=0.5, linestyle="")
        every += list(zip(x, y, strict=True))
    ends = np.quantile(every, [0.03, 1.0]) + np.array([-0.5, 0.5])
    outside = int((np.min(every, axis=1) < ends[0]).sum())
    axes.plot(ends, ends, color="#999999", linewidth=0.8)
    axes.set(xlim=ends, ylim=ends)
    axes.set_xlabel("mean return that held-out models say")
    axes.set_ylabel("mean return in the simulator")
    more = f" ({outside} of {len(every)} below)" if outside else ""
    axes.set_title(f"what comes true, log by log{more}", fontsize=10)
    plain(axes)
