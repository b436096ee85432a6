"""`omegalimit solve LIMIT` and `omegalimit certify LIMIT`: options in, files read, the library asked, a report out."""

import argparse
import json
import os
import sys
import time
from typing import Any

from ._shared import USAGE, Parser, complain, one_line, reader_left

LIMITS = {"max-margin": "the maximum margin max_W min_k <A_k, W> / |W| in a norm"}
_EXIT = {"optimal": 0, "certified": 0, "not separable": 1, "stalled": 3, "not certified": 3}
_ABOUT = {
    "solve": "Solve a limit problem and certify the answer from both sides.",
    "certify": "Recompute both bounds of a limit problem from the data, a point and multipliers alone.",
}
_EPILOG = {
    "solve": "exit status: 0 optimal; 1 not separable; 3 stalled; 2 wrong usage, bad input; 130 interrupted.",
    "certify": "exit status: 0 certified; 1 not separable; 3 not certified; 2 wrong usage, bad input; 130 interrupted.",
}
_NORM = "l1, l2, linf, lp, group-l1, fourier-l1 for vectors; frobenius, nuclear, spectral, schatten for matrices"
_DATA = (
    ".npz file with the constraints: `rows` (N, d) or (N, d1, d2); or `left` (N, d1) and `right` (N, d2), for "
    "matrices of rank one; or `X` and labels `y` of +1 and -1; or sparse rows, as scipy.sparse.save_npz writes them"
)
_INTERCEPT = "an intercept outside of the norm (free) or inside: it needs `X` with `y`, or `labels` beside the rows"
_GROUPS = "the groups of group-l1: text, one integer label a line, for each column in turn"


def command(name: str, arguments: list[str]) -> int:
    """Run `omegalimit NAME` (solve or certify) with the arguments after it, and return its exit status."""
    if not arguments:
        raise ValueError(f"which limit? `omegalimit {name} LIMIT`; there is: {', '.join(LIMITS)}.")
    if not arguments[0].startswith("-") and arguments[0] not in LIMITS:
        raise ValueError(f"there is no limit {arguments[0]!r}; there is: {', '.join(LIMITS)}.")
    options = _parse(name, arguments)
    if not 0 < options.tol < 1:
        raise ValueError(f"--tol must lie between 0 and 1, both excluded; got {options.tol:g}.")
    _check_files(options)
    from ..report import margins

    with margins.waiting(None if options.quiet else sys.stderr) as say:
        report, trouble = _report(name, options, say)
    try:
        if options.json:
            print(json.dumps(margins.document(report), indent=1, ensure_ascii=False, allow_nan=False))
        else:
            margins.show(report, sys.stdout)
        sys.stdout.flush()
    except BrokenPipeError:
        reader_left()
    return _EXIT[report.status] if trouble is None else complain(f"error: {trouble}", USAGE)


def _parse(name: str, arguments: list[str]) -> argparse.Namespace:
    parser = Parser(prog=f"omegalimit {name}", description=_ABOUT[name], epilog=_EPILOG[name], allow_abbrev=False)
    limits = parser.add_subparsers(dest="limit", metavar="LIMIT", required=True, parser_class=Parser)
    margin = limits.add_parser(
        "max-margin",
        help=LIMITS["max-margin"],
        description=f"{_ABOUT[name]} Here: {LIMITS['max-margin']}.",
        epilog=_EPILOG[name],
        allow_abbrev=False,
    )
    add = margin.add_argument
    add("--norm", required=True, metavar="NAME", help=_NORM)
    add("--p", type=float, metavar="P", help="the exponent of lp and schatten, above 1")
    add("--groups", metavar="FILE", help=_GROUPS)
    add("--intercept", choices=("none", "free", "penalised"), default="none", help=_INTERCEPT)
    add("--tol", type=float, default=1e-8, metavar="T", help="the relative gap asked for (default 1e-8)")
    add("--data", required=True, metavar="FILE", help=_DATA)
    if name == "solve":
        add("--out", required=True, metavar="FILE", help=".npz file to write: `point`, `multipliers`, `intercept`")
    else:
        add("--point", required=True, metavar="FILE", help=".npz file with `point`, and `multipliers`, `intercept`")
    add("--rigorous", action="store_true", help="prove the bounds too, in ball arithmetic")
    add("--proof", metavar="FILE", help=".json file to write: the proof, for tools/check_proof.py, which stands alone")
    add("--json", action="store_true", help="print one JSON document instead of the table")
    add("--quiet", action="store_true", help="show no progress")
    return parser.parse_args(arguments)


def _check_files(options: argparse.Namespace) -> None:
    """Refuse, before any work, to write over a file that is read or written under another option."""
    from ..data import check_writable

    keys = ("data", "groups", "point", "out", "proof")
    named = {key: getattr(options, key) for key in keys if getattr(options, key, None) is not None}
    places = {key: os.path.realpath(path) for key, path in named.items()}
    for key in [key for key in ("out", "proof") if key in named]:
        if other := next((k for k, place in places.items() if k != key and place == places[key]), None):
            raise ValueError(f"--{key} {named[key]} is the file of --{other} too; write another one.")
        check_writable(named[key])


