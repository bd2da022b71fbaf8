from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from softrobust.errors import InputError
from softrobust.objective import SoftRobust
from softrobust.report.counts import Seen
from softrobust.report.pictures import (
    Spot,
    coverage_svg,
    frontier_svg,
    gain_svg,
    rehearsal_svg,
    strip_svg,
)
from softrobust.report.plots import WIDTH, Curve, density_svg, shared_axis, x_range
from softrobust.report.svg import LETTER, Labeller, Scale, picture, standalone, text, tick_text
from tests.report.builders import HOSTILE

sizes = st.floats(1e-6, 1e9)


@given(st.floats(-1e9, 1e9), sizes)
@example(9980000.0, 25000.0)  # on both sides of where digits give way to powers of ten
def test_ticks_are_inside_round_and_distinct(low: float, span: float) -> None:
    if span <= 1e-8 * abs(low):  # all-equal: `x_range` and the frontier never hand that over
        return
    scale = Scale(low, low + span, 0.0, 100.0)
    ticks = scale.ticks()
    assert 1 <= len(ticks) <= 6
    assert all(-1e-6 <= scale(value) <= 100 + 1e-6 for value, _ in ticks)
    assert len({words for _, words in ticks}) == len(ticks)


@pytest.mark.parametrize(
    ("value", "step", "words"),
    [(0.0, 0.5, "0"), (-2.5, 2.5, "−2.5"), (1250.0, 250.0, "1,250"), (0.05, 0.01, "0.05")],
)
def test_ticks_read_well(value: float, step: float, words: str) -> None:
    assert tick_text(value, step) == words


def test_text_is_escaped_and_labels_never_overlap() -> None:
    svg = picture(100, 100, [text(0, 10, HOSTILE)], "map", HOSTILE, HOSTILE)
    assert [part.text for part in ElementTree.fromstring(svg)] == [HOSTILE] * 3
    labels = Labeller(100, 60)
    written = [labels.place(50, 30, "name") for _ in range(12)]
    assert written[0] != ""
    assert written[-1] == ""  # no room is left, and nothing is written over another
    boxes = labels.taken
    for i, (a, b, c, d) in enumerate(boxes):
        for e, f, g, h in boxes[:i]:
            assert c <= e or g <= a or d <= f or h <= b


def curve(mean: float, spread: float, n: int = 200) -> Curve:
    z = np.random.default_rng(0).normal(mean, spread, n)
    return Curve(z, np.full(n, 1 / n))


def test_a_distant_policy_is_named_at_the_edge_and_does_not_widen_the_axis() -> None:
    near, far = curve(100, 5), curve(-4000, 5)
    limits = shared_axis([[near], [far]])
    assert limits == shared_axis([[near]])
    svg = density_svg([near, far], ["this policy", "old"], SoftRobust(0.5, 0.9), limits)
    assert "← old, mean −" in svg.replace("-", "−")
    beside = shared_axis([[near], [curve(115, 5)]])
    assert beside[0] <= limits[0]
    assert beside[1] > limits[1]


def test_stray_models_do_not_press_the_rest_together() -> None:
    z = np.append(np.linspace(0, 1, 999), -1000.0)
    stray = Curve(z, np.full(1000, 1e-3))
    low, high = shared_axis([[stray]])
    assert low > -1
    assert high < 2
    assert x_range([stray])[0] < -1000  # the plain range takes in all


def test_a_picture_says_what_it_shows_and_stands_alone(tmp_path: Path) -> None:
    """Names for those who cannot see it; outside the page its look, and the same as PNG or PDF."""
    strip = strip_svg(["a", HOSTILE, "c $x$"], ["wait", "wait", ""], [None, HOSTILE, "go"])
    gains = np.linspace(-1.0, 3.0, 50)
    goal, f = SoftRobust(0.5, 0.9), np.full(50, 0.02)
    made = {
        "strip": strip,
        "gain": gain_svg(gains, f, goal, (0.9, 0.7, -0.2)),
        "same": gain_svg(np.ones(3), np.full(3, 1 / 3), goal),
        "rehearsal": rehearsal_svg([1.0, 2.0], [0.5, 2.5], [False, None]),
        "frontier": frontier_svg([("the worst models", [Spot("λ 0", 2, 1), Spot("λ 1", 1, 2)])]),
    }
    for name, shown in made.items():
        root = ElementTree.fromstring(shown)
        assert root.attrib["role"] == "img"
        assert all(root[i].text for i in (0, 1)), name  # title and description
        alone = standalone(shown)
        assert "var(" not in alone
        assert "#0b5f93" in alone or name == "frontier"
        shown.save(tmp_path / f"{name}.svg", tmp_path / f"{name}.png", tmp_path / f"{name}.pdf")
        assert (tmp_path / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert (tmp_path / f"{name}.pdf").read_bytes()[:4] == b"%PDF"
    assert HOSTILE in "".join(ElementTree.fromstring(strip).itertext())
    with pytest.raises(InputError, match="gif"):
        strip.save(tmp_path / "x.gif")


def test_a_strip_fills_the_states_that_change() -> None:
    svg = strip_svg([f"s{i}" for i in range(40)], ["wait"] * 40, [None, "go"] * 20)
    assert svg.count("cell changed") == svg.count("cell same") == 20
    assert strip_svg([str(i) for i in range(1000)], ["a"] * 1000, ["b"] * 1000) == ""


def test_neighbours_that_change_otherwise_have_words_of_their_own() -> None:
    then = [None, "always wait", *["spray"] * 4, None, *["always spray"] * 5]
    svg = strip_svg([f"n={i}" for i in range(12)], ["wait"] * 12, then)
    root = ElementTree.fromstring(svg)
    told = [t for t in root.iter() if t.attrib.get("class") == "name k1"]
    assert [t.text for t in told] == ["wait", "spray", "always spray"]
    then = [None, *["spread lime", "dig"] * 3, *[None] * 5]  # a second tier where room is short
    root = ElementTree.fromstring(strip_svg([f"n={i}" for i in range(12)], ["wait"] * 12, then))
    assert len({t.attrib["y"] for t in root.iter() if t.attrib.get("class") == "name k1"}) == 2


@pytest.mark.parametrize("n", [12, 300])
def test_a_map_of_the_log_hides_small_counts(n: int) -> None:
    """Counts of 0 to 4 look alike where they are hidden, in boxes of one state or of several."""
    rng = np.random.default_rng(0)
    few, many = rng.integers(0, 5, (2, n, 3)), rng.integers(5, 200, (n, 3))
    rare = rng.random((n, 3)) < 0.4
    names, actions = [f"s{i}" for i in range(n)], ["a", "b", "c"]
    shown = [
        coverage_svg(names, actions, Seen(np.where(rare, f, many), True), np.ones((n, 3), bool))
        for f in few
    ]
    assert shown[0] == shown[1] != ""
    plain = coverage_svg(names, actions, Seen(np.where(rare, few[0], many)), np.ones((n, 3), bool))
    assert "n0" in plain
    assert len(plain) < 100_000


def test_axes_of_a_frontier_stay_inside_however_long_the_name() -> None:
    spots = [Spot("λ 0", 2.0, 1.0), Spot("λ 1", 1.0, 2.0)]
    for of in ("return", "gain over current practice", f"gain over the policy '{'rule' * 20}.csv'"):
        svg = frontier_svg([("the worst 10 % of models", spots)], of=of)
        words = re.findall(r">([^<>]*[↑→])<", unescape(svg))
        assert len(words) == 2
        assert LETTER * max(map(len, words)) <= WIDTH
