"""Soft actor-critic: plain, soft-robust and robust; one training loop in JAX, on CPU and GPU."""

from softrobust.solvers.continuous.sac.solver import SAC as SAC
from softrobust.solvers.continuous.sac.solver import ActorCritic as ActorCritic
from softrobust.solvers.continuous.sac.solver import RobustSAC as RobustSAC
from softrobust.solvers.continuous.sac.solver import SoftRobustSAC as SoftRobustSAC
