"""A folder of records as one thing. See `open_folder`."""

from .cells import SCHEMA as SCHEMA
from .cells import Cell as Cell
from .cells import Failure as Failure
from .cells import read_failures as read_failures
from .cells import write_failure as write_failure
from .cells import write_text as write_text
from .folder import Folder as Folder
from .folder import append_index as append_index
from .folder import index_line as index_line
from .folder import open_folder as open_folder
from .folder import read_plan as read_plan
from .summary import ClaimSummary as ClaimSummary
from .summary import clopper_pearson as clopper_pearson
