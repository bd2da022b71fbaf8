"""The frontier at the size of the paper's pest control, and the gain of randomizing."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.instances import pest
from benchmarks.registry import Figure, case
from softrobust.solvers import LocalSearch, RandomizedAscent
from softrobust.study.frontier import frontier

ALLOWED_SECONDS = 300.0


@case("frontier")
def frontier_at_pest_size(smoke: bool) -> Iterator[Figure]:
    problem = pest(n_models=5 if smoke else 100)
    lams = (0.0, 1.0) if smoke else tuple(i / 10 for i in range(11))
    alphas = (0.9,) if smoke else (0.7, 0.8, 0.9)
    begin = time.perf_counter()
    found = frontier(problem, lams, alphas, time_limit=1.0 if smoke else None)
    seconds = time.perf_counter() - begin
    worst = max(point.certificate.gap_share or 0.0 for point in found)
    yield Figure(
        f"frontier, {len(lams)} × {len(alphas)} points at 51 × 5 × {problem.n_models}",
        "5 minutes on 2 cores",
        seconds / ALLOWED_SECONDS,
        "of it",
        "≤ 1",
        f"{seconds:.0f} s; every point certified, the widest gap_share {100 * worst:.2g} %",
    )


@case("randomized")
def randomized_at_pest_size(smoke: bool) -> Iterator[Figure]:
    problem = pest(n_models=5 if smoke else 100)
    LocalSearch().solve(problem)  # compiles
    begin = time.perf_counter()
    LocalSearch().solve(problem)
    search = time.perf_counter() - begin
    begin = time.perf_counter()
    solution = RandomizedAscent(time_limit=2.0 if smoke else None).solve(problem)
    seconds = time.perf_counter() - begin
    gain = solution.static_value / solution.stats["deterministic_value"] - 1
    yield Figure(
        f"randomized ascent at 51 × 5 × {problem.n_models}",
        "local search over deterministic policies",
        seconds / search,
        "of its time",
        "",
        f"{seconds:.1f} s; gain over it {100 * gain:.2g} %",
    )
