"""`python -m omegalimit`: the same as the command `omegalimit`."""

import sys

from .cli import main

sys.exit(main())
