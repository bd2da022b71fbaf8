"""One file per algorithm; `solve(problem, solver)` runs any of them."""

from softrobust.solvers.base import Deadline, Solution, Solver, Status, finish, solve, solve_grid
from softrobust.solvers.baselines.ball_robust import L1Robust, LInfRobust
from softrobust.solvers.baselines.bcr import BCR
from softrobust.solvers.baselines.behaviour import Behaviour, behaviour_policy
from softrobust.solvers.baselines.draws import PosteriorDraws, SaturationWarning
from softrobust.solvers.baselines.multi_model import CADP, MVP, WSU, TimedSolution
from softrobust.solvers.baselines.nominal import Empirical, Nominal
from softrobust.solvers.baselines.rsvf import RSVF, RSVFSimple
from softrobust.solvers.baselines.spibb import SPIBB
from softrobust.solvers.baselines.var_bellman import VaRBellman, WorstModel
from softrobust.solvers.continuous.base import ContinuousSolution, ContinuousSolver, LinearValue
from softrobust.solvers.continuous.behaviour import ContinuousBehaviour, continuous_behaviour
from softrobust.solvers.continuous.sac import SAC, RobustSAC, SoftRobustSAC
from softrobust.solvers.continuous.srvi import RPVI, SRVI, SRVISA, WorstModelVI
from softrobust.solvers.exact.exact import Exact
from softrobust.solvers.exact.local_search import LocalSearch
from softrobust.solvers.exact.milp import MILP, write_milp
from softrobust.solvers.exact.randomized import Deterministic, RandomizedAscent
from softrobust.solvers.rectangular.rectangular import SARect, SRect, rectangular_value_iteration

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
