"""Every system in the catalogue. To add one: write its file, add one line here.

The mapping holds text only, so that listing the catalogue imports none of the systems.
"""

import importlib
from typing import NamedTuple

from ._system import AbstractSystem as AbstractSystem
from ._system import Counter as Counter
from ._system import Findings as Findings


class Entry(NamedTuple):
    """Where a system lives, and one line on what it asks."""

    module: str
    cls: str
    line: str


SYSTEMS: dict[str, Entry] = {
    "softmax-attention": Entry(
        "omegalimit.catalogue.attention.softmax_attention",
        "SoftmaxAttention",
        "one-layer softmax attention: which maximum margin does gradient flow select?",
    ),
    "diagonal-networks": Entry(
        "omegalimit.catalogue.regression.diagonal_networks",
        "DiagonalNetworks",
        "diagonal linear networks from a vanishing start: which interpolant do they select?",
    ),
    "positive-quadratic-networks": Entry(
        "omegalimit.catalogue.regression.positive_quadratic_networks",
        "PositiveQuadraticNetworks",
        "positive quadratic networks: the geometry of Q = U U', and which Q does training select?",
    ),
    "negative-shifted-descent": Entry(
        "omegalimit.catalogue.regression.negative_shifted_descent",
        "NegativeShiftedDescent",
        "negative-shifted descent: how far beyond negative ridge does it pay to go?",
    ),
    "early-alignment": Entry(
        "omegalimit.catalogue.classification.early_alignment",
        "EarlyAlignment",
        "early alignment: how long until a linear classifier points along the maximum margin?",
    ),
    "smoothed-sign-descent": Entry(
        "omegalimit.catalogue.classification.smoothed_sign_descent",
        "SmoothedSignDescent",
        "smoothed sign descent: which maximum margin between l2 and l-infinity does it select?",
    ),
    "early-stopping": Entry(
        "omegalimit.catalogue.classification.early_stopping",
        "EarlyStopping",
        "early stopping: how long should gradient descent train a classifier on noisy labels?",
    ),
    "width-collapse": Entry(
        "omegalimit.catalogue.networks.width_collapse",
        "WidthCollapse",
        "noisy wide ReLU networks: on how many directions does the width collapse?",
    ),
    "monomial-networks": Entry(
        "omegalimit.catalogue.networks.monomial_networks",
        "MonomialNetworks",
        "deep monomial networks: are the critical points of the parametrisation its subnetworks?",
    ),
}


def load(name: str) -> type[AbstractSystem]:
    """The class of the system `name`. Raises `ValueError` for a name that is not in the catalogue."""
    if name not in SYSTEMS:
        raise ValueError(f"there is no system {name!r}; the catalogue has: {', '.join(SYSTEMS)}.")
    entry = SYSTEMS[name]
    return getattr(importlib.import_module(entry.module), entry.cls)
