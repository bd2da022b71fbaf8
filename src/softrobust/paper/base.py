"""What an experiment is: tasks that any worker can run, and what follows from their results.

    tasks(quick)  →  results by key  →  gather  →  numbers, tables, verdicts  →  draw(numbers)

`numbers` is plain JSON: the picture and the page of results are made from it alone, so they can
be made again from results.json. Nothing in it depends on a clock or on who computed what.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, final

from softrobust._core.settings import did_you_mean
from softrobust.errors import InputError, SolverError
from softrobust.paper.claims import Claim
from softrobust.paper.tables import Table
from softrobust.run.jobs import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Results = Mapping[str, Mapping[str, Any]]
ALL = "all"
# By the name that the command line uses; another one is one more line here.
EXPERIMENTS = {
    "optimizers-curse": "softrobust.paper.optimizers_curse:OptimizersCurse",
    "pest-density": "softrobust.paper.pest_density:PestDensity",
    "pest-frontier": "softrobust.paper.tradeoffs:PestFrontier",
    "inventory": "softrobust.paper.tradeoffs:InventoryFrontier",
    "riverswim": "softrobust.paper.tradeoffs:RiverswimFrontier",
    "cancer": "softrobust.paper.cancer:Cancer",
    "truth": "softrobust.paper.truth:Truth",
    "worlds": "softrobust.paper.zoo_report:Worlds",
}


@final
@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """What came out: every number (plain JSON), the tables, the verdicts, remarks in words."""

    numbers: dict[str, Any]
    tables: Sequence[Table]
    claims: Sequence[Claim]
    remarks: Sequence[str] = ()


class Experiment(ABC):
    """One figure of the paper, or one beyond it."""

    __slots__ = ()
    name: ClassVar[str]
    figure: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]
    caption: ClassVar[str]

    @abstractmethod
    def settings(self, quick: bool) -> dict[str, Any]:
        """All that decides the numbers, as plain values."""

    @abstractmethod
    def tasks(self, settings: Mapping[str, Any]) -> list[Task]:
        """Independent pieces of work."""

    @abstractmethod
    def gather(self, settings: Mapping[str, Any], results: Results) -> Findings:
        """Numbers, tables and verdicts from the results of all tasks that succeeded."""

    @abstractmethod
    def draw(self, numbers: Mapping[str, Any]) -> Figure:
        """The picture."""


def finished(tasks: Sequence[Task], results: Results, least: int = 2) -> list[Mapping[str, Any]]:
    """Results in the order of the tasks; too few of them are an error."""
    found = [results[task.key] for task in tasks if task.key in results]
    if len(found) < min(least, len(tasks)):
        raise SolverError(
            f"Only {len(found)} of {len(tasks)} tasks came to an end, too few for any figure. See "
            "the reasons in tasks/failures."
        )
    return found


def make_experiment(name: str) -> Experiment:
    """The experiment called `name`."""
    if name not in EXPERIMENTS:
        known = [*EXPERIMENTS, ALL]
        raise InputError(
            f"There is no experiment '{name}'.{did_you_mean(name, known)} Experiments: "
            f"{', '.join(known)}."
        )
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
