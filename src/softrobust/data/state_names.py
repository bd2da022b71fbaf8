"""States made of several columns, by name: "bp=high|hba1c=7–8", and back to columns.

A state of one column has that column's value for a name. With several, each part is column=value;
a backslash stands before a bar, a backslash, or an equals sign in the name of a column, so that two
different states never share a name and every name splits again.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

BAR = "|"
_PARTS = re.compile(r"(?:[^\\|]|\\.)+")
_NAME = re.compile(r"((?:[^\\=]|\\.)+)=(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def state_name(columns: Sequence[str], values: Sequence[str]) -> str:
    """The name of a state, from one value per column.

    >>> state_name(["bp", "hba1c"], ["high", "7–8"])
    'bp=high|hba1c=7–8'
    >>> state_name(["bp"], ["high"])
    'high'
    """
    if len(columns) == 1:
        return values[0]
    return BAR.join(
        f"{_shielded(column, '=')}={_shielded(value)}"
        for column, value in zip(columns, values, strict=True)
    )


def split_state(name: str) -> dict[str, str] | None:
    """The columns and values of a state name of several columns; None if it is not one.

    >>> split_state("bp=high|hba1c=7–8")
    {'bp': 'high', 'hba1c': '7–8'}
    """
    out: dict[str, str] = {}
    parts = _PARTS.findall(name)
    if BAR.join(parts) != name:
        return None
    for part in parts:
        found = _NAME.fullmatch(part)
        column = _ESCAPED.sub(r"\1", found[1]) if found else ""
        if found is None or column in out:
            return None
        out[column] = _ESCAPED.sub(r"\1", found[2])
    return out if len(out) > 1 else None


def state_columns(names: Iterable[str]) -> Mapping[str, tuple[str, ...]] | None:
    """Column → its value in each state; None unless all names have the same columns."""
    split = [split_state(name) for name in names]
    if not split or split[0] is None:
        return None
    columns = list(split[0])
    if any(one is None or list(one) != columns for one in split):
        return None
    return {column: tuple(one[column] for one in split if one is not None) for column in columns}


def _shielded(text: str, more: str = "") -> str:
    for sign in ("\\", BAR, *more):
        text = text.replace(sign, "\\" + sign)
    return text
