"""Parametrisations of the models that are trained."""

from .attention import AbstractAttention as AbstractAttention
from .attention import DiagonalKeyQueryAttention as DiagonalKeyQueryAttention
from .attention import KeyQueryAttention as KeyQueryAttention
from .attention import MergedAttention as MergedAttention
from .attention import MergedDiagonalAttention as MergedDiagonalAttention
