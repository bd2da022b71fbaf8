"""One file per algorithm; `solve(problem, solver)` runs any of them."""

from softrobust.solvers.base import Deadline, Solution, Solver, Status, finish, solve, solve_grid
from softrobust.solvers.bcr import BCR
from softrobust.solvers.behaviour import Behaviour, behaviour_policy
from softrobust.solvers.continuous_base import ContinuousSolution, ContinuousSolver, LinearValue
from softrobust.solvers.continuous_behaviour import ContinuousBehaviour, continuous_behaviour
from softrobust.solvers.deterministic import Deterministic
from softrobust.solvers.draws import PosteriorDraws, SaturationWarning
from softrobust.solvers.exact import Exact
from softrobust.solvers.l1_robust import L1Robust, LInfRobust
from softrobust.solvers.local_search import LocalSearch
from softrobust.solvers.milp import MILP, write_milp
from softrobust.solvers.multi_model import CADP, MVP, WSU, TimedSolution
from softrobust.solvers.nominal import Empirical, Nominal
from softrobust.solvers.randomized import RandomizedAscent
from softrobust.solvers.rectangular_reference import rectangular_value_iteration
from softrobust.solvers.rsvf import RSVF
from softrobust.solvers.rsvf_simple import RSVFSimple
from softrobust.solvers.s_rect import SRect
from softrobust.solvers.sa_rect import SARect
from softrobust.solvers.sac import SAC, RobustSAC, SoftRobustSAC
from softrobust.solvers.spibb import SPIBB
from softrobust.solvers.srvi import RPVI, SRVI, SRVISA, WorstModelVI
from softrobust.solvers.var_bellman import VaRBellman
from softrobust.solvers.worst_model import WorstModel

__all__ = [
    "BCR",
    "CADP",
    "MILP",
    "MVP",
    "RPVI",
    "RSVF",
    "SAC",
    "SPIBB",
    "SRVI",
    "SRVISA",
    "WSU",
    "Behaviour",
    "ContinuousBehaviour",
    "ContinuousSolution",
    "ContinuousSolver",
    "Deadline",
    "Deterministic",
    "Empirical",
    "Exact",
    "L1Robust",
    "LInfRobust",
    "LinearValue",
    "LocalSearch",
    "Nominal",
    "PosteriorDraws",
    "RSVFSimple",
    "RandomizedAscent",
    "RobustSAC",
    "SARect",
    "SRect",
    "SaturationWarning",
    "SoftRobustSAC",
    "Solution",
    "Solver",
    "Status",
    "TimedSolution",
    "VaRBellman",
    "WorstModel",
    "WorstModelVI",
    "behaviour_policy",
    "continuous_behaviour",
    "finish",
    "rectangular_value_iteration",
    "solve",
    "solve_grid",
    "write_milp",
]
