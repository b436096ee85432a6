"""Monomial networks expanded into their monomials by python-flint's polynomials: an independent reference."""

import numpy as np
from flint import fmpz_mat, fmpz_mpoly_ctx

# Widths (3, 3, 1), rows in a plane: critical and no subnetwork below degree 5.
COLLINEAR = [[[1, 0, 0], [0, 1, 0], [1, 1, 0]], [[1, 1, 1]]]


def drawn(widths, seed, most=10**6):
    """Integers without zeros; a rank below the generic one has probability about 1e-3 at most."""
    rng = np.random.default_rng(seed)
    return [
        (rng.integers(1, most, shape) * rng.choice([-1, 1], shape)).tolist()
        for shape in zip(widths[1:], widths[:-1], strict=True)
    ]


def expanded(weights, degree, changed=None):
    """The outputs as `{exponents: coefficient}`; with `changed = (layer, i, k)` their derivative by that weight.

    The derivative is that of the expansion in one further variable t, added to the weight, at t = 0.
    """
    names = [f"x{k}" for k in range(len(weights[0][0]))]
    ring = fmpz_mpoly_ctx.get([*names, "t"], "lex")
    *a, t = ring.gens()
    for layer, W in enumerate(weights):
        rows = [[ring.constant(int(w)) for w in row] for row in W]
        if changed is not None and changed[0] == layer:
            rows[changed[1]][changed[2]] += t
        a = [sum((w * y for w, y in zip(row, a, strict=True)), ring.constant(0)) for row in rows]
        if layer < len(weights) - 1:
            a = [y**degree for y in a]
    if changed is not None:
        a = [y.derivative("t") for y in a]
    # t = 0: the terms that have it in their exponents fall away.
    return [{tuple(map(int, key[:-1])): int(x) for key, x in y.to_dict().items() if key[-1] == 0} for y in a]


def columns(weights, degree):
    """The derivatives by all weights, layer by layer and row by row."""
    places = [(layer, i, k) for layer, W in enumerate(weights) for i in range(len(W)) for k in range(len(W[0]))]
    return [expanded(weights, degree, place) for place in places]


def coefficient_matrix(weights, degree):
    """The differential: one row for each (output, monomial) that occurs, one column for each weight."""
    found = columns(weights, degree)
    rows = sorted({(o, key) for column in found for o, poly in enumerate(column) for key in poly})
    entries = [column[o].get(key, 0) for o, key in rows for column in found]
    return fmpz_mat(len(rows), len(found), entries)


def value(poly, x):
    """A polynomial at a point of integers."""
    total = 0
    for exponents, coefficient in poly.items():
        for base, power in zip(x, exponents, strict=True):
            coefficient *= base**power
        total += coefficient
    return total