def _report(name: str, options: argparse.Namespace, say: Any) -> tuple[Any, str | None]:
    """What was found, and what went wrong with the files to write, if anything: the result is shown all the same."""
    start = time.process_time()
    import scipy.sparse

    from .. import data
    from .._threads import one_blas_thread
    from ..limits.face import optimal_face
    from ..report.margins import MarginReport

    say("reading")
    given = data.load_margin_data(options.data)
    groups = None if options.groups is None else data.load_groups(options.groups, n_columns=given.n_columns)
    limit, notes = _limit(options, given, groups)
    if options.proof is not None and scipy.sparse.issparse(limit.rows):
        notes.append("check_proof.py reads dense arrays: to check this proof, save the rows with `numpy.savez` too.")
    say("solving" if name == "solve" else "certifying")
    with one_blas_thread():
        found = _solved(limit, options) if name == "solve" else _certified(limit, options, notes)
        face = optimal_face(limit, found["certificate"])
    say("writing and proving" if options.rigorous or options.proof else "writing")
    out, lost = _written(found["certificate"], options) if name == "solve" else (None, None)
    proven, proof, failed = _proven(limit, found["certificate"], options)
    report = MarginReport(
        **found,
        norm=limit.norm,
        p=limit.p,
        n_constraints=limit.n_constraints,
        shape=limit.shape,
        tol=options.tol,
        unique=face.unique,
        unique_reason=face.reason,
        proven=None if proven is None else (proven.lower, proven.upper),
        exact=proven is not None and proven.farkas is not None,
        data=given.typed,
        sha256=given.sha256,
        out=out,
        proof=proof,
        notes=tuple(notes),
        cpu_seconds=time.process_time() - start,
    )
    return report, lost or failed


def _limit(options: argparse.Namespace, given: Any, groups: Any) -> tuple[Any, list[str]]:
    """The problem that the options and the data state, and notes for the reader."""
    from ..limits import MaxMargin

    notes = [f"{given.typed}: {note}" for note in given.notes]
    rest = {"p": options.p, "groups": groups, "intercept": options.intercept}
    if options.norm == "group-l1" and groups is None:
        raise ValueError(
            "--norm group-l1 needs --groups FILE: text, one integer label a line, for each column in turn."
        )
    if "X" in given.arrays:
        return MaxMargin.from_labels(options.norm, given.arrays["X"], given.arrays["y"], **rest), notes
    if options.intercept != "none" and given.labels is None:
        raise ValueError(
            f"{given.typed}: --intercept {options.intercept} needs labels: put `labels` of +1 and -1, one for each "
            "constraint, beside the rows, or give `X` with `y`."
        )
    if options.intercept == "none" and given.labels is not None:
        notes.append(f"{given.typed}: `labels` are not used, as there is no intercept.")
    labels = None if options.intercept == "none" else given.labels
    return MaxMargin(options.norm, labels=labels, **given.arrays, **rest), notes


def _solved(limit: Any, options: argparse.Namespace) -> dict[str, Any]:
    from ..solvers import solve

    solution = solve(limit, options.tol)
    return {name: getattr(solution, name) for name in ("status", "reason", "certificate", "farkas")}


def _certified(limit: Any, options: argparse.Namespace, notes: list[str]) -> dict[str, Any]:
    """What the point in the file is worth; what is to be said of the file goes to `notes`."""
    from ..data import load_point
    from ..limits.judgement import NOT_SEPARABLE, OPTIMAL, judge
    from ..solvers._solve import separable_by_rows

    candidate = load_point(options.point)
    notes += [f"{candidate.typed}: {note}" for note in candidate.notes]
    try:
        certificate = limit.certify(candidate.point, candidate.multipliers, intercept=candidate.intercept)
    except ValueError as error:
        raise ValueError(f"{candidate.typed}: {error}") from None
    if candidate.multipliers is None:
        notes.append(
            f"{candidate.typed} has no `multipliers`: they were found by least squares, which loses accuracy; "
            "put a solver's dual values beside the point for the sharpest upper bound."
        )
    said = judge(limit, certificate, tol=options.tol, separable_by_rows=separable_by_rows)
    words = {OPTIMAL: "certified", NOT_SEPARABLE: "not separable"}
    found = {"reason": said.reason, "certificate": certificate, "farkas": said.farkas}
    return {"status": words.get(said.status, "not certified"), **found}


def _written(certificate: Any, options: argparse.Namespace) -> tuple[str | None, str | None]:
    """The file that the point is in, and why it is not, if it is not."""
    from ..data import save_point

    try:
        save_point(
            options.out,
            point=certificate.point,
            multipliers=certificate.multipliers,
            intercept=certificate.intercept,
        )
    except ValueError as error:
        return None, one_line(error)
    return options.out, None


def _proven(limit: Any, certificate: Any, options: argparse.Namespace) -> tuple[Any, str | None, str | None]:
    """The proved bounds, when they were asked for, the file that the proof is in, and why it is not, if it is not."""
    if not options.rigorous and options.proof is None:
        return None, None, None
    from ..rigorous import prove

    candidate = certificate.point, certificate.multipliers, certificate.intercept
    if options.proof is None:
        return prove(limit, *candidate), None, None
    from ..proof import write_proof

    try:
        return write_proof(options.proof, limit, *candidate), options.proof, None
    except (OSError, ValueError) as error:
        return None, None, f"no proof was written in {options.proof!r}: {one_line(error)}"
