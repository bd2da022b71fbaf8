"""The ratio test of the dual simplex method with bound flipping: who enters, and who changes sides.

Along a pivot d moves by θ·y and reduced costs by θ·Δ. A model's breakpoint is where its reduced
cost comes to 0, and passing it costs |Δ|·u of the slope of the decision's value. So the models in
order of their breakpoints are passed, and their q flipped, until the slope turns: a weighted
selection. It ends earlier where an action of K comes to d = 0.

Few of the breakpoints are passed, and a horizon guessed from their mean leaves few to select from;
finding it takes sums over all models, which vectorise, and no division.
"""

from __future__ import annotations

import numpy as np

from softrobust.kernels._jit import FINITE, kernel
from softrobust.kernels.tail import select

# Rows of the work arrays, as in `s_pivot`.
RC, DELTA, Q, SIDE, SPEED, AWAY, RATIO, DROP, SCRATCH = 0, 1, 2, 3, 4, 5, 6, 7, 8
SOL, D = 3, 5
WHICH = 3

PIVOT = 1e-11  # smaller directions cannot turn a reduced cost
FAR = 1e300


@kernel(fastmath=FINITE, inline=True)
def _approach(u, X):
    """Speed and distance at which reduced costs come to 0: (slope lost in all, Σ of it times θ)."""
    total = moment = 0.0
    for i in range(u.size):
        speed = -X[SIDE, i] * X[DELTA, i]
        speed = speed if speed > PIVOT else 0.0
        away = max(X[SIDE, i] * X[RC, i], 0.0)
        X[SPEED, i], X[AWAY, i] = speed, away
        total += u[i] * speed
        moment += u[i] * away if speed > 0.0 else 0.0
    return total, moment


@kernel(fastmath=FINITE, inline=True)
def _lost(u, X, theta):
    """The slope lost before θ."""
    total = 0.0
    for i in range(u.size):
        total += u[i] * X[SPEED, i] if X[AWAY, i] < theta * X[SPEED, i] else 0.0
    return total


@kernel(inline=True)
def _horizon(slope, block, u, X):
    """θ before which the slope turns or d blocks, not far beyond the first of the two."""
    total, moment = _approach(u, X)
    if total < slope:
        return block
    # If breakpoints were spread evenly up to twice their mean, the slope would turn at 2/3 of this.
    theta = 3.0 * moment * slope / (total * total)
    for _ in range(4):
        if theta >= block:
            break
        if _lost(u, X, theta) >= slope:
            return theta
        theta *= 3.0
    return block


@kernel(inline=True)
def _gather(theta, u, X, J):
    """Breakpoints before θ, by index; returns their number."""
    m = 0
    for i in range(u.size):  # without branches
        J[WHICH, m] = i
        m += X[AWAY, i] < theta * X[SPEED, i]
    for p in range(m):
        i = J[WHICH, p]
        X[RATIO, p] = X[AWAY, i] / X[SPEED, i]
        X[DROP, p] = X[SPEED, i] * u[i]
    return m


@kernel(inline=True)
def ratio_test(k, slope, u, X, Y, J):
    """Who enters along Y[SOL] and X[DELTA]: (kind, index, number of breakpoints, θ).

    Kind 0 is a model, 1 a position in K from 1 on, −1 none. Breakpoints are J[WHICH], X[RATIO].
    """
    block, position = FAR, 0
    for i in range(1, k + 1):
        if Y[SOL, i] < -PIVOT:
            r = max(Y[D, i], 0.0) / -Y[SOL, i]
            if r < block:
                block, position = r, i
    m = _gather(_horizon(slope, block, u, X), u, X, J)
    theta, below = select(X[RATIO], X[DROP], m, slope, slope, X[SCRATCH:])
    if block <= theta:
        return (1, position, m, block) if position > 0 else (-1, -1, m, np.inf)
    # Among ties pass what the slope allows, in order; the one that turns it enters.
    left, last = slope - below, -1
    for p in range(m):
        if X[RATIO, p] == theta:
            last = J[WHICH, p]
            left -= X[DROP, p]
            if left <= 0.0:
                break
            X[RATIO, p] = -1.0  # passed
    return 0, last, m, theta


@kernel(inline=True)
def flips(m, theta, stays, u, X, J):
    """Flip the breakpoints before θ but `stays`; returns their number.

    Models go to J[WHICH], the steps of their q to X[DROP].
    """
    count = 0
    for p in range(m):
        i = J[WHICH, p]
        if X[RATIO, p] < theta and i != stays:
            J[WHICH, count], X[DROP, count] = i, X[SIDE, i] * u[i]
            X[SIDE, i] = -X[SIDE, i]
            count += 1
    return count
