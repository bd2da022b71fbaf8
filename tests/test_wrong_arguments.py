"""Whatever comes in place of an argument of a public name, the error says so in words."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import softrobust
from softrobust.errors import SoftRobustError
from tests.report.builders import from_log, stock_log

SR: Any = softrobust
WRONG: tuple[Any, ...] = (
    "x", None, 3, -1, float("nan"), float("inf"), [], {}, object(), np.zeros(0),
    np.zeros((2, 2, 2, 2)), ["a", "b"], {"a": "b"}, Path("nowhere.csv"), Path(),
    [[1, 2], [3]], 10**400, 1 + 2j,
)  # fmt: skip
# Where a value that works takes long: only what must be given is tried.
SLOW = {"choose", "certify_posterior", "frontier", "value_of_data", "review", "make_report"}


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Callable[..., Any], Any]]:
    """Each public function or method with arguments that are right."""
    place = tmp_path_factory.mktemp("files")
    problem, _, posterior = from_log(stock_log())
    log, models, policy = posterior.log, problem.models, problem.uniform_policy()
    states, actions, two = models.states, models.actions, np.ones(2)
    names = {
        "l.csv": lambda path: SR.data.write_log_csv(log, path),
        "m.npz": lambda path: SR.save_models(path, models),
        "p.csv": policy.save, "f.npz": posterior.save,
    }  # fmt: skip
    file = {name: place / name for name in names}
    for name, write in names.items():
        write(file[name])
    found = SR.study.review.review(problem, SR.solve(problem, SR.Nominal()))
    objective, dense = SR.objective, np.full((2, 2, 2, 2), 0.5)
    right: list[tuple[Any, ...]] = [
        (SR.read_log, file["l.csv"]), (SR.read_continuous_log, file["l.csv"]),
        (SR.read_trajectories, file["l.csv"]), (SR.inspect_file, file["l.csv"]),
        (SR.save_log, log, place / "o.npz"), (SR.data.write_log_csv, log, place / "o.csv"),
        (SR.read_models, file["m.npz"]), (SR.save_models, place / "n.npz", models),
        (SR.models.write_models_csv, place / "o2.csv", models), (SR.load_run, place),
        (SR.read_policy, file["p.csv"], states, actions), (SR.load_posterior, file["f.npz"]),
        (SR.data.read_minari, place), (SR.data.roll_out, "x"), (SR.models.from_gymnasium, {}),
        (SR.models.from_mdptoolbox, dense[0], np.zeros((2, 2))),
        (SR.cvar, two, two / 2, 0.5), (objective.value_at_risk, two, two / 2, 0.5),
        (objective.mean, two, two / 2), (SR.SoftRobust().value, two, two / 2),
        (SR.SoftRobust().worst_case, two, two / 2), (SR.Percentile().value, two, two / 2),
        (SR.SoftRobust,), (SR.Percentile,), (SR.SoftRobust.from_tail, 0.1),
        *((getattr(SR, f"{name}Posterior")().fit, log)
          for name in ("Demand", "Dirichlet", "Learned", "Population", "Regression", "Tied")),
        (SR.ExternalPosterior, models, None, None), (posterior.sample, 3, 0),
        (posterior.save, place / "o3.npz"),
        (SR.Problem, models, problem.rewards, problem.p0, 0.9), (problem.with_models, models),
        (problem.mean_problem,), (problem.policy, policy.decision),
        (SR.ModelSet.from_dense, dense), (models.select, [0]), (models.split, 2),
        (models.mean_model,), (SR.Policy, policy.probs, states, actions),
        (SR.Policy.from_decision, policy.decision, states, actions),
        (policy.action, states[0]), (policy.save, place / "o4.csv"),
        (SR.TransitionLog.from_arrays, [0, 1], [0, 0], [1, 0]), (log.with_initial, None),
        (log.with_rewards, None), (log.with_reward_table,),
        (SR.Rewards.of_pairs, np.zeros((2, 2))), (SR.Rewards.of_next, np.zeros(2), 2),
        (SR.Rewards.of_transitions, np.zeros((2, 2, 2))),
        (SR.Rewards.from_callable, lambda *_: 0.0, states, actions),
        (SR.data.Labels.of, ["a"]), (SR.data.Labels.range, 3), (states.index, states[0]),
        *((getattr(SR.returns, name), problem, policy)
          for name in ("policy_return", "static_return", "s_rect_return", "sa_rect_return",
                       "dynamic_return", "occupancies", "static_gradient", "returns_of")),
        (SR.returns.reference_returns, problem), (SR.bounds.best_bound, problem),
        (SR.bounds.clairvoyant_bound, problem),
        (SR.bounds.paper_errors, problem, [policy], ["own"]), (SR.solve, problem, SR.Nominal()),
        (SR.solvers.solve_grid, problem, SR.Nominal(), [0.5], [0.9]),
        (SR.certify, problem, policy), (SR.compare_policies, problem, policy, policy),
        (SR.certificate.certify_posterior, problem, policy, posterior),
        (SR.explain, problem, policy, states[0]), (SR.frontier, problem),
        (SR.value_of_data, problem, policy), (SR.make_domain, "riverswim"),
        (SR.study.review.review, problem, found.compared[0].solution), (SR.make_report, found),
        (SR.SPIBB, log), (SR.Improve, log), (SR.solvers.L1Robust, 0.1),
        (SR.solvers.LInfRobust, 0.1), (SR.report.picture_changes, policy, policy),
        *((getattr(SR, name),) for name in ("Exact", "MILP", "LocalSearch", "SRVI", "CADP",
                                            "RandomizedAscent", "SRect", "SARect", "Nominal")),
        *((getattr(SR.report, name), None) for name in ("picture_log", "picture_frontier",
                                                        "picture_rehearsal")),
        (SR.report.certificate_sentences, found.certificate), (SR.choose, log),
    ]  # fmt: skip
    return {f"{i} {call.__qualname__}": (call, given) for i, (call, *given) in enumerate(right)}


def test_nothing_but_our_own_errors(
    calls: dict[str, tuple[Callable[..., Any], Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every parameter in turn gets every wrong value; what works with it may."""
    monkeypatch.chdir(tmp_path)
    bare = []
    for name, (call, given) in calls.items():
        kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        parameters = [p for p in inspect.signature(call).parameters.values() if p.kind not in kinds]
        for i, parameter in enumerate(parameters[: len(given) if call.__name__ in SLOW else None]):
            for wrong in WRONG:
                first = [wrong if i == j else value for j, value in enumerate(given)]
                named = {parameter.name: wrong} if i >= len(given) else {}
                try:
                    call(*first, **named)
                except SoftRobustError:
                    pass
                except Exception as error:
                    bare.append(f"{name} {parameter.name}={wrong!r}: {error!r}"[:200])
    assert not bare, "\n".join([f"{len(bare)} errors of Python's own:", *bare])


