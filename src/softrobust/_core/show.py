"""How an object shows its facts: a plain table, as text or as HTML for a notebook.

No sentences and no pictures: those are `report`'s. Every name and value is escaped, styles are
inline (a notebook has no style sheet of ours), colours are the notebook's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

SHOWN = 12  # rows of a table
LONGEST = 120  # characters of a cell


def facts_text(title: str, facts: Mapping[str, Any]) -> str:
    """One fact a line, names in a column."""
    pairs = list(_flat("", facts))
    width = max((len(name) for name, _ in pairs), default=0)
    return "\n".join([title, *(f"  {name:<{width}}  {value}" for name, value in pairs)])


def facts_html(
    title: str,
    facts: Mapping[str, Any],
    head: Sequence[str] = (),
    rows: Sequence[Sequence[str]] = (),
    n_rows: int = 0,
) -> str:
    """The facts as a table, and below them the first rows of another one that has `n_rows`."""
    table = _table((), [[name, value] for name, value in _flat("", facts)])
    below = _table(head, rows)
    if n_rows > len(rows):
        below += f"<div>… {n_rows - len(rows):,} more</div>"
    return f'<div style="line-height:1.5"><strong>{escape(title)}</strong>{table}{below}</div>'


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """(name, value) pairs of nested facts; an interval stands with its value."""
    if isinstance(value, Mapping) and {"value", "low", "high"} <= set(value):
        ends = "" if value["low"] is None else f" [{_plain(value['low'])}, {_plain(value['high'])}]"
        yield name, f"{_plain(value['value'])}{ends}"
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{name} {key}".strip(), inner)
    elif value is not None:
        yield name, _plain(value)


def _plain(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        opening = f'<{tag} style="text-align:left;padding:.15em .9em .15em 0">'
        return "".join(f"{opening}{escape(_plain(cell))}</{tag}>" for cell in cells)

    top = f"<thead><tr>{line(head, 'th')}</tr></thead>" if head else ""
    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return f"<table>{top}<tbody>{body}</tbody></table>" if rows else ""
