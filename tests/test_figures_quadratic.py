"""Figures of positive quadratic networks, from made-up records."""

import numpy as np
import pytest
import xarray as xr

from _records import record
from omegalimit.report.figures import quadratic

NAMES = ["quadratic-rates", "quadratic-concentration", "quadratic-recovery", "quadratic-trace", "quadratic-steps"]


def run() -> xr.Dataset:
    """A flow that falls like e^-2t, and descent that halves every step; both end in exact zeros."""
    t, k = np.linspace(0, 10, 50), np.arange(40.0)
    return xr.Dataset(
        {
            "time": ("flow_point", t),
            "flow_residual": ("flow_point", np.where(t < 9, np.exp(-2 * t), 0.0)),
            "step": ("descent_point", k),
            "descent_residual": ("descent_point", 0.5**k),
        },
        attrs={"rate": 2.0, "factor": 0.5},
    )


def concentration() -> xr.Dataset:
    n = np.array([100, 1000, 10_000])
    spread = np.array([0.9, 1.0, 1.1])
    return xr.Dataset(
        {
            "deviation": (("size", "draw"), 3 * n[:, None] ** -0.5 * spread),
            "start_error": (("size", "draw"), 2 * n[:, None] ** -0.5 * spread),
        },
        coords={"size": n},
        attrs={
            f"{claim} {key}": value
            for claim in ("operator-concentration", "spectral-start")
            for key, value in (("slope", -0.5), ("intercept", 1.0), ("error", 0.01))
        },
    )


def recovery() -> xr.Dataset:
    """Two pairs and four sizes, the last never run."""
    return xr.Dataset(
        {
            "recovered": (("pair", "ratio_index"), [[0.0, 1.0, 1.0, np.nan], [0.0, 0.4, 1.0, np.nan]]),
            "guaranteed": (("pair", "ratio_index"), [[0.0, 0.0, 1.0, np.nan], [0.0, 0.0, 0.0, np.nan]]),
            "n": (("pair", "ratio_index"), [[4, 8, 40_000, 80_000], [9, 18, 90_000, 180_000]]),
            "begins": (("pair", "which"), [[8.0, 40_000.0], [90_000.0, np.inf]]),
        },
        coords={"pair": ["d = 4, r = 1", "d = 6, r = 2"], "ratio": ("ratio_index", [1.0, 2.0, 1e4, 2e4])},
    )


def least_trace() -> xr.Dataset:
    log_eps, costs = np.log([1e-2, 1e-4, 1e-6]), np.array([0.0, 0.3, 0.8])
    log_q = 2 * costs * log_eps[:, None]
    excess = np.exp(log_q) @ costs
    return xr.Dataset(
        {
            "log_eps": ("start", log_eps),
            "excess": ("start", excess),
            "predicted_excess": ("start", excess),
            "log_q": (("start", "entry"), log_q),
            "reduced_cost": ("entry", costs),
        }
    )


def steps() -> xr.Dataset:
    eta = 0.1 / 2.0 ** np.arange(4)
    corrected = np.where(np.arange(4) == 0, np.nan, eta**2)
    return xr.Dataset({"step_size": ("halving", eta), "plain": ("halving", eta), "corrected": ("halving", corrected)})


def everything() -> dict[str, xr.Dataset]:
    return {
        "gaussian/run": run(),
        "gaussian/concentration": concentration(),
        "gaussian/recovery": recovery(),
        "commuting/least-trace": least_trace(),
        "commuting/steps": steps(),
    }


def drawn(arrays: dict[str, xr.Dataset]) -> dict:
    return {name: figure for name, figure in quadratic.draw(record(arrays)).items() if figure is not None}


def test_every_figure_is_drawn_and_can_be_saved(tmp_path):
    figures = drawn(everything())
    assert list(figures) == NAMES
    for name, figure in figures.items():
        figure.savefig(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000


def test_nothing_is_drawn_of_nothing_nor_of_counter_instances():
    assert drawn({}) == {}
    assert drawn({f"counters/too-large-step/{name}": data for name, data in everything().items()}) == {}


@pytest.mark.parametrize(("group", "missing", "name"), [
    ("gaussian/run", "flow_residual", "quadratic-rates"),
    ("gaussian/concentration", "deviation", "quadratic-concentration"),
    ("gaussian/recovery", "recovered", "quadratic-recovery"),
    ("commuting/least-trace", "excess", "quadratic-trace"),
    ("commuting/steps", "plain", "quadratic-steps"),
])  # fmt: skip
def test_what_is_missing_or_has_no_number_is_left_out(group, missing, name):
    arrays = everything()
    arrays[group] = arrays[group].drop_vars(missing)
    assert name not in drawn(arrays)
    arrays[group][missing] = everything()[group][missing] * np.nan
    assert name not in drawn(arrays)


def test_the_predicted_rate_is_drawn_through_the_last_point_that_is_no_rounding():
    flow, descent = drawn(everything())["quadratic-rates"].axes
    for axes, slope in ((flow, -2 / np.log(10)), (descent, np.log10(0.5))):
        curve, line = axes.lines
        x, y = line.get_data()
        seen = np.isfinite(y)
        np.testing.assert_allclose(np.diff(y[seen]) / np.diff(x[seen]), slope, rtol=1e-9)
        assert y[seen][-1] == pytest.approx(curve.get_ydata()[-1], abs=1e-9)
    assert "exp(−2 t)" in flow.get_legend().get_texts()[1].get_text()
    assert "× 0.5 a step" in descent.get_legend().get_texts()[1].get_text()
    # Exact zeros have no logarithm and are not drawn.
    assert np.isfinite(flow.lines[0].get_ydata()).all()


def test_without_a_prediction_the_curves_are_drawn_alone():
    arrays = {"gaussian/run": run().assign_attrs(rate=np.nan, factor=1.5)}
    flow, descent = drawn(arrays)["quadratic-rates"].axes
    assert len(flow.lines) == 1
    assert len(descent.lines) == 2  # a factor above one is a prediction: it grows


def test_the_recovery_diagram_frames_what_is_guaranteed_and_drops_what_was_never_run():
    left, right, _ = drawn(everything())["quadratic-recovery"].axes
    image = left.images[0].get_array()
    assert image.shape == (2, 3)
    assert [text.get_text() for text in left.texts] == ["4", "8", "40k", "9", "18", "90k"]
    assert len(left.patches) == 1  # one cell is guaranteed
    assert [text.get_text() for text in right.texts] == ["× 5000"]  # the other pair has no guarantee


def test_the_fitted_exponent_is_named_with_its_error():
    for axes in drawn(everything())["quadratic-concentration"].axes:
        assert axes.get_legend().get_texts()[0].get_text() == "fit: n^(-0.500 ± 0.010)"


def test_eigenvalues_lie_on_the_slopes_of_their_costs():
    _, axes = drawn(everything())["quadratic-trace"].axes
    for measured, law in zip(axes.lines[::2], axes.lines[1::2], strict=True):
        np.testing.assert_allclose(measured.get_ydata(), law.get_ydata(), atol=1e-9)


def test_the_orders_are_drawn_through_the_smallest_step():
    axes = drawn(everything())["quadratic-steps"].axes[0]
    plain, first, _, second = axes.lines
    np.testing.assert_allclose(first.get_ydata(), plain.get_ydata(), rtol=1e-12)
    assert second.get_ydata()[0] == pytest.approx(0.01, rel=1e-12)  # where descent itself did not arrive
