"""Exact draws: Dirichlet rows, and densities on a line.

Rows are normalised gamma variates, safe where a variate would underflow. A density on a line is
evaluated on a grid in a coordinate where it is smooth, refined to where the mass lies, and treated
as piecewise linear between nodes; draws invert its distribution function.

Models of a posterior are a stream (`Draws`): block b of models is what the posterior draws with the
seed (root, stream, b). So a model is known by its number alone. It is drawn where it is needed,
used and forgotten, and is the same whoever draws it, in chunks of any size, and however many are
drawn beside it; the first n of a stream are the first n of any longer one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Protocol, Self, TypeVar, final
from weakref import WeakKeyDictionary

import numpy as np

from softrobust._core.arrays import FloatArray, IntArray, refuse_if_too_large, seal
from softrobust._core.limits import NO_LIMIT, Deadline
from softrobust._core.settings import whole
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.posterior.base import FittedPosterior

T = TypeVar("T")
Density = Callable[[FloatArray], FloatArray]
NODES = 2001
NEGLIGIBLE = 40.0  # e^−40 of the mode's density
BLOCK, BLOCK_PAIRS = 128, 16_384  # models of one seed, and their rows in all, at most
KEPT_BYTES = 256 * 2**20  # of models that are kept for the next who asks


def side_by_side(work: Callable[[ModelSet], T], sets: Iterable[ModelSet]) -> list[T]:
    """Results of `work` on sets of models, in order, made by as many threads as kernels have."""
    from softrobust.kernels import get_num_threads

    with ThreadPoolExecutor(get_num_threads()) as pool:
        todo = [pool.submit(copy_context().run, work, models) for models in sets]
        try:
            return [each.result() for each in todo]
        finally:  # after an interrupt nothing new is begun
            for each in todo:
                each.cancel()


def dirichlet_rows(rng: np.random.Generator, shape: FloatArray, n: int) -> FloatArray:
    """(n_pairs, n, width) Dirichlet rows; concentrations (n_pairs, 1 or n, width)."""
    size = (shape.shape[0], n, shape.shape[2])
    if shape.min() >= 0.1:
        g = rng.standard_gamma(shape, size=size)
    else:
        # Gamma(a) = Gamma(a + 1)·U^(1/a): in logarithms nothing underflows before normalising.
        log_g = np.log(rng.standard_gamma(shape + 1.0, size=size))
        log_g -= rng.standard_exponential(size) / shape
        g = np.exp(log_g - log_g.max(axis=2, keepdims=True))
    g /= g.sum(axis=2, keepdims=True)
    return g


@final
@dataclass(frozen=True, slots=True, eq=False)
class GridDensity:
    """A density on nodes x (n,), with its distribution function."""

    x: FloatArray
    density: FloatArray
    cdf: FloatArray

    @classmethod
    def of(cls, log_density: Density, low: float, high: float) -> GridDensity:
        """Zoom in on the region that holds all but e^−40 of the mode's density, then tabulate."""
        for _ in range(30):
            x = np.linspace(low, high, NODES)
            level = log_density(x)
            level = np.where(np.isfinite(level), level, -np.inf)
            held = np.flatnonzero(level > level.max() - NEGLIGIBLE)
            narrow = max(held[0] - 1, 0), min(held[-1] + 1, NODES - 1)
            if narrow[1] - narrow[0] > NODES // 2:
                break
            low, high = float(x[narrow[0]]), float(x[narrow[1]])
        density = np.exp(level - level.max())
        steps = 0.5 * (density[1:] + density[:-1]) * np.diff(x)
        cdf = np.concatenate([[0.0], np.cumsum(steps)])
        return cls(x, density / cdf[-1], cdf / cdf[-1])

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """`n` draws by inversion; within a cell the density is linear, its inverse a root."""
        u = rng.random(n)
        i = np.clip(np.searchsorted(self.cdf, u, side="right") - 1, 0, self.x.size - 2)
        width = self.x[i + 1] - self.x[i]
        d0, d1 = self.density[i], self.density[i + 1]
        rest = (u - self.cdf[i]) / width
        # d0·t + (d1 − d0)·t²/2 = rest, in the form that stays stable when d1 ≈ d0.
        root = np.sqrt(np.maximum(d0**2 + 2.0 * (d1 - d0) * rest, 0.0))
        t = np.clip(2.0 * rest / np.maximum(d0 + root, np.finfo(float).tiny), 0.0, 1.0)
        return np.asarray(self.x[i] + t * width)

    def mean(self) -> float:
        """E[x], by the trapezoidal rule."""
        return float(np.trapezoid(self.x * self.density, self.x))


# --------------------------------------------------------------------------------------------------
# A stream of models.


class Crew(Protocol):
    """Who draws and evaluates parts of a stream elsewhere (`run.jobs`); nobody once `alone`."""

    alone: bool

    def models(self, draws: Draws) -> Iterable[ModelSet]:
        """The models in order, in parts."""

    def returns(self, problem: Any, policies: Sequence[Any], draws: Draws) -> list[FloatArray]:
        """Of each policy (2, n_models): what the objective is taken of, and what was taken off."""


