"""Rehearsal of the default line in known worlds, also such as its posterior does not contain.

A world is drawn, practice makes a log in it (the same starts and lengths of episodes), the whole
procedure (`solvers.promise`) chooses on that log, and its promise is compared with the truth.
Worlds of the posterior ask whether the machinery is right. Foreign worlds ask what happens where
the prior is wrong, which no draw of the posterior can tell:

    rougher    rows redrawn around the learned mean as if four observations had taught it: states
               that look alike differ
    smoother   rows pulled halfway to what the same action does in near (or all) states
    shifted    in a third of the states two actions have exchanged what they do
    noisier    rewards with twice the noise; with some where they had none

Each of them makes its own log, so that an honest procedure can find out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self, final

import numpy as np

from softrobust._core.arrays import FloatArray
from softrobust.data import TransitionLog
from softrobust.models.policy import Policy
from softrobust.posterior.belief import Belief
from softrobust.posterior.dirichlet import dirichlet_blocks
from softrobust.problem import Problem
from softrobust.solvers.base import solve
from softrobust.solvers.improve import Improve, promise_of
from softrobust.solvers.promise import LEVEL, Procedure, Promise
from softrobust.solvers.registry import make_solver
from softrobust.study.checks import Verdict
from softrobust.study.rehearsal import Interval, Rehearsal, binomial
from softrobust.study.solved import need_stationary, read_kept

SUMMARY = "summary.json"
KINDS = ("posterior", "rougher", "smoother", "shifted", "noisier")
ROUGH = 4.0  # observations that a row of a rougher world is worth
PULL = 0.5  # of a row of a smoother world
SHARE = 1 / 3  # of the states of a shifted world
TIMES_NOISE = 2.0
ADDED = 0.5  # standard deviations of the rewards, as noise where they had less

# Twenty worlds tell 80 % from 50 %; with fewer a kind is not judged. 80 % is the least that a 90 %
# limit may come to in any one world, 10 % of changes for the worse what such a limit lets through.
FEWEST = 20
KEPT = 0.8
WORSE = 0.1
OVERSAID = 0.1


def kinds_of(log: TransitionLog) -> tuple[str, ...]:
    """The kinds that a log can have: rewards given in a table have no noise."""
    return KINDS if log.reward is not None else KINDS[:-1]


def repetition(
    problem: Problem, log: TransitionLog, number: int, kind: str, seed: int, solver: str
) -> dict[str, Any]:
    """Draw a world, choose from a log of it, and compare what is promised with what is true."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
    real = Procedure.of(log, problem.gamma, None, 1, 1, rng, problem.horizon)
    world = foreign(real.belief, kind, rng)
    batch = world.rehearse(0, real.practice, rng)
    if kind == "noisier" and batch.reward is not None:
        noise = extra_noise(real.belief) * rng.standard_normal(batch.n_rows)
        batch = replace(batch, reward=batch.reward + noise)
    policy, promise = _chosen(batch, problem, number, solver)
    # Where the shares of its log are recommended, or nothing, practice goes on.
    moved = np.abs(policy.probs - np.asarray(batch.behaviour)).max(axis=1) > 1e-9
    moved &= np.asarray(policy.decided) & (np.asarray(batch.pair_counts).sum(axis=1) > 0)
    probs = np.where(moved[:, None], policy.probs, real.practice)
    return {
        "kind": kind,
        "verdict": str(promise.verdict),
        "low": promise.return_low,
        "chance": promise.chance,
        "gain": promise.gain.value,
        "return": float(world.returns(probs)[0]),
        "practice": float(world.returns(real.practice)[0]),
    }


def _chosen(
    batch: TransitionLog, problem: Problem, number: int, solver: str
) -> tuple[Policy, Promise]:
    """The policy of the line and its promise, from a log alone."""
    if solver == Improve.name:
        found = Improve(batch, number).choice(problem)
        return found.policy, found.promise
    belief = Belief.of(batch, problem.gamma, problem.n_models, np.random.default_rng(number))
    models, horizon = belief.models(), problem.horizon
    posed = Problem(models, p0=problem.p0, objective=problem.objective.anew(), horizon=horizon)
    made = make_solver(solver, log=batch, seed=number, posterior=belief.fitted)
    policy = solve(posed, made).policy
    need_stationary(policy, "A rehearsal")
    lam = problem.objective.lam
    promise = promise_of(batch, problem.gamma, policy, lam=lam, horizon=horizon, seed=number)
    assert promise is not None  # only pairs that were seen have a model
    return policy, promise


