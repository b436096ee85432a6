"""Bounds on the maximum margin that are proved: ball arithmetic on the data exactly as given, and rational Farkas."""

from ._farkas import Farkas, rational_farkas
from ._norms import Basis
from ._prove import ProvenBounds, prove

__all__ = ["Basis", "Farkas", "ProvenBounds", "prove", "rational_farkas"]
