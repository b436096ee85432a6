"""Parametrisations of the models that are trained."""

from .attention import AbstractAttention as AbstractAttention
from .attention import DiagonalKeyQueryAttention as DiagonalKeyQueryAttention
from .attention import KeyQueryAttention as KeyQueryAttention
from .attention import MergedAttention as MergedAttention
from .attention import MergedDiagonalAttention as MergedDiagonalAttention
from .definition import Answer as Answer
from .definition import Condition as Condition
from .definition import DefinitionReport as DefinitionReport
from .definition import check_definition as check_definition
from .diagonal import AbstractNeurons as AbstractNeurons
from .diagonal import NeuronFunctions as NeuronFunctions
from .diagonal import PowerDifference as PowerDifference
from .diagonal import ProductNeurons as ProductNeurons
from .diagonal import WeightedSquares as WeightedSquares
from .monomial import MonomialNetwork as MonomialNetwork
from .subnetworks import Subnetwork as Subnetwork
from .subnetworks import SubnetworkDistance as SubnetworkDistance
from .subnetworks import SubnetworkKind as SubnetworkKind
from .subnetworks import subnetwork as subnetwork
from .subnetworks import subnetwork_distance as subnetwork_distance
from .subnetworks import subnetwork_kinds as subnetwork_kinds
