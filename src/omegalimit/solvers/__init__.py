"""Solvers of limit problems: one method a file, none of which judges itself."""

from ._solution import Solution
from ._solve import solve
from .barrier_path import BarrierPath, barrier_path

__all__ = ["BarrierPath", "Solution", "barrier_path", "solve"]
