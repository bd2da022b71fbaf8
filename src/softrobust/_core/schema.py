"""JSON read through a schema: what is lacking or garbled is named by its place in the file.

The part of JSON Schema (2020-12) that the published schemas use. Numbers are finite doubles: `NaN`
and `Infinity`, which are no JSON, and integers too large for a double are refused like text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from softrobust._core.files import refuse_streams
from softrobust.errors import InputError

Schema = Mapping[str, Any]
SHOWN = 60  # characters of a value that is refused
LARGEST = 2**28  # bytes of a file of JSON


def read_json(path: Path, schema: Schema | None = None) -> Any:
    """What a file of JSON holds, if it keeps to the schema."""
    refuse_streams(path)
    try:
        if (size := path.stat().st_size) > LARGEST:
            raise InputError(f"{path} has {size / 2**20:.0f} MiB, which none of our files has.")
        text = path.read_text(encoding="utf-8")
        value = parse(text, parse_constant=_no_number)
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be read as JSON ({reason}).") from None
    if schema is not None:
        check(value, schema, path)
    return value


def parse(text: str, **how: Any) -> Any:
    """What text of JSON holds; a `ValueError` where a character is half, as no file has it."""
    value = json.loads(text, **how)
    if "\\ud" in text.lower():  # only pairs of them can be written
        json.dumps(value, ensure_ascii=False).encode()
    text.encode()
    return value


def check(value: Any, schema: Schema, path: Path) -> None:
    """Refuse what does not keep to the schema; the error names the file and the field."""
    for where, fault in _faults(value, schema, schema, ""):
        raise InputError(f"{path}: {where.lstrip('.') or 'the file'} {fault}.")


@cache
def published(name: str) -> Schema:
    """A schema that comes with the package, such as `solution`."""
    text = resources.files("softrobust").joinpath(f"schemas/{name}.schema.json").read_text("utf-8")
    found: Schema = json.loads(text)
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"it holds {text}, which is no number")


def _faults(value: Any, schema: Schema, root: Schema, where: str) -> Iterator[tuple[str, str]]:
    """Places and faults, the first ones first."""
    if "$ref" in schema:
        known = root["$defs"][schema["$ref"].rpartition("/")[2]]
        yield from _faults(value, known, root, where)
    if "anyOf" in schema:
        tried = [list(_faults(value, one, root, where)) for one in schema["anyOf"]]
        if all(tried):  # the one that was meant is of this kind, and has the fewest faults
            yield min(tried, key=lambda faults: (faults[0][0] == where, len(faults)))[0]
    if "const" in schema and not _same(value, schema["const"]):
        yield where, f"must be {schema['const']}; it is {_shown(value)}"
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        names = ", ".join(map(str, schema["enum"]))
        yield where, f"must be one of {names}; it is {_shown(value)}"
    if "type" in schema:
        kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        if not any(_KINDS[kind](value) for kind in kinds):
            yield where, f"must be {' or '.join(_NAMES[k] for k in kinds)}; it is {_shown(value)}"
            return
    if isinstance(value, dict):
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{where}.{name}", "is missing"
        known, other = schema.get("properties", {}), schema.get("additionalProperties", True)
        for name, inner in value.items():
            place, own = f"{where}.{name[:SHOWN]}", known.get(name, other)
            if own is False:
                yield place, "is not a field that is known"
            elif isinstance(own, Mapping):
                yield from _faults(inner, own, root, place)
    elif isinstance(value, list):
        least, most = schema.get("minItems", 0), schema.get("maxItems", math.inf)
        if not least <= len(value) <= most:
            rule = f"{least}" if least == most else f"{least} or more"
            yield where, f"must have {rule} entries; it has {len(value)}"
        if "items" in schema:
            for i, item in enumerate(value):
                yield from _faults(item, schema["items"], root, f"{where}[{i}]")
    elif _number(value):
        for rule, words, fits in _LIMITS:
            if rule in schema and not fits(value, schema[rule]):
                yield where, f"must be {words} {schema[rule]}; it is {_shown(value)}"
    if "if" in schema:
        held = not any(_faults(value, schema["if"], root, where))
        yield from _faults(value, schema["then" if held else "else"], root, where)


def _same(value: Any, wanted: Any) -> bool:
    return type(value) is type(wanted) and value == wanted


def _shown(value: Any) -> str:
    text = "nothing" if value is None else " ".join(repr(value).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # Arrays take no whole numbers beyond this; numbers so large are written with an exponent.
    return abs(value) < 2**63 if isinstance(value, int) else math.isfinite(value)


_KINDS: dict[str, Callable[[Any], bool]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "number": _number,
    "integer": lambda v: _number(v) and isinstance(v, int),
}
_NAMES = {"object": "an object", "array": "a list", "string": "text", "boolean": "true or false",
          "null": "null", "number": "a finite number", "integer": "a whole number"}  # fmt: skip
_LIMITS: tuple[tuple[str, str, Callable[[Any, Any], bool]], ...] = (
    ("minimum", "at least", lambda v, bound: v >= bound),
    ("maximum", "at most", lambda v, bound: v <= bound),
    ("exclusiveMinimum", "above", lambda v, bound: v > bound),
    ("exclusiveMaximum", "below", lambda v, bound: v < bound),
)
