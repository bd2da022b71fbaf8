"""Sizes are checked before anything is allocated."""

from __future__ import annotations

import pytest

from softrobust._core import arrays as memory
from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.posterior import DirichletPosterior


def test_free_memory_is_plausible() -> None:
    free = memory.available_memory()
    assert free is None or 2**20 < free < 2**50


def test_refused_with_size_and_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 2.0 * memory.GIB)
    memory.refuse_if_too_large(1.7 * memory.GIB, "A table", "Use less.")
    with pytest.raises(InputError, match=r"A table would take 1\.9 GiB, and 2\.0 GiB .*Use less"):
        memory.refuse_if_too_large(1.9 * memory.GIB, "A table", "Use less.")


def test_unknown_memory_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    memory.refuse_if_too_large(1e30, "Everything", "Use less.")


def test_draws_that_cannot_fit() -> None:
    log = TransitionLog.from_arrays([0, 1], [0, 0], [1, 0], [0.0, 1.0])
    with pytest.raises(InputError, match=r"models would take .* GiB.*Draw fewer"):
        DirichletPosterior().fit(log).sample(10**12)
