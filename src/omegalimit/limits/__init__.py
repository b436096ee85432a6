"""Limit problems: what theory says training solves. Each certifies any candidate from its own data alone."""

from .face import Face, margin_ratio, optimal_face
from .max_margin import MaxMargin

__all__ = ["Face", "MaxMargin", "margin_ratio", "optimal_face"]
