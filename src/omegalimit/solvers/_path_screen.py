"""Paths over many features, of which few matter: run ahead on candidates, look at all of them afterwards.

Between two events `s = X'R` of every feature is linear and its bounds `-t-`, `t+` are constant: a feature within them
at both ends was within them all the way. So a batch of events is run on the features that are nearest to their bounds,
and one product of `X'` with the `R` of all knots shows whether another one would have come in earlier. If so the path
goes back to the knot before, with that feature among the candidates. The product leaves out what cannot have come near
(`Watch`). What comes out is the path over all features, knot by knot.
"""

import numpy as np

from ..limits._path_data import PathData, near
from ._path_events import EVENT, NONE, BoundaryPath, Knot

_BATCH = 24


def run(path: BoundaryPath, *, max_events: int | None, screen: bool = True) -> tuple[list[Knot], str]:
    """The knots of the path, the start among them, and how it ended: `DONE`, `NONE`, `STALLED`, or `EVENT` where the
    limit of events was reached."""
    data = path.data
    limit = np.inf if max_events is None else max_events
    n_wanted = 3 * data.n
    kept = [path.knot()]
    if not screen or 2 * n_wanted >= data.d:
        path.restrict(np.arange(data.d))
        ended = EVENT
        while ended == EVENT and len(kept) - 1 < limit:
            ended = path.step()
            kept += [path.knot()] * (ended == EVENT)
        return kept, ended
    watch = Watch(data)
    inside = _nearest(data, data.rows @ path.r, kept[0], n_wanted)
    while True:
        path.restrict(np.flatnonzero(inside))
        batch, ended = [kept[-1]], EVENT
        while ended == EVENT and len(batch) <= _BATCH and len(kept) + len(batch) - 2 < limit:
            ended = path.step()
            batch += [path.knot()] * (ended == EVENT)
        missed, p = _first_missed(data, watch, batch[1:], inside)
        kept += batch[1 : p + 1]
        if len(missed):
            path.restore(batch[p])
            inside[missed] = True
        elif len(kept) - 1 >= limit or ended not in (EVENT, NONE):
            return kept, ended
        elif ended == NONE:
            s, speed = data.rows @ path.R, data.rows @ path.r
            missed = path.next_to_come(s, speed)
            if not len(missed) or inside[missed].all():
                return kept, ended
            inside[missed] = True
        else:
            inside = _nearest(data, watch.s, batch[-1], n_wanted)


class Watch:
    """Which features may be beyond their bounds as `R` goes along a path: the others are not computed.

    `|x_i'(R - R_0)| <= |x_i| |R - R_0|`: every feature keeps its last product `s_i = x_i'R_0`, and is computed again
    when the `R` of now are so far from that `R_0` that it could have reached a bound.
    """

    def __init__(self, data: PathData):
        self._data = data
        self.s = np.zeros(data.d)
        self._anchors, self._anchor = [np.zeros(data.n)], np.zeros(data.d, dtype=np.intp)

    def look(self, R, also):
        """The features that may be beyond a bound at any of `R`, shape `(m, n)`, and those of the mask `also`.

        Indices, shape `(q,)`, and products `x_i'R`, `(q, m)`.
        """
        data, middle = self._data, (R[0] + R[-1]) / 2
        far = np.array([_farthest(R, anchor) for anchor in self._anchors])
        stale = np.flatnonzero(near(data, self.s, far[self._anchor]))
        self._keep(stale, self._products(stale, middle[None])[:, 0], middle)
        where = stale[near(data, self.s[stale], _farthest(R, middle), stale)]
        where = np.union1d(where, np.flatnonzero(also))
        products = self._products(where, R)
        self._keep(where, products[:, -1], R[-1])
        return where, products

    def _keep(self, where, s, R):
        self.s[where] = s
        self._anchor[where] = len(self._anchors)
        self._anchors.append(R)

    def _products(self, where, R):
        rows = self._data.rows
        if 3 * len(where) > len(rows):  # to gather their rows would cost more than to take all
            return (rows @ R.T)[where]
        return rows[where] @ R.T


def _farthest(R, anchor):
    return float(np.sqrt(((R - anchor) ** 2).sum(axis=1).max()))


def _first_missed(data: PathData, watch: Watch, knots, inside):
    """The features beyond their bounds that were no candidates, at the first knot where there are any, and how many
    knots there are before it."""
    if not knots:
        return np.zeros(0, int), 0
    R = np.array([knot.R for knot in knots])
    at, products = watch.look(R, inside)
    # At a bound to rounding is beyond: it would have come in.
    rounding = 2 * data.rounding * data.sizes[at] * float(np.linalg.norm(R, axis=1).max())
    high = data.t_plus[at] * (1 - 2 * data.rounding) - rounding
    low = rounding - data.t_minus[at] * (1 - 2 * data.rounding)
    some = np.flatnonzero(((products.max(axis=1) >= high) | (products.min(axis=1) <= low)) & ~inside[at])
    if not len(some):
        return np.zeros(0, int), len(knots)
    beyond = (products[some] >= high[some, None]) | (products[some] <= low[some, None])
    first = int(np.argmax(beyond.any(axis=0)))
    return at[some[beyond[:, first]]], first


def _nearest(data, s, knot, n_wanted):
    """A mask of the features nearest to their bounds, those on them among them; at `R = 0`: by speed, given as `s`."""
    share = np.maximum(s / data.t_plus, -s / data.t_minus)
    inside = np.zeros(data.d, bool)
    inside[np.argpartition(-share, n_wanted)[:n_wanted]] = True
    inside[knot.boundary] = True
    return inside
