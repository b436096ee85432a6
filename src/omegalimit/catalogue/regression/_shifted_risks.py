"""Claims of `negative_shifted_descent` about risk, on drawn designs whose excess risk is exact."""

import math
from collections.abc import Sequence

import numpy as np

from ...claims import Assumption, Kind, Verdict
from ...limits.excess_risk import ExcessRisk, hold_out_factor
from ._shifted_experiment import Draw, HoldOut
from ._shifted_filters import LOSS

GAIN = 1.1
"""A comparison of risks is a separation from this ratio on: what ties differs by a few per cent."""

GROWTH = 0.1
"""An exponent of n is a growth from here on: less is a quarter more risk over a decade of sizes."""


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean of independent values, and half the length of its 95% interval by Student's t; infinite for one value."""
    count = len(values)
    if count < 2:
        return float(np.mean(values)), math.inf
    error = float(np.std(values, ddof=1)) / math.sqrt(count)
    return float(np.mean(values)), student(count - 1) * error


def student(degrees: int) -> float:
    """The 97.5% point of Student's t."""
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    return float(stdtrit(degrees, 0.975))


def conditions_of(draws: Sequence[Draw]) -> tuple[Assumption, ...]:
    """The theorem's conditions on head and tail, as they are in these draws."""
    s = draws[0].setting
    clear = (min(s.head) - max(s.tail.eigenvalues)) / s.w
    ranks = s.tail.effective_rank / s.n
    return (
        Assumption(name="every head clears the bulk: (lh - lT) / w > 1", holds=clear > 1, measured=clear),
        Assumption(name="effective rank of the tail above n: ratio > 1", holds=ranks > 1, measured=ranks),
        Assumption(name="independent observations", holds=s.row_correlation == 0, measured=s.row_correlation),
    )


def noise_of(draws: Sequence[Draw]) -> tuple[Assumption, ...]:
    """What the claims about risk ask of the noise (both derived here).

    For a head of coefficient b and variance lh the amplification rule reads, for many observations,
    `n a b^2 > sigma^2 (1 + w^2/lh^2)`; and what the interpolant hides of the noise in the tail, `sigma^2 w^2/a^2`, must
    be less than what it misses of the signal, `sum lh b^2 a^2/(a + lh)^2`, or there is nothing to be had by amplifying.
    """
    s = draws[0].setting
    lam, b = np.array(s.head), np.array(s.b_head)
    noise = s.sigma**2
    worth = float(np.min(s.n * s.a * b**2 / (noise * (1 + (s.w / lam) ** 2)))) if noise > 0 else math.inf
    missed = float(np.sum(lam * b**2 * (s.a / (s.a + lam)) ** 2))
    hidden = noise * (s.w / s.a) ** 2 / missed
    return (
        Assumption(
            name="noise low enough for every head: n a b^2 / (sigma^2 (1 + w^2/lh^2)) > 1",
            holds=worth > 1,
            measured=worth,
        ),
        Assumption(
            name="noise hidden in the tail over the signal that is missed: ratio < 1", holds=hidden < 1, measured=hidden
        ),
    )


def heads_apart(draws: Sequence[Draw]) -> tuple[Assumption, ...]:
    """What ties a leading mode to one head (derived here, from the correlations of sampled heads, about `n^-1/2`).

    Two heads mix by the angle `sqrt(lh lh'/n) / |lh - lh'|`: below a third the modes are theirs. And the correlation
    makes a strong head miss what a weak one lacks: `a (H + a)^-1 b` of the sampled covariance H keeps the sign of b, at
    twice its standard deviation, where `2 sqrt(lh lh'/n) |b'| / (a + lh') < |b|`.
    """
    s = draws[0].setting
    angle = share = 0.0
    for i, (lam, b) in enumerate(zip(s.head, s.b_head, strict=True)):
        for j, (other, b_other) in enumerate(zip(s.head, s.b_head, strict=True)):
            if i == j:
                continue
            sampled = math.sqrt(lam * other / s.n)
            angle = max(angle, sampled / abs(lam - other) if lam != other else math.inf)
            share = max(share, 2 * sampled * b_other / (s.a + other) / b)
    return (
        Assumption(name="heads apart: sqrt(lh lh'/n) / |lh - lh'| < 1/3", holds=angle < 1 / 3, measured=angle),
        Assumption(
            name="sampled correlations leave every head its missing signal: ratio < 1", holds=share < 1, measured=share
        ),
    )


def judged(claim: str, kind: Kind, draws: Sequence[Draw], **rest) -> Verdict:
    """A verdict on these draws: what they are goes into the details, the theorem's conditions into the assumptions."""
    s = draws[0].setting
    about = {
        "n": s.n,
        "head": list(s.head),
        "tail_dimensions": s.tail.size,
        "floor": s.a,
        "bulk_sd": s.w,
        "sigma": s.sigma,
        "draws": len(draws),
    }
    rest["details"] = {**about, **rest.get("details", {})}
    return Verdict(
        claim=claim, loss=LOSS, kind=kind, assumptions=(*conditions_of(draws), *rest.pop("more", ())), **rest
    )


