"""Prints which offsets a reset would commit; `headwater reset` runs it, because it needs Kafka.

python -m headwater.cli.resetplan ROOT APP WHERE
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli import localapps
from headwater.errors import HeadwaterError
from headwater.kafka.access import Access
from headwater.model import resetting
from headwater.model.partitions import external_topics
from headwater.service.resetting import offsets_planned

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Print the plan; return the exit code."""
    root, name, where = Path(arguments[0]), arguments[1], arguments[2]
    try:
        chosen = localapps.named(root, name)
        with localapps.broker_of(root, {name: chosen}, None) as address:
            config = chosen.config(address)
            report = chosen.topology(address).report(config.application_id)
            access = Access.of(config, client_id=f"{config.application_id}-reset")
            plan = offsets_planned(
                access.admin,
                config.application_id,
                resetting.parse(where),
                external_topics(report),
            )
    except HeadwaterError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    print("\n".join(resetting.table(plan)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