CREW: ContextVar[Crew | None] = ContextVar("crew", default=None)
SHARD, SHARDED = 2048, 4096  # models of one part, and of a stream that is worth cutting into parts
TURNS = 4  # parts for each who makes them: one may be slower than the others
ROUND = 64 * SHARD  # models that are asked of others at a time
JOINED = 64  # blocks that are laid out at a time


# How a set of models was drawn, as long as it lives: files keep that in place of its arrays.
_ORIGIN: WeakKeyDictionary[ModelSet, Draws] = WeakKeyDictionary()


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Draws:
    """The first `n_models` models of a stream of a posterior, none of which is drawn yet."""

    posterior: FittedPosterior
    n_models: int
    # seed, key: root and name of the stream, as `SeedSequence(seed, spawn_key=key)` has them
    seed: int
    key: tuple[int, ...]
    block: int  # models of one seed
    first: int = 0  # number of the first model, a multiple of `block`
    _kept: list[ModelSet] = field(default_factory=list)

    def __post_init__(self) -> None:
        whole("The number of models", self.n_models, hint="Ask for one or more.")
        whole("block", self.block)

    @classmethod
    def of(cls, posterior: FittedPosterior, n: int, seed: int | np.random.SeedSequence) -> Self:
        """The first `n` models of the stream of a seed."""
        root = np.random.SeedSequence(seed) if isinstance(seed, int) else seed
        log = getattr(posterior, "log", None)
        pairs = 1 if log is None else max(log.n_states * log.n_actions, 1)
        block = min(BLOCK, max(1, BLOCK_PAIRS // pairs))
        if posterior.pool is not None:
            block = n  # draws that are there already are shuffled once, all of them
        assert isinstance(root.entropy, int)  # seeds are numbers throughout
        return cls(posterior, n, root.entropy, tuple(root.spawn_key), block)

    @property
    def f(self) -> FloatArray:
        """(n_models,): equal weights."""
        return np.full(self.n_models, 1.0 / self.n_models)

    def drawn(self, b: int) -> ModelSet:
        """Block `b` of the stream: `block` models."""
        seed = np.random.SeedSequence(self.seed, spawn_key=(*self.key, b))
        return self.posterior.sample(self.block, np.random.default_rng(seed))

    def blocks(self) -> Iterator[ModelSet]:
        """All models in order, a block at a time; kept where they are few, else drawn each time."""
        if self._kept:
            yield from self._kept
            return
        kept: list[ModelSet] = []
        size = 0.0
        for models in self._ahead():
            size += 8.0 * models.prob.size
            kept = [*kept, models] if size <= KEPT_BYTES else []
            yield models
        if size <= KEPT_BYTES and not self._kept:
            self._kept.extend(kept)

    def _ahead(self) -> Iterator[ModelSet]:
        """Blocks in order, while threads draw the next ones; a single thread draws by itself."""
        from softrobust.kernels import get_num_threads

        start, stop = self.first // self.block, -(-(self.first + self.n_models) // self.block)
        left, threads = self.n_models, get_num_threads()
        if threads == 1:
            for b in range(start, stop):
                models = self.drawn(b)
                yield models if left >= self.block else models.select(range(left))
                left -= self.block
            return
        with ThreadPoolExecutor(threads) as pool:
            # Two for each thread: one is drawn while another waits for its turn.
            todo = deque(
                pool.submit(self.drawn, b) for b in range(start, min(start + 2 * threads, stop))
            )
            try:
                for b in range(start + 2 * threads, stop + 2 * threads):
                    models = todo.popleft().result()
                    if b < stop:
                        todo.append(pool.submit(self.drawn, b))
                    yield models if left >= self.block else models.select(range(left))
                    left -= self.block
                    if not todo:
                        return
            finally:  # who has enough does not wait for more
                for drawing in todo:
                    drawing.cancel()

    @property
    def kept_bytes(self) -> float:
        """Of the models that are kept for the next who asks."""
        return sum(8.0 * models.prob.size for models in self._kept)

    @property
    def models(self) -> ModelSet:
        """All of them at once."""
        return self.within(NO_LIMIT)

    def within(self, clock: Deadline, least: int = 1) -> ModelSet:
        """All of them at once; or, once the time is over, those that are drawn, whole blocks."""
        crew, drawn = self.crew, self
        parts = iter(self.blocks() if crew is None else self._by(crew))
        one = next(parts)
        values = 1 if one.rewards is None or one.rewards.kind != "model" else 2
        each = 8.0 * values * one.next_states.size
        if clock.limit is None:
            _refuse(each, self.n_models)
        else:
            some, n = deque[ModelSet](), one.n_models
            while n < self.n_models and (n < least or not clock.passed):
                some.append(next(parts))
                n += some[-1].n_models
                if each * n > KEPT_BYTES:  # twice: they are laid out anew
                    _refuse(each, 2 * n)
            parts, drawn = (some.popleft() for _ in range(len(some))), self.part(0, n)
        found = joined(one, parts, drawn.n_models)
        _ORIGIN[found] = replace(drawn, _kept=[])
        return found

    def _by(self, crew: Crew) -> Iterator[ModelSet]:
        """The models in order, drawn by others, of whole blocks at a time."""
        step = self.block * max(1, ROUND // self.block)
        for first in range(0, self.n_models, step):
            yield from crew.models(self.part(first, min(step, self.n_models - first)))

    @property
    def crew(self) -> Crew | None:
        """Who draws them, where there is somebody else and they are many."""
        many = self.n_models >= SHARDED and self.posterior.pool is None and not self._kept
        crew = CREW.get() if many else None
        return None if crew is None or crew.alone else crew

    def shards(self, hands: int | None = None) -> list[Self]:
        """Parts of some 2000 models, of whole blocks: each is drawn by itself.

        So many `hands` get `TURNS` parts each, where these are no smaller, nor much larger.
        """
        fair = 0 if hands is None else -(-self.n_models // (TURNS * hands))
        step = self.block * -(-min(max(SHARD, fair), TURNS * SHARD) // self.block)
        starts = range(0, self.n_models, step)
        return [self.part(i, min(step, self.n_models - i)) for i in starts]

    def part(self, first: int, n: int) -> Self:
        """`n` models from number `first` on, counted from this stream's own first."""
        return replace(self, first=self.first + first, n_models=n, _kept=[])

    def record(self) -> dict[str, Any]:
        """Plain values: with the posterior, enough to draw the same models again."""
        return {
            "models": self.n_models, "seed": self.seed, "stream": list(self.key),
            "block": self.block, "first": self.first,
        }  # fmt: skip

    @classmethod
    def again(cls, posterior: FittedPosterior, record: Mapping[str, Any]) -> Self:
        """The inverse of `record`."""
        key = tuple(int(k) for k in record["stream"])
        n, seed, block, first = (int(record[x]) for x in ("models", "seed", "block", "first"))
        if block > max(n, BLOCK):
            raise InputError(f"A block has at most {BLOCK} models, or all; it says {block}.")
        return cls(posterior, n, seed, key, block, first)

    def __repr__(self) -> str:
        return f"Draws({self.n_models} models of {self.posterior!r})"


def stream(seed: np.random.SeedSequence, name: int) -> np.random.SeedSequence:
    """The seed of a stream below another: as `spawn` makes it, whoever spawned before."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, name))


def origin(models: ModelSet) -> Draws | None:
    """How a set of models was drawn, where it is the whole of some `Draws`."""
    return _ORIGIN.get(models)


def with_taken(models: ModelSet, taken: IntArray) -> ModelSet:
    """Models that know what was done; how they were drawn stays known."""
    if models.taken is not None and np.array_equal(models.taken, taken):
        return models
    found, drawn = replace(models, taken=taken), origin(models)
    if drawn is not None:
        _ORIGIN[found] = drawn
    return found


def _refuse(each: float, n: int) -> None:
    refuse_if_too_large(each * n, f"{n} models", "Draw fewer, or narrow the support.")


def joined(one: ModelSet, parts: Iterator[ModelSet], n: int) -> ModelSet:
    """Sets of equally weighted models of one storage as one set of n models."""
    if one.n_models == n:
        return one
    own = one.rewards if one.rewards is not None and one.rewards.kind == "model" else None
    prob = np.empty(int(one.indptr[-1]) * n)
    values = None if own is None else np.empty_like(prob)
    first = 0
    for some in _batches(chain([one], parts)):
        length = sum(part.n_models for part in some)
        _place([part.prob for part in some], some, first, n, prob)
        if values is not None:
            paid = [part.rewards.values for part in some if part.rewards is not None]
            _place(paid, some, first, n, values)
        first += length
    rewards = one.rewards
    if own is not None and values is not None:
        rewards = replace(own, per_model=seal(values))
    return replace(one, prob=seal(prob), f=np.full(n, 1.0 / n), rewards=rewards)


def _batches(parts: Iterable[ModelSet]) -> Iterator[list[ModelSet]]:
    """Parts in order, some at a time: those of large models are many, and each has many rows."""
    some: list[ModelSet] = []
    for part in parts:
        some.append(part)
        if len(some) == JOINED:
            yield some
            some = []
    if some:
        yield some


def _place(
    flat: list[FloatArray], parts: list[ModelSet], first: int, n: int, out: FloatArray
) -> None:
    """Arrays laid out as `ModelSet.prob`, pair after pair, as models from `first` on of n."""
    indptr, sizes = parts[0].indptr, [part.n_models for part in parts]
    for k in np.flatnonzero(np.diff(indptr)):
        lo, hi = indptr[k], indptr[k + 1]
        pieces = [x[lo * m : hi * m] for m, x in zip(sizes, flat, strict=True)]
        start = lo * n + (hi - lo) * first
        np.concatenate(pieces, out=out[start : start + (hi - lo) * sum(sizes)])
