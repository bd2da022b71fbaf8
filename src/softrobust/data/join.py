"""Two logs of the same world in one: the old rows first, the new ones after them.

The old labels keep their places, so that a policy for them stays a policy; labels that are new
come after them, and "(end)" stays last. Episodes of the two logs are different ones. p₀ that was
given stays; p₀ from episode starts is counted anew. Rewards that the old log's column showed are
estimated again from both columns; rewards that were given (a table, a function) stay, and then
the new log may not bring states or actions that they do not know.

A new log may repeat rows of the old one: exports grow. Rows carry no identity, so that a match must
be one that chance does not make: whole episodes (or their beginnings, where an episode went on), or
runs of rows in the order in which they stand in the old log. See `known_rows`.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import pdtrc

from softrobust._core.arrays import CodeArray, FloatArray, IntArray, ranks, starts_of
from softrobust._core.notes import Note
from softrobust.data.labels import Labels
from softrobust.data.log import END, GIVEN, TransitionLog, usual_p0, with_end
from softrobust.data.rewards import Rewards
from softrobust.errors import InputError

CHANCE = 1e-6  # probability below which a match is no accident
UNKNOWN = -1
AFTER = 3  # rows that must agree again after one that differs
MOST_BEYOND = 100_000  # rows by which a run is made longer


def join_logs(
    old: TransitionLog, new: TransitionLog, known: IntArray | None = None
) -> TransitionLog:
    """The rows of both logs, with common labels.

    `known` (new.n_rows,) says which old row a new one is, or −1 (`known_rows`): these are left out,
    and the rest of an episode that went on belongs to the old one.
    """
    if (old.episode is None) != (new.episode is None):
        have, lack = ("old", "new") if new.episode is None else ("new", "old")
        where = (new if lack == "new" else old).rows.source
        raise InputError(
            f"Both logs need episodes, or neither: the {have} log has an episode column and the "
            f"{lack} one ({where}) does not. Add it, or leave it out of both."
        )
    seen = np.zeros(new.n_rows, dtype=bool) if known is None else known != UNKNOWN
    episode = None
    if old.episode is not None and new.episode is not None:
        number = np.arange(int(new.episode.max()) + 1, dtype=np.int32) + old.episode.max() + 1
        if known is not None:
            number[new.episode[seen]] = old.episode[known[seen]]  # it went on
        every = np.concatenate([old.episode, number[new.episode[~seen]]])
        episode = np.unique(every, return_inverse=True)[1].astype(np.int32)
    new = new if known is None else new.part(~seen)
    states, old_s, new_s = _common(old.states, new.states)
    actions, old_a, new_a = _common(old.actions, new.actions)
    reward = None
    if old.reward is not None and new.reward is not None:
        reward = np.concatenate([old.reward, new.reward])
    p0 = np.zeros(len(states))
    p0[old_s] = old.p0
    facts = {"n_rows": new.n_rows, "source": new.rows.source}
    both = replace(
        old,
        s=np.concatenate([old_s[old.s], new_s[new.s]]),
        a=np.concatenate([old_a[old.a], new_a[new.a]]),
        s_next=np.concatenate([old_s[old.s_next], new_s[new.s_next]]),
        states=states,
        actions=actions,
        p0=p0,
        reward=reward,
        episode=episode,
        rewards=None,
        remarks=(*old.remarks, Note("rows_added", facts=facts)),
    )
    if old.p0_source.code != GIVEN:
        p0, source = usual_p0(both.s, both.s_next, both.n_states, both.end, episode)
        both = replace(both, p0=p0, p0_source=source)
    return replace(both, rewards=_rewards(old, new, both))


def relabelled(log: TransitionLog, states: Labels, actions: Labels) -> TransitionLog:
    """The log by labels that hold its own, with the rewards that its column shows."""
    s = np.array([states.index(name) for name in log.states], np.int32)
    a = np.array([actions.index(name) for name in log.actions], np.int32)
    p0 = np.zeros(len(states))
    p0[s] = log.p0
    moved = replace(
        log, s=s[log.s], a=a[log.a], s_next=s[log.s_next], states=states, actions=actions, p0=p0,
        rewards=None,
    )  # fmt: skip
    return replace(moved, rewards=moved.shown_rewards())


def _common(old: Labels, new: Labels) -> tuple[Labels, CodeArray, CodeArray]:
    """Common labels, and where the old and the new ones are among them."""
    names = (*old, *(name for name in new if name not in old.lookup))
    labels = with_end(replace(old, names=names)) if END in names else replace(old, names=names)
    places = [np.array([labels.lookup[name] for name in part], np.int32) for part in (old, new)]
    return labels, places[0], places[1]


def _rewards(old: TransitionLog, new: TransitionLog, both: TransitionLog) -> Rewards | None:
    shown, from_column = old.shown_rewards(), False  # whether they are what its own column shows
    if shown is not None and old.rewards is not None:
        mine, known = old.rewards.at(old.s, old.a, old.s_next)
        theirs, _ = shown.at(old.s, old.a, old.s_next)
        same = known.all() and np.array_equal(old.rewards.known, shown.known)
        from_column = bool(same and np.allclose(mine, theirs, rtol=1e-9, atol=1e-12))
    if old.rewards is None or from_column:
        if old.rewards is not None and both.reward is None:
            raise InputError(
                f"The old log has a reward column and {new.rows.source} has none. Add it."
            )
        return both.shown_rewards()
    added = [name for name in both.states if name not in old.states.lookup]
    added += [name for name in both.actions if name not in old.actions.lookup]
    if added:
        raise InputError(
            "Rewards were given for the old log's states and actions, and the new rows bring "
            f"others ('{added[0]}'). Solve both logs together with a reward table that knows them."
        )
    return old.rewards


# --------------------------------------------------------------------------------------------------
# Which new rows are old ones.
#
# A row is a code of (state, action, next state, reward); sums Σ_j x(c_j)·B^j (mod 2⁶⁴) with random
# x name sequences of rows. The old log says how probable a sequence is: a start, then n(row)/n(s)
# for every row.


class _Coded(NamedTuple):
    """Rows of one log in the order of units: code, its random word, unit and place in it.

    `log_p` is the log-probability of a row in its unit, `log_run` after the row before it.
    """

    order: IntArray
    code: IntArray
    word: NDArray[np.uint64]
    log_p: FloatArray
    log_run: FloatArray
    unit: IntArray
    place: IntArray


def known_rows(old: TransitionLog, new: TransitionLog) -> IntArray:
    """(new.n_rows,): the row of the old log that each new row is, or −1 where it is new.

    Three ways, each taken only where chance would make as good a match with less than one in a
    million: whole episodes of the old log at the beginning of new ones, in any order of episodes;
    runs of consecutive rows; and, where neither finds any, rows in any order.
    """
    out = np.full(new.n_rows, UNKNOWN, dtype=np.int64)
    single = _coded(old, new, False)
    if single is None:
        return out
    if old.episode is not None and new.episode is not None:
        _by_units(*(_coded(old, new, True) or single), out)
    _by_runs(*single, out)
    if (out == UNKNOWN).all():
        _by_units(*single, out)
    return out


def _coded(old: TransitionLog, new: TransitionLog, episodes: bool) -> tuple[_Coded, _Coded] | None:
    """Rows of both logs, by episode or one by one; None where no row of one is in the other."""
    states, old_s, new_s = _common(old.states, new.states)
    actions, old_a, new_a = _common(old.actions, new.actions)
    S, A, n = len(states), len(actions), old.n_rows
    parts = [
        (at_s[log.s].astype(np.int64) * A + at_a[log.a]) * S + at_s[log.s_next]
        for log, at_s, at_a in ((old, old_s, old_a), (new, new_s, new_a))
    ]
    code = np.unique(np.concatenate(parts), return_inverse=True)[1]
    if old.reward is not None and new.reward is not None:
        paid = np.concatenate([old.reward, new.reward])
        size = np.floor(np.log10(np.where(np.abs(paid) < 1e-200, 1.0, np.abs(paid))))
        digits = 10.0 ** (11 - np.clip(size, -290, 290))  # twelve, as other programs write them
        rank = np.unique(np.round(paid * digits) / digits, return_inverse=True)[1]
        code = np.unique(code * (int(rank.max()) + 1) + rank, return_inverse=True)[1]
    if not np.isin(code[n:], code[:n]).any():
        return None
    left = np.bincount(old_s[old.s], minlength=S).astype(np.float64)
    count = np.bincount(code[:n], minlength=int(code.max()) + 1)
    word = np.random.default_rng(0).integers(0, 2**64, count.size, dtype=np.uint64)
    made = []
    for log, own, at_s in ((old, code[:n], old_s), (new, code[n:], new_s)):
        s = at_s[log.s]
        row = np.log(np.maximum(count[own], 0.5)) - np.log(np.maximum(left[s], 1.0))
        whose = np.arange(log.n_rows) if not episodes else np.asarray(log.episode, np.int64)
        order = np.argsort(whose, kind="stable")
        whose, row, s = whose[order], row[order], s[order]
        first = starts_of(whose)
        # A row that does not follow from the one before is as probable as its state.
        follows = np.concatenate([[False], at_s[log.s_next][order][:-1] == s[1:]])
        start_p = np.log(np.maximum(left[s], 0.5) / n)
        in_unit, in_run = (row + np.where(f, 0.0, start_p) for f in (follows & ~first, follows))
        mine, unit = own[order], np.cumsum(first, dtype=np.int64) - 1
        made.append(_Coded(order, mine, word[mine], in_unit, in_run, unit, ranks(whose)))
    return made[0], made[1]


def _powers(n: int, base: int) -> NDArray[np.uint64]:
    out = np.full(max(n, 1), base, dtype=np.uint64)
    out[0] = 1
    return np.multiply.accumulate(out)


BASE = 0x9E3779B97F4A7C15  # odd, so that it has an inverse
INVERSE = pow(BASE, -1, 2**64)


def _prefixes(rows: _Coded) -> NDArray[np.uint64]:
    """The name of each unit's sequence up to and with each row."""
    total = np.cumsum(rows.word * _powers(int(rows.place.max()) + 1, BASE)[rows.place])
    start = np.flatnonzero(rows.place == 0)
    before = np.concatenate([np.zeros(1, np.uint64), total[:-1]])[start]
    return np.asarray(total - before[rows.unit])


