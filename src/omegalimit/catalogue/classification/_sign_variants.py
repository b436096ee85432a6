"""Changed updates for counter-instances of `smoothed_sign_descent`, run step by step in NumPy.

As in the theorem's update, w moves by eta times a smoothed sign of `u = g / eps = Z'lambda`, `lambda = c e^{-Z w} /
eps`, taken from w itself in each step; what is changed is the smoothed sign.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from ...flows.smoothed_sign_descent import SignSteps, kl_divergence
from ._sign_run import Path

Smoothing = Callable[[Float[np.ndarray, " d"], Any], tuple[Float[np.ndarray, " d"], Any]]
"""(u, memory) to (v, memory); the memory is `None` at the start."""


def root(u: Float[np.ndarray, " d"], memory: Any) -> tuple[Float[np.ndarray, " d"], Any]:
    """`g / (g^2 + eps^2)^(1/2)`: another smoothing of the sign, and another barrier."""
    return u / np.hypot(1.0, u), memory


def with_momentum(falls_by: float, *, beta: float = 0.9) -> Smoothing:
    """The smoothed sign of an average of past gradients; `falls_by`: eps over eps of the step before."""

    def smoothing(u: Float[np.ndarray, " d"], memory: Any) -> tuple[Float[np.ndarray, " d"], Any]:
        # The memory is a gradient over the eps of its own step.
        memory = (1 - beta) * u + (0.0 if memory is None else beta * memory / falls_by)
        return memory / (1 + np.abs(memory)), memory

    return smoothing


def changed(smoothing: Smoothing) -> Callable[..., Path]:
    """A dynamics with this smoothed sign, called like `smoothed_sign_descent`."""

    def dynamics(
        Z: Float[np.ndarray, "n d"],
        *,
        rate: float,
        step_size: float,
        n_steps: int,
        weights: Float[np.ndarray, " n"],
        eps0: float,
        observe: Callable[[SignSteps], None],
        n_kept: int,
    ) -> Path:
        log_c, memory = np.log(weights), None
        S = step_size * np.arange(n_steps + 1)
        log_eps = math.log(eps0) - rate * S
        w, v = np.zeros((n_steps + 1, Z.shape[1])), np.zeros((n_steps + 1, Z.shape[1]))
        for t in range(n_steps + 1):
            v[t], memory = smoothing(np.exp(log_c - Z @ w[t] - log_eps[t]) @ Z, memory)
            if t < n_steps:
                w[t + 1] = w[t] + step_size * v[t]
        logs = log_c - w @ Z.T - log_eps[:, None]
        kl = np.concatenate([[0.0], np.cumsum(kl_divergence(logs[:-1], logs[1:]))])
        observe(
            SignSteps(
                step=np.arange(n_steps), step_size=np.full(n_steps, step_size), S=S, w=w, log_lambda=logs, v=v[:-1]
            )
        )
        kept = np.unique(np.concatenate([[0], np.round(np.geomspace(1, n_steps, n_kept)).astype(int)]))
        return Path(loss="exponential", steps=kept, S=S[kept], w=w[kept], v=v[kept], kl_sum=kl[kept], details={})

    return dynamics
