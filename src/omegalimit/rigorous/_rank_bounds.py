"""Upper bounds of the rank of the differential that hold at all weights of an architecture."""

import functools
import itertools

# Generic h in (r, d) for which h d double points fail to impose independent conditions: Alexander, Hirschowitz, 1995.
_EXCEPTIONS = {(3, 5, 7), (4, 3, 5), (4, 4, 9), (4, 5, 14)}


# Beyond this a space of polynomials bounds no rank of a network that fits in memory.
_MANY = 2**40


def n_monomials(d: int, degree: int) -> int:
    """`C(degree + d - 1, d - 1)`, the dimension of the forms of this degree in d variables; `2^40` where it is more."""
    few, found = min(d - 1, degree), 1
    n = degree + d - 1
    for i in range(1, few + 1):
        found = found * (n - few + i) // i  # C(n - few + i, i): these grow
        if found >= _MANY:
            return _MANY
    return found


def shallow_generic_rank(d: int, h: int, degree: int) -> int:
    """The generic rank for widths (d, h, 1): the dimension of the sums of h powers of linear forms.

    `min(h d, C(r+d-1, d-1))` by the theorem of Alexander and Hirschowitz (1995), less one in its four exceptions; for
    r = 2 quadratic forms of rank at most h: `h d - h(h-1)/2` for h <= d.
    """
    if degree == 2:
        h = min(h, d)
        return h * d - h * (h - 1) // 2
    return min(h * d, n_monomials(d, degree)) - ((degree, d, h) in _EXCEPTIONS)


@functools.lru_cache(maxsize=4096)
def rank_bound(widths: tuple[int, ...], degree: int) -> int:
    """An upper bound of the rank at every weight, by splitting the network at each hidden layer. Derived here.

    With the pre-activations `h_j` of layer j between them, `f` is a function of `h_j` and of the later weights, so the
    rank is at most that of the part (d_0, ..., d_j), plus that of the part (d_j, ..., d_L) on free inputs, less d_j:
    scaling an entry of `h_j` does what scaling a column of `W_{j+1}` does. For each part the same bound holds, and the
    dimension of its space of polynomials; for two layers with one output the theorem of Alexander and Hirschowitz.
    Also, `h_j` is linear in the N monomials of its degree: the rank is at most that of the network (N, d_j, ..., d_L)
    on free inputs. Without the inner dimensions this is `expected_rank`. Ranks are at most the generic one, for which
    all layers' rescalings are independent.
    """
    d, m, n_layers = widths[0], widths[-1], len(widths) - 1
    if n_layers == 1:
        return d * m
    bound = sum(a * b for a, b in itertools.pairwise(widths))
    dimension = n_monomials(d, degree ** (n_layers - 1))
    if dimension < _MANY:
        bound = min(bound, m * dimension)
    if n_layers == 2 and m == 1:
        bound = min(bound, shallow_generic_rank(d, widths[1], degree))
    for j in range(1, n_layers):
        bound = min(bound, rank_bound(widths[: j + 1], degree) + rank_bound(widths[j:], degree) - widths[j])
        free = n_monomials(d, degree ** (j - 1))
        if j > 1 and free < _MANY:
            bound = min(bound, rank_bound((free, *widths[j:]), degree))
    return bound
