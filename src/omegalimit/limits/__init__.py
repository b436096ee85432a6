"""Limit problems: what theory says training solves. Each certifies any candidate from its own data alone."""

from ._measure_caps import Concentration
from ._measure_law import MeasureLaw
from .arrangement import Arrangement, Cells, Faces, augmented, cover_count, face_count
from .barrier import Barrier
from .convex_relu import ConvexReluNet
from .direction_law import DirectionLaw, direction_law
from .face import Face, margin_ratio, optimal_face
from .face_entropy import FaceEntropy, entropy_on_face
from .interpolation import Interpolation
from .max_margin import MaxMargin
from .measure_certificate import MeasureCertificate
from .minimum_norm import MinimumNorm, minimum_norm
from .mixture_risk import BestInterpolator, LogisticMinimum, MixtureRisk, Seen
from .net_certificate import NetCertificate
from .potentials import DepthPotential, HyperbolicEntropy
from .regularisers import ModifiedL1, RelativeEntropy, SquaredNorm
from .shallow_rank import (
    ShallowThreshold,
    criticality_threshold,
    generic_shallow_rank,
    generic_threshold,
    shallow_rank,
)
from .stationary_measure import StationaryMeasure

__all__ = [
    "Arrangement",
    "Barrier",
    "BestInterpolator",
    "Cells",
    "Concentration",
    "ConvexReluNet",
    "DepthPotential",
    "DirectionLaw",
    "Face",
    "FaceEntropy",
    "Faces",
    "HyperbolicEntropy",
    "Interpolation",
    "LogisticMinimum",
    "MaxMargin",
    "MeasureCertificate",
    "MeasureLaw",
    "MinimumNorm",
    "MixtureRisk",
    "ModifiedL1",
    "NetCertificate",
    "RelativeEntropy",
    "Seen",
    "ShallowThreshold",
    "SquaredNorm",
    "StationaryMeasure",
    "augmented",
    "cover_count",
    "criticality_threshold",
    "direction_law",
    "entropy_on_face",
    "face_count",
    "generic_shallow_rank",
    "generic_threshold",
    "margin_ratio",
    "minimum_norm",
    "optimal_face",
    "shallow_rank",
]
