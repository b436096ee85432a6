"""Data: generators with a seed, digits that ship with scikit-learn, and the user's own files."""

from .digits import digit_tokens as digit_tokens
from .files import load_tokens as load_tokens
from .files import load_weights as load_weights
from .generators import gaussian_tokens as gaussian_tokens
from .generators import orbit_tokens as orbit_tokens
from .generators import planted_tokens as planted_tokens
from .generators import planted_weights as planted_weights
from .tokens import Duplicates as Duplicates
from .tokens import Tie as Tie
from .tokens import TokenData as TokenData
