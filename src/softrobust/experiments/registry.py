"""Experiments by the name that the command line uses; another one is one more line here."""

from __future__ import annotations

import difflib
from importlib import import_module

from softrobust.errors import InputError
from softrobust.experiments.base import Experiment

ALL = "all"
EXPERIMENTS = {
    "optimizers-curse": "softrobust.experiments.optimizers_curse:OptimizersCurse",
    "pest-density": "softrobust.experiments.pest_density:PestDensity",
    "pest-frontier": "softrobust.experiments.pest_frontier:PestFrontier",
    "inventory": "softrobust.experiments.inventory:InventoryFrontier",
    "riverswim": "softrobust.experiments.riverswim:RiverswimFrontier",
    "cancer": "softrobust.experiments.cancer:Cancer",
    "truth": "softrobust.experiments.truth:Truth",
}


def make_experiment(name: str) -> Experiment:
    """The experiment called `name`."""
    if name not in EXPERIMENTS:
        close = difflib.get_close_matches(name, [*EXPERIMENTS, ALL], n=1)
        hint = f" Did you mean '{close[0]}'?" if close else ""
        known = ", ".join([*EXPERIMENTS, ALL])
        raise InputError(f"There is no experiment '{name}'.{hint} Experiments: {known}.")
    module, _, attribute = EXPERIMENTS[name].partition(":")
    made = getattr(import_module(module), attribute)()
    if not isinstance(made, Experiment):
        raise TypeError(f"{EXPERIMENTS[name]} is no experiment.")
    return made


def experiment_names(name: str) -> list[str]:
    """One name, or every name for "all"."""
    if name == ALL:
        return list(EXPERIMENTS)
    make_experiment(name)
    return [name]
