"""Labels beside points do not hide one another."""

from __future__ import annotations

import numpy as np
from matplotlib.text import Text

from softrobust.paper.figures import Label, grouped, new_figure, place, short


def test_labels_of_one_place_are_apart() -> None:
    figure = new_figure(4, 4)
    axes = figure.subplots()
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    figure.canvas.draw()
    labels = [Label(0.5, 0.5, text, "#000000") for text in ("0", ".25", ".5–1", "0–1", "1", ".75")]
    place(axes, labels, np.array([[0.5, 0.5]]))
    boxes = [Text.get_window_extent(a) for a in axes.texts]
    assert len(boxes) == 6
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert not a.overlaps(b)


def test_points_that_fall_together_share_a_label() -> None:
    figure = new_figure(4, 4)
    axes = figure.subplots()
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    figure.canvas.draw()
    lams = [0.0, 0.25, 0.5, 1.0]
    made = grouped(axes, [0.1, 0.5, 0.5, 0.9], [0.1, 0.5, 0.5, 0.9], lams, "#000000")
    assert [label.text for label in made] == ["0", ".25–.5", "1"]
    assert [short(x) for x in (0.0, 0.75, 1.0)] == ["0", ".75", "1"]
