"""What a method says of its policy, and what becomes of it in worlds with a known truth.

    measure(world, size, method, seeds)  →  rows, one for each log
    measures(rows)                       →  the five measures, over the logs

For a log D of a world with practice β and optimum ρ*, a method gives a policy π, the limit that its
return should exceed with 90 %, its gain over practice, and the chance that it is better than it.
With the true return ρ(π) and the unit u = ρ* − ρ(β):

    kept     share of logs with ρ(π) ≥ the limit
    chance   mean of the stated chance against the share of logs with ρ(π) > ρ(β)
    gain     mean of the stated gain/u against the mean of (ρ(π) − ρ(β))/u
    worse    share of logs with ρ(π) < ρ(β)
    tenth    mean of (ρ(π) − ρ(β))/u over the worst tenth of the logs

Differences below 1e-9 u count as none. On *shuffled* logs (actions permuted among the rows of each
state, so that no action has any effect) it is counted how often the stated chance is 95 % or more.

Rows need numpy, scipy and numba alone, and depend on nothing but their coordinates: any machine can
make some of them.

    python -m softrobust.paper.worlds_zoo --world queue --logs 32 --rows rows.jsonl

prints the measures; rows that the file already holds are not made again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, final

import numpy as np

from softrobust.data import TransitionLog
from softrobust.domains.world import World
from softrobust.domains.zoo import JUDGING, TUNING, make_world
from softrobust.errors import InputError
from softrobust.models.policy import Policy
from softrobust.objective import SoftRobust, cvar
from softrobust.posterior import DirichletPosterior
from softrobust.problem import Problem
from softrobust.returns import policy_return
from softrobust.solvers import (
    DUIPI,
    SPIBB,
    Empirical,
    LocalSearch,
    Nominal,
    RaMDP,
    SoftSPIBB,
    Solver,
    behaviour_policy,
)

OURS = "default"
CHOOSE = "softrobust.solvers.promise:choose"  # choose(log, gamma, seed=…) → .policy, .promise
N_TRAIN, N_TEST, ALPHA = 100, 300, 0.9  # round one: models to choose on, models to judge by
LEVEL = 0.9
NOTHING = 1e-9  # of the unit: a smaller difference is none
SURE = 0.95
Row = dict[str, Any]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """A policy and what is said of its true return; None where a method says nothing."""

    policy: Policy
    return_low: float | None
    gain: float | None
    gain_low: float | None
    chance: float | None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A log with the models of round one: to choose on (`train`), and to judge by (`test`)."""

    log: TransitionLog
    train: Problem
    test: Problem
    practice: Policy

    @classmethod
    def of(cls, log: TransitionLog, gamma: float, seed: int) -> Case:
        """Draw from the Dirichlet posterior of round one."""
        rng = np.random.default_rng([1, seed])
        drawn = DirichletPosterior().fit(log).sample(N_TRAIN + N_TEST, rng)
        train, test = drawn.split(N_TRAIN)
        goal = SoftRobust(0.5, ALPHA)
        problem = Problem(train, rewards=log.rewards, p0=log.p0, gamma=gamma, objective=goal)
        practice, _ = behaviour_policy(problem, log)
        return cls(log, problem, problem.with_models(test), practice)

    def judged(self, policy: Policy) -> Answer:
        """What the posterior of round one says of a policy, on models it was not chosen on."""
        x = policy_return(self.test, policy)
        gain = x - policy_return(self.test, self.practice)
        low, gain_low = np.quantile(x, 1 - LEVEL), np.quantile(gain, 1 - LEVEL)
        more = float((gain > NOTHING * max(1.0, float(np.abs(x).max()))).mean())
        return Answer(policy, float(low), float(gain.mean()), float(gain_low), more)


def _with(make: Callable[[TransitionLog], Solver]) -> Callable[[Case], Answer]:
    return lambda case: case.judged(make(case.log).solve(case.train).policy)


# Settings are those of the spec's table on Wet Chicken, wherever the method is run; SPIBB trusts
# pairs seen more than 7 times. The static optimum of round one is that of the local search from
# ten starts (no branch and bound: the proof costs a minute a log and hardly moves the policy).
RIVALS: dict[str, Callable[[Case], Answer]] = {
    "practice": lambda case: case.judged(case.practice),
    "nominal": _with(lambda _: Nominal()),
    "empirical": _with(Empirical),
    "spibb": _with(lambda log: SPIBB(log, 8, "equal", "empirical")),
    "spibb-at-most": _with(lambda log: SPIBB(log, 8, "at-most", "empirical")),
    "soft-spibb": _with(SoftSPIBB),
    "ramdp": _with(RaMDP),
    "duipi": _with(DUIPI),
    "round-one": _with(lambda _: LocalSearch()),
}
PUBLISHED = ("spibb", "spibb-at-most", "soft-spibb", "ramdp", "duipi")
# "name@x" runs a rival at another setting: N∧, ε, κ, ξ.
SETTINGS: dict[str, Callable[[TransitionLog, float], Solver]] = {
    "spibb": lambda log, x: SPIBB(log, x, "equal", "empirical"),
    "spibb-at-most": lambda log, x: SPIBB(log, x, "at-most", "empirical"),
    "soft-spibb": SoftSPIBB,
    "ramdp": RaMDP,
    "duipi": DUIPI,
}
METHODS = (OURS, *RIVALS)


