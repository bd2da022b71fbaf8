"""Improve practice state by state, and only where the gain is clear of its own uncertainty.

Policy iteration within a class of policies that keep to practice (`practice_class`). With value
functions v^ω of the present policy in every draw ω of a `Belief`, an action a in state s is worth

    d^ω(s, a) = Q^ω(s, a) − Σ_a′ β(a′|s)·Q^ω(s, a′)

more than practice β. Practice stays unless some free action has mean(d) − caution·sd(d) > 0; then
the best such action takes all that the class lets it take. Draws are paired, so that what a state
is worth by itself does not count as doubt. With caution = 0 this is policy iteration in the mean
model.

With a horizon the policy is the same at all steps, and Q an average over them, by how often the
state is met at each; a step of the nominal search is kept only if the return rises.
"""

from __future__ import annotations

import numpy as np

from softrobust._core.arrays import BoolArray, FloatArray
from softrobust.posterior.belief import Belief
from softrobust.solvers.practice_class import PracticeClass

ROUNDS = 50
CAUTIOUS_ROUNDS = 8  # its steps may go round in a circle
BETTER = 1e-10  # of the size of the values: less is rounding


def improved(
    belief: Belief, policies: PracticeClass, caution: float, usual: FloatArray | None = None
) -> FloatArray:
    """(n_states, n_actions): a policy of the class; `usual` are action values of practice."""
    if not policies.open.any():
        return np.array(policies.practice)
    if caution == 0.0:
        return _nominal(belief, policies)
    return _cautious(belief, policies, caution, usual)


def _nominal(belief: Belief, policies: PracticeClass) -> FloatArray:
    probs, before = np.array(policies.practice), -np.inf
    for _ in range(ROUNDS):
        q = belief.mean_q(probs)
        known = np.where(np.isfinite(q), q, 0.0)
        new = policies.greedy(q)
        gain = ((new - probs) * known).sum(axis=1)
        better = gain > BETTER * max(float(np.abs(known).max()), 1e-300)
        if not better.any():
            break
        found = np.where(better[:, None], new, probs)
        if belief.horizon is not None:  # one rule for all steps: a step need not be an improvement
            now = float(belief.mean_p0 @ belief.mean_values(found))
            before = max(before, float(belief.mean_p0 @ belief.mean_values(probs)))
            if now <= before:
                break
        probs = found
    return probs


def clear_pairs(
    belief: Belief, policies: PracticeClass, caution: float, probs: FloatArray
) -> BoolArray:
    """(n_states, n_actions): free pairs clearly better than practice, by a policy's values.

    Without caution all free pairs are.
    """
    free = policies.free & belief.available
    if caution == 0.0 or not free.any():
        return free
    _, score, size = _scores(belief, policies, caution, belief.q_values(probs))
    return np.asarray(score > size)


def _scores(
    belief: Belief, policies: PracticeClass, caution: float, q: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """Mean(d), and mean(d) − caution·sd(d) of free pairs, both (n_states, n_actions); rounding."""
    gain = q - np.einsum("sa,san->sn", policies.practice, q)[:, None, :]
    mean = gain.mean(axis=2)
    free = policies.free & belief.available
    score = np.where(free, mean - caution * gain.std(axis=2), -np.inf)
    return mean, score, BETTER * max(float(np.abs(q).max()), 1e-300)


def _cautious(
    belief: Belief, policies: PracticeClass, caution: float, usual: FloatArray | None
) -> FloatArray:
    practice, free = policies.practice, policies.free & belief.available
    rows = np.arange(practice.shape[0])
    probs, seen = np.array(practice), set()
    before = probs.tobytes()
    for _ in range(CAUTIOUS_ROUNDS):
        q, usual = belief.q_values(probs) if usual is None else usual, None
        mean, score, size = _scores(belief, policies, caution, q)
        best = score.argmax(axis=1)
        top = score[rows, best]
        kept = np.where(~free & (mean > top[:, None]), practice, 0.0)
        new = kept
        new[rows, best] += 1.0 - kept.sum(axis=1)
        probs = np.where((top > size)[:, None], new, practice)
        if (mark := probs.tobytes()) in seen or mark == before:
            break
        seen.add(mark)
        before = mark
    return probs