# --------------------------------------------------------------------------------------------------
# Worlds.


def foreign(drawn: Belief, kind: str, rng: np.random.Generator) -> Belief:
    """The world of a kind around one draw of the posterior (a belief with one model)."""
    if kind == "rougher":
        shape = np.maximum(ROUGH * drawn.mean_prob, 1e-6)
        prob = dirichlet_blocks(drawn.indptr, shape, 1, rng)
    elif kind in ("smoother", "shifted"):
        prob = _cells(drawn, _smooth(drawn) if kind == "smoother" else _exchanged(drawn, rng))
    else:
        return drawn  # noise is of the log, not of the mean
    # What a transition earns stays.
    return replace(drawn, prob=prob, R=drawn.fitted.expected_rewards(prob, drawn.parts))


def extra_noise(belief: Belief) -> float:
    """Standard deviation to add: doubles the noise of rewards, or brings some."""
    if belief.rewards is None or belief.fitted.log.reward is None:
        return 0.0
    y = np.asarray(belief.fitted.log.reward)
    size = float(y.std()) or float(np.abs(y).max()) or 1.0
    had = 0.0 if belief.rewards.exact.size else float(np.sqrt(belief.rewards.variances.noise))
    return max(float(np.sqrt(TIMES_NOISE**2 - 1.0)) * had, ADDED * size if had < 1e-3 * size else 0)


def _smooth(world: Belief) -> FloatArray:
    """(n_states, n_actions, n_states): rows pulled to those of the same action in near states."""
    T, live = _rows(world), _live(world).astype(np.float64)
    geometry = world.fitted.common.geometry
    near = geometry.wide if geometry.has_coordinates else np.ones((T.shape[0], T.shape[0]))
    weight = (near @ live)[:, :, None]
    mean = np.einsum("st,ta,tan->san", near, live, T) / np.where(weight > 0, weight, 1.0)
    pulled = (live[:, :, None] > 0) & (weight > 0)
    return np.where(pulled, (1.0 - PULL) * T + PULL * mean, T)


def _exchanged(world: Belief, rng: np.random.Generator) -> FloatArray:
    """(n_states, n_actions, n_states): two actions exchanged in some of the states."""
    T, live = _rows(world), _live(world)
    open_ = np.flatnonzero(live.sum(axis=1) > 1)
    for s in rng.permutation(open_)[: int(np.ceil(SHARE * open_.size))]:
        a, b = rng.choice(np.flatnonzero(live[s]), 2, replace=False)
        T[s, [a, b]] = T[s, [b, a]]
    return T


def _live(world: Belief) -> Any:
    return world.available & ~world.fitted.sinks[:, None]


def _pairs(world: Belief) -> Any:
    """(nnz,): the pair of every cell."""
    return np.repeat(np.arange(world.indptr.size - 1), np.diff(world.indptr))


def _rows(world: Belief) -> FloatArray:
    S, A = world.mean_rewards.shape
    out = np.zeros((S * A, S))
    out[_pairs(world), world.next_states] = world.prob
    return out.reshape(S, A, S)


def _cells(world: Belief, T: FloatArray) -> FloatArray:
    """(nnz,): rows at the stored cells; one whose next states are not stored stays as it was."""
    S, A = world.mean_rewards.shape
    pair = _pairs(world)
    cells = T.reshape(S * A, S)[pair, world.next_states]
    total = np.bincount(pair, cells, S * A)[pair]
    return np.where(total > 0, cells / np.where(total > 0, total, 1.0), world.prob)


# --------------------------------------------------------------------------------------------------
# What the worlds say.


World = tuple[str, float, float, bool | None]


