"""Simulated episodes in tables: one after another, each in a model of its own.

Shapes: indptr (S·A + 1,), next_states (nnz,), prob (nnz·N,) as `ModelSet` stores them; probs (S, A)
the policy; start, omega, length (E,); u (E, T, 2) uniforms; out s, a, s_next (E, T).
"""

from __future__ import annotations

from softrobust.kernels._jit import kernel


@kernel
def roll_episodes(indptr, next_states, prob, n_models, probs, stop, start, omega, length, u, s, a, s_next):  # noqa: E501 # fmt: skip
    """Walk every episode for its length, or until a state of `stop` (S,) bool; returns lengths."""
    n_actions = probs.shape[1]
    for e in range(start.size):
        now = start[e]
        t = 0
        while t < length[e] and not stop[now]:
            x, act = u[e, t, 0], 0
            last = 0
            for j in range(n_actions):  # the last action of positive probability takes what is left
                if probs[now, j] > 0.0:
                    last = j
            act = last
            for j in range(n_actions):
                x -= probs[now, j]
                if x < 0.0 and probs[now, j] > 0.0:
                    act = j
                    break
            k = now * n_actions + act
            n_next = indptr[k + 1] - indptr[k]
            row = indptr[k] * n_models + omega[e] * n_next
            y = u[e, t, 1]
            to = n_next - 1
            while to > 0 and prob[row + to] <= 0.0:
                to -= 1
            for j in range(n_next):
                y -= prob[row + j]
                if y < 0.0 and prob[row + j] > 0.0:
                    to = j
                    break
            s[e, t], a[e, t] = now, act
            now = next_states[indptr[k] + to]
            s_next[e, t] = now
            t += 1
        length[e] = t
