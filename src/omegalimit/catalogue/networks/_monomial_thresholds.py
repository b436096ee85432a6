"""From which degree on "critical exactly at subnetworks" holds, where that is proved.

One hidden layer: `limits/shallow_rank.py`, 2h - 1 as a rule. Two hidden layers, derived here:

**(2, h, 2, 1)**, every r >= max(3, 2h - 1). With `p_i` the rows of layer 1, `q_j = sum_i a_ji p_i^r` and V the linear
forms, a relation among the derivatives is `q_1^(r-1) A_1 + q_2^(r-1) A_2 = 0` with `A_j = sum_i p_i^(r-1) (b_ji p_i +
c_j a_ji l_i)` of degree r, `l_i` in V. Let `q_j = g s_j` with s_1, s_2 coprime, not constant since the q are not
proportional. If A_2 is not 0, `s_1^(r-1)` divides it, so deg s = 1, and `s_2 q_1 = s_1 q_2` reads `sum_i p_i^r (a_1i
s_2 - a_2i s_1) = 0` in degree r + 1, where the spaces `p_i^r V` are independent (pairwise different p_i, r + 1 >= 2h -
1): all a are 0, against what was assumed. So A_1 = A_2 = 0; the spaces `p_i^(r-1) V` are independent for r >= 2h - 1,
hence `b_ji p_i + c_j a_ji l_i = 0`, and with some `c_j a_ji` not 0 for each i only the h + 2 rescalings are left.
Subnetworks have more relations: the rank falls.

**(2, 2, h, 1)**, h >= 3: 2h - 1 exactly. With p_1 = x and p_2 = y, without loss, and r >= 3 the exponents modulo r
split a relation in three: in x^r and y^r it is one of the shallow net of widths (2, h, 1) with the weights of layers 2
and 3; what is left is `u sum_j c_j a_j1 q_j^(r-1) = 0` and `v sum_j c_j a_j2 q_j^(r-1) =
0`, u and v numbers. For r >= 2h - 1 the powers q_j^(r-1) are independent unless q are proportional, so u = v = 0 unless
a neuron is unneeded, and the shallow net has its own threshold 2h - 1. At r = 2h - 2 a zero outgoing weight of layer 2
leaves the shallow rank at its generic value 2h - 1, and u = v = 0 as before: a subnetwork that is not critical.

**(2, 2, 2, 1)**, r = 2 as well: p_1 = x, p_2 = y without loss, A_1 and A_2 are arbitrary quadratic forms, q_1 and q_2
are coprime, and `q_1 A_1 + q_2 A_2 = 0` has one solution, (q_2, -q_1): the rank is 5 wherever no neuron is unneeded,
and less where one is.

**(2, 3, 2, 1)**, r = 4 as well: there is one relation `sum_i p_i^3 m_i = 0`, no m_i a multiple of p_i (`p_1^3 V + p_2^3
V + <p_3^4>` is independent in degree 4). A_j = 0 then asks for `c_j a_ji mu_i = t_j` with l_i = mu_i m_i modulo p_i:
for t = 0 as above; for one t_j = 0 row j of a vanishes; else its rows are proportional. At r = 3 it fails: a zero
outgoing column of layer 1 leaves the rank at the generic one, 8.
"""

from collections.abc import Sequence

from ...limits.shallow_rank import criticality_threshold

_DEEP: dict[tuple[int, ...], int] = {(2, 2, 2, 1): 2, (2, 3, 2, 1): 4}


def proved_threshold(widths: Sequence[int]) -> tuple[int, str] | None:
    """The least degree >= 2 from which on the critical points are the subnetworks, and where that is proved.

    `None` where it is not, or where there is no such degree (one input).
    """
    given = tuple(widths)
    if len(given) == 3:
        degree = criticality_threshold(given).degree
        return None if degree is None else (degree, "one hidden layer: double points of forms")
    if len(given) == 4 and given[:2] == (2, 2) and given[2] >= 3 and given[3] == 1:
        return 2 * given[2] - 1, "two hidden layers, two inputs and neurons: exponents modulo r"
    return (_DEEP[given], "two hidden layers, two inputs: coprime forms") if given in _DEEP else None