@final
@dataclass(frozen=True, slots=True)
class KindFound:
    """What was promised and what came true in the worlds of a kind."""

    kind: str
    n: int  # worlds
    changed: float  # share in which a change was recommended
    # (share, low, high): in which the true return reached the promised limit; None where nothing
    # was promised
    kept: Interval | None
    # chance, better: float, (share, low, high): mean probability said of being better than
    # practice, and how often it was
    chance: float
    better: Interval
    # gain_said, gain_true: means
    gain_said: float
    gain_true: float
    worse: Interval  # (share, low, high): in which the policy earns less than practice

    @classmethod
    def of(cls, kind: str, results: Sequence[Mapping[str, Any]]) -> Self:
        """Count over the repetitions of a kind."""
        true, usual, said, chance = (
            np.array([r[key] for r in results]) for key in ("return", "practice", "gain", "chance")
        )
        size = 1e-9 * np.maximum(np.abs(true), np.abs(usual))
        held = [kept for r in results if (kept := _kept(r)) is not None]
        n = len(results)
        return cls(
            kind, n, float(np.mean([r["verdict"] == "change" for r in results])),
            binomial(sum(held), len(held)) if held else None,
            float(chance.mean()), binomial(int((true > usual + size).sum()), n),
            float(said.mean()), float((true - usual).mean()),
            binomial(int((true < usual - size).sum()), n),
        )  # fmt: skip

    @property
    def verdict(self) -> Verdict:
        """Caution where worlds contradict the promises, fine where enough of them bear it out."""
        kept, better, worse = self.kept, self.better, self.worse
        if kept is None:
            return Verdict.CANNOT_TELL
        if kept[2] < LEVEL or worse[1] > WORSE or better[2] < self.chance:
            return Verdict.CAUTION
        borne_out = kept[0] >= KEPT and worse[0] <= WORSE and self.chance - better[0] <= OVERSAID
        return Verdict.FINE if borne_out and self.n >= FEWEST else Verdict.CANNOT_TELL


@final
@dataclass(frozen=True, slots=True)
class ForeignRehearsal:
    """What the repetitions say: of all worlds (`total`), of every kind, and of each world.

    `worlds` has (kind, gain said, true gain, whether the promised limit was kept) of each; an older
    record has none.
    """

    total: KindFound
    kinds: tuple[KindFound, ...]
    failed: int = 0
    worlds: tuple[World, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst of all kinds."""
        found = {kind.verdict for kind in self.kinds}
        order = (Verdict.CAUTION, Verdict.CANNOT_TELL, Verdict.FINE)
        return next(verdict for verdict in order if verdict in found)

    @classmethod
    def of(cls, results: Sequence[Mapping[str, Any]], failed: int = 0) -> Self:
        """Count over all repetitions."""
        by_kind = {kind: [r for r in results if r["kind"] == kind] for kind in KINDS}
        kinds = (KindFound.of(kind, rows) for kind, rows in by_kind.items() if rows)
        worlds = tuple(
            (str(r["kind"]), float(r["gain"]), float(r["return"] - r["practice"]), _kept(r))
            for r in results
        )
        return cls(KindFound.of("all", results), tuple(kinds), failed, worlds)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        total, *kinds = (asdict(k) | {"verdict": str(k.verdict)} for k in (self.total, *self.kinds))
        record = {"verdict": str(self.verdict), "level": LEVEL, "failed": self.failed}
        return record | {"total": total, "kinds": kinds, "worlds": [list(w) for w in self.worlds]}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        total, *kinds = (_kind(found) for found in (record["total"], *record["kinds"]))
        if not kinds or sum(kind.n for kind in kinds) != total.n:
            raise ValueError("the worlds of its kinds are not all that it counts")
        worlds = ((str(k), float(a), float(b), kept) for k, a, b, kept in record.get("worlds", ()))
        return cls(total, tuple(kinds), record["failed"], tuple(worlds))


def _kept(result: Mapping[str, Any]) -> bool | None:
    """Whether the true return reached the promised limit; None where nothing was promised."""
    low = result["low"]
    return None if low is None else bool(result["return"] >= low - 1e-9 * abs(low))


def _kind(found: Mapping[str, Any]) -> KindFound:
    plain: dict[str, Any] = {key: value for key, value in found.items() if key != "verdict"}
    intervals = {key: tuple(value) for key, value in plain.items() if isinstance(value, list)}
    return KindFound(**plain | intervals)


def load_rehearsal(
    path: Path, shown: Callable[[Any], object] = lambda found: None
) -> Rehearsal | ForeignRehearsal | None:
    """The rehearsal on record, of either kind; None where none was done. `shown` as for checks."""

    def make(record: Mapping[str, Any]) -> Rehearsal | ForeignRehearsal:
        found = (ForeignRehearsal if "kinds" in record else Rehearsal).from_dict(record)
        shown(found)
        return found

    return read_kept(path, make, "Rehearse the run again.")
