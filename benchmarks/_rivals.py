"""The rivals of `margins.py`: the maximum margin as other solvers are told it, and the point and multipliers they give.

Every one is asked for `TOLERANCE`. CVXPY gets the norm itself for vectors (`l2` squared) and for `spectral`, and
semidefinite forms that are exact for Schatten:

- `p = 4`: `|W|^2 = min |X|_F` over `[[X, W^T], [W, I]] >= 0`, since then `X >= W^T W`;
- `p = 3/2`: `|W|^2 = min tr T` over `[[T, W^T], [W, X]] >= 0`, `[[Y, X], [X, Z]] >= 0`, `[[X, Z], [Z, I]] >= 0` and
  `|Y|_F <= 1`: the last three say that `tr X^3 <= 1`, as `Z <= X^(1/2)` and `Y >= X Z^-1 X >= X^(3/2)`;
- `p = 4/3` and `3`: the dual, `min |sum_k p_k A_k|_q` over `sum p = 1`, with the form of `q = 4` or `3/2`.

The first is the Schur complement; the second is derived here (`|W|_(3/2)^2 = min tr(W^T X^-1 W)` over `tr X^3 <= 1`).
"""

import importlib
import math
from typing import Any

import numpy as np

TOLERANCE = 1e-9
# Far above every multiplier: the margin is hard. A larger one costs digits.
_PENALTY = 1e4
_PROGRAMMED = {
    "Clarabel": {"solver": "CLARABEL"} | dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), TOLERANCE),
    "SCS": {"solver": "SCS", "eps_abs": TOLERANCE, "eps_rel": TOLERANCE, "max_iters": 10**7},
    "OSQP": {"solver": "OSQP", "eps_abs": TOLERANCE, "eps_rel": TOLERANCE, "max_iter": 10**7},
    "HiGHS in CVXPY": {"solver": "HIGHS"}
    | dict.fromkeys(("primal_feasibility_tolerance", "dual_feasibility_tolerance"), TOLERANCE),
}
_DIRECT = {"HiGHS ipm": "highs-ipm", "HiGHS simplex": "highs-ds"}


def load(method: str) -> None:
    """Import what `method` needs; imports are not the solver's time."""
    importlib.import_module(
        "cvxpy" if method in _PROGRAMMED else "scipy.optimize" if method in _DIRECT else "sklearn.svm"
    )


def solve(method: str, data: dict, norm: str, *, p: float | None = None, groups: list[int] | None = None):
    """The point `W` and the multipliers (`None` where the solver gives none) for the arguments of `MaxMargin`."""
    if method in _PROGRAMMED:
        dual = norm == "schatten" and not any(math.isclose(p or 0, direct) for direct in (1.5, 4))
        return _dual(data, p, method) if dual else _primal(data, norm, method, p=p, groups=groups)
    if method in _DIRECT:
        return (_highs_l1 if norm == "l1" else _highs_linf)(data["rows"], _DIRECT[method])
    return (_libsvm if method == "LIBSVM" else _liblinear)(data["rows"])


def _primal(data, norm, method, *, p, groups):
    import cvxpy as cp

    if "rows" in data:
        W = cp.Variable(data["rows"].shape[1])
        margin = data["rows"] @ W >= 1
    else:
        left, right = data["left"], data["right"]
        W = cp.Variable((left.shape[1], right.shape[1]))
        margin = cp.sum(cp.multiply(left @ W, right), axis=1) >= 1
    assert isinstance(margin, cp.Constraint)
    constraints: list[Any] = []
    if norm == "schatten":
        size, constraints = _schatten(W, p)
    elif norm == "group-l1":
        size = cp.sum(cp.norm2(cp.reshape(W, (len(set(groups)), groups.count(0)), order="C"), axis=1))
    elif norm == "lp":
        # Second-order cones are exact too where p is whole; Clarabel is twice as fast with them, SCS slower.
        size = cp.pnorm(W, p, approx=p == round(p) and method == "Clarabel")
    else:
        size = {"l1": cp.norm1, "l2": cp.sum_squares, "linf": cp.norm_inf, "spectral": cp.sigma_max}[norm](W)
    cp.Problem(cp.Minimize(size), [margin, *constraints]).solve(warm_start=False, **_PROGRAMMED[method])
    return np.asarray(W.value), np.asarray(margin.dual_value)


