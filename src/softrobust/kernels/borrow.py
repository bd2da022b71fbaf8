"""Arrays without an owner, for kernels that hand them around in small functions.

Numba counts references to an array whenever a function takes a row of it, takes it out of a tuple
or hands it on, each an atomic operation that also holds up the reads around it; for a game of five
actions that was more work than the game. An array without an owner has nothing to count.

Borrow once, outside the loop, and `keep` the owner until after it: numba frees what has no further
use. Arguments that come from Python need no `keep`: the caller holds them.
"""

from __future__ import annotations

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def borrow(context, array):
    """The same array, its memory owned by somebody else."""
    if not isinstance(array, types.Array):
        return None

    def codegen(target, builder, signature, values):
        kind = signature.args[0]
        found = target.make_array(kind)(target, builder, value=values[0])
        found.meminfo = cgutils.get_null_value(found.meminfo.type)
        found.parent = cgutils.get_null_value(found.parent.type)
        return found._getvalue()

    return array(array), codegen


@intrinsic
def keep(context, owner):
    """Use `owner` to no purpose, so that it lives until here."""

    def codegen(target, builder, signature, values):
        return target.get_dummy_value()

    return types.void(owner), codegen
