"""What `smoothed_sign_descent` says of a user's own rows."""

import numpy as np

from ._sign_setting import Setting


def inseparable(setting: Setting, *, intercept: bool) -> str:
    """Why nothing separates the rows, naming those that add up to zero; or that this could not be decided."""
    farkas = setting.linf.farkas
    if farkas is None:
        return (
            f"whether anything separates the classes could not be decided: {setting.linf.reason} "
            "Bring the columns to like sizes."
        )
    rows = np.flatnonzero(farkas > 0)
    named = ", ".join(f"{i} ({farkas[i]:.3g})" for i in rows[:6]) + (", ..." if len(rows) > 6 else "")
    text = (
        "nothing separates the classes through the origin: the rows y_i x_i, the first is 0, add up to zero with "
        f"these positive weights: {named}."
    )
    return text if intercept else f"{text} With a column of ones (`--intercept`) they may be separable."


def told_of_rows(setting: Setting, *, intercept: bool) -> list[str]:
    """What is certified of the rows."""
    gamma, l2 = setting.gamma * setting.unit, setting.l2.certificate.lower * setting.unit
    with_ones = ", with a column of ones" if intercept else ""
    return [
        f"separable through the origin{with_ones}: the largest l-infinity margin is gamma_inf = {gamma:.6g}, "
        f"the largest Euclidean one {l2:.6g}, both certified."
    ]
