"""What Python itself says of a wrong argument names neither it nor the rule: said in words."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

import numpy as np

from softrobust._core.limits import OutOfTime
from softrobust._core.settings import is_bool, refused
from softrobust.errors import SoftRobustError

_F = TypeVar("_F", bound=Callable[..., Any])
VARIABLE = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def names_arguments(function: _F) -> _F:
    """A function, or a class as it is made, that says which argument is not what it asks for.

    Nothing is looked at where all goes well. Where an error of Python's own comes up, the first
    argument that does not fit its annotation is refused; an error that none explains stays.
    """
    call: Any = vars(function)["__init__"] if isinstance(function, type) else function

    @wraps(call)
    def told(*given: Any, **named: Any) -> Any:
        try:
            return call(*given, **named)
        except (SoftRobustError, OutOfTime):
            raise
        except Exception as error:
            try:
                arguments = signature(call).bind(*given, **named).arguments
            except TypeError:  # too few or too many
                raise error from None
            for name, value in arguments.items():
                kind = _annotation(call, name)
                if not _fits(kind, value):
                    raise refused(name, _in_words(kind), value, "") from error
                if _ragged(value):
                    raise refused(name, "rows of one length", value, "") from error
            raise

    if isinstance(function, type):
        function.__init__ = told  # type: ignore[misc]
        return function
    return cast(_F, told)


def _annotation(call: Callable[..., Any], name: str) -> Any:
    """That of a parameter, Any where it has none or needs what type checkers alone import."""
    parameter = signature(call).parameters[name]
    text, plain = parameter.annotation, parameter.kind not in VARIABLE
    if not isinstance(text, str):
        return text if plain and text is not Parameter.empty else Any
    try:
        return eval(text, vars(sys.modules[call.__module__])) if plain else Any
    except (NameError, AttributeError, TypeError):
        return Any


def _fits(kind: Any, value: Any) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType) and complex in inner:  # ArrayLike
        return (value is None and NoneType in inner) or _are_numbers(value)
    if origin in (Union, UnionType):
        return any(_fits(one, value) for one in inner)
    if kind in (None, NoneType):
        return value is None
    if isinstance(value, int) and abs(value) >= 2**63:
        return kind is Any
    if kind is float:
        return isinstance(value, (int, float, np.number)) and not is_bool(value) and value == value
    if kind is int:
        return hasattr(value, "__index__") and not is_bool(value) and np.ndim(value) == 0
    if origin is Annotated:
        return _fits(inner[0], value)
    if origin is Literal:
        return isinstance(value, str) and value in inner
    if origin is np.ndarray:
        return _are_numbers(value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        own = isinstance(value, Mapping)
        return own and _fit(inner[:1], value) and _fit(inner[1:], value.values())
    if isinstance(origin, type) and issubclass(origin, Iterable):
        listed = isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))
        return listed and (not isinstance(value, (Sequence, np.ndarray)) or _fit(inner[:1], value))
    if kind is Any or not isinstance(origin or kind, type):
        return True
    if getattr(kind, "_is_protocol", False) and not getattr(kind, "_is_runtime_protocol", False):
        return all(hasattr(value, name) for name in vars(kind) if not name.startswith("_"))
    return isinstance(value, origin or kind)


def _fit(kinds: tuple[Any, ...], values: Iterable[Any]) -> bool:
    return not kinds or all(_fits(kinds[0], value) for value in values)


def _ragged(value: Any) -> bool:
    try:
        np.asarray(value if isinstance(value, (list, tuple)) else 0)
    except ValueError:
        return True
    return False


def _are_numbers(value: Any) -> bool:
    if _ragged(value):
        return False
    array = np.asarray(value)
    return array.dtype.kind in "biuf" and array.size > 0


_WORDS = {
    float: "a number",
    int: "a whole number",
    str: "text",
    Path: "a file name",
    NoneType: "None",
}


def _in_words(kind: Any) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is np.ndarray or complex in inner:
        return "numbers"
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_in_words(one) for one in inner))
    if origin is Literal:
        return " or ".join(map(str, inner))
    if origin is Annotated:
        return _in_words(inner[0])
    of = f" of {_in_words(inner[0])}" if inner and issubclass(origin, Iterable) else ""
    name = (origin or kind).__name__
    return _WORDS.get(kind, f"a {name.lower() if of else name}{of}")
