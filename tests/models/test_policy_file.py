"""Policies that people type."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from softrobust.data.labels import Labels
from softrobust.errors import InputError
from softrobust.models.policy import Policy, TimedPolicy, read_policy, read_timed_policy

STATES, ACTIONS = Labels(("low", "high"), noun="state"), Labels(("wait", "treat"), noun="action")


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_saved_policies_come_back(tmp_path: Path) -> None:
    policy = Policy(np.array([[0.25, 0.75], [1.0, 0.0]]), STATES, ACTIONS)
    policy.save(tmp_path / "policy.csv")
    again = read_policy(tmp_path / "policy.csv", STATES, ACTIONS)
    np.testing.assert_array_equal(again.probs, policy.probs)


def test_no_cell_of_a_saved_policy_runs_in_a_spreadsheet(tmp_path: Path) -> None:
    states, actions = Labels(("=1+1", "b"), noun="state"), Labels(("-go", "stay"), noun="action")
    policy = TimedPolicy(np.array([[0, 1], [1, 1]]), states, actions)
    policy.save(tmp_path / "policy.csv")
    assert "0,'=1+1,'-go,1.0" in (tmp_path / "policy.csv").read_text(encoding="utf-8")
    again = read_timed_policy(tmp_path / "policy.csv", states, actions, 2)
    np.testing.assert_array_equal(again.probs, policy.probs)


def test_states_not_listed_follow_the_rest(tmp_path: Path) -> None:
    file = write(tmp_path / "p.csv", "state,action\nlow,treat\n")
    rest = Policy(np.array([[1.0, 0.0], [0.5, 0.5]]), STATES, ACTIONS)
    policy = read_policy(file, STATES, ACTIONS, rest)
    np.testing.assert_array_equal(policy.probs, [[0, 1], [0.5, 0.5]])
    with pytest.raises(InputError, match="lacks 'high'"):
        read_policy(file, STATES, ACTIONS)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("state,action\nlow,treat\nhihg,wait\n", "high"),
        ("state,action\nlow,treet\nhigh,wait\n", "treat"),
        ("state,action\nlow,treat\nlow,wait\nhigh,wait\n", "sum to 2"),
        ("state,action,probability\nlow,treat,0.5\nlow,treat,0.5\nhigh,wait,1\n", "rows 2 and 3"),
        ("state,action,probability\nlow,treat,1.5\nhigh,wait,1\n", "between 0 and 1"),
        ("state,action,probability\nlow,treat,0.6\nhigh,wait,1\n", "sum to 0.6"),
    ],
)
def test_errors_say_what_is_wrong(tmp_path: Path, text: str, match: str) -> None:
    with pytest.raises(InputError, match=match):
        read_policy(write(tmp_path / "p.csv", text), STATES, ACTIONS)
