"""Nets that theory names as critical below the threshold of a shallow net: candidates, each to be ranked exactly.

Derived in `limits/shallow_rank.py`: in degree r < 2h - 1, rows of a net of widths (d, h, m) that lie in one plane and
have proportional outgoing columns are dependent in a way that no subnetwork is. Here they are written down; nothing
rests on them but what exact ranks say of them.

With one output they are critical, or a subnetwork is not, at every degree from 2 to 2h - 2 (d >= 2; h >= 3, or d = 2
and h = 2). For d >= 3, all rows in one plane have the rank `min(2h, r+1) + (d-2) min(h, r)`. It is below h d for r <=
2h - 2, and below the dimension of the forms, as `(r+1) + (d-2) r` is from r = 2 on; in degree 2, `2d - 1` is below the
generic rank of three rows or more. For d = 2, a zero outgoing weight leaves the rank at r + 1.
"""

import numpy as np

from ...limits.shallow_rank import criticality_threshold


def known_candidates(widths: tuple[int, ...], degree: int) -> list[tuple[np.ndarray, ...]]:
    """Whole-numbered nets of one hidden layer that may be critical at this degree; none from the threshold on.

    All rows in one plane, `e1 + i e2`; and only as many of them as depend on each other in this degree, the others
    along the axes that are left.
    """
    if len(widths) != 3:
        return []
    d, h, m = widths
    known = criticality_threshold(widths)
    if known.degree is None or degree >= known.degree:
        return []
    found = [] if known.weights is None or degree != known.fails_at else [known.weights]
    few = max(3, (degree + 1) // 2 + 1)  # double points on a line have r + 1 conditions in all: 2 few > r + 1
    for k in dict.fromkeys((min(few, h), h)):
        if h - k > max(0, d - 2):
            continue
        rows = np.zeros((h, d), dtype=np.int64)
        rows[:k, 0], rows[:k, 1] = 1, np.arange(k)
        rows[np.arange(k, h), np.arange(2, 2 + h - k)] = 1
        found.append((rows, np.ones((m, h), dtype=np.int64)))
    return found


def names_a_witness(widths: tuple[int, ...], degree: int, threshold: int) -> bool:
    """Whether theory that gives this threshold names a witness below it at this degree, which exact ranks can deny.

    Every proof of a threshold ends with a witness one degree below it. For one hidden layer and one output there is one
    at each lower degree, see above; elsewhere a search that finds none denies nothing.
    """
    return degree == threshold - 1 or (len(widths) == 3 and widths[-1] == 1 and degree < threshold)
