"""docs/results.md is what docs/results/*/results.json say, no more and no less."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from softrobust.errors import InputError
from softrobust.paper.base import make_experiment
from softrobust.paper.claims import mean_interval
from softrobust.paper.page import FILES, names_in, needed, page, publish, read_results
from softrobust.paper.reproduce import json_text

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_is_not_stale() -> None:
    assert (DOCS / "results.md").read_text(encoding="utf-8") == page(DOCS / "results")


@pytest.mark.parametrize("name", [n for n in names_in(DOCS / "results") if n != "worlds"])
def test_published_results(name: str) -> None:
    """Full runs, small files, and pictures that can be drawn again from the numbers."""
    folder = DOCS / "results" / name
    results = read_results(folder / "results.json")
    assert not results["quick"]
    assert (folder / "results.json").stat().st_size < 800_000
    for file in FILES:
        assert (folder / file).is_file()
    experiment = make_experiment(name)
    if results["settings"] != experiment.settings(results["quick"]):  # the page says so
        text = (DOCS / "results.md").read_text(encoding="utf-8")
        part = text.partition(f'<a id="{name}"></a>')[2].partition('<a id="')[0]
        assert "Settings that are others today" in part
    assert experiment.draw(results["numbers"]).axes


def test_what_would_decide_does() -> None:
    """In nine of ten repetitions with as many values, if the average is the one that was found."""
    rng = np.random.default_rng(0)
    found = mean_interval(rng.normal(size=20)).less(0.0)
    given = {**found.as_dict(), "value": 0.4, "margin": 0.1}
    for near, centre in ((False, 0.4), (True, 0.05)):
        n = needed({**given, "value": centre}, 1, near)
        sd = 20**0.5 * (found.high - found.low) / 2 / 2.093  # Student's 97.5 % of 19
        x = rng.normal(centre, sd, size=(400, round(n)))
        half = 1.96 * x.std(axis=1) / n**0.5
        off = x.mean(axis=1) + half < 0.1 if near else x.mean(axis=1) - half > 0.1
        assert 0.85 <= off.mean() <= 0.96
    fails = {**given, "value": -0.3}
    assert needed(fails, 7, False) > needed(fails, 1, False)  # one of several must fail by more
    assert needed({**given, "value": 0.1}, 1, False) == np.inf
    assert np.isnan(needed({**given, "n": 1}, 1, False))


def test_hours_are_said_where_all_tasks_are_of_one_kind() -> None:
    text = (DOCS / "results.md").read_text(encoding="utf-8")
    parts = {part.partition('"')[0]: part for part in text.split('<a id="')[1:]}
    assert " logs would, " in parts["pest-frontier"]
    for name, unit in (("truth", "pairs"), ("riverswim", "logs"), ("cancer", "logs")):
        assert f" {unit} would)" in parts[name]
        assert f" {unit} would, " not in parts[name]


def test_at_least_twenty_data_seeds() -> None:
    for name in ("pest-density", "pest-frontier", "inventory", "riverswim", "cancer"):
        assert (
            len(read_results(DOCS / "results" / name / "results.json")["settings"]["seeds"]) >= 20
        )
    curse = read_results(DOCS / "results" / "optimizers-curse" / "results.json")
    assert curse["settings"]["repetitions"] >= 1000


def test_publish_copies_and_writes(tmp_path: Path) -> None:
    publish({name: DOCS / "results" / name for name in names_in(DOCS / "results")}, tmp_path)
    written = {p.name: p.read_text(encoding="utf-8") for p in tmp_path.glob("*.md")}
    assert "results.md" in written  # and worlds.md, as soon as its results are there
    assert written == {name: (DOCS / name).read_text(encoding="utf-8") for name in written}
    assert names_in(tmp_path / "results") == names_in(DOCS / "results")
    with pytest.raises(InputError, match="holds no results"):
        page(tmp_path / "nothing")


def test_json_text_reads_back() -> None:
    import json

    value = {"a": [[1.123456789, None], [2, 3]], "b": {"c": "x" * 200, "d": {"e": [True]}}}
    assert json.loads(json_text(value)) == {
        "a": [[1.12346, None], [2, 3]],
        "b": {"c": "x" * 200, "d": {"e": [True]}},
    }


def test_read_results_refuses_other_files(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("[1]")
    with pytest.raises(InputError, match="does not hold the results"):
        read_results(tmp_path / "results.json")
    with pytest.raises(InputError, match="There is no file"):
        read_results(tmp_path / "none.json")
