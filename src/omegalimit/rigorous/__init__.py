"""Bounds that are proved: ball arithmetic on the data exactly as given, rational Farkas, exact ranks of Jacobians."""

from ._farkas import Farkas, rational_farkas
from ._norms import Basis
from ._prove import ProvenBounds, prove
from ._rank_float import FloatRank, float_rank
from ._rank_generic import GenericRank, expected_rank, generic_rank
from ._rank_table import RankTable, rank_table
from .jacobian_rank import JacobianRank, jacobian_rank

__all__ = [
    "Basis",
    "Farkas",
    "FloatRank",
    "GenericRank",
    "JacobianRank",
    "ProvenBounds",
    "RankTable",
    "expected_rank",
    "float_rank",
    "generic_rank",
    "jacobian_rank",
    "prove",
    "rank_table",
    "rational_farkas",
]
