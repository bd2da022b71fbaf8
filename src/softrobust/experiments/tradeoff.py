"""Figures 4, 6 and 7: what a method earns on average against what it earns in the bad case.

Every data seed gives a log, a posterior, training and held-out models; every method a curve over
λ. Points are averages over logs. The logs of one domain differ far more than the methods do, so
intervals are those of the difference to the nominal policy on the same log.

Curves are compared by one number, their height: for a weight w of the bad case the score of a
curve is (1 − w)·mean + w·CVaR at the λ that scores best on the training models, and the height is
the average over w = 0, ¼, ½, ¾, 1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from softrobust.experiments.base import Experiment, Findings, Results, finished
from softrobust.experiments.claims import Claim
from softrobust.experiments.curves import MEASURES, MODELS, Curves
from softrobust.experiments.intervals import mean_interval
from softrobust.experiments.labels import short
from softrobust.experiments.methods import LOOKS
from softrobust.experiments.tables import Table
from softrobust.objective import SoftRobust
from softrobust.runner import Task, task_key

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LAMS = [0.0, 0.25, 0.5, 0.75, 1.0]


class TradeoffExperiment(Experiment):
    """A figure of curves; the variants of a domain are its rows."""

    __slots__ = ()
    domain: ClassVar[str]
    variants: ClassVar[Mapping[str, Mapping[str, Any]]]

    def tasks(self, settings: Mapping[str, Any]) -> list[Task]:
        """One for each variant and data seed."""
        return [task for label in settings["variants"] for task in self._of(settings, label)]

    def _of(self, settings: Mapping[str, Any], label: str) -> list[Task]:
        i = list(settings["variants"]).index(label)
        passed = ("methods", "lams", "alpha", "n_train", "n_test", "nodes")
        return [
            Task(
                task_key(self.name, f"variant{i}", f"seed{seed:03d}"),
                "softrobust.experiments.curves:one_log",
                {
                    "domain": self.domain,
                    "domain_settings": dict(settings["variants"][label]),
                    "seed": seed,
                    **{name: settings[name] for name in passed},
                },
            )
            for seed in settings["seeds"]
        ]

    def gather(self, settings: Mapping[str, Any], results: Results) -> Findings:
        """Averages, tables and verdicts of every variant."""
        words = SoftRobust(1.0, settings["alpha"]).words
        numbers: dict[str, Any] = {"tail_words": words, "variants": {}}
        tables: list[Table] = []
        claims: list[Claim] = []
        remarks: list[str] = []
        for label in settings["variants"]:
            logs = finished(self._of(settings, label), results)
            curves = Curves.of(logs)
            numbers["variants"][label] = {
                "scale": curves.scales,
                "points": _points(curves),
                **curves.numbers(),
            }
            tables += [_table(curves, label, words), _heights(curves, label)]
            claims += self.claims(curves, label)
            remarks += self.remarks(curves, label, logs)
        return Findings(numbers, tables, claims, remarks)

    @abstractmethod
    def claims(self, curves: Curves, label: str) -> list[Claim]:
        """The paper's claims on this figure."""

    def remarks(self, curves: Curves, label: str, logs: Sequence[Mapping[str, Any]]) -> list[str]:
        """How far the static optimum was proven: the gap as a share of what is to be gained."""
        gaps = sorted(g for log in logs for g in _gaps(log))
        if not gaps:
            return []
        where = f"{label}: " if label else ""
        return [
            f"{where}the static policy is the best deterministic one found (SRVI's may randomise); "
            f"its proof leaves room for at most {100 * gaps[-1]:.2g} % of what is to be gained on "
            f"any log and λ (median {100 * gaps[len(gaps) // 2]:.2g} %)."
        ]

    def draw(self, numbers: Mapping[str, Any]) -> Figure:
        """Curves, λ beside the points."""
        from softrobust.experiments.tradeoff_figure import draw

        return draw(numbers)


def _gaps(log: Mapping[str, Any]) -> list[float]:
    static = log["curves"].get("static", {"gap": [], "own": []})
    pairs = zip(static["gap"], static["own"], strict=True)
    return [g * abs(own) / log["scale"]["training"] for g, own in pairs if g is not None]


def _points(curves: Curves) -> dict[str, list[dict[str, Any]]]:
    """Averages with intervals, and paired differences to the nominal policy, by method and λ."""
    out: dict[str, list[dict[str, Any]]] = {}
    for name, lams in curves.lams.items():
        out[name] = [{"lam": lam, **_measured(curves, name, lam)} for lam in lams]
    return out


def _measured(curves: Curves, name: str, lam: float | None) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for models in MODELS:
        out[models] = {}
        for key in MEASURES:
            x = curves.at(name, lam, models, key)
            base = curves.at("nominal", None, models, key)
            out[models][key] = {
                **mean_interval(x).as_dict(),
                "less_nominal": mean_interval(x - base).as_dict(),
            }
    return out


def _table(curves: Curves, label: str, words: str) -> Table:
    rows = []
    for name, lams in curves.lams.items():
        for lam in lams:
            cells: list[Any] = [LOOKS[name].label, "–" if lam is None else short(lam)]
            for models in MODELS:
                for key in MEASURES:
                    x = curves.at(name, lam, models, key)
                    base = curves.at("nominal", None, models, key)
                    cells += [float(x.mean())] if name == "nominal" else [mean_interval(x - base)]
            rows.append(cells)
    nominal = next(i for i, row in enumerate(rows) if row[0] == LOOKS["nominal"].label)
    rows = [rows[nominal], *rows[:nominal], *rows[nominal + 1 :]]
    where = f" ({label})" if label else ""
    return Table.of(
        f"Average return and bad case by method and λ{where}",
        f"The first row is the nominal policy's own return, averaged over {len(curves.seeds)} "
        "logs; the others are differences to it on the same log, with 95 % intervals over logs. "
        f"Bad case: {words}.",
        ["method", "λ", "training: mean", "training: bad case", "held-out: mean",
         "held-out: bad case"],
        rows,
    )  # fmt: skip


def _heights(curves: Curves, label: str) -> Table:
    rows = [
        [LOOKS[name].label]
        + [curves.less(curves.height(name, m), curves.height("nominal", m)) for m in MODELS]
        for name in curves.lams
        if name != "nominal"
    ]
    where = f" ({label})" if label else ""
    return Table.of(
        f"Height of each curve over the nominal policy{where}",
        "(1 − w)·mean + w·bad case at the λ that is best on the training models, averaged over "
        "w = 0, ¼, ½, ¾, 1.",
        ["method", "training", "held-out"],
        rows,
    )
