"""What a method says of its policy, and what becomes of it in worlds with a known truth.

    measure(world, size, method, seeds)  →  rows, one for each log
    measures(rows)                       →  the five measures, over the logs

For a log D of a world with practice β and optimum ρ*, a method gives a policy π, the limit that its
return should exceed with 90 %, its gain over practice, and the chance that it is better than it.
With the true return ρ(π) and the unit u = ρ* − ρ(β):

    kept     share of logs with ρ(π) ≥ the limit (where nothing is promised, nothing is broken)
    chance   mean of the stated chance against the share of logs with ρ(π) > ρ(β)
    gain     mean of the stated gain/u against the mean of (ρ(π) − ρ(β))/u
    worse    share of logs with ρ(π) < ρ(β)
    tenth    mean of (ρ(π) − ρ(β))/u over the worst tenth of the logs

Differences below 1e-9 u count as none. On *shuffled* logs (actions permuted among the rows of each
state, so that no action has any effect) it is counted how often the stated chance is 95 % or more.

Rows need numpy, scipy and numba alone, and depend on nothing but their coordinates: any machine can
make some of them.

    python -m softrobust.paper.worlds_zoo --world queue --logs 32 --rows rows.jsonl

prints the measures; rows that the file already holds are not made again. The method "over@20" is
the default for episodes of 20 steps, undiscounted, and its truth is that of 20 steps.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from softrobust import solvers
from softrobust._core.arrays import FloatArray
from softrobust.data import TransitionLog
from softrobust.domains.world import World
from softrobust.domains.zoo import JUDGING, TUNING, make_world
from softrobust.errors import InputError
from softrobust.models.policy import Policy
from softrobust.objective import SoftRobust, cvar
from softrobust.paper.claims import markdown, table
from softrobust.posterior import DirichletPosterior
from softrobust.posterior.belief import Belief
from softrobust.problem import Problem
from softrobust.returns import policy_return
from softrobust.solvers import Solver, promise

OURS, OVER = "default", "over"
N_TRAIN, N_TEST, ALPHA = 100, 300, 0.9  # round one: models to choose on, models to judge by
LEVEL = 0.9
NOTHING = 1e-9  # of the unit: a smaller difference is none
SURE = 0.95
Row = dict[str, Any]
# Settings are those of the spec's table on Wet Chicken, wherever the method is run; SPIBB trusts
# pairs seen more than 7 times. The static optimum of round one is that of the local search from
# ten starts (no branch and bound: the proof costs a minute a log and hardly moves the policy).
SOLVERS: dict[str, Callable[..., Solver]] = {
    "nominal": lambda _: solvers.Nominal(),
    "empirical": solvers.Empirical,
    "spibb": lambda log, count=8: solvers.SPIBB(log, count, "equal", "empirical"),
    "spibb-at-most": lambda log, count=8: solvers.SPIBB(log, count, "at-most", "empirical"),
    "soft-spibb": solvers.SoftSPIBB,
    "ramdp": solvers.RaMDP,
    "duipi": solvers.DUIPI,
    "round-one": lambda _: solvers.LocalSearch(),
}
# The static optimum under the learned prior, of the return, the gain over practice, the regret.
GOALS: dict[str, str | None] = {"of-return": None, "of-gain": "practice", "of-regret": "optimum"}
# "name@x" runs one of these at another setting: N∧, ε, κ, ξ.
PUBLISHED = ("spibb", "spibb-at-most", "soft-spibb", "ramdp", "duipi")
RIVALS = ("practice", *SOLVERS)
METHODS = (OURS, *RIVALS, *GOALS)


def answer(
    method: str, log: TransitionLog, gamma: float, seed: int
) -> tuple[Policy, dict[str, float | None]]:
    """Run one method on a log: its policy, and what is said of its true return.

    For a rival, the posterior of round one speaks, on models that it was not chosen on.
    """
    steps = steps_of(method)
    if method == OURS or steps is not None:
        found = promise.choose(log, gamma if steps is None else 1.0, seed=seed, horizon=steps)
        said = found.promise
        low = None if said.return_low is None else float(said.return_low)
        gain, gain_low = float(said.gain.value), float(said.gain.low)
        return found.policy, _said(low, gain, gain_low, float(said.chance))
    name, at, value = method.partition("@")
    if name not in (PUBLISHED if at else (*RIVALS, *GOALS)):
        raise InputError(
            f"There is no method '{method}'. Methods: {', '.join(METHODS)}; with a setting, such "
            f"as spibb@20: {', '.join(PUBLISHED)}, {OVER}."
        )
    train, test, practice = (_learned if name in GOALS else _round_one)(log, gamma, seed)
    policy = practice
    if name in GOALS:
        goal = train.objective.measured_against(GOALS[name])
        policy = solvers.LocalSearch().solve(replace(train, objective=goal)).policy
    if name in SOLVERS:
        setting = [float(value)] if at else []
        policy = SOLVERS[name](log, *setting).solve(train).policy
    x = policy_return(test, policy)
    more = x - policy_return(test, practice)
    low, gain_low = (float(np.quantile(y, 1 - LEVEL)) for y in (x, more))
    chance = float((more > NOTHING * max(1.0, float(np.abs(x).max()))).mean())
    return policy, _said(low, float(more.mean()), gain_low, chance)


def steps_of(method: str) -> int | None:
    """The horizon of the method "over@steps"; None for the others."""
    name, _, steps = method.partition("@")
    return int(steps) if name == OVER and steps.isdigit() and int(steps) > 0 else None


def _said(low: float | None, gain: float, gain_low: float, chance: float) -> dict[str, Any]:
    return {"low": low, "gain": gain, "gain_low": gain_low, "chance": chance}


@lru_cache(maxsize=4)
def _round_one(log: TransitionLog, gamma: float, seed: int) -> tuple[Problem, Problem, Policy]:
    """Models of the Dirichlet posterior to choose on and to judge by, and practice as logged.

    Logs are equal only to themselves: several methods on one log share its models.
    """
    rng = np.random.default_rng([1, seed])
    train, test = DirichletPosterior().fit(log).sample(N_TRAIN + N_TEST, rng).split(N_TRAIN)
    goal = SoftRobust(0.5, ALPHA)
    problem = Problem(train, rewards=log.rewards, p0=log.p0, gamma=gamma, objective=goal)
    return problem, problem.with_models(test), solvers.behaviour_policy(problem, log)[0]


@lru_cache(maxsize=4)
def _learned(log: TransitionLog, gamma: float, seed: int) -> tuple[Problem, Problem, Policy]:
    """The same under the learned prior, rewards drawn with the models where they are noisy."""
    rng = np.random.default_rng([3, seed])
    draws = Belief.of(log, gamma, N_TRAIN + N_TEST, rng).models()
    train, test = draws.split(N_TRAIN)
    problem = Problem(train, objective=SoftRobust(0.5, ALPHA))
    return problem, problem.with_models(test), solvers.behaviour_policy(problem, log)[0]


# -------------------------------------------------------------------- rows
def measure(
    world: str, size: int, method: str, seeds: Iterable[int], shuffled: bool = False
) -> list[Row]:
    """One row for each seed: what was said, and what is true.

    A row holds `true` (practice goes on where the policy says so, see `World.true_return`),
    `literal` (the log's shares taken as probabilities), `practice`, `optimum`, and `low`, `gain`,
    `gain_low`, `chance` as stated; None where nothing was said.
    """
    rows = []
    for seed in seeds:
        place = make_world(world, seed)
        log = _log(world, size, seed, shuffled)
        began = time.perf_counter()
        policy, said = answer(method, log, place.gamma, seed)
        steps = steps_of(method)
        known = (place.practice_return, place.optimum) if steps is None else place.over(steps)
        rows.append({
            "world": world, "size": size, "method": method, "seed": seed, "shuffled": shuffled,
            "rows": log.n_rows,
            "true": place.true_return(policy, log, steps),
            "literal": place.true_return(policy, horizon=steps),
            "practice": known[0],
            "optimum": known[1],
            **said,
            "seconds": round(time.perf_counter() - began, 3),
        })  # fmt: skip
    return rows


@lru_cache(maxsize=64)
def _log(world: str, size: int, seed: int, shuffled: bool) -> TransitionLog:
    """Kept, so that all methods of a task see one log."""
    log = make_world(world, seed).draw_log(size, seed)
    return shuffle_actions(log, seed) if shuffled else log


def shuffle_actions(log: TransitionLog, seed: int) -> TransitionLog:
    """The log with actions permuted among the rows of each state: none has any effect."""
    rng = np.random.default_rng([2, seed])
    a = np.array(log.a)
    for s in np.unique(log.s):
        rows = np.flatnonzero(log.s == s)
        a[rows] = a[rng.permutation(rows)]
    states, actions = np.array(log.states.names), np.array(log.actions.names)
    return TransitionLog.from_arrays(
        states[log.s], actions[a], states[log.s_next], log.reward, log.episode,
        state_names=log.states, action_names=log.actions, source="a shuffled log",
    )  # fmt: skip


def gains(rows: Sequence[Mapping[str, Any]]) -> FloatArray:
    """True gains over practice in units of optimum − practice; less than 1e-9 is none."""
    x = np.array([(r["true"] - r["practice"]) / (r["optimum"] - r["practice"]) for r in rows])
    return np.where(np.abs(x) <= NOTHING, 0.0, x)


def kept(row: Mapping[str, Any]) -> bool:
    """Whether the true return is at least the stated limit."""
    unit = row["optimum"] - row["practice"]
    return row["low"] is None or bool(row["true"] >= row["low"] - NOTHING * unit)


def measures(rows: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """The five measures over logs, and `mean` and `tail` of the true return itself."""
    gain, true = gains(rows), np.array([r["true"] for r in rows])
    unit = np.array([r["optimum"] - r["practice"] for r in rows])
    spoken = all(r["chance"] is not None for r in rows)
    return {
        "logs": float(len(rows)),
        "kept": float(np.mean([kept(r) for r in rows])) if spoken else None,
        "chance_said": float(np.mean([r["chance"] for r in rows])) if spoken else None,
        "chance_true": float((gain > 0).mean()),
        "gain_said": float(np.mean([r["gain"] for r in rows] / unit)) if spoken else None,
        "gain_true": float(gain.mean()),
        "worse": float((gain < 0).mean()),
        "tenth": cvar(gain, None, 0.9),
        "mean": float(true.mean()),
        "tail": cvar(true, None, 0.9),
        "literal": float(np.mean([r["literal"] for r in rows])),
        "seconds": float(np.mean([r.get("seconds", 0.0) for r in rows])),
    }


def sure(row: Mapping[str, Any]) -> bool:
    """Whether the stated chance of a (shuffled) log is 95 % or more."""
    return row["chance"] is not None and row["chance"] >= SURE


def by_cell(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows that agree in the named fields, together."""
    cells: dict[tuple[Any, ...], list[Row]] = {}
    for r in rows:
        cells.setdefault(tuple(r[name] for name in names), []).append(r)
    return cells


def task(
    world: str, size: int, methods: list[str], first: int, count: int, shuffled: bool
) -> dict[str, Any]:
    """Task of the runner: several methods on the same logs."""
    seeds = range(first, first + count)
    rows = [r for seed in seeds for m in methods for r in measure(world, size, m, [seed], shuffled)]
    for r in rows:
        del r["seconds"]  # results depend on no clock
    return {"rows": rows}


# -------------------------------------------------------------------- by hand, and in shards
def size_of(world: World, text: str) -> int:
    """A size by its number (0, 1, 2) or by its rows."""
    rows = [s.most_rows for s in world.sizes]
    if text in ("0", "1", "2"):
        return int(text)
    if text.isdigit() and int(text) in rows:
        return rows.index(int(text))
    raise InputError(f"'{text}' is no size of {world.name}. Sizes: 0, 1, 2, or {rows} rows.")


def key_of(r: Mapping[str, Any]) -> tuple[Any, ...]:
    """What makes a row."""
    return (r["world"], r["size"], r["method"], r["seed"], r["shuffled"])


def read_rows(path: Path) -> list[Row]:
    """Rows of a file, one JSON object a line (.xz, too); a line cut off by a crash is left out."""
    rows = []
    data = path.read_bytes() if path.exists() else b""
    data = lzma.decompress(data) if path.suffix == ".xz" and data else data
    for line in data.decode("utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def collect(
    cells: Sequence[tuple[str, int, str, bool]], logs: int, workers: int, path: Path | None,
    block: int = 4,
) -> list[Row]:  # fmt: skip
    """Rows of all cells, in processes where asked; what `path` holds is not made again."""
    rows = [] if path is None else read_rows(path)
    done = {key_of(r) for r in rows}
    todo = []
    for world, size, method, shuffled in cells:
        left = [i for i in range(logs) if (world, size, method, i, shuffled) not in done]
        todo += [
            (world, size, method, left[i : i + block], shuffled) for i in range(0, len(left), block)
        ]
    for made in _made(todo, workers):
        rows += made
        if path is not None:
            with path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(r) + "\n" for r in made)
    wanted = {(*cell[:3], i, cell[3]) for cell in cells for i in range(logs)}
    return sorted((r for r in rows if key_of(r) in wanted), key=key_of)


