"""A fitted posterior on disk: settings, data and draws in one `.npz`, without code or pickles.

Exact posteriors are fitted again from settings and data when read; samplers keep their draws and
the state of their chains. Settings are written as JSON, their arrays beside it; only the classes
named here (and those that the reader passes) are ever built from a file.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from softrobust._core.files import read_npz, write_npz
from softrobust.data.continuous import ContinuousLog
from softrobust.data.labels import Labels
from softrobust.data.readers import log_from_arrays, log_to_arrays
from softrobust.data.rewards import Rewards, rewards_from_arrays, rewards_to_arrays
from softrobust.errors import InputError
from softrobust.models.gaussian import GaussianFrame
from softrobust.posterior.base import Fitted, Posterior
from softrobust.posterior.demand import DemandPosterior, Shop
from softrobust.posterior.dirichlet import DirichletPosterior, HierarchicalPosterior
from softrobust.posterior.external import ExternalPosterior
from softrobust.posterior.frame import Frame
from softrobust.posterior.nuts import Nuts
from softrobust.posterior.population import PopulationPosterior
from softrobust.posterior.regression import RegressionPosterior
from softrobust.posterior.tied import TiedPosterior

POSTERIOR_FORMAT = "softrobust-posterior"
FORMAT_VERSION = 1
POSTERIORS: dict[str, type[Posterior]] = {
    cls.name: cls
    for cls in (
        DirichletPosterior,
        TiedPosterior,
        HierarchicalPosterior,
        DemandPosterior,
        PopulationPosterior,
        RegressionPosterior,
        ExternalPosterior,
    )
}
_PARTS: dict[str, Any] = {cls.__name__: cls for cls in (Frame, GaussianFrame, Nuts, Shop)}
Arrays = dict[str, NDArray[Any]]


def save_posterior(path: str | Path, fitted: Fitted) -> None:
    """Write a fitted posterior, atomically."""
    settings, log = getattr(fitted, "settings", None), getattr(fitted, "log", None)
    if not isinstance(settings, Posterior) or not settings.name or not is_dataclass(settings):
        raise InputError(
            f"{type(fitted).__name__} cannot be saved: it needs `settings`, a dataclass Posterior "
            "with a `name`, and the `log` it was fitted to."
        )
    arrays: Arrays = {}
    record = {
        "name": settings.name,
        "settings": {
            field.name: _encode(getattr(settings, field.name), arrays, f"setting:{field.name}")
            for field in fields(settings)
        },
        "log": {type(None): "none", ContinuousLog: "continuous"}.get(type(log), "table"),
    }
    if isinstance(log, ContinuousLog):
        arrays |= {f"log:{k}": v for k, v in log.to_arrays().items()}
    elif log is not None:
        arrays |= {f"log:{k}": np.asarray(v) for k, v in log_to_arrays(log).items()}
    arrays |= {f"own:{k}": v for k, v in fitted.arrays().items()}
    write_npz(
        path, POSTERIOR_FORMAT, FORMAT_VERSION, {"record": np.array(json.dumps(record)), **arrays}
    )


def load_posterior(
    path: str | Path, kinds: Iterable[type[Posterior]] = (), rows: Any = None
) -> Fitted:
    """Read what `save_posterior` wrote.

    Parameters
    ----------
    kinds : classes of your own
        Posteriors that are not part of the package, known by their `name`.
    rows : callable, optional
        The function draw → rows of an `ExternalPosterior`: a file holds no code.
    """
    arrays = read_npz(path, POSTERIOR_FORMAT, FORMAT_VERSION)
    try:
        record = json.loads(str(arrays["record"]))
        known = POSTERIORS | {cls.name: cls for cls in kinds}
        if record["name"] not in known:
            raise InputError(
                f"{Path(path).name} holds a posterior '{record['name']}', which is not known. "
                "Pass its class: load_posterior(path, kinds=[…])."
            )
        values = {k: _decode(v, arrays) for k, v in record["settings"].items()}
        if record["name"] == ExternalPosterior.name:
            if rows is None:
                raise InputError(
                    "A file holds no code: pass the function again, load_posterior(path, rows=…)."
                )
            values["rows"] = rows
        settings = known[record["name"]](**values)
        own = {k.removeprefix("own:"): v for k, v in arrays.items() if k.startswith("own:")}
        return settings.restore(_log(record["log"], arrays, Path(path)), own)
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise InputError(
            f"The file {Path(path).name} lacks or garbles a part of the posterior ({error}). "
            "Write it again."
        ) from None


def _log(kind: str, arrays: Mapping[str, NDArray[Any]], path: Path) -> Any:
    own = {k.removeprefix("log:"): v for k, v in arrays.items() if k.startswith("log:")}
    if kind == "none":
        return None
    return (
        ContinuousLog.restored(own, path.name)
        if kind == "continuous"
        else log_from_arrays(own, path)
    )


def _encode(value: Any, arrays: Arrays, key: str) -> Any:
    """A setting as JSON; arrays go beside it under `key`."""
    if isinstance(value, np.generic):
        value = value.item()  # a number of NumPy's is written, and read, as a plain one
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Labels):
        return {"labels": list(value), "noun": value.noun}
    if isinstance(value, Rewards):
        arrays |= {f"{key}:{name}": layer for name, layer in rewards_to_arrays(value).items()}
        return {"rewards": key}
    if isinstance(value, (tuple, list)):
        return {"tuple": [_encode(x, arrays, f"{key}:{i}") for i, x in enumerate(value)]}
    if isinstance(value, Mapping):
        return {"mapping": {str(k): _encode(x, arrays, f"{key}:{k}") for k, x in value.items()}}
    if type(value).__name__ in _PARTS:
        own = {
            f.name: _encode(getattr(value, f.name), arrays, f"{key}:{f.name}")
            for f in fields(value)
        }
        return {"part": type(value).__name__, "fields": own}
    if callable(value):
        return {"function": getattr(value, "__name__", "function")}
    arrays[key] = np.asarray(value)
    return {"array": key}


def _decode(value: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """The inverse of `_encode`."""
    if not isinstance(value, dict):
        return value
    if "labels" in value:
        return Labels(tuple(value["labels"]), noun=value["noun"])
    if "rewards" in value:
        head = f"{value['rewards']}:"
        return rewards_from_arrays(
            {k.removeprefix(head): v for k, v in arrays.items() if k.startswith(head)}
        )
    if "tuple" in value:
        return tuple(_decode(x, arrays) for x in value["tuple"])
    if "mapping" in value:
        return {k: _decode(x, arrays) for k, x in value["mapping"].items()}
    if "part" in value:
        return _PARTS[value["part"]](**{k: _decode(x, arrays) for k, x in value["fields"].items()})
    return None if "function" in value else arrays[value["array"]]


# --------------------------------------------------------------------------------------------------
# Posteriors by the name that the command line uses, with their settings as words.

_GROUPS: dict[str, Any] = {"nuts": Nuts, "shop": Shop}
NAMES = tuple(name for name in POSTERIORS if name != "external")


def make_posterior(name: str, **settings: Any) -> Posterior:
    """A posterior by name; settings of its sampler or its shop are given like its own.

    Examples
    --------
    >>> make_posterior("population", chains=2, start=10).start
    10
    """
    if name not in NAMES:
        close = difflib.get_close_matches(name, NAMES, n=1)
        hint = f" Did you mean '{close[0]}'?" if close else ""
        raise InputError(
            f"Unknown posterior '{name}'.{hint} The posteriors are {', '.join(NAMES)}."
        )
    return cast(Posterior, build(POSTERIORS[name], f"The posterior {name}", settings))


def build(cls: type[Any], what: str, settings: Mapping[str, Any]) -> Any:
    """An instance of a dataclass; settings of its parts (`nuts`, `shop`) are told apart by name."""
    default = cls()
    own = {field.name for field in fields(default)}
    known = sorted(own - {*_GROUPS, "frame"})
    place = {f.name: group for group in sorted(own & set(_GROUPS)) for f in fields(_GROUPS[group])}
    values = {key: value for key, value in settings.items() if key in known}
    for key, value in settings.items():
        if key in known:
            continue
        if key not in place:
            raise InputError(
                f"{what} has no setting '{key}'. Its settings are {', '.join([*known, *place])}."
            )
        group = place[key]
        values[group] = replace(values.get(group, getattr(default, group)), **{key: value})
    return cls(**values)
