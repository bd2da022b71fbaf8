"""One file per algorithm; `solve(problem, solver)` runs any of them."""

from softrobust.solvers.base import Deadline, Solution, Solver, Status, finish, solve, solve_grid
from softrobust.solvers.nominal import Empirical, Nominal
from softrobust.solvers.sa_rect import SARect

__all__ = [
    "Deadline",
    "Empirical",
    "Nominal",
    "SARect",
    "Solution",
    "Solver",
    "Status",
    "finish",
    "solve",
    "solve_grid",
]
