"""Something that guided decisions and that the log does not have: its trace, and what it costs.

If cases differ in a way that people see and the log does not, those that were given an action more
often than usual also fare otherwise than usual, at *other* steps, too. With the residuals

    y_i  =  r_i + γ·v(s′_i) − q(s_i, a_i),        z_i(a)  =  1[a_i = a] − β(a | s_i)

of outcomes and decisions (v, q: values of practice β), products y_i·z_j(a) at nearby steps i ≠ j of
one episode have mean 0 where the state is all that matters. Where it is not, their mean over that
of z_j(a)² is about by how much q(·, a) is wrong: what happened at other steps tells what the same
step cannot, since there q has taken it in. The policy's gain is then wrong by

    D  =  Σ_s d_π(s) Σ_a (π − β)(a | s)·bias(a),

d_π its discounted visits. Only a D that is clear of its standard error (over episodes) counts, and
counts twice: cases change, and other steps show only a part of what the same step took in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from softrobust._core.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from softrobust.posterior.belief import Belief

STEPS = 3  # apart, at most
CLEAR = 1.0  # standard errors
TIMES = 2.0  # what other steps show is about half of the bias, in worlds made for tuning


@final
class Hidden(NamedTuple):
    """By how much the gain is too large, and the standard error; zeros where nothing shows."""

    bias: float
    error: float


NOTHING = Hidden(0.0, 0.0)


def hidden_bias(
    belief: Belief, practice: FloatArray, probs: FloatArray, groups: IntArray
) -> Hidden:
    """The trace of hidden causes in the gain of a policy (n_states, n_actions) over practice.

    `groups` (n_rows,) are the independent parts of the log, counted from 0.
    """
    log, n = belief.fitted.log, int(groups.max()) + 1
    y, z = _residuals(belief, practice)
    episode = np.zeros(log.n_rows) if log.episode is None else log.episode
    product, square = np.zeros((n, log.n_actions)), np.zeros((n, log.n_actions))
    for apart in range(1, STEPS + 1):
        i = np.flatnonzero(episode[apart:] == episode[:-apart])
        for here, there in ((i, i + apart), (i + apart, i)):
            np.add.at(product, groups[i], y[here, None] * z[there])
            np.add.at(square, groups[i], np.square(z[there]))
    total = np.maximum(square.sum(axis=0), 1e-300)
    bias = product.sum(axis=0) / total
    weight = (belief.mean_visits(probs)[:, None] * (probs - practice)).sum(axis=0)
    spread = ((product - bias * square) / total) @ weight
    found = float(weight @ bias)
    error = float(np.sqrt(np.square(spread).sum() * n / max(n - 1, 1)))
    return Hidden(TIMES * found, TIMES * error) if found > CLEAR * error else NOTHING


def _residuals(belief: Belief, practice: FloatArray) -> tuple[FloatArray, FloatArray]:
    """y (n_rows,) and z (n_rows, n_actions); q is a pair's own mean, with one of the model's."""
    log = belief.fitted.log
    v = belief.mean_ahead(practice)
    q = belief.mean_q(practice).reshape(-1)
    earned = log.reward
    if earned is None:
        assert log.rewards is not None  # a belief has rewards
        value, known = log.rewards.at(log.s, log.a, log.s_next)
        earned = np.where(known, value, 0.0)
    outcome = earned + belief.gamma * v[log.s_next]
    pair = log.s.astype(np.int64) * log.n_actions + log.a
    seen = np.bincount(pair, minlength=q.size)
    mean = np.bincount(pair, weights=outcome, minlength=q.size) + np.where(np.isfinite(q), q, 0.0)
    return outcome - (mean / (seen + 1))[pair], np.eye(log.n_actions)[log.a] - practice[log.s]
