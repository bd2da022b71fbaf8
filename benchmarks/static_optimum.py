"""The static optimum: time to a proof, and what is left of the gap where others are stopped.

Two rivals in the same run: SR-MILP as the paper prints it, on HiGHS, and plain policy branch and
bound (Ahluwalia, Steimle and Denton), which is our own tree with `dual=False`. Gaps are shares of
what is to be gained over the uniform policy (`gap_share`), so rewards' offsets do not matter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.instances import DATA, inventory, pest, riverswim
from benchmarks.registry import Figure, case
from softrobust.objective import Reference, SoftRobust
from softrobust.paper.pairs import bench_of
from softrobust.problem import Problem, save_problem
from softrobust.returns import uniform_value
from softrobust.solvers.base import Solution
from softrobust.solvers.exact.exact import Exact
from softrobust.solvers.exact.local_search import LocalSearch
from softrobust.solvers.exact.milp import HIGHS_SHARE, MILP

PAPER_SECONDS, PLAIN_SECONDS, LONG_SECONDS = 120.0, 30.0, 180.0
LAMS = (0.0, 0.25, 0.5, 0.75, 1.0)


def warm(p: Problem) -> Solution:
    """Compile what the problem's size will use; the local optimum comes along."""
    Exact(node_limit=3).solve(p)
    return LocalSearch().solve(p)


def to_share(p: Problem, share: float, limit: float) -> tuple[Solution, float]:
    """Exact until `share` of the gain over the uniform policy is left; the solution and seconds."""
    local = warm(p)
    gap = share * (local.static_value - uniform_value(p)) / abs(local.static_value)
    begin = time.perf_counter()
    solution = Exact(gap=gap, time_limit=limit).solve(p)
    return solution, time.perf_counter() - begin


def paper_share(p: Problem, seconds: float) -> tuple[float, str]:
    """The gap_share of HiGHS's own incumbent and bound on the printed program; 1 without one."""
    solution = MILP(formulation="paper", time_limit=seconds / HIGHS_SHARE).solve(p)
    value, bound = solution.stats.get("milp_value"), solution.stats["highs_bound"]
    if value is None or bound is None:
        return 1.0, f"{solution.stats['highs_status']}, no incumbent"
    low = min(solution.uniform_value, value)
    seconds = solution.stats["seconds"]
    note = f"{seconds:.0f} s, its policy {value:.6g} against {solution.static_value:.6g}"
    return max(bound - value, 0.0) / max(bound - low, 1e-300), note


def rivals(p: Problem, name: str, ours: Solution, smoke: bool) -> Iterator[Figure]:
    """What the two rivals have left, as multiples of what we have."""
    share = max(ours.gap_share or 0.0, 1e-9)
    left = "times the gap left"
    plain = Exact(gap=1e-3 * share, time_limit=1.0 if smoke else PLAIN_SECONDS, dual=False).solve(p)
    note = (
        f"{100 * (plain.gap_share or 0):.3g} % left, {plain.stats['seconds']:.1f} s, "
        f"{plain.stats['nodes']} nodes; at our gap {reached(plain, share)}"
    )
    rival = f"plain policy branch and bound, {PLAIN_SECONDS:g} s"
    yield Figure(name, rival, (plain.gap_share or 0.0) / share, left, "", note)
    other, words = paper_share(p, 1.0 if smoke else PAPER_SECONDS)
    note = f"{100 * other:.3g} % left, {words}"
    yield Figure(name, f"paper's MILP, {PAPER_SECONDS:g} s", other / share, left, "", note)


def reached(solution: Solution, share: float) -> str:
    """When the course of a solve first had at most `share` left, in words."""
    low = solution.uniform_value or 0.0
    for seconds, value, bound in solution.stats["trace"]:
        if bound - value <= share * (bound - low):
            return f"after {seconds:.1f} s"
    return "never"


@case("static-pest")
def static_pest(smoke: bool) -> Iterator[Figure]:
    base = pest(6 if smoke else 100)
    for lam in (0.5,) if smoke else LAMS:
        p = replace(base, objective=SoftRobust(lam, 0.7))
        solution, seconds = to_share(p, 1e-3, 60.0)
        name = f"pest control 51 × 5 × {p.n_models}, α = .7, λ = {lam:g}, to 0.1 %"
        note = f"{100 * (solution.gap_share or 0):.2g} % left, {solution.stats['nodes']} nodes"
        yield Figure(name, "two cores", seconds, "s", "≤ 10", note)
        yield from rivals(p, name, solution, smoke)


