"""Certificates against brute force in fractions where floating point is at its worst.

These are a few of many: `python -m tests.attack --only certificates` goes on with new seeds.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.agree.adversary import adversary, wrong_certificate


@pytest.mark.parametrize("seed", range(5))
def test_no_certificate_is_wrong(seed: int) -> None:
    for i in range(10):
        rng = np.random.default_rng([20, seed, i])
        assert wrong_certificate(adversary(rng), rng) is None, (seed, i)
