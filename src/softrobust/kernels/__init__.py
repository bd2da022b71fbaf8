"""Compiled loops.

Numba reads its settings from a file of the current folder, also where it keeps compiled code, which
is run when it is found. That folder may be a stranger's: no such file is read.
"""

import sys
import warnings

__all__ = ["get_num_threads"]

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that it cannot read the file
    _yaml = sys.modules.pop("yaml", None)
    sys.modules["yaml"] = None  # type: ignore[assignment]
    try:
        from numba import get_num_threads
        from numba.core import config
    finally:
        del sys.modules["yaml"]
        if _yaml is not None:
            sys.modules["yaml"] = _yaml
config._config_fname = ""  # asked for again whenever something is compiled