# -- risk -------------------------------------------------------------------------------------------------------------


def beats_endpoints(draws: Sequence[Draw]) -> Verdict:
    """`beats-endpoints`: the path nu = a, stopped in time, has less risk than every admissible endpoint.

    Measured: mean over designs of the log of the ratio of mean excess risks, each at its own best (time; shift in
    [0, m_min+)); at least log 1.1.
    """
    logs = [math.log(d.endpoint[0] / d.floor_critical[0]) for d in draws]
    mean, slack = interval(logs)
    return judged(
        "beats-endpoints",
        Kind.LOWER,
        draws,
        parametrisation="flow",
        measured=mean,
        bound=math.log(GAIN),
        slack=slack,
        unit="log of the ratio of risks",
        more=noise_of(draws),
        details={
            "ratio": math.exp(mean),
            "endpoint": float(np.mean([d.endpoint[0] for d in draws])),
            "endpoint_shift_over_m_min": float(np.mean([d.endpoint[1] for d in draws])),
            "stopped": float(np.mean([d.floor_critical[0] for d in draws])),
            "stopping_time": float(np.mean([d.floor_critical[1] for d in draws])),
            "ridgeless": float(np.mean([d.ridgeless for d in draws])),
            "ridge": float(np.mean([d.ridge for d in draws])),
        },
    )


def risk_ratio_grows(groups: Sequence[Sequence[Draw]]) -> Verdict:
    """`risk-ratio-grows`: that ratio grows like a power of n, along sizes that keep the floor while the tail lengthens.

    Measured: the slope of its log on log n by least squares over all draws; slack: 95% by Student's t. The exponent
    itself is no theorem: about 0.28 from n = 100 to 800.
    """
    x = np.array([math.log(draws[0].setting.n) for draws in groups for _ in draws])
    y = np.array([math.log(d.endpoint[0] / d.floor_critical[0]) for draws in groups for d in draws])
    centred = x - x.mean()
    slope = float(centred @ y / (centred @ centred)) if centred.any() else math.nan
    left = y - y.mean() - slope * centred
    error = math.sqrt(float(left @ left) / max(y.size - 2, 1) / float(centred @ centred)) if y.size > 2 else math.inf
    return judged(
        "risk-ratio-grows",
        Kind.LOWER,
        groups[0],
        parametrisation="flow",
        measured=slope,
        bound=GROWTH,
        slack=student(max(y.size - 2, 1)) * error,
        unit="exponent of n",
        more=noise_of(groups[0]),
        details={
            "sizes": [draws[0].setting.n for draws in groups],
            "ratios": [
                math.exp(np.mean([math.log(d.endpoint[0] / d.floor_critical[0]) for d in draws])) for draws in groups
            ],
            "standard_error": error,
        },
    )


def beats_rescaling(draws: Sequence[Draw]) -> Verdict:
    """`beats-rescaling`: with several head scales the stopped path has less risk than all multiples of the interpolant.

    Measured as in `beats-endpoints`; the best factor is a parabola's minimum, so that no other can be better.
    """
    s = draws[0].setting
    mean, slack = interval([math.log(d.rescaling[0] / d.floor_critical[0]) for d in draws])
    return judged(
        "beats-rescaling",
        Kind.LOWER,
        draws,
        parametrisation="flow",
        measured=mean,
        bound=math.log(GAIN),
        slack=slack,
        unit="log of the ratio of risks",
        more=(
            *noise_of(draws),
            Assumption(name="several head scales", holds=max(s.head) >= 2 * min(s.head), measured=float(len(s.head))),
        ),
        details={
            "ratio": math.exp(mean),
            "rescaling": float(np.mean([d.rescaling[0] for d in draws])),
            "factor": float(np.mean([d.rescaling[1] for d in draws])),
            "stopped": float(np.mean([d.floor_critical[0] for d in draws])),
        },
    )


def head_worth_amplifying(draws: Sequence[Draw]) -> Verdict:
    """`head-worth-amplifying`: on the head's modes the missing signal's gain is above the price in variance.

    Measured: the smallest `(gain - price) / (|gain| + price)` among the h leading modes, between -1 and 1, mean over
    designs; at least 0.
    """
    count = len(draws[0].setting.head)
    excess, worth = [], []
    for d in draws:
        gain, price = d.risk.amplification
        gain, price = gain[-count:], price[-count:]
        excess.append(float(np.min((gain - price) / (np.abs(gain) + price))))
        worth.append(int(d.risk.amplification.worth.sum()))
    mean, slack = interval(excess)
    return judged(
        "head-worth-amplifying",
        Kind.LOWER,
        draws,
        parametrisation="spectrum",
        measured=mean,
        bound=0.0,
        slack=slack,
        unit="gain less price, over their sum",
        more=(*noise_of(draws), *heads_apart(draws)),
        details={"modes_worth_amplifying": worth, "modes": int(draws[0].m.size)},
    )