@case("static-others")
def static_others(smoke: bool) -> Iterator[Figure]:
    size = 5 if smoke else 100
    cases = [(f"inventory 51 × 41 × {size}, to 0.1 %", inventory(size), 1e-3, "≤ 10")]
    if (DATA / "riverswim").is_dir():
        cases.append(("riverswim 20 × 2 × 100, exact", riverswim(), 1e-9, "≤ 20"))
    for name, p, share, target in cases:
        solution, seconds = to_share(p, share, 60.0)
        note = f"{100 * (solution.gap_share or 0):.2g} % left, {solution.stats['nodes']} nodes"
        yield Figure(name, "two cores", seconds, "s", target, note)
        yield from rivals(p, name, solution, smoke)


@case("static-reference")
def static_reference(smoke: bool) -> Iterator[Figure]:
    """The same proofs of the gain over a practice and of the regret, in processor time.

    Twice each: to the same share of what is to be gained over acting at random, and to the same
    absolute gap. The share is the stricter one where a bad case of the gain is smaller than the
    gain in the bad case: on pest control it leaves 3.5 open against practice, 6.1 without.
    """
    size = 5 if smoke else 100
    cases = [("pest control 51 × 5, λ = 0.5, to 0.1 %", pest(size), 1e-3)]
    cases.append(("inventory 51 × 41, to 0.1 %", inventory(size), 1e-3))
    if (DATA / "riverswim").is_dir():
        cases.append(("riverswim 20 × 2 × 100, exact", riverswim(), 1e-9))
    for name, base, share in cases:
        practice = Reference("practice", base.uniform_policy())  # who acts at random
        plain = tolerance = 0.0
        for reference in (None, practice, "optimum"):
            goal = SoftRobust(base.objective.lam, 0.7, reference)
            p = replace(base, objective=goal)
            local = warm(p).static_value
            own = share * (local - uniform_value(p))
            if reference is None:
                tolerance = own
                plain, nodes = least_time(p, own / abs(local))
                continue
            for which, gap in (("share", own), ("absolute gap", tolerance)):
                seconds, n = least_time(p, gap / abs(local))
                note = f"{seconds:.2f} s and {n} nodes against {plain:.2f} s and {nodes} nodes"
                yield Figure(
                    f"{name}, reference {goal.against}, same {which}", "the same of the return",
                    seconds / plain, "of its time", "≤ 1.5", note,
                )  # fmt: skip


def least_time(p: Problem, gap: float) -> tuple[float, int]:
    """The least of three processor times, as riverswim takes tenths of a second; and nodes."""
    seconds, nodes = np.inf, 0
    for _ in range(3):
        begin = time.process_time()
        nodes = Exact(gap=gap, time_limit=60.0).solve(p).stats["nodes"]
        seconds = min(seconds, time.process_time() - begin)
    return seconds, nodes


# Before references, horizons and proofs by our own arithmetic alone; draws its instances itself.
BEFORE, REPEATS = "48cb828", 3
DRAW = """
import sys
from dataclasses import replace
from pathlib import Path
from benchmarks.instances import DATA, inventory, pest, riverswim
from softrobust import SoftRobust, save_problem
from softrobust.pipeline.setup import Options, set_up
out = sys.argv[1]
example = set_up(Path("examples/pest_log.csv"), Options(gamma=0.9)).problem
save_problem(f"{out}/1e-9 example.npz", example)
save_problem(f"{out}/1e-3 pest.npz", replace(pest(100), objective=SoftRobust(0.5, 0.7)))
save_problem(f"{out}/1e-3 inventory.npz", inventory(100))
if (DATA / "riverswim").is_dir():
    save_problem(f"{out}/1e-9 riverswim.npz", riverswim())
"""
PROVE = """
import json, sys, time
try:
    from softrobust import Exact, LocalSearch, load_problem
    from softrobust.returns import uniform_value
except ImportError:
    from softrobust import Exact, LocalSearch
    from softrobust.problem import load_problem
    from softrobust.returns import uniform_value
p = load_problem(sys.argv[1])
Exact(node_limit=3).solve(p)
local = LocalSearch().solve(p)
gap = float(sys.argv[2]) * (local.static_value - uniform_value(p)) / abs(local.static_value)
Exact(gap=gap, time_limit=120.0).solve(p)
began = time.process_time()
found = Exact(gap=gap, time_limit=120.0).solve(p)
took = time.process_time() - began
print(json.dumps([took, found.static_value, found.bound.value, found.stats["nodes"]]))
"""


def prove(code: Path, file: Path, share: str) -> list[float]:
    """Processor seconds of one proof by the code in a folder; its value, bound and nodes."""
    one = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    env = os.environ | one | {"PYTHONPATH": str(code / "src")}
    words = [sys.executable, "-c", PROVE, str(file), share]
    done = subprocess.run(words, check=True, env=env, cwd=code, stdout=subprocess.PIPE)
    return [float(x) for x in json.loads(done.stdout)]


