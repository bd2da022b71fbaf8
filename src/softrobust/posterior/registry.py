"""Posteriors by the name that the command line uses, with their settings as words."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, cast

from softrobust.errors import InputError
from softrobust.posterior.base import Posterior
from softrobust.posterior.demand import Shop
from softrobust.posterior.nuts import Nuts
from softrobust.posterior.saved import POSTERIORS

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