def answer(method: str, log: TransitionLog, gamma: float, seed: int) -> Answer:
    """Run one method on a log."""
    if method == OURS:
        return _ours(log, gamma, seed)
    name, at, value = method.partition("@")
    if at and name in SETTINGS:
        number = float(value)
        return _with(lambda log: SETTINGS[name](log, number))(_case(log, gamma, seed))
    if method not in RIVALS:
        raise InputError(
            f"There is no method '{method}'. Methods: {', '.join(METHODS)}; with a setting, such "
            f"as spibb@20: {', '.join(SETTINGS)}."
        )
    return RIVALS[method](_case(log, gamma, seed))


@lru_cache(maxsize=4)
def _case(log: TransitionLog, gamma: float, seed: int) -> Case:
    """Logs are equal only to themselves: several methods on one log share its models."""
    return Case.of(log, gamma, seed)


def _ours(log: TransitionLog, gamma: float, seed: int) -> Answer:
    module, _, name = CHOOSE.partition(":")
    choose = getattr(import_module(module), name, None)
    if choose is None:
        raise InputError(f"The method '{OURS}' is {CHOOSE}, and this softrobust has none.")
    found = choose(log, gamma, seed=seed)
    promise = found.promise
    return Answer(
        found.policy,
        None if promise.return_low is None else float(promise.return_low),
        float(promise.gain.value),
        float(promise.gain.low),
        float(promise.chance),
    )


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
        said = answer(method, log, place.gamma, seed)
        rows.append({
            "world": world, "size": size, "method": method, "seed": seed, "shuffled": shuffled,
            "rows": log.n_rows,
            "true": place.true_return(said.policy, log),
            "literal": place.true_return(said.policy),
            "practice": place.practice_return,
            "optimum": place.optimum,
            "low": said.return_low, "gain": said.gain, "gain_low": said.gain_low,
            "chance": said.chance,
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


def measures(rows: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """The five measures over logs, and `mean` and `tail` of the true return itself."""
    unit = np.array([r["optimum"] - r["practice"] for r in rows])
    true = np.array([r["true"] for r in rows])
    gain = (true - np.array([r["practice"] for r in rows])) / unit
    gain = np.where(np.abs(gain) <= NOTHING, 0.0, gain)
    spoken = all(r["chance"] is not None for r in rows)
    low = np.array([r["low"] for r in rows]) if spoken else None
    kept = None if low is None else float((true >= low - NOTHING * unit).mean())
    return {
        "logs": float(len(rows)),
        "kept": kept,
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


def sure_share(rows: Sequence[Mapping[str, Any]]) -> float:
    """Share of (shuffled) logs on which the stated chance is 95 % or more."""
    return float(np.mean([r["chance"] is not None and r["chance"] >= SURE for r in rows]))


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


def _key(r: Mapping[str, Any]) -> tuple[Any, ...]:
    return (r["world"], r["size"], r["method"], r["seed"], r["shuffled"])


def read_rows(path: Path) -> list[Row]:
    """Rows of a file, one JSON object a line; a line cut off by a crash is left out."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
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
    done = {_key(r) for r in rows}
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
    return sorted((r for r in rows if _key(r) in wanted), key=_key)


def _made(todo: Sequence[tuple[Any, ...]], workers: int) -> Iterable[list[Row]]:
    if workers < 2:
        yield from (measure(*job) for job in todo)
        return
    names = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    added = [name for name in names if name not in os.environ]
    os.environ.update(dict.fromkeys(added, "1"))  # the processes are the parallelism
    try:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            for future in as_completed([pool.submit(measure, *job) for job in todo]):
                yield future.result()
    finally:
        for name in added:
            del os.environ[name]


def table(rows: Sequence[Row]) -> str:
    """The measures of every cell as text."""
    lines = [
        f"{'world':<20} {'rows':>5} {'method':<15} {'logs':>4}  {'kept':>5} {'chance':>12} "
        f"{'gain':>13} {'worse':>6} {'tenth':>6} | {'mean':>8} {'tail':>8} {'s':>6}"
    ]
    cells: dict[tuple[Any, ...], list[Row]] = {}
    for r in rows:
        cells.setdefault((r["world"], r["size"], r["method"], r["shuffled"]), []).append(r)
    for (world, size, method, shuffled), some in cells.items():
        place = make_world(world)
        head = f"{world:<20} {place.sizes[size].most_rows:>5} {method:<15} {len(some):>4} "
        if shuffled:
            lines.append(f"{head} shuffled: chance ≥ {SURE:g} in {sure_share(some):.3f}")
            continue
        m = measures(some)
        lines.append(
            f"{head} {_figure(m['kept'])} {_figure(m['chance_said'])} → {m['chance_true']:.2f} "
            f" {_figure(m['gain_said'])} → {m['gain_true']:.2f}  {m['worse']:6.3f} "
            f"{m['tenth']:6.2f} | {m['mean']:8.2f} {m['tail']:8.2f} {m['seconds']:6.2f}"
        )
    return "\n".join(lines)


def _figure(x: float | None) -> str:
    return "    –" if x is None else f"{x:5.2f}"


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
    print(table(collect(cells, given.logs, given.workers, given.rows)))


if __name__ == "__main__":
    main()
