"""Checks of single settings: a whole number, a number, yes or no, one of some words.

Each returns the value as plain Python, or raises an `InputError` that says the rule, what came and
what to do. Text is never read as a number, a fraction never rounded, and True is not 1. The fields
of a dataclass declare their checks as types (`Count`, `Literal["l1", "linf"]`), for `check_fields`.
"""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from softrobust.errors import InputError


def whole(name: str, value: Any, least: int = 1, most: int | None = None, hint: str = "") -> int:
    """A whole number in least … most (NumPy's integers included)."""
    rule = f"≥ {least}" if most is None else f"in {least}…{most}"
    try:
        number = None if is_bool(value) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least or (most is not None and number > most):
        raise refused(name, f"a whole number {rule}", value, hint)
    return number


def real(
    name: str,
    value: Any,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
    infinite: bool = False,
    hint: str = "",
) -> float:
    """A number, > above, ≥ least, < below, ≤ most where these are given; ∞ only if `infinite`."""
    signs = (">", above, operator.gt), ("≥", least, operator.ge), ("<", below, operator.lt)
    every = (*signs, ("≤", most, operator.le))
    bounds = [(sign, bound, fits) for sign, bound, fits in every if bound is not None]
    rules = [f"{sign} {bound:g}" for sign, bound, _ in bounds]
    kind = "a number" if infinite else "a finite number"
    rule = "a positive number" if rules == ["> 0"] else f"{kind} {' and '.join(rules)}"
    try:
        no = is_bool(value) or isinstance(value, (str, bytes)) or np.ndim(value) > 0
        number = math.nan if no else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    known = math.isfinite(number) or (infinite and number == math.inf)
    if not (known and all(fits(number, bound) for _, bound, fits in bounds)):
        raise refused(name, rule, value, hint)
    return number


def flag(name: str, value: Any) -> bool:
    """True or False, and nothing that merely counts as one of them."""
    if not is_bool(value):
        raise refused(name, "true or false", value, "")
    return bool(value)


def one_of(name: str, value: Any, words: Sequence[str]) -> str:
    """One of the words."""
    if not isinstance(value, str) or value not in words:
        raise refused(name, f"{', '.join(words[:-1])} or {words[-1]}", value, "")
    return value


def instance(name: str, value: Any, *kinds: type[Any], hint: str = "") -> None:
    """An object of a class, such as a `Shop`, or of one of several."""
    if not isinstance(value, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise refused(name, f"a {names}", value, hint or f"Pass {kinds[0].__name__}(…).")


Rule = Callable[[str, Any], Any]
Count = Annotated[int, whole]
Natural = Annotated[int, partial(whole, least=0)]
Positive = Annotated[float, partial(real, above=0)]
NotNegative = Annotated[float, partial(real, least=0)]
Number = Annotated[float, real]
Discount = Annotated[float, partial(real, above=0, below=1)]


def check_fields(settings: Any) -> None:
    """Check every field by its type: `Annotated` with a rule, Literal, bool, our classes."""
    for name, rule, optional in _rules(settings.__class__):
        value = getattr(settings, name)
        if value is not None or not optional:
            rule(name, value)


@cache
def _rules(cls: type[Any]) -> tuple[tuple[str, Rule, bool], ...]:
    """(name, rule, whether it may be None) of the fields that have one."""
    found = []
    hints = get_type_hints(cls, include_extras=True)
    for field in fields(cls):
        hint = hints[field.name]
        kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        some = [kind for kind in kinds if kind is not NoneType]
        rule = _rule(some[0]) if len(some) == 1 else None
        if rule is not None:
            found.append((field.name, rule, NoneType in kinds))
    return tuple(found)


def _rule(kind: Any) -> Rule | None:
    if get_origin(kind) is Annotated:
        rule: Rule = kind.__metadata__[0]
        return rule
    if get_origin(kind) is Literal:
        return partial(one_of, words=get_args(kind))
    if kind is bool:
        return flag
    own = isinstance(kind, type) and kind.__module__.startswith("softrobust.")
    return (lambda name, value: instance(name, value, kind)) if own else None


def did_you_mean(word: Any, known: Iterable[str], otherwise: str = "") -> str:
    """The known word that is near, whatever the case, as a question that goes on a sentence."""
    plain = {name.strip().casefold(): name.strip() for name in reversed(list(known))}
    close = difflib.get_close_matches(str(word).strip().casefold(), plain, n=1)
    return f" Did you mean '{plain[close[0]]}'?" if close else otherwise


def from_settings(cls: type[Any], what: str, settings: Mapping[str, Any]) -> Any:
    """A dataclass; settings of its parts are given like its own, but frames are not."""
    names, (_, parts) = setting_names(cls), _own_and_parts(cls)
    place = {field.name: name for name, part in parts.items() for field in fields(part)}
    values: dict[str, Any] = {}
    for key, value in settings.items():
        if key not in names:
            raise InputError(
                f"{what} has no setting '{key}'.{did_you_mean(key, names)} Its settings are "
                f"{', '.join(names)}.",
                arguments=("settings",),
            )
        if key in place:
            parts[place[key]] = replace(parts[place[key]], **{key: value})
        else:
            values[key] = value
    return cls(**values, **parts)


def setting_names(cls: type[Any]) -> tuple[str, ...]:
    """What `from_settings` takes: the class's own settings, then those of its parts."""
    own, parts = _own_and_parts(cls)
    return (*own, *(field.name for part in parts.values() for field in fields(part)))


def _own_and_parts(cls: type[Any]) -> tuple[list[str], dict[str, Any]]:
    default = cls()
    held = {field.name: getattr(default, field.name) for field in fields(default)}
    parts = {name: value for name, value in held.items() if is_dataclass(value)}
    return sorted(held.keys() - parts.keys() - {"frame"}), parts


def is_bool(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_))


def refused(name: str, rule: str, value: Any, hint: str) -> InputError:
    what = repr(value.item() if isinstance(value, np.generic) else value)  # 3, not np.int64(3)
    shown = what if len(what) <= 60 else f"{what[:57]}…"
    text = f"{name} must be {rule.strip()}; it is {shown}."
    text += f" {hint or 'Give such a value, or leave it out for the default.'}"
    return InputError(text, arguments=(name,) if name.isidentifier() else ())
