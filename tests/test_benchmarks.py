"""Every benchmark still runs: once, small, untimed."""

from __future__ import annotations

import pytest
from benchmarks.__main__ import main


def test_smoke(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--smoke"]) == 0
    table = capsys.readouterr().out
    for word in ("linprog", "highspy", "block-diagonal", "argsort", "value iteration", "read"):
        assert word in table


def test_unknown_case_lists_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such-case"]) == 2
    assert "s-game" in capsys.readouterr().out
