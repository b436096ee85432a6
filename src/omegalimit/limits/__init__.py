"""Limit problems: what theory says training solves. Each certifies any candidate from its own data alone."""

from .barrier import Barrier
from .direction_law import DirectionLaw, direction_law
from .face import Face, margin_ratio, optimal_face
from .face_entropy import FaceEntropy, entropy_on_face
from .interpolation import Interpolation
from .max_margin import MaxMargin
from .minimum_norm import MinimumNorm, minimum_norm
from .mixture_risk import BestInterpolator, LogisticMinimum, MixtureRisk, Seen
from .potentials import DepthPotential, HyperbolicEntropy
from .regularisers import ModifiedL1, RelativeEntropy, SquaredNorm

__all__ = [
    "Barrier",
    "BestInterpolator",
    "DepthPotential",
    "DirectionLaw",
    "Face",
    "FaceEntropy",
    "HyperbolicEntropy",
    "Interpolation",
    "LogisticMinimum",
    "MaxMargin",
    "MinimumNorm",
    "MixtureRisk",
    "ModifiedL1",
    "RelativeEntropy",
    "Seen",
    "SquaredNorm",
    "direction_law",
    "entropy_on_face",
    "margin_ratio",
    "minimum_norm",
    "optimal_face",
]
