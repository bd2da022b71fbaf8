"""Multi-layer perceptrons with rectified units, on polynomial features of standardised states.

    z = (s − centre)/scale,   x = z, followed by the products z_i·z_j (i ≤ j) at degree 2
    h₁ = max(0, x W₁ + b₁),  h₂ = max(0, h₁ W₂ + b₂),  out = h₂ W₃ + b₃

The paper's table has 2nd-order features and hidden layers (400, 300). Parameters are plain dicts of
arrays, so that they can be saved, averaged and read back without JAX.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement, pairwise
from typing import Any

FINAL_SPREAD = 3e-3  # first values and logits near 0, so that no action starts ahead


def products(n_variables: int) -> list[tuple[int, int]]:
    """Pairs (i, j) with i ≤ j, in the order of the inputs."""
    return list(combinations_with_replacement(range(n_variables), 2))


def n_inputs(n_variables: int, degree: int) -> int:
    """The number of entries of x."""
    return n_variables if degree == 1 else n_variables + len(products(n_variables))


def inputs(s: Any, centre: Any, scale: Any, degree: int) -> Any:
    """(…, n_inputs) of states (…, n_variables)."""
    import jax.numpy as jnp

    z = (s - centre) / scale
    if degree == 1:
        return z
    pairs = [z[..., i] * z[..., j] for i, j in products(z.shape[-1])]
    return jnp.concatenate([z, jnp.stack(pairs, axis=-1)], axis=-1)


def first_parameters(normal: Any, sizes: Sequence[int]) -> dict[str, Any]:
    """He's start for hidden layers, a narrow one for the last; biases 0.

    Parameters
    ----------
    normal : (n_weights,)
        Draws from N(0, 1), one per weight.
    sizes : sequence of int
        Widths from the inputs to the outputs.
    """
    import jax.numpy as jnp

    out: dict[str, Any] = {}
    at, last = 0, len(sizes) - 2
    for i, (m, n) in enumerate(pairwise(sizes)):
        spread = FINAL_SPREAD if i == last else (2.0 / m) ** 0.5
        out[f"W{i}"] = spread * normal[at : at + m * n].reshape(m, n)
        out[f"b{i}"] = jnp.zeros(n, jnp.float32)
        at += m * n
    return out


def n_weights(sizes: Sequence[int]) -> int:
    """Of all layers, biases not counted."""
    return sum(m * n for m, n in pairwise(sizes))


def forward(parameters: dict[str, Any], x: Any, exact: bool = True) -> Any:
    """(…, n_out) of inputs (…, n_inputs).

    `exact` multiplies in full single precision; otherwise in what the device does fastest (TF32 on
    recent GPUs, about three digits: enough for the mean of thousands of target values).
    """
    import jax
    import jax.numpy as jnp

    precision = jax.lax.Precision.HIGHEST if exact else jax.lax.Precision.DEFAULT
    last = len(parameters) // 2 - 1
    for i in range(last + 1):
        x = jnp.matmul(x, parameters[f"W{i}"], precision=precision) + parameters[f"b{i}"]
        if i < last:
            x = jnp.maximum(x, 0.0)
    return x
