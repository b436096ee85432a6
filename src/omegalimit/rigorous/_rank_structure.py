"""Null vectors of the differential of a monomial network that are known by formula, at given weights.

The column of the weight (l, i, k) is `delta_{l,i} a_{l-1,k}`, with the activations `a` and, going backwards,
`delta_{l,i} = r h_{l,i}^{r-1} sum_m W_{l+1}[m, i] delta_{l+1,m}`. Three kinds of identities between polynomials
follow from the weights alone (derived here; sufficient, not necessary):

- a pre-activation is zero where its row is zero on the classes of proportional activations below it, and two are
  proportional where these rows are; the same holds backwards for the columns;
- so some columns are zero, and some proportional to each other;
- a hidden neuron's rescaling: its incoming row, and -r times its outgoing column.

At an inactive or a redundant neuron they give every null vector of the neuron itself, and those of the layers above
that see only one function through it.
"""

from collections import defaultdict
from fractions import Fraction

from ._rank_weights import Layers

Vector = dict[int, int | Fraction]


Class = tuple[int, Fraction] | None


# Ratios of more bits are not followed: powers of powers would fill the memory. Their neurons count as unrelated.
_MOST_BITS = 2**16


def _classes(rows, degree) -> list[Class]:
    """For each row its class, and its ratio to the first row of the class; `None` for a zero row."""
    found, names, leads = [], {}, []
    for row in rows:
        lead = next((x for x in row if x), None)
        if lead is None:
            found.append(None)
            continue
        key = tuple(Fraction(x) / lead for x in row)
        name = names.setdefault(key, len(leads))
        ratio = Fraction(1)
        if name < len(leads):
            ratio = lead / leads[name]
        if name == len(leads) or degree * (ratio.numerator.bit_length() + ratio.denominator.bit_length()) > _MOST_BITS:
            name, ratio = len(leads), Fraction(1)
            leads.append(lead)
        found.append((name, ratio))
    return found


def _gathered(row, classes):
    """A row on the classes: `sum_k row_k ratio_k` over each class's members."""
    n = 1 + max((c[0] for c in classes if c is not None), default=-1)
    found = [Fraction(0)] * n
    for x, c in zip(row, classes, strict=True):
        if x and c is not None:
            found[c[0]] += x * c[1]
    return found


def structural_null_vectors(layers: Layers, degree: int) -> list[Vector]:
    """Null vectors as `{column: number}`, in the order of the Jacobian's columns; they may be dependent."""
    L = len(layers)
    d = [len(layers[0][0]), *(len(W) for W in layers)]
    pre: list[list[Class]] = []
    activations: list[list[Class]] = [[(k, Fraction(1)) for k in range(d[0])]]
    for W in layers[:-1]:
        h = _classes([_gathered(row, activations[-1]) for row in W], degree)
        pre.append(h)
        activations.append([None if c is None else (c[0], c[1] ** degree) for c in h])
    deltas: list[list[Class]] = [[(o, Fraction(1)) for o in range(d[-1])]]
    for layer in range(L - 1, 0, -1):
        sums = _classes([_gathered(column, deltas[0]) for column in zip(*layers[layer], strict=True)], degree)
        below, names = [], {}
        for h, s in zip(pre[layer - 1], sums, strict=True):
            if h is None or s is None:
                below.append(None)
            else:
                name = names.setdefault((h[0], s[0]), len(names))
                below.append((name, h[1] ** (degree - 1) * s[1]))
        deltas.insert(0, below)
    starts = [0]
    for layer in range(L):
        starts.append(starts[-1] + d[layer + 1] * d[layer])
    found: list[Vector] = []
    for layer in range(L):
        members = defaultdict(list)
        for i, delta in enumerate(deltas[layer]):
            for k, a in enumerate(activations[layer]):
                column = starts[layer] + i * d[layer] + k
                if delta is None or a is None:
                    found.append({column: 1})
                else:
                    members[delta[0], a[0]].append((column, delta[1] * a[1]))
        for (first, ratio), *others in members.values():
            found += [{first: -other / ratio, column: Fraction(1)} for column, other in others]
    for layer in range(L - 1):
        for i in range(d[layer + 1]):
            vector: Vector = {starts[layer] + i * d[layer] + k: x for k, x in enumerate(layers[layer][i]) if x}
            vector |= {
                starts[layer + 1] + m * d[layer + 1] + i: -degree * row[i]
                for m, row in enumerate(layers[layer + 1])
                if row[i]
            }
            if vector:
                found.append(vector)
    return found
