"""Facts for every code that has words: what a note or a check of it carries."""

from __future__ import annotations

from typing import Any

from softrobust.study.checks import Verdict
from tests.report.data_facts import DATA_FACTS

NOTE_FACTS: dict[str, dict[str, Any]] = {
    **{code: facts[0] for code, facts in DATA_FACTS.items()},
    "p0_from_beside": {"file": "initial.csv"},
    "gamma_from_beside": {"gamma": 0.9, "file": "parameters.csv"},
    "duplicate_rows_summed": {"n_rows": 3},
    "censored_rows_left_out": {"n_rows": 12},
    "censored_rows_are_limits": {"n_rows": 12},
    "chains_disagree": {"parameter": "theta", "rhat": 1.2, "most": 1.01, "parameters": 2},
    "few_effective_draws": {"parameter": "theta", "effective_size": 90.0, "least": 400.0},
    "transitions_diverged": {"diverged": 3, "draws": 800},
    "prior_too_sharp": {"statistic": "transitions", "p": 0.001, "cure": "learned"},
    "statistic_missed": {"statistic": "level", "p": 0.999},
    "prior_learned": {"bases": {"near": 0.3, "other": 0.4, "blend": 0.3}, "strength": 16.0,
                      "blend": {"near": 0.9, "other": 0.1}, "borrowed": 0.7,
                      "apart": ["season"]},
    "foresight_too_few": {"n_rows": 2, "folds": 5},
    "prior_foresight": {"scores": {"learned": -1.99, "dirichlet": -2.53}},
    "frontier_without_lambda": {},
    "promise_not_timed": {"steps": 30},
    "frontier_without_trade": {},
    "frontier_too_long": {"states": 10_000, "models": 60},
    "data_without_criterion": {},
    "data_without_decision": {},
    "data_too_long": {"states": 10_000},
    "data_unknown": {"text": "The reward of 3 rows is not known."},
    "quantile_saturated": {"who": "BCR", "level": 0.99, "needed": 2000, "used": 100},
    "no_pair_free": {"least": 7},
    "pairs_seen_too_rarely": {"pairs": 6},
    "pairs_forbidden": {"pairs": 2},
    "states_without_actions": {},
    "start_unknown": {},
    "rewards_vary": {"deviation": 0.25},
    "decisions_rarely_seen": {"share": 0.4, "fewer_than": 5},
    "heldout_interval_wide": {"share": 0.02, "draws": 10_000},
    "replications_bound_averages": {},
    "replications_few_draws": {"draws": 300, "least": 4, "models": 100},
    "not_compared": {},
    "replications_too_slow": {"least": 4, "seconds": 5.0},
    "search_resumed": {"seconds": 12.5},
    "search_open": {"nodes": 1200},
    "policy_silent": {"file": "policy.csv", "states": "'n=2', 'n=3'"},
    "policy_forbidden": {"states": "'n=2'"},
    "own_value_of_return": {"solver": "s-rect", "value": 12.5, "reference": "practice"},
    "other_question": {"run": "run2", "first": "run", "gamma": 0.9, "lam": 1.0, "alpha": 0.9,
                       "reference": "none", "horizon": "none"},
    "reward_fitted": {"r2": 0.98},
    "actions_are_numbers": {"zero": "wait", "one": "treat"},
    "starts_anywhere": {},
    "action_seen_too_rarely": {"action": "2", "n_seen": 3, "n_rows": 600},
    "horizon_is_longest": {"steps": 30},
    "no_box": {},
    "box": {"box": {"x": [-1.0, 2.5], "y": [0.0, 10.0]}, "widened": 0.5},
    "ends_modelled": {"n_rows": 3, "reward": -1.5},
    "ends_not_modelled": {"n_rows": 3},
    "comparison_blurred": {"share": 0.2},
    "promise_by_learned": {"posterior": "dirichlet", "solver": "improve"},
    "promise_unseen": {},
    "improve_not_allowed": {"solver": "exact"},
    "verdict_close": {"shuffled": 0.033, "most": 0.05},
    "upper_deterministic": {"upper": 757.4, "confidence": 0.95},
    "models_in_memory": {"models": 173_440, "asked": 400_000, "memory": 0.5},
    "on_all_models": {
        "n": 400_000, "objective": 751.2, "mean": 780.0, "cvar": 722.4,
        "goal": "the worst 10 % of models",
    },
    "more_on_fresh": {
        "value": 6.96, "low": 4.1, "high": 9.2, "n": 1000, "share": 0.0478,
        "solver": "local-search", "why": "not_clear",
    },
    "cut_by_time": {"parts": ["bound", "promise"], "seconds": 20.0},
    "no_world_in_time": {"seconds": 20.0},
    "log_earned": {"mean": 3.2, "se": 0.4, "n_episodes": 20, "simulated": 2.9, "apart": None},
}  # fmt: skip

