"""What an experiment is: tasks that any worker can run, and what follows from their results.

    tasks(settings)  →  results by key  →  gather  →  numbers, tables, verdicts  →  draw(numbers)

`numbers` is plain JSON: the picture and the page of results are made from it alone, so they can
be made again from results.json. Nothing in it depends on a clock or on who computed what.
"""

from __future__ import annotations

import tomllib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from softrobust._core.settings import did_you_mean
from softrobust.errors import InputError, SolverError
from softrobust.paper.claims import Claim
from softrobust.run.jobs import Task, task_key

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Settings = Mapping[str, Any]
Groups = dict[str, list[tuple[Sequence[object], Settings]]]  # parts of a key, settings, by group
Results = Mapping[str, Mapping[str, Any]]
ALL = "all"
# By the name that the command line uses; another one is one more line here.
EXPERIMENTS = {
    "optimizers-curse": "softrobust.paper.optimizers_curse:OptimizersCurse",
    "pest-density": "softrobust.paper.pest_density:PestDensity",
    "pest-frontier": "softrobust.paper.tradeoff:Tradeoff",
    "inventory": "softrobust.paper.tradeoff:Tradeoff",
    "riverswim": "softrobust.paper.tradeoff:Tradeoff",
    "cancer": "softrobust.paper.cancer:Cancer",
    "truth": "softrobust.paper.truth:Truth",
    "bounds": "softrobust.paper.theory:Bounds",
    "learning": "softrobust.paper.theory:Learning",
    "worlds": "softrobust.paper.zoo_report:Worlds",
}


@cache
def catalogue() -> dict[str, dict[str, Any]]:
    """What the experiments are about, their settings, and what stands on top of their pages."""
    return tomllib.loads(Path(__file__).with_name("experiments.toml").read_text(encoding="utf-8"))


class Findings(NamedTuple):
    """What came out: every number and the tables (plain JSON), the verdicts, remarks in words."""

    numbers: dict[str, Any]
    tables: list[dict[str, Any]]
    claims: list[Claim]
    remarks: list[str]


class Experiment(ABC):
    """One figure of the paper, or one beyond it; what it is about is in the catalogue.

    There, `task` is the function ("module:name") that a task runs, with settings of its own and
    those of the experiment that are named in `shared`.
    """

    name: str

    def __init__(self, name: str = "") -> None:
        if name:  # where one class serves several figures
            self.name = name

    def words(self, key: str) -> str:
        """What the catalogue says of it: figure, title, about, caption, …"""
        return " ".join(str(catalogue()[self.name][key]).split())

    def settings(self, quick: bool) -> dict[str, Any]:
        """All that decides the numbers, as plain values."""
        found = catalogue()[self.name]
        return {**found["settings"], **(found["quick"] if quick else {})}

    @abstractmethod
    def gather(self, settings: Settings, results: Results) -> Findings:
        """Numbers, tables and verdicts from the results of all tasks that succeeded."""

    @abstractmethod
    def draw(self, numbers: Mapping[str, Any]) -> Figure:
        """The picture."""

    def groups(self, settings: Settings) -> Groups:
        """By group, such as a world: the parts of a task's key, and the settings of its own."""
        return {}

    def tasks(self, settings: Settings) -> list[Task]:
        """Independent pieces of work."""
        shared = {name: settings[name] for name in catalogue()[self.name]["shared"]}
        return [
            Task(task_key(*key), self.words("task"), {**own, **shared})
            for group in self.groups(settings).values()
            for key, own in group
        ]

    def finished(
        self, settings: Settings, results: Results, group: str = "", least: int = 2
    ) -> list[Mapping[str, Any]]:
        """Results of a group in the order of its tasks; too few of them are an error."""
        keys = [task_key(*key) for key, _ in self.groups(settings)[group]]
        found = [results[key] for key in keys if key in results]
        if len(found) < min(least, len(keys)):
            raise SolverError(
                f"Only {len(found)} of {len(keys)} tasks came to an end, too few for any figure. "
                "See the reasons in tasks/failures."
            )
        return found


def blocks(
    total: int, size: int, /, *key: str, digits: int = 5, **own: Any
) -> list[tuple[Sequence[object], Settings]]:
    """Blocks of at most `size` that make up `total`: keys of tasks, `first` and `count` of each."""
    starts = range(0, total, size)
    return [((*key, f"{i:0{digits}d}"), {**own, "first": i, "count": min(size, total - i)})
            for i in starts]  # fmt: skip


def make_experiment(name: str) -> Experiment:
    """The experiment called `name`."""
    if name not in EXPERIMENTS:
        known = [*EXPERIMENTS, ALL]
        raise InputError(
            f"There is no experiment '{name}'.{did_you_mean(name, known)} Experiments: "
            f"{', '.join(known)}."
        )
    module, _, attribute = EXPERIMENTS[name].partition(":")
    made: Experiment = getattr(import_module(module), attribute)(name)
    return made


def experiment_names(name: str) -> list[str]:
    """One name, or every name for "all"."""
    if name == ALL:
        return list(EXPERIMENTS)
    make_experiment(name)
    return [name]
