"""``python -m headwater_entry``: the command line ``headwater``."""

import sys

from headwater_entry import main

if __name__ == "__main__":
    sys.exit(main())
