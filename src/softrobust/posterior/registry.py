"""The one place that knows every posterior: by the name that files and the command line use.

Only the classes named here (and those that the reader passes) are ever built from a file.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from softrobust._core.arguments import names_arguments
from softrobust._core.files import read_npz, rebuilding, under
from softrobust._core.schema import parse
from softrobust._core.settings import did_you_mean, from_settings, setting_names
from softrobust.data.continuous import ContinuousLog
from softrobust.data.labels import Labels
from softrobust.data.readers import log_from_arrays
from softrobust.data.rewards import rewards_from_arrays
from softrobust.errors import InputError
from softrobust.models.gaussian import GaussianFrame
from softrobust.posterior.base import (
    FORMAT_VERSION,
    POSTERIOR_FORMAT,
    Arrays,
    Fitted,
    Frame,
    Posterior,
)
from softrobust.posterior.demand import DemandPosterior, Shop
from softrobust.posterior.dirichlet import DirichletPosterior, HierarchicalPosterior
from softrobust.posterior.external import DrawsPosterior, ExternalPosterior
from softrobust.posterior.learned import LearnedPosterior
from softrobust.posterior.nuts import Nuts
from softrobust.posterior.population import PopulationPosterior
from softrobust.posterior.regression import RegressionPosterior
from softrobust.posterior.tied import TiedPosterior

Kinds = Iterable[type[Posterior]]
POSTERIORS: dict[str, type[Posterior]] = {
    cls.name: cls
    for cls in (
        DirichletPosterior, LearnedPosterior, TiedPosterior, HierarchicalPosterior, DemandPosterior,
        PopulationPosterior, RegressionPosterior, DrawsPosterior, ExternalPosterior,
    )
}  # fmt: skip
REFITTED = tuple(cls for cls in POSTERIORS.values() if cls is not ExternalPosterior)
NAMES = tuple(name for name in POSTERIORS if name != ExternalPosterior.name)
TABLES = tuple(name for name in NAMES if name != RegressionPosterior.name)
_PARTS: dict[str, Any] = {cls.__name__: cls for cls in (Frame, GaussianFrame, Nuts, Shop)}


def settings_of(name: str) -> tuple[str, ...]:
    """The settings that a posterior has, those of its sampler or its shop among them.

    Examples
    --------
    >>> settings_of("hierarchical")
    ('centre', 'min_count', 'spread', 'support')
    """
    if name not in NAMES:
        raise InputError(
            f"Unknown posterior '{name}'.{did_you_mean(name, NAMES)} The posteriors are "
            f"{', '.join(NAMES)}.",
            arguments=("posterior",),
        )
    return setting_names(POSTERIORS[name])


def make_posterior(name: str, **settings: Any) -> Posterior:
    """A posterior by name; settings of its sampler or its shop are given like its own.

    Examples
    --------
    >>> make_posterior("population", chains=2, start=10).start
    10
    """
    settings_of(name)  # refuses a name that is none
    return cast(Posterior, from_settings(POSTERIORS[name], f"The posterior {name}", settings))


@names_arguments
def load_posterior(path: str | Path, kinds: Kinds = (), rows: Any = None) -> Fitted:
    """Read what `Fitted.save` wrote.

    Parameters
    ----------
    kinds : classes of your own
        Posteriors that are not part of the package, known by their `name`.
    rows : callable, optional
        The function draw → rows of an `ExternalPosterior`: a file holds no code.
    """
    arrays = read_npz(path, POSTERIOR_FORMAT, FORMAT_VERSION)
    return posterior_of(arrays, Path(path), kinds, rows)


def posterior_of(arrays: Arrays, path: Path, kinds: Kinds = (), rows: Any = None) -> Fitted:
    """The fit in the arrays of a file (`Fitted.to_arrays`)."""
    with rebuilding("posterior", path):
        record = parse(str(arrays["record"]))
        known = POSTERIORS | {cls.name: cls for cls in kinds}
        if record["name"] not in known:
            raise InputError(
                f"{path.name} holds a posterior '{record['name']}', which is not known. "
                "Pass its class: load_posterior(path, kinds=[…])."
            )
        values = {k: _decode(v, arrays) for k, v in record["settings"].items()}
        if record["name"] == ExternalPosterior.name:
            if rows is None:
                raise InputError(
                    "A file holds no code: pass the function again, load_posterior(path, rows=…)."
                )
            values["rows"] = rows
        log: Any = None
        if record["log"] == "continuous":
            log = ContinuousLog.restored(under("log:", arrays), path.name)
        elif record["log"] == "table":
            log = log_from_arrays(under("log:", arrays), path)
        return known[record["name"]](**values).restore(log, under("own:", arrays))


def _decode(value: Any, arrays: Arrays) -> Any:
    """The inverse of how a fit encodes its settings."""
    if not isinstance(value, dict):
        return value
    if "labels" in value:
        return Labels(tuple(value["labels"]), noun=value["noun"])
    if "rewards" in value:
        return rewards_from_arrays(under(f"{value['rewards']}:", arrays))
    if "tuple" in value:
        return tuple(_decode(x, arrays) for x in value["tuple"])
    if "mapping" in value:
        return {k: _decode(x, arrays) for k, x in value["mapping"].items()}
    if "part" in value:
        return _PARTS[value["part"]](**{k: _decode(x, arrays) for k, x in value["fields"].items()})
    return None if "function" in value else arrays[value["array"]]
