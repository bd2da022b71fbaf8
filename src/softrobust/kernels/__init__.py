"""Compiled loops.

Numba reads its settings from a file of the current folder, also where it keeps compiled code, which
is run when it is found. That folder may be a stranger's: no such file is read. Settings of the
environment under which nothing can run are refused by name.
"""

import sys
import warnings

from softrobust.errors import InputError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that it cannot read the file
    _yaml = sys.modules.pop("yaml", None)
    sys.modules["yaml"] = None  # type: ignore[assignment]
    try:
        import numba
        from numba.core import config
    except ValueError as error:
        raise InputError(
            f"Numba, which compiles the loops, cannot begin ({str(error).rstrip('.')}). Unset "
            "NUMBA_NUM_THREADS, or give it a whole number from 1 on."
        ) from None
    finally:
        del sys.modules["yaml"]
        if _yaml is not None:
            sys.modules["yaml"] = _yaml
config._config_fname = ""  # asked for again whenever something is compiled
if config.DISABLE_JIT:
    raise InputError(
        "NUMBA_DISABLE_JIT is set, and the loops here run compiled only. Unset NUMBA_DISABLE_JIT."
    )


def get_num_threads() -> int:
    """How many threads there are for loops."""
    try:
        return int(numba.get_num_threads())
    except ValueError as error:
        raise InputError(
            f"Numba, which compiles the loops, has no threads ({str(error).rstrip('.')}). Unset "
            "NUMBA_THREADING_LAYER."
        ) from None
