"""Facts for every code of a note on data."""

from __future__ import annotations

from typing import Any

_ROWS: dict[str, Any] = {"n_rows": 6, "rows": [3, 5, 8, 9, 12, 40], "source": "log.csv"}
_ONE: dict[str, Any] = {"n_rows": 1, "rows": [3], "source": "log.csv"}
_ODD: dict[str, Any] = {"examples": [999.0], "low": 1.5, "high": 9.0}

# By code; several facts for one code where its words depend on them.
DATA_FACTS: dict[str, list[dict[str, Any]]] = {
    "recorded": [{"text": "3 rows were dropped."}],
    "delimiter": [{"delimiter": "semicolon"}],
    "columns_not_used": [{"columns": ["weather"]}, {"columns": [f"c{i}" for i in range(9)]}],
    "rows_dated": [{"column": "week", "low": "0", "high": "39", "numbers": True}],
    "names_stripped": [{}],
    "blank_rows": [{"n_rows": 2}],
    "names_as_integers": [{"noun": "state", "example": "1.0"}],
    "integers_not_filled": [
        {"noun": "state", "smallest": -1, "largest": 5, "kept": 3},
        {"noun": "state", "smallest": 7, "largest": 123456789012, "kept": 2},
    ],
    "integers_filled": [{"noun": "state", "largest": 3, "added": 2}],
    "decimal_comma": [{"column": "reward", "example": "1,5", "number": "1.5"}],
    "encoding": [
        {"encoding": "utf-16", "example": ""}, {"encoding": "cp1252", "example": "Süd"},
    ],
    "header_row": [{"row": 3, "columns": ["id", "day", "dose"]}],
    "sheet": [{"sheet": "visits", "others": ["notes"]}],
    "dates_read": [{"column": "day", "form": "dmy", "example": "3.4.2024", "date": "2024-04-03"}],
    "terminal_rows": [{"n_rows": 1}, {"n_rows": 1200}],
    "rows_added": [{"n_rows": 189, "source": "new.csv"}],
    "p0_given": [{"source": None}, {"source": "initial.csv"}],
    "p0_uniform": [{"states": 3}],
    "p0_of_posterior": [{}],
    "p0_episode_starts": [{"n_starts": 1}, {"n_starts": 12}],
    "p0_first_visits": [{"n_ids": 286, "n_others": 14}, {"n_ids": 286, "n_others": 0}],
    "p0_recorded": [{"text": "the 12 episode starts"}],
    "no_rewards": [{}],
    "rewards_given": [{"kind": kind} for kind in ("pair", "next", "triple", "model")],
    "rewards_function": [{}],
    "rewards_table": [{"source": "r.csv"}],
    "rewards_default": [{"pairs": 4, "value": -1.5}],
    "rewards_of_log": [
        {"kind": "pair", "elsewhere": True},
        {"kind": "triple"},
        {"kind": "next", "never_reached": 0},
        {"kind": "next", "never_reached": 2},
    ],
    "rewards_noisy": [
        {"state": "dry", "action": "wait", "next_state": "wet", "low": 1.0, "high": 3.0,
         "deviation": 0.7071, "range": 2.0},
    ],
    "rewards_drawn": [
        {"state": "dry", "action": "wait", "next_state": "wet", "low": 1.0, "high": 3.0,
         "deviation": 0.7071, "range": 2.0},
    ],
    "pairs_never_seen": [{"unseen": 2, "pairs": 4}],
    "states_never_left": [
        {"count": 1, "states": ["n=3"], "visited": True},
        {"count": 8, "states": ["1", "2", "3", "4", "5"], "visited": False},
    ],
    "visits_read": [
        {"source": "v.csv", "n_rows": 2912, "n_visits": 2900, "n_ids": 300, "n_transitions": 2283,
         "low": "2022-01-05", "high": "2024-03-15"},
    ],
    "steps_lost": [
        {"reason": reason, "n_rows": 6} for reason in ("gap", "hole", "state", "action", "reward")
    ],
    "ends": [{"n_ended": 1, "n_censored": 299}],
    "rewards_unused": [
        {"reason": reason, "n_rows": 646, "total": 1479.0}
        for reason in ("unknown_id", "before_first", "after_last", "after_end", "no_transition")
    ],
    "rows_incomplete": [_ONE | {"lacks": "id"}],
    "unsorted": [_ROWS],
    "duplicates": [_ONE, _ROWS],
    "same_time": [_ROWS | {"rule": "merge"}, _ROWS | {"rule": "last"}],
    "carried_cells": [_ROWS | {"column": "bp"}],
    "missing_cells": [_ROWS | {"column": "bp", "rule": rule} for rule in ("level", "drop")],
    "missing_actions": [
        _ROWS | {"taken_as": None, "known": False},
        _ONE | {"taken_as": "none", "known": False},
        _ONE | {"taken_as": "none", "known": True},
    ],
    "visits_after_end": [_ROWS],
    "end_rows": [_ONE, _ROWS],
    "no_ends": [{"terminal": "s=dead"}],
    "same_point": [_ROWS | {"rule": rule} for rule in ("first", "last", "mean")],
    "shared_rewards": [_ROWS | {"rule": rule} for rule in ("sum", "mean", "last")],
    "long_steps": [_ROWS | {"usual": "7d"}, _ONE | {"usual": "1"}],
    "late_ends": [_ROWS, _ONE],
    "actions_free": [{}],
    "actions_moved": [{"action": "replaced"}],
    "action_bins": [{"column": "dose", "names": ["<10", "≥10"]}],
    "no_time": [{"n_ids": 12}],
    "rewards_formula": [
        {"formula": "-bili", "costs": ""},
        {"formula": "-bili", "costs": "spray: 2, none: 0"},
        {"formula": None, "costs": "spray: 2"},
    ],
    "carried_points": [{"n_rows": 12}],
    "unknown_ids": [_ROWS],
    "no_numbers": [_ROWS | {"column": "hba1c", "examples": ["n.m.", ">9"]}],
    "codes_for_missing": [_ONE | _ODD | {"column": "hba1c"}],
    "far_numbers": [_ROWS | _ODD | {"column": None}],
    "alike_values": [_ROWS | {"column": "bp", "names": ["High", "high"]}],
    "alike": [{"noun": "actions", "names": ["Wait", "wait"]}],
    "column_twice": [{"column": "bp"}],
    "no_flags": [_ROWS | {"column": "done"}],
    "empty_cells": [_ROWS | {"column": "state", "role": "state"}],
    "rows_after_end": [_ROWS],
    "torn": [_ROWS],
    "actions_shifted": [{"gain": 0.213}],
    "repeated_rows": [_ROWS],
    "not_markov": [{"gain": 0.0423, "error": 0.01}],
    "equal_rewards": [{"n_rows": 60}, {"n_rows": 60, "ends": True}],
    "one_action": [{"action": "wait"}],
    "rare_actions": [{"actions": ["burn"], "fewer_than": 5}],
    "many_actions": [{"actions": 51}],
    "many_states": [{"states": 40, "n_rows": 60}],
    "one_model": [{}],
    "equal_models": [{"models": 3}],
    "weight_zero": [{"models": 1}],
    "guessed_role": [
        {"role": "id", "column": "patient", "others": []},
        {"role": "action", "column": "trt", "others": ["dose"]},
        {"role": "time", "column": "none", "others": []},
        {"role": "id", "column": "none", "others": []},
        {"role": "measurements", "column": ["bp", "age"], "others": ["sex"]},
    ],
    "guessed_shift": [{"action": "replaced", "column": "miles"}],
    "split_id": [
        {"id": "store", "column": "brand", "share": 0.91, "done": True},
        {"id": "store", "column": "brand", "share": 0.91, "done": False},
    ],
    "guessed_dates": [
        {"column": "day", "form": "dmy", "example": "3/4/2024", "other": "mdy"},
        {"column": "day", "form": "dmy", "example": "31/4/2024", "other": None},
    ],
    "guessed_reward": [
        {"reward": "1 - end", "others": []}, {"reward": "-next(bp)", "others": ["next(age)"]},
    ],
    "guessed_bins": [{"columns": ["hba1c"], "bins": 4}, {"columns": ["a", "b"], "bins": 4}],
    "guessed_end": [{"kind": "death"}],
    "constant_action": [{"column": "dose", "value": "u", "action": "level"}],
    "guessed_grid": [{"grid": "28d"}],
    "no_grid": [{"grid": "28d", "n_lost": 30, "n_rows": 60}],
}  # fmt: skip
