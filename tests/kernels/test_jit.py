"""Kernels compile where nothing can be cached, and only for that reason go without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from numba import njit

from softrobust.kernels import _jit


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
