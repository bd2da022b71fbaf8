"""How every kernel is compiled: cached on disk where that is possible, in memory where it is not.

Numba writes its cache beside the module, else into the user's cache folder; where neither can be
written (a read-only install run by a user without a home) it refuses to compile at all. A kernel
must still run there, so compilation then goes without a cache.

Two processes never compile the same kernel at the same time: the second waits and takes it from the
cache. So a helper (`compile_beside`) can compile what a command will need later while the command
itself compiles what it needs now. Kernels whose names begin with `_`, and those marked `inner`, are
called by kernels alone: no way in from Python is made for them, nor machine code of their own.

Numba's cache looks at a kernel's own file only, and would keep old machine code of kernels that it
calls in other files. So the cache is stamped with the text of all files that a kernel draws on.

Sums vectorise only if they may be reordered. `fastmath=REORDER` allows that and nothing more: NaN
and infinity keep their meaning, so a kernel can still find them. `FINITE` also drops that meaning
(minima then vectorise too) and is for code that runs after the check.
"""

from __future__ import annotations

import atexit
import gc
import hashlib
import json
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import cache, partial, wraps
from itertools import pairwise
from pathlib import Path
from typing import Any

from llvmlite import binding
from numba import __version__ as numba_version
from numba import _dynfunc, extending, njit, types
from numba.core import cgutils, codegen, event, imputils
from numba.core.base import BaseContext
from numba.core.compiler_lock import global_compiler_lock
from numba.core.cpu import CPUContext
from numba.core.environment import lookup_environment
from numba.core.targetconfig import ConfigStack as TargetConfigStack
from numba.core.typing.templates import AttributeTemplate, _OverloadFunctionTemplate
from numba.extending import intrinsic, overload
from numba.np import arrayobj

from softrobust._core.limits import LiveLine
from softrobust.kernels import get_num_threads

REORDER = frozenset({"reassoc", "contract", "nsz", "arcp"})
FINITE = REORDER | {"nnan", "ninf"}
EPS = 2.220446049250313e-16  # of float64
LOCKS = "compiling.lock"
BOOT = "from softrobust.kernels.ahead import compile_for; compile_for(sys.argv[1] or None)"
TURNS = 4  # parts of a loop for every thread: some take longer than others


class TakenError(Exception):
    """Another process is compiling this kernel."""


class _Compiling(event.Listener):  # type: ignore[misc]
    """A line on the terminal while kernels are compiled; what the cache holds is not announced."""

    def __init__(self) -> None:
        self.line, self.depth, self.inside = LiveLine(), 0, 0
        self.beside: Callable[[], None] | None = None  # called when compiling begins,
        self.helped = False  # once
        self.shy = False  # whether what another process is at is left to it

    def on_start(self, event: Any) -> None:
        """One more kernel, perhaps in the midst of another."""
        self.help()
        self.depth += 1
        kernel = getattr(event.data.get("dispatcher"), "py_func", None)
        if kernel is not None and kernel.__module__.startswith("softrobust."):
            self.say(kernel.__name__)

    def help(self) -> None:
        """Call for help, if there is any."""
        beside, self.beside = self.beside, None
        if beside is not None:
            self.helped = True
            beside()

    def say(self, name: str) -> None:
        """Tell a terminal what is going on."""
        name = name.strip("_").replace("_", " ")
        self.line.update(f"First run here: compiling, kept for later runs ({name}) …")

    def on_end(self, event: Any) -> None:
        """It is done."""
        self.depth -= 1
        self.done()

    def done(self) -> None:
        """Wipe the line, unless another kernel is being compiled."""
        if self.depth == 0:
            self.line.clear()

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """No search for garbage meanwhile, a sixth of the time: compiling drops millions."""
        collected = gc.isenabled()
        gc.disable()
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1
            if collected:
                gc.freeze()  # nor one afterwards: 100 MB, until the process ends
                gc.enable()


_compiling = _Compiling()


def compile_if_free(compiled: Any, signature: tuple[Any, ...]) -> None:
    """Compile a kernel, unless another process is at it."""
    _compiling.shy = True
    with suppress(TakenError):
        compiled.compile(signature)


event.register("numba:compile", _compiling)


# Numba is entered where it is private, and left as it is in versions that nobody has looked at.


