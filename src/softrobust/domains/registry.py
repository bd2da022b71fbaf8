"""Domains by the name that the command line uses."""

from __future__ import annotations

import difflib
from typing import Any, cast

from softrobust.domains.base import Domain
from softrobust.domains.cancer import CancerGrowth
from softrobust.domains.inventory import Inventory
from softrobust.domains.pest import PestControl
from softrobust.domains.random import RandomMDP
from softrobust.domains.riverswim import RiverSwim
from softrobust.errors import InputError
from softrobust.posterior.saved import build

DOMAINS: dict[str, type[Domain]] = {
    cls.name: cls for cls in (PestControl, Inventory, RiverSwim, CancerGrowth, RandomMDP)
}


def make_domain(name: str, **settings: Any) -> Domain:
    """A domain by name, such as "pest-control", with its settings."""
    if name not in DOMAINS:
        close = difflib.get_close_matches(name, DOMAINS, n=1)
        hint = f" Did you mean '{close[0]}'?" if close else ""
        raise InputError(f"Unknown domain '{name}'.{hint} The domains are {', '.join(DOMAINS)}.")
    return cast(Domain, build(DOMAINS[name], f"The domain {name}", settings))
