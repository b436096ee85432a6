"""Limit problems: what theory says training solves. Each certifies any candidate from its own data alone."""

from .face import Face, margin_ratio, optimal_face
from .face_entropy import FaceEntropy, entropy_on_face
from .interpolation import Interpolation
from .max_margin import MaxMargin
from .minimum_norm import MinimumNorm, minimum_norm
from .potentials import DepthPotential, HyperbolicEntropy
from .regularisers import ModifiedL1, RelativeEntropy, SquaredNorm

__all__ = [
    "DepthPotential",
    "Face",
    "FaceEntropy",
    "HyperbolicEntropy",
    "Interpolation",
    "MaxMargin",
    "MinimumNorm",
    "ModifiedL1",
    "RelativeEntropy",
    "SquaredNorm",
    "entropy_on_face",
    "margin_ratio",
    "minimum_norm",
    "optimal_face",
]
