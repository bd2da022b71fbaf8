"""One Dirichlet over relative moves, shared by all states: riverswim's posterior (app. F.4).

States stand on a line; an action moves by one of `moves` (−1, 0, 1: left, stay, right), with
probabilities that are the same everywhere and unknown:

    q_a ~ Dirichlet(prior),   P(s + move | s, a) = q_a[move]

A move that would leave the line stays where it is. There a logged "stay" may be a move that was
cut off, so only states from which all moves are possible count as data. Rows that no law of moves
can produce (another step, or one that a known action never makes) are errors wherever they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import ArrayLike

from softrobust._core.arguments import names_arguments
from softrobust._core.arrays import BoolArray, FloatArray, IntArray
from softrobust._core.limits import generator
from softrobust._core.settings import real
from softrobust.data import TransitionLog
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.posterior.base import (
    FittedPosterior,
    Frame,
    Posterior,
    Seed,
    Transitions,
    check_count,
)
from softrobust.posterior.diagnostics import Diagnostics
from softrobust.posterior.sampling import dirichlet_rows

LEFT_STAY_RIGHT = (-1, 0, 1)


def move_blocks(q: ArrayLike, moves: Sequence[int], n_states: int) -> FloatArray:
    """(n_states, n_actions, n_models, n_states) rows from q (n_models, n_actions, n_moves)."""
    q = np.asarray(q, dtype=np.float64)
    N, A, _ = q.shape
    out = np.zeros((n_states, A, N, n_states))
    s = np.arange(n_states)
    for j, move in enumerate(moves):
        to = np.where((s + move >= 0) & (s + move < n_states), s + move, s)
        out[s, :, :, to] += q[:, :, j].T
    return out


@final
@dataclass(frozen=True, slots=True, eq=False)
class TiedPosterior(Posterior):
    """One Dirichlet over relative moves for each action, the same in all states.

    Parameters
    ----------
    moves : sequence of int
        Differences of state index that an action can make; 0 must be among them.
    prior : float
        Prior mass of each move.
    known : mapping of action label → probabilities of `moves`
        Actions whose law is not learned.
    frame : Frame, optional
        States (in line order), actions, rewards, start and discount; by default those of the log,
        whose rewards may then be noisy: their means are taken. Those of a frame are known exactly,
        and a log that contradicts them is refused.
    """

    name: ClassVar[str] = "tied"
    moves: tuple[int, ...] = LEFT_STAY_RIGHT
    prior: float = 1.0
    known: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    frame: Frame | None = None

    def __post_init__(self) -> None:
        moves, known = self.moves, self.known
        if not isinstance(moves, Sequence) or not all(isinstance(m, Integral) for m in moves):
            raise InputError(f"moves must be whole numbers such as (-1, 0, 1); they are {moves!r}.")
        if 0 not in [*moves] or len(set(moves)) != len(moves):
            raise InputError(f"moves must be distinct and hold 0; they are {moves!r}.")
        real("prior", self.prior, above=0, hint="It is a positive prior mass.")
        if not isinstance(known, Mapping):
            raise InputError(f"known must map actions to probabilities; it is {known!r}.")
        for action, q in known.items():
            if not isinstance(q, (tuple, list, np.ndarray)) or len(q) != len(moves):
                law = [np.nan]
            else:
                law = [real(f"Each probability of '{action}'", x, least=0) for x in q]
            if not abs(sum(law) - 1) <= 1e-8:
                raise InputError(
                    f"The known action '{action}' needs {len(moves)} probabilities that sum to 1; "
                    f"it has {q!r}."
                )

    @names_arguments
    def fit(self, log: TransitionLog) -> FittedTied:
        """Count the moves of inner states, by action."""
        if log.end is not None and self.frame is None:
            raise InputError(
                "A posterior of moves needs states on a line; this log has terminal rows, whose "
                "'(end)' is on no line. Choose another posterior, or drop the terminal column.",
                arguments={"posterior": "dirichlet"},
            )
        frame = Frame(log.states, log.actions, log.rewards, log.p0, None)
        frame = frame if self.frame is None else self.frame
        t = self.transitions(frame, log)
        inner, step = self.informative(frame, t), t.s_next - t.s
        # Ends are no exception: a move that is cut off there shows as 0, which is a move.
        order = np.argsort(self.moves)
        ranked = np.asarray(self.moves)[order]
        at = np.minimum(np.searchsorted(ranked, step), ranked.size - 1)
        wrong = np.flatnonzero(ranked[at] != step)
        if wrong.size:
            i = int(wrong[0])
            raise InputError(
                f"Every transition must be one of the moves {self.moves}: {_told(log, i)} moves by "
                f"{int(step[i])} ({wrong.size} such rows). Correct the row, add the move, or "
                "choose another posterior.",
                arguments={"posterior": "dirichlet"},
            )
        j = order[at]
        self._check_known(log, frame, t, j)
        counts = np.zeros((len(frame.actions), len(self.moves)))
        np.add.at(counts, (t.a[inner], j[inner]), 1.0)
        return FittedTied(self, log, frame, counts, int((~inner).sum()))

    def transitions(self, frame: Frame, log: TransitionLog) -> Transitions:
        """The rows in the indices of the frame; rewards that are the log's own need no check."""
        noise = np.inf if self.frame is None else 0.0
        return frame.transitions(log, "The posterior of moves", noise)

    def informative(self, frame: Frame, t: Transitions) -> BoolArray:
        """(n_rows,): rows of an unknown action from a state in which all moves are possible."""
        inner = (t.s + min(self.moves) >= 0) & (t.s + max(self.moves) < len(frame.states))
        return np.asarray(inner & ~np.isin(t.a, [frame.actions.index(a) for a in self.known]))

    def _check_known(self, log: TransitionLog, frame: Frame, t: Transitions, j: IntArray) -> None:
        """Refuse rows to which the known law of their action gives no chance."""
        S, stay = len(frame.states), self.moves.index(0)
        for action, law in self.known.items():
            q = np.asarray(law, dtype=np.float64)
            rows = np.flatnonzero(t.a == frame.actions.index(action))
            to = t.s[rows, None] + np.asarray(self.moves)
            cut = np.where((to < 0) | (to >= S), q, 0.0).sum(axis=1)
            chance = q[j[rows]] + np.where(j[rows] == stay, cut, 0.0)
            wrong = rows[chance <= 0]
            if wrong.size:
                i = int(wrong[0])
                raise InputError(
                    f"A known action must move as it is known to: {_told(log, i)} moves by "
                    f"{int(t.s_next[i] - t.s[i])}, which has probability 0 ({wrong.size} such "
                    f"rows). Correct the row, or leave '{action}' out of the known actions."
                )


