"""Single settings: what is let through, and what is refused with rule, value and advice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softrobust._core.settings import flag, instance, one_of, real, whole
from softrobust.errors import InputError


def test_let_through() -> None:
    assert whole("n", np.int32(4), 0, 4) == 4
    assert type(whole("n", np.array(7))) is int
    assert real("x", np.float32(0.5), above=0, below=1) == 0.5
    assert real("x", 0, least=0) == 0.0
    assert flag("f", np.True_) is True
    assert one_of("w", "b", ("a", "b")) == "b"
    instance("s", "text", str)


@pytest.mark.parametrize("value", ["3", 2.5, 3.0, True, None, np.nan, [3], np.arange(2), 0, 9])
def test_whole_numbers(value: Any) -> None:
    with pytest.raises(InputError, match=r"n must be a whole number in 1…5; it is .*\. Try 3\."):
        whole("n", value, 1, 5, "Try 3.")


@pytest.mark.parametrize("value", ["1", True, None, np.nan, np.inf, [0.5], 1j, 0, 1])
def test_numbers(value: Any) -> None:
    with pytest.raises(InputError, match="x must be a finite number > 0 and < 1; it is"):
        real("x", value, above=0, below=1)


def test_the_rest() -> None:
    with pytest.raises(InputError, match="f must be true or false; it is 1"):
        flag("f", 1)
    with pytest.raises(InputError, match=r"w must be a or b; it is \['a'\]"):
        one_of("w", ["a"], ("a", "b"))
    with pytest.raises(InputError, match=r"Pass int\(…\)"):
        instance("s", "text", int)
    with pytest.raises(InputError, match=r"it is 6\. "):
        whole("n", np.int64(6), 1, 5)
    with pytest.raises(InputError, match="…"):
        whole("n", "a" * 100)