def test_data_objects_are_made_of_what_they_ask_for() -> None:
    """The classes that functions make, made by hand: every field in turn gets every wrong value."""
    problem, _, posterior = from_log(stock_log())
    vectors = {"s": [[0.0], [1.0]], "a": [0, 0], "s_next": [[1.0], [0.0]], "variables": ["x"]}
    own = SR.ContinuousLog(**vectors, actions=problem.models.actions)
    known: tuple[Any, ...] = (posterior.log, posterior.log.rewards, problem.models, own)
    bare = []
    for good in known:
        made = {f.name: getattr(good, f.name) for f in fields(good) if f.init}
        for name, wrong in product(made, WRONG):
            try:
                type(good)(**{**made, name: wrong})
            except SoftRobustError:
                pass
            except Exception as error:
                bare.append(f"{type(good).__name__} {name}={wrong!r}: {error!r}"[:200])
    assert not bare, "\n".join([f"{len(bare)} errors of Python's own:", *bare])


def test_every_public_function_is_among_them(
    calls: dict[str, tuple[Callable[..., Any], Any]],
) -> None:
    tried = {call for call, _ in calls.values()}
    assert {f for name in SR.__all__ if inspect.isfunction(f := getattr(SR, name))} <= tried


def test_the_rule_what_came_and_where_are_said() -> None:
    with pytest.raises(softrobust.InputError, match="path must be text or a file name; it is 3"):
        SR.inspect_file(3)
    with pytest.raises(softrobust.InputError, match="x must be numbers; it is 'x'"):
        SR.cvar("x")
    with pytest.raises(softrobust.InputError, match="log must be a TransitionLog; it is None"):
        SR.TiedPosterior().fit(None)
    with pytest.raises(softrobust.InputError, match="id, time and action"):
        SR.read_trajectories("log.csv")
    with pytest.raises(TypeError, match="missing 1 required positional"):
        SR.cvar()


def test_an_error_that_no_argument_explains_stays() -> None:
    def own(observation: Any) -> int:
        raise KeyError(observation)

    problem, _, _ = from_log(stock_log())
    states, actions = problem.models.states, problem.models.actions
    with pytest.raises(KeyError):
        SR.Rewards.from_callable(lambda *what: own(what), states, actions)
