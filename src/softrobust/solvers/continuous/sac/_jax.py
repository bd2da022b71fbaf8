"""JAX and optax, imported when first used: that takes a second, and they may not be installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any, final

from softrobust.errors import MissingExtraError


@final
class _Lazy:
    """A module that is imported when something of it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        try:
            import_module("optax")  # which needs JAX itself
            return getattr(import_module(self._name), attribute)
        except ImportError as error:
            raise MissingExtraError("optax", "deep", "Soft actor-critic") from error


jax: Any = _Lazy("jax")
jnp: Any = _Lazy("jax.numpy")
optax: Any = _Lazy("optax")