def amplification_rule(*, seed: int, n: int = 12, d: int = 30, noise_spread: float = 0.0) -> Verdict:
    """`amplification-rule`: the mean risk's derivative in f_i at the interpolant is 2 (v_i - m_i), for every mode.

    Judged against the risk by its definition, `|Sigma^{1/2} (M X b* - b*)|^2 + tr(Sigma M N M')`, with the d x d
    covariance and the estimator's matrix M written out, on a small design; a central difference of a quadratic is
    its derivative. `noise_spread`: unequal variances of the noise, for a counter-instance.
    """
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((d, d)) / math.sqrt(d)
    Sigma = root @ root.T
    X = rng.standard_normal((n, d)) @ root.T
    b_star = rng.standard_normal(d)
    sigma = 0.3
    variances = sigma**2 * np.exp(noise_spread * rng.standard_normal(n))
    variances *= sigma**2 / variances.mean()
    risk = ExcessRisk.from_design(X, b_star, covariance=Sigma, sigma=sigma)
    U, singular, Vt = np.linalg.svd(X, full_matrices=False)
    U, singular, Vt = U[:, ::-1], singular[::-1], Vt[::-1]

    def by_definition(f: np.ndarray) -> float:
        M = (Vt.T * (f / singular)) @ U.T
        off = M @ (X @ b_star) - b_star
        return float(off @ Sigma @ off + np.trace(Sigma @ (M * variances) @ M.T))

    step = 0.5
    derivative = np.array([by_definition(1 + step * e) - by_definition(1 - step * e) for e in np.eye(n)]) / (2 * step)
    rule = 2 * (risk.price - risk.gain)
    scale = float(np.abs(derivative).max())
    wrong = int(np.sum(np.sign(derivative) != np.sign(rule)))
    condition = float(singular[-1] / singular[0]) ** 2
    return Verdict(
        claim="amplification-rule",
        parametrisation="spectrum",
        loss=LOSS,
        kind=Kind.EQUALITY,
        measured=float(np.abs(derivative - rule).max()) / scale,
        # Rounding of the two risks, d^2 products each, over the difference that is taken of them.
        bound=d * d * float(np.finfo(float).eps) * by_definition(np.full(n, 1.5)) / scale * condition,
        slack=0.0,
        unit="relative error of the derivative",
        conditions=(Assumption(name="the sign is right for every mode", holds=wrong == 0, measured=float(wrong)),),
        assumptions=(Assumption(name="noise of equal variance", holds=noise_spread == 0, measured=noise_spread),),
        details={"n": n, "d": d, "worth_amplifying": int(risk.amplification.worth.sum())},
    )


def hold_out(draws: Sequence[Draw], found: Sequence[HoldOut], *, alpha: float, fresh: bool = True) -> Verdict:
    """`hold-out`: the pair chosen by hold-out is within the Gaussian inequality of the best of the grid.

    Measured: the largest `(sigma^2 + R_chosen) / (sigma^2 + R_best)` over the designs, risks with the noise as drawn;
    bound: `hold_out_factor` at alpha shared among the designs, so that all hold at once with probability 1 - alpha.
    `fresh`: whether the choice was made on observations that were not trained on.
    """
    noise = draws[0].setting.sigma ** 2
    bound = hold_out_factor(found[0].n_candidates, found[0].n_points, alpha / len(found))
    least = 4 * math.log(2 * found[0].n_candidates * len(found) / alpha)
    ratios = [(noise + h.risk) / (noise + h.best) for h in found]
    return judged(
        "hold-out",
        Kind.UPPER,
        draws,
        parametrisation="flow",
        measured=max(ratios),
        bound=bound,
        slack=0.0,
        undecided=None
        if bound < math.inf
        else f"the inequality says nothing with {found[0].n_points} new observations: it needs more than {least:.0f}.",
        unit="ratio of mean squared errors",
        more=(Assumption(name="chosen on observations that were not trained on", holds=fresh),),
        details={
            "alpha": alpha,
            "candidates": found[0].n_candidates,
            "points": found[0].n_points,
            "chosen": [{"nu": h.nu, "t": h.t, "risk": h.risk, "best": h.best} for h in found],
            "endpoint_over_chosen": float(np.mean([d.endpoint[0] for d in draws]))
            / float(np.mean([h.risk for h in found])),
        },
    )