_REPLAY = {
    "n_episodes": 505, "observed": 19.2, "low": 18.0, "high": 21.0, "rank": 0.6,
    "share_inside": 0.91, "fits": True, "spread_fits": True,
}  # fmt: skip
_ESTIMATE = {
    "name": "WIS", "value": 4.0, "low": 3.0, "high": 5.0, "effective_size": 30.0, "size": 60,
    "tail": 0.1, "unsupported": 0.0, "can_tell": True,
}  # fmt: skip
_OFF_POLICY = {
    "predicted": [3.0, 6.0],
    "estimates": [_ESTIMATE, _ESTIMATE | {"name": "DR", "can_tell": False, "low": None}],
    "tail": 0.1,
    "apart": ["WIS"],
}
_CHANGE = {"states": 0.25, "visits": 0.004, "gain": -1.5}
_FINE, _CAUTION, _CANNOT = Verdict.FINE, Verdict.CAUTION, Verdict.CANNOT_TELL

CHECK_FACTS: dict[str, tuple[str, Verdict, dict[str, Any]]] = {
    "replay": ("replay", _FINE, _REPLAY),
    "replay, outside": ("replay", _CAUTION, _REPLAY | {"fits": False}),
    "replay, wide": ("replay", _CAUTION, _REPLAY | {"spread_fits": False}),
    "off-policy": ("off_policy", _CAUTION, _OFF_POLICY),
    "off-policy, model": ("off_policy", _CANNOT, _OFF_POLICY | {"why": "mostly_model"}),
    "off-policy, unsure": ("off_policy", _CANNOT, _OFF_POLICY | {"why": "too_uncertain"}),
    "rare": ("rare_pairs", _CAUTION, {"share": 0.4, "fewer_than": 5, "state": "n=2",
                                      "action": "spot", "n_seen": 2}),
    "none rare": ("rare_pairs", _FINE, {"share": 0.0, "fewer_than": 5, "state": "n=2",
                                        "action": "spot", "n_seen": 9}),
    "prior": ("prior_strength", _FINE, {"alternatives": [{"factor": 0.1, **_CHANGE}]}),
    "goal": ("goal", _FINE, {"grid": [{"lam": 0.0, "alpha": 0.9, "states": 0.1, "visits": 0.2}]}),
    "draws": ("draws", _FINE, {"alternatives": [{"draw": "another seed", **_CHANGE}]}),
    "confounding": ("confounding", _CAUTION, {"tipping": 1.4}),
    "no tipping": ("confounding", _FINE, {"tipping": None}),
    "no better": ("confounding", _FINE, {"tipping": 1.0}),
    "few": ("replay", _CANNOT, {"why": "few_episodes", "n_episodes": 3, "needed": 10}),
    "practice": ("confounding", _CANNOT, {"why": "is_practice"}),
    "rewards": ("replay", _CANNOT, {"why": "unknown_rewards"}),
    "strength": ("prior_strength", _CANNOT, {"why": "no_strength"}),
    "lambda": ("goal", _CANNOT, {"why": "no_lambda"}),
    "half": ("off_policy", _CANNOT, {"why": "half_too_little", "text": "3 rows."}),
    "refused": ("replay", _CANNOT, {"why": "refused", "text": "The log has 3 rows."}),
    "recorded": ("recorded", _FINE, {"name": "rare", "text": "seen 2 times"}),
}  # fmt: skip