def _told(log: TransitionLog, i: int) -> str:
    """Row, state, action and next state, by label."""
    return (
        f"{log.rows.where(i)} (state '{log.states[int(log.s[i])]}', action "
        f"'{log.actions[int(log.a[i])]}', next state '{log.states[int(log.s_next[i])]}')"
    )


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FittedTied(FittedPosterior):
    """Counts (n_actions, n_moves) of inner states; `unused` rows were ends or known actions."""

    settings: TiedPosterior
    log: TransitionLog
    frame: Frame
    counts: FloatArray
    unused: int

    @property
    def concentration(self) -> FloatArray:
        """(n_actions, n_moves): prior + counts."""
        return self.counts + self.settings.prior

    def draws(self, n: int, seed: Seed = 0) -> FloatArray:
        """(n, n_actions, n_moves): probabilities of the moves."""
        rng = generator(seed)
        q = dirichlet_rows(rng, self.concentration[:, None, :], check_count(n)).transpose(1, 0, 2)
        for action, law in self.settings.known.items():
            q[:, self.frame.actions.index(action)] = law
        return q

    def sample(self, n: int, seed: Seed = 0) -> ModelSet:
        """`n` exact, independent draws."""
        S = len(self.frame.states)
        check_count(n, S * S * len(self.frame.actions))
        return self.frame.dense(move_blocks(self.draws(n, seed), self.settings.moves, S))

    def diagnostics(self) -> Diagnostics:
        """Draws are exact; the check asks whether moves differ along the line more than by chance.

        The statistic is the mean position of the rows that moved up, against positions permuted
        within each action: near 0 or 1 the moves are not the same everywhere.
        """
        t = self.settings.transitions(self.frame, self.log)
        rng, use = np.random.default_rng(0), self.settings.informative(self.frame, t)
        s, a, step = t.s[use], t.a[use], (t.s_next - t.s)[use]
        seen, new = float(s @ step), np.zeros(400)
        for i in range(new.size):
            mixed = step.copy()
            for action in np.unique(a):
                mixed[a == action] = rng.permutation(step[a == action])
            new[i] = s @ mixed
        p = float(np.mean(new > seen) + 0.5 * np.mean(new == seen))
        return Diagnostics.of_exact({"moves along the line": p})

    def describe(self) -> dict[str, Any]:
        """Settings, data, and how many rows carried no information."""
        return FittedPosterior.describe(self) | {"unused_rows": self.unused}

    def __repr__(self) -> str:
        return f"FittedTied({int(self.counts.sum())} moves, {self.unused} rows unused)"
