"""Tables as text: every cell is there, intervals with both limits, and the way back from JSON."""

from __future__ import annotations

import csv
import io
import json

from softrobust.paper.claims import (
    Interval,
    csv_text,
    figure_of,
    interval_of,
    markdown,
    table,
)

TABLE = table(
    "Two methods",
    "How to read it.",
    ["method", "mean", "n"],
    [["a|b", Interval(1234.5, 1200.0, 1250.25, 20), 3], ["c", None, 0.5]],
)


def test_markdown() -> None:
    text = markdown(TABLE)
    assert "| a\\|b | 1 234 [1 200, 1 250] | 3 |" in text
    assert "| c | – | 0.5 |" in text
    assert text.count("\n| ") == 4  # columns, rule and two rows


def test_csv_has_all_digits() -> None:
    rows = list(csv.reader(io.StringIO(csv_text(TABLE))))
    assert rows[0] == ["method", "mean", "mean low", "mean high", "n"]
    assert rows[1] == ["a|b", "1234.5", "1200.0", "1250.25", "3"]
    assert rows[2] == ["c", "", "", "", "0.5"]


def test_tables_are_plain_json() -> None:
    again = json.loads(json.dumps(TABLE, allow_nan=False))
    assert markdown(again) == markdown(TABLE)
    assert csv_text(again) == csv_text(TABLE)


def test_figures() -> None:
    assert figure_of(-12345.6) == "-12 346"
    assert figure_of(1e9) == "1e+09"
    assert interval_of(Interval(2.0, float("-inf"), float("inf"), 1)) == "2 (one value)"
