"""Laws of clipped normal variables: inside the box, Jensen, monotone in the mean."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from softrobust.models.moments import normal_moments

numbers = st.floats(-5, 5, allow_nan=False)


@given(numbers, st.floats(0, 3), numbers, st.floats(0.01, 5), st.floats(0, 1))
@settings(max_examples=200, deadline=None)
def test_clipped_moments(mean: float, sd: float, low: float, width: float, step: float) -> None:
    box = np.array([low]), np.array([low + width])
    size = (abs(low) + width) ** 2

    def of(m: float) -> tuple[float, float]:
        first, second = normal_moments(np.array([[m]]), np.array([[sd**2]]), 2, box)
        return float(first[0, 0]), float(second[0, 0])

    first, second = of(mean)
    assert low - 1e-9 <= first <= low + width + 1e-9
    assert second >= first**2 - 1e-9 * (1 + size)
    assert of(mean + step)[0] >= first - 1e-9