@case("proofs-before")
def proofs_before(smoke: bool) -> Iterator[Figure]:
    """The same proofs by the code of an earlier commit, by turns; the least time of each counts."""
    here = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        old, drawn = Path(folder) / "old", Path(folder) / "drawn"
        old.mkdir()
        drawn.mkdir()
        order = ["git", "archive", BEFORE]
        if smoke:
            old = here
            save_problem(drawn / "1e-3 pest.npz", pest(5))
        elif (packed := subprocess.run(order, cwd=here, capture_output=True)).returncode:
            print(f"proofs-before: the history does not hold {BEFORE}")
        else:
            subprocess.run(["tar", "x"], check=True, cwd=old, input=packed.stdout)
            (Path(folder) / "shared").symlink_to(DATA.parent)
            env = os.environ | {"PYTHONPATH": f"{old / 'src'}:{old}"}
            subprocess.run([sys.executable, "-c", DRAW, str(drawn)], check=True, cwd=old, env=env)
        for file in sorted(drawn.iterdir()):
            share, name = file.stem.split()
            turns = 1 if smoke else REPEATS
            pairs = [(prove(old, file, share), prove(here, file, share)) for _ in range(turns)]
            then, now = (min(pair[i] for pair in pairs) for i in (0, 1))
            note = f"{now[0]:.3f} s and {now[3]:.0f} nodes against {then[0]:.3f} s and "
            note += f"{then[3]:.0f}; value {now[1]:.10g} against {then[1]:.10g}"
            yield Figure(
                f"proof: {name}, to {100 * float(share):g} %", f"commit {BEFORE}",
                now[0] / then[0], "of its time", "≤ 1.2", note,
            )  # fmt: skip


@case("static-long")
def static_long(smoke: bool) -> Iterator[Figure]:
    """How far a harder posterior gets in three minutes."""
    few, many = (6, 20) if smoke else (100, 1000)
    text = bench_of("riverswim", {"variant": "paper", "prior": "independent"}, 0, few, 1, 0.9)
    yield in_three_minutes("riverswim as the text reads, λ = 0.5", text.at(0.5), "≤ 5", smoke)
    wide = pest(few, width=4.0)
    yield in_three_minutes("pest control, posterior 4 times wider", wide, "≤ 1", smoke)
    yield in_three_minutes("pest control, N = 1000", pest(many), "≤ 2", smoke)


@case("static-widest")
def static_widest(smoke: bool) -> Iterator[Figure]:
    """The same for the hardest of them; the machine must be quiet, for the clock ends it."""
    widest = pest(20 if smoke else 1000, width=4.0)
    yield in_three_minutes("pest control, both", widest, "≤ 2", smoke)


def in_three_minutes(name: str, p: Problem, target: str, smoke: bool) -> Figure:
    """What proofs leave open, ours and plain branch and bound."""
    warm(p)
    shares = []
    for dual in (True, False):
        solution = Exact(time_limit=1.0 if smoke else LONG_SECONDS, dual=dual).solve(p)
        shares.append((solution.gap_share or 0.0, solution.stats["nodes"]))
    note = f"{shares[0][1]} nodes; rival {100 * shares[1][0]:.3g} %, {shares[1][1]} nodes"
    return Figure(
        f"{name}, {LONG_SECONDS:g} s", "plain policy branch and bound, same time",
        100 * shares[0][0], "% of gap_share left", target, note,
    )  # fmt: skip


@case("static-search")
def static_search(smoke: bool) -> Iterator[Figure]:
    """How often local search alone has the proven optimum, on small random problems."""
    from tests.agree.static_instances import spread, static_instance

    n = 20 if smoke else 300
    hits, first = 0, 0
    for seed in range(n):
        p = static_instance(seed)
        best = Exact(gap=1e-12).solve(p).static_value
        tie = 1e-9 * spread(p) + 1e-14 * abs(best) / (1 - p.gamma)  # whatever the rewards' offset
        hits += LocalSearch().solve(p).static_value >= best - tie
        first += LocalSearch(starts=1).solve(p).static_value >= best - tie
    note = f"{100 * first / n:.3g} % from the nominal start alone"
    yield Figure(
        f"local search, {n} random problems",
        "proven optimum",
        100 * hits / n,
        "% hit",
        "≥ 97",
        note,
    )
    p = pest(6 if smoke else 100)
    LocalSearch().solve(p)
    begin = time.perf_counter()
    solution = LocalSearch().solve(p)
    seconds = time.perf_counter() - begin
    nominal = LocalSearch(starts=1).solve(p)
    np.testing.assert_array_less(nominal.static_value, solution.static_value + 1e-9)
    note = f"{solution.stats['hits']} of {solution.stats['starts']} starts end there"
    yield Figure("local search, pest control 51 × 5 × 100", "two cores", seconds, "s", "≤ 1", note)
