"""The paper's worlds: each gives a true model, a log, a posterior and a problem."""

from __future__ import annotations

from typing import Any, cast

from softrobust._core.arguments import names_arguments
from softrobust._core.settings import did_you_mean, from_settings
from softrobust.domains.base import Domain, TabularDomain
from softrobust.domains.cancer import CancerGrowth, CancerSimulator
from softrobust.domains.inventory import Inventory
from softrobust.domains.pest import PestControl
from softrobust.domains.random import RandomMDP, random_mdp
from softrobust.domains.riverswim import RiverSwim
from softrobust.errors import InputError

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
DOMAINS: dict[str, type[Domain]] = {
    cls.name: cls for cls in (PestControl, Inventory, RiverSwim, CancerGrowth, RandomMDP)
}


@names_arguments
def make_domain(name: str, **settings: Any) -> Domain:
    """A domain by name, such as "pest-control", with its settings."""
    if name not in DOMAINS:
        raise InputError(
            f"Unknown domain '{name}'.{did_you_mean(name, DOMAINS)} The domains are "
            f"{', '.join(DOMAINS)}."
        )
    return cast(Domain, from_settings(DOMAINS[name], f"The domain {name}", settings))


def register_envs() -> None:
    """Register softrobust/PestControl-v0 and the others with Gymnasium."""
    from softrobust.domains.envs import register

    register()
