"""Solvers of limit problems: one method a file, none of which judges itself."""

from ._solution import Solution
from ._solve import solve

__all__ = ["Solution", "solve"]
