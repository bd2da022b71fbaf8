"""The paper's worlds: each gives a true model, a log, a posterior and a problem."""

from softrobust.domains.base import Domain, TabularDomain
from softrobust.domains.cancer import CancerGrowth, CancerSimulator
from softrobust.domains.inventory import Inventory
from softrobust.domains.pest import PestControl
from softrobust.domains.random import RandomMDP, random_mdp
from softrobust.domains.registry import DOMAINS, make_domain
from softrobust.domains.riverswim import RiverSwim

__all__ = [
    "DOMAINS",
    "CancerGrowth",
    "CancerSimulator",
    "Domain",
    "Inventory",
    "PestControl",
    "RandomMDP",
    "RiverSwim",
    "TabularDomain",
    "make_domain",
    "random_mdp",
    "register_envs",
]


def register_envs() -> None:
    """Register softrobust/PestControl-v0 and the others with Gymnasium."""
    from softrobust.domains.envs import register_envs as register

    register()
