"""Where does training go? Dynamics integrated to arrival, the limit problem that theory predicts, a verdict on both.

The public names are loaded on first use, so that `import omegalimit` costs nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .catalogue import SYSTEMS as SYSTEMS
    from .catalogue import load as load
    from .certificate import Certificate as Certificate
    from .claims import Assumption as Assumption
    from .claims import Kind as Kind
    from .claims import Outcome as Outcome
    from .claims import Verdict as Verdict
    from .data import TokenData as TokenData
    from .estimators import MaxMarginClassifier as MaxMarginClassifier
    from .flows import Arrival as Arrival
    from .flows import DescentResult as DescentResult
    from .flows import FlowResult as FlowResult
    from .flows import gradient_descent as gradient_descent
    from .flows import gradient_flow as gradient_flow
    from .flows import measure as measure
    from .flows import predicted_gap as predicted_gap
    from .flows import time_constant as time_constant
    from .limits import Face as Face
    from .limits import MaxMargin as MaxMargin
    from .limits import margin_ratio as margin_ratio
    from .limits import optimal_face as optimal_face
    from .problem import AttentionProblem as AttentionProblem
    from .problem import MarginProblem as MarginProblem
    from .proof import write_proof as write_proof
    from .record import Record as Record
    from .record import read as read_record  # noqa: F401 - for type checkers, under its public name
    from .record import write as write_record  # noqa: F401 - as above
    from .rigorous import ProvenBounds as ProvenBounds
    from .rigorous import prove as prove
    from .solvers import Solution as Solution
    from .solvers import solve as solve
    from .trajectory import Ending as Ending
    from .trajectory import Trajectory as Trajectory

    __version__: str

# Public name -> where it lives, "module:attribute". To add one: a line here and a line above, held together by a test.
_PUBLIC = {
    "gradient_flow": "flows:gradient_flow",
    "gradient_descent": "flows:gradient_descent",
    "FlowResult": "flows:FlowResult",
    "DescentResult": "flows:DescentResult",
    "Arrival": "flows:Arrival",
    "measure": "flows:measure",
    "predicted_gap": "flows:predicted_gap",
    "time_constant": "flows:time_constant",
    "MarginProblem": "problem:MarginProblem",
    "AttentionProblem": "problem:AttentionProblem",
    "TokenData": "data:TokenData",
    "Trajectory": "trajectory:Trajectory",
    "Ending": "trajectory:Ending",
    "Assumption": "claims:Assumption",
    "Certificate": "certificate:Certificate",
    "Kind": "claims:Kind",
    "MaxMargin": "limits:MaxMargin",
    "MaxMarginClassifier": "estimators:MaxMarginClassifier",
    "Face": "limits:Face",
    "margin_ratio": "limits:margin_ratio",
    "optimal_face": "limits:optimal_face",
    "ProvenBounds": "rigorous:ProvenBounds",
    "prove": "rigorous:prove",
    "write_proof": "proof:write_proof",
    "Outcome": "claims:Outcome",
    "Record": "record:Record",
    "SYSTEMS": "catalogue:SYSTEMS",
    "Solution": "solvers:Solution",
    "Verdict": "claims:Verdict",
    "load": "catalogue:load",
    "read_record": "record:read",
    "solve": "solvers:solve",
    "write_record": "record:write",
}

__all__ = sorted([*_PUBLIC, "__version__"])  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value = version("omegalimit")
    elif name in _PUBLIC:
        from importlib import import_module

        module, attribute = _PUBLIC[name].split(":")
        value = getattr(import_module(f".{module}", __name__), attribute)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
