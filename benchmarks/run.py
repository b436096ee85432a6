"""Every benchmark, one after the other, as one document.

    python benchmarks/run.py [--quick] [--only NAME ...] [--json FILE]

nuclear: the limit problem beside CVXPY; margins: the other norms beside CVXPY, HiGHS and scikit-learn; attention: 100
random instances beside the usual training loop; paths: saddle paths and the Lasso's beside LARS; saddles: a flow from
1e-60 beside SciPy and diffrax; quadratic: steps and flows of quadratic networks; filters: a grid of shifts and times
beside a loop of fits; directions: time to a given angle to the maximum margin beside descent, scikit-learn and CVXPY;
stopping: a grid of descents beside a plain loop; langevin: noisy gradient descent on 1e5 neurons beside a plain loop;
ranks: exact generic ranks of monomial networks beside a loop of SVDs; early_stopped: the estimator beside
LogisticRegressionCV and a hard margin on real data; growth: time, memory and operations with n, L, d; startup: fresh
processes; sweep: what a sweep costs beside a loop; pages: the report of each system.
It needs the extra `benchmarks` (CVXPY with its solvers, diffrax).
The whole takes some hours, most of it rivals that run into their limit of 120 CPU seconds; `--quick` some minutes.
"""

import argparse
import json
from pathlib import Path

import _timing
import attention
import directions
import early_stopped
import filters
import growth
import langevin
import margins
import nuclear
import pages
import paths
import quadratic
import ranks
import saddles
import startup
import stopping
import sweep

BENCHMARKS = {
    "nuclear": nuclear,
    "margins": margins,
    "attention": attention,
    "paths": paths,
    "saddles": saddles,
    "quadratic": quadratic,
    "filters": filters,
    "directions": directions,
    "stopping": stopping,
    "langevin": langevin,
    "ranks": ranks,
    "early_stopped": early_stopped,
    "growth": growth,
    "startup": startup,
    "sweep": sweep,
    "pages": pages,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller instances")
    parser.add_argument("--only", nargs="+", choices=list(BENCHMARKS), help="only these benchmarks")
    parser.add_argument("--json", metavar="FILE", help="also write every figure to this file")
    arguments = parser.parse_args()
    document = {"machine": _timing.machine()}
    _timing.show([_timing.machine_line(document["machine"])])
    for name in arguments.only or BENCHMARKS:
        document[name] = BENCHMARKS[name].measure(quick=arguments.quick)
        _timing.show(BENCHMARKS[name].tables(document[name]))
        if arguments.json:  # after each, so that a run that is interrupted leaves what it has measured
            Path(arguments.json).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
