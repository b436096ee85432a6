"""What a run of `monomial_networks` leaves for the record and the figures, as labelled arrays."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from ._monomial_architecture import Architecture
from ._monomial_claims import least
from ._monomial_separation import Sweep
from ._monomial_table import Entry, thresholds
from ._monomial_training import DELTAS, Training
from ._monomial_widths import enough, text_of


def _or_nan(value: int | None) -> float:
    return float("nan") if value is None else float(value)


def table_arrays(entries: Sequence[Entry]) -> xr.Dataset:
    """Generic and expected rank by architecture and degree, with the threshold of each architecture."""
    widths, degrees = list(dict.fromkeys(e.widths for e in entries)), sorted({e.degree for e in entries})
    at = {(e.widths, e.degree): e for e in entries}
    both = ("architecture", "degree")
    own = thresholds(entries)
    return xr.Dataset(
        {
            "generic": (both, [[at[w, r].generic.rank for r in degrees] for w in widths]),
            "generic_upper": (both, [[at[w, r].generic.upper for r in degrees] for w in widths]),
            "expected": (both, [[at[w, r].expected for r in degrees] for w in widths]),
            "uncapped": (both, [[at[w, r].uncapped for r in degrees] for w in widths]),
            "threshold": ("architecture", [_or_nan(own[w]) for w in widths]),
            "enough": ("architecture", [enough(w) for w in widths]),
        },
        coords={"architecture": [text_of(w) for w in widths], "degree": degrees},
    )


def architecture_arrays(found: Architecture) -> xr.Dataset:
    """Ranks of the kinds of subnetworks by degree, beside the generic one; and what the search found."""
    degrees, both = found.degrees, ("kind", "degree")
    searches = [at.search for at in degrees if at.search is not None]
    return xr.Dataset(
        {
            "rank": (both, np.array([[p.rank.lower for p in at.kinds] for at in degrees]).T),
            "rank_upper": (both, np.array([[p.rank.upper for p in at.kinds] for at in degrees]).T),
            "generic": ("degree", [at.generic.rank for at in degrees]),
            "expected": ("degree", [at.expected for at in degrees]),
            "other_critical": ("degree", [len(at.others) for at in degrees]),
            "whole_numbered": ("degree", [s.n_tried for s in searches]),
            "starts": ("degree", [s.n_starts for s in searches]),
            "candidates": ("degree", [s.n_candidates for s in searches]),
            "smallest_singular_value": ("degree", [np.nan if x is None else x for x in map(least, searches)]),
        },
        coords={"kind": [p.name for p in degrees[0].kinds], "degree": [at.degree for at in degrees]},
        attrs={
            "generic_threshold": _or_nan(found.generic_threshold),
            "criticality_threshold": _or_nan(found.criticality_threshold),
            "enough": enough(found.widths),
        },
    )


def separation_arrays(found: Sweep) -> xr.Dataset:
    """The smallest singular value over the separation, with what exact arithmetic and floats say of the rank."""
    return xr.Dataset(
        {
            "separation": ("net", found.separation),
            "distance": ("net", found.distance),
            "singular": ("net", found.singular),
            "exact_lower": ("net", found.lower),
            "exact_upper": ("net", found.upper),
            "float_lower": ("net", found.float_lower),
            "float_singular": ("net", found.float_singular),
            "float_error": ("net", found.float_error),
            "float_decided": ("net", found.float_decided.astype(np.int8)),
        },
        attrs={"generic": found.generic, "degree": found.degree, "rounding": found.rounding},
    )


def training_arrays(found: Sequence[Training]) -> xr.Dataset:
    """Distances of all starts and ends of one architecture, by target; the shares within each delta."""
    both, shares = ("target", "start"), ("target", "delta")
    near = {side: [[t.near(d, at_start=side == "start") for d in DELTAS] for t in found] for side in ("start", "end")}
    return xr.Dataset(
        {
            "start_distance": (both, np.array([t.start for t in found])),
            "end_distance": (both, np.array([t.end for t in found])),
            "redundant": (both, np.array([t.redundant for t in found]).astype(np.int8)),
            "relative_loss": (both, np.array([t.descent.relative_loss for t in found])),
            "least_curvature": (both, np.array([t.descent.least_curvature for t in found])),
            "n_steps": (both, np.array([t.descent.n_steps for t in found])),
            "settled": (both, np.array([t.descent.settled for t in found]).astype(np.int8)),
            **{
                f"{side}_{name}": (shares, np.array([[x[k] for x in row] for row in rows], dtype=float))
                for side, rows in near.items()
                for k, name in enumerate(("count", "share", "low", "high"))
            },
        },
        coords={"target": [t.target for t in found], "delta": list(DELTAS)},
        attrs={"degree": found[0].degree, "size": found[0].size},
    )
