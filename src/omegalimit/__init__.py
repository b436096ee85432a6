"""Where does training go? Dynamics integrated to arrival, the limit problem that theory predicts, a verdict on both.

The public names are loaded on first use, so that `import omegalimit` costs nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .catalogue import SYSTEMS as SYSTEMS
    from .catalogue import AbstractSystem as AbstractSystem
    from .catalogue import Counter as Counter
    from .catalogue import Findings as Findings
    from .catalogue import load as load
    from .certificate import BarrierCertificate as BarrierCertificate
    from .certificate import Certificate as Certificate
    from .certificate import LeastCertificate as LeastCertificate
    from .claims import Assumption as Assumption
    from .claims import Kind as Kind
    from .claims import Outcome as Outcome
    from .claims import Verdict as Verdict
    from .data import ClassificationData as ClassificationData
    from .data import CommutingMeasurements as CommutingMeasurements
    from .data import DenseMeasurements as DenseMeasurements
    from .data import EntryMeasurements as EntryMeasurements
    from .data import Mixture as Mixture
    from .data import RankOneMeasurements as RankOneMeasurements
    from .data import RegressionData as RegressionData
    from .data import Sample as Sample
    from .data import TokenData as TokenData
    from .data import commuting_measurements as commuting_measurements
    from .data import completion_measurements as completion_measurements
    from .data import gaussian_measurements as gaussian_measurements
    from .data import load_classification as load_classification
    from .data import load_measurements as load_measurements
    from .data import load_regression as load_regression
    from .data import pushed_gaussians as pushed_gaussians
    from .data import sign_gaussians as sign_gaussians
    from .data import sparse_regression as sparse_regression
    from .data.spike_designs import flat_tail as flat_tail
    from .data.spike_designs import power_tail as power_tail
    from .data.spike_designs import spike_design as spike_design
    from .diagnose import MarginTable as MarginTable
    from .diagnose import Winner as Winner
    from .diagnose import margin_table as margin_table
    from .estimators import EarlyStoppedLogisticRegression as EarlyStoppedLogisticRegression
    from .estimators import MaxMarginClassifier as MaxMarginClassifier
    from .estimators import ShiftedDescentRegressor as ShiftedDescentRegressor
    from .flows import Arrival as Arrival
    from .flows import Clusters as Clusters
    from .flows import DescentEnding as DescentEnding
    from .flows import DescentResult as DescentResult
    from .flows import DiagonalEnding as DiagonalEnding
    from .flows import DiagonalFlow as DiagonalFlow
    from .flows import ExtendedDescent as ExtendedDescent
    from .flows import FlowResult as FlowResult
    from .flows import Langevin as Langevin
    from .flows import LogisticDescent as LogisticDescent
    from .flows import MonomialDescent as MonomialDescent
    from .flows import OptimiserDescent as OptimiserDescent
    from .flows import SeparableDescent as SeparableDescent
    from .flows import SeparableEnding as SeparableEnding
    from .flows import SeparableFlow as SeparableFlow
    from .flows import SeparablePath as SeparablePath
    from .flows import ShiftedPath as ShiftedPath
    from .flows import SignSteps as SignSteps
    from .flows import SmoothedSignDescent as SmoothedSignDescent
    from .flows import StepCounts as StepCounts
    from .flows import diagonal_descent as diagonal_descent
    from .flows import diagonal_flow as diagonal_flow
    from .flows import factor_flow as factor_flow
    from .flows import gradient_descent as gradient_descent
    from .flows import gradient_flow as gradient_flow
    from .flows import kl_divergence as kl_divergence
    from .flows import langevin as langevin
    from .flows import logistic_descent as logistic_descent
    from .flows import measure as measure
    from .flows import mirror_descent as mirror_descent
    from .flows import mirror_flow as mirror_flow
    from .flows import monomial_descent as monomial_descent
    from .flows import optimiser_descent as optimiser_descent
    from .flows import predicted_gap as predicted_gap
    from .flows import quadratic_descent as quadratic_descent
    from .flows import quotient_flow as quotient_flow
    from .flows import separable_descent as separable_descent
    from .flows import separable_flow as separable_flow
    from .flows import shifted_descent as shifted_descent
    from .flows import shifted_flow as shifted_flow
    from .flows import smoothed_sign_descent as smoothed_sign_descent
    from .flows import smoothness as smoothness
    from .flows import time_constant as time_constant
    from .limits import Arrangement as Arrangement
    from .limits import Barrier as Barrier
    from .limits import Cells as Cells
    from .limits import Concentration as Concentration
    from .limits import ConvexReluNet as ConvexReluNet
    from .limits import DepthPotential as DepthPotential
    from .limits import DirectionLaw as DirectionLaw
    from .limits import Face as Face
    from .limits import FaceEntropy as FaceEntropy
    from .limits import Faces as Faces
    from .limits import HyperbolicEntropy as HyperbolicEntropy
    from .limits import Interpolation as Interpolation
    from .limits import MaxMargin as MaxMargin
    from .limits import MeasureCertificate as MeasureCertificate
    from .limits import MeasureLaw as MeasureLaw
    from .limits import MinimumNorm as MinimumNorm
    from .limits import MixtureRisk as MixtureRisk
    from .limits import ModifiedL1 as ModifiedL1
    from .limits import NetCertificate as NetCertificate
    from .limits import RelativeEntropy as RelativeEntropy
    from .limits import ShallowThreshold as ShallowThreshold
    from .limits import SquaredNorm as SquaredNorm
    from .limits import StationaryMeasure as StationaryMeasure
    from .limits import cover_count as cover_count
    from .limits import criticality_threshold as criticality_threshold
    from .limits import direction_law as direction_law
    from .limits import entropy_on_face as entropy_on_face
    from .limits import face_count as face_count
    from .limits import generic_shallow_rank as generic_shallow_rank
    from .limits import generic_threshold as generic_threshold
    from .limits import margin_ratio as margin_ratio
    from .limits import minimum_norm as minimum_norm
    from .limits import optimal_face as optimal_face
    from .limits import shallow_rank as shallow_rank
    from .limits.excess_risk import ExcessRisk as ExcessRisk
    from .limits.excess_risk import hold_out_factor as hold_out_factor
    from .limits.growth_times import GrowthTimes as GrowthTimes
    from .limits.growth_times import deep_growth_times as deep_growth_times
    from .limits.growth_times import two_layer_growth_times as two_layer_growth_times
    from .limits.lasso_path import LassoPath as LassoPath
    from .limits.quotient import EffectiveHessian as EffectiveHessian
    from .limits.quotient import effective_hessian as effective_hessian
    from .limits.quotient import population_spectrum as population_spectrum
    from .limits.quotient import spectral_start as spectral_start
    from .limits.recovery import RecoveryGuarantee as RecoveryGuarantee
    from .limits.recovery import recovery_guarantee as recovery_guarantee
    from .limits.saddle_path import PathCertificate as PathCertificate
    from .limits.saddle_path import SaddlePath as SaddlePath
    from .limits.spectral_filters import crossing as crossing
    from .limits.spectral_filters import descent_crossings as descent_crossings
    from .limits.spectral_filters import descent_filter as descent_filter
    from .limits.spectral_filters import flow_filter as flow_filter
    from .limits.spectral_filters import negative_ridge_filter as negative_ridge_filter
    from .limits.spectral_filters import ridge_filter as ridge_filter
    from .losses import PolynomialTail as PolynomialTail
    from .models import MonomialNetwork as MonomialNetwork
    from .models import NeuronFunctions as NeuronFunctions
    from .models import PowerDifference as PowerDifference
    from .models import ProductNeurons as ProductNeurons
    from .models import Subnetwork as Subnetwork
    from .models import SubnetworkDistance as SubnetworkDistance
    from .models import SubnetworkKind as SubnetworkKind
    from .models import WeightedSquares as WeightedSquares
    from .models import subnetwork as subnetwork
    from .models import subnetwork_distance as subnetwork_distance
    from .models import subnetwork_kinds as subnetwork_kinds
    from .models.definition import check_definition as check_definition
    from .problem import AttentionProblem as AttentionProblem
    from .problem import MarginProblem as MarginProblem
    from .proof import write_proof as write_proof
    from .record import About as About
    from .record import Record as Record
    from .record import read as read_record  # noqa: F401 - for type checkers, under its public name
    from .record import write as write_record  # noqa: F401 - as above
    from .report.notebook import Figures as Figures
    from .report.notebook import Page as Page
    from .report.notebook import figures as figures
    from .report.notebook import page as page
    from .rigorous import FloatRank as FloatRank
    from .rigorous import GenericRank as GenericRank
    from .rigorous import JacobianRank as JacobianRank
    from .rigorous import ProvenBounds as ProvenBounds
    from .rigorous import RankTable as RankTable
    from .rigorous import expected_rank as expected_rank
    from .rigorous import float_rank as float_rank
    from .rigorous import generic_rank as generic_rank
    from .rigorous import jacobian_rank as jacobian_rank
    from .rigorous import prove as prove
    from .rigorous import rank_table as rank_table
    from .solvers import BarrierPath as BarrierPath
    from .solvers import Solution as Solution
    from .solvers import barrier_path as barrier_path
    from .solvers import convex_relu as convex_relu
    from .solvers import solve as solve
    from .solvers import stationary_measure as stationary_measure
    from .solvers.lasso_path import LassoSolution as LassoSolution
    from .solvers.lasso_path import lasso_path as lasso_path
    from .solvers.saddle_path import PathSolution as PathSolution
    from .solvers.saddle_path import saddle_path as saddle_path
    from .solvers.shift_selection import ShiftChoice as ShiftChoice
    from .solvers.shift_selection import choose_shift as choose_shift
    from .solvers.shift_selection import fit_shift as fit_shift
    from .store import Cell as Cell
    from .store import ClaimSummary as ClaimSummary
    from .store import Failure as Failure
    from .store import Folder as Folder
    from .store import open_folder as open_folder
    from .sweep import run_sweep as run_sweep
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
    "RegressionData": "data:RegressionData",
    "load_regression": "data:load_regression",
    "ShiftedDescentRegressor": "estimators:ShiftedDescentRegressor",
    "choose_shift": "solvers.shift_selection:choose_shift",
    "fit_shift": "solvers.shift_selection:fit_shift",
    "ShiftChoice": "solvers.shift_selection:ShiftChoice",
    "LeastCertificate": "certificate:LeastCertificate",
    "Interpolation": "limits:Interpolation",
    "ModifiedL1": "limits:ModifiedL1",
    "SquaredNorm": "limits:SquaredNorm",
    "RelativeEntropy": "limits:RelativeEntropy",
    "HyperbolicEntropy": "limits:HyperbolicEntropy",
    "DepthPotential": "limits:DepthPotential",
    "FaceEntropy": "limits:FaceEntropy",
    "entropy_on_face": "limits:entropy_on_face",
    "MinimumNorm": "limits:MinimumNorm",
    "minimum_norm": "limits:minimum_norm",
    "load_measurements": "data:load_measurements",
    "commuting_measurements": "data:commuting_measurements",
    "completion_measurements": "data:completion_measurements",
    "gaussian_measurements": "data:gaussian_measurements",
    "CommutingMeasurements": "data:CommutingMeasurements",
    "DenseMeasurements": "data:DenseMeasurements",
    "EntryMeasurements": "data:EntryMeasurements",
    "RankOneMeasurements": "data:RankOneMeasurements",
    "factor_flow": "flows:factor_flow",
    "quotient_flow": "flows:quotient_flow",
    "mirror_flow": "flows:mirror_flow",
    "quadratic_descent": "flows:quadratic_descent",
    "mirror_descent": "flows:mirror_descent",
    "SaddlePath": "limits.saddle_path:SaddlePath",
    "PathCertificate": "limits.saddle_path:PathCertificate",
    "LassoPath": "limits.lasso_path:LassoPath",
    "GrowthTimes": "limits.growth_times:GrowthTimes",
    "two_layer_growth_times": "limits.growth_times:two_layer_growth_times",
    "deep_growth_times": "limits.growth_times:deep_growth_times",
    "saddle_path": "solvers.saddle_path:saddle_path",
    "PathSolution": "solvers.saddle_path:PathSolution",
    "lasso_path": "solvers.lasso_path:lasso_path",
    "LassoSolution": "solvers.lasso_path:LassoSolution",
    "ExcessRisk": "limits.excess_risk:ExcessRisk",
    "hold_out_factor": "limits.excess_risk:hold_out_factor",
    "flow_filter": "limits.spectral_filters:flow_filter",
    "descent_filter": "limits.spectral_filters:descent_filter",
    "ridge_filter": "limits.spectral_filters:ridge_filter",
    "negative_ridge_filter": "limits.spectral_filters:negative_ridge_filter",
    "crossing": "limits.spectral_filters:crossing",
    "descent_crossings": "limits.spectral_filters:descent_crossings",
    "shifted_descent": "flows:shifted_descent",
    "shifted_flow": "flows:shifted_flow",
    "spike_design": "data.spike_designs:spike_design",
    "flat_tail": "data.spike_designs:flat_tail",
    "power_tail": "data.spike_designs:power_tail",
    "effective_hessian": "limits.quotient:effective_hessian",
    "EffectiveHessian": "limits.quotient:EffectiveHessian",
    "population_spectrum": "limits.quotient:population_spectrum",
    "spectral_start": "limits.quotient:spectral_start",
    "recovery_guarantee": "limits.recovery:recovery_guarantee",
    "RecoveryGuarantee": "limits.recovery:RecoveryGuarantee",
    "diagonal_flow": "flows:diagonal_flow",
    "DiagonalFlow": "flows:DiagonalFlow",
    "DiagonalEnding": "flows:DiagonalEnding",
    "diagonal_descent": "flows:diagonal_descent",
    "ProductNeurons": "models:ProductNeurons",
    "PowerDifference": "models:PowerDifference",
    "NeuronFunctions": "models:NeuronFunctions",
    "check_definition": "models.definition:check_definition",
    "sparse_regression": "data:sparse_regression",
    "ShiftedPath": "flows:ShiftedPath",
    "WeightedSquares": "models:WeightedSquares",
    "ClassificationData": "data:ClassificationData",
    "load_classification": "data:load_classification",
    "pushed_gaussians": "data:pushed_gaussians",
    "sign_gaussians": "data:sign_gaussians",
    "Mixture": "data:Mixture",
    "Sample": "data:Sample",
    "separable_flow": "flows:separable_flow",
    "SeparableFlow": "flows:SeparableFlow",
    "SeparableEnding": "flows:SeparableEnding",
    "separable_descent": "flows:separable_descent",
    "SeparableDescent": "flows:SeparableDescent",
    "smoothed_sign_descent": "flows:smoothed_sign_descent",
    "SmoothedSignDescent": "flows:SmoothedSignDescent",
    "SignSteps": "flows:SignSteps",
    "kl_divergence": "flows:kl_divergence",
    "optimiser_descent": "flows:optimiser_descent",
    "OptimiserDescent": "flows:OptimiserDescent",
    "logistic_descent": "flows:logistic_descent",
    "LogisticDescent": "flows:LogisticDescent",
    "Barrier": "limits:Barrier",
    "direction_law": "limits:direction_law",
    "DirectionLaw": "limits:DirectionLaw",
    "MixtureRisk": "limits:MixtureRisk",
    "barrier_path": "solvers:barrier_path",
    "BarrierPath": "solvers:BarrierPath",
    "BarrierCertificate": "certificate:BarrierCertificate",
    "margin_table": "diagnose:margin_table",
    "MarginTable": "diagnose:MarginTable",
    "Winner": "diagnose:Winner",
    "EarlyStoppedLogisticRegression": "estimators:EarlyStoppedLogisticRegression",
    "PolynomialTail": "losses:PolynomialTail",
    "SeparablePath": "flows:SeparablePath",
    "DescentEnding": "flows:DescentEnding",
    "ExtendedDescent": "flows:ExtendedDescent",
    "StepCounts": "flows:StepCounts",
    "smoothness": "flows:smoothness",
    "Arrangement": "limits:Arrangement",
    "Cells": "limits:Cells",
    "Faces": "limits:Faces",
    "cover_count": "limits:cover_count",
    "face_count": "limits:face_count",
    "ConvexReluNet": "limits:ConvexReluNet",
    "NetCertificate": "limits:NetCertificate",
    "StationaryMeasure": "limits:StationaryMeasure",
    "MeasureCertificate": "limits:MeasureCertificate",
    "ShallowThreshold": "limits:ShallowThreshold",
    "shallow_rank": "limits:shallow_rank",
    "criticality_threshold": "limits:criticality_threshold",
    "langevin": "flows:langevin",
    "Langevin": "flows:Langevin",
    "Clusters": "flows:Clusters",
    "monomial_descent": "flows:monomial_descent",
    "MonomialDescent": "flows:MonomialDescent",
    "MonomialNetwork": "models:MonomialNetwork",
    "Subnetwork": "models:Subnetwork",
    "SubnetworkDistance": "models:SubnetworkDistance",
    "SubnetworkKind": "models:SubnetworkKind",
    "subnetwork": "models:subnetwork",
    "subnetwork_distance": "models:subnetwork_distance",
    "subnetwork_kinds": "models:subnetwork_kinds",
    "JacobianRank": "rigorous:JacobianRank",
    "GenericRank": "rigorous:GenericRank",
    "FloatRank": "rigorous:FloatRank",
    "RankTable": "rigorous:RankTable",
    "expected_rank": "rigorous:expected_rank",
    "generic_rank": "rigorous:generic_rank",
    "jacobian_rank": "rigorous:jacobian_rank",
    "float_rank": "rigorous:float_rank",
    "rank_table": "rigorous:rank_table",
    "generic_shallow_rank": "limits:generic_shallow_rank",
    "generic_threshold": "limits:generic_threshold",
    "MeasureLaw": "limits:MeasureLaw",
    "Concentration": "limits:Concentration",
    "stationary_measure": "solvers:stationary_measure",
    "convex_relu": "solvers:convex_relu",
    "open_folder": "store:open_folder",
    "Folder": "store:Folder",
    "Cell": "store:Cell",
    "Failure": "store:Failure",
    "ClaimSummary": "store:ClaimSummary",
    "About": "record:About",
    "page": "report.notebook:page",
    "figures": "report.notebook:figures",
    "Page": "report.notebook:Page",
    "Figures": "report.notebook:Figures",
    "run_sweep": "sweep:run_sweep",
    "AbstractSystem": "catalogue:AbstractSystem",
    "Findings": "catalogue:Findings",
    "Counter": "catalogue:Counter",
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