class _Library(codegen.JITCodeLibrary):  # type: ignore[misc]
    """What numba wrote of a kernel; without a way in, callers take it in as it is.

    Numba optimises every kernel and makes it machine code, and does so again for its callers with
    all that they call. Once, for whom Python calls, halves the time.
    """

    plain = False  # neither optimised nor machine code

    def _optimize_functions(self, ll_module: Any) -> None:
        """All are optimised together later."""
        if not _compiling.inside:
            super()._optimize_functions(ll_module)
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Once, where numba does it twice; unrolled loops would be twice the code and no faster."""
        if not _compiling.inside:
            super()._optimize_final_module()
            return
        tuning = binding.create_pipeline_tuning_options(speed_level=3)
        tuning.loop_vectorization, tuning.slp_vectorization = True, False
        tuning.loop_unrolling = False
        builder = binding.create_pass_builder(self._codegen._tm, tuning)
        passes = builder.getModulePassManager()
        passes.add_refprune_pass()
        passes.run(self._final_module, builder)

    def keep_plain(self) -> None:
        """Be what callers take in, and no more."""
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self.plain = self._finalized = True

    def has(self, name: str) -> bool:
        """Whether there is such a function."""
        return any(f.name == name and not f.is_declaration for f in self._final_module.functions)

    def get_pointer_to_function(self, name: str) -> Any:
        if self.plain and self.has(name):  # somebody wants to call it after all
            self.plain = False
            self._optimize_final_module()
            self._finalize_final_module()
        return super().get_pointer_to_function(name)

    def serialize_using_object_code(self) -> Any:
        if self.plain:
            return self.name, "plain", self._get_module_for_linking().as_bitcode()
        return super().serialize_using_object_code()

    @classmethod
    def _unserialize(cls, owner: Any, state: Any) -> Any:
        name, kind, data = state
        if kind != "plain":
            return super()._unserialize(owner, state)
        self = owner.create_library(name)
        self._final_module = binding.parse_bitcode(data)
        self.plain = self._finalized = True
        return self


def _take_in_plain() -> None:
    """Let numba make `_Library`s; those without a way in stay plain inside kernels of ours."""
    owner = codegen.JITCPUCodegen
    get_executable, set_env = CPUContext.get_executable, owner.set_env
    add_address = CPUContext.add_dynamic_addr

    def executable(self: Any, library: Any, fndesc: Any, env: Any) -> Any:
        ours = _compiling.inside and isinstance(library, _Library) and not library._finalized
        if ours and not library.has(fndesc.llvm_cpython_wrapper_name):
            library.keep_plain()
        if getattr(library, "plain", False):
            name = fndesc.qualname.split(".")[-1]
            return _dynfunc.make_function(fndesc.lookup_module(), name, "", 0, env, (library,))
        made = get_executable(self, library, fndesc, env)
        if _compiling.inside:  # what it took in has its place in memory only now
            for variable in library._final_module.global_variables:
                known = lookup_environment(variable.name)
                if known is not None:
                    library.codegen.set_env(variable.name, known)
        return made

    def set_present(self: Any, name: str, env: Any) -> None:
        if self._engine.get_global_value_address(name):  # plain code is nowhere in memory
            set_env(self, name, env)

    def address(self: Any, builder: Any, place: int, info: str) -> Any:
        if _compiling.inside and info == "CPUDispatcher":  # of a callee, which nobody asks for
            return cgutils.voidptr_t(None)
        return add_address(self, builder, place, info)

    owner._library_class, owner.set_env = _Library, set_present
    CPUContext.add_dynamic_addr = address
    CPUContext.get_executable = executable


KNOWN = types.Number | types.Boolean | types.Array | types.UniTuple | types.NoneType


def _mismatch(src_shapes: Any, index_shape: Any) -> None:
    """What numba calls where shapes differ."""


def _remember() -> None:
    """Type a call of numba's own functions once for the same types, and compile it once.

    Numba asks some ten templates a time, and takes a callee to be another for every flag of its
    caller, those included that make no difference to it.
    """
    known: dict[Any, Any] = {}
    ask, refresh = types.BaseFunction.get_call_type, BaseContext.refresh

    def count(context: Any) -> Any:
        lists = *context._registries, *context.typing_context._registries
        return len(sys.modules), *(len(x) for y in lists for x in vars(y).values())

    def inherited() -> Any:
        x = TargetConfigStack.top_or_none()
        return x and (x.nrt, x.error_model, x.forceinline, frozenset(x.fastmath.flags))

    def call_type(self: Any, context: Any, args: Any, kws: Any) -> Any:
        if kws or not all(isinstance(x, KNOWN) for x in args):
            return ask(self, context, args, kws)
        key = id(self), id(context), tuple(args), inherited()
        if key not in known:
            found = ask(self, context, args, kws)
            known[key] = found, self._impl_keys[found.args], self, context
        found, self._impl_keys[found.args] = known[key][:2]
        return found

    def implementation(self: Any, args: Any, kws: Any) -> Any:
        key = self.context, tuple(args), tuple(kws.items()), inherited()
        return self._impl_cache.get(key) or self._build_impl(key, args, kws)

    def refresh_if_new(self: Any) -> None:
        if vars(self).get("_counted") != count(self):
            refresh(self)
            self._counted = count(self)

    overload(_mismatch)(arrayobj.ol_raise_with_shape_context_generic)
    arrayobj.raise_with_shape_context = _mismatch  # whose words take longer than most kernels
    types.BaseFunction.get_call_type = call_type
    _OverloadFunctionTemplate._get_impl = implementation
    BaseContext.refresh = refresh_if_new


if re.match(r"0\.6\d\.", numba_version):
    _take_in_plain()
    _remember()


def isolated(call: str, *given: str) -> list[str]:
    """The words that start an interpreter of its own on a line of code, and what that is given.

    It imports from where this one does, without the current folder or what the environment adds.
    """
    path = [place for place in sys.path if os.path.isabs(place)]
    boot = f"import json, sys; sys.path[:] = json.loads(sys.argv.pop()); {call}"
    return [sys.executable, "-I", "-c", boot, *given, json.dumps(path)]


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def worker_environment(workers: int) -> dict[str, str]:
    """Threads for a worker: its share of the cores for the kernels, one for linear algebra.

    The kernels give the same digits for any number of threads; BLAS need not, so it gets one
    everywhere.
    """
    share = max(1, cores() // max(workers, 1))
    own = os.environ.get("NUMBA_NUM_THREADS", "")
    if own.isdigit() and int(own) > 0:
        share = min(share, int(own))
    blas = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    return {"NUMBA_NUM_THREADS": str(share)} | dict.fromkeys(blas, "1")


def compile_beside(solver: str | None) -> None:
    """Start a helper, once in the life of this process, if and when something must be compiled.

    At once where nothing was yet: it has read in the package by the time that it is needed. None
    where there is one core only.
    """
    if cores() < 2 or _compiling.helped:
        return
    _compiling.beside = partial(_start, solver)
    with suppress(RuntimeError, AttributeError):  # no cache to share
        if not Path(njit(_mismatch, cache=True)._cache.cache_path, LOCKS).exists():
            _compiling.help()


def _start(solver: str | None) -> None:
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with suppress(OSError):  # no process to be had: this one compiles everything
        helper = subprocess.Popen(
            isolated(BOOT, solver or ""),
            stdin=subprocess.PIPE,
            env=os.environ | worker_environment(2),
            **quiet,
        )
        atexit.register(_end, helper)


def _end(helper: subprocess.Popen[bytes]) -> None:
    helper.kill()
    helper.wait()


def kernel(
    function: Callable[..., Any] | None = None,
    *,
    fastmath: frozenset[str] = frozenset(),
    inline: bool = False,
    inner: bool = False,
    nogil: bool = False,
    entry: bool = False,
    positive: bool = False,
) -> Any:
    """Compile `function` with numba: `@kernel`, or `@kernel(fastmath=REORDER)`.

    With `nogil` several threads of Python may be in it at once. With `entry` it is called from
    Python though its name begins with `_`, with `inner` by kernels alone though it does not. With
    `positive` no divisor is 0, and none is tested for it.

    With `inline` it becomes part of every kernel that calls it. An array is handed on as seven
    words, so that a call with five of them costs as much as a hundred additions: inner functions of
    a hot loop want it, each used in few places.
    """
    options: dict[str, Any] = {"fastmath": set(fastmath) or False}
    options["no_cfunc_wrapper"] = True  # no kernel is handed on as a value
    if nogil:
        options["nogil"] = True
    if inline:
        options["forceinline"] = True
    if fastmath or positive:  # a test for a zero divisor would keep a loop from vectorising
        options["error_model"] = "numpy"

    def compile_(f: Callable[..., Any]) -> Any:
        options["no_cpython_wrapper"] = inner or (f.__name__.startswith("_") and not entry)
        try:
            compiled = njit(f, cache=True, **options)
        except RuntimeError as error:  # numba: "cannot cache function …: no locator available"
            if "cannot cache" not in str(error):
                raise
            return njit(f, **options)
        _take_turns(compiled)
        _take_numbers(compiled)
        if options["no_cpython_wrapper"]:
            _keep_inside(compiled)
        # Private, hence the suppression: without it the cache works as numba made it.
        with suppress(AttributeError, OSError):
            stamp = _stamp(Path(f.__code__.co_filename).stem)
            compiled._cache._cache_file._source_stamp = stamp
        return compiled

    return compile_ if function is None else compile_(function)


def threaded(function: Callable[..., Any]) -> Callable[..., None]:
    """Compile `f(first, last, *arguments)`, a loop whose turns do not look at each other.

    `f(threads, first, last, *arguments)` runs it, on one thread or on many: the same machine code
    either way, in threads of Python that let go of its lock. Numba's own threads want a second
    version, which takes longest of all to compile.
    """
    one = kernel(entry=True, nogil=True)(function)

    @wraps(one)
    def run(threads: bool, first: int, last: int, *arguments: Any) -> None:
        n, workers = last - first, get_num_threads() if threads else 1
        parts = min(n, TURNS * workers)
        if workers == 1 or parts < 2:
            one(first, last, *arguments)
            return
        edges = [first + i * n // parts for i in range(parts + 1)]
        turns = iter(list(pairwise(edges)))

        def work() -> None:
            for start, stop in turns:
                one(start, stop, *arguments)

        others = [_pool(os.getpid(), workers).submit(work) for _ in range(workers - 1)]
        try:
            work()
        finally:
            list(turns)  # after an interrupt nothing new is begun, and all is at rest
            wait(others)
        for other in others:
            other.result()

    return run


@cache
def _pool(process: int, workers: int) -> ThreadPoolExecutor:
    """The threads of this process: a fork has none of its parent's."""
    return ThreadPoolExecutor(workers, "kernel")


