"""The library's instruments on arrays of the user's own: no system of the catalogue is known here."""

from .margin_table import MarginTable as MarginTable
from .margin_table import Winner as Winner
from .margin_table import margin_table as margin_table