def _dual(data, p, method):
    """The point is the multiplier of `G = sum_k p_k A_k`."""
    import cvxpy as cp

    left, right = data["left"], data["right"]
    weights, G = cp.Variable(len(left), nonneg=True), cp.Variable((left.shape[1], right.shape[1]))
    joined = cp.Zero(G - left.T @ cp.diag(weights) @ right)
    size, constraints = _schatten(G, p / (p - 1))
    constraints = [joined, cp.sum(weights) == 1, *constraints]
    cp.Problem(cp.Minimize(size), constraints).solve(warm_start=False, **_PROGRAMMED[method])
    W = np.asarray(joined.dual_value)
    return W * np.sign(np.sum(W * np.asarray(G.value))), np.asarray(weights.value)


def _schatten(W, p) -> tuple[Any, list[Any]]:
    """`|W|_p^2` as an objective, and its constraints, for `p` 4 or 3/2."""
    import cvxpy as cp

    n1, n2 = W.shape
    eye = cp.Constant(np.eye(n1))
    if math.isclose(p, 4):
        X = cp.Variable((n2, n2), symmetric=True)
        return cp.norm(X, "fro"), [cp.bmat([[X, W.T], [W, eye]]) >> 0]
    assert math.isclose(p, 1.5)
    T = cp.Variable((n2, n2), symmetric=True)
    X, Y, Z = (cp.Variable((n1, n1), symmetric=True) for _ in range(3))
    blocks = ([[T, W.T], [W, X]], [[Y, X], [X, Z]], [[X, Z], [Z, eye]])
    return cp.trace(T), [*(cp.bmat(block) >> 0 for block in blocks), cp.norm(Y, "fro") <= 1]


def _highs(method, cost, **program):
    from scipy.optimize import linprog

    options = {"primal_feasibility_tolerance": TOLERANCE, "dual_feasibility_tolerance": TOLERANCE}
    if method == "highs-ipm":
        options["ipm_optimality_tolerance"] = TOLERANCE
    return linprog(cost, method=method, options=options, **program)


def _highs_l1(A, method):
    """`min 1.(u + v)` over `A (u - v) >= 1`."""
    N, d = A.shape
    found = _highs(method, np.ones(2 * d), A_ub=np.hstack([-A, A]), b_ub=-np.ones(N))
    return found.x[:d] - found.x[d:], -found.ineqlin.marginals


def _highs_linf(A, method):
    """The dual, which HiGHS solves up to three times faster: `min 1.(y + x)` over `A^T p + y - x = 0`, `1.p = 1`."""
    import scipy.sparse

    N, d = A.shape
    eye, cost = scipy.sparse.eye_array(d), np.concatenate([np.zeros(N), np.ones(2 * d)])
    equations = scipy.sparse.block_array([[A.T, eye, -eye], [np.ones((1, N)), None, None]], format="csc")
    found = _highs(method, cost, A_eq=equations, b_eq=np.eye(1, d + 1, d)[0])
    return -found.eqlin.marginals[:d], found.x[:N]


def _libsvm(A):
    """It always has an intercept; with every row and its negative the problem is even and the intercept zero."""
    from sklearn.svm import SVC

    N = len(A)
    model = SVC(kernel="linear", C=_PENALTY, tol=TOLERANCE, cache_size=1000)
    model.fit(np.vstack([A, -A]), np.repeat([1, -1], N))
    multipliers = np.zeros(2 * N)
    multipliers[model.support_] = np.abs(model.dual_coef_[0])
    return model.coef_[0], multipliers[:N] + multipliers[N:]


def _liblinear(A):
    """Labels of both kinds, as it wants them: `y_k x_k = A_k`. It returns no multipliers."""
    from sklearn.svm import LinearSVC

    signs = np.where(np.arange(len(A)) % 2, 1, -1)
    model = LinearSVC(loss="hinge", C=_PENALTY, tol=TOLERANCE, max_iter=10**9, fit_intercept=False, random_state=0)
    return model.fit(signs[:, None] * A, signs).coef_[0], None