def _keep_inside(compiled: Any) -> None:
    """Refuse calls from Python, for which nothing is compiled."""

    def refuse(*arguments: Any) -> Any:
        raise TypeError(f"{compiled.__name__} is for kernels, and called from Python.")

    def add(result: Any) -> None:
        compiled.overloads[tuple(result.signature.args)] = result

    compiled._compile_for_args, compiled.add_overload = refuse, add


def _take_numbers(compiled: Any) -> None:
    """Constants are numbers like others: nothing is compiled anew for them."""
    template = compiled.get_call_template

    def of_numbers(args: Any, kws: Any) -> Any:
        return template(tuple(types.unliteral(x) for x in args), kws)

    compiled.get_call_template = of_numbers


def _take_turns(compiled: Any) -> None:
    """Let one process at a time compile this kernel, or load it: POSIX locks, which end with it.

    A kernel is held while those that it calls are compiled. Calls have no cycles, so that nobody
    waits for one who waits for him, threads of a process included: they take numba's lock first.
    """
    alone, name = compiled.compile, compiled.py_func.__qualname__
    place = zlib.crc32(compiled.py_func.__code__.co_filename.encode() + name.encode())

    def compile_in_turn(signature: Any) -> Any:
        with global_compiler_lock, _compiling.undisturbed(), _turn(compiled, place, name):
            return alone(signature)

    compiled.compile = compile_in_turn


