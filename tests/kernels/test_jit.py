"""Kernels compile where nothing can be cached, and only for that reason go without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import njit, types

from softrobust.kernels import _jit, s_game, s_pivot
from softrobust.kernels.s_batch import solve_games

PARTS = {
    s_game: ("solve_game", "_attempt", "_run", "_start_warm", "_start_cold", "_certify"),
    s_pivot: ("primal", "pivot", "price", "factor_basis", "refresh", "best_row"),
}


def test_no_place_for_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def refuse(f: Callable[..., Any], cache: bool = False, **settings: Any) -> Any:
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function 'double': no locator available")
        return njit(f, **settings)

    monkeypatch.setattr(_jit, "njit", refuse)

    @_jit.kernel
    def double(x: float) -> float:
        return 2 * x

    assert double(3.0) == 6.0
    assert asked == [True, False]


def test_other_errors_are_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("something else")

    monkeypatch.setattr(_jit, "njit", fail)
    with pytest.raises(RuntimeError, match="something else"):
        _jit.kernel(lambda x: x)


def test_the_game_is_compiled_once() -> None:
    """A literal for a number (n = 0, k = 1) would compile it again, for half a minute in all."""
    Z = np.random.default_rng(0).normal(size=(4, 3, 6))
    solve_games(Z, np.full(6, 1 / 6), np.full(6, 0.5), 0.5)
    for module, names in PARTS.items():
        for name in names:
            found = [tuple(map(types.unliteral, s)) for s in getattr(module, name).signatures]
            assert found
            assert len(set(found)) == len(found), name
