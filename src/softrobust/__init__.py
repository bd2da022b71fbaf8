"""softrobust: choose a policy from a small log of past decisions, with a promise that comes true.

The names here are the ones most people need, in the order of the line: a log, models, a posterior,
an objective, a problem, returns, solvers, a certificate, studies, a report, a run. Everything else
lives in the stages below (`softrobust.solvers`, `softrobust.bounds`, …), which are attributes of
the package too. All of it is loaded when it is first used; `__init__.pyi` has the same names for
type checkers, and a test keeps the lists equal.
"""

from importlib import import_module
from typing import Any

from softrobust._core import __version__ as __version__

_NAMES = {
    "errors": "InputError MissingExtraError SoftRobustError SolverError",
    "data": "ContinuousLog Rewards TransitionLog read_continuous_log read_log "
    "read_trajectories save_log",
    "models": "GaussianModels ModelSet Policy read_models read_policy save_models",
    "posterior": "DemandPosterior DirichletPosterior ExternalPosterior LearnedPosterior "
    "PopulationPosterior RegressionPosterior TiedPosterior load_posterior",
    "objective": "Percentile SoftRobust cvar",
    "problem": "ContinuousProblem Problem",
    "returns": "policy_return static_return",
    "solvers": "CADP MILP SPIBB SRVI Exact Improve LocalSearch Nominal RandomizedAscent SARect "
    "SRect Solution Solver Status solve",
    "certificate": "Certificate Promise certify compare_policies",
    "study.explain": "explain",
    "study.frontier": "frontier",
    "study.value_of_data": "value_of_data",
    "domains": "make_domain",
    "report": "make_report",
    "run": "Run choose load_run",
    "run.inspect": "inspect_file",
}
_STAGES = (
    "data", "models", "posterior", "objective", "problem", "returns", "bounds", "solvers",
    "certificate", "study", "domains", "report", "run", "paper",
)  # fmt: skip
_HOME = {name: stage for stage, names in _NAMES.items() for name in names.split()}
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name in _STAGES:
        return import_module(f"softrobust.{name}")
    if name not in _HOME:
        raise AttributeError(
            f"module 'softrobust' has no attribute '{name}'; names beyond the first sixty live in "
            f"its stages: {', '.join(_STAGES)}."
        )
    value = getattr(import_module(f"softrobust.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *_STAGES]