def _paired(new: NDArray[np.uint64], old: NDArray[np.uint64]) -> IntArray:
    """For every key of `new` the index of an equal one of `old`, each used once; else −1."""
    out = np.full(new.size, UNKNOWN, dtype=np.int64)
    if not new.size or not old.size:
        return out
    order = np.argsort(old, kind="stable")
    at = np.searchsorted(old[order], new, side="left") + ranks(new)
    ok = at < old.size
    ok[ok] = old[order][at[ok]] == new[ok]
    out[ok] = order[at[ok]]
    return out


def _by_units(old: _Coded, new: _Coded, out: IntArray) -> None:
    """Whole old units at the beginning of new ones, the longest first, each used once."""
    ends = np.flatnonzero(np.concatenate([old.place[1:] == 0, [True]]))
    whole, names = _prefixes(old)[ends], _prefixes(new)
    hit, last = np.flatnonzero(np.isin(names, whole)), np.concatenate([new.place[1:] == 0, [True]])
    free, pairs = np.arange(whole.size), [np.zeros((2, 0), dtype=np.int64)]
    while hit.size:  # a unit whose longest match is taken may be a shorter one that went on
        longest = np.full(int(new.unit[-1]) + 1, UNKNOWN)
        longest[new.unit[hit]] = hit  # the last one written is the longest
        tried = longest[longest != UNKNOWN]
        # Those that end there before those that went on: of two equal ones the end is the match.
        tried = tried[np.argsort(~last[tried], kind="stable")]
        match = _paired(names[tried], whole[free])
        found = match != UNKNOWN
        pairs.append(np.array([tried[found], free[match[found]]]))
        free = np.delete(free, match[found])
        hit = hit[~np.isin(hit, tried) & ~np.isin(new.unit[hit], new.unit[tried[found]])]
    tried, match = np.concatenate(pairs, axis=1)
    # How many matches chance makes: each unit has n·p equals among n new ones.
    chance = np.bincount(old.unit, weights=old.log_p)
    _, first, times = np.unique(whole, return_index=True, return_counts=True)
    expected = (int(new.unit[-1]) + 1) * np.exp(chance[first])
    all_there = match.size == whole.size
    if not match.size:
        return
    with np.errstate(divide="ignore"):  # log P[Poisson > k]; scipy.stats takes long to import
        beyond = float(np.sum(np.log(pdtrc(times - 1, expected)))) if all_there else 0.0
        many = float(np.log(pdtrc(match.size - 1, np.minimum(times, expected).sum())))
    if min(beyond, many) > np.log(CHANCE):
        return
    begins = np.flatnonzero(old.place == 0)
    for i, u in zip(tried.tolist(), match.tolist(), strict=True):
        length = int(new.place[i]) + 1
        rows = slice(begins[u], begins[u] + length)
        out[new.order[i - length + 1 : i + 1]] = old.order[rows]