@contextmanager
def _turn(compiled: Any, place: int, name: str) -> Iterator[None]:
    locks = None
    with suppress(AttributeError, ImportError, OSError):  # no such locks here: all go at once
        import fcntl

        locks = _locks(compiled._cache.cache_path)
        try:
            fcntl.lockf(locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except OSError:
            if _compiling.shy and _compiling.inside == 1:
                raise TakenError from None
            _compiling.say(name)
            fcntl.lockf(locks, fcntl.LOCK_EX, 1, place)
            _compiling.done()
    try:
        yield
    finally:
        if locks is not None:
            with suppress(OSError):
                fcntl.lockf(locks, fcntl.LOCK_UN, 1, place)


@cache
def _locks(folder: str) -> int:
    """The file whose bytes stand for kernels, open as long as this process lives.

    Closing it would give up the locks.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    return os.open(Path(folder) / LOCKS, os.O_RDWR | os.O_CREAT, 0o666)


@cache
def _stamp(module: str) -> str:
    """A digest of a kernel module and of the kernel modules it imports, near and far."""
    todo, seen = [module], {"_jit": (Path(__file__)).read_bytes()}
    while todo:
        name = todo.pop()
        if name not in seen:
            seen[name] = (Path(__file__).parent / f"{name}.py").read_bytes()
            text = seen[name].decode()
            todo += re.findall(r"^from softrobust\.kernels\.(\w+) import", text, re.M)
    return hashlib.sha256(b"".join(seen[name] for name in sorted(seen))).hexdigest()


@intrinsic
def unowned(context, arrays):
    """The same array, or tuple of arrays and numbers, with memory that somebody else owns.

    Numba counts references to an array whenever a function takes a row of it, takes it out of a
    tuple or hands it on, each an atomic operation that also holds up the reads around it; for a
    game of five actions that was more work than the game. An array without an owner has nothing to
    count. Take it once, outside the loop, and `keep_alive` the owner until after it: numba frees
    what has no further use. Arguments that come from Python need none: the caller holds them.
    """
    if not isinstance(arrays, types.Array | types.BaseTuple):
        return None

    def codegen(target, builder, signature, values):
        kind = signature.args[0]
        if isinstance(kind, types.Array):
            return _without_owner(target, builder, kind, values[0])
        parts = [
            _without_owner(target, builder, part, x) if isinstance(part, types.Array) else x
            for part, x in zip(kind, cgutils.unpack_tuple(builder, values[0]), strict=True)
        ]
        return target.make_tuple(builder, kind, parts)

    return arrays(arrays), codegen


def _without_owner(target, builder, kind, value):
    found = target.make_array(kind)(target, builder, value=value)
    found.meminfo = cgutils.get_null_value(found.meminfo.type)
    found.parent = cgutils.get_null_value(found.parent.type)
    return found._getvalue()


@intrinsic
def keep_alive(context, owner):
    """Use `owner` to no purpose, so that it lives until here."""

    def codegen(target, builder, signature, values):
        return target.get_dummy_value()

    return types.void(owner), codegen


class Bundle(types.Type):  # type: ignore[misc]
    """Where the parts of a named tuple lie."""

    def __init__(self, parts: Any) -> None:
        self.parts = parts
        super().__init__(f"{parts.instance_class.__name__}_{zlib.crc32(str(parts).encode())}")


@extending.register_model(Bundle)
class _BundleModel(extending.models.OpaqueModel):  # type: ignore[misc]
    """A pointer."""


@extending.infer_getattr
class _BundleFields(AttributeTemplate):  # type: ignore[misc]
    key = Bundle

    def generic_resolve(self, bundle, name):
        parts = dict(zip(bundle.parts.fields, bundle.parts.types, strict=True))
        return parts.get(name)


def _part_of(target, builder, bundle, pointer, i):
    """Where a part lies; every part begins a word."""
    kinds = [target.get_value_type(kind) for kind in bundle.parts.types]
    words = sum(-(-target.get_abi_sizeof(kind) // 8) for kind in kinds[:i])
    place = cgutils.pointer_add(builder, pointer, 8 * words)
    return builder.bitcast(place, kinds[i].as_pointer())


@extending.lower_getattr_generic(Bundle)
def _take_part(target, builder, bundle, pointer, name):
    i = bundle.parts.fields.index(name)
    found = builder.load(_part_of(target, builder, bundle, pointer, i))
    return imputils.impl_ret_borrowed(target, builder, bundle.parts.types[i], found)


@intrinsic
def bundled(context, parts):
    """The named tuple of arrays and numbers as `unowned` would make it, handed on as one pointer.

    For kernels that call others with many arrays: a tuple is handed on word by word, hundreds of
    them, which takes longest of all to compile. It lives as long as the call that made it.
    """
    if not isinstance(parts, types.NamedTuple):
        return None
    bundle = Bundle(parts)

    def codegen(target, builder, signature, values):
        size = 8 + sum(target.get_abi_sizeof(target.get_value_type(x)) + 7 for x in parts.types)
        room = cgutils.alloca_once(builder, cgutils.int8_t, size, name="bundle")
        room.align = 8
        for i, x in enumerate(cgutils.unpack_tuple(builder, values[0])):
            kind = parts.types[i]
            part = _without_owner(target, builder, kind, x) if isinstance(kind, types.Array) else x
            builder.store(part, _part_of(target, builder, bundle, room, i))
        return room

    return bundle(parts), codegen
