"""Data: generators with a seed, digits that ship with scikit-learn, and the user's own files."""

from .digits import digit_tokens as digit_tokens
from .files import load_tokens as load_tokens
from .files import load_weights as load_weights
from .generators import gaussian_tokens as gaussian_tokens
from .generators import orbit_tokens as orbit_tokens
from .generators import planted_tokens as planted_tokens
from .generators import planted_weights as planted_weights
from .margin_files import MarginData as MarginData
from .margin_files import load_groups as load_groups
from .margin_files import load_margin_data as load_margin_data
from .point_files import PointData as PointData
from .point_files import check_writable as check_writable
from .point_files import load_point as load_point
from .point_files import save_point as save_point
from .tokens import Duplicates as Duplicates
from .tokens import Tie as Tie
from .tokens import TokenData as TokenData