def _by_runs(old: _Coded, new: _Coded, out: IntArray) -> None:
    """Runs of rows that stand in the old log as they do here, long enough to be no accident."""
    least = -np.log(CHANCE / old.code.size)  # a run may begin anywhere
    typical = float(np.mean(-old.log_run))
    k = int(np.ceil(least / max(typical, 1e-3))) + 1
    if k > min(old.code.size, new.code.size):
        return

    def windows(rows: _Coded) -> NDArray[np.uint64]:
        n = rows.code.size
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(rows.word * _powers(n, BASE))])
        return np.asarray((sums[k:] - sums[:-k]) * _powers(n, INVERSE)[: n - k + 1])

    rare = np.concatenate([[0.0], np.cumsum(-old.log_run)])
    at = np.flatnonzero(rare[k:] - rare[:-k] >= least)
    match = _paired(windows(new), windows(old)[at])
    found = np.flatnonzero(match != UNKNOWN)
    used = np.zeros(old.code.size, dtype=bool)
    used[out[out != UNKNOWN]] = True
    for j in range(k):
        rows, theirs = found + j, at[match[found]] + j
        free = (out[rows] == UNKNOWN) & ~used[theirs]
        out[rows[free]] = theirs[free]
        used[theirs[free]] = True
    for step in (1, -1):  # a run goes on as long as the two logs do, past a row that was corrected
        inner = np.flatnonzero(out != UNKNOWN)
        edge = inner[(inner + step >= 0) & (inner + step < out.size)]
        for i in edge[out[edge + step] == UNKNOWN].tolist():
            left = min(_room(i, out.size, step), _room(int(out[i]), used.size, step))
            here, there = (start + step * np.arange(1, left + 1) for start in (i, int(out[i])))
            open_ = (out[here] == UNKNOWN) & ~used[there]
            here, there = (side[: _first(~open_)] for side in (here, there))
            equal = new.code[here] == old.code[there]
            stop = _first(~equal)
            while (again := equal[stop + 1 : stop + 1 + AFTER]).size == AFTER and again.all():
                stop += 1 + _first(~equal[stop + 1 :])
            same = np.flatnonzero(equal[:stop])
            out[here[same]], used[there[same]] = there[same], True


def _room(at: int, size: int, step: int) -> int:
    return min(size - 1 - at if step > 0 else at, MOST_BEYOND)


def _first(where: NDArray[np.bool_]) -> int:
    """The first place where it holds; the length where it holds nowhere."""
    return int(np.argmax(where)) if where.any() else int(where.size)
