"""Limit problems: what theory says training solves. Each certifies any candidate from its own data alone."""

from .max_margin import MaxMargin

__all__ = ["MaxMargin"]