def _made(todo: Sequence[tuple[Any, ...]], workers: int) -> Iterable[list[Row]]:
    if workers < 2:
        yield from (measure(*job) for job in todo)
        return
    # The processes are the parallelism, and import nothing that lies in the current folder.
    names = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONSAFEPATH")
    added = [name for name in names if name not in os.environ]
    os.environ.update(dict.fromkeys(added, "1"))
    try:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            for future in as_completed([pool.submit(measure, *job) for job in todo]):
                yield future.result()
    finally:
        for name in added:
            del os.environ[name]


def text(rows: Iterable[Row]) -> str:
    """The measures of every cell; `sure` is the share with a stated chance ≥ 95 %."""
    names = ("world", "size", "method", "shuffled")
    found = {
        cell: measures(some) | {"sure": float(np.mean([sure(r) for r in some]))}
        for cell, some in by_cell(rows, *names).items()
    }
    keys = next(iter(found.values()), {})
    lines = [(*cell, *m.values()) for cell, m in found.items()]
    return markdown(table("Measures", "", [*names, *keys], lines))


def _names(text: str) -> list[str]:
    groups = {"tuning": TUNING, "judging": JUDGING, "all": (*TUNING, *JUDGING)}
    return [name for part in text.split(",") for name in groups.get(part, (part,))]


def main(arguments: Sequence[str] | None = None) -> None:
    """`python -m softrobust.paper.worlds_zoo`."""
    ask = argparse.ArgumentParser(description="The five measures on worlds with a known truth.")
    ask.add_argument("--world", default="wet-chicken", help="names, or tuning, judging, all")
    ask.add_argument("--size", default="0,1,2", help="0, 1, 2, or the rows of a size")
    ask.add_argument("--method", default=OURS, help=f"{', '.join(METHODS)}, rivals, or spibb@20")
    ask.add_argument("--logs", type=int, default=32)
    ask.add_argument("--workers", type=int, default=0)
    ask.add_argument("--shuffled", action="store_true", help="logs whose actions do nothing")
    ask.add_argument("--rows", type=Path, help="file of rows to go on with")
    given = ask.parse_args(arguments)
    methods = [m for x in given.method.split(",") for m in (RIVALS if x == "rivals" else (x,))]
    cells = [
        (world, size_of(make_world(world), size), method, given.shuffled)
        for world in _names(given.world)
        for size in given.size.split(",")
        for method in methods
    ]
    print(text(collect(cells, given.logs, given.workers, given.rows)))


if __name__ == "__main__":
    main()
