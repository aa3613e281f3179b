"""``headwater spark`` that looks every second whether somebody else is in the group.

``python -m tests.support.watchful_driver spark …``
"""

from __future__ import annotations

import sys

from headwater.cli.main import main
from headwater.spark.turns import others

if __name__ == "__main__":
    others.LOOK_S = 1.0
    sys.exit(main())
