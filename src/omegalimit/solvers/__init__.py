"""Solvers of limit problems: one method a file, none of which judges itself."""

from ._solution import Solution
from ._solve import solve
from .barrier_path import BarrierPath, barrier_path
from .convex_relu import convex_relu
from .stationary_measure import stationary_measure

__all__ = ["BarrierPath", "Solution", "barrier_path", "convex_relu", "solve", "stationary_measure"]
