"""Ctrl-C, remembered: what breaks because of it is not taken for something else.

An interrupt in the midst of an import leaves modules half made, and what fails on them later says
nothing of the reason. Nothing but the standard library is imported here.
"""

import _thread
import os
import signal
import sys
import time
from contextlib import suppress
from typing import Any

_CAME: list[int] = []
SOON = 0.05  # seconds


def listen() -> None:
    """Remember interrupts from here on; where they are ignored or handled otherwise, not."""
    with suppress(ValueError):  # another thread than the main one has no signals
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _remember)
            sys.unraisablehook = _raise_again


def interrupted() -> bool:
    """Whether an interrupt came."""
    return bool(_CAME)


def leave() -> None:
    """All is said: an interrupt ends the process at once, instead of the interpreter's farewell."""
    with suppress(AttributeError, OSError, ValueError):  # without stdout, or with a broken one
        sys.stdout.flush()
    with suppress(ValueError):
        if signal.getsignal(signal.SIGINT) is _remember:
            signal.signal(signal.SIGINT, lambda *_: os._exit(130))


def _remember(number: int, _: object) -> None:
    _CAME.append(number)
    raise KeyboardInterrupt


def _raise_again(unraisable: Any) -> None:
    """An interrupt while something is being disposed of goes nowhere: it comes once more."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        _thread.start_new_thread(_interrupt_soon, ())
    else:
        sys.__unraisablehook__(unraisable)


def _interrupt_soon() -> None:
    time.sleep(SOON)
    _thread.interrupt_main()
