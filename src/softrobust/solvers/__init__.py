"""One file per algorithm; `solve(problem, solver)` runs any of them."""

from softrobust.solvers.base import Deadline, Solution, Solver, Status, finish, solve, solve_grid
from softrobust.solvers.deterministic import Deterministic
from softrobust.solvers.exact import Exact
from softrobust.solvers.local_search import LocalSearch
from softrobust.solvers.milp import MILP, write_milp
from softrobust.solvers.multi_model import CADP, MVP, WSU, TimedSolution
from softrobust.solvers.nominal import Empirical, Nominal
from softrobust.solvers.randomized import RandomizedAscent
from softrobust.solvers.s_rect import SRect
from softrobust.solvers.sa_rect import SARect

__all__ = [
    "CADP",
    "MILP",
    "MVP",
    "WSU",
    "Deadline",
    "Deterministic",
    "Empirical",
    "Exact",
    "LocalSearch",
    "Nominal",
    "RandomizedAscent",
    "SARect",
    "SRect",
    "Solution",
    "Solver",
    "Status",
    "TimedSolution",
    "finish",
    "solve",
    "solve_grid",
    "write_milp",
]
