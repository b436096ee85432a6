"""How a problem is trained: one dynamics a file."""

from ._polish import Polished as Polished
from ._state import Arrival as Arrival
from ._state import measure as measure
from .gradient_descent import DescentResult as DescentResult
from .gradient_descent import gradient_descent as gradient_descent
from .gradient_flow import FlowResult as FlowResult
from .gradient_flow import Plateau as Plateau
from .gradient_flow import gradient_flow as gradient_flow
from .time_law import predicted_gap as predicted_gap
from .time_law import time_constant as time_constant
