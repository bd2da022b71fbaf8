from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from softrobust.objective import SoftRobust
from softrobust.report.plots import Curve, density_svg, shared_axis, shares_below, x_range
from softrobust.report.svg import Labeller, Scale, picture, text, tick_text
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
    svg = picture(100, 100, [text(0, 10, HOSTILE)])
    assert ElementTree.fromstring(svg)[0].text == HOSTILE
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


def test_shares_below_are_those_of_the_models() -> None:
    c = Curve(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.1, 0.2, 0.3, 0.4]))
    assert shares_below(c, (0.0, 5.0), steps=5) == [0, 0, 100, 300, 600, 1000]
